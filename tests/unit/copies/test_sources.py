"""Sources of rules."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count, groupby
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from tests.steps import assert_quick
from tests.targets import EVERYWHERE

from copyrator.api import names
from copyrator.api.keys import ObjectName, RuleKey
from copyrator.api.rule_spec import ComposedSource, parse_rule
from copyrator.api.schema import NOT_WHOLE
from copyrator.api.selectors import (
    MAX_CONSENT_TEXT,
    MAX_GLOB_TEXT,
    MAX_GLOBS,
    LabelSelector,
    read_consent,
)
from copyrator.copies import controller
from copyrator.copies.composed.composer import Composition, Part
from copyrator.copies.context import Changes
from copyrator.copies.rules.rules import Rule
from copyrator.copies.rules.state import CompiledRule
from copyrator.copies.seal.sealing import Sealer
from copyrator.copies.sources import records as shares
from copyrator.copies.sources.bindings import BindingIndex, SourceBinding
from copyrator.copies.sources.records import (
    SOURCE_OVERHEAD,
    HeaderReader,
    SourceReader,
    SourceRecord,
    SourceShares,
    is_newer,
    refusal,
)
from copyrator.copies.sources.watches import _NamedSource
from copyrator.copies.targets.content import Content
from copyrator.copies.targets.namespaces import Namespace, Namespaces
from copyrator.kube.resources import SECRETS
from copyrator.kube.watch.reflector import Seen
from copyrator.workqueue.fairness import TimeSlice

# --- Claims by target: who wants what where, in which order ---------------------------------------


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


def test_the_sources_own_namespace_is_a_target_for_another_name_only(indexed):
    indexed.binding(indexed.compiled("rule", BY_NAME))
    renamed = {**BY_NAME, "transform": {"name": "copy-of-{{ source.name }}"}}
    indexed.binding(indexed.compiled("renamed", renamed))
    assert indexed.owners("home", "app") == []
    assert indexed.owners("home", "copy-of-app") == ["home/renamed"]


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
    assert not indexed.index.is_source("configmaps", "home", "app")
    assert vars(indexed.index) == vars(BindingIndex())


class Refusing:
    """Stands for a compiled text that must not be rendered."""

    names = frozenset({"namespace"})
    source = "{{ namespace.name }}"

    def render(self, _context):
        raise AssertionError("rendered for a namespace that isn't meant")


@pytest.mark.parametrize(
    ("targets", "annotations", "tenant"),
    [
        ({"namespaces": ["team-b"]}, {}, None),
        (EVERYWHERE, {"copyrator.flant.com/allow-to": "team-b"}, None),
        (EVERYWHERE, {}, "home"),
    ],
    ids=["no target", "no consent of the source", "no consent of the target"],
)
def test_nothing_is_rendered_for_a_namespace_that_isnt_meant(indexed, targets, annotations, tenant):
    indexed.tenant = tenant
    spec = {**BY_NAME, "targets": targets, "transform": {"name": "{{ namespace.name }}"}}
    compiled = indexed.compiled("rule", spec)
    compiled.name = Refusing()
    binding = indexed.binding(compiled, annotations=annotations)
    assert indexed.owners("team-a", "app") == []
    assert not binding.covers(indexed.namespaces.get("team-a"))


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


# --- What the sources of a namespace's rules may hold, and which rule is called when a watch ends -


EACH, TOGETHER, FIRST = 4, 6, 2


class Rules:
    """Rules that open a watch as soon as there is room for one."""

    def __init__(self) -> None:
        self.shares = SourceShares(self.reconcile)
        self.called: list[str] = []

    def reconcile(self, key: RuleKey) -> None:
        self.called.append(f"{key.namespace}/{key.name}")
        share = self.shares.of(key.namespace)
        if share.may_watch:
            share.opened()
        else:
            share.waiting[key] = None

    def want(self, namespace: str, *names: str) -> None:
        for name in names:
            self.reconcile(RuleKey(namespace, name))
        self.called.clear()

    def end(self, namespace: str) -> list[str]:
        """The rules that are called when a watch of this namespace ends."""
        self.called.clear()
        self.shares.of(namespace).closed()
        return self.called

    def watches(self, *namespaces: str) -> list[int]:
        return [self.shares.of(namespace).watches for namespace in namespaces]


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch) -> Rules:
    for name, value in (
        ("TENANT_WATCHES", EACH),
        ("TENANTS_WATCHES", TOGETHER),
        ("FIRST_WATCHES", FIRST),
        ("TENANT_SOURCE_BYTES", 100),
        ("TENANTS_SOURCE_BYTES", 150),
        ("FIRST_SOURCE_BYTES", 10),
        ("TRUSTED_SOURCE_BYTES", 1000),
    ):
        monkeypatch.setattr(shares, name, value)
    return Rules()


def test_a_namespace_has_its_limit_and_the_rule_that_waited_longest_follows(rules: Rules) -> None:
    rules.want("a", "1", "2", "3", "4", "5", "6")
    assert rules.watches("a") == [EACH]
    assert rules.end("a") == ["a/5"]
    assert rules.end("a") == ["a/6"]
    assert rules.end("a") == []


def test_each_namespace_gets_its_first_watches_however_many_others_have(rules: Rules) -> None:
    for namespace in "abcdefgh":
        rules.want(namespace, "1", "2", "3", "4", "5")
    assert rules.watches(*"abcdefgh") == [4, 4, 4, 2, 2, 2, 2, 2]
    assert rules.shares.watches == TOGETHER


def test_a_place_of_all_is_offered_to_each_namespace_that_waits(rules: Rules) -> None:
    for namespace in "abcde":
        rules.want(namespace, "1", "2", "3", "4")
    rules.shares.forget(RuleKey("d", "3"), "d")  # deleted meanwhile
    assert rules.end("a") == ["d/4"]  # and the place is taken
    assert rules.end("b") == ["e/3"]
    assert rules.end("c") == ["e/4"]
    assert rules.watches(*"abcde") == [3, 3, 3, 3, 4]


def test_trusted_rules_wait_for_nothing_and_count_for_nobody(rules: Rules) -> None:
    trusted = rules.shares.of(None)
    for _ in range(50):
        assert trusted.may_watch
        trusted.opened()
    assert trusted.reserve(1000)
    assert not trusted.reserve(1)
    assert (rules.shares.watches, rules.shares.bytes) == (0, 0)
    rules.want("a", "1", "2", "3", "4")
    assert rules.watches("a") == [EACH]


def test_bytes_are_limited_for_each_and_for_all_beyond_the_first(rules: Rules) -> None:
    one, two, three = (rules.shares.of(name) for name in ("a", "b", "c"))
    assert one.reserve(100)
    assert not one.reserve(1)
    assert not two.reserve(51)
    assert two.reserve(50)
    assert three.reserve(10)  # its first, though all have what they may have
    assert not three.reserve(1)
    one.give_back(100)
    assert three.reserve(1)


def test_a_source_that_changes_is_counted_once(rules: Rules) -> None:
    share, held = rules.shares.of("a"), None
    body = {"metadata": {"namespace": "a", "name": "app"}}
    for version in range(20):
        held = share.held(held, SourceRecord(str(version), body, size=60 + version))
        assert held.whole
    assert (share.bytes, rules.shares.bytes) == (79, 79)


# --- What is held of a source ---------------------------------------------------------------------


BODY = {
    "metadata": {
        "name": "creds",
        "namespace": "ops",
        "uid": "u",
        "resourceVersion": 7,
        "labels": {"a": "b"},
        "annotations": {},
        "managedFields": [{}],
    },
    "type": "Opaque",
    "data": {"a": "YQ=="},
    "status": {},
}
READ = SourceReader("v1", "Secret")


def test_a_source_is_held_with_all_that_is_copied_and_nothing_else():
    record = READ(BODY)
    assert record.body == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "creds", "namespace": "ops", "labels": {"a": "b"}},
        "type": "Opaque",
        "data": {"a": "YQ=="},
    }
    assert record.resource_version == "7"
    assert record.refused is None
    assert record.size == len(msgspec.json.encode(record.body)) + SOURCE_OVERHEAD
    assert (record.name, record.namespace, record.annotations) == ("creds", "ops", {})
    assert record.held == record.size
    refused = READ({**BODY, "type": "helm.sh/release.v1"})
    named = {"name": "creds", "namespace": "ops"}
    assert refused.refused == "it is a Helm release"
    assert refused.body == {"apiVersion": "v1", "kind": "Secret", "metadata": named}


# --- What is known of a template's sources, without their contents --------------------------------


ALLOW = "copyrator.flant.com/allow-to"


@dataclass
class Watch:
    store: dict = field(default_factory=dict)

    def put(self, name, version="1", namespace="infra", kind="Secret", **metadata):
        body = {"metadata": {"name": name, "resourceVersion": version, **metadata}}
        self.store[ObjectName(namespace, name)] = HeaderReader(kind)(body)


def part(alias, watch, name=None, resource=SECRETS, *, optional=False):
    selector = None if name else LabelSelector.from_labels({"a": "b"})
    entry = ComposedSource(
        *("v1", "infra"),
        alias=alias,
        kind=resource.kind,
        name=name,
        selector=selector,
        optional=optional,
    )
    return Part(entry, resource, watch)


@pytest.fixture
def one():
    return Watch()


@pytest.fixture
def many():
    return Watch()


@pytest.fixture
def composition(one, many):
    return Composition([part("hub", one, "creds"), part("private", many)])


def changed(composition):
    for each in composition.parts:
        each.changed()
    return composition


def test_a_shared_watch_has_more_than_the_named_object(one, many, composition):
    one.put("creds")
    one.put("other")
    many.put("b")
    many.put("a", version="7")
    assert list(composition.parts[0].found()) == [ObjectName("infra", "creds")]
    assert [name.name for name in composition.parts[1].found()] == ["a", "b"]
    assert composition.count() == 3
    assert composition.to_string() == "hub, private (2)"
    versions = {"creds": "1", "a": "7", "b": "1"}
    assert composition.is_covered_by(
        {("secrets", "infra", name): version for name, version in versions.items()}
    )
    assert composition.sources() == {("secrets", f"infra/{name}") for name in ("creds", "a", "b")}
    assert composition.is_source("secrets", "infra", "a")
    assert not composition.is_source("configmaps", "infra", "a")
    assert not composition.is_source("secrets", "infra", "other")
    assert composition.parts[0].concerns(ObjectName("infra", "creds"))
    assert not composition.parts[0].concerns(ObjectName("infra", "other"))


def test_what_was_read_and_refused_is_refused_in_that_version_only(one, many, composition):
    one.put("creds")
    many.put("a")
    many.put("b")
    for each, name in zip(composition.parts, ("creds", "a"), strict=True):
        each.refuse(ObjectName("infra", name), "1", "it is a Helm release")
    assert "is never copied: it is a Helm release" in composition.missing()
    assert list(composition.parts[1].found()) == [ObjectName("infra", "b")]
    one.put("creds", version="2")
    many.put("a", version="2")
    assert changed(composition).missing() is None
    assert len(composition.parts[1].found()) == 2


@pytest.mark.parametrize(
    ("read", "covered"),
    [
        (None, False),
        ({}, False),
        ({"creds": "5", "a": "5"}, True),
        ({"creds": "6", "a": "5"}, True),
        ({"creds": "4", "a": "5"}, False),
        ({"creds": "5"}, False),
        ({"creds": "5", "a": "5", "b": "5"}, False),
        ({"creds": "10", "a": "5"}, True),
    ],
)
def test_a_reading_is_used_while_it_is_as_new_as_the_watches(one, many, composition, read, covered):
    one.put("creds", version="5")
    many.put("a", version="5")
    versions = read and {("secrets", "infra", name): version for name, version in read.items()}
    assert composition.is_covered_by(versions) is covered


def test_every_source_must_allow_a_target(one, many, composition):
    one.put("creds")
    many.put("a", annotations={ALLOW: "team-a, team-b"})
    many.put("b", annotations={ALLOW: "team-*"})
    assert composition.forbidding("team-a") is None
    assert composition.forbidding("team-c") == "infra/a"
    assert composition.forbidding("other") == "infra/a"
    assert list(composition.unreadable()) == []
    many.put("c", annotations={ALLOW: ",".join(f"a{number}*" for number in range(2_000))})
    ((kind, name, problem),) = changed(composition).unreadable()
    assert (kind, name) == ("secrets", ObjectName("infra", "c"))
    assert "patterns with wildcards" in problem
    assert composition.forbidding("team-a") == "infra/c"


def test_an_outline_has_the_fields_of_a_content_and_none_of_its_values():
    payload = {"data": {"a": "hunter2", "b": ""}, "type": "Opaque", "list": ["hunter2"], "no": None}
    content = Content("v1", "Secret", payload, {"l": "hunter2"}, {"n": "hunter2"}, b"digest")
    outline = content.outline()
    assert "hunter2" not in repr(outline)
    assert outline.payload["data"].keys() == {"a", "b"}
    assert (outline.payload["data"]["b"], outline.payload["no"]) == ("", None)
    assert content.has_outline(outline)
    other = Content("v1", "Secret", {"data": {"a": "x"}}, {"l": ""}, {"n": ""}, b"")
    assert not other.has_outline(outline)
    assert not Content("v1", "Secret", payload, {}, {"n": ""}, b"").has_outline(outline)
    assert not Content("v1", "Secret", payload, {"l": ""}, {}, b"").has_outline(outline)


# --- What is never copied, and who consents -------------------------------------------------------


def body(name="x", **fields):
    return {"metadata": {"name": name, **fields.pop("metadata", {})}, **fields}


def source(annotations):
    metadata = {"name": "x", "resourceVersion": "1", "annotations": annotations}
    return SourceReader("v1", "Secret")({"metadata": metadata})


COPY = {
    "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
    "annotations": {names.ANN_RULE: "a/b"},
}


HASH_KEY = {"labels": {"copyrator.flant.com/hash-key": "true"}}


@pytest.mark.parametrize(
    ("kind", "found", "why"),
    [
        ("Secret", body(type="kubernetes.io/service-account-token"), "it is a service account's"),
        ("Secret", body(type="helm.sh/release.v1"), "it is a Helm release"),
        ("ConfigMap", body("kube-root-ca.crt"), "it exists in every namespace"),
        ("ConfigMap", body(metadata=COPY), "it is a copy"),
        ("Secret", body(metadata=HASH_KEY), "it is the operator's"),
        ("Secret", body(metadata={NOT_WHOLE: "it is nested too deeply"}), "it is nested too"),
    ],
)
def test_some_objects_are_never_copied(kind, found, why):
    assert refusal(kind, found).startswith(why)


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("Secret", body(type="Opaque")),
        ("Secret", body(type="kubernetes.io/dockerconfigjson")),
        ("Secret", body("kube-root-ca.crt", type="Opaque")),
        ("ConfigMap", body("kube-root-ca.crt.old")),
        ("ConfigMap", body(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})),
        *(("ConfigMap", body(metadata={part: marks})) for part, marks in COPY.items()),
    ],
)
def test_all_others_are(kind, found):
    assert refusal(kind, found) is None


@pytest.mark.parametrize(
    ("annotation", "target", "expected"),
    [
        (None, "team-a", True),
        ("team-*", "team-a", True),
        (" ops, team-* ,,", "ops", True),
        ("team-*", "other-team-a", False),
        ("", "team-a", False),
        ("  ", "", False),
    ],
)
def test_a_source_limits_where_it_goes(annotation, target, expected):
    annotations = {} if annotation is None else {names.ANN_ALLOW_TO: annotation}
    assert source(annotations).allows(target) is expected


@pytest.mark.parametrize(
    ("annotation", "tenant", "expected"),
    [
        (None, "ns1", False),
        ("ns1,team-*", "ns1", True),
        ("ns1,team-*", "team-b", True),
        ("", "", False),
    ],
)
def test_a_namespace_accepts_only_the_tenants_that_it_names(annotation, tenant, expected):
    annotations = {} if annotation is None else {names.ANN_ALLOW_FROM: annotation}
    assert Namespace("team", annotations=annotations).accepts(tenant) is expected


HOSTILE = {
    "stars": ",".join(("*a" * 31)[:60] + str(number) for number in range(MAX_GLOBS)),
    "marks": ",".join("?*" * 30 + str(number) for number in range(MAX_GLOBS)),
    "names": ",".join("a" for _ in range(MAX_CONSENT_TEXT // 2)),
    "short names": ",".join(format(number, "x") for number in range(40_000)),
    "too many": ",".join("*" for _ in range(MAX_CONSENT_TEXT // 2)),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_whatever_an_annotation_says_it_is_read_in_one_step_and_only_once(text):
    found = source({names.ANN_ALLOW_TO: text})

    assert_quick(lambda: read_consent(found.annotations, names.ANN_ALLOW_TO), 0.05, 5)
    found.allows("team")
    consent = found.consent
    assert_quick(lambda: found.allows("a" * 63), 0.001, 20)
    assert found.consent is consent


def test_a_consent_of_the_greatest_size_is_read():
    def consent(text):
        return read_consent({"a": text}, "a")

    assert consent("x" * MAX_CONSENT_TEXT).problem is None
    assert consent(",".join(f"team-{number}" for number in range(20_000))).names("team-19999")
    assert "is longer than" in consent("x" * (MAX_CONSENT_TEXT + 1)).problem
    patterns = [f"{n:04}*" for n in range(MAX_GLOBS + 1)]
    assert consent(",".join(patterns[1:])).problem is None
    assert f"has {MAX_GLOBS + 1} patterns" in consent(",".join(patterns)).problem
    half = "y" * (MAX_GLOB_TEXT // 2 - 1)
    if 2 * MAX_GLOB_TEXT < MAX_CONSENT_TEXT:
        assert consent(f"*{half},{half}*").problem is None
        assert "more than" in consent(f"*{half},y{half}*").problem


# --- What changes make due is queued in slices: tenants take turns, trusted rules wait for none ---


SLICE = 5
"""Times that the clock is looked at in one slice."""


class Work(controller.DueWork):
    """Notes each target instead of judging it."""

    def __init__(self) -> None:
        self.changes = Changes()
        self.bindings: dict[str, dict[str, SourceBinding]] = {}
        index = SimpleNamespace(of_rule=lambda owner: self.bindings.get(owner, {}))
        super().__init__(cast("Any", SimpleNamespace(changes=self.changes, index=index)))
        self.done: list[str] = []

    def add(self, tenant: str | None, targets: int, origin: str = "source") -> None:
        """A source of this tenant, and so this number of its targets, has changed."""
        owner = f"{tenant}/rule"
        names = [f"{tenant}-{number}" for number in range(targets)]
        compiled = SimpleNamespace(
            targets=Targets(names, tenant), rule=SimpleNamespace(owner=owner)
        )
        binding = cast("SourceBinding", SimpleNamespace(compiled=compiled, origin=origin))
        self.bindings.setdefault(owner, {})[origin] = binding
        self.changes.add_binding(binding)

    def _enqueue_if_due(self, _binding: Any, namespace: str, _priority: Any) -> None:
        self.done.append(namespace)
        if self.done == ["again-0"]:
            self.add("again", 1, "another")

    def tenants(self) -> list[str]:
        """Whose targets were noted, in their order, those of one slice as one."""
        return [tenant for tenant, _ in groupby(name.split("-")[0] for name in self.done)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self.run(trusted=trusted)) for trusted in (False, True)]
        yield
        for _ in range(200):
            await asyncio.sleep(0)
        for task in tasks:
            assert not task.done()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Targets(list[str]):
    def __init__(self, names: list[str], tenant: str | None) -> None:
        super().__init__(names)
        self.tenant = tenant


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    ticks = count().__next__

    def new_slice(seconds: float = 0.0) -> TimeSlice:
        return TimeSlice(2 if seconds == controller.QUEUEING_SECONDS else SLICE, clock=ticks)

    monkeypatch.setattr(controller, "TimeSlice", new_slice)
    return Work()


async def test_tenants_take_turns_of_one_slice(work: Work) -> None:
    work.add("many", 40)
    work.add("few", 12)
    async with work.running():
        pass
    assert work.tenants()[:6] == ["many", "few"] * 3
    assert len(work.done) == 52
    # No short slices: one with long steps would get nearly all the time.
    assert [work.done.index(f"few-{number}") // SLICE for number in (0, SLICE)] == [1, 3]


async def test_trusted_rules_wait_for_no_tenant(work: Work) -> None:
    for number in range(20):
        work.add(f"tenant{number}", 40)
    work.add(None, 10)
    async with work.running():
        pass
    own = [number for number, name in enumerate(work.done) if name.startswith("None")]
    assert len(own) == 10
    assert own[-1] < 60  # in turn with the others' task, not with all of them


async def test_what_changes_while_it_is_processed_is_not_lost(work: Work) -> None:
    work.add("again", 1)
    async with work.running():
        pass
    assert work.done == ["again-0", "again-0"]


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


def test_versions_are_compared_as_numbers_where_they_are_numbers():
    assert is_newer("10", "9")
    assert not is_newer("9", "10")
    assert not is_newer("9", "9")
    assert is_newer("b", "a")
    assert is_newer("5", "x")
    assert is_newer("x", "5")
    assert not is_newer("a", "a")


def test_a_source_that_exists_and_was_not_read_is_not_known_to_be_absent():
    app = ObjectName("team", "app")
    mirror = SimpleNamespace(store={app: Seen("7")}, synced=True, lists=1)
    source = _NamedSource(SimpleNamespace(mirror=mirror), app, lambda *_: None, lambda: None)
    assert (source.synced, source.lists) == (False, 0)
    mirror.store.clear()
    assert (source.synced, source.lists) == (True, 1)
    mirror.synced = False
    assert not source.synced


def test_nothing_is_rendered_for_a_namespace_that_didnt_accept_the_tenant(indexed):
    indexed.tenant = "home"
    compiled = indexed.compiled("rule", {**BY_NAME, "transform": {"name": "{{ namespace.name }}"}})
    compiled.name = Refusing()
    indexed.binding(compiled)
    assert indexed.owners("team-a", "app") == []
