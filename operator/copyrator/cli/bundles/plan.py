"""`copyrator plan bundle`: the plan of a Bundle's next deploy, or of a version that a user names.

What a person has to know comes first: contents that aren't bound or not shown, what is risky, what
changed besides the chart. Plans from before the operator judged contents have only what is risky.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from copyrator.api import names, structs
from copyrator.api.bundle_spec import JobSpec
from copyrator.api.conditions import ConditionType
from copyrator.api.schema import InvalidSpec
from copyrator.api.text import (
    Detail,
    count,
    detail_lines,
    said,
    short_digest,
    time_since,
    time_until,
)
from copyrator.bundles.features.approval.words import (
    awaits_decision,
    describe_plan,
    describe_version,
    failure,
    how_to_decide,
    lacking_reasons,
)
from copyrator.bundles.features.previews.fields import PreviewPlan
from copyrator.bundles.features.previews.record import describe_left_out
from copyrator.bundles.features.previews.words import preview_failure
from copyrator.bundles.fields import parse_status
from copyrator.bundles.jobs.checks import AT_ROLLBACK, AT_UNINSTALL
from copyrator.bundles.jobs.restrictions import restrict_spec
from copyrator.bundles.plans.fields import (
    OperationCounts,
    PlanOutcome,
    PlanRequests,
    PlanStatus,
    PlanSummary,
)
from copyrator.bundles.plans.operations import (
    Operation,
    OperationType,
    StagedOperation,
    list_risky,
    read_planned,
)
from copyrator.bundles.plans.plan_words import contents, find_lacking, operation_counts
from copyrator.cli.bundles.plan_log import (
    DIFF_BYTES,
    ObjectDiff,
    PlanLog,
    fold,
    hide_secrets,
    read_plan_log,
    release_namespace,
    split,
    with_refusals_of,
)
from copyrator.cli.core.cluster import Target
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.objects import Body, annotations_of, one, shown
from copyrator.cli.core.output import Column, Format, Kind, Table, dump, paint_diff, prose, typed
from copyrator.cli.core.reconcile import annotated
from copyrator.cli.core.waiting import check_updates_are_on, result, wait
from copyrator.cli.view.bundle import BundleView
from copyrator.cli.view.diffs import DiffView, LineBudget

if TYPE_CHECKING:
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
    for word in find_lacking(plan):
        reasons = lacking_reasons(word, plan)
        because = ", because" if reasons else ""
        yield f"{word.lack.capitalize()}: {word.otherwise}{because}"
        yield from (f"  {one}" for one in reasons)
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


_VERBS: Final = {
    OperationType.CREATE: "create",
    OperationType.UPDATE: "update",
    OperationType.DELETE: "delete",
    OperationType.RECREATE: "recreate",
    OperationType.APPLY: "blindly apply",
}
_OCCASIONS: Final = {"": "deploy", AT_ROLLBACK: "rollback", AT_UNINSTALL: "uninstall"}


@dataclass(frozen=True, slots=True)
class PlannedOperation:
    """An operation as it is read, whether it is risky, and its diff."""

    staged: StagedOperation
    is_risky: bool = False
    diff: ObjectDiff | None = None
    """None: werf's diff has none, or it isn't told which of two is this one's."""

    @property
    def operation(self) -> Operation:
        """On which object it is."""
        return self.staged.operation

    @property
    def when(self) -> str:
        """``at rollback``, ``at uninstall``; empty: the deploy does it."""
        return f"at {_OCCASIONS[self.staged.when]}" if self.staged.when else ""

    @property
    def words(self) -> str:
        """``create``, ``at rollback: blindly apply``."""
        verb = _VERBS[self.operation.type]
        return f"{self.when}: {verb}" if self.when else verb

    @property
    def role(self) -> str:
        """``as the deploying account``; else empty."""
        return "as the deploying account" if self.staged.as_account else ""

    @property
    def where(self) -> str:
        """API group and namespace: ``apps, in team-a``; empty where it has neither."""
        group, namespace = self.operation.group, self.operation.namespace
        return ", ".join(filter(None, (group, f"in {namespace}" if namespace else "")))

    @property
    def reference(self) -> str:
        """``deployment.apps/shop``, as in ``-o name``."""
        one = self.operation
        return f"{one.kind.lower()}{f'.{one.group}' if one.group else ''}/{one.name}"

    @property
    def title(self) -> str:
        """``update Deployment/shop (apps, in team-a), risky``."""
        one = self.operation
        where = f" ({self.where})" if self.where else ""
        marks = (self.role, "risky" * self.is_risky, "contents hidden" * self.is_hidden)
        return ", ".join(filter(None, (f"{self.words} {one.kind}/{one.name}{where}", *marks)))

    @property
    def is_hidden(self) -> bool:
        """Whether contents of its object aren't shown; of a Secret they never are."""
        is_secret = self.operation.kind == "Secret" and not self.operation.group
        return is_secret or (self.diff is not None and self.diff.is_hidden)


