"""`copyrator plan bundle`: the plan of a Bundle's next deploy.

`copyrator plan bundle --version`: the plan of a version that a user names, only to be shown.

Leaves out of werf's diff what is in every plan, so that a person reads the rest. Pure.

werf adds its version and the project's name to each object, and shows the managedFields of what it
deletes (docs/facts/werf-output, plan-*-whole.txt). A chart can't hide anything else that way: of an
object that is shown whole, these lines count only in their place of its metadata; of an update,
which has no places, only the version of the very werf that made the plan.

What a person has to know of a plan before its operations: it is said first. Pure.

Contents that aren't bound or not shown, then what is risky, then what changed besides the chart.
Plans from before the operator judged contents have none of it but what is risky.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import click

from copyrator.api import names
from copyrator.api.bundle import parse_bundle
from copyrator.api.bundle_spec import BundleDefaults, JobSpec
from copyrator.api.bundle_status import parse_status
from copyrator.api.conditions import ConditionStatus, ConditionType, conditions_by_type
from copyrator.api.counts import count
from copyrator.api.fields import InvalidSpec
from copyrator.api.plan_status import MAX_UNBOUND, PlanOutcome, PlanStatus, PlanSummary, PreviewPlan
from copyrator.bundles.deploy.restrictions import describe_left_out, restrict_spec
from copyrator.bundles.plan.operations import Operation, risky
from copyrator.cli.bundles.plan_log import (
    DIFF_BYTES,
    PlanLog,
    read_plan_log,
    release_namespace,
    with_refusals_of,
)
from copyrator.cli.core.cluster import Target, run
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.hints import hint_about
from copyrator.cli.core.objects import one
from copyrator.cli.core.output import Column, Format, Table, dump, labelled, printable, prose
from copyrator.cli.core.reconcile import annotated, check_updates_are_on
from copyrator.cli.core.waiting import result, shown, wait
from copyrator.cli.rules.plan_rows import API_VERSION
from copyrator.cli.view import rows
from copyrator.cli.view.bundle import (
    MAY_DIFFER,
    awaits_decision,
    contents,
    exists,
    failure,
    head,
    how_to_decide,
    operation_counts,
    plan_of,
    said,
)
from copyrator.kube.client.client import KubeClient


def first_lines(plan: PlanSummary, log: PlanLog) -> Iterator[str]:
    """The lines that are printed before a plan."""
    yield from _contents(plan, log)
    if plan.risky:
        many = max(plan.risky_operations or 0, len(plan.risky))
        yield "Risky:" if many == len(plan.risky) else f"Risky ({len(plan.risky)} of {many}):"
        yield from (f"  {said(one)}" for one in plan.risky)
    if not isinstance(plan, PlanStatus):
        return
    if plan.changed:
        yield "Changed since the deployed plan, besides the chart:"
        yield from (f"  {said(one, 2000)}" for one in plan.changed)
    elif plan.change_unknown:
        yield f"Besides the chart, {said(plan.change_unknown, 1000)}"


def _contents(plan: PlanSummary, log: PlanLog) -> Iterator[str]:
    if not is_judged(plan):
        return
    if plan.bound is False:
        reasons = [f"  {said(one)}" for one in plan.unbound]
        yield f"Contents aren't bound: {MAY_DIFFER}{', because' if reasons else ''}"
        yield from reasons
        if len(reasons) >= MAX_UNBOUND:
            yield "  There may be more reasons."
    if secrets := hidden_secrets(log.operations or ()):
        yield f"Hidden from the diff: the contents of {count(secrets, 'Secret')}"
    if plan.hidden:
        objects = count(plan.hidden, "object")
        yield f"Hidden from the diff by the chart: contents of {objects}"


def is_judged(plan: PlanSummary) -> bool:
    """Whether what isn't bound or shown is known; of a preview some of it always is."""
    return plan.bound is not None or isinstance(plan, PreviewPlan)


def hidden_secrets(operations: Iterable[Operation]) -> int:
    """Of how many Secrets werf doesn't print the contents."""
    return sum(one.kind == "Secret" and not one.group for one in operations)


