"""Lists and the search: what a query finds, in which order, and how much of it."""

from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cli.view.objects_seen import bundle, rule, seen

from copyrator.api.keys import ObjectName
from copyrator.cli.view.lists import (
    HITS,
    ROWS,
    SLICE,
    SORTS,
    CopySearch,
    Query,
    list_rows,
    match_names,
    match_text,
    read_query,
    search,
)
from copyrator.cli.view.overview import SeenCopies, bundle_rows, rule_rows
from copyrator.cli.view.rows import State

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


def rules(*bodies):
    return rule_rows(seen(*bodies), NOW)


def bundles(*bodies):
    return bundle_rows(seen(*bodies), NOW)


def names(rows):
    return [row.name for row in rows]


def placed(name, namespace, **more):
    body = rule(name, **more)
    body["metadata"]["namespace"] = namespace
    return body


def copying(name, kind):
    return rule(name) | {"spec": {"source": {"kind": kind, "name": "s"}}}


def copied(number=1, place="team-{:04}", rule_name="infra/r", names=("creds",), kind="Secret"):
    copies = SeenCopies()
    for each in range(number):
        for name in names:
            copies.add(rule_name, kind, ObjectName(place.format(each), name))
    return copies


def looked_through(copies, **query):
    found = CopySearch(Query(**query))
    slices = sum(1 for _ in found.scan(copies))
    return found, slices


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", True),
        ("cred", True),
        ("CRED", True),
        ("team", True),
        ("team-a/creds", True),
        ("m-a/cre", True),
        ("am-b/cre", False),
        ("creds*", True),
        ("team-?", True),
        ("team-*/creds", True),
        ("team-*/", True),
        ("/creds*", True),
        ("team-*/cred", False),
        ("cred?x", False),
        ("other", False),
    ],
)
def test_an_object_is_found_by_a_part_or_a_glob_of_namespace_or_name(text, found):
    assert match_names(text)("team-a", "creds") is found


def test_a_name_with_capitals_is_found_in_any_case():
    for text in ("sys", "SYS", "system:*", "TEAM-A/System*", "team-a/sYs"):
        assert match_names(text)("team-a", "System:Role"), text


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (Query(state=State.FAILING), ["broken"]),
        (Query(text="quota"), ["broken"]),
        (Query(text="partialf"), ["broken"]),
        (Query(kind="configmap"), ["settings"]),
        (Query(kind="Rule"), ["broken", "settings", "creds"]),
        (Query(kind="Bundle"), []),
        (Query(text="shop"), ["creds"]),
        (Query(text="shop/cr"), ["creds"]),
        (Query(namespace="shop"), ["creds"]),
        (Query(namespace="sh*", text="creds"), ["creds"]),
        (Query(namespace="sh*", text="broken"), []),
    ],
)
def test_a_list_is_filtered_by_state_namespace_kind_and_text(query, found):
    given = rules(
        rule("broken", "False", "PartialFailure"),
        copying("settings", "ConfigMap"),
        placed("creds", "shop"),
    )
    listing = list_rows(given, query)
    assert names(listing.rows) == found
    assert (listing.found, listing.total) == (len(found), 3)
    assert listing.kinds == ["ConfigMap", "Secret"]


def test_states_are_counted_whatever_state_is_chosen():
    given = rules(rule("a"), rule("b"), rule("c", "False", "PartialFailure"))
    listing = list_rows(given, Query(state=State.FAILING))
    assert names(listing.rows) == ["c"]
    assert dict(listing.states) == {State.READY: 2, State.FAILING: 1}


@pytest.mark.parametrize(
    ("sort", "order", "backward"),
    [
        ("status", "cab", "bac"),
        ("name", "abc", "cba"),
        ("copies", "cba", "abc"),
        ("since", "bac", "cab"),
        ("kind", "bac", "acb"),  # equal ones stay in the order of their names
        ("reason", "cab", "abc"),
    ],
)
def test_rules_are_sorted_by_each_column_both_ways(sort, order, backward):
    def since(body, stamp):
        body["status"]["conditions"][0]["lastTransitionTime"] = stamp
        return body

    given = rules(
        since(rule("a", copies={"desired": 4, "ready": 4}), "2026-01-01T00:00:00Z"),
        since(
            copying("b", "ConfigMap")
            | {"status": rule("b", copies={"desired": 10, "ready": 9})["status"]},
            "2026-01-02T00:00:00Z",
        ),
        since(rule("c", "False", "Forbidden", copies={"desired": 4, "ready": 1}), "no time"),
    )
    for query, names_in_order in (
        (Query(sort=sort), order),
        (Query(sort=sort, descending=True), backward),
    ):
        assert names(list_rows(given, query).rows) == list(names_in_order)


def test_bundles_are_sorted_by_version_as_numbers_and_by_the_time_of_their_deploy():
    def one(name, version, time):
        return bundle(name, deployed={"version": version, "time": time})

    given = bundles(
        one("a", "1.10.0", "2026-01-01T00:00:00Z"),
        one("b", "1.9.0", "2026-01-02T00:00:00Z"),
        one("c", "9" * 5000, "yesterday"),
    )
    assert names(list_rows(given, Query(sort="version")).rows)[-2:] == ["b", "a"]
    assert names(list_rows(given, Query(sort="deployed")).rows) == ["b", "a", "c"]