_COLUMNS: Final = (
    Column("RISK", lambda row: "risky" if row.is_risky else ""),
    Column("OPERATION", lambda row: str(row.operation.type)),
    Column("WHEN", lambda row: row.when),
    Column("GROUP", lambda row: row.operation.group or "-", wide=True),
    Column("KIND", lambda row: row.operation.kind),
    Column("NAMESPACE", lambda row: row.operation.namespace or "-"),
    Column("NAME", lambda row: row.operation.name),
    Column("ROLE", lambda row: row.role),
)


def columns(shown: Sequence[PlannedOperation]) -> list[Column]:
    """The columns of these rows; what no row has is left out."""
    return [one for one in _COLUMNS if any(map(one.value, shown))]


def describe_effect(counts: OperationCounts) -> str:
    """``create 3 objects and delete 1, and at uninstall create 1``."""
    numbers = [(verb, getattr(counts, type_) or 0) for type_, verb in _VERBS.items()]
    parts = [f"{verb} {number}" for verb, number in numbers if number]
    if parts:
        parts[0] += " object" if parts[0].endswith(" 1") else " objects"
    text = " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:]))) or "change nothing"
    further = [("rollback", counts.at_rollback), ("uninstall", counts.at_uninstall)]
    return text + "".join(f", and at {when} create {number}" for when, number in further if number)


WHAT: Final = "bundles"
ONLY_SHOWN: Final = "It is only shown: only the plan of what would be deployed can be approved."


@dataclass(frozen=True, slots=True)
class PlanView:
    """A Bundle with its plan, and what its log has."""

    view: BundleView
    log: PlanLog
    is_preview: bool = False

    @property
    def plan(self) -> PlanSummary:
        """The one that is shown: of what would be deployed, or of a version that a user named."""
        return (
            self.view.status.part(PreviewPlan)
            if self.is_preview
            else self.view.status.part(PlanStatus)
        )


@dataclass(frozen=True, slots=True)
class PreviewOptions:
    """What is to be planned before it is shown, and how many seconds that may take."""

    timeout: float
    version: str | None = None
    """None: what would be deployed."""


async def plan_bundle(
    target: Target, name: str, shape: Format, wanted: PreviewOptions | None, *, whole: bool = False
) -> bool:
    """Print the plan of a Bundle; return whether its deploy would change anything.

    ``wanted``: is made first; ``whole``: print the diff with what is in every plan.

    Raises:
        Fault: there is no plan, or it is being made, or it failed.
    """
    async with target.connect() as client:
        body = await one(client, WHAT, *target.locate(name))
        if wanted is not None:
            body = await _request_plan(client, body, wanted)
        is_preview = wanted is not None and wanted.version is not None
        found = await read_plan(client, body, is_preview=is_preview)
    if shape in (Format.JSON, Format.YAML):
        dump(document(found), shape)
    if found.plan.outcome != PlanOutcome.PLANNED and found.is_preview:
        raise Fault(f"bundle {found.view.name}: {preview_failure(found.view)}")
    if not found.is_preview and (fault := plan_fault(found.view)):
        raise Fault(fault)
    if shape is Format.NAME:
        for reference in dict.fromkeys(row.reference for row in rows_of(found)):
            click.echo(reference)
        prose(explain_missing(found), err=True)
    elif shape in (Format.TABLE, Format.WIDE):
        show(found, wide=shape is Format.WIDE, whole=whole)
        if found.is_preview:
            prose(["", ONLY_SHOWN])
        elif awaits_decision(found.view):
            *_, how = how_to_decide(found.view)
            prose(["", f"{how}."])
    return bool(found.plan.operations)


