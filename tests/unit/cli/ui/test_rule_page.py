"""A rule's page: its drawing, the rollout, certificates and failures."""

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.targets import EVERYWHERE
from tests.unit.cli.view.objects_seen import rule, seen
from tests.unit.cli.view.test_copies import NOW, TEAMS, copies_of, failure, running

from copyrator.api.keys import ObjectName
from copyrator.api.text import format_time
from copyrator.cli.ui.pages import Pages
from copyrator.cli.ui.parts import CHARACTER, Arrow, Box, Drawing, fit
from copyrator.cli.ui.rule_page import (
    TIME_WIDTH,
    RulePage,
    copies_address,
    place_on_line,
    read_filter,
)
from copyrator.cli.view.copies import CopyFilter
from copyrator.cli.view.lists import View, matrix
from copyrator.cli.view.overview import SeenCopies, Snapshot
from copyrator.cli.view.rows import describe_conditions
from copyrator.cli.view.rule import CopyGroup, RuleView

PAGES = Pages(cluster="c", user="ann")
"""Made once: its templates are compiled when they are used first."""
PHONE = 360 - 2 * 16 - 2 * 16 - 2
"""Pixels of a panel's inside on the narrowest screen."""


def page_of(body: dict[str, Any], known: Snapshot | None = None, **more: Any) -> RulePage:
    return RulePage(RuleView(body, NOW), known or seen(body), **more)


def render(page: RulePage) -> str:
    values = {
        "title": "t",
        "here": "",
        "seen": page.seen,
        "events": [],
        "missing": "",
        "actions": (),
    }
    return PAGES.page("rule.html", fragment=True, rule=page, **values)


def texts_of(page: RulePage) -> list[list[str]]:
    return [list(box.texts) for box in page.drawing.boxes]


def test_a_source_its_rule_and_the_copies_by_state_are_drawn_from_top_to_bottom() -> None:
    counts = {"desired": 8, "ready": 5, "satisfied": 2, "failed": 2, "conflicts": 1}
    samples = [failure("team-b"), failure("team-c"), failure("team-d", "Conflict")]
    body = rule("r", "False", "X", targets=8, sources=1, copies=counts, failures=samples)
    copies = copies_of(body, TEAMS)
    page = page_of(body, copies.seen)
    assert texts_of(page) == [
        ["Secret s", "in infra"],
        ["Rule r", "copies Secret"],
        ["✕ 2 failed", "team-b, team-c"],
        ["✕ 1 in conflict", "team-d"],
        ["✓ 5 in sync", "team-a, team-e, …", "2 not created by the operator"],
    ]
    drawing = page.drawing
    assert [box.tone for box in drawing.boxes] == ["", "fault", "fault", "fault", "good"]
    assert [box.y for box in drawing.boxes] == sorted(box.y for box in drawing.boxes)
    assert drawing.boxes[2].href == "/rules/infra/r?state=failed#copies"
    assert len(drawing.arrows) == 4
    assert drawing.width <= PHONE


@pytest.mark.parametrize("number", [1, 5, 6, 20])
def test_more_than_five_sources_are_drawn_as_four_and_a_number(number: int) -> None:
    entries = [
        {"as": f"s{index}", "kind": "Secret", "namespace": "infra", "name": f"n{index}"}
        for index in range(number)
    ]
    body = rule("r")
    template = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "data": {}}
    body["spec"] = {"template": template, "sources": entries, "targets": EVERYWHERE}
    sources = texts_of(page_of(body))[:-2]
    assert sources[0] == ["s0: Secret n0", "in infra"]
    assert len(sources) == min(number, 5)
    if number > 5:
        assert sources[-1] == [
            f"{number - 4} more sources",
            "s4: Secret n4, s5: Secret n5" + (", …" if number > 6 else ""),
        ]


def test_what_a_selector_found_is_named_where_the_copies_tell_it() -> None:
    found = SeenCopies()
    for name in ("a", "b"):
        found.add("infra/r", "Secret", ObjectName("team-a", name))
    body = rule("r", sources=2)
    selector = {"matchLabels": {"copy": "yes"}}
    body["spec"] = {
        "source": {"kind": "Secret", "namespace": "infra", "selector": selector},
        "targets": EVERYWHERE,
    }
    labels = "with copy=yes in infra"
    assert texts_of(page_of(body, seen(body, copies=found)))[:2] == [
        ["Secret a", labels],
        ["Secret b", labels],
    ]
    body["status"]["sources"] = 3
    assert texts_of(page_of(body, seen(body, copies=found)))[0][0] == "3 Secrets"
    body["status"]["sources"] = 700
    assert texts_of(page_of(body, seen(body, copies=found)))[0] == [
        "700 Secrets",
        "with copy=yes",
        "in infra",
    ]


