"""`copyrator run`: the operator itself, also with the arguments of the programs that it replaces.

The copy operator took no subcommand, the role-binding controller took flags as Go's package `flag`
reads them: `-name`, `-name=value`, `-switch=true`. An image's arguments still start the operator.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

import click

from copyrator.runtime import flags

OUTSIDE = "--run-outside-cluster"
"""The role-binding controller's flag; alone it selects the operator."""

_GO_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_GO_FALSE = ("0", "f", "F", "FALSE", "false", "False")
"""As strconv.ParseBool accepts them (https://pkg.go.dev/strconv#ParseBool)."""
_LONG = re.compile(r"--?([a-z][a-z-]+)(=.*)?", re.DOTALL)


def run_arguments(args: Sequence[str]) -> list[str]:
    """Arguments of `run`: those in Go's forms converted for click, the others unchanged.

    Raises:
        click.BadParameter: a switch has a value that must be true or false.
    """
    known, found = _flags(), list[str]()
    for position, arg in enumerate(args):
        if arg == "--":
            return [*found, *args[position:]]
        given = _LONG.fullmatch(arg)
        if given is None or f"--{given[1]}" not in known:
            found.append(arg)
        elif given[2] is None or not known[f"--{given[1]}"]:
            found.append(f"--{given[1]}{given[2] or ''}")
        elif given[2][1:] in _GO_TRUE:
            found.append(f"--{given[1]}")
        elif given[2][1:] not in _GO_FALSE:
            raise click.BadParameter(
                f"{given[2][1:]!r} must be true or false.", param_hint=f"--{given[1]}"
            )
    return found


def with_command(ctx: click.Context, args: Sequence[str]) -> list[str]:
    """The whole command line, with `run` prepended where it has an original's arguments only.

    That is so in a pod, and elsewhere where `-run-outside-cluster` is among them. Without any
    argument a terminal gets the help, in a pod too.

    Raises:
        click.UsageError: the operator's flags without a command, outside a pod.
    """
    in_pod = "KUBERNETES_SERVICE_HOST" in os.environ
    if not args:
        return ["run"] if in_pod and not sys.stdin.isatty() else []
    first = _LONG.fullmatch(args[0])
    if first is None or f"--{first[1]}" not in _flags():
        return list(args)
    spelled = run_arguments(args)
    if in_pod or OUTSIDE in spelled:
        return ["run", *spelled]
    command = " ".join(["copyrator", "run", *spelled])
    raise click.UsageError(
        f"{args[0]} is an option of a command, and no command is given. To start the operator: "
        f"{command}",
        ctx,
    )


def _flags() -> dict[str, bool]:
    """The long flags of `run`, and whether each is a switch."""
    return {
        flag: isinstance(option, click.Option) and option.is_flag
        for option in flags.parameters()
        for flag in (*option.opts, *option.secondary_opts)
    }


class _Run(click.Command):
    """Accepts its flags in Go's forms, too, as the role-binding controller did."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, run_arguments(args))


@click.command(cls=_Run, params=flags.parameters())
def run(**values: Any) -> None:
    """Run the operator until SIGTERM or SIGINT.

    Each option also has an environment variable; an option beats its variable.
    """
    gc.enable()  # see main
    from copyrator.runtime import supervisor  # noqa: PLC0415 - so that --help doesn't wait for kopf

    raise SystemExit(supervisor.run(flags.from_options(values)))
