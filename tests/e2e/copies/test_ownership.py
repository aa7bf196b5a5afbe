"""What whoever may write in one namespace can't do to copies, rules, and everybody else."""

import json

from tests.e2e.copies.conftest import copying
from tests.e2e.operator_process import until

from copyrator.api import names

HOLD = "example.com/hold"


def patched(operator, namespace, name, patch):
    """kubectl patch by somebody who calls himself as the operator does."""
    operator.cluster.kubectl(
        *("patch", "configmap", name, "-n", namespace, "--type=merge"),
        *("--field-manager=copyrator", "-p", json.dumps(patch)),
    )


def events_of(operator, since, namespace, name):
    return [
        event.verb
        for event in operator.cluster.audit_events(since)
        if event.user == operator.user
        and (event.namespace, event.name) == (namespace, name)
        and event.resource == "configmaps"
    ]


def test_an_edit_under_the_operators_own_name_is_put_right(operator, user, namespace, word):
    source, target = namespace("source"), namespace(f"{word}-t")
    user.create("configmaps", source, word, data={"key": "value"})
    user.rule(operator.namespace, word, copying(source, word))
    user.wait_data("configmaps", target, word, {"key": "value"})
    user.wait_ready(operator.namespace, word)
    since = operator.cluster.audit_offset()
    patched(operator, target, word, {"data": {"key": "forged"}})
    user.wait_data("configmaps", target, word, {"key": "value"})
    until(lambda: events_of(operator, since, target, word) == ["get", "update"])
    patched(operator, target, word, {"data": {"key": "forged again"}})
    user.wait_data("configmaps", target, word, {"key": "value"})


def test_a_finalizer_on_a_copy_holds_up_neither_the_rule_nor_its_namespace(
    operator, user, namespace, word
):
    source, target = namespace("source"), namespace(f"{word}-t")
    user.create("configmaps", source, word, data={"key": "value"})
    user.rule(operator.namespace, word, copying(source, word))
    user.wait_ready(operator.namespace, word)
    user.patch("configmaps", target, word, metadata={"finalizers": [HOLD]})
    user.delete("copyrators", operator.namespace, word)
    user.wait_gone("copyrators", operator.namespace, word)
    left = user.get("configmaps", target, word)
    assert left["metadata"]["deletionTimestamp"]
    user.patch("configmaps", target, word, metadata={"finalizers": None})
    user.wait_gone("configmaps", target, word)


def test_a_forged_copy_is_a_conflict_and_neither_waited_for_nor_deleted(
    operator, user, namespace, word
):
    source, target, other = namespace("source"), namespace(f"{word}-t"), namespace(f"{word}-o")
    user.create("configmaps", source, word, data={"key": "value"})
    user.create("configmaps", target, word, data={"key": "forged"})
    marks = {
        "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
        "annotations": {names.ANN_RULE: f"{operator.namespace}/{word}", names.ANN_HASH: "AAAA"},
        "finalizers": [HOLD],
    }
    patched(operator, target, word, {"metadata": marks, "data": {"key": "forged too"}})
    user.rule(operator.namespace, word, copying(source, word))
    user.wait_data("configmaps", other, word, {"key": "value"})
    user.wait_failing(operator.namespace, word)
    (failure,) = user.get("copyrators", operator.namespace, word)["status"]["failures"]
    assert (failure["namespace"], failure["reason"]) == (target, "Conflict")
    assert f"copyrator reseal rule {operator.namespace}/{word}" in failure["message"]
    user.delete("copyrators", operator.namespace, word)
    user.wait_gone("copyrators", operator.namespace, word)
    found = user.get("configmaps", target, word)
    assert found["data"] == {"key": "forged too"}
    assert "deletionTimestamp" not in found["metadata"]
    user.patch("configmaps", target, word, metadata={"finalizers": None})