def test_a_source_of_a_template_by_labels_has_them_on_a_line_of_their_own() -> None:
    entry = {"as": "private", "kind": "Secret", "namespace": "infra", "optional": True}
    body = rule("r")
    template = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x"}, "data": {}}
    sources = [entry | {"selector": {"matchLabels": {"registry": "yes"}}}]
    sources.append({"as": "public", "defaultCAs": True})
    body["spec"] = {"template": template, "sources": sources, "targets": EVERYWHERE}
    assert texts_of(page_of(body))[:3] == [
        ["public: the public CAs"],
        ["private: Secret", "with registry=yes", "in infra, optional"],
        ["Rule r", "renders Secret"],
    ]


def test_a_rule_without_copies_says_so() -> None:
    assert texts_of(page_of(rule("r")))[-1] == ["No copies"]


def test_the_steps_of_a_rollout_and_until_when_it_is_paused() -> None:
    found = page_of(running(step=2, nextAt=format_time(NOW + timedelta(seconds=90)))).rollout
    assert found is not None
    assert [(step.text, step.state) for step in found.steps] == [
        ("1 namespace", "done"),
        ("50%", "now"),
        ("100%", "next"),
    ]
    assert (found.present, found.until, found.left) == (
        "step 2/3",
        "2026-01-02T12:01:30Z",
        "in 90s",
    )
    assert found.stopped == ""


def test_who_stopped_a_rollout_and_what_continues_it() -> None:
    who = {"namespace": "team-a", "kind": "Deployment", "name": "web", "message": "\x1b[2J0/1"}
    found = page_of(running(step=1, stopped=who, nextAt=format_time(NOW))).rollout
    assert found is not None
    assert found.stopped == "Deployment team-a/web: \\x1b[2J0/1"
    assert found.until == ""
    assert found.resume == "copyrator rollout resume rule infra/r"
    assert "copyrator rollout resume rule infra/r" in render(page_of(running(step=1, stopped=who)))


def test_a_rollout_that_the_spec_has_no_more_has_no_steps() -> None:
    body = running(step=2)
    del body["spec"]["rollout"]
    found = page_of(body).rollout
    assert found is not None
    assert (found.present, found.steps) == ("step 2/3", [])


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_a_later_end_is_never_drawn_before_an_earlier_one(one: float, other: float) -> None:
    first, last = sorted((one, other))
    assert 8 <= place_on_line(first) <= place_on_line(last) <= TIME_WIDTH - 8


def test_certificates_by_their_end_with_their_validity() -> None:
    def ends(days: float) -> dict[str, str]:
        when = format_time(NOW + timedelta(days=days))
        return {"source": f"infra/c{days}", "key": "tls.crt", "notAfter": when}

    body = rule("r", certificates=[ends(6000), ends(-1), ends(9)])
    marks = page_of(body).certificates
    assert [mark.sign for mark in marks] == ["✕", "✓", "✓"]
    assert marks[0].end == 8
    assert marks[1].end < marks[2].end
    text = render(page_of(body))
    assert text.count("<circle") == 3
    assert "(in 9d)" in text


def test_failures_are_grouped_with_their_remedy_and_lead_to_their_copies() -> None:
    samples = [failure(team) for team in TEAMS[:3]] + [failure("team-h", "Conflict")]
    counts = {"desired": 30, "failed": 29, "conflicts": 1}
    body = rule("r", "False", failures=samples, copies=counts)
    page = page_of(body)
    many, one = page.failures
    assert many.summary == "3 namespaces: team-a, team-b, …"
    assert "copyrator doctor lists all missing ones." in many.remedy
    assert one.remedy == ""
    text = render(page)
    assert '<details id="flow-failure-1"><summary>3 namespaces: team-a, team-b, …' in text
    assert 'href="/copies/team-h/Secret/s">team-h/s</a>' in text
    assert "26 more fail" in text


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({}, CopyFilter()),
        (
            {"in": " team-a ", "state": "failed", "page": "2"},
            CopyFilter("team-a", CopyGroup.FAILED, 2),
        ),
        ({"state": "Failed", "page": "-1"}, CopyFilter()),
        ({"page": "1234567"}, CopyFilter()),
        ({"page": "²"}, CopyFilter()),
    ],
)
def test_an_address_is_read_as_far_as_it_has_known_words(
    query: dict[str, str], wanted: CopyFilter
) -> None:
    assert read_filter(query) == wanted


