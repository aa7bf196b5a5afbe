"""Which Secrets count as kubeconfigs of rules, so that they are copied nowhere."""

from typing import Any

from copyrator.api.keys import ObjectName, RuleKey
from copyrator.copies.rules.rules import Rule, RuleCache

HUB = ObjectName("home", "hub")


def rule(version: int, **source: Any) -> Rule:
    found = {"kind": "ConfigMap", "namespace": "infra", "name": "motd", **source}
    metadata = {"name": "pull", "namespace": "home", "resourceVersion": str(version), "uid": "u"}
    spec = {"source": found, "targets": {"namespaces": ["team-*"]}}
    return Rule.from_body({"metadata": metadata, "spec": spec})


def test_a_secret_is_one_as_long_as_a_rule_names_it_also_before_that_is_served() -> None:
    rules = RuleCache()
    assert not rules.is_kubeconfig(HUB)
    rules.put(rule(1, kubeConfig={"secretName": "hub"}))
    assert rules.is_kubeconfig(HUB)
    assert not rules.is_kubeconfig(ObjectName("other", "hub"))
    rules.put(rule(2))
    assert not rules.is_kubeconfig(HUB)
    rules.put(rule(3, kubeConfig={"secretName": "hub"}))
    rules.drop(RuleKey("home", "pull"))
    assert not rules.is_kubeconfig(HUB)
