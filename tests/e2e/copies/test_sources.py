"""What a rule copies: by name or selector, from one or several namespaces, at what price."""

from tests.e2e.copies.conftest import copying, encoded
from tests.e2e.operator_process import until


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


def test_a_rule_may_come_before_its_source_and_its_namespace(operator, user, namespace, word):
    target = namespace(f"{word}-t")
    source = f"source-{word}"
    user.rule(
        operator.namespace,
        word,
        copying(source, word, kind="Secret"),
    )
    user.wait_reason(operator.namespace, word, "SourceNotFound")
    user.api.create("/api/v1/namespaces", {"metadata": {"name": source}})
    try:
        user.create("secrets", source, word, data=encoded(key="value"))
        user.wait_data("secrets", target, word, encoded(key="value"))
        user.wait_ready(operator.namespace, word)
    finally:
        user.api.delete(f"/api/v1/namespaces/{source}")
    user.wait_gone("secrets", target, word)  # with the source's namespace


def test_rules_that_select_alike_share_a_watch_and_the_rest_costs_nothing(
    operator, user, namespace, word
):
    source, target = namespace("source"), namespace(f"{word}-t")
    make(user, source, word, app=word)
    since = operator.cluster.audit_offset()
    for number in range(3):
        spec = selecting(word, source, matchLabels={"app": word})
        spec["transform"] = {"name": f"{{{{ source.name }}}}-{number}"}
        user.rule(operator.namespace, f"{word}-{number}", spec)
        user.wait_data("configmaps", target, f"{word}-{number}", {"from": source})
        user.wait_ready(operator.namespace, f"{word}-{number}")
    for number in range(5):
        make(user, source, f"unrelated-{number}", app="other")
    marker = namespace(f"{word}-marker")
    user.wait_data("configmaps", marker, f"{word}-2", {"from": source})
    seen = [e for e in requests_of(operator, since) if e.namespace == source]
    assert sorted(e.verb for e in seen) == ["list", "watch"]


def requests_of(operator, since):
    return [e for e in operator.cluster.audit_events(since) if e.user == operator.user]


def test_a_recreated_source_is_copied_again(operator, user, namespace, word):
    source, target = namespace("source"), namespace(f"{word}-t")
    make(user, source, word, app=word)
    user.rule(operator.namespace, word, selecting(word, source, matchLabels={"app": word}))
    user.wait_data("configmaps", target, word, {"from": source})
    user.delete("configmaps", source, word)
    user.create("configmaps", source, word, metadata={"labels": {"app": word}}, data={"new": "1"})
    user.wait_data("configmaps", target, word, {"new": "1"})
    until(lambda: user.condition(operator.namespace, word).get("reason") == "Synced")


def test_what_is_never_copied_is_left_out_and_the_rule_says_why(operator, user, namespace, word):
    source, target = namespace("source"), namespace(f"{word}-t")
    labels = {"labels": {"app": word}}
    user.create("serviceaccounts", source, word)
    token = {"annotations": {"kubernetes.io/service-account.name": word}, **labels}
    user.create(
        "secrets", source, "token", metadata=token, type="kubernetes.io/service-account-token"
    )
    user.create(
        "secrets",
        source,
        "sh.helm.release.v1.x.v1",
        metadata=labels,
        type="helm.sh/release.v1",
        data=encoded(release="x"),
    )
    spec = selecting(word, source, matchLabels={"app": word})
    spec["source"]["kind"] = "Secret"
    user.rule(operator.namespace, word, spec)
    condition = user.wait_reason(operator.namespace, word, "SourceNotFound")
    assert "never copied" in condition["message"]
    assert user.names("secrets", target) == []
