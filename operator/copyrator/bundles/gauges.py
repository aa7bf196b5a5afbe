"""The gauges of all Bundles."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason, BundleStatus, Outcome, Trust
from copyrator.api.conditions import ConditionStatus, ConditionType
from copyrator.api.drift_status import DriftReason
from copyrator.api.times import parse_time
from copyrator.bundles.context import Context
from copyrator.bundles.gates import promotion
from copyrator.bundles.inputs.freezes import REASONS, SCOPES, FreezeWatcher
from copyrator.bundles.inputs.watches import ReferenceWatcher
from copyrator.bundles.plan.record import awaits_approval_since, next_check

_REASONS: Final = frozenset(reason.value for reason in BundleReason)
"""The values of labels: a status can be forged, and must not add others."""
_DRIFTED: Final = (DriftReason.DRIFTED, DriftReason.DRIFT_RECURRING)


def publish_gauges(context: Context, watches: ReferenceWatcher) -> None:
    """Set the gauges of all Bundles, of the objects that they name, and the oldest poll's age."""
    reasons, pending, drifted, health = (Counter[str]() for _ in range(4))
    quarantined, untrusted, oldest, now = 0, 0, 0.0, context.monotonic()
    for entry in context.bundles:
        status = entry.status
        reason = status.ready_reason
        reasons[reason if reason in _REASONS else "Unknown"] += 1
        pending[_true_reason(status, ConditionType.UPDATE_PENDING)] += 1
        drifted[_true_reason(status, ConditionType.DRIFTED)] += 1
        health[entry.health] += 1
        failed = status.attempted.outcome == Outcome.FAILED
        quarantined += failed and status.attempted.next_retry_at is None
        untrusted += status.verification.verdict == Trust.NOT_TRUSTED
        memory = context.memories.get(entry.key)
        polled = isinstance(entry.spec, BundleSpec) and not entry.is_paused and not entry.deleting
        if memory is not None and polled:
            oldest = max(oldest, now - memory.poll.answered_at)
    gauge = context.metrics.bundles
    gauge.clear()
    for reason, count in reasons.items():
        gauge.labels(reason).set(count)
    gauge = context.metrics.updates_pending
    gauge.clear()
    for reason, count in pending.items():
        if reason in _REASONS:
            gauge.labels(reason).set(count)
    context.metrics.bundles_quarantined.set(quarantined)
    for reason in _DRIFTED:
        context.metrics.bundles_drifted.labels(reason).set(drifted[reason])
    for one in ConditionStatus:
        context.metrics.bundles_health.labels(one).set(health[one])
    context.metrics.bundles_untrusted.set(untrusted)
    context.metrics.oldest_poll_seconds.set(oldest)
    _publish_waits(context)
    for scope, count in watches.count().items():
        context.metrics.bundle_references.labels(scope).set(count)


def _true_reason(status: BundleStatus, kind: ConditionType) -> str:
    """The reason of a condition that is True; empty for any other."""
    found = status.condition(kind)
    return str(found.get("reason")) if found.get("status") == ConditionStatus.TRUE else ""


def publish_freezes(context: Context, freezes: FreezeWatcher) -> None:
    """Set the gauges of freezes."""
    found = freezes.count()
    for scope in SCOPES:
        for reason in REASONS:
            context.metrics.freezes.labels(scope, reason).set(found[scope, reason])


def _publish_waits(context: Context) -> None:
    """Set the gauges of waiting Bundles: number by gate, longest wait, plans to approve, soak."""
    known = {gate.name for gate in context.gates}
    waiting: Counter[str] = Counter()
    plans: list[datetime] = []
    now, longest, remaining = context.clock(), 0.0, 0.0
    for entry in context.bundles:
        if not entry.status.gates:
            continue
        if (made_at := awaits_approval_since(entry.status)) is not None:
            plans.append(made_at)
        names = entry.status.open_gates
        if (first := next((name for name in names if name in known), None)) is None:
            continue
        waiting[first] += 1
        if (since := _waits_since(entry.status)) is not None:
            longest = max(longest, (now - since).total_seconds())
        if promotion.NAME in names and (judge_at := next_check(entry.status)) is not None:
            remaining = max(remaining, (judge_at - now).total_seconds())
    gauge = context.metrics.bundles_waiting
    gauge.clear()
    for name, count in waiting.items():
        gauge.labels(name).set(count)
    context.metrics.oldest_wait_seconds.set(longest)
    context.metrics.soak_remaining_seconds.set(remaining)
    context.metrics.plans_awaiting_approval.set(len(plans))
    oldest = (now - min(plans)).total_seconds() if plans else 0.0
    context.metrics.oldest_plan_seconds.set(oldest)


def _waits_since(status: BundleStatus) -> datetime | None:
    found = status.condition(ConditionType.UPDATE_PENDING)
    is_true = found.get("status") == ConditionStatus.TRUE
    return parse_time(found.get("lastTransitionTime")) if is_true else None
