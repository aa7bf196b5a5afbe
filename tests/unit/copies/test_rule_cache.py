import pytest
from tests.conditions import conditions
from tests.targets import EVERYWHERE

from copyrator.api.keys import RuleKey
from copyrator.api.rule_status import NO_STATUS, CopyCounts, RuleStatus
from copyrator.api.schema import InvalidSpec
from copyrator.copies.rules.rules import NOT_READ, Rule, RuleCache


def rule(version="1", uid="u", spec=None, **more):
    metadata = {"namespace": "ns", "name": "rule", "uid": uid, "resourceVersion": version}
    return Rule.from_body(
        {
            "metadata": {**metadata, **more.pop("metadata", {})},
            "spec": spec or {"source": {"kind": "Secret", "name": "x"}, "targets": EVERYWHERE},
            **more,
        }
    )


KEY = RuleKey("ns", "rule")


def test_a_rule_is_found_by_its_key_and_by_the_name_on_its_copies():
    registry = RuleCache()
    found = rule()
    assert registry.put(found)
    assert registry.get(KEY) is found
    assert registry.by_owner("ns/rule") is found
    assert registry.drop(KEY) is found
    assert registry.by_owner("ns/rule") is None


def test_an_older_state_never_replaces_a_newer_one():
    registry = RuleCache()
    registry.put(rule("10"))
    assert not registry.put(rule("9"))
    assert registry.put(rule("10"))
    assert registry.get(KEY).resource_version == "10"


def test_a_successor_replaces_its_predecessor_and_isnt_dropped_with_it():
    registry = RuleCache()
    registry.put(rule("10", uid="old"))
    assert registry.put(rule("5", uid="new"))
    assert registry.drop(KEY, "old") is None
    assert registry.get(KEY).uid == "new"


@pytest.mark.parametrize(
    ("spec", "orphans"),
    [
        ({"deletionPolicy": "Orphan"}, True),
        ({"deletionPolicy": "Delete"}, False),
        ({"deletionPolicy": "Orphan", "source": "nonsense"}, True),
    ],
)
def test_the_deletion_policy_is_known_even_of_an_invalid_rule(spec, orphans):
    found = rule(spec=spec)
    assert isinstance(found.spec, InvalidSpec)
    assert found.orphans is orphans


@pytest.mark.parametrize("status", [None, [], "done", 1])
def test_a_status_that_is_none_counts_as_empty(status):
    assert rule(status=status).status == NO_STATUS


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (rule("2"), True),
        (rule("2", metadata={"generation": 2}), False),
        (rule("2", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), False),
        (rule("2", metadata={"finalizers": ["x"]}), False),
        (rule("2", status={"sources": 1}), False),
        (rule("2", uid="other"), False),
        (rule("2", metadata={"labels": {"x": "y"}}), True),
    ],
)
def test_only_what_matters_is_news(other, same):
    assert rule("1").is_equivalent_to(other) is same


MANY = {
    "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ x }}"}},
    "targets": EVERYWHERE,
}


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"spec": {"source": {"kind": "Secret", "name": "x"}}}, ("Secret", "v1")),
        ({"spec": MANY}, ("ConfigMap", "v1")),
        ({"spec": {"source": {"kind": "Gizmo"}}}, ("Gizmo", None)),
        ({"ruleType": "ConfigMap", "selector": "a=b"}, ("ConfigMap", "v1")),
        ({"spec": {"source": {"kind": "x" * 1_000_000}}}, None),
        ({"spec": ["junk"]}, None),
        ({}, None),
    ],
)
def test_of_a_rule_that_isnt_served_nothing_is_parsed_but_the_kind_of_its_copies(
    monkeypatch, fields, kind
):
    def parsed(_body):
        raise AssertionError("it was parsed")

    monkeypatch.setattr("copyrator.copies.rules.rules.parse_rule", parsed)
    body = {"metadata": {"namespace": "tenant", "name": "rule"}, **fields}
    found = Rule.from_body(body, served=False)
    assert found.spec is NOT_READ
    assert found.kind == kind


def test_a_rule_with_parts_of_odd_types_is_read_as_far_as_it_goes():
    odd = {"uid": 5, "resourceVersion": None, "generation": "x", "finalizers": [1, "a"]}
    found = Rule.from_body({"metadata": {"namespace": "ns", "name": "rule", **odd}, "spec": 5})
    assert (found.uid, found.resource_version, found.generation) == ("", "", 1)
    assert found.finalizers == ("a",)
    assert isinstance(found.spec, InvalidSpec)


def test_of_a_status_only_what_we_may_have_written_is_kept():
    ready = {"type": "Ready", "status": "True", "reason": "Synced", "message": ""}
    junk = {"type": "Junk", "message": "x" * 1_000_000}
    found = rule(
        status={
            "conditions": [junk, ready],
            "failures": ["x" * 1_000_000],
            "copies": {"ready": 1},
            "other": "x",
        }
    )
    assert found.status == RuleStatus(conditions=conditions(ready), copies=CopyCounts(ready=1))
