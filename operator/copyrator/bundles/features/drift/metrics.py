"""The metrics of drift."""

from copyrator.metrics import MetricSet, counter, gauge


class DriftMetrics(MetricSet):
    """Checks, what they found, and corrections."""

    bundles_drifted = gauge(
        "Bundles with objects that aren't as they were deployed, by reason: Drifted, or "
        "DriftRecurring where corrections don't last.",
        "reason",
    )
    drift_checks_skipped = counter(
        "Checks for drift that couldn't begin before the next one was due: raise "
        "--max-plan-jobs, or spec.drift.interval."
    )
    drift_corrections = counter("Deploys that corrected drift, by result.", "result")


METRICS = DriftMetrics