async def read_plan(client: KubeClient, body: Body, *, is_preview: bool = False) -> PlanView:
    """A Bundle with its plan's log, where that is finished."""
    found = PlanView(BundleView(body, datetime.now(UTC)), PlanLog(), is_preview)
    if found.plan.outcome != PlanOutcome.PLANNED:
        return found
    return replace(found, log=await read_plan_log(client, body, found.plan))


async def _request_plan(
    client: KubeClient, body: dict[str, Any], wanted: PreviewOptions
) -> dict[str, Any]:
    """Request a plan, and wait until that has ended.

    Raises:
        Fault: nothing can be planned, or another request came after this one.
    """
    check_updates_are_on(WHAT, body)
    former = parse_status(body).part(PlanStatus)
    also = {names.ANN_PLAN_VERSION: wanted.version}
    token, body = await annotated(client, WHAT, body, names.ANN_PLAN_AT, also)

    def handled(seen: Body) -> bool:
        check_updates_are_on(WHAT, seen)  # they may be switched off meanwhile
        if parse_status(seen).part(PlanRequests).last_handled_plan == token:
            return True
        current = annotations_of(seen).get(names.ANN_PLAN_AT)
        if wanted.version is not None and current != token:
            raise Fault(f"{shown(WHAT, seen)}: another plan was requested meanwhile; try again")
        return False

    def busy(seen: Body) -> bool:
        status = parse_status(seen)
        plan: PlanSummary = (
            status.part(PlanStatus) if wanted.version is None else status.part(PreviewPlan)
        )
        return plan.outcome == PlanOutcome.RUNNING

    body = await wait(client, WHAT, body, wanted.timeout, handled, busy=busy)
    now = parse_status(body).part(PlanStatus)
    is_former = (now.number, now.id) == (former.number, former.id)
    if wanted.version is None and wanted.timeout and is_former:
        # What the version to deploy waits for, or why there is none.
        pending = parse_status(body).condition(ConditionType.UPDATE_PENDING)
        waits = f"; {said(pending.reason)}: {said(pending.message, 2000)}"
        why = waits if pending.is_true else result(body)
        raise Fault(f"{shown(WHAT, body)}: nothing can be planned now{why}")
    return body


def plan_fault(view: BundleView) -> str:
    """Why there is no plan to show; empty where there is one."""
    plan, bundle, anew = (
        view.status.part(PlanStatus),
        f"bundle {view.name}",
        view.hint("plan", "--refresh"),
    )
    if plan.outcome is None:
        return (
            f"{bundle} has no plan{result(view.body).rstrip('.')}. Plans are made where "
            f"spec.approval.mode is OnRisk or Always, or on request: {anew}"
        )
    if plan.outcome == PlanOutcome.RUNNING:
        since = time_since(plan.started_at, view.now)
        return (
            f"{bundle}: the plan of {said(plan.version)} is being made by the Job {said(plan.job)}"
            f", since {since}; try again when it has ended"
        )
    if plan.outcome == PlanOutcome.FAILED:
        return (
            f"{bundle}: the plan of {said(plan.version)} failed: {failure(plan, view.now)}; "
            f"werf's log: {view.hint('logs', '--plan')}; to make it again: {anew}"
        )
    return ""


def show(found: PlanView, *, wide: bool = False, whole: bool = False) -> None:
    """Print a plan that was made: what to know first, what it is of, the operations, the diff."""
    first = list(first_lines(found.plan, found.log))
    prose([*first, *([""] if first else []), *detail_lines(_describe_head(found))])
    changes = planned_changes(found, whole=whole)
    if found.log.operations is not None and changes.operations:
        click.echo()
        Table(columns(changes.operations), wide=wide, whole=True).print(changes.operations)
    if found.log.diff:
        left = _show_diffs(changes, LineBudget(None) if whole else LineBudget())
        always = "the bundle's download, werf's version and managedFields"
        parts = [
            f"{count(number, 'line')} of {what}"
            for number, what in ((changes.folded, always), (left, "long diffs"))
            if number
        ]
        if parts:
            again = _anew(found) if found.is_preview else ()
            command = found.view.hint("plan", *again, "--whole")
            prose(["", f"Not shown: {' and '.join(parts)}; with them: {command}"])
    if missing := list(explain_missing(found)):
        prose(["", *missing])


