"""What `plan bundle` says: what to know first, the operations, and werf's diff."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from difflib import ndiff
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from copyrator.api.plan_status import PlanStatus, PreviewPlan
from copyrator.bundles.plan.operations import Operation, OperationType
from copyrator.cli.bundles.plan import PlanView, document, first_lines, fold, show
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
    found = document(PlanView(view(preview=PLAN), PlanLog(SECRETS), is_preview=True))
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
    show(PlanView(found, PlanLog(SECRETS, "what werf printed"), is_preview))
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
    found = document(PlanView(view(plan=PLAN | UNBOUND), PlanLog(SECRETS)))
    assert (found["plan"]["bound"], found["plan"]["unbound"]) == (False, UNBOUND["unbound"])
    assert (found["plan"]["hidden"], found["hiddenSecrets"]) == (2, 2)
    assert "hiddenSecrets" not in document(PlanView(view(plan=PLAN), PlanLog(SECRETS)))
    assert "hiddenSecrets" not in document(PlanView(view(plan=PLAN | UNBOUND), PlanLog()))


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
    body = {
        "metadata": {"namespace": "apps", "name": "shop", "uid": "u"},
        "spec": {},
        "status": {"plan": plan | {"risky": [str(OPERATIONS[1])]} | changes},
    }
    show(PlanView(BundleView(body, NOW), log))
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
    hint = "Not shown: 1 line of the bundle's download, werf's version and managedFields"
    assert f"{hint}; with them: copyrator plan bundle apps/shop --whole" in " ".join(said.split())
    body = {"metadata": {"namespace": "apps", "name": "shop", "uid": "u"}, "status": {}}
    found = PlanView(BundleView(body, NOW), PlanLog(OPERATIONS, diff))
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
    show(PlanView(BundleView(body, NOW), PlanLog(OPERATIONS, ""), is_preview))
    assert (NOTE in capsys.readouterr().out) is expected


FACTS = Path(__file__).parents[4] / "docs" / "facts" / "werf-output"
ALWAYS = re.compile(
    r"werf\.io/version: v.*|project\.werf\.io/(env|name): .*|managedFields:|f:.*|manager: helm"
    r"|operation: Apply|apiVersion: v1|fieldsType: FieldsV1|fieldsV1:"
)
VERSIONS = ["2.67.0", "2.75.3", "3.2.0"]
FRAME = '┌ Pulling bundle "registry.example.com/team/shop:1.0.1"'


def lines_of(version: str, name: str) -> list[str]:
    """What the real werf printed, without the command."""
    return (FACTS / version / f"{name}.txt").read_text().split("\n")[2:]


def lines_after_fetch(version: str, name: str) -> list[str]:
    """The same without the two frames about the bundle's download."""
    lines = lines_of(version, name)
    begin = next(at for at, line in enumerate(lines) if line.startswith("Planning release"))
    assert begin == 1 + FETCHED
    return [lines[0], *lines[begin:]]


FETCHED = 18
"""Lines of werf about the bundle's download."""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("name", "number"), [("plan-update-whole", 23), ("plan-first-whole", 18)])
def test_of_what_werf_really_prints_its_version_managed_fields_and_download_go(
    version, name, number
):
    text, folded = fold("\n".join(lines_of(version, name)))
    whole, left = lines_after_fetch(version, name), text.split("\n")
    assert folded - FETCHED == len(whole) - len(left) == number
    gone = [line[1:] for line in ndiff(whole, left) if line.startswith("- ")]
    assert all(ALWAYS.fullmatch(line.lstrip(" │+-")) for line in gone), gone
    # Hooks and all else that only the whole diff has stays, and so does the summary.
    if name == "plan-update-whole":
        assert "│ +     helm.sh/hook: pre-upgrade" in left
    summary = whole.index(
        next(line for line in whole if line.startswith("Planned changes summary"))
    )
    assert left[-(len(whole) - summary) :] == whole[summary:]
    assert [line for line in left if line[:1] in "┌└"] == [
        line for line in whole if line[:1] in "┌└"
    ]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["plan-update", "plan-nothing"])
def test_of_a_plan_without_them_only_the_download_goes(version, name):
    left = "\n".join(lines_after_fetch(version, name))
    assert fold("\n".join(lines_of(version, name))) == (left, FETCHED)


@pytest.mark.parametrize(
    "text",
    [
        f'{FRAME}\nx\n',
        f"{FRAME}\n┌ Delete Secret/a\n└ {FRAME[2:]} (0.01 seconds)",
        f"{FRAME}\n│ - kind: Secret\n└ {FRAME[2:]} (0.01 seconds)",
        f"{FRAME}\nx\n└ {FRAME[2:]} (0.01 seconds) FAILED",
        f"┌ Delete Secret/a\n│ - a: b\n└ Delete Secret/a\n{FRAME}\n└ {FRAME[2:]} (0.01 seconds)",
    ],
)  # fmt: skip
def test_what_isnt_surely_of_the_download_is_shown(text):
    assert fold(text) == (text, 0)


def block(verb: str, lines: list[str], sign: str) -> str:
    content = [f"│ {sign} {line}".rstrip() for line in lines]
    return "\n".join([f"┌ {verb} ConfigMap/a", *content, f"└ {verb} ConfigMap/a"])


def whole(tree: Any, verb: str = "Create", sign: str = "+") -> str:
    return block(verb, yaml.safe_dump(tree, width=9999).rstrip("\n").split("\n"), sign)


