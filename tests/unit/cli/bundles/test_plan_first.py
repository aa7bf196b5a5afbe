"""What is said of a plan before its operations."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.api.plan_status import PlanStatus, PreviewPlan
from copyrator.bundles.plan.operations import Operation, OperationType
from copyrator.cli.bundles.plan import Shown, document, first_lines, show
from copyrator.cli.bundles.plan_log import PlanLog
from copyrator.cli.view.bundle import BundleView
from hostile.mangled import JSON

NOW = datetime(2026, 1, 2, tzinfo=UTC)
LOOKUP = "templates/app.yaml, line 3: lookup"
RISK = "delete :apps:StatefulSet:db"


def operation(kind: str, name: str = "a", group: str = "") -> Operation:
    return Operation(OperationType.UPDATE, "", group, kind, name)


SECRETS = (
    operation("ConfigMap"),
    operation("Secret", "a"),
    operation("Secret", "b"),
    operation("Secret", "c", "sealed.example.com"),
)
UNBOUND = {"bound": False, "unbound": [LOOKUP, "two renders differ"], "hidden": 2}
CHANGED = ["ConfigMap shop-values values.yaml: image, replicas", "spec.env.FOO"]
PLAN = {
    "outcome": "Planned",
    "id": "a" * 32,
    "version": "1.2.0",
    "operations": 4,
    "risky": [RISK],
    "riskyOperations": 1,
}
NOTHING: dict[str, Any] = {}


@pytest.mark.parametrize(
    ("plan", "operations", "lines"),
    [
        (NOTHING, SECRETS, []),
        ({"unbound": [LOOKUP], "hidden": 1}, SECRETS, []),
        ({"bound": True, "hidden": 0}, (), []),
        (
            {"bound": True},
            SECRETS,
            ["Hidden from the diff: the contents of 2 Secrets"],
        ),
        (
            UNBOUND | {"risky": [RISK], "riskyOperations": 3, "changed": CHANGED},
            SECRETS[:2],
            [
                "Contents aren't bound: what is deployed may differ from what is shown, because",
                f"  {LOOKUP}",
                "  two renders differ",
                "Hidden from the diff: the contents of 1 Secret",
                "Hidden from the diff by the chart: contents of 2 objects",
                "Risky (1 of 3):",
                f"  {RISK}",
                "Changed since the deployed plan, besides the chart:",
                *(f"  {one}" for one in CHANGED),
            ],
        ),
        (
            {"bound": False},
            (),
            ["Contents aren't bound: what is deployed may differ from what is shown"],
        ),
        (
            {"bound": False, "unbound": ["x"] * 20},
            (),
            [
                "Contents aren't bound: what is deployed may differ from what is shown, because",
                *["  x"] * 20,
                "  There may be more reasons.",
            ],
        ),
        (
            {"changeUnknown": "what changed isn't known: x"},
            (),
            ["Besides the chart, what changed isn't known: x"],
        ),
        (
            {"risky": [RISK], "riskyOperations": 1},
            (),
            ["Risky:", f"  {RISK}"],
        ),
    ],
)
def test_what_is_said_first_of_a_plan(plan, operations, lines):
    assert list(first_lines(PlanStatus.parse(plan), PlanLog(operations))) == lines


def test_of_a_preview_secrets_are_counted_where_it_isnt_judged_whether_it_is_bound():
    lines = ["Hidden from the diff: the contents of 2 Secrets"]
    assert list(first_lines(PreviewPlan.parse(NOTHING), PlanLog(SECRETS))) == lines
    found = document(Shown(view(preview=PLAN), PlanLog(SECRETS), is_preview=True))
    assert (found["hiddenSecrets"], found["plan"].get("bound")) == (2, None)


def view(**status: Any) -> BundleView:
    body = {
        "metadata": {"namespace": "apps", "name": "shop", "uid": "u"},
        "spec": {"registry": "r.example.com", "repo": "shop"},
        "status": status,
    }
    return BundleView(body, NOW)


@pytest.mark.parametrize("is_preview", [False, True])
def test_it_is_printed_before_anything_else_of_the_plan(capsys, is_preview):
    found = view(**{"preview" if is_preview else "plan": PLAN | UNBOUND})
    show(Shown(found, PlanLog(SECRETS, "what werf printed"), is_preview))
    printed = capsys.readouterr().out
    assert printed.startswith("Contents aren't bound: ")
    parts = (
        LOOKUP,
        "2 Secrets",
        "2 objects",
        "Risky:\n",
        "\nBundle:",
        "OPERATION",
        "what werf printed",
    )
    places = [printed.index(part) for part in parts]
    assert places == sorted(places)
    assert "Contents:      not bound: " in printed


def test_programs_get_it_too():
    found = document(Shown(view(plan=PLAN | UNBOUND), PlanLog(SECRETS)))
    assert (found["plan"]["bound"], found["plan"]["unbound"]) == (False, UNBOUND["unbound"])
    assert (found["plan"]["hidden"], found["hiddenSecrets"]) == (2, 2)
    assert "hiddenSecrets" not in document(Shown(view(plan=PLAN), PlanLog(SECRETS)))
    assert "hiddenSecrets" not in document(Shown(view(plan=PLAN | UNBOUND), PlanLog()))


FORGED = st.fixed_dictionaries(
    {},
    optional={
        name: JSON | st.just(["\x1b[2J" * 99, "a\nb"] * 99) | st.booleans()
        for name in (
            "bound",
            "unbound",
            "hidden",
            "changed",
            "changeUnknown",
            "risky",
            "riskyOperations",
        )
    },
)


@given(FORGED)
def test_a_forged_status_moves_no_cursor(plan):
    lines = list(first_lines(PlanStatus.parse(plan), PlanLog(SECRETS)))
    assert all(line.isprintable() for line in lines)
