"""The metrics of signatures."""

from copyrator.metrics import MetricSet, counter, gauge


class SignatureMetrics(MetricSet):
    """What was checked, and what isn't trusted."""

    bundles_untrusted = gauge(
        "Bundles whose deployed version doesn't satisfy spec.verify or the signature policy."
    )
    signature_checks = counter(
        "Digests whose signatures were checked; Trusted or NotTrusted.", "result"
    )


METRICS = SignatureMetrics
