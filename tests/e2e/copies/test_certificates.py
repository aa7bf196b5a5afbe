"""Certificates in copies, on the real API server: status, warning, Events, requests, secrecy."""

import base64
from datetime import UTC, datetime, timedelta

import pytest
from tests.e2e.copies.conftest import copying, encoded, wait_quiet
from tests.e2e.operator_process import until

from localcluster.signing import PRIVATE, self_signed


def certificate(name: str, days: float) -> str:
    ends = datetime.now(UTC) + timedelta(days=days)
    return self_signed(name, begins=ends - timedelta(days=365), ends=ends)


@pytest.fixture
def infra(user, namespace, word):
    space: str = namespace(f"infra-{word}")
    data = encoded(**{"tls.crt": certificate("late", 100), "tls.key": PRIVATE})
    user.create("secrets", space, "tls", type="kubernetes.io/tls", data=data)
    return space


def spec(word: str, infra: str):
    return copying(infra, "tls", f"{word}-*", kind="Secret")


def expiring(user, home: str, name: str) -> str:
    return str(user.condition(home, name, "CertificateExpiring").get("reason"))


def test_a_certificate_is_warned_of_until_it_is_renewed(operator, user, infra, namespace, word):
    target, home = namespace(f"{word}-1"), operator.namespace
    user.rule(home, word, spec(word, infra))
    status = user.wait_ready(home, word)
    assert [one["commonName"] for one in status["certificates"]] == ["late"]
    assert expiring(user, home, word) == "CertificatesValid"
    wait_quiet(operator, home, target)
    since = operator.cluster.audit_offset()
    text = certificate("late", 100) + certificate("soon", 3) + certificate("old", -3)
    user.patch("secrets", infra, "tls", data=encoded(**{"tls.crt": text}))
    until(lambda: expiring(user, home, word) == "CertificateExpired", "warned")
    found = user.get("copyrators", home, word)["status"]["certificates"]
    assert [(one["commonName"], one["source"], one["key"]) for one in found] == [
        (name, f"{infra}/tls", "tls.crt") for name in ("old", "soon", "late")
    ]
    user.wait_data("secrets", target, "tls", encoded(**{"tls.crt": text, "tls.key": PRIVATE}))
    user.patch("secrets", infra, "tls", data=encoded(**{"tls.crt": certificate("new", 90)}))
    until(lambda: expiring(user, home, word) == "CertificatesValid", "renewed")
    wait_quiet(operator, home, target)
    mine = [event for event in operator.cluster.audit_events(since) if event.user == operator.user]
    reads = [one for one in mine if one.verb == "get" and one.namespace == infra]
    assert reads == []  # the watch has delivered the changes
    assert base64.b64encode(PRIVATE.encode()).decode()[40:100] not in operator.log.read_text()
    assert PRIVATE.splitlines()[1] not in operator.log.read_text()

    def events() -> list[str]:
        path = f"/apis/events.k8s.io/v1/namespaces/{home}/events"
        items = user.api.get(path)["items"]
        mine = [one for one in items if one.get("regarding", {}).get("name") == word]
        return [one["reason"] for one in mine if one["reason"].startswith("Certificate")]

    until(lambda: events() == ["CertificateExpired"], "one Event")
