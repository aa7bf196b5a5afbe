"""The metrics of attestations."""

from copyrator.metrics import MetricSet, counter, gauge


class AttestMetrics(MetricSet):
    """Pushes of statements."""

    attestations = counter(
        "Statements of Bundles with spec.attest that were pushed to a registry: Attested (also "
        "renewed), Withdrawn, or the reason of the failure.",
        "result",
    )
    bundles_unattested = gauge(
        "Bundles whose statement isn't in the registry, as it can't be signed or pushed, by "
        "the reason of their condition Attested.",
        "reason",
    )


METRICS = AttestMetrics
