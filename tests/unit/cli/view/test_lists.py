"""Lists, the search, and the table of rules and namespaces: what is found, and in which order."""

from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cli.view.objects_seen import bundle, rule, seen

from copyrator.api.keys import ObjectName
from copyrator.cli.view.lists import (
    COLUMNS,
    HITS,
    ROWS,
    SLICE,
    SORTS,
    CopySearch,
    Query,
    View,
    list_rows,
    match_names,
    matrix,
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


def test_a_page_beyond_the_last_is_the_last():
    given = rules(*(rule(f"r{number:03}") for number in range(120)))
    last = list_rows(given, Query(page=99))
    assert (last.pages, last.query.page) == (3, 3)
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


PLACES = [f"team-{number:04}" for number in range(250)]


def copied_to(*rules, places=PLACES):
    copies = SeenCopies()
    for name in rules:
        for place in places:
            copies.add(f"infra/{name}", "Secret", ObjectName(place, "s"))
    return copies


def test_a_cell_has_the_number_of_copies_and_a_failure_its_words():
    failures = [
        {"namespace": "team-0001", "name": "a", "reason": "Conflict", "message": "not ours"}
    ]
    body = rule("a", "False", "PartialFailure", failures=failures)
    table = matrix(
        seen(body, copies=copied_to("a", places=PLACES[:1]), namespaces=PLACES[:3]), View(), NOW
    )
    (line,) = table.lines
    assert table.namespaces == PLACES[:3]
    assert [(cell.copies, cell.fault) for cell in line.cells] == [
        (1, ""),
        (0, "Conflict: not ours"),
        (0, ""),
    ]
    assert (line.copies, line.namespaces) == (1, 1)


def test_a_page_is_bounded_and_counts_what_it_leaves_out():
    rules = [rule(f"r{number:03}") for number in range(120)]
    known = seen(*rules, copies=copied_to("r000"), namespaces=PLACES)
    table = matrix(known, View(), NOW)
    assert (len(table.lines), len(table.namespaces)) == (ROWS, COLUMNS)
    assert all(len(line.cells) == COLUMNS for line in table.lines)
    assert (table.rules_found, table.namespaces_found) == (120, 250)
    assert (table.row_pages, table.column_pages) == (3, 3)
    assert table.lines[0].copies == 250
    last = matrix(known, View(row_page=3, column_page=3), NOW)
    assert [line.row.name for line in last.lines] == [f"r{number:03}" for number in range(100, 120)]
    assert last.namespaces == PLACES[200:]


@pytest.mark.parametrize("page", [0, -5, 4, 999])
def test_a_page_that_is_not_there_is_the_nearest_one(page):
    table = matrix(seen(rule("a"), namespaces=PLACES), View(column_page=page), NOW)
    assert table.namespaces == (PLACES[:COLUMNS] if page < 1 else PLACES[200:])


def test_only_faults_leaves_the_rules_and_namespaces_with_one():
    failures = [{"namespace": "team-0007", "name": "bad", "reason": "Forbidden", "message": "no"}]
    bad = rule("bad", "False", "PartialFailure", failures=failures)
    known = seen(rule("good"), bad, copies=copied_to("good"), namespaces=PLACES)
    table = matrix(known, View(only_faults=True), NOW)
    assert [line.row.name for line in table.lines] == ["bad"]
    assert table.namespaces == ["team-0007"]


A, B = ObjectName("team-a", "creds"), ObjectName("team-b", "creds")


def test_copies_are_counted_once_and_are_gone_when_they_are_removed():
    copies = SeenCopies()
    for _ in range(2):
        copies.add("infra/r", "Secret", A)
    copies.add("infra/r", "ConfigMap", A)
    copies.add("infra/r", "Secret", B)
    assert len(copies) == 3
    assert copies.of("infra/r") == {
        "team-a": {("Secret", "creds"), ("ConfigMap", "creds")},
        "team-b": {("Secret", "creds")},
    }
    for name in (A, B, B):
        copies.remove("infra/r", "Secret", name)
    assert len(copies) == 1
    assert copies.of("infra/r") == {"team-a": {("ConfigMap", "creds")}}
    copies.remove("infra/r", "ConfigMap", A)
    assert (len(copies), copies.of("infra/r"), list(copies.rules())) == (0, {}, [])