@given(
    st.text(max_size=20).map(str.strip), st.sampled_from([None, *CopyGroup]), st.integers(1, 999)
)
def test_an_address_is_read_as_it_was_written(
    place: str, group: CopyGroup | None, page: int
) -> None:
    written = copies_address(place, group, page).removeprefix("?")
    assert read_filter(dict(parse_qsl(written))) == CopyFilter(place, group, page)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(max_size=5), one, max_size=3),
    max_leaves=6,
)


@given(JUNK | st.dictionaries(st.sampled_from(["source", "template", "sources", "rollout"]), JUNK))
def test_a_spec_of_any_shape_is_shown(spec: object) -> None:
    body = {**rule("r"), "spec": spec}
    assert "Rule infra/r" in render(page_of(body))


def test_why_there_is_no_copy_in_a_namespace_is_a_link_away() -> None:
    body = rule("r", targets=1, copies={"desired": 1, "ready": 1})
    text = render(page_of(body, filter=CopyFilter("elsewhere")))
    assert 'href="/copies/elsewhere/Secret/s">why?</a>' in text
    assert "why?" not in render(page_of(body, filter=CopyFilter("else*")))


def test_lines_below_a_label_keep_their_columns() -> None:
    conditions = [
        {"type": "Ready", "status": "True", "reason": "Synced", "message": "2 copies are in sync"},
        {"type": "CertificateExpiring", "status": "False", "reason": "CertificatesValid"},
    ]
    conditions = [one | {"lastTransitionTime": format_time(NOW)} for one in conditions]
    parts = describe_conditions("rules", {"status": {"conditions": conditions}}, NOW)
    text = (
        "Ready                True     Synced (for 0s)\n"
        "  2 copies are in sync\n"
        "CertificateExpiring  False    CertificatesValid (for 0s)"
    )
    assert [(one.label, one.text) for one in parts] == [("Conditions", text)]


def test_one_is_in_the_singular() -> None:
    found = SeenCopies()
    found.add("infra/a", "Secret", ObjectName("team-a", "s"))
    known = seen(rule("a"), copies=found)
    text = PAGES.matrix(known, matrix(known, View(), NOW), fragment=True)
    assert "1 rule and 1 namespace; 1 copy in all" in text
    assert 'title="copies in 1 namespace"' in text


@given(st.text(max_size=200), st.floats(10, 400))
def test_a_text_is_never_wider_than_its_box(text: str, width: float) -> None:
    shown = fit(text, width)
    assert shown == text or len(shown) * CHARACTER <= width
    assert shown == text or "…" in shown


def test_both_ends_of_a_long_name_are_kept() -> None:
    shown = fit("registry-credentials-of-production-eu", 20 * CHARACTER)
    assert shown.startswith("registry-")
    assert shown.endswith("tion-eu")


@pytest.mark.parametrize(
    ("x", "y", "path"),
    [(200, 50, "M100 15C150 15 150 65 200 65"), (0, 90, "M50 30C50 60 50 60 50 90")],
)
def test_an_arrow_goes_from_border_to_border(x: float, y: float, path: str) -> None:
    one, other = Box(0, 0, 100, ["one"]), Box(x, y, 100, ["other"])
    assert one.height == 30
    assert Arrow(one, other).path == path
    drawing = Drawing("path", "The path", [one, other])
    assert (drawing.width, drawing.height) == (x + 102, y + 32)


def test_an_angled_arrow_runs_along_the_left_of_what_is_indented() -> None:
    above, below = Box(0, 0, 100, ["above"]), Box(28, 50, 100, ["below"])
    assert Arrow(above, below, is_angled=True).path == "M14 30V65H28"
    above, below = Box(28, 0, 100, ["above"]), Box(0, 50, 100, ["below"])
    assert Arrow(above, below, is_angled=True).path == "M28 15H14V50"
