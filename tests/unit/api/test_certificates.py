"""What a status says of certificates, and when that changes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.api.certificates import (
    CREDENTIAL,
    Certificate,
    expiring,
    seconds_until_transition,
    soonest,
    warned,
)
from copyrator.api.conditions import NO_CONDITION, Condition, Health, ReadyCondition
from copyrator.api.rule_status import RuleFacts, build_rule_status, read_rule_status

NOW = datetime(2026, 6, 1, tzinfo=UTC)
WARNING = 14 * 86400.0


def ends(seconds: float, name: str = "x") -> Certificate:
    return Certificate(NOW + timedelta(seconds=seconds), "infra/tls", "tls.crt", name)


def read_certificates(status: dict[str, Any]) -> tuple[Certificate, ...]:
    return read_rule_status({"status": status}).certificates


@pytest.mark.parametrize(
    ("left", "status", "reason", "news"),
    [
        ((), None, None, None),
        ((WARNING + 1,), "False", "CertificatesValid", 1),
        ((WARNING,), "True", "CertificateExpiring", WARNING),
        ((1,), "True", "CertificateExpiring", 1),
        ((0,), "True", "CertificateExpired", None),
        ((-1, 5), "True", "CertificateExpired", 5),
        ((-1, WARNING + 7), "True", "CertificateExpired", 7),
        ((9, WARNING + 7), "True", "CertificateExpiring", 7),
    ],
)
def test_the_condition_and_its_next_change(left, status, reason, news):
    found = soonest(map(ends, left))
    condition = expiring(found, NOW, WARNING)
    assert (condition and condition.status) == status
    assert (condition and condition.reason) == reason
    assert seconds_until_transition(found, NOW, WARNING) == news


def test_messages():
    def message(*certificates: Certificate) -> str:
        condition = expiring(soonest(certificates), NOW, WARNING)
        assert condition is not None
        return condition.message

    assert message(ends(60)) == (
        "the certificate x (infra/tls, key tls.crt) expires at 2026-06-01T00:01:00Z; "
        "renew it at the source"
    )
    assert message(ends(-60, ""), ends(5), ends(9)) == (
        "the certificate in infra/tls, key tls.crt expired at 2026-05-31T23:59:00Z; "
        "2 more in status.certificates; renew it at the source"
    )
    assert message(Certificate(NOW, f"{CREDENTIAL}home/hub", "value")).startswith(
        "the credential in kubeconfig home/hub, key value expired"
    )
    assert message(ends(WARNING + 60)) == (
        "the first certificate to expire is x (infra/tls, key tls.crt), at 2026-06-15T00:01:00Z"
    )


@pytest.mark.parametrize("number", range(6))
def test_how_many_are_warned_of_is_read_from_the_condition(number):
    name = "x; 3 more in status.certificates; renew it at the source"
    found = soonest([*(ends(n, name) for n in range(number)), ends(WARNING + 60)])
    condition = expiring(found, NOW, WARNING)
    assert condition is not None
    stored = Condition(status=str(condition.status), message=condition.message)
    assert warned(stored) == min(number, len(found))
    assert warned(NO_CONDITION) == 0


LEFT = st.integers(-(10**7), 10**7)


@given(st.lists(LEFT, max_size=8), st.integers(0, 10**7))
def test_nothing_changes_before_the_announced_moment_and_something_does_then(left, warning):
    found = soonest(map(ends, left))
    now, before = NOW, expiring(found, NOW, warning)
    wait = seconds_until_transition(found, NOW, warning)
    if wait is None:
        assert expiring(found, NOW + timedelta(days=10**5), warning) == before
        return
    almost = now + timedelta(seconds=wait - 0.001)
    assert expiring(found, almost, warning) == before
    later = seconds_until_transition(found, now + timedelta(seconds=wait), warning)
    assert later is None or later > 0


def status(before: Any, now: datetime = NOW, **facts: Any) -> dict[str, Any]:
    return build_rule_status(
        read_rule_status({"status": before}),
        ReadyCondition(Health.READY, "Synced"),
        RuleFacts(warning=WARNING, **facts),
        generation=1,
        now=now,
    ).to_dict()


def condition_of(found: dict[str, Any]) -> Any:
    return {one["type"]: one for one in found["conditions"]}.get("CertificateExpiring")


@given(st.lists(LEFT, max_size=8))
def test_a_status_is_read_as_it_was_built_and_built_again_equally(left):
    found = soonest(map(ends, left))
    built = status(None, certificates=found)
    assert read_certificates(built) == found
    assert status(built, certificates=found) == status(built) == built


def test_the_beginning_is_kept_and_a_malformed_one_is_passed_over():
    one = Certificate(NOW, "infra/tls", "tls.crt", "x", NOW - timedelta(days=1))
    (written,) = status(None, certificates=[one])["certificates"]
    assert written["notBefore"] == "2026-05-31T00:00:00Z"
    assert read_certificates({"certificates": [written]}) == (one,)
    for junk in ("soon", 7, None, "0001-01-01T00:00:00Z"):
        (read,) = read_certificates({"certificates": [{**written, "notBefore": junk}]})
        assert "notBefore" not in read.to_dict()


def test_what_is_not_known_is_kept_and_its_condition_follows_the_time():
    first = status(None, certificates=soonest([ends(WARNING + 5)]))
    assert condition_of(first)["status"] == "False"
    later = status(first, NOW + timedelta(seconds=6))
    assert later["certificates"] == first["certificates"]
    assert condition_of(later)["status"] == "True"


def test_the_last_certificate_goes_with_its_condition():
    first = status(None, certificates=soonest([ends(5)]))
    after = status(first, certificates=())
    assert "certificates" not in after
    assert condition_of(after) is None
    assert "certificates" not in status(None, certificates=())


def test_stored_certificates_are_bounded():
    one = {"notAfter": "2026-06-01T00:00:00.5Z", "source": "s" * 999, "key": "k" * 999}
    (found,) = read_certificates({"certificates": [one | {"commonName": "c" * 999}]})
    assert found == Certificate(NOW, "s" * 512, "k" * 512, "c" * 64)
    (found,) = read_certificates({"certificates": [one | {"notAfter": "1900-01-01T00:00:00Z"}]})
    assert found == Certificate(datetime(1970, 1, 1, tzinfo=UTC), "s" * 512, "k" * 512)
    many = [one | {"key": str(number)} for number in (9, 8, 7, 6, 5, 4)]
    assert [found.key for found in read_certificates({"certificates": many})] == list("56789")