_BEGIN: Final = "┌ "
_END: Final = "└ "
_BAR: Final = "│"
_VERSION: Final = re.compile(r"Version: (v[0-9][0-9A-Za-z.+-]{0,30})")
"""How werf's output begins."""
_ALWAYS: Final = re.compile(
    r"    (werf\.io/version: v[0-9][0-9A-Za-z.+-]{0,30}"
    r'|project\.werf\.io/(env|name): ("[A-Za-z0-9._-]{0,63}"|[A-Za-z0-9._-]{1,63}))'
)
"""Annotations of each object, in its metadata."""
_UPDATED: Final = "    werf.io/version: "
_MANAGED: Final = "  managedFields:"
_KEY: Final = re.compile(r"( *)([^\s].*?):(\s.*)?")


def fold(diff: str) -> tuple[str, int]:
    """The diff without what is always there, and how many lines were left out."""
    lines = diff.split("\n")
    version = next((found[1] for one in lines if (found := _VERSION.fullmatch(one))), None)
    kept: list[str] = []
    number, at = 0, 0
    while at < len(lines):
        end = _end_of_block(lines, at)
        if end is None:
            kept.append(lines[at])
            at += 1
            continue
        content = lines[at + 1 : end]
        left = list(_folded_content(content, version))
        number += len(content) - len(left)
        kept += [lines[at], *left, lines[end]]
        at = end + 1
    return "\n".join(kept), number


def _end_of_block(lines: Sequence[str], begin: int) -> int | None:
    """The last line of the block that begins here; None where none does, or it isn't whole."""
    if not lines[begin].startswith(_BEGIN):
        return None
    last = _END + lines[begin].removeprefix(_BEGIN)
    for at in range(begin + 1, len(lines)):
        if lines[at] == last:
            return at
        if not lines[at].startswith(_BAR):
            return None
    return None


def _folded_content(content: Sequence[str], version: str | None) -> Iterator[str]:
    """The lines of a block that are kept."""
    signs = {line[2:3] for line in content}
    if signs in ({"+"}, {"-"}):
        return _whole(content)
    return _update(content, version)


def _whole(content: Sequence[str]) -> Iterator[str]:
    """Of an object that is shown whole: without werf's annotations and managedFields."""
    top = second = ""
    for line in content:
        text = line[4:]
        found = _KEY.fullmatch(text)
        if not text.startswith(" "):
            top, second = (found[2] if found else text), ""
        elif found and len(found[1]) == 2 and not found[2].startswith("- "):
            second = found[2]
        if top == "metadata" and (
            (second == "annotations" and _ALWAYS.fullmatch(text))
            or (second == "managedFields" and _is_managed(text))
        ):
            continue
        yield line


def _is_managed(text: str) -> bool:
    return text == _MANAGED or text.startswith(("  - ", "    "))


def _update(content: Sequence[str], version: str | None) -> Iterator[str]:
    """Of an update: without the change of werf's version, if that is the one that plans."""
    now = f"+ {_UPDATED}{version}"
    kept: list[str] = []
    for line in content:
        text = line[2:]
        if version is not None and text == now and kept and _is_version(kept[-1][2:]):
            kept.pop()
            continue
        kept.append(line)
    if len(kept) < len(content) and not any(line[2:3] in ("+", "-") for line in kept):
        return iter(())  # nothing else changed, so what stood around it is no news
    return iter(kept)


def _is_version(text: str) -> bool:
    return text.startswith(f"- {_UPDATED}") and bool(_ALWAYS.fullmatch(text[2:]))


Body = Mapping[str, Any]
_WHAT = "bundles"
ONLY_SHOWN = "It is only shown: only the plan of what would be deployed can be approved."


def preview_of(body: Body) -> PreviewPlan:
    """The plan of a version that a user named, in a Bundle's status; an empty one without it."""
    return parse_status(body).preview


async def previewed(
    client: KubeClient,
    body: dict[str, Any],
    version: str,
    timeout: float,  # noqa: ASYNC109 - the user's
) -> dict[str, Any]:
    """Request a plan of this version, and wait until that has ended.

    Raises:
        Fault: it isn't planned, or another request came after this one.
    """
    check_updates_are_on(_WHAT, body)
    also = {names.ANN_PLAN_VERSION: version}
    token, body = await annotated(client, _WHAT, body, names.ANN_PLAN_AT, also)

    def handled(seen: Body) -> bool:
        check_updates_are_on(_WHAT, seen)  # they may be switched off meanwhile
        if parse_status(seen).last_handled_plan == token:
            return True
        if (seen["metadata"].get("annotations") or {}).get(names.ANN_PLAN_AT) != token:
            raise Fault(f"{shown(_WHAT, seen)}: another plan was requested meanwhile; try again")
        return False

    def busy(seen: Body) -> bool:
        return preview_of(seen).outcome == PlanOutcome.RUNNING

    return await wait(client, _WHAT, body, timeout, handled, busy=busy)


