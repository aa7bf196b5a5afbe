"""The metrics of promotion."""

from copyrator.metrics import MetricSet, counter, gauge


class PromotionMetrics(MetricSet):
    """Evidence that was read, and soaks."""

    evidence_checks = counter(
        "Digests whose attestations were read for spec.promoteFrom: Verified (all count), "
        "Refused (some don't, or there is none), or Unavailable (they can't all be read).",
        "result",
    )
    soak_remaining_seconds = gauge(
        "Seconds until the last soak ends that a Bundle with spec.promoteFrom waits for; 0 "
        "where there is none."
    )


METRICS = PromotionMetrics
