"""The metric of health."""

from copyrator.metrics import MetricSet, gauge


class HealthMetrics(MetricSet):
    """What is watched."""

    bundles_health = gauge(
        "Bundles with spec.health: Watch, by their condition Healthy: True, False or Unknown.",
        "healthy",
    )


METRICS = HealthMetrics