def test_a_list_has_pages_and_a_page_beyond_the_last_is_the_last():
    given = rules(*(rule(f"r{number:03}") for number in range(120)))
    first, last = (list_rows(given, Query(page=page)) for page in (1, 99))
    assert names(first.rows) == [f"r{number:03}" for number in range(ROWS)]
    assert (first.pages, first.found, last.query.page) == (3, 120, 3)
    assert names(last.rows) == [f"r{number:03}" for number in range(100, 120)]
    assert list_rows([], Query(page=3)).query.page == 1


@given(
    st.dictionaries(
        st.text(max_size=12) | st.sampled_from(["q", "state", "namespace", "kind", "sort", "page"]),
        st.text(max_size=300),
    )
)
def test_any_address_is_read_and_written_back_as_the_same(given):
    query = read_query(given)
    again = read_query(dict(parse_qsl(urlencode(query.parameters))))
    assert again == query
    assert len(query.text) <= 200
    assert query.sort in SORTS


@given(st.text(max_size=40), st.text(max_size=20), st.text(max_size=20))
def test_any_text_is_looked_for(text, namespace, kind):
    query = Query(text=text, namespace=namespace, kind=kind)
    known = rules(rule("a", message="x"), rule("b", "False", "Conflict"))
    assert len(list_rows(known, query).rows) <= 2
    found, _ = looked_through(copied(3), text=text, namespace=namespace, kind=kind)
    assert found.found in (0, 3) or namespace


@given(st.text(min_size=1, max_size=20))
def test_a_name_is_found_by_itself_and_by_each_part_of_it(name):
    if "/" in name or "*" in name or "?" in name:
        return
    assert match_text(name)(name)
    assert match_text(name[1:])(name)
    assert match_names(f"a/{name}")("team-a", name)


def test_copies_are_found_by_name_first_and_bounded():
    copies = copied(30, names=["a-team", "b"], place="team-{:02}")
    found, _ = looked_through(copies, text="team")
    assert found.found == 60
    assert len(found.hits) == HITS
    assert {hit.name for hit in found.hits} == {"a-team"}
    assert found.hits[0] == ("Secret", "team-00", "a-team", "infra/r")


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"text": "creds"}, 2),
        ({"text": "team-0000/creds"}, 1),
        ({"kind": "secret"}, 2),
        ({"kind": "ConfigMap"}, 0),
        ({"kind": "rule", "text": "creds"}, 0),
        ({"namespace": "*-0001"}, 1),
        ({"state": State.READY, "text": "creds"}, 0),
        ({}, 0),
    ],
)
def test_copies_are_filtered_by_kind_and_namespace(query, found):
    assert looked_through(copied(2), **query)[0].found == found


def test_copies_are_looked_through_in_slices_also_those_of_one_namespace():
    whole = copied(4 * SLICE)
    within = copied(1, names=[f"c{number}" for number in range(4 * SLICE)])
    for copies, query in ((whole, "creds"), (within, "c"), (whole, "team-0001/")):
        found, slices = looked_through(copies, text=query)
        assert slices >= 4
        assert found.found in (4 * SLICE, 1)


def test_copies_may_come_and_go_between_two_slices():
    copies = copied(3 * SLICE)
    found = CopySearch(Query(text="creds"))
    scan = found.scan(copies)
    next(scan)
    for number in range(3 * SLICE):
        copies.remove("infra/r", "Secret", ObjectName(f"team-{number:04}", "creds"))
    copies.add("infra/new", "Secret", ObjectName("team-a", "creds"))
    list(scan)
    assert 0 < found.found < SLICE


def test_the_search_finds_all_kinds_of_things():
    copies = copied(2, place="shop-{}")
    known = seen(rule("shop"), bundle("shop"), copies=copies, namespaces=["shop", "team-a"])
    through, _ = looked_through(copies, text="shop")
    found = search(known, rule_rows(known, NOW), bundle_rows(known, NOW), through)
    assert names(found.rules) == names(found.bundles) == ["shop"]
    assert found.namespaces == ["shop"]
    assert [hit.namespace for hit in found.copies] == ["shop-0", "shop-1"]
    assert found.found == 5


def test_the_search_shows_the_first_and_counts_the_rest():
    known = seen(
        *(rule(f"a{number:03}") for number in range(50)),
        rule("a-last", "False", "Conflict"),
        namespaces=[f"a{number}" for number in range(50)],
    )
    through, _ = looked_through(SeenCopies(), text="a")
    found = search(known, rule_rows(known, NOW), [], through)
    assert (len(found.rules), found.rules_found) == (HITS, 51)
    assert (len(found.namespaces), found.namespaces_found) == (HITS, 50)
    assert found.rules[0].name == "a-last"


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ({}, (0, 0, 0)),
        ({"kind": "namespace"}, (0, 0, 1)),
        ({"kind": "BUNDLE"}, (0, 1, 0)),
        ({"state": State.READY}, (1, 1, 0)),
        ({"state": State.FAILING}, (1, 0, 0)),
        ({"namespace": "infra"}, (2, 1, 0)),
    ],
)
def test_the_search_is_limited_by_kind_and_state(query, kinds):
    known = seen(rule("a"), rule("broken", "False", "Forbidden"), bundle("b"))
    found = search(
        known, rule_rows(known, NOW), bundle_rows(known, NOW), CopySearch(Query(**query))
    )
    assert (found.rules_found, found.bundles_found, found.namespaces_found) == kinds