MINE = {"werf.io/version": "v2.67.0", "project.werf.io/env": "", "project.werf.io/name": "shop"}
WORDS = st.sampled_from(
    [*MINE, *MINE.values(), "metadata", "annotations", "managedFields", "a", "v1", "- b",
     "metadata:\n  annotations:\n    werf.io/version: v1.2.3\n",
     "  managedFields:\n  - a\n", "x\n    werf.io/version: v1.2.3"]
)  # fmt: skip
TREES = st.recursive(
    WORDS | st.integers(0, 9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
METADATA = st.fixed_dictionaries(
    {"name": WORDS},
    optional={
        "annotations": st.dictionaries(WORDS, WORDS, max_size=4),
        "labels": st.dictionaries(WORDS, WORDS, max_size=4),
        "managedFields": st.lists(
            st.dictionaries(WORDS, TREES, min_size=1, max_size=2), max_size=2
        ),
    },
)
OBJECTS = st.fixed_dictionaries(
    {"metadata": METADATA}, optional={"spec": TREES, "data": TREES, "annotations": TREES}
)


@given(OBJECTS, st.sampled_from([("Create", "+"), ("Delete", "-"), ("Recreate", "+")]))
def test_of_an_object_that_is_whole_nothing_else_can_be_hidden(tree, verb):
    text, number = fold(whole(tree, *verb))
    left = [line[4:] for line in text.split("\n")[1:-1]]
    found = yaml.safe_load("\n".join(left))
    kept = {**tree["metadata"]}
    fields = kept.pop("managedFields", None)
    seen = found["metadata"]
    if "managedFields" in seen:  # an empty list is printed in one line, which isn't known
        assert seen.pop("managedFields") == fields == []
    before, after = kept.get("annotations"), seen.get("annotations")
    if before:
        gone = before.items() - (after or {}).items()
        assert {name for name, _ in gone} <= set(MINE)
        seen["annotations"] = {**(after or {}), **dict(gone)}
    assert {**found, "metadata": seen} == {**tree, "metadata": kept}
    if {"annotations", "managedFields"}.isdisjoint(tree["metadata"]):
        assert number == 0


HEAD = "Version: v2.75.3\n\n"
CHANGE = ["│ -     werf.io/version: v2.67.0", "│ +     werf.io/version: v2.75.3"]
AROUND = ["│     annotations:", "│       a: b", *CHANGE, "│     labels:"]


def update(lines: list[str]) -> str:
    return "\n".join(["┌ Update Deployment/d", *lines, "└ Update Deployment/d"])


@pytest.mark.parametrize(
    ("head", "lines", "left"),
    [
        # Nothing else changed: what stands around it goes, too.
        (HEAD, AROUND, []),
        (HEAD, [*AROUND, "│ +   x: y"], [*AROUND[:2], AROUND[4], "│ +   x: y"]),
        # Another version than that of the werf that plans, or one that isn't known.
        ("Version: v2.75.4\n\n", AROUND, AROUND),
        ("", AROUND, AROUND),
        (HEAD, CHANGE[1:], CHANGE[1:]),
        (HEAD, CHANGE[:1], CHANGE[:1]),
        (HEAD, ["│ -     werf.io/version: {}", CHANGE[1]],
         ["│ -     werf.io/version: {}", CHANGE[1]]),
        (HEAD, [CHANGE[0], "│ +     werf.io/version: v2.75.3 x"],
         [CHANGE[0], "│ +     werf.io/version: v2.75.3 x"]),
        # An update has no places, so what looks like managedFields is shown.
        *((HEAD, lines, lines) for lines in (
            ["│   metadata:", "│ -   managedFields:", "│ -   - a: b"],
            ["│   metadata:", "│ +   annotations:", "│ +     project.werf.io/name: shop"],
            ["│     spec:", "│ +     managedFields: x"],
        )),
    ],
)  # fmt: skip
def test_of_an_update_only_a_change_of_werfs_own_version_goes(head, lines, left):
    assert fold(head + update(lines)) == (head + update(left), len(lines) - len(left))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "┌ Create ConfigMap/a",
        "┌ Create ConfigMap/a\n│ + metadata:\n│ +   annotations:\n│ +     werf.io/version: v1.2.3",
        "┌ Create ConfigMap/a\nx\n└ Create ConfigMap/a",
        "+ metadata:\n+   annotations:\n+     werf.io/version: v1.2.3",
        block("Create", ["metadata:", "  annotations:", "    werf.io/version: v1 x"], "+"),
        block("Create", ["metadata:", "  labels:", "    werf.io/version: v1.2.3"], "+"),
        block("Create", ["spec:", "  annotations:", "    werf.io/version: v1.2.3"], "+"),
        block("Create", ["spec:", "  managedFields:", "  - a"], "+"),
    ],
)
def test_what_isnt_known_is_shown(text):
    assert fold(text) == (text, 0)


@given(st.lists(st.sampled_from(
    [*AROUND, HEAD.strip(), "┌ a", "└ a", "│", "│ + metadata:", "│ +   managedFields:", "│ +   - a",
     "│ + spec:", "x", ""]), max_size=20))  # fmt: skip
def test_the_number_is_that_of_the_lines_and_nothing_is_added(lines):
    text, number = fold("\n".join(lines))
    left = text.split("\n")
    assert len(left) == max(len(lines), 1) - number
    rest = iter(lines or [""])
    assert all(line in rest for line in left), "in the same order"
