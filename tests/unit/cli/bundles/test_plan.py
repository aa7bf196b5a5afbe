"""What `plan bundle` says: what to know first, the operations, and werf's diff."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text
from tests.builders.bundles import known

from copyrator.bundles.features.previews.fields import PreviewPlan
from copyrator.bundles.plans.fields import PlanStatus
from copyrator.bundles.plans.operations import (
    Operation,
    OperationType,
    RenderedObjects,
    read_operation,
)
from copyrator.cli.bundles.plan import (
    PlanView,
    document,
    first_lines,
    planned_changes,
    show,
)
from copyrator.cli.bundles.plan_log import PlanLog
from copyrator.cli.bundles.plan_page import decision_values
from copyrator.cli.core.installation import Installation
from copyrator.cli.view.bundle import BundleView
from copyrator.cli.view.why_bundle import explain_bundle
from copyrator.settings.config import Settings
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


@pytest.mark.parametrize(
    ("plan", "operations", "lines"),
    [
        ({}, SECRETS, []),
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
    assert list(first_lines(PreviewPlan.parse({}), PlanLog(SECRETS))) == lines


def view(**status: Any) -> BundleView:
    return BundleView(known(**status), NOW)


@pytest.mark.parametrize("is_preview", [False, True])
def test_it_is_printed_before_anything_else_of_the_plan(capsys, is_preview):
    found = view(**{"preview" if is_preview else "plan": PLAN | UNBOUND})
    show(PlanView(found, PlanLog(SECRETS, "what werf printed"), is_preview))
    printed = capsys.readouterr().out
    assert printed.startswith("Contents aren't bound: ")
    parts = (LOOKUP, *("2 Secrets", "2 objects", "Risky:\n", "\nBundle:", "OPERATION", "what werf"))
    places = [printed.index(part) for part in parts]
    assert places == sorted(places)
    assert "Contents:      not bound: " in printed
    assert document(PlanView(found, PlanLog(SECRETS), is_preview))["hiddenSecrets"] == 2


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


LONG = "x" * 150
OPERATIONS = (
    Operation(OperationType.CREATE, "", "rbac.authorization.k8s.io", "ClusterRole", "a [red]b !"),
    Operation(OperationType.DELETE, "elsewhere", "", "ConfigMap", LONG),
)


def printed(monkeypatch: pytest.MonkeyPatch, capsys: Any, log: PlanLog, **changes: Any) -> str:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setenv("COLUMNS", "80")
    plan = {"outcome": "Planned", "job": "shop-plan-1", "operations": 2, "riskyOperations": 1}
    show(PlanView(view(plan=plan | {"risky": [str(OPERATIONS[1])]} | changes), log))
    return Text.from_ansi(capsys.readouterr().out).plain


def test_a_diff_cant_move_the_cursor_nor_begin_a_line_as_this_program_does(monkeypatch, capsys):
    diff = "\x1b[1A\x1b[2K\n+ a\rb\u202e\nChanges:       no operations\n" + "+ word " * 40
    said = printed(monkeypatch, capsys, PlanLog(OPERATIONS, diff))
    _, _, below = said.partition("What else werf printed:\n")
    assert below.startswith(
        "  \\x1b[1A\\x1b[2K\n  + a\\rb\\u202e\n  Changes:       no operations\n"
    )
    lines = below.splitlines()
    assert len(lines) > 5
    assert all(line.startswith("  ") for line in lines)
    assert max(map(len, lines)) <= 80


def test_names_are_whole_and_no_markup(monkeypatch, capsys):
    said = printed(monkeypatch, capsys, PlanLog(OPERATIONS, "", cut=True))
    cut = "The diff is cut after 1 MiB; all of it: kubectl logs -n apps job/shop-plan-1"
    assert cut in " ".join(said.split())
    assert "       create     ClusterRole  -          a [red]b !\n" in said
    assert "risky  delete     ConfigMap    elsewhere  xxx" in said
    assert said.count("x") - said.count("xt") >= len(LONG)
    assert max(map(len, said.splitlines())) <= 80
    assert "…" not in said
    assert "Diff:" not in said


def test_what_is_in_every_plan_is_shown_only_when_asked_for(monkeypatch, capsys):
    diff = (
        "┌ Create ConfigMap/a\n│ + metadata:\n│ +   annotations:\n│ +     x: y\n"
        "│ +     werf.io/version: v2.67.0\n└ Create ConfigMap/a"
    )
    made = replace(operation("ConfigMap"), type=OperationType.CREATE)
    said = printed(monkeypatch, capsys, PlanLog((made, *OPERATIONS), diff))
    assert "\nDiff:\n  create ConfigMap/a\n    + metadata:\n    +   annotations:\n" in said
    assert "    +     x: y\n" in said
    assert "werf.io/version" not in said
    hint = "Not shown: 1 line of the bundle's download, werf's version and managedFields"
    assert f"{hint}; with them: copyrator plan bundle apps/shop --whole" in " ".join(said.split())
    found = PlanView(view(), PlanLog(OPERATIONS, diff))
    show(found, whole=True)
    said = capsys.readouterr().out
    assert "werf.io/version: v2.67.0" in said
    assert "--whole" not in said
    assert "werf.io/version: v2.67.0" in document(found)["diff"]


def test_the_diff_is_printed_by_object_as_the_page_has_it_within_limits(capsys):
    """Huge and hostile ones: the output is bounded, in order, and moves no cursor."""
    kinds = ("ConfigMap", "Secret", "Role")
    operations = tuple(map(operation, kinds))
    content = {
        "ConfigMap": ["+ x: \x1b[2J\u202e" + "y" * 2000, *["- z: 1"] * 1000],
        "Secret": ["- data:", "+   pw: VALUE", "+     VALUE"],
        "Role": ["+ rules: []"],
    }
    blocks = [
        "\n".join(
            [f"┌ Update {kind}/a", *(f"│ {one}" for one in content[kind]), f"└ Update {kind}/a"]
        )
        for kind in kinds
    ]
    log = PlanLog(
        operations, "\n".join([*blocks, "┌ Update Foo/b", "│ + 1", "└ Update Foo/b", "end"])
    )
    risky = {"risky": ["update ::Role:a"], "riskyOperations": 1}
    found = PlanView(view(plan=PLAN | risky), log)
    show(found)
    said = capsys.readouterr().out
    assert "VALUE" not in said + str(document(found)["diff"])
    said = said[said.index("\nDiff:\n") :]
    heads = [line for line in said.splitlines() if line[:2] != "  " or line[2:3] not in (" ", "")]
    assert [line for line in heads if line] == [
        "Diff:",
        "  update Role/a, risky",
        "  update Secret/a, contents hidden",
        "  update ConfigMap/a",
        "What werf shows of objects with equal names, or of more than the operations:",
        "  Update Foo/b",
        "What else werf printed:",
        "  end",
        "Not shown: 801 lines of long diffs; with them: copyrator plan bundle apps/shop --whole",
    ]
    assert "    + x: \\x1b[2J\\u202e" in said
    assert "    +   pw: <hidden>\n    +     <hidden>\n" in said
    assert "    … 801 more lines\n" in said
    assert max(map(len, said.splitlines())) < 1100
    show(found, whole=True)
    said = capsys.readouterr().out
    assert said.count("    - z: 1\n") == 1000
    assert "y" * 2000 in said
    assert "VALUE" not in said
    assert "Not shown" not in said


def test_more_marks_than_risky_operations_are_explained(monkeypatch, capsys):
    many = tuple(Operation(OperationType.DELETE, "", "", "ConfigMap", f"cm-{i}") for i in range(30))
    for number, explained in ((25, True), (30, False)):
        named = {"risky": [str(one) for one in many[:20]], "riskyOperations": number}
        said = printed(monkeypatch, capsys, PlanLog(many, ""), **named)
        assert said.count("risky  delete") == 30
        assert ("More are marked as risky than the operator counts" in said) is explained


ENV = {"env": {"KUBECONFIG": "/x", "WERF_ENV": "dev"}}
NOTE = "Note:          planned without spec.env.KUBECONFIG, which the deploy gets\n"
WITHHELD = [{"type": "SettingsWithheld", "status": "True"}]


@pytest.mark.parametrize(
    ("spec", "conditions", "is_preview", "expected"),
    [
        (ENV, [], False, True),
        (ENV, WITHHELD, False, False),
        (ENV | {"approval": {"mode": "Always"}}, [], False, False),
        ({"env": {"WERF_ENV": "dev"}}, [], False, False),
        (ENV, [], True, True),
    ],
)
def test_what_a_plan_leaves_out_and_the_deploy_gets_is_named(
    capsys, spec, conditions, is_preview, expected
):
    plan = {"outcome": "Planned", "job": "shop-plan-1", "operations": 2}
    message = NOTE.partition(":")[2].strip()  # the operator's, of a preview
    status = {"plan": plan, "preview": plan | {"message": message}, "conditions": conditions}
    body = known(spec, **status)
    show(PlanView(BundleView(body, NOW), PlanLog(OPERATIONS, ""), is_preview))
    assert (NOTE in capsys.readouterr().out) is expected


def planned(*lines: str, **plan: Any) -> PlanView:
    operations = tuple(filter(None, map(read_operation, lines)))
    blocks = [
        "┌ Update ConfigMap/b (namespace=other)\n│ - x\n└ Update ConfigMap/b (namespace=other)",
        "┌ Create ConfigMap/h, then Delete X/h\n│ + x\n└ Create ConfigMap/h, then Delete X/h",
        "┌ Blind apply Role/r x\n│ <hidden because>\n└ Blind apply Role/r x",
        "┌ Update Foo/same\n│ + 1\n└ Update Foo/same",
        "┌ Update Foo/same\n│ + 2\n└ Update Foo/same",
        "┌ Waiting for the lock\n│ yes\n└ Waiting for the lock",
    ]
    return PlanView(view(plan=PLAN | plan), PlanLog(operations, "\n".join(blocks)))


def test_operations_have_their_diffs_and_risky_ones_come_first_then_hidden_ones():
    found = planned_changes(
        planned(
            "update other::ConfigMap:b",
            "update ::ConfigMap:a",
            "create ::ConfigMap:h",
            "create ::Secret:s",
            "apply :rbac:Role:r x",
            "update :a.x:Foo:same",
            "update :b.x:Foo:same",
            RISK,
        )
    )
    assert [
        (str(one.operation), one.is_risky, one.is_hidden, one.diff and one.diff.lines)
        for one in found.operations
    ] == [
        (RISK, True, False, None),
        ("create ::Secret:s", False, True, None),
        ("apply :rbac:Role:r x", False, True, ("<hidden because>",)),
        ("update other::ConfigMap:b", False, False, ("- x",)),
        ("update ::ConfigMap:a", False, False, None),
        ("create ::ConfigMap:h", False, False, ("+ x",)),
        ("update :a.x:Foo:same", False, False, None),
        ("update :b.x:Foo:same", False, False, None),
    ]
    # Which of two is which isn't told by their equal titles.
    titles = [one.title for one in found.others]
    assert titles == ["Update Foo/same", "Update Foo/same", "Waiting for the lock"]


JOB = ":batch:Job:migrate"
PURGE = ":batch:Job:purge"
STAGED = PlanLog(
    (Operation(OperationType.UPDATE, "", "batch", "Job", "migrate"),),
    "",
    RenderedObjects(
        frozenset({JOB, PURGE}),
        frozenset({JOB, PURGE}),
        (Operation(OperationType.CREATE, "", "batch", "Job", "migrate"),),
        (Operation(OperationType.CREATE, "", "batch", "Job", "purge"),),
        frozenset({PURGE}),
    ),
)
RISKY_HOOK = f"as the deploying account: at uninstall: create {PURGE}"
HOOKED = PLAN | {
    "operations": 1,
    "counts": {"update": 1, "atRollback": 1, "atUninstall": 1},
    "risky": [RISKY_HOOK],
}


def test_hooks_of_rollback_and_uninstall_and_what_runs_as_the_account_are_listed(capsys):
    found = PlanView(view(plan=HOOKED), STAGED)
    show(found)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    at = lines.index("RISK OPERATION WHEN KIND NAMESPACE NAME ROLE")
    assert lines[at + 1 : at + 4] == [
        "risky create at uninstall Job - purge as the deploying account",
        "update Job - migrate",
        "create at rollback Job - migrate",
    ]
    assert "The diff has no contents of what is created at rollback or at uninstall." in lines
    fields = ("type", "when", "asDeployingAccount", "risky")
    listed = [tuple(one[field] for field in fields) for one in document(found)["operations"]]
    assert listed == [
        ("update", "deploy", False, False),
        ("create", "rollback", False, False),
        ("create", "uninstall", True, True),
    ]
    effect = "would update 1 object, and at rollback create 1, and at uninstall create 1:"
    assert effect in decision_values(found)["sentence"]


def test_without_the_log_the_risky_operations_and_hooks_that_the_status_names_are_known():
    risky = [RISK, "no operation", RISKY_HOOK]
    found = planned_changes(PlanView(view(plan=HOOKED | {"risky": risky}), PlanLog(fault="x")))
    assert [(one.operation.name, one.when, one.role) for one in found.operations] == [
        ("db", "", ""),
        ("purge", "at uninstall", "as the deploying account"),
    ]


def test_of_an_object_that_the_deploy_and_a_rollback_write_the_diff_is_of_the_deploy():
    diff = "┌ Update Job/migrate\n│ + x\n└ Update Job/migrate"
    found = planned_changes(PlanView(view(plan=HOOKED), replace(STAGED, diff=diff)))
    lines = {(one.when, one.diff.lines if one.diff else None) for one in found.operations}
    assert lines == {("", ("+ x",)), ("at rollback", None), ("at uninstall", None)}


@pytest.mark.needs("approval")
def test_why_autorollback_is_withheld_is_said(capsys):
    why = "the hooks for a rollback to 1.0.0 aren't known, as it was deployed without a plan"
    found = PlanView(view(plan=PLAN | {"rollbackWithheld": why}), STAGED)
    told = f"spec.autoRollback has no effect: {why}"
    show(found)
    assert f"Rollback:      {told}\n" in capsys.readouterr().out
    assert told in str(decision_values(found)["facts"])
    whole = replace(found.view, installation=Installation(settings=Settings(), namespace="x"))
    assert f"  Rollback:      {told}" in list(explain_bundle(whole))
    show(PlanView(view(plan=PLAN), STAGED))
    assert "autoRollback" not in capsys.readouterr().out
