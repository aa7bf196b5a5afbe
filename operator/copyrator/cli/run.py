"""`copyrator run`: the operator itself."""

from __future__ import annotations

from typing import Any

import click

from copyrator.cli.originals import run_arguments
from copyrator.settings import options


class _Run(click.Command):
    """Accepts its flags in Go's forms, too, as the role-binding controller did."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, run_arguments(args))


@click.command(cls=_Run)
@options.options
def run(**values: Any) -> None:
    """Run the operator until SIGTERM or SIGINT.

    Each option also has an environment variable; an option beats its variable.
    """
    from copyrator.runtime import supervisor  # noqa: PLC0415 - so that --help doesn't wait for kopf

    raise SystemExit(supervisor.run(options.from_options(values)))
