"""Claims by target: who wants what where, in which order."""

import asyncio

import pytest
from tests.targets import EVERYWHERE

from copyrator.api.rule_spec import parse_rule
from copyrator.copies.rules.rules import Rule
from copyrator.copies.rules.state import CompiledRule
from copyrator.copies.seal.sealing import Sealer
from copyrator.copies.sources.bindings import BindingIndex, SourceBinding
from copyrator.copies.sources.records import SourceReader
from copyrator.copies.targets.namespaces import Namespace, Namespaces
from copyrator.workqueue.fairness import TimeSlice

SEALER = Sealer(b"k" * 32)


class Indexed:
    """Namespaces, rules, and their claims."""

    def __init__(self):
        self.tenant = None
        self.namespaces = Namespaces()
        self.index = BindingIndex()
        for name in ("home", "team-a", "team-b"):
            self.namespaces.put(Namespace(name, labels={"kubernetes.io/metadata.name": name}))

    def compiled(self, name, spec, created="2026-01-01T00:00:00Z"):
        body = {
            "apiVersion": "flant.com/v1",
            "kind": "CopyratorRule",
            "metadata": {"name": name, "namespace": "home", "creationTimestamp": created},
            "spec": spec,
        }
        rule = Rule.from_body(body)
        parsed = parse_rule(body)
        assert parsed is rule.spec or parsed == rule.spec
        targets = self.namespaces.targets(parsed.targets, self.tenant)
        asyncio.run(targets.settle(TimeSlice()))
        compiled = CompiledRule(rule, parsed, resource="configmaps", targets=targets, sealer=SEALER)
        compiled.active = True
        return compiled

    def binding(self, compiled, name="app", namespace="home", rank=(0, ""), **metadata):
        body = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "resourceVersion": "1",
                **metadata,
            },
            "data": {"key": namespace},
        }
        source = SourceReader("v1", "ConfigMap")(body)
        binding = SourceBinding(compiled, source, rank)
        self.index.add(binding)
        return binding

    def owners(self, namespace, name):
        found = self.namespaces.get(namespace)
        return [request.owner for request in self.index.requests("configmaps", found, name)]


@pytest.fixture
def indexed():
    return Indexed()


BY_NAME = {"source": {"kind": "ConfigMap", "name": "app"}, "targets": EVERYWHERE}


def test_a_claim_is_found_at_its_targets_and_nowhere_else(indexed):
    spec = {**BY_NAME, "targets": {"namespaces": ["team-*"], "exclude": ["team-b"]}}
    indexed.binding(indexed.compiled("rule", spec))
    assert indexed.owners("team-a", "app") == ["home/rule"]
    assert indexed.owners("team-b", "app") == []
    assert indexed.owners("team-a", "other") == []


def test_the_sources_own_namespace_is_no_target_for_the_same_name(indexed):
    indexed.binding(indexed.compiled("rule", BY_NAME))
    assert indexed.owners("home", "app") == []


def test_it_is_one_for_another_name(indexed):
    indexed.binding(
        indexed.compiled("rule", {**BY_NAME, "transform": {"name": "copy-of-{{ source.name }}"}})
    )
    assert indexed.owners("home", "copy-of-app") == ["home/rule"]
    assert indexed.owners("home", "app") == []


def test_the_older_rule_comes_first_and_names_decide_among_twins(indexed):
    indexed.binding(indexed.compiled("b", BY_NAME, "2026-01-02T00:00:00Z"))
    indexed.binding(indexed.compiled("c", BY_NAME, "2026-01-01T00:00:00Z"))
    indexed.binding(indexed.compiled("a", BY_NAME, "2026-01-02T00:00:00Z"))
    assert indexed.owners("team-a", "app") == ["home/c", "home/a", "home/b"]


def test_within_a_rule_the_namespace_listed_first_comes_first(indexed):
    spec = {
        "source": {"kind": "ConfigMap", "name": "app", "namespaces": ["team-b", "home"]},
        "targets": EVERYWHERE,
    }
    compiled = indexed.compiled("rule", spec)
    second = indexed.binding(compiled, namespace="home", rank=(1, "app"))
    first = indexed.binding(compiled, namespace="team-b", rank=(0, "app"))
    found = indexed.index.requests("configmaps", indexed.namespaces.get("team-a"), "app")
    assert [request.binding for request in found] == [first, second]
    assert not indexed.index.is_alone(first)


def test_names_may_depend_on_the_target_namespace(indexed):
    spec = {**BY_NAME, "transform": {"name": "{{ source.name }}-{{ namespace.name }}"}}
    indexed.binding(indexed.compiled("rule", spec))
    assert indexed.owners("team-a", "app-team-a") == ["home/rule"]
    assert indexed.owners("team-b", "app-team-a") == []


