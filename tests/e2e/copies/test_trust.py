"""Tenants' rules under the chart's own rights; the whole table is in tests/component/copies."""

from tests.e2e.copies.conftest import encoded

from copyrator.api import names


def test_a_tenants_rule_copies_from_its_own_namespace_into_those_that_accept_it(
    serving_tenants, user, namespace, word
):
    tenant, victim = namespace("tenant"), namespace("victim")
    accepts = namespace(f"{word}-yes", annotations={names.ANN_ALLOW_FROM: "tenant-*"})
    refuses = namespace(f"{word}-no")
    user.create("secrets", tenant, word, data=encoded(key="value"))
    user.create("secrets", victim, word, data=encoded(key="secret"))
    targets = {"namespaces": [f"{word}-*"]}
    user.rule(tenant, word, {"source": {"kind": "Secret", "name": word}, "targets": targets})
    stolen = {"kind": "Secret", "name": word, "namespace": victim}
    user.rule(tenant, "stolen", {"source": stolen, "transform": {"name": "stolen"}})
    user.wait_ready(tenant, word)
    assert user.data("secrets", accepts, word) == encoded(key="value")
    assert user.names("secrets", refuses) == []
    assert victim in user.wait_reason(tenant, "stolen", "NotTrusted")["message"]
    assert user.get("secrets", accepts, "stolen") is None
    reads = [
        event
        for event in serving_tenants.cluster.audit_events(0)
        if event.user == serving_tenants.user and event.namespace == victim
    ]
    assert reads == []
    user.api.patch(
        f"/api/v1/namespaces/{accepts}",
        {"metadata": {"annotations": {names.ANN_ALLOW_FROM: None}}},
    )
    user.wait_gone("secrets", accepts, word)
    user.delete("copyrators", tenant, word)
    user.wait_gone("copyrators", tenant, word)
