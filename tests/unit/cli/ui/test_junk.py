"""Pages of objects whose status has, anywhere in it, what an operator never writes."""

from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast, get_args, get_origin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.status_fields import json_fields
from tests.targets import EVERYWHERE
from tests.unit.cli.view.objects_seen import bundle, rule, seen

from copyrator.api.bundle_status import BundleStatus
from copyrator.api.rule_status import FIELDS_DROPPED
from copyrator.api.schema import Record
from copyrator.api.text import printable
from copyrator.bundles.fields import bundle_conditions
from copyrator.cli.bundles.approve import ShownPlan
from copyrator.cli.bundles.plan import PlanView
from copyrator.cli.bundles.plan_log import PlanLog
from copyrator.cli.bundles.plan_page import decision_values
from copyrator.cli.core.installation import Installation
from copyrator.cli.ui.bundle_page import Readings, ReleaseReading, SectionDiffs
from copyrator.cli.ui.pages import Pages
from copyrator.cli.ui.questions import actions_of, ask
from copyrator.cli.ui.rule_page import RulePage
from copyrator.cli.view.bundle import BundleView
from copyrator.cli.view.lists import SORTS, CopySearch, Query, View, list_rows, matrix, search
from copyrator.cli.view.overview import Snapshot, bundle_rows, list_banners, overview, rule_rows
from copyrator.cli.view.rule import RuleView

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
PAGES = Pages(cluster="c", user="ann")
INSTALLATION = cast(
    Installation,
    SimpleNamespace(settings=SimpleNamespace(timer_interval=600.0, jobs_ttl=120), is_read=True),
)
AT = "2026-01-02T13:00:00Z"
TEXTS = {
    "outcome": "Planned",
    "state": "Waiting",
    "verdict": "Drifted",
    "risky": "delete :a:B:c",
    "objects": "delete :a:B:c",
    "digest": "sha256:" + "a" * 64,
}
SPEC = {
    "registry": "registry:5000",
    "repo": "shop",
    "version": "1.*",
    "minAge": "1h",
    "approval": {"mode": "Always"},
    "drift": {"mode": "Detect"},
    "health": "Watch",
    "promoteFrom": {"bundles": [{"name": "b2"}], "soak": "1h"},
    "dependsOn": [{"name": "b2"}],
}
HTML = "<b>\u202e"
READINGS = Readings(ReleaseReading(), SectionDiffs(fault="gone"))
JUNK: list[Any] = [
    *(None, True, False, 0, -1, 2**63 - 1, 1e308, 1.5, "", "x", "a/b/c", AT, "100%", "\u202e\0"),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "x" * 65_536),
    *(HTML, "\x1b[2J" * 9, ["x"] * 999, 2**62),
    *([], [None], ["x"], [{}], [[1]], {}, {"a": 1}, {"x": {}}),
]


def filled(wanted: Any, name: str = "") -> Any:
    """A value of this type, with every field that it has."""
    if isinstance(wanted, type) and issubclass(wanted, Record):
        return {key: filled(type_, key) for key, type_ in json_fields(wanted).items()}
    args = [one for one in get_args(wanted) if one is not type(None)]
    if get_origin(wanted) is tuple:
        return [filled(args[0], name)] * 2
    if args and get_origin(wanted) is not dict:
        return filled(args[0], name)
    if wanted in (int, bool):
        return wanted(3)
    if name.lower().endswith(("at", "time", "since", "until", "seen")):
        return AT
    return TEXTS.get(name, name)


def condition(kind: str) -> dict[str, str]:
    parts = ("status", "True"), ("reason", "Drifted"), ("message", "m"), ("lastTransitionTime", AT)
    return {"type": kind, **dict(parts)}


