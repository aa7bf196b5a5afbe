"""Selectors mean here what they mean to the API server."""

from __future__ import annotations

from typing import Any

import pytest

from copyrator.api.selectors import (
    MAX_REQUIREMENTS,
    LabelSelector,
    Operator,
    Requirement,
    read_selector,
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


def many(requirements: int, values: int) -> dict[str, Any]:
    texts = [f"v{number}" for number in range(values)]
    return {
        "matchExpressions": [
            {"key": f"k{number}", "operator": "In", "values": texts}
            for number in range(requirements)
        ]
    }


def test_a_selector_of_sixty_four_requirements_of_sixty_four_values_is_accepted() -> None:
    selector = read_selector(many(MAX_REQUIREMENTS, 64))
    last = f"v{64 - 1}"
    assert selector.matches({f"k{number}": last for number in range(MAX_REQUIREMENTS)})
    assert not selector.matches({f"k{number}": last for number in range(MAX_REQUIREMENTS - 1)})
