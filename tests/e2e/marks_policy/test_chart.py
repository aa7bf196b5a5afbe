"""What the chart says of the policy; no API server is asked."""

import json
from typing import Any

from tests.e2e.installation import rendered
from tests.e2e.marks_policy.conftest import policies_of

from copyrator.api import names
from copyrator.copies.targets.marks import OUR_KEYS


def test_it_knows_every_mark_that_a_copy_can_carry(cluster):
    (policy, _binding) = policies_of(rendered(cluster, "x", policy=True))
    keys = next(one for one in policy["spec"]["variables"] if one["name"] == "keys")
    for key in OUR_KEYS - {names.LABEL_MANAGED_BY}:
        assert repr(key) in keys["expression"]
    said = json.dumps(policy["spec"])
    assert f"'{names.LABEL_MANAGED_BY}'" in said
    assert f"f.manager == '{names.FIELD_MANAGER}'" in said


def test_it_can_be_switched_off_and_is_left_out_where_it_isnt_served(cluster):
    def found(policy: bool, **values: Any) -> list[dict[str, Any]]:
        chosen = {key.replace("__", "."): value for key, value in values.items()}
        return policies_of(rendered(cluster, "x", chosen, policy=policy))

    assert len(found(True)) == 2
    assert found(False) == []
    assert found(True, rules__admissionPolicy=False) == []


def test_two_installations_names_differ_and_nothing_of_a_cluster_fails_with_a_policy(cluster):
    found_in = [
        policies_of(rendered(cluster, home, values, policy=True))
        for home in ("x", "y")
        for values in ({}, {"fullnameOverride": "second"})
    ]
    found = {policy["metadata"]["name"] for pair in found_in for policy in pair}
    assert len(found) == len(found_in)
    for policy, binding in found_in:
        assert policy["spec"]["failurePolicy"] == "Ignore"
        assert binding["spec"]["policyName"] == policy["metadata"]["name"]


def test_it_is_about_the_kinds_of_rules_and_never_about_our_own(cluster):
    ours = ["CopyratorRule.flant.com", "Bundle.operator.werf.dev"]
    values = {"rules.kinds": ["Secret", "Ingress.networking.k8s.io/v1", *ours]}
    (policy, _) = policies_of(rendered(cluster, "x", values, policy=True))
    rules = policy["spec"]["matchConstraints"]["resourceRules"]
    assert [(one["apiGroups"], one["resources"]) for one in rules] == [
        ([""], ["secrets", "secrets/status"]),
        (["networking.k8s.io"], ["ingresses", "ingresses/status"]),
    ]
    only = {"rules.kinds": ours}
    assert policies_of(rendered(cluster, "x", only, policy=True)) == []


def test_in_some_namespaces_it_guards_these_only(cluster):
    values = {"watchNamespaces": ["one", "two"]}
    (_, binding) = policies_of(rendered(cluster, "x", values, policy=True))
    (chosen,) = binding["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
    assert chosen["values"] == ["one", "two"]
