"""Which watches show what Bundles name: few, and one namespace's many push nobody to the poll."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.bundles.engine.references import (
    ALL_REFERENCE_WATCHES,
    Names,
    Ref,
    WatchScope,
    covering_scopes,
    decide,
    find_uncovered,
)
from copyrator.kube.resources import CONFIGMAPS, SECRETS, Resource

ALL = WatchScope(CONFIGMAPS)


def names(count: int, prefix: str = "app") -> set[str]:
    return {f"{prefix}-{number:05}" for number in range(count)}


def spread(namespaces: int, each: int = 1) -> dict[str, set[str]]:
    return {namespace: names(each) for namespace in names(namespaces, "team")}


def test_a_few_objects_are_watched_by_name() -> None:
    found = decide({CONFIGMAPS: {"team": {"a", "b"}}, SECRETS: {"team": {"a"}}})
    assert found == {
        WatchScope(CONFIGMAPS, "team", "a"),
        WatchScope(CONFIGMAPS, "team", "b"),
        WatchScope(SECRETS, "team", "a"),
    }


@pytest.mark.parametrize(("count", "wide"), [(4, False), (5, True), (5_000, True)])
def test_a_namespace_with_several_has_one_watch(count: int, wide: bool) -> None:
    found = decide({CONFIGMAPS: {"team": names(count), "other": {"a"}}})
    assert (WatchScope(CONFIGMAPS, "team") in found) is wide
    assert len(found) == (2 if wide else count + 1)


@pytest.mark.parametrize(("count", "wide"), [(64, False), (65, True), (1_000, True)])
def test_many_namespaces_have_one_watch_of_all(count: int, wide: bool) -> None:
    found = decide({CONFIGMAPS: spread(count), SECRETS: {"team": {"a"}}})
    assert (ALL in found) is wide
    assert WatchScope(SECRETS, "team", "a") in found
    assert len(found) == (2 if wide else count + 1)


def test_a_wide_watch_stays_until_there_are_clearly_fewer() -> None:
    assert decide({CONFIGMAPS: spread(49)}, held={ALL}) == {ALL}
    assert ALL not in decide({CONFIGMAPS: spread(48)}, held={ALL})
    team = WatchScope(CONFIGMAPS, "team")
    assert decide({CONFIGMAPS: {"team": names(3)}}, held={team}) == {team}
    assert team not in decide({CONFIGMAPS: {"team": names(2)}}, held={team})


def test_what_is_refused_in_all_namespaces_is_watched_by_namespace_and_name() -> None:
    wanted = {CONFIGMAPS: {**spread(100), "team": names(500)}}
    found = decide(wanted, refused={ALL})
    assert ALL not in found
    assert WatchScope(CONFIGMAPS, "team") in found
    assert find_uncovered(wanted, found) == []


def test_where_only_names_are_granted_each_namespace_gets_its_first_before_any_a_second() -> None:
    wanted = {SECRETS: {"a-crowd": names(500), **spread(120)}}
    found = decide(wanted, refused={WatchScope(SECRETS), WatchScope(SECRETS, "a-crowd")})
    assert len(found) == ALL_REFERENCE_WATCHES
    polled = find_uncovered(wanted, found)
    assert {ref.namespace for ref in polled} == {"a-crowd"}
    assert len(polled) == 500 - (ALL_REFERENCE_WATCHES - 120)


def test_scopes_overlap_where_both_may_show_an_object() -> None:
    one, team = WatchScope(CONFIGMAPS, "team", "a"), WatchScope(CONFIGMAPS, "team")
    assert one.overlaps(team)
    assert team.overlaps(ALL)
    assert ALL.overlaps(one)
    assert not one.overlaps(WatchScope(CONFIGMAPS, "team", "b"))
    assert not one.overlaps(WatchScope(CONFIGMAPS, "other"))
    assert not one.overlaps(WatchScope(SECRETS, "team", "a"))


namespaces = st.sampled_from([f"ns-{number}" for number in range(200)])
kinds = st.dictionaries(namespaces, st.integers(1, 60).map(names), max_size=200)
some = st.dictionaries(st.sampled_from([CONFIGMAPS, SECRETS]), kinds)


@given(some)
def test_everything_is_watched_by_few_where_everything_is_granted(
    wanted: dict[Resource, Names],
) -> None:
    found = decide(wanted)
    assert find_uncovered(wanted, found) == []
    assert len(found) <= ALL_REFERENCE_WATCHES


@given(some, st.data())
def test_whatever_is_refused_there_are_few_and_all_are_of_use(
    wanted: dict[Resource, Names], data: st.DataObject
) -> None:
    wide = [WatchScope(kind, ns) for kind in wanted for ns in (None, *sorted(wanted[kind]))]
    refused = data.draw(st.sets(st.sampled_from(wide)) if wide else st.just(set[WatchScope]()))
    found = decide(wanted, refused)
    assert not found & refused
    assert len(found) <= ALL_REFERENCE_WATCHES
    refs = [
        Ref(kind, ns, name)
        for kind, spaces in wanted.items()
        for ns, those in spaces.items()
        for name in those
    ]
    assert found <= {scope for ref in refs for scope in covering_scopes(ref)}
    places = {ref.namespace for ref in refs}
    if len(places) <= ALL_REFERENCE_WATCHES - len(wanted):
        polled = set(find_uncovered(wanted, found))
        unseen = places - {ref.namespace for ref in refs if ref not in polled}
        assert not unseen, "each namespace has at least one watch"
