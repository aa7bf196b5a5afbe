"""Who may copy what where: a tenant's rule reads its own namespace and writes where it may."""

import pytest
from tests.component.copies.conftest import HOME, Operator, ready_of, status_of
from tests.component.copies.fake_cluster import path_of
from tests.component.copies.test_notices import told
from tests.component.kube.fake_api import until
from tests.targets import EVERYWHERE

from copyrator.api import names
from copyrator.copies.timing import CopyTiming

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
    body = {
        "apiVersion": "flant.com/v1",
        "kind": "CopyratorRule",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"targets": EVERYWHERE} | spec,
    }
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


@pytest.mark.parametrize("kube_system", [None, TENANT])
async def test_a_rule_that_names_kube_system_needs_its_consent_too(cluster, served, kube_system):
    space(cluster, "kube-system", kube_system)
    secret(cluster, TENANT)
    spec = {"source": SOURCE, "targets": {"namespaces": ["kube-system"]}}
    tenant_rule(cluster, "rule", spec)
    await until(lambda: ready(cluster, "rule") == ("Synced" if kube_system else "AllFailed"))
    assert cluster.copies("secrets", "app") == (["kube-system"] if kube_system else [])
    reasons = [failure["reason"] for failure in status(cluster, "rule")["failures"]]
    assert reasons == ([] if kube_system else ["NotAccepted"])


@pytest.mark.parametrize(
    "spec",
    [
        {"source": {**SOURCE, "namespace": HOME}},
        {"source": {**SOURCE, "namespaces": [TENANT, HOME]}},
        {"source": {**SOURCE, "namespace": HOME}, "transform": {"name": "renamed"}},
        {
            "template": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "app"},
                "data": {"key": "value"},
            }
        },
        {"source": SOURCE, "onConflict": "Overwrite"},
    ],
    ids=["another namespace", "a list", "a rename", "a template", "overwriting"],
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


async def test_without_the_setting_a_tenants_rule_does_nothing(cluster, operator):
    cluster.namespace(TENANT)
    space(cluster, "target", "*")
    secret(cluster, TENANT)
    tenant_rule(cluster, "rule", {"source": SOURCE})
    await until(lambda: ready(cluster, "rule") == "NotTrusted")
    await operator.settled()
    assert cluster.copies("secrets", "app") == []


async def test_a_tenants_deleted_rule_takes_its_copies_along(cluster, served):
    space(cluster, "target", TENANT)
    secret(cluster, TENANT)
    tenant_rule(cluster, "rule", {"source": SOURCE})
    await until(lambda: cluster.copies("secrets", "app") == ["target"])
    cluster.gone("copyrators", TENANT, "rule")
    await until(lambda: cluster.found("copyrators", TENANT, "rule") is None)
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
    cluster.object(
        "secrets",
        TENANT,
        "app",
        metadata={"labels": labels},
        type="Opaque",
        data={"key": "bmV3"},
    )
    body = {
        "apiVersion": "flant.com/v1",
        "kind": "CopyratorRule",
        "metadata": {"name": "old", "namespace": TENANT},
        "ruleType": "secret",
        "selector": labels,
    }
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
