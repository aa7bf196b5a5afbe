"""Suspend, Plan, Orphan, and what the API server calls immutable."""

import pytest
from tests.e2e.copies.conftest import copying, encoded
from tests.e2e.operator_process import until

from copyrator.api import names

RBAC = "rbac.authorization.k8s.io"


def failures(user, home, word):
    return user.get("copyrators", home, word)["status"]["failures"]


def test_a_suspended_rule_writes_nothing_and_catches_up_later(operator, user, namespace, word):
    source, target = namespace("source"), namespace(f"{word}-1")
    user.create("configmaps", source, word, data={"key": "old"})
    user.rule(operator.namespace, word, copying(source, word))
    user.wait_data("configmaps", target, word, {"key": "old"})
    user.patch("copyrators", operator.namespace, word, spec={"suspend": True})
    user.wait_reason(operator.namespace, word, "Suspended")
    since = operator.cluster.audit_offset()
    user.patch("configmaps", source, word, data={"key": "new"})
    late = namespace(f"{word}-2")
    user.patch("configmaps", target, word, data={"more": "drift"})
    until(lambda: pending(user, operator, word) == 2, "the status counts what is to be done")
    assert [e for e in operator.writes(since) if e.namespace in (target, late)] == []
    user.patch("copyrators", operator.namespace, word, spec={"suspend": False})
    for place in (target, late):
        user.wait_data("configmaps", place, word, {"key": "new"})
    user.wait_ready(operator.namespace, word)


def test_kubectl_waits_for_a_suspended_rule(operator, user, namespace, word):
    source, target, late = namespace("source"), namespace(f"{word}-1"), namespace("late")
    user.create("configmaps", source, word, data={"key": "value"})
    user.rule(operator.namespace, word, copying(source, word))
    user.wait_data("configmaps", target, word, {"key": "value"})
    user.wait_reason(operator.namespace, word, "Synced")
    user.patch("copyrators", operator.namespace, word, spec={"suspend": True})
    user.wait_reason(operator.namespace, word, "Suspended")

    def wait(name, condition):
        where = (f"copyrator.flant.com/{name}", "-n", operator.namespace, "--timeout=120s")
        operator.cluster.kubectl("wait", f"--for=condition={condition}", *where)

    for condition in ("Ready", "Reconciling=false", "Stalled=false"):
        wait(word, condition)
    before = "suspended; before: Synced: 1 copy is up to date"
    assert ready(user, operator, word)["message"] == before

    user.patch("copyrators", operator.namespace, word, spec={"targets": {"namespaces": [late]}})
    said = f"{before}; edited while suspended"
    until(lambda: ready(user, operator, word)["message"] == said, "the edit is seen")
    wait(word, "Ready")
    body = user.get("copyrators", operator.namespace, word)
    assert body["status"]["observedGeneration"] == body["metadata"]["generation"]


def ready(user, operator, word):
    return user.get("copyrators", operator.namespace, word)["status"]["conditions"][0]


def pending(user, operator, word):
    return user.get("copyrators", operator.namespace, word)["status"]["copies"]["pending"]


def test_a_suspended_rules_source_may_go_and_its_copies_stay_until_it_goes_itself(
    operator, user, namespace, word
):
    source, target = namespace("source"), namespace(f"{word}-1")
    user.create("configmaps", source, word, data={"key": "value"})
    user.rule(operator.namespace, word, copying(source, word))
    user.wait_data("configmaps", target, word, {"key": "value"})
    user.patch("copyrators", operator.namespace, word, spec={"suspend": True})
    user.wait_reason(operator.namespace, word, "Suspended")
    user.delete("configmaps", source, word)

    def sources():
        return user.get("copyrators", operator.namespace, word)["status"]["sources"]

    until(lambda: sources() == 0, "the status knows that the source is gone")
    assert user.data("configmaps", target, word) == {"key": "value"}
    user.delete("copyrators", operator.namespace, word)
    user.wait_gone("configmaps", target, word)
    user.wait_gone("copyrators", operator.namespace, word)


def test_plan_mode_writes_nothing_says_what_would_be_and_apply_does_just_that(
    operator, user, namespace, word
):
    source = namespace("source")
    wrong, missing, gone = (namespace(f"{word}-{name}") for name in ("wrong", "missing", "gone"))
    places = (source, wrong, missing, gone)
    user.create("configmaps", source, word, data={"key": "value"})
    targets = {"namespaces": [wrong, gone]}
    user.rule(operator.namespace, word, copying(source, word, targets=targets))
    for target in (wrong, gone):
        user.wait_data("configmaps", target, word, {"key": "value"})
    user.wait_ready(operator.namespace, word)
    since = operator.cluster.audit_offset()
    change = {
        "mode": "Plan",
        "targets": {"namespaces": [wrong, missing]},
        "transform": {"labels": {"add": {"planned": "yes"}}},
    }
    user.patch("copyrators", operator.namespace, word, spec=change)
    user.wait_reason(operator.namespace, word, "Planned")

    def plan():
        return user.get("copyrators", operator.namespace, word)["status"].get("plan")

    until(lambda: plan() == {"create": 1, "update": 1, "delete": 1}, lambda: f"{plan()}")
    assert operator.writes(since, at=places) == []
    user.patch("copyrators", operator.namespace, word, spec={"mode": "Apply"})
    user.wait_data("configmaps", missing, word, {"key": "value"})
    user.wait_gone("configmaps", gone, word)
    user.wait_ready(operator.namespace, word)
    writes = {(e.verb, e.namespace) for e in operator.writes(since, at=places)}
    assert writes == {("create", missing), ("update", wrong), ("delete", gone)}


