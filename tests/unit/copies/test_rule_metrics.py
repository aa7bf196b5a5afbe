"""The metric of certificates: of a limited number of rules."""

from datetime import UTC, datetime, timedelta

from copyrator.api.certificates import Certificate
from copyrator.api.keys import RuleKey
from copyrator.copies.context import CERTIFICATE_RULES, RuleMetrics
from copyrator.metrics import Metrics

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def certificate(days: int) -> Certificate:
    return Certificate(NOW + timedelta(days=days), "infra/tls", "tls.crt")


def shown(metrics: Metrics) -> dict[str, float]:
    return {
        sample.labels["rule"]: sample.value
        for family in metrics.certificate_expiry.collect()
        for sample in family.samples
    }


def test_the_rules_whose_certificates_end_first_are_shown():
    metrics = Metrics()
    noted = RuleMetrics(metrics)
    for number in range(CERTIFICATE_RULES + 5):
        noted.note_certificates(RuleKey("home", f"r{number}"), [certificate(500 - number)])
    expected = {
        f"home/r{number}": certificate(500 - number).not_after.timestamp()
        for number in range(5, CERTIFICATE_RULES + 5)
    }
    assert shown(metrics) == expected
    last = RuleKey("home", f"r{CERTIFICATE_RULES + 4}")
    noted.forget(last)
    noted.note_certificates(RuleKey("home", "r50"), [])
    assert shown(metrics).keys() - expected.keys() == {"home/r4", "home/r3"}
    assert expected.keys() - shown(metrics).keys() == {"home/r50", f"{last.namespace}/{last.name}"}


def test_a_renewed_certificate_changes_its_rules_end():
    metrics = Metrics()
    noted = RuleMetrics(metrics)
    for days in (3, 90):
        noted.note_certificates(RuleKey("home", "r"), [certificate(days), certificate(100)])
        assert shown(metrics) == {"home/r": certificate(days).not_after.timestamp()}