def unfinished_preview(body: Body) -> str:
    """Why there is no preview to show; empty where there is one."""
    plan = preview_of(body)
    if plan.outcome == PlanOutcome.PLANNED:
        return ""
    return (
        f"{shown(_WHAT, body)}: {said(plan.requested_version)} isn't planned: "
        f"{said(plan.reason)}: {said(plan.message, 1000)}"
    )


def preview_head(body: Body, now: datetime) -> Iterator[str]:
    """The lines about the preview itself, with labels."""
    plan, there = preview_of(body), parse_status(body).deployed
    asked = said(plan.requested_version)
    asked = f", for {asked}" if plan.requested_version != plan.version else ""
    yield labelled("Version", f"{said(plan.version)}  {said(rows.digest(plan.digest))}{asked}")
    if there.digest:
        yield labelled("Deployed", f"{said(there.version)}  {said(rows.digest(there.digest))}")
    if shown := contents(plan):
        yield labelled("Contents", shown)
    yield labelled("Changes", operation_counts(plan))
    if plan.message:
        yield labelled("Note", said(plan.message, 2000))
    yield labelled("Kept", f"expires {rows.until(plan.expires_at, now)}")


def describe_lines(body: Body, now: datetime) -> Iterator[str]:
    """The line of `describe` about a preview, where there is one."""
    plan = preview_of(body)
    match plan.outcome:
        case PlanOutcome.PLANNED:
            made = f"{rows.age(plan.made_at, now)} ago"
            yield labelled(
                "Preview", f"{said(plan.version)}, made {made}: {operation_counts(plan)}"
            )
            if shown := contents(plan):
                yield f"  {labelled('Contents', shown)}"
        case PlanOutcome.RUNNING:
            yield labelled(
                "Preview", f"{said(plan.version)}, being made by the Job {said(plan.job)}"
            )
        case PlanOutcome.FAILED:
            yield labelled("Preview", unfinished_preview(body).partition(": ")[2])


WHAT = "bundles"


@dataclass(frozen=True, slots=True)
class Shown:
    """A Bundle with its plan, and what its log has."""

    body: Body
    log: PlanLog
    now: datetime
    is_preview: bool = False

    @property
    def plan(self) -> PlanStatus:
        """That of what would be deployed, in the status."""
        return plan_of(self.body)

    @property
    def summary(self) -> PlanSummary:
        """The one that is shown."""
        return preview_of(self.body) if self.is_preview else self.plan


@dataclass(frozen=True, slots=True)
class PreviewOptions:
    """What is to be planned before it is shown, and how many seconds that may take."""

    timeout: float
    version: str | None = None
    """None: what would be deployed."""


def plan_bundle(
    target: Target, name: str, shape: Format, wanted: PreviewOptions | None, *, whole: bool = False
) -> bool:
    """Print the plan of a Bundle.

    Args:
        target: the cluster.
        name: of the Bundle, perhaps with its namespace.
        shape: of the output.
        wanted: to be made first; None: the plan that is there.
        whole: whether the diff is printed with what is in every plan.

    Returns:
        Whether the deploy would change anything.

    Raises:
        Fault: there is no plan, or it is being made, or it failed.
    """
    found = run(_found(target, name, wanted))
    if shape in (Format.JSON, Format.YAML):
        dump(document(found), shape)
    if fault := _fault(found):
        raise Fault(fault)
    if shape is Format.NAME:
        for operation in found.log.operations or ():
            click.echo(_reference(operation))
        prose(_missing(found), err=True)
    elif shape in (Format.TABLE, Format.WIDE):
        show(found, wide=shape is Format.WIDE, whole=whole)
        if found.is_preview:
            prose(["", ONLY_SHOWN])
        elif awaits_decision(found.body, found.now):
            prose(["", f"{how_to_decide(found.body)}."])
    return bool(found.summary.operations)


def _fault(found: Shown) -> str:
    if found.is_preview:
        return unfinished_preview(found.body)
    return unfinished(found.body, found.now)


