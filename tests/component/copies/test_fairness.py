"""What one tenant's rules take, they take from nobody else: watches, reads, turns and memory."""

import json

import pytest
from tests.component.copies.conftest import HOME, Operator, by_name, make_rule, ready_of, reason
from tests.component.copies.test_trust import ready, space, status, tenant_rule
from tests.component.kube.fake_api import hang, until

from copyrator.api.keys import CopyKey, RuleKey
from copyrator.copies.sources.records import TENANT_WATCHES
from copyrator.copies.timing import CopyTiming
from copyrator.kube.client.transport import TENANT_READS

TENANT, OTHER = "tenant", "other"
MANY = 40
PLACES = 20


@pytest.fixture
async def served(cluster):
    """An operator with few places for watches that serves tenants' rules."""
    timing = CopyTiming(room_again=0.2)
    operator = Operator(cluster, timing=timing, watches=PLACES, tenant_rules=True)
    for name in (TENANT, OTHER):
        cluster.namespace(name)
    space(cluster, "target", f"{TENANT},{OTHER}")
    await operator.start()
    yield operator
    await operator.stop()


def selecting(name):
    return {
        "source": {"kind": "ConfigMap", "selector": {"matchLabels": {"of": name}}},
        "targets": {"namespaces": ["target"]},
    }


def source(cluster, name, namespace=TENANT, size=10, of=None):
    cluster.object(
        "configmaps",
        namespace,
        name,
        metadata={"labels": {"of": of or name}},
        data={"text": "x" * size},
    )


def names_of(count):
    return [f"rule-{number:03}" for number in range(count)]


def message(cluster, name, namespace=TENANT):
    return ready_of(cluster, name, namespace).get("message", "")


def crowd(cluster, count=MANY):
    for name in names_of(count):
        source(cluster, name)
        tenant_rule(cluster, name, selecting(name))


def synced(cluster, count=MANY):
    return [name for name in names_of(count) if ready(cluster, name) == "Synced"]


def waiting(cluster, count=MANY):
    return [name for name in names_of(count) if "is waiting for a watch" in message(cluster, name)]


async def crowded(cluster):
    """One tenant has rules with more selectors than it may have watches."""
    crowd(cluster)
    most = TENANT_WATCHES
    await until(lambda: len(synced(cluster)) == most, "as many rules as there are watches")
    await until(lambda: len(waiting(cluster)) == MANY - most, "all others say that they wait")


async def test_a_tenant_with_many_selectors_keeps_no_watch_from_its_place(cluster, served):
    crowd(cluster)
    await until(lambda: len([1 for name in names_of(MANY) if status(cluster, name)]) >= PLACES)
    cluster.cut_watches()  # whatever now comes first may have the places
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    make_rule(cluster, "trusted", by_name("app", targets={"namespaces": ["new", "target"]}))
    cluster.namespace("new")
    await until(lambda: cluster.copies("configmaps", "app") == ["new", "target"], "copied", 40)
    await until(lambda: reason(cluster, "trusted") == "Synced", "the rule says so", 40)


async def test_rules_beyond_a_namespaces_watches_wait_and_say_so(cluster, served):
    await crowded(cluster)
    assert len([s for s in served.pool.specs() if s.namespace == TENANT]) == TENANT_WATCHES
    text = message(cluster, waiting(cluster)[0])
    assert f"have {TENANT_WATCHES}" in text
    assert "use the same selector" in text
    source(cluster, "another", OTHER)
    tenant_rule(cluster, "another", selecting("another"), OTHER)
    await until(lambda: ready(cluster, "another", OTHER) == "Synced", "another tenant's rule")


async def test_a_rule_of_a_selector_that_is_watched_needs_no_place(cluster, served):
    await crowded(cluster)
    tenant_rule(cluster, "shares", selecting(synced(cluster)[0]))
    await until(lambda: status(cluster, "shares").get("sources") == 1, "its source is known")


async def test_a_rule_that_is_changed_keeps_its_place(cluster, served):
    await crowded(cluster)
    name = synced(cluster)[0]
    source(cluster, "changed")
    tenant_rule(cluster, name, selecting("changed"))
    await until(lambda: "changed" in cluster_copies(cluster), "the new source is copied")


def cluster_copies(cluster):
    return {
        path.rsplit("/", 1)[-1]
        for path in cluster.objects
        if path.startswith("/api/v1/namespaces/target/configmaps/")
    }


def held(operator, namespace):
    """Bytes of sources that are held for a namespace."""
    size = 0
    for spec in list(operator.pool.specs()):
        if spec.namespace == namespace and not spec.metadata_only:
            registration = operator.pool.acquire(spec, lambda *_: None)
            size += sum(len(json.dumps(r.body)) for r in registration.store.values())
            registration.release()
    return size


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setattr("copyrator.copies.sources.records.TENANT_SOURCE_BYTES", 200_000)
    monkeypatch.setattr("copyrator.copies.sources.records.FIRST_SOURCE_BYTES", 10_000)


