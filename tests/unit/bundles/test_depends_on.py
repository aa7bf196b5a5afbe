"""The gate of ``spec.dependsOn``, and cycles."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.api.bundle import parse_bundle
from copyrator.api.bundle_spec import MAX_DEPENDENCIES, BundleDefaults, BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.fields import InvalidSpec
from copyrator.api.keys import BundleKey
from copyrator.bundles.gates.catalog import DEPENDS_ON as GATE
from copyrator.bundles.gates.gate import PASSED, Candidate, Facts, Occasion, Waiting
from copyrator.bundles.inputs.relations import (
    MAX_SEARCHED,
    TooManyError,
    cycle_fault,
    find_cycle,
)

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)


def parsed(depends_on: Any) -> BundleSpec | InvalidSpec:
    spec = {"registry": "r", "repo": "a", "dependsOn": depends_on}
    body = {"metadata": {"name": "shop", "namespace": "apps"}, "spec": spec}
    return parse_bundle(body, BundleDefaults())


def test_a_dependency_is_in_the_same_namespace_unless_it_says_another() -> None:
    found = parsed([{"name": "db"}, {"namespace": "infra", "name": "dns"}, {"name": "db"}])
    assert isinstance(found, BundleSpec)
    assert found.depends_on == (BundleKey("apps", "db"), BundleKey("infra", "dns"))
    assert GATE.concerns(found)
    none = parsed(None)
    assert isinstance(none, BundleSpec)
    assert not GATE.concerns(none)


@pytest.mark.parametrize(
    ("depends_on", "path", "message"),
    [
        ([{"name": "shop"}], "spec.dependsOn[0].name", "is this Bundle itself"),
        ([{}], "spec.dependsOn[0].name", "is required"),
        ([{"name": "A b"}], "spec.dependsOn[0].name", "isn't a valid object name"),
        ([{"name": "a", "namespace": "b*"}], "spec.dependsOn[0].namespace", "is a pattern"),
        ("db", "spec.dependsOn", "must be a list"),
        ([{"name": "x"}] * (MAX_DEPENDENCIES + 1), "spec.dependsOn", "at most 20"),
    ],
)
def test_dependencies_that_are_not_valid_are_refused(
    depends_on: Any, path: str, message: str
) -> None:
    found = parsed(depends_on)
    assert isinstance(found, InvalidSpec)
    assert found.path == path
    assert message in found.message


def test_the_gate_waits_for_those_that_are_not_ready_and_names_some() -> None:
    spec = parsed([{"name": "db"}])
    assert isinstance(spec, BundleSpec)

    def judge(*unready: str) -> object:
        facts = Facts(BundleStatus(), Occasion.NEW_DIGEST, unready=unready)
        return GATE.judge(spec, Candidate("1", "sha256:0"), facts, NOW)

    assert judge() is PASSED
    assert judge("a isn't", "b isn't") == Waiting("DependencyNotReady", "a isn't; b isn't")
    assert judge(*"abc") == Waiting("DependencyNotReady", "a; b; c")
    assert judge(*"abcd") == Waiting("DependencyNotReady", "a; b; c; and 1 more")
    assert judge(*"abcde") == Waiting("DependencyNotReady", "a; b; c; and 2 more")


def test_only_new_versions_and_requests_wait() -> None:
    assert GATE.occasions == {Occasion.NEW_DIGEST, Occasion.REQUEST}


def key(number: int) -> BundleKey:
    return BundleKey("apps", f"b{number}")


def cycle(edges: dict[int, Iterable[int]], start: int = 0) -> list[int]:
    def depends_on(one: BundleKey) -> list[BundleKey]:
        return [key(other) for other in edges.get(int(one.name[1:]), ())]

    return [int(one.name[1:]) for one in find_cycle(key(start), depends_on)]


def test_the_shortest_cycle_is_found_and_one_that_does_not_come_back_is_not() -> None:
    assert cycle({0: [1], 1: [0]}) == [0, 1, 0]
    assert cycle({0: [1, 3], 1: [2], 2: [0], 3: [0]}) == [0, 3, 0]
    assert cycle({0: [1], 1: [2], 2: [1]}) == []
    assert cycle({}) == []


def test_a_search_that_goes_on_and_on_ends() -> None:
    chain = {number: [number + 1] for number in range(MAX_SEARCHED)}
    assert cycle(chain) == []
    with pytest.raises(TooManyError):
        cycle(chain | {MAX_SEARCHED: [MAX_SEARCHED + 1]})


def test_a_fault_names_the_cycle_or_says_that_there_are_too_many() -> None:
    edges = {key(0): [key(1)], key(1): [key(0)], key(2): []}
    assert cycle_fault(key(0), edges.__getitem__) == (
        "is a cycle, apps/b0 -> apps/b1 -> apps/b0; remove one of these"
    )
    assert cycle_fault(key(2), edges.__getitem__) is None
    assert cycle_fault(key(0), lambda one: [key(int(one.name[1:]) + 1)]) == (
        "leads to more than 500 Bundles; reduce it"
    )


EDGES = st.dictionaries(st.integers(0, 6), st.lists(st.integers(0, 6), max_size=4), max_size=7)


@given(EDGES)
def test_a_cycle_is_a_way_of_dependencies_and_none_is_missed(edges: dict[int, list[int]]) -> None:
    reached: set[int] = set(edges.get(0, ()))
    while more := {other for one in reached for other in edges.get(one, ())} - reached:
        reached |= more
    found = cycle(dict(edges))
    assert bool(found) == (0 in reached)
    assert all(after in edges[before] for before, after in pairwise(found))
    assert not found or (found[0], found[-1]) == (0, 0)