def test_an_orphaning_rule_leaves_its_copies_without_our_marks(operator, user, namespace, word):
    source, target = namespace("source"), namespace(f"{word}-1")
    user.create("configmaps", source, word, data={"key": "value"})
    user.rule(operator.namespace, word, copying(source, word, deletionPolicy="Orphan"))
    user.wait_data("configmaps", target, word, {"key": "value"})
    uid = user.get("configmaps", target, word)["metadata"]["uid"]
    user.delete("copyrators", operator.namespace, word)
    user.wait_gone("copyrators", operator.namespace, word)
    left = user.get("configmaps", target, word)
    assert left["data"] == {"key": "value"}
    assert left["metadata"]["uid"] == uid
    assert names.RULE_PREFIX not in str({**left["metadata"], "managedFields": None})


@pytest.mark.parametrize("what", ["an immutable ConfigMap", "a Secret of another type"])
def test_an_immutable_change_fails_with_a_reason_and_recreate_makes_it_anew(
    operator, user, namespace, word, what
):
    one, two, target = namespace("one"), namespace("two"), namespace(f"{word}-1")
    if what == "an immutable ConfigMap":
        kind, plural = "ConfigMap", "configmaps"
        first = {"immutable": True, "data": {"key": "old"}}
        second = {"immutable": True, "data": {"key": "new"}}
    else:
        kind, plural = "Secret", "secrets"
        first = {"type": "example.com/one", "data": encoded(key="old")}
        second = {"type": "example.com/two", "data": encoded(key="new")}
    user.create(plural, one, word, **first)
    user.create(plural, two, word, **second)
    user.rule(operator.namespace, word, copying(one, word, kind=kind))
    user.wait_data(plural, target, word, first["data"])
    before = user.get(plural, target, word)["metadata"]
    user.patch("copyrators", operator.namespace, word, spec={"source": {"namespace": two}})
    check_fail_then_recreate(operator, user, plural, target, word, before)
    assert user.data(plural, target, word) == second["data"]
    assert user.get(plural, target, word).get("type") == second.get("type")


def check_fail_then_recreate(operator, user, plural, target, word, before):
    user.wait_failing(operator.namespace, word)
    (failure,) = failures(user, operator.namespace, word)
    assert (failure["namespace"], failure["reason"]) == (target, "Immutable")
    assert "onImmutable: Recreate" in failure["message"]
    now = user.get(plural, target, word)["metadata"]
    assert now["resourceVersion"] == before["resourceVersion"]
    user.patch("copyrators", operator.namespace, word, spec={"onImmutable": "Recreate"})
    user.wait_ready(operator.namespace, word)
    assert user.get(plural, target, word)["metadata"]["uid"] != before["uid"]


def test_a_changed_role_ref_fails_with_a_reason_and_recreate_makes_it_anew(
    wide, user, namespace, word
):
    target = namespace(f"{word}-1")
    for role in ("one", "two"):
        user.create("roles", target, role, rules=[])

    def template(role):
        return {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": word},
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": role},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "ann"}],
        }

    spec = {"template": template("one"), "targets": {"namespaces": [f"{word}-*"]}}
    user.rule(wide.namespace, word, spec)
    user.wait_ready(wide.namespace, word)
    before = user.get("rolebindings", target, word)["metadata"]
    user.patch("copyrators", wide.namespace, word, spec={"template": template("two")})
    check_fail_then_recreate(wide, user, "rolebindings", target, word, before)
    assert user.get("rolebindings", target, word)["roleRef"]["name"] == "two"


def test_overwrite_and_recreate_together_replace_an_immutable_unmanaged_object(
    operator, user, namespace, word
):
    source, target = namespace("source"), namespace(f"{word}-1")
    user.create("configmaps", source, word, data={"key": "ours"})
    user.create("configmaps", target, word, immutable=True, data={"key": "theirs"})
    before = user.get("configmaps", target, word)["metadata"]
    user.rule(operator.namespace, word, copying(source, word, onConflict="Overwrite"))
    check_fail_then_recreate(operator, user, "configmaps", target, word, before)
    assert user.data("configmaps", target, word) == {"key": "ours"}
