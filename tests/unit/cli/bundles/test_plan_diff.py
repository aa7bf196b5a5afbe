"""Of werf's diff: what is in every plan, and the objects; what the real werf printed."""

import re
from difflib import ndiff
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from copyrator.cli.bundles.plan_log import fold, hide_secrets, split
from copyrator.cli.view.diffs import DiffView, LineBudget

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


@given(st.lists(st.sampled_from(
    [*AROUND, HEAD.strip(), "┌ a", "└ a", "│", "│ + metadata:", "│ +   managedFields:", "│ +   - a",
     "│ + spec:", "x", ""]), max_size=20))  # fmt: skip
def test_the_number_is_that_of_the_lines_and_nothing_is_added(lines):
    text, number = fold("\n".join(lines))
    left = text.split("\n")
    assert len(left) == max(len(lines), 1) - number
    rest = iter(lines or [""])
    assert all(line in rest for line in left), "in the same order"


HOOK, UPDATED, GONE = "Create ConfigMap/hook", "Update ConfigMap/cm", "Delete ConfigMap/gone"


@pytest.mark.parametrize("version", VERSIONS)
def test_what_werf_really_prints_is_split_by_object(version):
    objects, others = split(fold("\n".join(lines_of(version, "plan-update")))[0])
    found = {}
    for one in objects:
        shown = DiffView.of(one.lines, LineBudget(None))
        found[one.title] = (one.kind, shown.added, shown.removed, one.is_hidden)
    secret = (1, 1) if version.startswith("3") else (0, 0)
    assert found == {
        HOOK: ("ConfigMap", 9, 0, False),
        UPDATED: ("ConfigMap", 1, 1, False),
        "Update Deployment/d": ("Deployment", 1, 1, False),
        "Update Secret/r": ("Secret", *secret, True),
        "Update Secret/s": ("Secret", *secret, True),
        GONE: ("ConfigMap", 0, 11, False),
    }
    (cm,) = (one for one in objects if one.title == UPDATED)
    assert cm.lines[2:4] == ("-   text: one", "+   text: two")
    assert others[0] == f"Version: v{version}"
    assert "- update: 4 resources" in others
    assert not any(line[:1] in "┌│└" for line in others if line)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["plan-update-whole", "plan-first-whole"])
def test_a_secrets_values_are_left_out_where_werf_prints_them(version, name):
    text = "\n".join(lines_of(version, name))
    objects, safe = split(text)[0], split(hide_secrets(text))[0]
    secrets = [both for both in zip(objects, safe, strict=True) if both[0].kind == "Secret"]
    assert len(secrets) == 2
    for one, shown in secrets:
        before, after = one.lines, shown.lines
        assert len(before) == len(after)
        values = {line.partition("pw: ")[2] for line in before if "pw: " in line}
        assert values
        assert not any(value in line for line in after for value in values)
        assert any(line.endswith("  pw: <hidden>") for line in after)
        assert shown.is_hidden
    assert [one for one in safe if one.kind != "Secret"] == [
        one for one in objects if one.kind != "Secret"
    ]


@given(st.dictionaries(
    st.sampled_from(["data", "stringData", "metadata", "type", "apiVersion"]),
    st.dictionaries(
        st.sampled_from(["a", "name", "kind", "type", "x.y", "- b", "long" * 40]),
        st.sampled_from(
            ["VALUE", "VALUE: VALUE", "a: VALUE\n  VALUE:\nVALUE", "- VALUE\n-  a: VALUE"]
        ) | st.dictionaries(st.just("VALUE"), st.just("VALUE"), min_size=1),
        min_size=1, max_size=3,
    ),
    min_size=1,
))  # fmt: skip
def test_no_value_in_a_secret_is_left_wherever_it_is(tree):
    lines = yaml.safe_dump(tree, width=9999).rstrip("\n").split("\n")
    assert any("VALUE" in line for line in lines)
    content = "\n".join(f"│ + {line}" for line in lines)
    assert "VALUE" not in hide_secrets(f"┌ Create Secret/a\n{content}\n└ Create Secret/a")


@pytest.mark.parametrize(
    ("text", "titles", "others"),
    [
        ("", [], [""]),
        ("┌ a\n└ a", ["a"], []),
        ("┌ a\n│ + x", ["a"], []),  # it is cut
        ("┌ Create Secret/a\n│ + x\ny", ["Create Secret/a"], ["y"]),
        ("┌ a\nx\n└ a", [], ["┌ a", "x", "└ a"]),
        ("│ + x", [], ["│ + x"]),
        ("┌ a\n│ x\n┌ b\n│ y\n└ b", ["a", "b"], []),
        ("┌ a\n│ x\n└ b\nz", ["a"], ["└ b", "z"]),
    ],
)
def test_only_whole_or_cut_frames_are_objects(text, titles, others):
    found, left = split(text)
    assert ([one.title for one in found], left) == (titles, others)


@given(st.lists(st.sampled_from(
    ["┌ a", "└ a", "┌ b", "└ b", "│", "│ + x", "│   y", "z", ""]), max_size=20))  # fmt: skip
def test_no_line_of_a_diff_is_lost_by_the_split(lines):
    objects, others = split("\n".join(lines))
    bars = [line for one in objects for line in one.lines]
    kept = sorted([*bars, *(line.removeprefix("│").removeprefix(" ") for line in others)])
    inner = [line.removeprefix("│").removeprefix(" ") for line in lines or [""]]
    for one in objects:
        inner.remove(f"┌ {one.title}")
        if kept.count(f"└ {one.title}") < inner.count(f"└ {one.title}"):
            inner.remove(f"└ {one.title}")
    assert sorted(inner) == kept


@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_line_among_those_of_a_secret_makes_no_value_visible(before):
    content = ["│   data:", "│ +   pw: VALUE", "│ -   old: VALUE"]
    frame = ["┌ Update Secret/a", *content, "└ Update Secret/a"]
    frame.insert(before + 1, "WARNING: it takes long")
    text = hide_secrets("\n".join([*frame, "│ of no object"]))
    assert "VALUE" not in text
    assert "WARNING: it takes long" in text
    assert text.endswith("\n│ of no object")


def test_werfs_words_in_place_of_a_secret_quote_no_value():
    text = "┌ Blind apply Secret/a\n│ {}\n└ Blind apply Secret/a"
    for words, shown in (
        ("<hidden sensitive changes>", "<hidden sensitive changes>"),
        ("<blind apply reason: error: not with VALUE>", "<hidden>"),
    ):
        assert hide_secrets(text.format(words)) == text.format(shown)


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
