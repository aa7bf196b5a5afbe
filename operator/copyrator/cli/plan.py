"""`copyrator plan`: what a rule would do, by a dry run on the cluster."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import click

from copyrator.api import names
from copyrator.api.keys import CopyKey
from copyrator.api.rule import InvalidSpec
from copyrator.api.rule_status import FailureReason
from copyrator.cli.cluster import Target, cluster_options, run, split_name
from copyrator.cli.dry_run import DryRun, DryRunClient, FullSummary, dry_object, dry_running
from copyrator.cli.faults import Fault
from copyrator.cli.hints import hint
from copyrator.cli.installation import find_installation, operator_namespace_option
from copyrator.cli.manifests import Manifest, read_manifests
from copyrator.cli.objects import What, complete_names, one
from copyrator.cli.output import Format, Table, console, dump, output_option, prose
from copyrator.cli.plan_rows import COLUMNS, Keys, Row, RowAction, action_of, diff, summary
from copyrator.copies.cache.bindings import SourceBinding
from copyrator.copies.cache.rules import Rule
from copyrator.copies.policy.planning import Action
from copyrator.copies.policy.sources import SourceReader
from copyrator.copies.summarize import summarize_rule
from copyrator.kube import errors
from copyrator.kube.resources import RULES

AT_ONCE = 8
"""Dry runs in flight."""
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
@click.argument("what", type=What("rules"), required=False)
@click.argument("name", metavar="[NAMESPACE/]NAME", required=False, shell_complete=complete_names)
@click.option(
    "-f",
    "--filename",
    metavar="FILE",
    type=click.Path(),
    help="Rules in a file, a directory or - (stdin).",
)
@cluster_options()
@operator_namespace_option
@output_option
def plan(
    *,
    target: Target,
    what: str | None,  # noqa: ARG001 - there is but one
    name: str | None,
    filename: str | None,
    home: str | None,
    shape: Format,
) -> None:
    """Show what a rule would create, update, adopt and delete, its conflicts and what is blocked.

    Give a rule of the cluster (plan rule NAME) or a file (plan -f rule.yaml). The operator's own
    planner and writer run with a server-side dry run, as you, or with --as as another user,
    such as the operator. Sources in the file count as applied. Keys are named (+ added,
    ~ changed, - removed), values never.

    Exit code: 0 no changes; 2 changes, conflicts or blocked copies; 1 an error.
    """
    if bool(name) == bool(filename):
        raise _WrongUsage("give a rule (plan rule NAME) or a file (plan -f FILE)")
    manifests = read_manifests([filename]) if filename else []
    if run(_plan(target, name, manifests, home, shape)):
        raise click.exceptions.Exit(CHANGES)


async def _plan(
    target: Target,
    name: str | None,
    manifests: Sequence[Manifest],
    home: str | None,
    shape: Format,
) -> bool:
    you = dataclasses.replace(target, user=None)
    results = []
    async with you.connect_with(DryRunClient) as mine:
        installation = await find_installation(mine, home)
        for body in await _bodies(mine, target, name, manifests):
            async with (
                target.connect_with(DryRunClient) as client,
                dry_running(client, installation) as dry_run,
            ):
                rule = await _serve(dry_run, body)
                await _add_sources(dry_run, rule, mine, target, manifests)
                _check_means_something(dry_run, rule)
                results.append(await _rows(dry_run, rule))
    _show(results, shape)
    return any(rows for _, rows, _ in results)


async def _bodies(
    client: DryRunClient, target: Target, name: str | None, manifests: Sequence[Manifest]
) -> list[dict[str, Any]]:
    """The requested rules, as the API server would store them."""
    if name:
        namespace, name = split_name(name, "" if "/" in name else target.namespace)
        return [await one(client, "rules", namespace, name)]
    found = []
    for manifest in manifests:
        if manifest.kind != names.RULE_KIND:
            continue
        namespace = manifest.namespace or target.namespace
        try:
            found.append(await dry_object(client, RULES, namespace, manifest.body))
        except errors.Invalid as error:
            raise Fault(f"{manifest.where}: {error.message}") from None
    if not found:
        advice = hint("validate", "-f", manifests[0].source) if manifests else hint("get", "rules")
        raise Fault(f"the file has no CopyratorRule; Bundles are checked by: {advice}")
    return found


Result = tuple[Rule, list[Row], int]


async def _serve(dry_run: DryRun, body: Mapping[str, Any]) -> Rule:
    """Serve the rule, and those of the same kind.

    Raises:
        Fault: the operator wouldn't serve it.
    """
    rule = dry_run.put(body, acts=True)
    if isinstance(rule.spec, InvalidSpec):
        raise Fault(f"rule {rule.owner}: {rule.spec}")
    if verdict := dry_run.refusal(rule):
        raise Fault(f"rule {rule.owner} wouldn't be served: {verdict.reason}: {verdict.message}")
    await dry_run.serve_all(rule.spec.kind, but=rule.key)
    state = await dry_run.serve(rule)
    said = dry_run.client.verdicts.get(rule.key)
    if said and said["reason"] == InvalidSpec.reason and (state is None or not state.compiled):
        raise Fault(f"rule {rule.owner}: {said['message']}")  # its Jinja2 can't be compiled
    return rule


def _check_means_something(dry_run: DryRun, rule: Rule) -> None:
    context = dry_run.context
    if not context.index.of_rule(rule.owner) and not context.count_owned(rule.owner):
        said = dry_run.client.verdicts.get(rule.key)
        why = f"{said['reason']}: {said['message']}" if said else "it has no source yet"
        raise Fault(f"rule {rule.owner} does nothing now: {why}")


async def _add_sources(
    dry_run: DryRun,
    rule: Rule,
    client: DryRunClient,
    target: Target,
    manifests: Sequence[Manifest],
) -> None:
    """Sources in the file count as applied."""
    assert not isinstance(rule.spec, InvalidSpec)
    source, context = rule.spec.source, dry_run.context
    state = context.rule_states.get(rule.key)
    if source is None or state is None or state.compiled is None:
        return
    resource = await context.home.discovery.resolve(source.kind, source.api_version)
    for manifest in manifests:
        namespace = manifest.namespace or target.namespace
        labels = manifest.body["metadata"].get("labels") or {}
        if manifest.kind != source.kind or namespace not in source.namespaces:
            continue
        named = source.name in (None, manifest.name)
        if named and (source.selector is None or source.selector.matches(labels)):
            body = await dry_object(client, resource, namespace, manifest.body)
            record = SourceReader(resource.api_version, resource.kind)(body)
            if not record.refused:
                rank = (source.namespaces.index(namespace), manifest.name)
                context.index.add(SourceBinding(state.compiled, record, rank))


async def _rows(dry_run: DryRun, rule: Rule) -> Result:
    context = dry_run.context
    found = FullSummary()
    await summarize_rule(context, rule, found)
    rows = []
    state = context.rule_states[rule.key]
    state.condemn({*state.condemned, *found.unwanted})
    limit = asyncio.Semaphore(AT_ONCE)

    async def try_(key: CopyKey) -> Row | None:
        async with limit:
            return await _try(dry_run, key)

    due = [*found.due, *found.unsealed]
    mine = [key for key in due if key not in found.failures]
    tried = await asyncio.gather(*(try_(key) for key in [*mine, *found.unwanted]))
    rows += [row for row in tried if row]
    kind = context.home.kinds[state.compiled.resource].resource.kind if state.compiled else ""
    for key, (reason, message) in found.failures.items():
        action = RowAction.CONFLICT if reason is FailureReason.CONFLICT else RowAction.BLOCKED
        rows.append(Row(action, kind, key.namespace, key.name, reason.value, message))
    rows.sort(key=lambda row: (row.namespace, row.name))
    desired = found.desired - len(found.failures)
    changing = sum(row is not None for row in tried[: len(mine)])
    return rule, rows, max(desired - changing, 0)


async def _try(dry_run: DryRun, key: CopyKey) -> Row | None:
    """Reconcile one copy by a dry run, and return its row."""
    context, client = dry_run.context, dry_run.client
    resource = context.home.kinds[key.kind].resource
    planned = context.plan(key)
    record = context.home.kinds[key.kind].copies.get((key.namespace, key.name))
    foreign = record is None or not (record.owner or planned.act is Action.RESEAL)
    await dry_run.act(key)
    where = (resource.kind, key.namespace, key.name)
    problem = context.problems.get(key)
    writes = [
        *client.writes.get(resource.path(key.namespace), ()),
        *client.writes.get(resource.path(key.namespace, key.name), ()),
    ]
    mine = [write for write in writes if write[0] != "POST" or _names(write[1]) == key.name]
    if problem:
        action = (
            RowAction.CONFLICT if problem.reason is FailureReason.CONFLICT else RowAction.BLOCKED
        )
        return Row(action, *where, problem.reason.value, problem.message)
    methods = [method for method, _ in mine]
    if planned.act not in (Action.DELETE, Action.ASK_OWNER) and "DELETE" in methods:
        return Row(RowAction.RECREATE, *where)
    action_ = action_of(methods, foreign=foreign)
    if action_ is None:
        return None
    wanted = next((body for method, body in mine if method in ("POST", "PUT")), None)
    keys = Keys()
    if wanted is not None:
        keys = await _diff(dry_run, key, wanted, new=action_ is RowAction.CREATE)
        if action_ is RowAction.UPDATE and not str(keys) and not dry_run.key_known:
            return None
    return Row(action_, *where, keys=keys)


def _names(body: Mapping[str, Any] | None) -> str:
    return str(((body or {}).get("metadata") or {}).get("name"))


async def _diff(dry_run: DryRun, key: CopyKey, wanted: Mapping[str, Any], *, new: bool) -> Keys:
    if new:
        return diff(None, wanted)
    resource = dry_run.context.home.kinds[key.kind].resource
    try:
        live = await dry_run.client.get(resource, key.namespace, key.name)
    except errors.ApiError:
        return Keys()
    return diff(live, wanted)


def _show(results: Sequence[Result], shape: Format) -> None:
    if shape in (Format.JSON, Format.YAML):
        found = [
            {"rule": rule.owner, "upToDate": right, "changes": [row.to_dict() for row in rows]}
            for rule, rows, right in results
        ]
        dump(found[0] if len(found) == 1 else found, shape)
        return
    for rule, rows, right in results:
        if shape is Format.NAME:
            for row in rows:
                click.echo(f"{row.kind.lower()}/{row.namespace}/{row.name}")
            continue
        if len(results) > 1:
            console().print(f"rule {rule.owner}")
        if rows:
            Table(COLUMNS, wide=shape is Format.WIDE, whole=True).print(rows)
        prose([summary(rows, right)])
