"""Which namespaces get copies; those that are going are passed over."""

import pytest
from tests.e2e.copies.conftest import copying
from tests.e2e.operator_process import until

from localcluster.api import ApiStatusError


@pytest.fixture
def held(user, namespace, word):
    """A namespace that stays Terminating until the test's end."""
    name = namespace(f"{word}-held")
    holder = {"finalizers": ["example.com/holds"]}
    user.create("configmaps", name, "holder", metadata=holder, data={})
    yield name
    user.patch("configmaps", name, "holder", metadata={"finalizers": None})


def test_a_terminating_namespace_is_passed_over_and_never_a_failure(
    operator, user, namespace, word, held
):
    source, alive = namespace("source"), namespace(f"{word}-alive")
    user.create("configmaps", source, word, data={"key": "old"})
    user.rule(operator.namespace, word, copying(source, word))
    user.wait_data("configmaps", held, word, {"key": "old"})
    user.api.delete(f"/api/v1/namespaces/{held}")
    user.wait_gone("configmaps", held, word)  # by the namespace controller
    user.patch("configmaps", source, word, data={"key": "new"})
    user.wait_data("configmaps", alive, word, {"key": "new"})
    status = user.wait_ready(operator.namespace, word)
    assert status["copies"] == {
        "desired": 1,
        "ready": 1,
        "failed": 0,
        "conflicts": 0,
        "pending": 0,
    }
    assert user.get("configmaps", held, word) is None
    # It holds up the end of the rule no more than the rule itself.
    user.delete("copyrators", operator.namespace, word)
    user.wait_gone("copyrators", operator.namespace, word)
    user.wait_gone("configmaps", alive, word)


def test_a_recreated_namespace_is_served_again(operator, user, namespace, word):
    source = namespace("source")
    user.create("configmaps", source, word, data={"key": "value"})
    user.rule(operator.namespace, word, copying(source, word))
    target = namespace(f"{word}-again")
    user.wait_data("configmaps", target, word, {"key": "value"})
    user.api.delete(f"/api/v1/namespaces/{target}")

    def made_again():
        try:
            return user.api.create("/api/v1/namespaces", {"metadata": {"name": target}})
        except ApiStatusError as error:
            if error.code != 409:
                raise
            return None

    until(made_again, f"{target} can be made again")
    user.wait_data("configmaps", target, word, {"key": "value"})
    user.wait_ready(operator.namespace, word)


def test_globs_are_anchored_and_every_kind_of_selector_counts_at_once(
    operator, user, namespace, word
):
    source = namespace("source")
    user.create("configmaps", source, word, data={"key": "value"})
    yes = namespace(f"{word}-x", labels={"team": "red", "tier": "front"})
    namespace(f"pre-{word}-x", labels={"team": "red", "tier": "front"})
    namespace(f"{word}-out", labels={"team": "red", "tier": "front"})
    namespace(f"{word}-x", labels={"team": "red", "tier": "front", "frozen": "yes"})
    namespace(f"{word}-x", labels={"team": "green", "tier": "front"})
    namespace(f"{word}-x", labels={"team": "red"})
    expressions = [
        {"key": "team", "operator": "NotIn", "values": ["green"]},
        {"key": "tier", "operator": "Exists"},
        {"key": "frozen", "operator": "DoesNotExist"},
        {"key": "tier", "operator": "In", "values": ["front", "back"]},
    ]
    chosen = {"matchLabels": {"team": "red"}, "matchExpressions": expressions}
    targets = {"namespaces": [f"{word}-*"], "exclude": ["*-out-*"], "selector": chosen}
    spec = copying(source, word, targets=targets)
    user.rule(operator.namespace, word, spec)
    user.wait_data("configmaps", yes, word, {"key": "value"})
    assert user.wait_ready(operator.namespace, word)["copies"]["desired"] == 1
