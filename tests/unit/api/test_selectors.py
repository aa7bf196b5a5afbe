"""Selectors, and tag filters."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copyrator.api.selectors import (
    LabelSelector,
    Operator,
    Requirement,
    read_selector,
)
from copyrator.api.tagfilter import FilterError, TagFilter, compile_filter


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


MATCHES: list[tuple[dict[str, Any], str, list[dict[str, str]], list[dict[str, str]]]] = [
    ({}, "", [{}, {"a": "b"}], []),
    ({"matchLabels": {"a": "b"}}, "a=b", [{"a": "b", "c": "d"}], [{}, {"a": "c"}]),
    ({"matchLabels": {"a": ""}}, "a=", [{"a": ""}], [{}, {"a": "b"}]),
    (expression("a", "In", "y", "x"), "a in (x,y)", [{"a": "x"}, {"a": "y"}], [{}, {"a": "z"}]),
    (expression("a", "In", "x"), "a=x", [{"a": "x"}], [{"a": "y"}]),
    (expression("a", "NotIn", "x"), "a notin (x)", [{}, {"a": "y"}], [{"a": "x"}]),
    (expression("a", "Exists"), "a", [{"a": ""}, {"a": "x"}], [{}]),
    (expression("a", "DoesNotExist"), "!a", [{}, {"b": "x"}], [{"a": ""}]),
    (
        {"matchLabels": {"b": "1", "a": "2"}, **expression("c", "Exists")},
        "a=2,b=1,c",
        [{"a": "2", "b": "1", "c": ""}],
        [{"a": "2", "b": "1"}],
    ),
]


@pytest.mark.parametrize(("raw", "text", "inside", "outside"), MATCHES)
def test_a_selector_matches_as_everywhere_in_kubernetes(
    raw: dict[str, Any], text: str, inside: list[dict[str, str]], outside: list[dict[str, str]]
) -> None:
    selector = read_selector(raw)
    assert selector.to_string() == text
    assert all(selector.matches(labels) for labels in inside)
    assert not any(selector.matches(labels) for labels in outside)
    assert selector.empty == (text == "")


def test_an_object_without_labels_is_no_error() -> None:
    assert LabelSelector().matches(None)
    assert not LabelSelector.from_labels({"a": "b"}).matches(None)


def test_equal_meanings_are_equal_so_that_they_share_a_watch() -> None:
    one = read_selector({"matchLabels": {"a": "1", "b": "2"}})
    other = read_selector(
        {
            "matchExpressions": [
                {"key": "b", "operator": "In", "values": ["2", "2"]},
                {"key": "a", "operator": "In", "values": ["1"]},
            ]
        }
    )
    assert one == other
    assert hash(one) == hash(other)
    assert one.labels == {"a": "1", "b": "2"}


def test_only_certain_labels_are_certain() -> None:
    selector = LabelSelector.of(
        [
            Requirement("a", Operator.IN, frozenset(("x",))),
            Requirement("b", Operator.IN, frozenset(("x", "y"))),
            Requirement("c", Operator.EXISTS),
        ]
    )
    assert selector.labels == {"a": "x"}


TAGS = [
    (r"v\d+\.\d+\.\d+", ["v1.2.3", "v10.0.0"], ["1.2.3", "v1.2.3-rc", "xv1.2.3", "v1x2x3"]),
    (r"^v\d+$", ["v1"], ["v", "v1\n"]),
    (r"^a$|^b$", ["a", "b"], ["ab"]),
    (r"(main|release)-[0-9a-f]{4,6}", ["main-12ab", "release-abcdef"], ["main-12", "main-1234567"]),
    (r"(?P<branch>main)-(?:x|y)?", ["main-", "main-x"], ["main"]),
    (r"[^-]+", ["1.2.3"], ["1-2", ""]),
    (r"[]a-c-]*", ["", "abc-"], ["d"]),
    (r"[\d.]+", ["1.2"], ["a"]),
    (r"(a|b)*?c{2}", ["cc", "abcc"], ["c", "accc"]),
    (r".*", ["", "anything"], []),
    (r"", [""], ["x"]),
    (r"a{0}b", ["b"], ["ab"]),
    (r"a{2,}", ["aa", "aaaa"], ["a"]),
    (r"(\d+\.)*\d+", ["1", "1.2.3"], ["1.", ".1"]),
]


@pytest.mark.parametrize(("pattern", "inside", "outside"), TAGS)
def test_a_filter_matches_whole_tags(pattern: str, inside: list[str], outside: list[str]) -> None:
    found = compile_filter(pattern)
    assert [tag for tag in inside if not found.matches(tag)] == []
    assert [tag for tag in outside if found.matches(tag)] == []


BROKEN = [
    ("(a", "missing ): (a"),
    ("a)", "unexpected ): a)"),
    ("[a", "missing ]: [a"),
    ("[b-a]", "invalid character class range: b-a"),
    ("*a", "no argument for repetition operator: *"),
    ("a**", "bad repetition operator: **"),
    ("a{3,2}", "invalid repetition size: {3,2}"),
    ("(a{1000}){10}", "invalid repetition size"),
    ("(a)\\1", "invalid escape sequence: \\1"),
    ("a\\", "trailing \\"),
    ("(?=a)", "invalid perl operator: (?="),
    ("(.?){500}z", "takes too long to match (5505 steps, at most 512)"),
    ("((a?){30}){30}b", "takes too long to match"),
    ("((.{0,50}){0,20})", "pattern too large"),
    ("\ud800", "surrogates not allowed"),
    ("a" * 257, "at most 256"),
]


@pytest.mark.parametrize(("pattern", "message"), BROKEN, ids=[text for _, text in BROKEN])
def test_what_cannot_be_used_is_refused_with_the_reason(pattern: str, message: str) -> None:
    with pytest.raises(FilterError, match=re.escape(message)):
        compile_filter(pattern)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "(a|a)*b", ".*" * 100 + "b", "(a*)*b" * 30, "a?" * 85]
)
def test_a_hostile_filter_does_not_stop_the_operator(pattern: str) -> None:
    found = TagFilter(pattern)
    for length in range(1, 128):
        found.matches("a" * length + "!")


ATOMS = st.sampled_from(["a", "b", r"\.", ".", "[ab]", "[^a]", r"\d", r"\w", "1"])


def combine(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeat = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,}", "+?"])
    return (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map(lambda pair: f"({pair[0]}|{pair[1]})")
        | st.tuples(inner, repeat).map(lambda pair: f"(?:{pair[0]}){pair[1]}")
    )


@settings(max_examples=3 * settings.default.max_examples, deadline=None)
@given(st.recursive(ATOMS, combine, max_leaves=6), st.text("ab.1-", max_size=7))
def test_a_filter_agrees_with_python(pattern: str, tag: str) -> None:
    assert TagFilter(pattern).matches(tag) == bool(re.fullmatch(pattern, tag))


@settings(max_examples=3 * settings.default.max_examples, deadline=None)
@given(st.text(max_size=12), st.text("ab.1-", max_size=5))
def test_any_text_is_a_filter_or_refused(pattern: str, tag: str) -> None:
    try:
        found = TagFilter(pattern)
    except FilterError:
        return
    assert found.matches(tag) in (True, False)
