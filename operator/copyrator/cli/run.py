"""`copyrator run`: the operator itself."""

from __future__ import annotations

from typing import Any

import click

from copyrator import options


@click.command()
@options.options
def run(**values: Any) -> None:
    """Run the operator until SIGTERM or SIGINT.

    Each option also has an environment variable; an option beats its variable.
    """
    from copyrator import supervisor  # noqa: PLC0415 - so that --help doesn't wait for kopf

    raise SystemExit(supervisor.run(options.from_options(values)))
