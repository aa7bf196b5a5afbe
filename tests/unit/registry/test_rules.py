import pytest

from copyrator.api.keys import RuleKey
from copyrator.api.rule import InvalidSpec
from copyrator.registry.rules import Rule, RuleRegistry


def rule(version="1", uid="u", spec=None, **more):
    metadata = {"namespace": "ns", "name": "rule", "uid": uid, "resourceVersion": version}
    return Rule.from_body(
        {
            "metadata": {**metadata, **more.pop("metadata", {})},
            "spec": spec or {"source": {"kind": "Secret", "name": "x"}},
            **more,
        }
    )


KEY = RuleKey("ns", "rule")


def test_a_rule_is_found_by_its_key_and_by_the_name_on_its_copies():
    registry = RuleRegistry()
    found = rule()
    assert registry.put(found)
    assert registry.get(KEY) is found
    assert registry.by_owner("ns/rule") is found
    assert registry.drop(KEY) is found
    assert registry.by_owner("ns/rule") is None


def test_an_older_state_never_replaces_a_newer_one():
    registry = RuleRegistry()
    registry.put(rule("10"))
    assert not registry.put(rule("9"))
    assert registry.put(rule("10"))
    assert registry.get(KEY).resource_version == "10"


def test_a_successor_replaces_its_predecessor_and_isnt_dropped_with_it():
    registry = RuleRegistry()
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
    assert rule(status=status).status == {}


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
    assert rule("1").says_the_same(other) is same
