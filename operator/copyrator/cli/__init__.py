"""The command line: `copyrator`, and `kubectl copyrator` under its other name.

Commands live in a module per group and are imported when they are called, so that `--help` and the
quick commands don't wait for the Kubernetes client.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import PurePath

import click

from copyrator import __version__

_COMMANDS = {
    "run": "copyrator.cli.run:run",
}
"""Command to `module:function`. Their short helps come from the functions' docstrings."""


class _LazyGroup(click.Group):
    """Imports a command's module when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        target = _COMMANDS.get(cmd_name)
        if target is None:
            return None
        module, _, function = target.partition(":")
        command = getattr(importlib.import_module(module), function)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Copies objects between namespaces by rule and deploys werf bundles from OCI registries."""


def main() -> None:
    """Entry point of `copyrator`, `kubectl-copyrator` and `python -m copyrator`."""
    name = PurePath(sys.argv[0]).name
    if name.startswith("kubectl-"):
        name = name.replace("kubectl-", "kubectl ", 1)  # how the user typed it
    elif name == "__main__.py":
        name = "copyrator"
    cli(prog_name=name)
