"""What notices say of a Bundle whose release is in another cluster."""

from __future__ import annotations

from tests.unit.notify.test_transitions import condition, of_bundle, one

from copyrator.api.reasons import Severity
from copyrator.api.reasons.notices import About


def test_a_kubeconfig_that_ends_soon_is_told_with_the_remedy():
    said = "the token of spec.kubeConfig expires at …; write a kubeconfig with a new one"
    ends = condition("CertificateExpiring", "True", "CertificateExpiring", said)
    found = one(of_bundle(conditions=[ends]), About.CERTIFICATE_EXPIRING)
    assert found.what == "uses a kubeconfig whose credential ends soon"
    assert found.why == said
    assert found.severity is Severity.WARNING
    renewed = of_bundle(conditions=[condition("Ready", "True", "Deployed")])
    assert About.CERTIFICATE_EXPIRING in renewed.resolved
    assert About.CERTIFICATE_EXPIRING in of_bundle().unknown
