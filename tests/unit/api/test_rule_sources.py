"""spec.sources, as the parser reads it."""

from typing import Any

import pytest
from tests.targets import EVERYWHERE

from copyrator.api.fields import InvalidSpec
from copyrator.api.rule import copies_kind, parse_rule
from copyrator.api.rule_spec import RuleSpec

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


@pytest.mark.parametrize(
    ("sources", "path", "said"),
    [
        ([], "spec.sources", "must name a source"),
        ([ONE, ONE], "spec.sources[1].as", "hub is the name of an earlier entry"),
        ([{**ONE, "as": None}], "spec.sources[0].as", "is required"),
        ([{**ONE, "as": ""}], "spec.sources[0].as", "must not be empty"),
        ([{**ONE, "as": 1}], "spec.sources[0].as", "must be a string"),
        ([{**ONE, "as": "1a"}], "spec.sources[0].as", "can't be a name in a template"),
        ([{**ONE, "as": "_a"}], "spec.sources[0].as", "can't be a name in a template"),
        ([{**ONE, "as": "a-b"}], "spec.sources[0].as", "can't be a name in a template"),
        ([{**ONE, "as": "é"}], "spec.sources[0].as", "can't be a name in a template"),
        ([{**ONE, "as": "a\n"}], "spec.sources[0].as", "can't be a name in a template"),
        ([{**ONE, "as": "a" * 64}], "spec.sources[0].as", "can't be a name in a template"),
        ([{**ONE, "kind": None}], "spec.sources[0].kind", "is required"),
        ([{**ONE, "name": None}], "spec.sources[0].name", "exactly one of name and selector"),
        ([{**ONE, "selector": LABELS}], "spec.sources[0].name", "exactly one of name and"),
        ([{**ONE, "namespace": "A"}], "spec.sources[0].namespace", "lower-case"),
        ([{**ONE, "optional": "yes"}], "spec.sources[0].optional", "must be true or false"),
        (
            [{"as": "a", "kind": "Secret", "selector": {}}],
            "spec.sources[0].selector",
            "at least one label",
        ),
        (["x"], "spec.sources[0]", "must be a map"),
        ([{**ONE, "as": f"a{n}"} for n in range(33)], "spec.sources", "has 33 entries; at most 32"),
    ],
)
def test_faults_name_the_field(sources, path, said):
    found = parse(*sources)
    assert isinstance(found, InvalidSpec)
    assert found.path == path
    assert said in found.message


def test_as_many_and_as_long_as_the_crd_allows():
    spec = parse(*({**ONE, "as": "a" * 60 + f"{n:03}"} for n in range(32)))
    assert isinstance(spec, RuleSpec)
    assert len(spec.sources) == 32


@pytest.mark.parametrize(
    ("change", "path", "said"),
    [
        ({"template": None, "source": {"kind": "Secret", "name": "x"}}, "spec.sources", "needs"),
        ({"source": {"kind": "Secret", "name": "x"}}, "spec.source", "exactly one"),
        ({"sources": {}}, "spec.sources", "must be a list"),
        ({"sources": "x"}, "spec.sources", "must be a list"),
    ],
)
def test_sources_need_a_template(change, path, said):
    found = parse(ONE, **change)
    assert isinstance(found, InvalidSpec)
    assert found.path == path
    assert said in found.message