OTHERS: Final = "What werf shows of objects with equal names, or of more than the operations"
REST: Final = "What else werf printed"


def _show_diffs(changes: PlannedChanges, budget: LineBudget) -> int:
    """Print the diff by object, then what is of none; return how many lines were left out."""
    mine = [(row.title, row.diff.lines) for row in changes.operations if row.diff]
    others = [(one.title, one.lines) for one in changes.others]
    left = 0
    for head, parts in (("Diff", mine), (OTHERS, others)):
        begin = ["", f"{head}:"]
        for title, lines in parts:
            diff = DiffView.of(lines, budget)
            left += diff.left
            if diff.lines:
                prose([*begin, f"  {said(title, 1000)}"])
                prose(paint_diff(diff.lines, "    "))
                prose([f"    … {count(diff.left, 'more line')}"] if diff.left else ())
                begin = [""]
    text = DiffView.of([f"  {line}" for line in changes.text if line], budget)
    if text.lines:
        prose(["", f"{REST}:", *(line.rstrip() for _, line in text.lines)])
    return left + text.left


def _describe_head(found: PlanView) -> Iterator[Detail]:
    view = found.view
    yield Detail("Bundle", view.name)
    if found.is_preview:
        yield from _describe_preview(view)
    else:
        yield from describe_plan(replace(view, body=with_refusals_of(view.body, found.log.diff)))
    yield from describe_origin(found)


def describe_origin(found: PlanView) -> Iterator[Detail]:
    """Of what release a plan is, with what values, and when it was made."""
    plan, view = found.plan, found.view
    if not found.is_preview and (note := _left_out(view)):
        yield Detail("Note", note)
    values = f", values {said(short_digest(plan.values_hash))}" if plan.values_hash else ""
    release = f"{release_namespace(view.body)}/{view.name.name}"
    yield Detail("Release", f"{release}, revision {said(plan.revision)}{values}")
    made = time_since(plan.made_at, view.now)
    yield Detail("Made", f"{made} ago by the Job {said(plan.job)}")


def _describe_preview(view: BundleView) -> Iterator[Detail]:
    plan, there = view.status.part(PreviewPlan), view.status.deployed
    asked = said(plan.requested_version)
    asked = f", for {asked}" if plan.requested_version != plan.version else ""
    yield Detail("Version", f"{describe_version(plan.version, plan.digest)}{asked}")
    if there.digest:
        yield Detail("Deployed", describe_version(there.version, there.digest))
    if shown := contents(plan):
        yield Detail("Contents", shown)
    yield Detail("Changes", operation_counts(plan))
    if plan.message:
        yield Detail("Note", said(plan.message, 2000))
    yield Detail("Kept", f"expires {time_until(plan.expires_at, view.now)}")


def _left_out(view: BundleView) -> str | None:
    """The variables that a requested plan of a Bundle without gates leaves out."""
    spec, withheld = view.spec, view.status.condition(ConditionType.SETTINGS_WITHHELD)
    if isinstance(spec, InvalidSpec) or withheld:
        return None  # its deploys don't get them either
    return describe_left_out(structs.replace(restrict_spec(spec), job=JobSpec()))


def explain_missing(found: PlanView) -> Iterator[str]:
    """What isn't shown, why, and what to do about it."""
    log, plan = found.log, found.plan
    anew = found.view.hint("plan", *_anew(found))
    if log.fault:
        yield (
            f"The operations and the diff can't be shown: {log.fault}. Where the log is gone, "
            f"{anew} makes the plan again."
        )
    if log.cut:
        command = f"kubectl logs -n {found.view.name.namespace} job/{said(plan.job)}"
        yield f"The diff is cut after {DIFF_BYTES >> 20} MiB; all of it: {command}"
    if any(one.when for one in log.planned):
        yield "The diff has no contents of what is created at rollback or at uninstall."
    if log.planned and len(_risky(found)) > (plan.risky_operations or 0):
        yield (
            "More are marked as risky than the operator counts: what this chart does with every "
            "deploy is marked, too."
        )


