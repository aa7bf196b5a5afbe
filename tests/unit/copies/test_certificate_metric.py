"""The metric of certificates: of a limited number of rules."""

from datetime import UTC, datetime, timedelta

from copyrator.api.keys import RuleKey
from copyrator.copies.certificates.expiry import CERTIFICATE_RULES, CertificateGauge
from copyrator.metrics import Metrics

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def end(days: int) -> float:
    return (NOW + timedelta(days=days)).timestamp()


def shown(metrics: Metrics) -> dict[str, float]:
    return {
        sample.labels["rule"]: sample.value
        for family in metrics.certificate_expiry_timestamp_seconds.collect()
        for sample in family.samples
    }


def test_the_rules_whose_certificates_end_first_are_shown():
    metrics = Metrics()
    noted = CertificateGauge(metrics)
    for number in range(CERTIFICATE_RULES + 5):
        noted.note(RuleKey("home", f"r{number}"), end(500 - number))
    expected = {f"home/r{number}": end(500 - number) for number in range(5, CERTIFICATE_RULES + 5)}
    assert shown(metrics) == expected
    last = RuleKey("home", f"r{CERTIFICATE_RULES + 4}")
    noted.forget(last)
    noted.forget(RuleKey("home", "r50"))
    assert shown(metrics).keys() - expected.keys() == {"home/r4", "home/r3"}
    assert expected.keys() - shown(metrics).keys() == {"home/r50", f"{last.namespace}/{last.name}"}


def test_a_renewed_certificate_changes_its_rules_end():
    metrics = Metrics()
    noted = CertificateGauge(metrics)
    for days in (3, 90):
        noted.note(RuleKey("home", "r"), end(days))
        assert shown(metrics) == {"home/r": end(days)}
