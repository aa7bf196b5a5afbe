"""Its metrics."""

from copyrator.metrics import MetricSet, gauge


class GreetingMetrics(MetricSet):
    """Who greets."""

    greeting = gauge("Bundles that greet.")


METRICS = GreetingMetrics
