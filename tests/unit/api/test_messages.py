"""Messages of the parsers' checks, word for word: each names the value, the fault, the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from copyrator.api.schema import (
    OBJECT_CONTAINERS,
    PROBLEM_PATH,
    TOO_MANY,
    Fields,
    SpecError,
    is_scalar,
    json_type,
    unreadable,
)
from copyrator.api.text import (
    check_api_version,
    check_data_key,
    check_env_name,
    check_kind,
    check_label_key,
    check_label_value,
    check_namespace,
    check_object_name,
    quoted,
    some,
)

ENDS = "beginning and ending with a letter or digit"


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (
            check_namespace,
            "A",
            "'A' isn't a valid namespace name; use at most 63 lower-case letters, digits and '-'",
        ),
        (check_namespace, "a-*", "'a-*' is a pattern; list the namespaces by name"),
        (check_namespace, "a?", "'a?' is a pattern; list the namespaces by name"),
        (
            check_object_name,
            "A",
            (
                "'A' isn't a valid object name; "
                "use at most 253 lower-case letters, digits, '-' and '.'"
            ),
        ),
        (
            check_label_key,
            "E/x",
            "'E/x' has a prefix that isn't a DNS name; write it as example.com/name",
        ),
        (
            check_label_key,
            "e.x/-",
            "'e.x/-' isn't a valid label key; use at most 63 letters, digits, '-', '_' and '.', "
            + ENDS,
        ),
        (
            check_label_value,
            "-",
            "'-' isn't a valid label value; use at most 63 letters, digits, '-', '_' and '.', "
            + ENDS,
        ),
        (
            check_data_key,
            "/",
            (
                "'/' isn't a valid key of a ConfigMap or Secret; "
                "use at most 253 letters, digits, '-', "
                "'_' and '.'"
            ),
        ),
        (
            check_kind,
            "secret",
            "'secret' isn't a valid kind; write it as in a manifest, for example Secret",
        ),
        (check_api_version, "1", "'1' isn't a valid apiVersion; write it as v1 or group/v1"),
        (
            check_env_name,
            "1",
            (
                "'1' isn't a valid name for an environment variable; "
                "use letters, digits, '_', '-' and '.', "
                "not beginning with a digit or '..'"
            ),
        ),
    ],
)
def test_a_check_names_the_value_and_the_remedy(
    check: Callable[[str], str | None], value: str, message: str
) -> None:
    assert check(value) == message


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (check_namespace, ["a" * 63, "a-1"], ["a" * 64, "", "-a", "a\n"]),
        (check_object_name, ["a" * 253, "a.b-1"], ["a" * 254, "", "a..b", "a\n"]),
        (
            check_label_key,
            ["a" * 63, "a.b/" + "C" * 63, "a" * 253 + "/x", "A_.-z"],
            ["a" * 64, "/x", "x/", "a" * 254 + "/x", "a/b/c", "x\n"],
        ),
        (check_label_value, ["", "a" * 63, "A_.-z"], ["a" * 64, "a b", "x\n"]),
        (check_data_key, ["a" * 253, "...", "-._A1"], ["a" * 254, "", ".", "..", "a\n"]),
        (check_kind, ["A", "A" + "b" * 62], ["A" + "b" * 63, "", "1A", "A-b"]),
        (
            check_api_version,
            ["v1", "a.b/v1", "a" * 250 + "/v1"],
            ["a" * 251 + "/v1", "", "v", "/v1"],
        ),
        (check_env_name, ["A" * 255, "-.a_1", ".a"], ["A" * 256, "", ".", "..", "..a", "1a"]),
    ],
)
def test_a_check_knows_its_limits(
    check: Callable[[str], str | None], good: list[str], bad: list[str]
) -> None:
    assert [check(value) for value in good] == [None] * len(good)
    assert all(check(value) for value in bad)


def test_a_value_that_is_shown_is_shortened() -> None:
    assert quoted("a" * 80) == repr("a" * 80)
    assert quoted("a" * 81) == repr("a" * 79 + "…")
    assert quoted("abcd", 3) == "'ab…'"


SPEC: dict[str, Any] = {
    "map": {"a": "b", "c": ""},
    "empty": "",
    "text": "x",
    "true": True,
    "false": False,
    "number": 7,
    "list": ["a", "b", "a"],
    "null": None,
    "one": "One",
}


def spec() -> Fields:
    return Fields(SPEC, "spec")


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: Fields([], "spec"), "spec: must be a map, not a list"),
        (lambda: Fields("x", ""), "the object: must be a map, not a string"),
        (
            lambda: Fields(TOO_MANY, "spec"),
            f"spec: it has more than {OBJECT_CONTAINERS:,} maps and lists; reduce it",
        ),
        (
            lambda: Fields(TOO_MANY, ""),
            f"the object: it has more than {OBJECT_CONTAINERS:,} maps and lists; reduce it",
        ),
        (lambda: spec().sub("text"), "spec.text: must be a map, not a string"),
        (lambda: Fields({"a": 1}, "").sub("a"), "a: must be a map, not a number"),
        (lambda: spec().fail("x", "is bad"), "spec.x: is bad"),
        (lambda: spec().required_text("none"), "spec.none: is required"),
        (lambda: spec().required_text("null"), "spec.null: is required"),
        (
            lambda: spec().required_text("empty"),
            "spec.empty: must not be empty; set it or remove the field",
        ),
        (
            lambda: spec().text("true"),
            'spec.true: must be a string, not a boolean; write it in quotes: "true"',
        ),
        (
            lambda: spec().text("number"),
            'spec.number: must be a string, not a number; write it in quotes: "7"',
        ),
        (lambda: spec().text("map"), "spec.map: must be a string, not a map"),
        (lambda: spec().text("text", lambda value: f"{value} is bad"), "spec.text: x is bad"),
        (lambda: spec().required_text("text", lambda _: "is bad"), "spec.text: is bad"),
        (lambda: spec().items("map"), "spec.map: must be a list, not a map"),
        (
            lambda: Fields({"m": {"a": 1.5}}, "s").text_map("m"),
            's.m.a: must be a string, not a number; write it in quotes: "1.5"',
        ),
    ],
)
def test_a_field_that_is_wrong_is_named_with_the_remedy(
    read: Callable[[], Any], message: str
) -> None:
    with pytest.raises(SpecError) as error:
        read()

    assert str(error.value) == message
    assert str(error.value.invalid) == message


def test_fields_that_are_right_are_read() -> None:
    found = spec()

    assert (found.get("text"), found.get("none"), found.path) == ("x", None, "spec")
    assert [found.has(name) for name in ("text", "false", "null", "none")] == [
        True,
        True,
        False,
        False,
    ]
    assert (found.at("x"), Fields({}, "").at("x")) == ("spec.x", "x")
    assert (found.text("text"), found.text("none"), found.required_text("text")) == ("x", None, "x")
    assert found.text_map("map") == {"a": "b", "c": ""}
    assert (found.text_map("none"), found.items("none")) == ({}, ())
    assert found.items("list") == ["a", "b", "a"]
    assert (found.sub("map").raw, found.sub("map").path, found.sub("none").raw) == (
        SPEC["map"],
        "spec.map",
        {},
    )
    assert Fields(None, "x").raw == {}


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
    scalars = [True, 1.5, 0, 2**63 - 1, -(2**63)]
    assert all(is_scalar(value) for value in scalars)
    assert not any(is_scalar(value) for value in [2**63, -(2**63) - 1, "1", None, []])


def test_a_long_path_is_shortened_and_an_unexpected_error_is_named() -> None:
    assert SpecError("a" * PROBLEM_PATH, "x").path == "a" * PROBLEM_PATH
    assert SpecError("a" * (PROBLEM_PATH + 1), "x").path == "a" * (PROBLEM_PATH - 1) + "…"
    assert str(unreadable(KeyError("secret"))) == "spec: can't be read (KeyError); simplify it"


@pytest.mark.parametrize(
    ("members", "text"),
    [
        (["b", "a"], "2 namespaces (a, b)"),
        (["a", "a"], "1 namespaces (a)"),
        (["c", "b", "a"], "3 namespaces (a, b, …)"),
    ],
)
def test_some_members_are_named(members: list[str], text: str) -> None:
    assert some(members, "namespaces") == text
