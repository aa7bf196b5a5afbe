"""The gauges of all Bundles."""

from __future__ import annotations

from collections import Counter
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason
from copyrator.api.conditions import ConditionStatus
from copyrator.api.drift_status import DriftReason
from copyrator.bundles.context import Context
from copyrator.bundles.freezes import REASONS, SCOPES, Freezes
from copyrator.bundles.policy.gates import promotion
from copyrator.bundles.references.watches import ReferenceWatches

_REASONS: Final = frozenset(reason.value for reason in BundleReason)
"""The values of labels: a status can be forged, and must not add others."""


def publish_gauges(context: Context, watches: ReferenceWatches) -> None:
    """Set the gauges of all Bundles, of the objects that they name, and the oldest poll's age."""
    reasons: Counter[str] = Counter()
    quarantined, oldest, now = 0, 0.0, context.monotonic()
    waiting = [one.awaits_approval_since for one in context.bundles if one.awaits_approval_since]
    for entry in context.bundles:
        reasons[entry.reason if entry.reason in _REASONS else "Unknown"] += 1
        quarantined += entry.quarantined
        memory = context.memories.get(entry.key)
        polled = isinstance(entry.spec, BundleSpec) and not entry.is_paused and not entry.deleting
        if memory is not None and polled:
            oldest = max(oldest, now - memory.poll.answered_at)
    gauge = context.metrics.bundles
    gauge.clear()
    for reason, count in reasons.items():
        gauge.labels(reason).set(count)
    pending = context.metrics.updates_pending
    pending.clear()
    for reason, count in Counter(one.pending for one in context.bundles if one.pending).items():
        pending.labels(reason).set(count)
    context.metrics.bundles_quarantined.set(quarantined)
    drifted = Counter(entry.drifted for entry in context.bundles if entry.drifted)
    for reason in (DriftReason.DRIFTED, DriftReason.DRIFT_RECURRING):
        context.metrics.bundles_drifted.labels(reason).set(drifted[reason])
    health = Counter(entry.health for entry in context.bundles if entry.health)
    for status in ConditionStatus:
        context.metrics.bundles_health.labels(status).set(health[status])
    context.metrics.bundles_untrusted.set(sum(entry.is_untrusted for entry in context.bundles))
    context.metrics.oldest_poll_seconds.set(oldest)
    _publish_waits(context)
    context.metrics.plans_awaiting_approval.set(len(waiting))
    longest = (context.clock() - min(waiting)).total_seconds() if waiting else 0.0
    context.metrics.oldest_plan_seconds.set(longest)
    for scope, count in watches.count().items():
        context.metrics.bundle_references.labels(scope).set(count)


def publish_freezes(context: Context, freezes: Freezes) -> None:
    """Set the gauges of freezes."""
    found = freezes.count()
    for scope in SCOPES:
        for reason in REASONS:
            context.metrics.freezes.labels(scope, reason).set(found[scope, reason])


def _publish_waits(context: Context) -> None:
    """Set the gauges of waiting Bundles: number by gate, longest wait, longest remaining soak."""
    known = {gate.name for gate in (*context.gates.version, *context.gates.moment)}
    waiting: Counter[str] = Counter()
    now, longest, remaining = context.clock(), 0.0, 0.0
    for entry in context.bundles:
        first = next((name for name in entry.waits_for if name in known), None)
        if first is None:
            continue
        waiting[first] += 1
        if entry.waits_since is not None:
            longest = max(longest, (now - entry.waits_since).total_seconds())
        if promotion.NAME in entry.waits_for and entry.judge_at is not None:
            remaining = max(remaining, (entry.judge_at - now).total_seconds())
    gauge = context.metrics.bundles_waiting
    gauge.clear()
    for name, count in waiting.items():
        gauge.labels(name).set(count)
    context.metrics.oldest_wait_seconds.set(longest)
    context.metrics.soak_remaining_seconds.set(remaining)
