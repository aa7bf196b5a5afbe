"""The metrics of approval."""

from copyrator.metrics import MetricSet, gauge


class ApprovalMetrics(MetricSet):
    """Plans that wait, and what was deployed as approved."""

    bundles_as_approved = gauge(
        "Bundles whose last deploy was planned and approved, by their condition AsApproved: "
        "True, False where it stored something else, or Unknown.",
        "as_approved",
    )
    plans_awaiting_approval = gauge("Bundles whose plan waits for a person's decision.")
    oldest_plan_seconds = gauge(
        "Seconds since the oldest plan was made that waits for a person's decision; 0 where "
        "none does."
    )


METRICS = ApprovalMetrics
