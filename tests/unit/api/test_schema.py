"""JSON from outside: read or refused with one kind of error, as fields, records and patches."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.steps import STEP_SECONDS, assert_quick

from copyrator.api.docker_config import DOCKER_CONFIG_BYTES
from copyrator.api.schema import (
    COUNT,
    OBJECT_CONTAINERS,
    PROBLEM_PATH,
    SHOWN,
    TIME,
    TOO_MANY,
    TOTAL,
    Fields,
    Record,
    SpecError,
    StatusMap,
    UnreadableJsonError,
    is_scalar,
    items,
    json_type,
    kept,
    merge_patch,
    read_json,
    unreadable,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b'{"a": [1, true, null]}', {"a": [1, True, None]}),
        ('"\\ud83d\\ude00"', "\N{GRINNING FACE}"),
        ("1" * 400, int("1" * 400)),
        ("[1.5, -0.0, 1E2, 1e308, 5e-324, 1e-400]", [1.5, -0.0, 100.0, 1e308, 5e-324, 0.0]),
    ],
)
def test_json_is_read(text: bytes | str, found: Any) -> None:
    assert read_json(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        b"\xff",
        "NaN",
        "[-1e999]",
        '"a\nb"',
        "[" * 100_000,
        "[" * 10_000 + "]" * 10_000,
        '{"a":' * 10_000 + "1" + "}" * 10_000,
        '{"token": "\\ud800"}',
        '{"\\udc00x": 1}',
        '"\ud800"',
    ],
    ids=lambda text: repr(text[:12]),
)
def test_what_is_none_or_cannot_be_passed_on_is_refused(text: bytes | str) -> None:
    with pytest.raises(UnreadableJsonError):
        read_json(text)


@pytest.mark.parametrize(
    "number", ["1e308", "1e-308", "5e-324", "1e23", "2.2250738585072011e-308", "1." + "3" * 800]
)
def test_no_number_takes_long(number: str) -> None:
    """Docker configurations are the longest texts that are read."""
    text = b"[" + b",".join([number.encode()] * (DOCKER_CONFIG_BYTES // (len(number) + 1))) + b"]"
    assert_quick(lambda: read_json(text), STEP_SECONDS)


@given(st.text() | st.binary())
def test_whatever_comes_is_read_or_refused(text: bytes | str) -> None:
    try:
        read_json(text)
    except UnreadableJsonError:
        return


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({}, "a map"),
        ([], "a list"),
        ("", "a string"),
        (True, "a boolean"),
        (1, "a number"),
        (1.5, "a number"),
        (None, "null"),
        (b"", "bytes"),
    ],
)
def test_types_have_the_names_of_manifests(value: Any, name: str) -> None:
    assert json_type(value) == name


def test_numbers_of_the_api_server_are_scalars_and_greater_ones_are_not() -> None:
    assert all(map(is_scalar, [True, 1.5, 0, 2**63 - 1, -(2**63)]))
    assert not any(map(is_scalar, [2**63, -(2**63) - 1, "1", None, []]))


@pytest.mark.parametrize(("path", "shown"), [("spec", "spec"), ("", "the object")])
def test_an_object_that_was_not_read_whole_is_refused(path: str, shown: str) -> None:
    said = f"{shown}: it has more than {OBJECT_CONTAINERS:,} maps and lists; reduce it"
    with pytest.raises(SpecError) as error:
        Fields(TOO_MANY, path)
    assert str(error.value) == str(error.value.invalid) == said


def test_a_long_path_is_shortened_and_an_unexpected_error_is_named() -> None:
    assert SpecError("a" * PROBLEM_PATH, "x").path == "a" * PROBLEM_PATH
    assert SpecError("a" * (PROBLEM_PATH + 1), "x").path == "a" * (PROBLEM_PATH - 1) + "…"
    assert str(unreadable(KeyError("secret"))) == "spec: can't be read (KeyError); simplify it"


class Part(Record, frozen=True):
    name: str | None = None


class Whole(Record, frozen=True):
    """A record with a field of each type."""

    a_text: str | None = None
    number: int | None = None
    part: Part = Part()
    list_of_parts: tuple[Part, ...] = ()
    words: tuple[str, ...] = ()
    flag: bool | None = None


def test_a_map_is_read_whole_and_written_alike() -> None:
    raw = {
        "aText": "x",
        "number": 7,
        "part": {"name": "p", "new": 1},
        "listOfParts": [{"name": "a"}, {"name": "b"}],
        "words": ["a", "b"],
        "flag": False,
        "unknown": {"kept": True},
    }
    found = Whole.parse(raw)
    assert found == Whole(
        a_text="x",
        number=7,
        part=Part(name="p", extra={"new": 1}),
        list_of_parts=(Part(name="a"), Part(name="b")),
        words=("a", "b"),
        flag=False,
        extra={"unknown": {"kept": True}},
    )
    assert found.to_dict() == raw


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("aText", 1),
        ("aText", None),
        ("number", "1"),
        ("number", True),
        ("number", 1.0),
        ("part", []),
        ("listOfParts", {}),
        ("listOfParts", [1, None, []]),
        ("words", "ab"),
        ("words", [1]),
        ("flag", 0),
    ],
)
def test_a_value_of_another_type_is_absent(name: str, value: Any) -> None:
    assert Whole.parse({name: value}) == Whole()
    assert Whole.parse({name: value}).to_dict() == {}


def test_of_a_list_the_right_items_are_kept() -> None:
    raw = {"listOfParts": [1, {"name": "a"}], "words": ["a", 2]}
    assert Whole.parse(raw) == Whole(list_of_parts=(Part(name="a"),), words=("a",))
    for junk in (None, [], "x", 1):
        assert Whole.parse(junk) == Whole()


class Seen(StatusMap, frozen=True):
    """A map of the kind that a rule's status has."""

    name: str
    seen_at: Annotated[datetime, TIME] | None = None
    short: Annotated[str, kept(3)] = ""
    count: Annotated[int, COUNT] = 0
    total: Annotated[int, TOTAL] = 0
    few: Annotated[tuple[str, ...], items(2), SHOWN] = ()


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        ({"name": "a", "new": 1}, Seen("a")),
        (
            {"name": "a", "seenAt": "2026-01-01T00:00:00Z"},
            Seen("a", datetime(2026, 1, 1, tzinfo=UTC)),
        ),
        ({"name": "a", "seenAt": "soon", "count": True, "few": 5}, Seen("a")),
        ({"name": "a", "short": "long"}, Seen("a", short="lon")),
        ({"name": "a", "count": 5, "total": -1}, Seen("a", count=5)),
        ({"name": "a", "few": ["x", 1, "z"]}, Seen("a", few=("x",))),
        ({"short": "x"}, None),
        ({"name": 1}, None),
        ([], None),
    ],
)
def test_a_map_is_read_within_its_bounds_or_left_out(raw: Any, found: Seen | None) -> None:
    assert Seen.read(raw, {}) == found


