"""How a Bundle's plan is printed, whatever a chart made werf print."""

from datetime import UTC, datetime
from typing import Any

import pytest
from rich.text import Text

from copyrator.bundles.plan.operations import Operation, OperationType
from copyrator.cli.bundles.plan import Shown, document, show
from copyrator.cli.bundles.plan_log import PlanLog
from copyrator.cli.view.bundle import BundleView

LONG = "x" * 150
NOW = datetime(2026, 1, 2, tzinfo=UTC)
OPERATIONS = (
    Operation(OperationType.CREATE, "", "rbac.authorization.k8s.io", "ClusterRole", "a [red]b !"),
    Operation(OperationType.DELETE, "elsewhere", "", "ConfigMap", LONG),
)


def printed(monkeypatch: pytest.MonkeyPatch, capsys: Any, log: PlanLog, **changes: Any) -> str:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setenv("COLUMNS", "80")
    plan = {"outcome": "Planned", "job": "shop-plan-1", "operations": 2, "riskyOperations": 1}
    body = {
        "metadata": {"namespace": "apps", "name": "shop", "uid": "u"},
        "spec": {},
        "status": {"plan": plan | {"risky": [str(OPERATIONS[1])]} | changes},
    }
    show(Shown(BundleView(body, NOW), log))
    return Text.from_ansi(capsys.readouterr().out).plain


def test_a_diff_cant_move_the_cursor_nor_begin_a_line_as_this_program_does(monkeypatch, capsys):
    diff = "\x1b[1A\x1b[2K\n+ a\rb\u202e\nChanges:       no operations\n" + "+ word " * 40
    said = printed(monkeypatch, capsys, PlanLog(OPERATIONS, diff))
    _, _, below = said.partition("Diff, as werf printed it:\n")
    assert below.startswith(
        "  \\x1b[1A\\x1b[2K\n  + a\\rb\\u202e\n  Changes:       no operations\n"
    )
    lines = below.splitlines()
    assert len(lines) > 5
    assert all(line.startswith("  ") for line in lines)
    assert max(map(len, lines)) <= 80


def test_names_are_whole_and_no_markup(monkeypatch, capsys):
    said = printed(monkeypatch, capsys, PlanLog(OPERATIONS, ""))
    assert "       create     ClusterRole  -          a [red]b !\n" in said
    assert "risky  delete     ConfigMap    elsewhere  xxx" in said
    assert said.count("x") - said.count("xt") >= len(LONG)
    assert max(map(len, said.splitlines())) <= 80
    assert "…" not in said
    assert "Diff" not in said


def test_what_is_in_every_plan_is_shown_only_when_asked_for(monkeypatch, capsys):
    diff = (
        "┌ Create ConfigMap/a\n│ + metadata:\n│ +   annotations:\n│ +     x: y\n"
        "│ +     werf.io/version: v2.67.0\n└ Create ConfigMap/a"
    )
    said = printed(monkeypatch, capsys, PlanLog(OPERATIONS, diff))
    assert "│ +     x: y\n" in said
    assert "werf.io/version" not in said
    hint = "Not shown: 1 line of werf's version and managedFields; with them: copyrator plan bundle"
    assert f"{hint} apps/shop --whole" in " ".join(said.split())
    body = {"metadata": {"namespace": "apps", "name": "shop", "uid": "u"}, "status": {}}
    found = Shown(BundleView(body, NOW), PlanLog(OPERATIONS, diff))
    show(found, whole=True)
    said = capsys.readouterr().out
    assert "werf.io/version: v2.67.0" in said
    assert "--whole" not in said
    assert "werf.io/version: v2.67.0" in document(found)["diff"]


def test_a_diff_that_is_cut_says_where_all_of_it_is(monkeypatch, capsys):
    said = printed(monkeypatch, capsys, PlanLog(OPERATIONS, "x", cut=True))
    text = "The diff is cut after 1 MiB; all of it: kubectl logs -n apps job/shop-plan-1"
    assert text in " ".join(said.split())


def test_more_marks_than_risky_operations_are_explained(monkeypatch, capsys):
    many = tuple(Operation(OperationType.DELETE, "", "", "ConfigMap", f"cm-{i}") for i in range(30))
    for number, explained in ((25, True), (30, False)):
        named = {"risky": [str(one) for one in many[:20]], "riskyOperations": number}
        said = printed(monkeypatch, capsys, PlanLog(many, ""), **named)
        assert said.count("risky  delete") == 30
        assert ("More are marked as risky than the operator counts" in said) is explained


ENV = {"registry": "r", "repo": "a", "env": {"KUBECONFIG": "/x", "WERF_ENV": "dev"}}
NOTE = "Note:          planned without spec.env[KUBECONFIG], which the deploy gets\n"
WITHHELD = [{"type": "SettingsWithheld", "status": "True"}]


@pytest.mark.parametrize(
    ("spec", "conditions", "is_preview", "expected"),
    [
        (ENV, [], False, True),
        (ENV, WITHHELD, False, False),
        (ENV | {"approval": {"mode": "Always"}}, [], False, False),
        (ENV | {"env": {"WERF_ENV": "dev"}}, [], False, False),
        (ENV, [], True, True),
    ],
)
def test_what_a_plan_leaves_out_and_the_deploy_gets_is_named(
    capsys, spec, conditions, is_preview, expected
):
    plan = {"outcome": "Planned", "job": "shop-plan-1", "operations": 2}
    message = NOTE.partition(":")[2].strip()  # the operator's, of a preview
    body = {
        "metadata": {"namespace": "apps", "name": "shop", "uid": "u"},
        "spec": spec,
        "status": {"plan": plan, "preview": plan | {"message": message}, "conditions": conditions},
    }
    show(Shown(BundleView(body, NOW), PlanLog(OPERATIONS, ""), is_preview))
    assert (NOTE in capsys.readouterr().out) is expected
