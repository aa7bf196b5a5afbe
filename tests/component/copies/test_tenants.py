"""What tenants' rules may copy, and what they take from nobody else."""

import json

import pytest
from tests.component.copies.conftest import (
    HOME,
    Operator,
    by_name,
    make_rule,
    ready_of,
    reason,
    status_of,
)
from tests.component.copies.fake_cluster import path_of
from tests.component.copies.test_statuses import told
from tests.component.kube.fake_api import hang, until
from tests.targets import EVERYWHERE

from copyrator.api import names
from copyrator.copies.sources.records import TENANT_WATCHES
from copyrator.copies.timing import CopyTiming
from copyrator.kube.client.transport import TENANT_READS

# --- Who may copy what where: a tenant's rule reads its own namespace and writes where it may -----


TENANT = "tenant"


@pytest.fixture
async def served(cluster):
    """An operator that serves tenants' rules."""
    operator = Operator(cluster, tenant_rules=True)
    cluster.namespace(TENANT)
    await operator.start()
    yield operator
    await operator.stop()


def space(cluster, name, allow_from=None, **labels):
    annotations = {} if allow_from is None else {names.ANN_ALLOW_FROM: allow_from}
    metadata = {"name": name, "labels": labels, "annotations": annotations}
    cluster.write(f"/api/v1/namespaces/{name}", {"metadata": metadata})


def tenant_rule(cluster, name, spec, namespace=TENANT):
    metadata = {"name": name, "namespace": namespace}
    body = {"metadata": metadata, "spec": {"targets": EVERYWHERE} | spec}
    cluster.write(path_of("copyrators", namespace, name), body)


def status(cluster, name, namespace=TENANT):
    return status_of(cluster, name, namespace)


def ready(cluster, name, namespace=TENANT):
    return ready_of(cluster, name, namespace).get("reason")


SOURCE = {"kind": "Secret", "name": "app"}


def secret(cluster, namespace, name="app", **metadata):
    cluster.object(
        "secrets", namespace, name, metadata=metadata, type="Opaque", data={"key": "dmFsdWU="}
    )


@pytest.mark.parametrize(
    ("target", "copied"),
    [
        ({"allow_from": "other, ten*"}, True),
        ({}, False),
        ({"allow_from": "other"}, False),
        ({"allow_from": TENANT, names.LABEL_IGNORE: "true"}, False),
    ],
    ids=str,
)
async def test_a_tenants_copy_goes_only_where_the_target_says_so(cluster, served, target, copied):
    space(cluster, "target", **target)
    space(cluster, "witness", TENANT)
    secret(cluster, TENANT)
    tenant_rule(cluster, "rule", {"source": SOURCE})
    await until(lambda: ready(cluster, "rule") == "Synced")
    wanted = ["target", "witness"] if copied else ["witness"]
    assert cluster.copies("secrets", "app") == wanted


async def test_a_rule_that_names_kube_system_needs_its_consent_too(cluster, served):
    space(cluster, "kube-system")
    secret(cluster, TENANT)
    spec = {"source": SOURCE, "targets": {"namespaces": ["kube-system"]}}
    tenant_rule(cluster, "rule", spec)
    await until(lambda: ready(cluster, "rule") == "AllFailed")
    assert cluster.copies("secrets", "app") == []
    assert [failure["reason"] for failure in status(cluster, "rule")["failures"]] == ["NotAccepted"]
    space(cluster, "kube-system", TENANT)
    await until(lambda: cluster.copies("secrets", "app") == ["kube-system"])


