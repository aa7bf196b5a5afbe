"""Its metrics."""

from copyrator.metrics import MetricSet, gauge


class GreetingMetrics(MetricSet):
    """Who greets, and who is looked after."""

    greeting = gauge("Bundles that greet.")
    attended = gauge("Those in a reconcile.")


METRICS = GreetingMetrics
