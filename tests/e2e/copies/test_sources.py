"""What a rule copies: by name or selector, from one or several namespaces, at what price."""


def selecting(word, *namespaces, **selector):
    source = {"kind": "ConfigMap", "namespaces": list(namespaces), "selector": selector}
    return {"source": source, "targets": {"namespaces": [f"{word}-*"]}}


def make(user, namespace, name, **labels):
    user.create(
        "configmaps", namespace, name, metadata={"labels": labels}, data={"from": namespace}
    )


def test_a_selector_may_use_every_operator_over_several_namespaces(operator, user, namespace, word):
    one, two, target = namespace("one"), namespace("two"), namespace(f"{word}-t")
    make(user, one, f"{word}-yes", app="a", tier="front")
    make(user, two, f"{word}-too", app="b", tier="back", extra="x")
    make(user, one, f"{word}-no-app", app="c", tier="front")
    make(user, one, f"{word}-old", app="a", tier="front", retired="yes")
    make(user, two, f"{word}-none")
    expressions = [
        {"key": "app", "operator": "In", "values": ["a", "b"]},
        {"key": "app", "operator": "NotIn", "values": ["c"]},
        {"key": "tier", "operator": "Exists"},
        {"key": "retired", "operator": "DoesNotExist"},
    ]
    user.rule(operator.namespace, word, selecting(word, one, two, matchExpressions=expressions))
    user.wait_data("configmaps", target, f"{word}-yes", {"from": one})
    user.wait_data("configmaps", target, f"{word}-too", {"from": two})
    assert user.wait_ready(operator.namespace, word)["sources"] == 2
    assert sorted(user.names("configmaps", target)) == [f"{word}-too", f"{word}-yes"]
    # Labels of sources change: one enters, one leaves.
    user.patch("configmaps", two, f"{word}-none", metadata={"labels": {"app": "a", "tier": "x"}})
    user.patch("configmaps", one, f"{word}-yes", metadata={"labels": {"retired": "yes"}})
    user.wait_data("configmaps", target, f"{word}-none", {"from": two})
    user.wait_gone("configmaps", target, f"{word}-yes")
