"""Reports a rule's writes: one log line and one Event for each burst, with counts and causes."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from copyrator.api import names
from copyrator.api.keys import CopyKey
from copyrator.api.rule_spec import RuleSpec
from copyrator.copies.rules.rules import Rule
from copyrator.copies.rules.state import RulePhase, RuleState
from copyrator.copies.rules.trace import Trigger, edit_text
from copyrator.copies.targets.planning import Action, Cause, CopyDecision
from copyrator.copies.targets.request import CopyRequest
from copyrator.kube.events import ObjectRef

if TYPE_CHECKING:
    from copyrator.copies.context import CopyContext

log = logging.getLogger(__name__)

EVENT_REASON = "CopiesChanged"

_BY_CAUSE = {
    Cause.DRIFTED: Trigger.DRIFT,
    Cause.TAKEN_OVER: Trigger.TAKEN_OVER,
    Cause.UNMANAGED: Trigger.UNMANAGED,
    Cause.UNSEALED: Trigger.UNSEALED,
}


def note_write(
    context: CopyContext, key: CopyKey, plan: CopyDecision[CopyRequest], owner: str
) -> None:
    """Count a write that succeeded; `owner` is the rule that had the copy, or empty."""
    rule = plan.winner.rule if plan.winner else context.rules.by_owner(owner)
    state = context.rule_states.get(rule.key) if rule else None
    if state is not None:
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
    if plan.winner is not None and plan.winner.binding.composition is not None:
        trigger, changed = Trigger.COMPOSED, tuple(trace.sources)
    else:
        origin = plan.winner.binding.origin if plan.winner else ""
        trigger, changed = Trigger.SOURCE, (origin,) if origin in trace.sources else ()
    if changed:
        return trigger, changed
    if key.namespace in trace.namespaces:
        return Trigger.NAMESPACE, (key.namespace,)
    if key in trace.lost:
        return Trigger.LOST, ()
    rollout = _rollout(state) if plan.act is Action.REPLACE else None
    return rollout or (Trigger.EDIT, (trace.edit,))


def _rollout(state: RuleState) -> tuple[Trigger, tuple[str, ...]] | None:
    """A step after the first one, or a user's end of all steps; None where it is neither."""
    rollout, compiled = state.rollout, state.compiled
    if rollout is None or compiled is None:
        return None
    finish = compiled.rule.finish or ""
    if finish.startswith(f"{rollout.content}-"):  # it may have ended already
        return Trigger.ROLLOUT_FINISHED, ()
    return (Trigger.ROLLOUT, (str(rollout.step),)) if rollout.step > 1 else None


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
    if served is None and not rule.status:
        return "the rule is new"
    if served is None and rule.is_observed:
        return "found when the operator started to serve the rule"
    return edit_text(served, spec, rule.generation)


def report_finished(context: CopyContext) -> None:
    """Report the bursts that are over."""
    for state in list(context.rule_states.values()):
        if (text := state.trace.take(context.monotonic())) and (
            rule := context.rules.get(state.key)
        ):
            _report(context, rule, text)


def report_now(context: CopyContext, rules: Iterable[Rule]) -> None:
    """Report what these rules wrote, finished or not."""
    for rule in rules:
        state = context.rule_states.get(rule.key)
        if state is not None and (text := state.trace.take(float("inf"))):
            _report(context, rule, text)


def _report(context: CopyContext, rule: Rule, text: str) -> None:
    log.info("%s: %s", rule.owner, text)
    ref = ObjectRef(
        names.RULE_API_VERSION, names.RULE_KIND, rule.key.namespace, rule.key.name, rule.uid
    )
    context.recorder.record(ref, "Normal", EVENT_REASON, text)
