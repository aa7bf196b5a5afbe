"""Globs are anchored, agree with their plain definition, and cost little, whatever they are."""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.steps import assert_quick

from copyrator.api.schema import SpecError, reader
from copyrator.api.selectors import MAX_GLOB_TEXT, MAX_GLOBS, Globs, globs

READ = reader(Globs, globs("", lambda _value: None, length=MAX_GLOB_TEXT))
GLOBS = [
    ("team-*", ["team-", "team-a", "team-a-b"], ["my-team-a", "team", ""]),
    ("*", ["", "anything"], []),
    ("a?c", ["abc"], ["ac", "abbc"]),
    ("a.c", ["a.c"], ["abc"]),
    ("[a]", ["[a]"], ["a"]),
    ("kube-system", ["kube-system"], ["kube-system2", "kube-system\n", "xkube-system"]),
]


@pytest.mark.parametrize(("pattern", "inside", "outside"), GLOBS)
def test_a_glob_matches_the_whole_text(pattern: str, inside: list[str], outside: list[str]) -> None:
    globs = Globs((pattern,))
    assert [text for text in inside if not globs.matches(text)] == []
    assert [text for text in outside if globs.matches(text)] == []


@pytest.mark.timeout(10)
def test_a_malicious_glob_does_not_hang_the_operator() -> None:
    assert not Globs(("*a" * 30 + "b",)).matches("a" * 63)


patterns = st.lists(st.text(alphabet="ab-*?", min_size=1, max_size=12), max_size=8)


@settings(max_examples=3 * settings.default.max_examples)
@given(patterns, st.text(alphabet="ab-", max_size=12))
def test_a_list_matches_what_any_of_its_patterns_matches(found: list[str], text: str) -> None:
    expected = any(fnmatch.fnmatchcase(text, pattern) for pattern in found)
    assert Globs(tuple(found)).matches(text) == expected


@given(st.lists(st.text(max_size=6), max_size=5), st.text(max_size=6))
def test_any_text_may_stand_in_a_list(found: list[str], text: str) -> None:
    globs = Globs(tuple(found))
    assert globs.matches(text) or text not in found or "*" in text or "?" in text
    assert Globs(("*", *found)).matches(text)


def test_a_pattern_with_a_character_that_no_name_has_matches_nothing() -> None:
    globs = Globs(("ä*", "b\n*", "c*"))
    assert [text for text in ("ä1", "b\n1", "c1") if globs.matches(text)] == ["c1"]


LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789-"
SHAPES: dict[str, list[str]] = {
    "stars": [("*a" * 31)[:60] + str(number) for number in range(MAX_GLOBS)],
    "stars and any": [("?*" * 31)[:60] + str(number) for number in range(MAX_GLOBS)],
    "letters": [f"*{(LETTERS * 3)[n % 37 : n % 37 + 57]}{n}*" for n in range(MAX_GLOBS)],
    "stars between letters": [
        "*".join((LETTERS * 3)[n % 37 : n % 37 + 29]) + str(n) for n in range(MAX_GLOBS)
    ],
    "prefixes": [f"team-{number}-*" for number in range(MAX_GLOBS)],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_thousand_globs_are_built_in_twenty_milliseconds_and_matched_in_one(shape: str) -> None:
    found = tuple(SHAPES[shape])
    globs = Globs(found)
    assert_quick(lambda: Globs(found), 0.03, 10)  # 0.02, on a machine of its own
    for text in ("a" * 63, (LETTERS * 2)[:62] + "a", "a"):
        assert_quick(lambda text=text: globs.matches(text), 0.001, 20)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([f"x{number}" for number in range(MAX_GLOBS + 1)], "1001 patterns; at most 1000"),
        (["*" + "x" * 99 + str(number) for number in range(700)], f"at most {MAX_GLOB_TEXT}"),
    ],
)
def test_a_list_over_its_limits_is_refused(found: list[str], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        READ(found)