CONDITIONS = *bundle_conditions(), FIELDS_DROPPED
BUNDLE = filled(BundleStatus) | {"conditions": [condition(kind) for kind in CONDITIONS]}
COPY = {"namespace": "a", "name": "b", "reason": "Forbidden", "message": "m", "kind": "Secret"}
RULE: dict[str, Any] = {
    "conditions": BUNDLE["conditions"],
    "copies": dict.fromkeys(("desired", "ready", "failed", "conflicts", "pending", "satisfied"), 3),
    "failures": [COPY, COPY],
    "overridden": [{"source": "a/b", "by": "c", "host": "h"}],
    "passedOver": [{"source": "a", "reason": "r"}],
    "droppedFields": ["x"],
    "certificates": [
        {"source": "a/b", "key": "tls.crt", "commonName": "cn", "notBefore": AT, "notAfter": AT}
    ],
    "rollout": {
        "content": "a" * 32,
        "steps": 4,
        "step": 2,
        "startedAt": AT,
        "nextAt": AT,
        "stopped": {"namespace": "n", "kind": "Deployment", "name": "x", "message": "m"},
    },
    "targets": 3,
    "sources": 2,
    "composedOf": "x",
    "lastSyncTime": AT,
}


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something is in a status."""
    yield path
    inner: Any = value.items() if isinstance(value, dict) else ()
    for key, one in enumerate(value[:1]) if isinstance(value, list) else inner:
        yield from paths(one, (*path, key))


def put(value: Any, path: tuple[Any, ...], junk: Any) -> Any:
    """The value with junk at this place, if it still has that."""
    if not path:
        return junk
    if isinstance(value, dict) and path[0] in value:
        return {**value, path[0]: put(value[path[0]], path[1:], junk)}
    if isinstance(value, list) and value and path[0] == 0:
        return [put(value[0], path[1:], junk), *value[1:]]
    return value


@st.composite
def junky(draw: st.DrawFn, status: dict[str, Any]) -> Any:
    """A status of which up to eight parts are junk."""
    for path in draw(st.lists(st.sampled_from(list(paths(status))), min_size=1, max_size=8)):
        status = put(status, path, draw(st.sampled_from(JUNK)))
    return status


def render_all(known: Snapshot) -> None:
    PAGES.overview(known, overview(known, NOW), fragment=False)
    PAGES.report(known, overview(known, NOW), INSTALLATION, NOW)
    PAGES.matrix(known, matrix(known, View(), NOW), fragment=False)
    rules, bundles = rule_rows(known, NOW), bundle_rows(known, NOW)
    for sort in SORTS:
        for what, rows in (("rules", rules), ("bundles", bundles)):
            listing = list_rows(rows, Query(sort=sort))
            PAGES.list_objects(what, known, listing, list_banners(known, NOW), fragment=False)
    PAGES.search(known, search(known, rules, bundles, CopySearch(Query("m"))), fragment=False)


@given(junky(BUNDLE))
def test_no_status_of_a_bundle_breaks_a_page(status: Any) -> None:
    body = bundle("b") | {"spec": SPEC, "status": status}
    known = seen(body, bundle("b2"))
    page = PAGES.bundle(known, BundleView(body, NOW, INSTALLATION), READINGS, fragment=True)
    assert HTML not in page
    assert page.replace("\n", "") == printable(page.replace("\n", ""))
    values = decision_values(PlanView(BundleView(body, NOW), PlanLog(fault="it is gone")))
    PAGES.decision(
        known, values, token="t", shown=ShownPlan.of(body), place="bundles/infra/b", refused=""
    )
    for action in actions_of("bundles", body, promotes=True):
        PAGES.confirm(
            action.text,
            question=ask(action.verb, "bundles", body),
            **dict.fromkeys(("refused", "reason", "path", "token", "button"), ""),
        )
    render_all(known)


@pytest.mark.parametrize("source", [{"name": "s"}, {"selector": {"matchLabels": {"a": "b"}}}])
@given(status=junky(RULE))
def test_no_status_of_a_rule_breaks_a_page(source: dict[str, Any], status: Any) -> None:
    found = {"kind": "Secret", "namespace": "infra", **source}
    spec = {
        "source": found,
        "targets": EVERYWHERE,
        "rollout": {"steps": ["1", "10%", "100%"], "pause": "10m"},
    }
    body = rule("r") | {"spec": spec, "status": status}
    known = seen(body)
    PAGES.page(
        "rule.html",
        title="r",
        here="",
        seen=known,
        rule=RulePage(RuleView(body, NOW), known),
        events=[],
        missing="",
    )
    render_all(known)
