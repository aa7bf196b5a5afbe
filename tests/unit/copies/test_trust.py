import pytest
from tests.targets import EVERYWHERE

from copyrator.api.rule_spec import RuleSpec, parse_rule
from copyrator.copies.rules.rules import tenant_refusal

OWN = {"kind": "Secret", "name": "app"}


def rule(spec=None, **old):
    body = {"metadata": {"namespace": "tenant", "name": "r"}, **old}
    found = parse_rule({**body, "spec": {"targets": EVERYWHERE, **spec}} if spec else body)
    assert isinstance(found, RuleSpec), found
    return found


@pytest.mark.parametrize(
    "spec",
    [
        rule({"source": OWN}),
        rule({"source": {**OWN, "kind": "ConfigMap"}}),
        rule({"source": {**OWN, "apiVersion": "v1"}}),
        rule({"source": {**OWN, "namespace": "tenant"}}),
        rule({"source": {"kind": "Secret", "selector": {"matchLabels": {"a": "b"}}}}),
        rule({"source": OWN, "transform": {"name": "renamed-{{ namespace.name }}"}}),
        rule({"source": OWN, "onConflict": "Adopt", "onImmutable": "Recreate"}),
        rule({"source": OWN, "targets": {"namespaces": ["kube-system"]}}),
        rule({"source": OWN, "rollout": {"steps": ["1", "100%"]}}),
        rule(ruleType="secret", selector={"a": "b"}),
        rule(ruleType="secret", selector={"a": "b"}, namespace=["tenant"]),
    ],
)
def test_a_tenant_may_copy_its_own_configmaps_and_secrets(spec):
    assert tenant_refusal(spec, "tenant") is None


TEMPLATE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (
            rule({"source": {**OWN, "namespace": "other"}}),
            (
                "spec.source.namespace names other: outside the operator's namespace a rule's "
                "sources must be in its own namespace, tenant"
            ),
        ),
        (rule({"source": {**OWN, "namespaces": ["x", "tenant", "y"]}}), "namespace names x, y: "),
        (rule(ruleType="secret", selector={"a": "b"}, namespace="z"), "namespace names z: outside"),
        (rule(ruleType="secret", selector="a=b", namespaces=["tenant", "kube-system"]), "kube-sys"),
        (
            rule({"template": TEMPLATE}),
            "spec.template is for trusted rules only: it can create any object; use spec.source",
        ),
        (rule({"source": {"kind": "RoleBinding", "name": "x"}}), "RoleBinding"),
        (rule({"source": {**OWN, "apiVersion": "example.com/v1"}}), "copy ConfigMap and Secret"),
        (
            rule({"source": OWN, "onConflict": "Overwrite"}),
            (
                "spec.onConflict: Overwrite is for trusted rules only: accepting copies doesn't "
                "allow overwriting a namespace's objects; use Skip or Adopt"
            ),
        ),
        *(
            (
                rule({"source": OWN, "rollout": {"steps": ["100%"], **more}}),
                "spec.rollout.health and restart are for trusted rules only",
            )
            for more in ({"health": True}, {"restart": "Consumers"})
        ),
    ],
)
def test_a_tenant_may_ask_for_nothing_else(spec, told):
    why = tenant_refusal(spec, "tenant")
    assert told in why
    assert why.startswith("namespace" if spec.legacy else "spec.")
