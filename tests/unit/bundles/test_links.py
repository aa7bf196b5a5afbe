"""Fields by which Bundles wait for others: cycles."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from operator import attrgetter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.api.keys import BundleKey
from copyrator.bundles.engine.bundle import BundleCache, BundleEntry, read_entry
from copyrator.bundles.engine.links import (
    MAX_SEARCHED,
    Link,
    Named,
    TooManyError,
    find_cycle,
    find_cycle_fault,
)
from copyrator.bundles.features.dependencies.fields import DependenciesSpec
from copyrator.bundles.fields import BundleDefaults


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


LINK = Link(field="spec.x", verb="needs", part=DependenciesSpec, named=attrgetter("depends_on"))


@pytest.mark.needs("dependencies")
def test_a_fault_names_the_cycle_or_says_that_there_are_too_many() -> None:
    def fault(*entries: BundleEntry) -> str | None:
        bundles = BundleCache()
        assert all(map(bundles.take, entries))
        return find_cycle_fault((LINK,), bundles, entries[0])

    shown = "apps/a -> apps/b -> apps/a"
    said = f"spec.x: is a cycle, {shown}; remove one of these"
    assert fault(entry("a", "b"), entry("b", "a")) == said
    assert fault(entry("a", "b"), entry("b")) is None
    chain = [entry(f"b{number}", f"b{number + 1}") for number in range(MAX_SEARCHED + 2)]
    assert fault(*chain) == "spec.x: leads to more than 500 Bundles; reduce it"


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


@pytest.mark.needs("dependencies")
def test_who_names_a_bundle_is_known_until_it_is_edited_or_gone() -> None:
    named = Named(LINK)
    both, one = entry("a", "x", "y"), entry("a", "y")
    named.update(None, both)
    named.update(None, entry("b", "x"))
    assert [*named.by(at("x"))] == [at("a"), at("b")]
    named.update(both, one)
    assert ([*named.by(at("x"))], [*named.by(at("y"))]) == ([at("b")], [at("a")])
    named.update(one, None)
    named.update(entry("b", "x"), entry("b"))
    assert not named.keys


def at(name: str) -> BundleKey:
    return BundleKey("apps", name)


def entry(name: str, *others: str) -> BundleEntry:
    spec = {"registry": "r", "repo": "a", "dependsOn": [{"name": one} for one in others]}
    body = {"metadata": {"namespace": "apps", "name": name, "uid": name}, "spec": spec}
    return read_entry(body, BundleDefaults())
