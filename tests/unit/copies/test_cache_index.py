"""Claims by target: who wants what where, in which order."""

import asyncio

import pytest

from copyrator.api.rule import parse_rule
from copyrator.copies.cache.claims import CompiledRule, SourceBinding
from copyrator.copies.cache.index import ClaimIndex
from copyrator.copies.cache.namespaces import Namespace, Namespaces
from copyrator.copies.cache.rules import Rule
from copyrator.copies.policy.sealing import Sealer
from copyrator.copies.policy.sources import SourceReader
from copyrator.workqueue.timeslice import TimeSlice

SEALER = Sealer(b"k" * 32)


class World:
    """Namespaces, rules, and their claims."""

    def __init__(self):
        self.tenant = None
        self.namespaces = Namespaces()
        self.index = ClaimIndex()
        for name in ("home", "team-a", "team-b"):
            self.namespaces.put(Namespace(name, labels={"kubernetes.io/metadata.name": name}))

    def maker(self, name, spec, created="2026-01-01T00:00:00Z"):
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
        maker = CompiledRule.of(rule, parsed, resource="configmaps", targets=targets, sealer=SEALER)
        maker.active = True
        return maker

    def claim(self, maker, name="app", namespace="home", rank=(0, ""), **metadata):
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
        claim = SourceBinding(maker, source, rank)
        self.index.add(claim)
        return claim

    def owners(self, namespace, name):
        found = self.namespaces.get(namespace)
        return [bid.owner for bid in self.index.bids("configmaps", found, name)]


@pytest.fixture
def world():
    return World()


BY_NAME = {"source": {"kind": "ConfigMap", "name": "app"}}


def test_a_claim_is_found_at_its_targets_and_nowhere_else(world):
    spec = {**BY_NAME, "targets": {"namespaces": ["team-*"], "exclude": ["team-b"]}}
    world.claim(world.maker("rule", spec))
    assert world.owners("team-a", "app") == ["home/rule"]
    assert world.owners("team-b", "app") == []
    assert world.owners("team-a", "other") == []


def test_the_sources_own_namespace_is_no_target_for_the_same_name(world):
    world.claim(world.maker("rule", BY_NAME))
    assert world.owners("home", "app") == []


def test_it_is_one_for_another_name(world):
    world.claim(
        world.maker("rule", {**BY_NAME, "transform": {"name": "copy-of-{{ source.name }}"}})
    )
    assert world.owners("home", "copy-of-app") == ["home/rule"]
    assert world.owners("home", "app") == []


def test_the_older_rule_comes_first_and_names_decide_among_twins(world):
    world.claim(world.maker("b", BY_NAME, "2026-01-02T00:00:00Z"))
    world.claim(world.maker("c", BY_NAME, "2026-01-01T00:00:00Z"))
    world.claim(world.maker("a", BY_NAME, "2026-01-02T00:00:00Z"))
    assert world.owners("team-a", "app") == ["home/c", "home/a", "home/b"]


def test_within_a_rule_the_namespace_listed_first_comes_first(world):
    spec = {"source": {"kind": "ConfigMap", "name": "app", "namespaces": ["team-b", "home"]}}
    maker = world.maker("rule", spec)
    second = world.claim(maker, namespace="home", rank=(1, "app"))
    first = world.claim(maker, namespace="team-b", rank=(0, "app"))
    found = world.index.bids("configmaps", world.namespaces.get("team-a"), "app")
    assert [bid.claim for bid in found] == [first, second]
    assert not world.index.is_alone(first)


def test_names_may_depend_on_the_target_namespace(world):
    spec = {**BY_NAME, "transform": {"name": "{{ source.name }}-{{ namespace.name }}"}}
    world.claim(world.maker("rule", spec))
    assert world.owners("team-a", "app-team-a") == ["home/rule"]
    assert world.owners("team-b", "app-team-a") == []


