"""Certificates in copies: status, condition, Event, metric, and the moment of the warning."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from tests.builders.encoding import b64
from tests.component.copies.conftest import (
    HOME,
    Operator,
    by_name,
    edit_rule,
    make_rule,
    reason,
    status_of,
)
from tests.component.kube.fake_api import until

from copyrator.api.conditions import read_conditions
from copyrator.api.text import format_time
from localcluster.signing import PRIVATE, self_signed

DAY = 86400.0
METRIC = "copyrator_certificate_expiry_timestamp_seconds"


def in_seconds(seconds: float) -> datetime:
    return datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=seconds)


def certificate(name: str, ends: datetime) -> str:
    return self_signed(name, begins=ends - timedelta(days=365), ends=ends)


def period(ends: datetime) -> dict[str, str]:
    begins = ends - timedelta(days=365)
    return {"notBefore": format_time(begins), "notAfter": format_time(ends)}


def tls(cluster, text: str, name: str = "tls") -> None:
    data = {"tls.crt": b64(text), "tls.key": b64(PRIVATE)}
    cluster.object("secrets", HOME, name, type="kubernetes.io/tls", data=data)


def stage(cluster) -> None:
    cluster.namespace("team-1")


def condition(cluster, name: str = "rule") -> tuple[str, str] | None:
    found = read_conditions({"status": status_of(cluster, name)}).get("CertificateExpiring")
    return None if found is None else (found.status, found.reason)


def shown(cluster, name: str = "rule") -> list[str]:
    return [one["commonName"] for one in status_of(cluster, name).get("certificates", ())]


def told(operator: Operator) -> list[str]:
    """The reasons of its Events about certificates."""
    found = [event for event in operator.recorder.told if event[2].startswith("Certificate")]
    assert all((kind, "PRIVATE" in text) == ("Warning", False) for _, kind, _, text in found)
    return [str(why) for _, _, why, _ in found]


def metric(operator: Operator, name: str = "rule") -> float | None:
    return operator.metrics.registry.get_sample_value(METRIC, {"rule": f"{HOME}/{name}"})


def reads(cluster) -> int:
    """Requests for the source; none is made for a change that its watch delivers."""
    return sum(seen.path.endswith(f"/{HOME}/secrets/tls") for seen in cluster.of("get"))


def status_writes(cluster) -> int:
    return sum(path.endswith("/status") for _, path in cluster.writes("copyrators"))


@asynccontextmanager
async def operating(cluster, **settings: Any) -> AsyncIterator[Operator]:
    running = Operator(cluster, **settings)
    await running.start()
    try:
        yield running
    finally:
        await running.stop()


async def test_status_condition_metric_and_event(cluster, operator):
    stage(cluster)
    soon, late = in_seconds(3 * DAY), in_seconds(100 * DAY)
    tls(cluster, certificate("late", late) + certificate("soon", soon))
    make_rule(cluster, "rule", by_name("tls", "Secret"))
    await until(lambda: condition(cluster) == ("True", "CertificateExpiring"), "warned")
    where = {"source": f"{HOME}/tls", "key": "tls.crt"}
    assert status_of(cluster)["certificates"] == [
        {**where, "commonName": "soon", **period(soon)},
        {**where, "commonName": "late", **period(late)},
    ]
    # the status is stored before its writer has the answer
    await until(lambda: metric(operator) == soon.timestamp(), "the metric")
    await until(lambda: told(operator) == ["CertificateExpiring"], "an Event")
    before = reads(cluster)
    tls(cluster, certificate("new", late))
    await until(lambda: condition(cluster) == ("False", "CertificatesValid"), "renewed")
    assert shown(cluster) == ["new"]
    await until(lambda: metric(operator) == late.timestamp(), "the metric follows")
    cluster.object("secrets", HOME, "tls", type="kubernetes.io/tls", data={"tls.crt": b64("x")})
    await until(lambda: condition(cluster) is None and not shown(cluster), "none is left")
    await until(lambda: metric(operator) is None, "the metric goes")
    assert told(operator) == ["CertificateExpiring"]
    assert reads(cluster) == before


async def test_nothing_is_written_or_read_again_while_nothing_changes(
    cluster, operator, monkeypatch
):
    stage(cluster)
    cluster.namespace("team-2")
    tls(cluster, certificate("a", in_seconds(3 * DAY)))
    parsed = []
    load = x509.load_der_x509_certificate

    def loading(der: bytes) -> x509.Certificate:
        parsed.append(der)
        return load(der)

    monkeypatch.setattr(x509, "load_der_x509_certificate", loading)
    make_rule(cluster, "rule", by_name("tls", "Secret"))
    await until(lambda: reason(cluster, "rule") == "Synced" and shown(cluster), "synced")
    await operator.settled()
    wrote = status_writes(cluster)
    cluster.namespace("team-3")
    await until(lambda: status_of(cluster)["copies"]["ready"] == 3, "a third copy")
    await operator.settled()
    assert status_writes(cluster) <= wrote + 2
    assert told(operator) == ["CertificateExpiring"]
    assert len(parsed) == 1
    before = len(cluster.seen)
    operator.requeue_rules()
    await operator.settled()
    assert [seen.verb for seen in cluster.seen[before:] if seen.verb != "watch"] == []


def reconciles(operator):
    labels = {"key": "rule", "outcome": "again"}
    return operator.metrics.registry.get_sample_value("copyrator_reconciles_total", labels) or 0


async def test_the_warning_begins_and_the_certificate_ends_in_time_without_polling(cluster):
    stage(cluster)
    async with operating(cluster, certificate_warning=2.0) as operator:
        tls(cluster, certificate("a", in_seconds(DAY)))
        make_rule(cluster, "rule", by_name("tls", "Secret"))
        await until(lambda: condition(cluster) == ("False", "CertificatesValid"), "valid")
        await operator.settled(0.5)
        reconciled, ends = reconciles(operator), in_seconds(4)
        tls(cluster, certificate("a", ends))
        await until(lambda: condition(cluster) == ("True", "CertificateExpiring"), "warned")
        assert datetime.now(UTC) >= ends - timedelta(seconds=2)
        await until(lambda: condition(cluster) == ("True", "CertificateExpired"), "ended")
        assert datetime.now(UTC) >= ends
        await until(
            lambda: told(operator) == ["CertificateExpiring", "CertificateExpired"], "Events"
        )
        await operator.settled()
        assert reconciles(operator) <= reconciled + 8


async def test_a_restart_writes_nothing_and_wakes_up_in_time(cluster):
    stage(cluster)
    tls(cluster, certificate("warned", in_seconds(60)), "one")
    tls(cluster, certificate("valid", in_seconds(3600)), "two")
    async with operating(cluster, certificate_warning=600.0) as operator:
        make_rule(cluster, "one", by_name("one", "Secret"))
        make_rule(cluster, "two", by_name("two", "Secret"))
        await until(lambda: condition(cluster, "one") == ("True", "CertificateExpiring"), "one")
        await until(lambda: condition(cluster, "two") == ("False", "CertificatesValid"), "two")
        await until(lambda: reason(cluster, "two") == "Synced", "synced")
        await operator.settled()
        assert told(operator) == ["CertificateExpiring"]
    wrote = len(cluster.writes("copyrators"))
    async with operating(cluster, certificate_warning=600.0) as operator:
        await until(lambda: metric(operator, "one") and metric(operator, "two"), "both are served")
        await operator.settled()
        assert len(cluster.writes("copyrators")) == wrote
        assert told(operator) == []
    ends = datetime.fromisoformat(status_of(cluster, "two")["certificates"][0]["notAfter"])
    begins = datetime.now(UTC) + timedelta(seconds=2)
    assert condition(cluster, "two") == ("False", "CertificatesValid")
    async with operating(cluster, certificate_warning=(ends - begins).total_seconds()):
        await until(lambda: condition(cluster, "two") == ("True", "CertificateExpiring"), "warned")
        assert datetime.now(UTC) >= begins


async def test_a_rule_whose_sources_cant_be_used_keeps_its_certificates(cluster, operator):
    stage(cluster)
    tls(cluster, certificate("a", in_seconds(3 * DAY)))
    make_rule(cluster, "rule", by_name("tls", "Secret"))
    await until(lambda: condition(cluster) == ("True", "CertificateExpiring"), "warned")
    edit_rule(cluster, **by_name("tls", "NoSuchKind"))
    await until(lambda: reason(cluster, "rule") == "KindUnavailable", "refused")
    assert shown(cluster) == ["a"]
    assert condition(cluster) == ("True", "CertificateExpiring")
    edit_rule(cluster, **by_name("tls", "Secret"))
    await until(lambda: reason(cluster, "rule") == "Synced", "synced")
    await operator.settled()
    assert told(operator) == ["CertificateExpiring"]
