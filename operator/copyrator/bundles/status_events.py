"""Emits Events about changes of a Bundle's status, each once."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from copyrator.api.bundle_status import BundleReason, BundleStatus, Outcome, Trust
from copyrator.api.conditions import (
    ConditionStatus,
    ConditionType,
    Health,
    ReadyCondition,
    conditions_by_type,
    ready_reason,
)
from copyrator.api.plan_status import PlanOutcome
from copyrator.bundles.context import Context
from copyrator.bundles.entry import BundleEntry
from copyrator.bundles.policy import ready_conditions
from copyrator.bundles.policy.gates import signature
from copyrator.bundles.policy.plans import correction
from copyrator.kube.events import NORMAL, WARNING, EventType

log = logging.getLogger(__name__)

_FAULTS = (
    BundleReason.PLAN_FAILED,
    BundleReason.PLAN_UNSTABLE,
    BundleReason.SIGNATURE_INVALID,
    BundleReason.VERIFICATION_UNAVAILABLE,
)
"""Reasons of gates that are faults, also where only a newer version waits."""


def record_ready(context: Context, entry: BundleEntry, verdict: ReadyCondition) -> None:
    """Emit an Event where the reason of Ready changed."""
    if ready_reason(entry.status.conditions) == verdict.reason:
        return
    if verdict.reason == BundleReason.PLANNING and _is_planning(entry.status):
        return  # the condition UpdatePending told it
    good = verdict.health in (Health.READY, Health.PROGRESSING, Health.PAUSED)
    good = good and verdict.reason not in _FAULTS
    _emit(context, entry, NORMAL if good else WARNING, verdict.reason, verdict.message)


def record_update(
    context: Context, entry: BundleEntry, status: BundleStatus, verdict: ReadyCondition
) -> None:
    """Emit an Event where the reason of UpdatePending changed, or a plan was decided."""
    before, update = entry.status, ready_conditions.update_pending(status)
    reported = {ready_conditions.update_pending(before).reason, verdict.reason}
    is_told = update.reason in reported
    if update.reason == BundleReason.PLANNING and not _is_planning(status):
        is_told = True  # nothing is planned yet, because of a fault or other plans
    if update.reason == BundleReason.PLAN_REJECTED:
        is_told = True  # by the Event about the decision
    if update.status == ConditionStatus.TRUE and not is_told:
        kind: EventType = WARNING if update.reason in _FAULTS else NORMAL
        _emit(context, entry, kind, update.reason, update.message)
    _record_force(context, entry, status)
    _record_trust(context, entry, status)
    _record_decision(context, entry, status, verdict)


def _is_planning(status: BundleStatus) -> bool:
    """Whether the condition UpdatePending tells of a plan that was begun."""
    is_begun = status.plan.outcome == PlanOutcome.RUNNING
    return is_begun and ready_conditions.update_pending(status).reason == BundleReason.PLANNING


def _record_decision(
    context: Context, entry: BundleEntry, status: BundleStatus, verdict: ReadyCondition
) -> None:
    """Emit an Event where a plan was decided, unless Ready tells it."""
    before, plan = entry.status.plan, status.plan
    if not plan.decision or (plan.id, plan.decision) == (before.id, before.decision):
        return
    by = f" by {plan.by}" if plan.by else ""
    text = f"Plan {plan.id} of {plan.version} is {plan.decision.lower()}{by}"
    reason = f"Plan{plan.decision}"
    if not reason == verdict.reason != ready_reason(entry.status.conditions):
        context.record(entry, NORMAL, reason, text)
    log.info("%s: %s", entry.key, text)


def _record_force(context: Context, entry: BundleEntry, status: BundleStatus) -> None:
    """Emit an Event where a forced deploy that ignores gates begins."""
    attempted = status.attempted
    if not attempted.passed_over or attempted.attempt == entry.status.attempted.attempt:
        return
    over = ", ".join(f"{one.name} ({one.reason})" for one in attempted.passed_over)
    text = f"The forced deploy of {attempted.version} passes over gates: {over}"
    context.record(entry, NORMAL, "GatesPassedOver", text)
    log.info("%s: %s", entry.key, text)


def _record_trust(context: Context, entry: BundleEntry, status: BundleStatus) -> None:
    """Emit an Event where what is deployed is no longer trusted, or is trusted again."""
    before, now = entry.status.verification, status.verification
    if now.verdict == before.verdict or now.verdict not in (Trust.TRUSTED, Trust.NOT_TRUSTED):
        return
    if now.verdict == Trust.TRUSTED and before.verdict != Trust.NOT_TRUSTED:
        return
    found = signature.verified_condition(status)
    assert found is not None
    kind: EventType = NORMAL if now.verdict == Trust.TRUSTED else WARNING
    _emit(context, entry, kind, found.reason, found.message)


def record_drift(context: Context, before: BundleEntry, written: BundleEntry) -> None:
    """Emit an Event where objects have drifted, have drifted again, or were corrected."""
    status, attempted = written.status, before.status.attempted
    was_running = attempted.correction and attempted.outcome == Outcome.RUNNING
    if was_running and status.attempted.outcome != Outcome.RUNNING:
        _record_correction(context, written, status)
    old, new = _condition(before), _condition(written)
    is_true = new.get("status") == ConditionStatus.TRUE
    if is_true and new.get("reason") != old.get("reason"):
        _emit(context, written, WARNING, str(new.get("reason")), str(new.get("message")))


def _condition(entry: BundleEntry) -> Mapping[str, Any]:
    return conditions_by_type(entry.status.conditions).get(ConditionType.DRIFTED, {})


def _record_correction(context: Context, entry: BundleEntry, status: BundleStatus) -> None:
    outcome = status.attempted.outcome or ""
    context.metrics.drift_corrections.labels(outcome.lower()).inc()
    if outcome == Outcome.SUCCEEDED:
        text = (
            f"{correction.drifted_objects(status)} {correction.has_or_have(status)} been corrected"
        )
        _emit(context, entry, NORMAL, "DriftCorrected", text)


def record_health(context: Context, before: BundleEntry, written: BundleEntry) -> None:
    """Emit an Event where a release became unhealthy, or became healthy again."""
    if before.health == written.health:
        return
    found: Any = conditions_by_type(written.status.conditions).get(ConditionType.HEALTHY, {})
    reason, message = str(found.get("reason")), str(found.get("message"))
    if written.health == ConditionStatus.FALSE:
        _emit(context, written, WARNING, reason, message)
    elif written.health == ConditionStatus.TRUE and before.health == ConditionStatus.FALSE:
        _emit(context, written, NORMAL, reason, message)


def _emit(context: Context, entry: BundleEntry, kind: EventType, reason: str, message: str) -> None:
    """Emit an Event, and log the same."""
    context.record(entry, kind, reason, message)
    level = logging.INFO if kind == NORMAL else logging.WARNING
    log.log(level, "%s: %s: %s", entry.key, reason, message)
