"""`copyrator plan`: what a rule would change, or the plan of a Bundle's next deploy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from copyrator.api.keys import ObjectName
from copyrator.api.version_range import VersionError, parse_version
from copyrator.cli.core.cluster import Target, cluster_options
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.installation import operator_namespace_option
from copyrator.cli.core.objects import object_arguments
from copyrator.cli.core.output import Format, output_option, prose
from copyrator.cli.core.waiting import timeout_option
from copyrator.cli.offline.manifests import read_manifests

if TYPE_CHECKING:
    from copyrator.cli.bundles.plan import PreviewOptions

CHANGES = 2
"""Exit code where something would be done, or is blocked or in conflict."""


class _WrongUsage(click.UsageError):
    """Ends with 1: 2 means changes."""

    exit_code = 1


class _Plan(click.Command):
    """Wrong usage ends with 1, too, where click finds it."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        try:
            return super().make_context(*args, **kwargs)
        except click.UsageError as error:
            raise _WrongUsage(error.format_message(), error.ctx) from None


@click.command(cls=_Plan)
@object_arguments("rules", "bundles", required=False)
@click.option(
    "-f",
    "--filename",
    metavar="FILE",
    type=click.Path(),
    help="Rules in a file, a directory or - (stdin).",
)
@click.option(
    "--show",
    metavar="[NAMESPACE/]NAME",
    help="Show this copy of the rule: the object that would be written, and its difference.",
)
@click.option("--refresh", is_flag=True, help="Make the Bundle's plan again first.")
@click.option(
    "--version",
    metavar="RANGE",
    help="Plan this version (a tag or a range) of the Bundle instead, only to show it.",
)
@click.option(
    "--whole",
    is_flag=True,
    help="Print the Bundle's diff with all lines, those that are in every plan, too.",
)
@timeout_option(300.0, "How long --refresh and --version wait.")
@cluster_options()
@operator_namespace_option
@output_option
async def plan(
    *,
    target: Target,
    what: str | None,
    name: str | None,
    filename: str | None,
    show: str | None,
    refresh: bool,
    version: str | None,
    whole: bool,
    timeout: float,  # noqa: ASYNC109 - the option
    home: str | None,
    shape: Format,
) -> None:
    """Show what a rule would change, or the plan of a Bundle's next deploy.

    Name a rule of the cluster (plan rule NAME) or a file (plan -f rule.yaml). It shows what would
    be created, updated, adopted and deleted, conflicts and what is blocked. The operator's own
    planner and writer run with a server-side dry run: as the operator where you may impersonate
    its service account, else as you. Sources and namespaces in the file are treated as applied.
    Keys are shown (+ added, ~ changed, - removed), values never.

    - --show shows one copy: the whole object as it would be stored, and its difference to the
    existing one. Of the values and annotations of a Secret it shows only the lengths, and which
    ones differ.

    Or name a Bundle (plan bundle NAME). It shows the plan that the operator made: the operations
    on objects, risky ones first, and werf's diff by object, without values of Secrets, from the
    log of the plan Job, which requires the permission to read it.

    - --refresh replaces a plan that waits for a decision.

    - --version plans another version of it, a lower one too, also while the Bundle is suspended;
    that can't be approved, and replaces no plan.

    - --whole prints the whole diff; else 200 lines of an object, without what is in every plan,
    such as werf's version.

    Exit code: 0 no changes; 2 changes, conflicts or blocked copies; 1 an error.
    """
    if bool(name) == bool(filename):
        raise _WrongUsage("set either a rule (plan rule NAME) or a file (plan -f FILE)")
    if what == "bundles" and name:
        if show is not None:
            raise _WrongUsage("--show is only for rules (plan rule NAME --show NAMESPACE/NAME)")
        from copyrator.cli.bundles.plan import plan_bundle  # noqa: PLC0415 - each half is large

        wanted = _wanted(timeout, refresh=refresh, version=version)
        if await plan_bundle(target, name, shape, wanted, whole=whole):
            raise click.exceptions.Exit(CHANGES)
        return
    if refresh or whole or version is not None:
        option = "--refresh" if refresh else "--whole" if whole else "--version"
        raise _WrongUsage(f"{option} is only for Bundles (plan bundle NAME {option})")
    from copyrator.cli.rules.plan import Files, plan_rules, print_plans  # noqa: PLC0415 - it is large

    files = Files(read_manifests([filename]) if filename else [], target)
    if filename:
        files.check()
    copy = ObjectName(*target.locate(show)) if show is not None else None
    results, notes = await plan_rules(target, name, files, home, copy)
    print_plans(results, shape)
    if notes:
        prose(notes, err=True)
    if faults := [result.fault for result in results if result.fault]:
        raise Fault("\n".join(faults))
    if any(result.rows for result in results):
        raise click.exceptions.Exit(CHANGES)


def _wanted(timeout: float, *, refresh: bool, version: str | None) -> PreviewOptions | None:
    from copyrator.cli.bundles.plan import PreviewOptions  # noqa: PLC0415 - each half is large

    if version is not None:
        if refresh:
            raise _WrongUsage("set either --refresh or --version")
        try:
            parse_version(version)
        except VersionError as error:
            raise _WrongUsage(f"--version {error}") from None
    return PreviewOptions(timeout, version) if refresh or version is not None else None