def test_a_templates_name_and_content_follow_the_namespace(indexed):
    template = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "for-{{ namespace.name }}"},
        "data": {"owner": "{{ namespace.labels.owner }}"},
    }
    indexed.index.add(
        SourceBinding(indexed.compiled("rule", {"template": template, "targets": EVERYWHERE}), None)
    )
    team = indexed.namespaces.get("team-a")
    (binding,) = indexed.index.of_rule("home/rule").values()
    assert "owner" in binding.at(team).problem
    indexed.namespaces.put(Namespace("team-a", labels={"owner": "ops"}))
    indexed.index.forget_namespace("team-a")
    team = indexed.namespaces.get("team-a")
    assert binding.at(team).name == "for-team-a"
    assert binding.content(team).payload == {"data": {"owner": "ops"}}
    assert indexed.owners("team-a", "for-team-a") == ["home/rule"]


def test_a_source_says_where_it_may_go(indexed):
    annotations = {"copyrator.flant.com/allow-to": "team-b"}
    indexed.binding(indexed.compiled("rule", BY_NAME), annotations=annotations)
    assert indexed.owners("team-a", "app") == []
    assert indexed.owners("team-b", "app") == ["home/rule"]


def test_sources_are_known_so_that_nobody_overwrites_them(indexed):
    indexed.binding(indexed.compiled("rule", BY_NAME))
    assert indexed.index.is_source("configmaps", "home", "app")
    assert not indexed.index.is_source("secrets", "home", "app")
    indexed.index.remove("home/rule", "home/app")
    assert not indexed.index.is_source("configmaps", "home", "app")


def test_a_changed_source_replaces_its_claim(indexed):
    compiled = indexed.compiled("rule", BY_NAME)
    indexed.binding(compiled)
    second = indexed.binding(compiled)
    assert dict(indexed.index.of_rule("home/rule")) == {"home/app": second}
    assert indexed.index.is_alone(second), "the first isn't one of those of its name"


def test_a_removed_rule_leaves_nothing_behind(indexed):
    compiled = indexed.compiled("rule", BY_NAME)
    indexed.binding(compiled)
    other = indexed.compiled("other", BY_NAME)
    indexed.binding(other)
    assert indexed.index.remove_rule("home/rule") == {other.rule.key}, "it may get the targets"
    assert indexed.index.remove_rule("home/other") == set()
    assert indexed.index.remove_rule("home/rule") == set()
    assert vars(indexed.index) == vars(BindingIndex())


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ({"keys": {"rename": {"key": "other"}}}, "would both be named"),
        ({"name": "{{ source.labels.none }}"}, "none"),
        ({"name": "Not A Name"}, "isn't a valid object name"),
    ],
)
def test_a_transform_that_doesnt_fit_is_a_problem_of_the_claim(indexed, transform, message):
    compiled = indexed.compiled("rule", {**BY_NAME, "transform": transform})
    body = {
        "metadata": {"name": "app", "namespace": "home", "resourceVersion": "1"},
        "data": {"key": "1", "other": "2"},
    }
    binding = SourceBinding(compiled, SourceReader("v1", "ConfigMap")(body))
    assert message in binding.at(indexed.namespaces.get("team-a")).problem


class Refusing:
    """Stands for a compiled text that must not be rendered."""

    names = frozenset({"namespace"})
    source = "{{ namespace.name }}"

    def render(self, _context):
        raise AssertionError("rendered for a namespace that isn't meant")


@pytest.mark.parametrize(
    ("targets", "annotations"),
    [
        ({"namespaces": ["team-b"]}, {}),
        (EVERYWHERE, {"copyrator.flant.com/allow-to": "team-b"}),
    ],
    ids=["no target", "no consent of the source"],
)
def test_nothing_is_rendered_for_a_namespace_that_isnt_meant(indexed, targets, annotations):
    spec = {**BY_NAME, "targets": targets, "transform": {"name": "{{ namespace.name }}"}}
    compiled = indexed.compiled("rule", spec)
    compiled.name = Refusing()
    binding = indexed.binding(compiled, annotations=annotations)
    assert indexed.owners("team-a", "app") == []
    assert not binding.covers(indexed.namespaces.get("team-a"))


def test_nothing_is_rendered_for_a_namespace_that_didnt_accept_the_tenant(indexed):
    indexed.tenant = "home"
    compiled = indexed.compiled("rule", {**BY_NAME, "transform": {"name": "{{ namespace.name }}"}})
    compiled.name = Refusing()
    indexed.binding(compiled)
    assert indexed.owners("team-a", "app") == []


@pytest.mark.parametrize("fault", [MemoryError(), RecursionError(), SyntaxError("x"), KeyError()])
def test_whatever_goes_wrong_with_a_rendering_is_a_problem_of_that_copy(
    indexed, fault, monkeypatch
):
    def broken(self, _context):
        raise fault

    monkeypatch.setattr("copyrator.copies.template.rendering.Text.render", broken)
    spec = {**BY_NAME, "transform": {"name": "{{ namespace.name }}"}}
    binding = indexed.binding(indexed.compiled("rule", spec))
    assert binding.at(indexed.namespaces.get("team-a")).problem
