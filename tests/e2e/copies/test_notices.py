"""Owners of target namespaces learn from Events why a copy is missing, and others learn nothing."""

from tests.e2e.copies.conftest import wait_quiet
from tests.e2e.operator_process import until

from copyrator.api import names

APP = {"app": "yes"}


def told(user, namespace):
    """The operator's Warning Events in a namespace."""
    found = user.api.get(f"/api/v1/namespaces/{namespace}/events")["items"]
    return [
        event
        for event in found
        if event["source"].get("component") == "copyrator" and event["type"] == "Warning"
    ]


def test_a_rule_that_is_accepted_tells_once_and_one_that_isnt_never(
    serving_tenants, user, namespace, word
):
    tenant = namespace("tenant")
    accepts = namespace(f"{word}-yes", annotations={names.ANN_ALLOW_FROM: "tenant-*"})
    refuses = namespace(f"{word}-no")
    for name in ("one", "two"):
        user.create("configmaps", tenant, name, metadata={"labels": APP}, data={"key": "ours"})
        for place in (accepts, refuses):
            user.create("configmaps", place, name, data={"key": "theirs"})
    source = {"kind": "ConfigMap", "selector": {"matchLabels": APP}}
    user.rule(tenant, word, {"source": source, "targets": {"namespaces": [f"{word}-*"]}})
    user.wait_failing(tenant, word)
    (event,) = until(lambda: told(user, accepts), "an Event")
    user.patch("configmaps", tenant, "one", data={"key": "newer"})  # it is tried again
    wait_quiet(serving_tenants, tenant, accepts, refuses)
    assert [one["metadata"]["name"] for one in told(user, accepts)] == [event["metadata"]["name"]]
    assert (event["reason"], event["count"]) == ("Conflict", 1)
    assert event["involvedObject"]["name"] in ("one", "two")
    assert f"the rule {tenant}/{word} can't write this copy: " in event["message"]
    assert told(user, refuses) == []
    failures = user.get("copyrators", tenant, word)["status"]["failures"]
    assert {one["namespace"] for one in failures} >= {accepts}
    user.delete("copyrators", tenant, word)
    user.wait_gone("copyrators", tenant, word)
