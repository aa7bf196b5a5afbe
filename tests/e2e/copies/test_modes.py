"""Suspend, Plan, and what the API server calls immutable."""

import pytest
from tests.e2e.copies.conftest import copying, encoded
from tests.e2e.operator_process import until

RBAC = "rbac.authorization.k8s.io"


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


def binding(role):
    return {
        "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "ann"}],
    }


@pytest.mark.parametrize(
    ("kind", "plural", "first", "second"),
    [
        (
            "ConfigMap",
            "configmaps",
            {"immutable": True, "data": {"key": "old"}},
            {"immutable": True, "data": {"key": "new"}},
        ),
        (
            "Secret",
            "secrets",
            {"type": "example.com/one", "data": encoded(key="old")},
            {"type": "example.com/two", "data": encoded(key="new")},
        ),
        ("RoleBinding", "rolebindings", binding("one"), binding("two")),
    ],
    ids=["an immutable ConfigMap", "a Secret of another type", "a RoleBinding to another role"],
)
def test_an_immutable_change_fails_with_a_reason_and_recreate_makes_it_anew(
    wide, user, namespace, word, kind, plural, first, second
):
    one, two, target = namespace("one"), namespace("two"), namespace(f"{word}-1")
    for role in ("one", "two"):
        user.create("roles", target, role, rules=[])
    user.create(plural, one, word, **first)
    user.create(plural, two, word, **second)
    user.rule(wide.namespace, word, copying(one, word, kind=kind))
    user.wait_ready(wide.namespace, word)
    before = user.get(plural, target, word)["metadata"]
    user.patch("copyrators", wide.namespace, word, spec={"source": {"namespace": two}})
    check_fail_then_recreate(wide, user, plural, target, word, before)
    assert second.items() <= user.get(plural, target, word).items()


def check_fail_then_recreate(operator, user, plural, target, word, before):
    user.wait_failing(operator.namespace, word)
    (failure,) = user.get("copyrators", operator.namespace, word)["status"]["failures"]
    assert (failure["namespace"], failure["reason"]) == (target, "Immutable")
    assert "onImmutable: Recreate" in failure["message"]
    now = user.get(plural, target, word)["metadata"]
    assert now["resourceVersion"] == before["resourceVersion"]
    user.patch("copyrators", operator.namespace, word, spec={"onImmutable": "Recreate"})
    user.wait_ready(operator.namespace, word)
    assert user.get(plural, target, word)["metadata"]["uid"] != before["uid"]


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
