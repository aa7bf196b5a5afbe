"""What the gauges of Bundles say, worked out when somebody asks: nothing to keep in step."""

from __future__ import annotations

from collections import Counter
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason
from copyrator.bundles.context import Context
from copyrator.bundles.reference_watches import ReferenceWatches

_REASONS: Final = frozenset(reason.value for reason in BundleReason)
"""A status can be forged, and must not make new label values."""


def publish(context: Context, watches: ReferenceWatches) -> None:
    """Count all Bundles and what they name, and find the one that was polled longest ago."""
    reasons: Counter[str] = Counter()
    quarantined, oldest, now = 0, 0.0, context.monotonic()
    for entry in context.bundles:
        reasons[entry.reason if entry.reason in _REASONS else "Unknown"] += 1
        quarantined += entry.quarantined
        memory = context.memories.get(entry.key)
        asks = isinstance(entry.spec, BundleSpec) and not entry.is_paused and not entry.deleting
        if memory is not None and asks:
            oldest = max(oldest, now - memory.answered_at)
    gauge = context.metrics.bundles
    gauge.clear()
    for reason, count in reasons.items():
        gauge.labels(reason).set(count)
    context.metrics.bundles_quarantined.set(quarantined)
    context.metrics.oldest_poll_seconds.set(oldest)
    for scope, count in watches.count().items():
        context.metrics.bundle_references.labels(scope).set(count)