def _anew(found: PlanView) -> tuple[str, ...]:
    """The options by which the plan is made again."""
    if not found.is_preview:
        return ("--refresh",)
    return "--version", said(found.view.status.part(PreviewPlan).requested_version)


def rows_of(found: PlanView) -> list[PlannedOperation]:
    """The operations, those at rollback and at uninstall too; risky ones are marked."""
    marked = _risky(found)
    return [PlannedOperation(one, str(one) in marked) for one in found.log.planned]


def _risky(found: PlanView) -> frozenset[str]:
    """The texts of risky operations; a few more where the status doesn't name all of them."""
    listed, planned = set(found.plan.risky), found.log.planned
    if len(listed) >= (found.plan.risky_operations or 0):
        return frozenset(listed & set(map(str, planned)))
    return frozenset(list_risky(planned))


@dataclass(frozen=True, slots=True)
class PlannedChanges:
    """What a plan does, object by object."""

    operations: Sequence[PlannedOperation]
    """First those that are risky, then those with hidden contents; without the plan's log only the
    risky ones that the status names."""
    others: Sequence[ObjectDiff] = ()
    """What werf shows of objects that can't be told apart."""
    text: Sequence[str] = ()
    """All else that werf printed."""
    folded: int = 0
    """Lines that are in every plan, and left out."""


def planned_changes(found: PlanView, *, whole: bool = False) -> PlannedChanges:
    """The operations with their diffs, in the order in which they are read; pure.

    ``whole``: with what is in every plan.
    """
    if found.log.operations is None:
        named = filter(None, map(read_planned, found.plan.risky))
        return PlannedChanges([PlannedOperation(one, is_risky=True) for one in named])
    diff, folded = (found.log.diff or "", 0) if whole else fold(found.log.diff or "")
    objects, text = split(hide_secrets(diff))
    titles = Counter(map(_title, found.log.operations))
    titled = [
        (one.title if one.title in titles else one.title.split(", then ", 1)[0], one)
        for one in objects
    ]
    shown = Counter(title for title, _ in titled)
    diffs: dict[str, ObjectDiff] = {}
    others: list[ObjectDiff] = []
    for title, found_diff in titled:
        if titles[title] == shown[title] == 1:
            diffs[title] = found_diff
        else:
            others.append(found_diff)
    operations = [
        row if row.when else replace(row, diff=diffs.get(_title(row.operation)))
        for row in rows_of(found)
    ]
    operations.sort(key=lambda one: (not one.is_risky, not one.is_hidden))
    return PlannedChanges(operations, others, text, folded)


def _title(operation: Operation) -> str:
    """How werf names it in a diff."""
    verb = "Blind apply" if operation.type is OperationType.APPLY else operation.type.capitalize()
    where = f" (namespace={operation.namespace})" if operation.namespace else ""
    return f"{verb} {operation.kind}/{operation.name}{where}"


def document(found: PlanView) -> dict[str, Any]:
    """As in -o json: the plan of the status, with what its log has."""
    log, hidden = found.log, {}
    if is_judged(found.plan) and log.operations is not None:
        hidden = {"hiddenSecrets": hidden_secrets(log.operations)}
    fields = {
        "bundle": str(found.view.name),
        "plan": found.plan.to_dict(),
        **({"preview": True} if found.is_preview else {}),
        "operations": None if log.operations is None else [*map(_row, rows_of(found))],
        **hidden,
        "diff": log.diff and hide_secrets(log.diff),
        **({"error": log.fault} if log.fault else {}),
    }
    return typed(Kind.BUNDLE_PLAN, fields)


def _row(row: PlannedOperation) -> dict[str, Any]:
    one = row.operation
    return {
        "type": str(one.type),
        "when": _OCCASIONS[row.staged.when],
        "group": one.group,
        "kind": one.kind,
        "namespace": one.namespace,
        "name": one.name,
        "asDeployingAccount": row.staged.as_account,
        "risky": row.is_risky,
    }