def test_what_is_shown_is_written_although_it_is_the_default() -> None:
    assert Seen("a").to_dict() == {"name": "a", "total": 0, "few": []}


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({"a": {"b": 1}, "c": 2}, {"a": {"b": 1}, "c": 2}, {}),
        ({"a": 1}, {}, {"a": None}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, {"a": {"c": 3}}),
        ({"a": {"b": 1}}, {"a": {}}, {"a": {"b": None}}),
        ({"a": [1, 2]}, {"a": [2]}, {"a": [2]}),
        ({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": 1}, {"a": True}, {"a": True}),
    ],
)
def test_a_patch_holds_what_differs(
    before: dict[str, Any], after: dict[str, Any], patch: dict[str, Any]
) -> None:
    assert merge_patch(before, after) == patch


def apply(target: Any, patch: Any) -> Any:
    """RFC 7396, section 2."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply(result.get(name), value)
    return result


VALUES = st.recursive(
    st.booleans() | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner),
    max_leaves=8,
)
MAPS = st.dictionaries(st.sampled_from("abc"), VALUES)


@given(MAPS, MAPS)
def test_a_patch_makes_the_one_of_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    made = apply(before, merge_patch(before, after))
    assert json.dumps(made, sort_keys=True) == json.dumps(after, sort_keys=True)
