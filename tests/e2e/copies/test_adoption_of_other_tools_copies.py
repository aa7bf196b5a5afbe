"""Copies as other tools write them (docs/adoption.md), taken over by a real operator."""

import contextlib

import pytest
from tests.builders.other_tools import COPIES
from tests.e2e.copies.conftest import copying, deploy, encoded, restart
from tests.e2e.operator_process import until

from copyrator.api import names

CLIENTS = {
    "kubernetes-replicator": "kubernetes-replicator",
    "reflector": "reflector",
    "ClusterSecret": "OpenAPI-Generator",  # the Python client's default name
    "config-syncer": "config-syncer",
}
"""The field managers of tools."""


def copied_by(tool, user, namespace, name, data):
    """A Secret just as the tool creates it."""
    body = {"metadata": {"name": name, **COPIES[tool]}, "type": "Opaque", "data": data}
    return user.api.create(f"{user.path('secrets', namespace)}?fieldManager={CLIENTS[tool]}", body)


@pytest.fixture
def rule(stopped, user, namespace, word):
    source = namespace("source")
    user.create("secrets", source, word, type="Opaque", data=encoded(key="value"))
    user.rule(stopped.namespace, word, copying(source, word, kind="Secret", onConflict="Adopt"))
    yield
    with contextlib.suppress(AssertionError):
        user.delete("copyrators", stopped.namespace, word)


def test_adopt_takes_other_tools_copies_over_with_one_update_and_without_their_marks(
    stopped, user, namespace, word, rule
):
    right, stale = encoded(key="value"), encoded(key="old", dead="key")
    places = {}
    for tool in CLIENTS:
        for data in (right, stale):
            place = namespace(f"{word}-t")
            places[place] = copied_by(tool, user, place, word, data)["metadata"]["uid"]
            user.patch("secrets", place, word, metadata={"labels": {"theirs": "yes"}})
    since = restart(stopped, user, word)
    for place, uid in places.items():
        found = user.get("secrets", place, word)
        metadata = found["metadata"]
        assert metadata["uid"] == uid, "it was never away"
        assert found["data"] == right
        assert metadata["labels"] == {
            names.LABEL_MANAGED_BY: names.MANAGED_BY,
            "theirs": "yes",
            **({"app": "x"} if "app" in metadata["labels"] else {}),
        }
        assert set(metadata["annotations"]) == {names.ANN_RULE, names.ANN_SOURCE, names.ANN_HASH}
    done = [e for e in stopped.writes(since) if e.resource == "secrets" and e.code < 300]
    assert sorted((e.verb, e.namespace) for e in done if e.namespace in places) == sorted(
        ("update", place) for place in places
    )
    assert stopped.stop() == 0
    since = restart(stopped, user, word)
    late = namespace(f"{word}-late")
    user.wait_data("secrets", late, word, right)
    assert [e for e in stopped.writes(since) if e.namespace in places] == []
    user.delete("copyrators", stopped.namespace, word)
    user.wait_gone("copyrators", stopped.namespace, word)
    assert [user.get("secrets", place, word) for place in places] == [None] * len(places)


def test_an_adopted_role_counts_as_right_though_its_fields_were_the_tools(
    cluster, api, user, namespace, word, tmp_path
):
    kinds = ("ConfigMap", "Role.rbac.authorization.k8s.io")
    with deploy(cluster, tmp_path / "operator.log", kinds) as operator:
        source, target = namespace("source"), namespace(f"{word}-t")
        rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]
        user.create("roles", source, word, rules=rules)
        marks = {"annotations": {"replicator.v1.mittwald.de/replicated-from-version": "1"}}
        path = f"{user.path('roles', target)}?fieldManager=kubernetes-replicator"
        api.create(path, {"metadata": {"name": word, **marks}, "rules": rules})
        spec = copying(source, word, kind="Role", onConflict="Adopt")
        operator.start()
        user.rule(operator.namespace, word, spec)
        user.wait_ready(operator.namespace, word)
        found = user.get("roles", target, word)
        assert found["rules"] == rules
        assert not marks["annotations"].keys() & found["metadata"]["annotations"].keys()
        assert operator.stop() == 0
        since = restart(operator, user, word)
        late = namespace(f"{word}-late")
        until(lambda: user.get("roles", late, word), "the late namespace is served")
        assert [e for e in operator.writes(since) if e.namespace == target] == []