async def _found(target: Target, name: str, wanted: PreviewOptions | None) -> Shown:
    async with target.connect() as client:
        namespace, name = target.locate(name)
        body = await one(client, WHAT, namespace, name)
        if wanted is None:
            return await looked_at(client, body)
        if wanted.version is None:
            return await looked_at(client, await _refreshed(client, body, wanted.timeout))
        body = await previewed(client, body, wanted.version, wanted.timeout)
        return await looked_at(client, body, is_preview=True)


async def looked_at(client: KubeClient, body: Body, *, is_preview: bool = False) -> Shown:
    """A Bundle with its plan's log, where that is finished."""
    found = Shown(body, PlanLog(), datetime.now(UTC), is_preview)
    if found.summary.outcome != PlanOutcome.PLANNED:
        return found
    return replace(found, log=await read_plan_log(client, body, found.summary))


async def _refreshed(
    client: KubeClient,
    body: dict[str, Any],
    timeout: float,  # noqa: ASYNC109 - the user's
) -> dict[str, Any]:
    """Request that the plan is made again, and wait until that has ended.

    Raises:
        Fault: nothing can be planned, so that the request is answered without a plan.
    """
    check_updates_are_on(WHAT, body)
    former = plan_of(body)
    token, body = await annotated(
        client, WHAT, body, names.ANN_PLAN_AT, {names.ANN_PLAN_VERSION: None}
    )

    def handled(seen: Body) -> bool:
        check_updates_are_on(WHAT, seen)  # they may be switched off meanwhile
        return parse_status(seen).last_handled_plan == token

    def busy(seen: Body) -> bool:
        return plan_of(seen).outcome == PlanOutcome.RUNNING

    body = await wait(client, WHAT, body, timeout, handled, busy=busy)
    now = plan_of(body)
    if timeout and (now.number, now.id) == (former.number, former.id):
        raise Fault(f"{shown(WHAT, body)}: nothing can be planned now{_obstacle(body)}")
    return body


def _obstacle(body: Body) -> str:
    """The end of a sentence: what the version to deploy waits for, or why there is none."""
    conditions = conditions_by_type((body.get("status") or {}).get("conditions"))
    pending = conditions.get(ConditionType.UPDATE_PENDING, {})
    if pending.get("status") != ConditionStatus.TRUE:
        return result(body)
    return f"; {said(pending.get('reason'))}: {said(pending.get('message'), 2000)}"


def unfinished(body: Body, now: datetime) -> str:
    """Why there is no plan to show; empty where there is one."""
    plan, bundle = plan_of(body), shown(WHAT, body)
    anew = hint_about("plan", "bundle", body, "--refresh")
    if not exists(plan):
        return (
            f"{bundle} has no plan{result(body).rstrip('.')}. Plans are made where "
            f"spec.approval.mode is OnRisk or Always, or on request: {anew}"
        )
    if plan.outcome == PlanOutcome.RUNNING:
        since = rows.age(plan.started_at, now)
        return (
            f"{bundle}: the plan of {said(plan.version)} is being made by the Job {said(plan.job)}"
            f", since {since}; try again when it has ended"
        )
    if plan.outcome == PlanOutcome.FAILED:
        log = hint_about("logs", "bundle", body, "--plan")
        return (
            f"{bundle}: the plan of {said(plan.version)} failed: {failure(plan, now)}; werf's log: "
            f"{log}; to make it again: {anew}"
        )
    return ""


def show(found: Shown, *, wide: bool = False, whole: bool = False) -> None:
    """Print a plan that was made: what to know first, what it is of, the operations, the diff."""
    first = list(first_lines(found.summary, found.log))
    prose([*first, *([""] if first else []), *_head(found)])
    if found.log.operations:
        click.echo()
        Table(columns(found), wide=wide, whole=True).print(found.log.operations)
    if found.log.diff:
        click.echo()
        diff, number = (found.log.diff, 0) if whole else fold(found.log.diff)
        lines = printable(diff).split("\n")
        prose(["Diff, as werf printed it:", *(f"  {line}".rstrip() for line in lines)])
        if number:
            prose(["", _folded(found, number)])
    if missing := list(_missing(found)):
        prose(["", *missing])


def _folded(found: Shown, number: int) -> str:
    again = (
        ("--version", said(preview_of(found.body).requested_version)) if found.is_preview else ()
    )
    command = hint_about("plan", "bundle", found.body, *again, "--whole")
    lines = count(number, "line")
    return f"Not shown: {lines} of werf's version and managedFields; with them: {command}"