def test_a_templates_name_and_content_follow_the_namespace(world):
    template = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "for-{{ namespace.name }}"},
        "data": {"owner": "{{ namespace.labels.owner }}"},
    }
    world.index.add(SourceBinding(world.maker("rule", {"template": template}), None))
    team = world.namespaces.get("team-a")
    (claim,) = world.index.of_rule("home/rule").values()
    assert "owner" in claim.at(team).problem
    world.namespaces.put(Namespace("team-a", labels={"owner": "ops"}))
    world.index.forget_namespace("team-a")
    team = world.namespaces.get("team-a")
    assert claim.at(team).name == "for-team-a"
    assert claim.content(team).payload == {"data": {"owner": "ops"}}
    assert world.owners("team-a", "for-team-a") == ["home/rule"]


def test_a_source_says_where_it_may_go(world):
    annotations = {"copyrator.flant.com/allow-to": "team-b"}
    world.claim(world.maker("rule", BY_NAME), annotations=annotations)
    assert world.owners("team-a", "app") == []
    assert world.owners("team-b", "app") == ["home/rule"]


def test_sources_are_known_so_that_nobody_overwrites_them(world):
    world.claim(world.maker("rule", BY_NAME))
    assert world.index.is_source("configmaps", "home", "app")
    assert not world.index.is_source("secrets", "home", "app")
    world.index.remove("home/rule", "home/app")
    assert not world.index.is_source("configmaps", "home", "app")


def test_a_changed_source_replaces_its_claim(world):
    maker = world.maker("rule", BY_NAME)
    first = world.claim(maker)
    second = world.claim(maker)
    assert list(world.index.all()) == [second]
    assert first not in world.index.rivals(second)


def test_a_removed_rule_leaves_nothing_behind(world):
    maker = world.maker("rule", BY_NAME)
    claim = world.claim(maker)
    assert world.index.remove_rule("home/rule") == [claim]
    assert world.index.remove_rule("home/rule") == []
    assert vars(world.index) == vars(ClaimIndex())


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        ({"keys": {"rename": {"key": "other"}}}, "would both be named"),
        ({"name": "{{ source.labels.none }}"}, "none"),
        ({"name": "Not A Name"}, "isn't a valid object name"),
    ],
)
def test_a_transform_that_doesnt_fit_is_a_problem_of_the_claim(world, transform, message):
    maker = world.maker("rule", {**BY_NAME, "transform": transform})
    body = {
        "metadata": {"name": "app", "namespace": "home", "resourceVersion": "1"},
        "data": {"key": "1", "other": "2"},
    }
    claim = SourceBinding(maker, SourceReader("v1", "ConfigMap")(body))
    assert message in claim.at(world.namespaces.get("team-a")).problem


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
        ({}, {"copyrator.flant.com/allow-to": "team-b"}),
    ],
    ids=["no target", "no consent of the source"],
)
def test_nothing_is_rendered_for_a_namespace_that_isnt_meant(world, targets, annotations):
    spec = {**BY_NAME, "targets": targets, "transform": {"name": "{{ namespace.name }}"}}
    maker = world.maker("rule", spec)
    maker.name = Refusing()
    claim = world.claim(maker, annotations=annotations)
    assert world.owners("team-a", "app") == []
    assert not claim.covers(world.namespaces.get("team-a"))


def test_nothing_is_rendered_for_a_namespace_that_didnt_accept_the_tenant(world):
    world.tenant = "home"
    maker = world.maker("rule", {**BY_NAME, "transform": {"name": "{{ namespace.name }}"}})
    maker.name = Refusing()
    world.claim(maker)
    assert world.owners("team-a", "app") == []


@pytest.mark.parametrize("fault", [MemoryError(), RecursionError(), SyntaxError("x"), KeyError()])
def test_whatever_goes_wrong_with_a_rendering_is_a_problem_of_that_copy(world, fault, monkeypatch):
    def broken(self, _context):
        raise fault

    monkeypatch.setattr("copyrator.copies.policy.rendering.Text.render", broken)
    spec = {**BY_NAME, "transform": {"name": "{{ namespace.name }}"}}
    claim = world.claim(world.maker("rule", spec))
    assert claim.at(world.namespaces.get("team-a")).problem
