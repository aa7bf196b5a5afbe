"""What is known of a template's sources, without their contents."""

from dataclasses import dataclass, field

import pytest

from copyrator.api.keys import ObjectName
from copyrator.api.rule_spec import ComposedSource
from copyrator.api.rule_status import CopyCounts, read_rule_status
from copyrator.api.selectors import LabelSelector
from copyrator.copies.composed.composer import ComposeError, Composition, Part, check
from copyrator.copies.sources.bindings import BindingIndex
from copyrator.copies.sources.records import HeaderReader, is_newer
from copyrator.copies.targets.content import Content
from copyrator.copies.template.scope import Findings
from copyrator.kube.resources import CONFIGMAPS, SECRETS

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


def test_what_is_missing_is_told_unless_it_is_optional(one, many, composition):
    assert composition.missing() == (
        "sources.hub: there is no Secret infra/creds; the copies stay as they are"
    )
    one.put("creds")
    assert "sources.private: no Secret in infra matches a=b" in changed(composition).missing()
    many.put("a")
    assert changed(composition).missing() is None
    spare = Composition(
        [part("hub", Watch(), "x", optional=True), part("all", Watch(), optional=True)]
    )
    assert spare.missing() is None
    assert spare.to_string() == "hub (missing), all (0)"


def test_a_named_object_that_is_never_copied_is_told_and_a_selector_passes_over_it(one, many):
    composition = Composition([part("hub", one, "creds", optional=True), part("all", many)])
    copied = {
        "labels": {"app.kubernetes.io/managed-by": "copyrator"},
        "annotations": {"copyrator.flant.com/rule": "a/b"},
    }
    many.put("a")
    many.put("b", **copied)
    assert list(composition.parts[1].found()) == [ObjectName("infra", "a")]
    one.put("creds", **copied)
    assert "Secret infra/creds is never copied: it is a copy" in changed(composition).missing()


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


def test_what_is_never_copied_is_told_by_its_kind():
    body = {"metadata": {"name": "kube-root-ca.crt", "resourceVersion": "1"}}
    assert HeaderReader("ConfigMap")(body).refused == "it exists in every namespace"
    assert HeaderReader("Secret")(body).refused is None


def test_versions_are_compared_as_numbers_where_they_are_numbers():
    assert is_newer("10", "9")
    assert not is_newer("9", "10")
    assert not is_newer("9", "9")
    assert is_newer("b", "a")
    assert is_newer("5", "x")
    assert is_newer("x", "5")
    assert not is_newer("a", "a")


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


def test_the_number_of_objects_is_bounded(many):
    composition = Composition([part("all", many)])
    for index in range(500):
        many.put(f"a{index}")
    check(changed(composition))
    many.put("one more")
    with pytest.raises(
        ComposeError, match=r"^spec\.sources selects 501 objects, more than 500; the"
    ):
        check(changed(composition))


def test_the_index_knows_the_sources_of_each_rule_until_it_has_others():
    index = BindingIndex()
    index.set_read("a/r", frozenset({("secrets", "infra/x"), ("secrets", "infra/y")}))
    index.set_read("a/s", frozenset({("secrets", "infra/y")}))
    assert index.is_source("secrets", "infra", "x")
    index.set_read("a/r", frozenset({("configmaps", "infra/z")}))
    assert not index.is_source("secrets", "infra", "x")
    assert index.is_source("secrets", "infra", "y")
    assert index.is_source(CONFIGMAPS.key, "infra", "z")
    index.remove_rule("a/s")
    index.remove_rule("a/r")
    assert not index.is_source("secrets", "infra", "y")
    assert not index.is_source("configmaps", "infra", "z")


def test_findings_of_a_reading_are_gathered_and_forgotten_with_it():
    composition = Composition([])
    composition.note(Findings({("a", "b", "c"): None}))
    composition.note(Findings({("d", "e", "f"): None}, {("g", "h"): None}))
    assert list(composition.overridden) == [("a", "b", "c"), ("d", "e", "f")]
    assert list(composition.passed_over) == [("g", "h")]
    composition.renewed({})
    assert composition.passed_over == {}
    assert (composition.overridden, composition.until, composition.rendered) == ({}, None, {})


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


@pytest.mark.parametrize(
    ("status", "counts"),
    [
        ({}, CopyCounts()),
        ({"copies": "x"}, CopyCounts()),
        ({"copies": {"desired": 3, "ready": -1, "failed": "x", "more": 1}}, CopyCounts(desired=3)),
    ],
)
def test_counts_of_a_status_are_read_back(status, counts):
    assert read_rule_status({"status": status}).copies == counts
