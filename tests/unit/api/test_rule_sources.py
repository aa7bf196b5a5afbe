"""spec.sources, as the parser reads it."""

from typing import Any

from tests.targets import EVERYWHERE

from copyrator.api.rule_spec import RuleSpec, copies_kind, parse_rule
from copyrator.api.schema import InvalidSpec

TEMPLATE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
ONE = {"as": "hub", "kind": "Secret", "name": "creds"}
LABELS = {"matchLabels": {"a": "b"}}


def parse(*sources: Any, **spec: Any) -> RuleSpec | InvalidSpec:
    body = {"template": TEMPLATE, "sources": list(sources), "targets": EVERYWHERE, **spec}
    return parse_rule({"metadata": {"namespace": "home"}, "spec": body})


def test_entries_are_read_in_order_with_the_rules_namespace_as_default():
    many = {"as": "many_2", "kind": "Gizmo", "namespace": "infra", "selector": LABELS}
    spec = parse(ONE, {**many, "apiVersion": "e.io/v1", "optional": True})
    assert isinstance(spec, RuleSpec)
    hub, other = spec.sources
    assert (hub.alias, hub.namespace, hub.single, hub.optional) == ("hub", "home", True, False)
    assert (hub.kind, hub.api_version, hub.name) == ("Secret", "v1", "creds")
    assert (other.alias, other.namespace, other.single) == ("many_2", "infra", False)
    assert other.optional
    assert other.api_version == "e.io/v1"
    assert other.selector is not None
    assert other.selector.matches({"a": "b"})
    assert spec.all_sources == (hub, other)
    assert (spec.kind, spec.source) == ("ConfigMap", None)


def test_the_kind_of_the_copies_is_the_templates():
    body = {"spec": {"template": TEMPLATE, "sources": [ONE], "targets": EVERYWHERE}}
    assert copies_kind(body) == ("ConfigMap", "v1")