def _head(found: Shown) -> Iterator[str]:
    plan, metadata = found.summary, found.body["metadata"]
    yield labelled("Bundle", f"{metadata['namespace']}/{metadata['name']}")
    if found.is_preview:
        yield from preview_head(found.body, found.now)
    else:
        yield from head(with_refusals_of(found.body, found.log.diff), found.now)
        if note := _left_out(found.body):
            yield labelled("Note", note)
    values = f", values {said(rows.digest(plan.values_hash))}" if plan.values_hash else ""
    release = f"{release_namespace(found.body)}/{metadata['name']}"
    yield labelled("Release", f"{release}, revision {said(plan.revision)}{values}")
    made = rows.age(plan.made_at, found.now)
    yield labelled("Made", f"{made} ago by the Job {said(plan.job)}")


def _left_out(body: Body) -> str | None:
    """The variables that a requested plan of a Bundle without gates leaves out."""
    spec = parse_bundle(body, BundleDefaults())
    withheld = conditions_by_type((body.get("status") or {}).get("conditions"))
    if isinstance(spec, InvalidSpec) or ConditionType.SETTINGS_WITHHELD in withheld:
        return None  # its deploys don't get them either
    return describe_left_out(replace(restrict_spec(spec), job=JobSpec()))


def _missing(found: Shown) -> Iterator[str]:
    """What isn't shown, why, and what to do about it."""
    log, plan = found.log, found.summary
    anew = hint_about("plan", "bundle", found.body, *_anew(found))
    if log.fault:
        yield (
            f"The operations and the diff can't be shown: {log.fault}. Where the log is gone, "
            f"{anew} makes the plan again."
        )
    if log.cut:
        command = f"kubectl logs -n {found.body['metadata']['namespace']} job/{said(plan.job)}"
        yield f"The diff is cut after {DIFF_BYTES >> 20} MiB; all of it: {command}"
    if log.operations and not _knows_all_risky(found):
        yield (
            "More are marked as risky than the operator counts: what this chart does with every "
            "deploy is marked, too."
        )


def _anew(found: Shown) -> tuple[str, ...]:
    """The options by which the plan is made again."""
    if not found.is_preview:
        return ("--refresh",)
    return "--version", said(preview_of(found.body).requested_version)


def columns(found: Shown) -> list[Column]:
    """The columns of the operations; risky ones are marked."""
    marked = _risky(found)
    columns = [
        Column("OPERATION", lambda operation: str(operation.type)),
        Column("GROUP", lambda operation: operation.group or "-", wide=True),
        Column("KIND", lambda operation: operation.kind),
        Column("NAMESPACE", lambda operation: operation.namespace or "-"),
        Column("NAME", lambda operation: operation.name),
    ]
    if marked:
        risk = Column("RISK", lambda operation: "risky" if operation in marked else "")
        columns.insert(0, risk)
    return columns


def _risky(found: Shown) -> frozenset[Operation]:
    """The risky operations; a few more where the status doesn't name all of them."""
    listed, operations = set(found.summary.risky), found.log.operations or ()
    if len(listed) >= (found.summary.risky_operations or 0):
        return frozenset(one for one in operations if str(one) in listed)
    return frozenset(risky(operations, ()))


def _knows_all_risky(found: Shown) -> bool:
    return len(_risky(found)) <= (found.summary.risky_operations or 0)


def _reference(operation: Operation) -> str:
    group = f".{operation.group}" if operation.group else ""
    return f"{operation.kind.lower()}{group}/{operation.name}"


def document(found: Shown) -> dict[str, Any]:
    """As in -o json: the plan of the status, with what its log has."""
    metadata, log = found.body["metadata"], found.log
    marked = _risky(found)
    listed = [
        {
            "type": str(one.type),
            "group": one.group,
            "kind": one.kind,
            "namespace": one.namespace,
            "name": one.name,
            "risky": one in marked,
        }
        for one in log.operations or ()
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": "BundlePlan",
        "bundle": f"{metadata['namespace']}/{metadata['name']}",
        "plan": found.summary.to_dict(),
        **({"preview": True} if found.is_preview else {}),
        "operations": None if log.operations is None else listed,
        **_hidden(found),
        "diff": log.diff,
        **({"error": log.fault} if log.fault else {}),
    }


def _hidden(found: Shown) -> dict[str, Any]:
    """What isn't in the diff, where the operator has judged that."""
    operations = found.log.operations
    if not is_judged(found.summary) or operations is None:
        return {}
    return {"hiddenSecrets": hidden_secrets(operations)}
