"""Of werf's diff only what is in every plan is left out, whatever a chart makes it print."""

from __future__ import annotations

import re
from difflib import ndiff
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from copyrator.cli.bundles.plan import fold

FACTS = Path(__file__).parents[4] / "docs" / "facts" / "werf-output"
ALWAYS = re.compile(
    r"werf\.io/version: v.*|project\.werf\.io/(env|name): .*|managedFields:|f:.*|manager: helm"
    r"|operation: Apply|apiVersion: v1|fieldsType: FieldsV1|fieldsV1:"
)
VERSIONS = ["2.67.0", "2.75.3", "3.2.0"]


def lines_of(version: str, name: str) -> list[str]:
    """What the real werf printed, without the command."""
    return (FACTS / version / f"{name}.txt").read_text().split("\n")[2:]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("name", "number"), [("plan-update-whole", 23), ("plan-first-whole", 18)])
def test_of_what_werf_really_prints_only_its_version_and_managed_fields_go(version, name, number):
    whole = lines_of(version, name)
    text, folded = fold("\n".join(whole))
    left = text.split("\n")
    assert folded == len(whole) - len(left) == number
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
def test_of_a_plan_without_them_nothing_goes(version, name):
    text = "\n".join(lines_of(version, name))
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
