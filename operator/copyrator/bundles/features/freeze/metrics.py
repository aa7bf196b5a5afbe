"""The metric of freezes."""

from copyrator.metrics import MetricSet, gauge


class FreezeMetrics(MetricSet):
    """Those in force."""

    freezes = gauge(
        "Freezes in force, by scope (all, or namespace) and reason: Frozen, or "
        "FreezeUnreadable where nothing is deployed because a freeze can't be read.",
        "scope",
        "reason",
    )


METRICS = FreezeMetrics
