"""What is reported of a rule: its status, and Events about its copies.

A status is written rarely, and only if it changed. A rule's writes are one log line for each burst,
with counts and causes, and one Event for all rules of a namespace. Owners of target namespaces get
warnings why a copy is missing, only of rules that may copy there, so never of a rule that the
namespace doesn't accept.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from copyrator.api import names
from copyrator.api.conditions import ConditionType, Health, ReadyCondition, ready_reason
from copyrator.api.keys import CopyKey
from copyrator.api.reasons import KeptReason
from copyrator.api.reasons.rules import FailureReason, RuleEvent, RuleReason
from copyrator.api.rule_spec import RuleSpec
from copyrator.api.rule_status import (
    FIELDS_DROPPED,
    NO_STATUS,
    Failure,
    RuleFacts,
    RuleStatus,
    UnconfirmedEdit,
    build_rule_status,
)
from copyrator.api.schema import InvalidSpec
from copyrator.copies.context import CopyContext
from copyrator.copies.rules import ready_conditions
from copyrator.copies.rules.rules import Rule
from copyrator.copies.rules.state import RulePhase, RuleState
from copyrator.copies.rules.summarize import RuleSummary
from copyrator.copies.rules.trace import Burst, Trigger, edit_text
from copyrator.copies.sources.bindings import CopyRequest
from copyrator.copies.targets.planning import Action, Cause, CopyDecision
from copyrator.kube import errors
from copyrator.kube.client.client import PatchType
from copyrator.kube.events import WARNING, ObjectRef
from copyrator.kube.resources import RULES, Resource
from copyrator.workqueue.fairness import TimeSlice

log = logging.getLogger(__name__)


def delay_first_status(context: CopyContext, state: RuleState) -> None:
    """Copies have just been queued: their result is a better first status than Progressing."""
    now, timing = context.monotonic(), context.timing
    state.delay_status(now + timing.settling)
    state.note_change(now + timing.unreported_edit)


async def write_status(
    context: CopyContext, state: RuleState, rule: Rule, condition: ReadyCondition, facts: RuleFacts
) -> None:
    """Write the status if it changed; at most once a second for a rule.

    Raises:
        ConflictError: the rule has changed.
        ApiError: it can't be written.
    """
    if condition.reason != RuleReason.PROGRESSING:  # that isn't the result of a request
        facts = replace(facts, request=rule.requested)
    state.found = condition
    suspension, condition = ready_conditions.keep_ready(rule, condition)
    context.rule_metrics.note(rule.key, condition.reason, facts.copies)
    facts = replace(
        facts,
        suspension=suspension,
        unconfirmed=_unconfirmed(state, rule, condition),
        warning=context.settings.certificate_warning,
        steps=_steps(rule),
    )
    status = build_rule_status(
        rule.status, condition, facts, generation=rule.generation, now=context.clock()
    )
    if status == rule.status:
        state.report_by = math.inf
        return
    if state.next_status > context.monotonic():
        context.touch(rule.owner)
        return
    state.delay_status(context.monotonic() + context.timing.status_interval)
    known, version = rule.status, rule.resource_version
    try:
        answer = await context.client.patch(
            RULES,
            rule.key.namespace,
            rule.key.name,
            {
                "apiVersion": names.RULE_API_VERSION,
                "kind": names.RULE_KIND,
                "metadata": {
                    "name": rule.key.name,
                    "namespace": rule.key.namespace,
                    "uid": rule.uid,
                    "resourceVersion": version,
                },
                "status": status.to_dict(),
            },
            kind=PatchType.APPLY,
            subresource="status",
            force=True,
        )
    except errors.NotFound:
        return  # its watch event follows
    stored = context.rules.get(rule.key)  # the event of the earlier version may have come meanwhile
    for one in [rule] if stored is None else [rule, stored]:
        if (one.uid, one.resource_version) == (rule.uid, version):
            one.status, one.resource_version = status, answer["metadata"]["resourceVersion"]
    state.report_by = math.inf
    if condition.reason not in (ready_reason(known.conditions), RuleReason.PROGRESSING):
        if condition.health in (Health.READY, Health.PAUSED, Health.PROGRESSING):
            context.reports.add(_ref(rule), condition.reason, condition.message)
        else:
            context.reports.forget_state(_ref(rule))
            context.recorder.record(_ref(rule), condition.reason, condition.message)
    for kind in (ConditionType.CERTIFICATE_EXPIRING, FIELDS_DROPPED):
        _record_warning(context, rule, kind, known)


async def patch_metadata(context: CopyContext, rule: Rule, **changes: Any) -> None:
    """Change the metadata of a rule, if no other client has changed the rule meanwhile.

    Raises:
        ConflictError: one has.
        ApiError: it can't be written.
    """
    known = {"uid": rule.uid, "resourceVersion": rule.resource_version}
    patch = {"metadata": {**known, **changes}}
    answer = await context.client.patch(RULES, rule.key.namespace, rule.key.name, patch)
    rule.finalizers = tuple(answer["metadata"].get("finalizers") or ())
    rule.resource_version = answer["metadata"]["resourceVersion"]


async def report_fault(context: CopyContext, rule: Rule, condition: ReadyCondition) -> None:
    """Report what keeps a rule from being served; its status may not be writable either."""
    state = context.rule_states.setdefault(rule.key, RuleState(rule.key))
    with suppress(Exception):  # the fault matters, and the worker logs it
        await write_status(context, state, rule, condition, RuleFacts())


def _steps(rule: Rule) -> int | None:
    """How many steps a rule's rollout has; None where its spec isn't known."""
    if isinstance(rule.spec, InvalidSpec):
        return None
    return len(rule.spec.rollout.steps) if rule.spec.rollout else 0


def _unconfirmed(state: RuleState, rule: Rule, condition: ReadyCondition) -> UnconfirmedEdit | None:
    """What the status records about an edit whose deletions aren't allowed (yet).

    Not of a rule that is paused: it deletes nothing before another edit.
    """
    last = rule.status.confirmed_generation
    paused = condition.reason in (RuleReason.SUSPENDED, RuleReason.PLANNED)
    if paused or rule.generation in (state.deletions.confirmed, last):
        return None
    edit = state.deletions.unconfirmed
    if edit is not None and edit.copies is not None and edit.generation == rule.generation:
        return UnconfirmedEdit(last, len(edit.copies), edit.had)
    return rule.status.unconfirmed or (UnconfirmedEdit(last) if last else None)


def _record_warning(context: CopyContext, rule: Rule, kind: str, known: RuleStatus) -> None:
    """Record an Event when a condition becomes True, and when what it says changes.

    Such as when a certificate enters its warning period, and when it ends.
    """
    before, after = known.condition(kind), rule.status.condition(kind)
    same = all(
        getattr(before, part) == getattr(after, part) for part in ("status", "reason", "message")
    )
    if after.is_true and not same:
        reason = KeptReason(after.reason or "")
        context.recorder.record(_ref(rule), reason, after.message or "", type_=WARNING)


def _ref(rule: Rule) -> ObjectRef:
    key = rule.key
    return ObjectRef(names.RULE_API_VERSION, names.RULE_KIND, key.namespace, key.name, rule.uid)


def dropped_fields(state: RuleState, rule: Rule, spec: RuleSpec) -> list[str]:
    """The fields that copies are written without.

    Of a template's metadata only some is written at all; the rest is known from the API server,
    and as long as nothing was written, from the status.
    """
    metadata = spec.template.body["metadata"] if spec.template else {}
    ours = {f"metadata.{key}" for key, value in metadata.items() if value and key not in _WRITTEN}
    known = state.dropped
    if known is None:
        known = {one for one in rule.status.dropped_fields if not one.startswith("metadata.")}
    return sorted(known | ours)


_WRITTEN: Final = frozenset({"name", "namespace", "labels", "annotations"})


_BY_CAUSE = {
    Cause.DRIFTED: Trigger.DRIFT,
    Cause.TAKEN_OVER: Trigger.TAKEN_OVER,
    Cause.UNMANAGED: Trigger.UNMANAGED,
    Cause.UNSEALED: Trigger.UNSEALED,
}


def record_write(
    context: CopyContext, key: CopyKey, plan: CopyDecision[CopyRequest], owner: str
) -> None:
    """Count a write that succeeded; `owner` is the rule that had the copy, or empty."""
    if state := context.state_of(plan.winner.owner if plan.winner else owner):
        trigger, names = _trigger(state, key, plan)
        state.trace.add(plan.act, trigger, names, context.monotonic())


def _trigger(
    state: RuleState, key: CopyKey, plan: CopyDecision[CopyRequest]
) -> tuple[Trigger, tuple[str, ...]]:
    """Why a copy was written, and what the cause names."""
    trace = state.trace
    if plan.act in (Action.DELETE, Action.RELEASE):
        return _why_deleted(state, key)
    if known := _BY_CAUSE.get(plan.why):
        return known, ()
    if plan.winner is not None and (changed := plan.winner.binding.cause(trace)):
        return changed
    if key.namespace in trace.namespaces:
        return Trigger.NAMESPACE, (key.namespace,)
    if key in trace.lost:
        return Trigger.LOST, ()
    barrier = state.compiled.barrier if state.compiled else None
    step = barrier.cause() if barrier and plan.act is Action.REPLACE else None
    return step or (Trigger.EDIT, (trace.edit,))


def _why_deleted(state: RuleState, key: CopyKey) -> tuple[Trigger, tuple[str, ...]]:
    if state.phase is RulePhase.DELETING:
        return Trigger.RULE_DELETED, ()
    if state.trace.deletes_by_edit:
        return Trigger.EDIT, (state.trace.edit,)
    compiled = state.compiled
    if compiled is not None and key.namespace not in compiled.targets:
        return Trigger.NAMESPACE_LEFT, (key.namespace,)
    source = compiled.spec.source if compiled else None
    if source is not None and source.name:
        return Trigger.SOURCE_GONE, (f"{source.namespaces[0]}/{source.name}",)
    return Trigger.SOURCE_GONE, (f"of {key.name}",)


def what_changed(rule: Rule, spec: RuleSpec, served: RuleSpec | None) -> str:
    """What makes copies due when a version of a rule begins to be served."""
    if served is None and rule.status == NO_STATUS:
        return "the rule is new"
    if served is None and rule.is_observed:
        return "found when the operator started to serve the rule"
    return edit_text(served, spec, rule.generation)


async def report_finished_writes(context: CopyContext) -> None:
    """Report the bursts that are over."""
    writing = set()
    pause = TimeSlice().pause
    for state in list(context.rule_states.values()):
        if (burst := state.trace.take(context.monotonic())) and (
            rule := context.rules.get(state.key)
        ):
            _report_writes(context, rule, burst)
        if state.trace.is_open:
            writing.add(state.key.namespace)
        await pause()
    context.reports.flush(writing)


def report_all_writes(context: CopyContext, rules: Iterable[Rule]) -> None:
    """Report what these rules wrote, finished or not."""
    for rule in rules:
        state = context.rule_states.get(rule.key)
        if state is not None and (burst := state.trace.take(float("inf"))):
            _report_writes(context, rule, burst)


def _report_writes(context: CopyContext, rule: Rule, burst: Burst) -> None:
    log.info("%s: %s", rule.owner, burst.to_string())
    context.reports.add(_ref(rule), RuleEvent.COPIES_CHANGED, burst)


def notify_owners(context: CopyContext, state: RuleState, rule: Rule, summary: RuleSummary) -> None:
    """Record Events of templates that can't be rendered; failed writes record their own."""
    if state.phase is not RulePhase.SERVING or state.compiled is None:
        return
    resource = context.kinds[state.compiled.resource].resource
    for sample in summary.samples:
        if sample.reason is FailureReason.TEMPLATE_ERROR:
            notify_owner(context, rule, resource, sample)


def notify_owner(context: CopyContext, rule: Rule, resource: Resource, failure: Failure) -> None:
    """Record an Event about a copy that can't be written, within the limits."""
    namespace = failure.namespace
    if failure.reason is FailureReason.NOT_ACCEPTED or namespace == rule.key.namespace:
        return
    notice = namespace, rule.owner, failure.reason
    if not context.notices.take(notice, context.monotonic()):
        return
    name = failure.name or rule.key.name
    ref = ObjectRef(resource.api_version, resource.kind, namespace, name)
    fights = failure.reason is FailureReason.CONFLICT_PERSISTS
    problem = "can't keep this copy as it wants it" if fights else "can't write this copy"
    text = f"the rule {rule.owner} {problem}: {failure.text}"
    context.recorder.record(ref, FailureReason.read(failure.reason), text)
