"""What the sources of a namespace's rules may hold, and which rule is called when a watch ends."""

from __future__ import annotations

import pytest

from copyrator.api.keys import RuleKey
from copyrator.copies.sources import records as shares
from copyrator.copies.sources.records import SourceRecord, SourceShares

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


def test_a_namespaces_own_rule_follows_first_and_the_place_is_used_once(rules: Rules) -> None:
    for namespace in "abcd":
        rules.want(namespace, "1", "2", "3", "4", "5")
    assert rules.end("a") == ["a/5"]
    assert rules.watches(*"abcd") == [4, 4, 4, 2]


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


def test_nothing_is_kept_of_a_namespace_without_rules(rules: Rules) -> None:
    rules.want("a", "1", "2", "3", "4")
    for _ in range(EACH):
        rules.end("a")
    assert not rules.shares._shares
    assert rules.shares.watches == 0