@pytest.mark.parametrize(
    "spec",
    [
        {"source": {**SOURCE, "namespaces": [TENANT, HOME]}, "transform": {"name": "renamed"}},
        {"template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "app"}}},
    ],
    ids=["another namespace", "a template"],
)
async def test_a_way_round_is_not_trusted_and_nothing_is_read_for_it(cluster, served, spec):
    space(cluster, "target", "*")
    secret(cluster, HOME)
    secret(cluster, TENANT)
    tenant_rule(cluster, "rule", spec)
    await until(lambda: ready(cluster, "rule") == "NotTrusted")
    await served.settled()
    assert cluster.copies("secrets", "app") == []
    assert cluster.copies("secrets", "renamed") == []
    assert not [spec for spec in served.pool.specs() if spec.namespace or spec.name]
    rule = cluster.found("copyrators", TENANT, "rule")
    assert "finalizers" not in rule["metadata"]


async def test_a_copy_in_the_tenants_namespace_is_no_source(cluster, served):
    """A trusted rule's copy can't be sent on, not even by somebody who may read it."""
    secret(cluster, HOME)
    space(cluster, "target", TENANT)
    spec = {"source": SOURCE, "targets": {"namespaces": [TENANT]}}
    tenant_rule(cluster, "trusted", spec, HOME)
    await until(lambda: cluster.copies("secrets", "app") == [TENANT])
    tenant_rule(cluster, "rule", {"source": SOURCE})
    await until(lambda: ready(cluster, "rule") == "SourceNotFound")
    await served.settled()
    assert cluster.copies("secrets", "app") == [TENANT]


async def test_a_consent_that_is_withdrawn_takes_the_copy_away_and_nobody_elses(cluster, served):
    for name in ("one", "two"):
        space(cluster, name, TENANT)
    secret(cluster, TENANT)
    tenant_rule(cluster, "rule", {"source": SOURCE})
    await until(lambda: cluster.copies("secrets", "app") == ["one", "two"])
    space(cluster, "one", "somebody-else")
    await until(lambda: cluster.copies("secrets", "app") == ["two"])
    space(cluster, "one", TENANT)
    await until(lambda: cluster.copies("secrets", "app") == ["one", "two"])


async def test_a_source_limits_where_it_goes_whoever_copies_it(cluster, served):
    for name in ("one", "two"):
        space(cluster, name, TENANT)
    limited = {names.ANN_ALLOW_TO: "one"}
    secret(cluster, TENANT, annotations=limited)
    secret(cluster, HOME, "trusted", annotations=limited)
    tenant_rule(cluster, "rule", {"source": SOURCE})
    trusted = {"source": {"kind": "Secret", "name": "trusted"}}
    tenant_rule(
        cluster, "rule", {**trusted, "targets": {"namespaces": ["one", "two"]}}, namespace=HOME
    )
    await until(lambda: ready(cluster, "rule") == "Synced")
    await until(lambda: ready(cluster, "rule", HOME) == "PartialFailure")
    assert cluster.copies("secrets", "app") == ["one"]
    assert cluster.copies("secrets", "trusted") == ["one"]
    (failure,) = status(cluster, "rule", HOME)["failures"]
    assert (failure["namespace"], failure["reason"]) == ("two", "NotAccepted")


async def test_without_the_setting_a_tenants_rule_does_nothing(cluster, operator):
    cluster.namespace(TENANT)
    space(cluster, "target", "*")
    secret(cluster, TENANT)
    tenant_rule(cluster, "rule", {"source": SOURCE})
    await until(lambda: ready(cluster, "rule") == "NotTrusted")
    await operator.settled()
    assert cluster.copies("secrets", "app") == []


async def test_another_operators_rule_keeps_its_finalizer_where_we_cannot_see_its_copies(
    cluster,
):
    other = Operator(
        cluster, timing=CopyTiming(takeover=0.0), namespace="other", kinds=("ConfigMap",)
    )
    cluster.namespace("other")
    space(cluster, "target")
    operator = Operator(cluster)
    await operator.start()
    secret(cluster, HOME)
    tenant_rule(cluster, "rule", {"source": SOURCE}, HOME)
    await until(lambda: "target" in cluster.copies("secrets", "app"))
    await operator.stop()
    cluster.gone("copyrators", HOME, "rule")
    await other.start()
    await other.settled()
    await other.stop()
    assert cluster.found("copyrators", HOME, "rule")["metadata"]["finalizers"]
    operator = Operator(cluster)
    await operator.start()
    await until(lambda: cluster.found("copyrators", HOME, "rule") is None)
    assert cluster.copies("secrets", "app") == []
    await operator.stop()


async def test_an_old_form_rule_of_a_tenant_takes_over_nothing(cluster, served):
    space(cluster, "victim", allow_from=TENANT)
    labels = {"app": "x"}
    secret(cluster, "victim", labels=labels)
    secret(cluster, TENANT, labels=labels)
    metadata = {"name": "old", "namespace": TENANT}
    body = {"metadata": metadata, "ruleType": "secret", "selector": labels}
    cluster.write(path_of("copyrators", TENANT, "old"), body)
    await until(lambda: status(cluster, "old").get("copies", {}).get("conflicts") == 1)
    cluster.gone("copyrators", TENANT, "old")
    await until(lambda: cluster.found("copyrators", TENANT, "old") is None)
    await served.settled()
    assert cluster.found("secrets", "victim", "app")["data"] == {"key": "dmFsdWU="}
    assert {verb for verb, _ in cluster.writes("secrets")} == {"create"}


async def test_only_who_accepts_a_rule_is_told_why_a_copy_is_missing(cluster, served):
    space(cluster, "accepts", TENANT)
    space(cluster, "refuses")
    cluster.object("secrets", "accepts", "app", type="Opaque", data={"key": "dGhlaXJz"})
    secret(cluster, TENANT)
    targets = {"namespaces": ["accepts", "refuses"]}
    tenant_rule(cluster, "rule", {"source": SOURCE, "targets": targets})
    await until(lambda: len(status(cluster, "rule").get("failures", ())) == 2)
    await served.settled()
    assert [(one[0], one[3]) for one in told(served)] == [("accepts", "Conflict")]


# --- What one tenant's rules take, they take from nobody else: watches, reads, turns and memory ---


OTHER = "other"
MANY = 40
PLACES = 20


@pytest.fixture
async def crowdable(cluster):
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


def sized(cluster, name, namespace=TENANT, size=10, of=None):
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
        sized(cluster, name)
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


async def test_a_tenant_with_many_selectors_keeps_no_watch_from_its_place(cluster, crowdable):
    crowd(cluster)
    await until(lambda: len([1 for name in names_of(MANY) if status(cluster, name)]) >= PLACES)
    cluster.cut_watches()  # whatever now comes first may have the places
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    make_rule(cluster, "trusted", by_name("app", targets={"namespaces": ["new", "target"]}))
    cluster.namespace("new")
    await until(lambda: cluster.copies("configmaps", "app") == ["new", "target"], "copied", 40)
    await until(lambda: reason(cluster, "trusted") == "Synced", "the rule says so", 40)


async def test_rules_beyond_a_namespaces_watches_wait_and_say_so(cluster, crowdable):
    await crowded(cluster)
    assert len([s for s in crowdable.pool.specs() if s.namespace == TENANT]) == TENANT_WATCHES
    text = message(cluster, waiting(cluster)[0])
    assert f"have {TENANT_WATCHES}" in text
    assert "use the same selector" in text
    sized(cluster, "another", OTHER)
    tenant_rule(cluster, "another", selecting("another"), OTHER)
    await until(lambda: ready(cluster, "another", OTHER) == "Synced", "another tenant's rule")


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
async def test_sources_that_are_too_large_together_arent_held_and_the_rule_says_so(
    cluster, crowdable
):
    for number in range(20):
        sized(cluster, f"large-{number}", size=30_000, of="large")
    tenant_rule(cluster, "greedy", selecting("large"))
    await until(lambda: "no memory for" in message(cluster, "greedy"), "it says so")
    assert held(crowdable, TENANT) < 220_000
    assert "the namespace tenant" in message(cluster, "greedy")
    assert cluster_copies(cluster) == set()

    sized(cluster, "other", OTHER, size=30_000)
    tenant_rule(cluster, "other", selecting("other"), OTHER)
    await until(lambda: ready(cluster, "other", OTHER) == "Synced", "another tenant's rule")

    for number in range(15):
        cluster.gone("configmaps", TENANT, f"large-{number}")
    await until(lambda: ready(cluster, "greedy") == "Synced", "what is left fits")
    assert len(cluster_copies(cluster)) == 6


@pytest.mark.usefixtures("narrow")
async def test_copies_stay_when_their_source_has_grown_too_large(cluster, crowdable):
    for number in range(4):
        sized(cluster, f"grows-{number}", size=30_000, of="grows")
    tenant_rule(cluster, "grows", selecting("grows"))
    await until(lambda: ready(cluster, "grows") == "Synced", "all are copied")
    sized(cluster, "grows-0", size=190_000, of="grows")
    await until(lambda: "no memory for" in message(cluster, "grows"), "it says so")
    await crowdable.settled()
    assert len(cluster_copies(cluster)) == 4
    sized(cluster, "grows-0", size=20_000, of="grows")
    await until(lambda: ready(cluster, "grows") == "Synced", "it fits again")
    copy = cluster.found("configmaps", "target", "grows-0")
    assert len(copy["data"]["text"]) == 20_000


async def test_a_tenants_reads_that_hang_hold_up_nobody_else(cluster, crowdable):
    answer = cluster.serve

    async def slow_for_the_tenant(request):
        if f"/namespaces/{TENANT}/configmaps" in request.path:
            return await hang()(request)
        return await answer(request)

    cluster.always("list", slow_for_the_tenant)
    crowd(cluster)
    sized(cluster, "app", HOME)
    make_rule(cluster, "trusted", by_name("app", targets={"namespaces": ["target"]}))
    sized(cluster, "another", OTHER)
    tenant_rule(cluster, "another", selecting("another"), OTHER)
    await until(lambda: reason(cluster, "trusted") == "Synced", "the trusted rule")
    await until(lambda: ready(cluster, "another", OTHER) == "Synced", "another tenant's rule")
    lists = [s for s in cluster.of("list") if f"/{TENANT}/configmaps" in s.path]
    assert len(lists) <= TENANT_READS


@pytest.mark.usefixtures("crowdable")
async def test_a_rule_of_a_selector_that_is_watched_needs_no_place(cluster):
    await crowded(cluster)
    tenant_rule(cluster, "shares", selecting(synced(cluster)[0]))
    await until(lambda: status(cluster, "shares").get("sources") == 1, "its source is known")


async def test_a_tenant_takes_no_target_from_a_trusted_rule(cluster, served):
    secret(cluster, HOME)
    secret(cluster, TENANT)
    space(cluster, "target", TENANT)
    only = {"source": SOURCE, "targets": {"namespaces": ["target"]}}
    tenant_rule(cluster, "trusted", only, HOME)
    await until(lambda: ready(cluster, "trusted", HOME) == "Synced")
    tenant_rule(cluster, "rule", only)
    await until(lambda: status(cluster, "rule").get("copies", {}).get("conflicts") == 1)
    copy = cluster.found("secrets", "target", "app")
    assert copy["metadata"]["annotations"][names.ANN_RULE] == f"{HOME}/trusted"


@pytest.mark.usefixtures("narrow", "crowdable")
async def test_named_sources_that_share_a_watch_are_counted_too(cluster):
    names = [f"named-{number}" for number in range(12)]
    for name in names:
        sized(cluster, name, size=30_000)
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
    sized(cluster, "whole", size=190_000)
    tenant_rule(cluster, "whole", selecting("whole"))
    await until(lambda: ready(cluster, "whole") == "Synced", "nothing else is counted any more")