@pytest.mark.usefixtures("narrow")
async def test_sources_that_are_too_large_together_arent_held_and_the_rule_says_so(cluster, served):
    for number in range(20):
        source(cluster, f"large-{number}", size=30_000, of="large")
    tenant_rule(cluster, "greedy", selecting("large"))
    await until(lambda: "no memory for" in message(cluster, "greedy"), "it says so")
    assert held(served, TENANT) < 220_000
    assert "the namespace tenant" in message(cluster, "greedy")
    assert cluster_copies(cluster) == set()

    source(cluster, "other", OTHER, size=30_000)
    tenant_rule(cluster, "other", selecting("other"), OTHER)
    await until(lambda: ready(cluster, "other", OTHER) == "Synced", "another tenant's rule")

    for number in range(15):
        cluster.gone("configmaps", TENANT, f"large-{number}")
    await until(lambda: ready(cluster, "greedy") == "Synced", "what is left fits")
    assert len(cluster_copies(cluster)) == 6


@pytest.mark.usefixtures("narrow")
async def test_copies_stay_when_their_source_has_grown_too_large(cluster, served):
    for number in range(4):
        source(cluster, f"grows-{number}", size=30_000, of="grows")
    tenant_rule(cluster, "grows", selecting("grows"))
    await until(lambda: ready(cluster, "grows") == "Synced", "all are copied")
    source(cluster, "grows-0", size=190_000, of="grows")
    await until(lambda: "no memory for" in message(cluster, "grows"), "it says so")
    await served.settled()
    assert len(cluster_copies(cluster)) == 4
    source(cluster, "grows-0", size=20_000, of="grows")
    await until(lambda: ready(cluster, "grows") == "Synced", "it fits again")
    copy = cluster.found("configmaps", "target", "grows-0")
    assert len(copy["data"]["text"]) == 20_000


@pytest.mark.usefixtures("narrow")
async def test_named_sources_that_share_a_watch_are_counted_too(cluster, served):
    names = [f"named-{number}" for number in range(12)]
    for name in names:
        source(cluster, name, size=30_000)
        only = {"kind": "ConfigMap", "name": name}
        tenant_rule(cluster, name, {"source": only, "targets": {"namespaces": ["target"]}})

    def without_room():
        return [name for name in names if "no memory for" in message(cluster, name)]

    await until(lambda: len(without_room()) == 6, "six fit, six don't")
    fit = [name for name in names if name not in without_room()]
    await until(lambda: all(ready(cluster, name) == "Synced" for name in fit), "six are served")
    fits = fit[0]
    cluster.gone("copyrators", TENANT, fits)
    await until(lambda: len(without_room()) == 5, "one of them fits now")
    for name in names:
        if name != fits:
            cluster.gone("copyrators", TENANT, name)
    source(cluster, "whole", size=190_000)
    tenant_rule(cluster, "whole", selecting("whole"))
    await until(lambda: ready(cluster, "whole") == "Synced", "nothing else is counted any more")


async def test_a_tenants_reads_that_hang_hold_up_nobody_else(cluster, served):
    answer = cluster.serve

    async def slow_for_the_tenant(request):
        if f"/namespaces/{TENANT}/configmaps" in request.path:
            return await hang()(request)
        return await answer(request)

    cluster.always("list", slow_for_the_tenant)
    crowd(cluster)
    source(cluster, "app", HOME)
    make_rule(cluster, "trusted", by_name("app", targets={"namespaces": ["target"]}))
    source(cluster, "another", OTHER)
    tenant_rule(cluster, "another", selecting("another"), OTHER)
    await until(lambda: reason(cluster, "trusted") == "Synced", "the trusted rule")
    await until(lambda: ready(cluster, "another", OTHER) == "Synced", "another tenant's rule")
    lists = [s for s in cluster.of("list") if f"/{TENANT}/configmaps" in s.path]
    assert len(lists) <= TENANT_READS


async def test_keys_are_the_tenants_whose_rules_want_them(cluster, served):
    source(cluster, "app", HOME)
    make_rule(cluster, "trusted", by_name("app", targets={"namespaces": ["target"]}))
    crowd(cluster, 1)
    await until(lambda: cluster_copies(cluster) == {"app", "rule-000"}, "both are copied")
    tenant_of = served.controller.tenant_of
    assert tenant_of(RuleKey(HOME, "trusted")) is None
    assert tenant_of(RuleKey(TENANT, "rule-000")) == TENANT
    assert tenant_of(CopyKey("configmaps", "target", "app")) is None
    assert tenant_of(CopyKey("configmaps", "target", "rule-000")) == TENANT
    assert tenant_of(CopyKey("configmaps", "target", "nobodys")) == "target"
