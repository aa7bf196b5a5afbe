"""Selectors mean here what they mean to the API server; globs are anchored and never hang."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.api.selectors import (
    Globs,
    LabelSelector,
    Operator,
    Requirement,
    parse_globs,
    parse_selector,
)


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
    selector = parse_selector(raw, "s")
    assert selector.to_string() == text
    assert all(selector.matches(labels) for labels in inside)
    assert not any(selector.matches(labels) for labels in outside)
    assert selector.empty == (text == "")


def test_an_object_without_labels_is_no_error() -> None:
    assert LabelSelector().matches(None)
    assert not LabelSelector.from_labels({"a": "b"}).matches(None)


def test_equal_meanings_are_equal_so_that_they_share_a_watch() -> None:
    one = parse_selector({"matchLabels": {"a": "1", "b": "2"}}, "s")
    other = parse_selector(
        {
            "matchExpressions": [
                {"key": "b", "operator": "In", "values": ["2", "2"]},
                {"key": "a", "operator": "In", "values": ["1"]},
            ]
        },
        "s",
    )
    assert one == other
    assert hash(one) == hash(other)
    assert one.labels == {"a": "1", "b": "2"}


def test_only_certain_labels_are_certain() -> None:
    selector = LabelSelector.of(
        [
            Requirement("a", Operator.IN, ("x",)),
            Requirement("b", Operator.IN, ("x", "y")),
            Requirement("c", Operator.EXISTS),
        ]
    )
    assert selector.labels == {"a": "x"}


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


def test_no_patterns_match_nothing() -> None:
    assert not Globs()
    assert not Globs().matches("")


def test_a_consent_annotation_is_split() -> None:
    globs = parse_globs(" ns1, team-* ,,")
    assert globs.patterns == ("ns1", "team-*")
    assert not parse_globs("  ")


@pytest.mark.timeout(10)
def test_a_malicious_glob_does_not_hang_the_operator() -> None:
    assert not Globs(("*a" * 30 + "b",)).matches("a" * 63)


@given(st.text(alphabet="ab*?", max_size=8), st.text(alphabet="ab", max_size=8))
def test_globs_agree_with_a_plain_definition(pattern: str, text: str) -> None:
    def plain(p: str, t: str) -> bool:
        if not p:
            return not t
        if p[0] == "*":
            return plain(p[1:], t) or (bool(t) and plain(p, t[1:]))
        return bool(t) and p[0] in ("?", t[0]) and plain(p[1:], t[1:])

    assert Globs((pattern,)).matches(text) == plain(pattern, text)
