"""The command line: `copyrator`, or `kubectl copyrator` as a plugin.

Each command has a module, imported when it is called, so that `--help`, the quick commands and the
operator don't load modules that they don't need.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import sys
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

import click

from copyrator import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

GROUPS: Final = {
    "Look": {
        "describe": ("Show details of a rule or Bundle, with Events.", "get.describe"),
        "get": ("List rules, bundles or copies.", "get.get"),
        "history": ("Show the last deploys of a Bundle.", "bundles.logs"),
        "logs": ("Print the log of a Bundle's last Job.", "bundles.logs"),
        "plan": ("Show what a rule or a Bundle's next deploy would change.", "get.plan"),
        "report": ("Write rules and Bundles to one HTML file.", "ui.command"),
        "top": ("Show problems in the terminal, live.", "ui.command"),
        "ui": ("Show rules, copies and Bundles on a local web page.", "ui.command"),
        "why": ("Explain why an object exists or a version is deployed.", "get.why"),
    },
    "Decide": {
        "approve": ("Approve the plan of a Bundle, so that it is deployed.", "bundles.approve"),
        "confirm-delete": ("Confirm the deletions of an edited rule.", "core.reconcile"),
        "reject": ("Reject the plan of a Bundle, so that it isn't deployed.", "bundles.approve"),
    },
    "Stop and go": {
        "freeze": ("Stop deploys in a namespace, or in all.", "bundles.freeze"),
        "hold": ("Hold a Bundle: what it runs isn't promoted.", "bundles.attest"),
        "reconcile": ("Reconcile a rule or Bundle now, and wait.", "core.reconcile"),
        "resume": ("Resume a suspended rule or Bundle.", "core.reconcile"),
        "rollout": ("Resume or finish the rollout of a rule.", "core.reconcile"),
        "suspend": ("Suspend a rule or Bundle.", "core.reconcile"),
        "thaw": ("End a freeze: deploys that wait begin.", "bundles.freeze"),
        "unhold": ("End the hold of a Bundle.", "bundles.attest"),
    },
    "Versions": {
        "attest": ("Show what environments have attested of a version.", "bundles.attest"),
        "rollback": ("Deploy a version again that was deployed before.", "bundles.rollback"),
        "skip": ("Never deploy a version of a Bundle.", "bundles.rollback"),
        "unpin": ("End the rollback of a Bundle.", "bundles.rollback"),
        "unskip": ("Let a skipped version be deployed.", "bundles.rollback"),
    },
    "Set up": {
        "create": ("Create a rule or Bundle from flags, or print it.", "offline.create"),
        "doctor": ("Check CRDs, Lease, permissions, registries.", "doctor.command"),
        "install": ("Print the manifests, to install without Helm.", "offline.install"),
        "migrate": ("Print rules that replace other tools' annotations.", "rules.migrate"),
        "notify": ("Have the operator send a test notification.", "core.notify"),
        "remote": ("Let another cluster read objects of this one.", "core.remote"),
        "reseal": ("Overwrite objects with a rule's marks and no valid seal.", "core.reconcile"),
        "run": ("Run the operator until SIGTERM or SIGINT.", "core.run"),
        "uninstall": ("Remove the operator's finalizers before uninstalling.", "core.uninstall"),
    },
    "Offline (without a cluster)": {
        "completion": ("Print a completion script for a shell or kubectl.", "core.completion"),
        "resolve": ("Show the tag that a version resolves to, and why.", "bundles.resolve"),
        "validate": ("Validate manifests offline, with line numbers.", "offline.command"),
        "verify": ("Verify that a version in a registry is signed.", "bundles.verify"),
    },
}
"""Commands by what they are for, each with its short help and its module below this package, which
has a function of its name."""
_COMMANDS = {name: found for group in GROUPS.values() for name, found in group.items()}
_WIDTH = max(map(len, _COMMANDS))


class _LazyGroup(click.Group):
    """Imports a command's module when the command is called."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Without a command: parse the originals' arguments."""
        if not ctx.resilient_parsing and (not args or args[0].startswith("-")):
            from copyrator.cli.core.run import with_command  # noqa: PLC0415 - rarely needed

            args = with_command(ctx, args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            option = error.option_name
            raise click.UsageError(
                f"no such option before the command: {option}; options follow it, such as in "
                f"copyrator get rules {option}",
                ctx,
            ) from None

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"{__name__}.{_COMMANDS[cmd_name][1]}")
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the commands without importing them."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only for completion

        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=_COMMANDS[name][0]) for name in names]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands by group, without importing them."""
        for group, commands in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(f"{n:{_WIDTH}}", text) for n, (text, _) in commands.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            raise click.NoSuchCommand(
                error.command_name, possibilities=_COMMANDS, ctx=ctx
            ) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Turn errors into one line with the remedy."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if ctx.invoked_subcommand == "run":
                raise
            from copyrator.cli.core.faults import fault_of  # noqa: PLC0415 - not for `run`

            raise fault_of(error) from None


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Copies objects between namespaces by rule and deploys werf bundles from OCI registries.

    `copyrator run` is the operator; in a pod it is the default command.

    Exit codes: 0 success; 1 error; 2 usage error, or (plan) changes found; 3 (doctor) only rules
    or Bundles fail.
    """


def main() -> None:
    """Entry point of `copyrator`, `kubectl-copyrator` and `python -m copyrator`.

    Imports make many objects and no garbage: to look through them meanwhile, and once more at the
    end, would take a fifth of a quick command's time. `run` of `core.cluster` and of `core.run`
    start garbage collection.
    """
    gc.disable()
    atexit.register(gc.freeze)
    name = PurePath(sys.argv[0]).name
    complete_var = None
    if name.startswith("kubectl-"):
        name = name.replace("kubectl-", "kubectl ", 1)  # as the user typed it
        complete_var = "_COPYRATOR_COMPLETE"
    elif name == "__main__.py":
        name = "copyrator"
    cli(prog_name=name, complete_var=complete_var)
