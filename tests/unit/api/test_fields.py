"""JSON from outside: read, or refused with one kind of error."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.steps import STEP_SECONDS, assert_quick

from copyrator.api.docker_config import DOCKER_CONFIG_BYTES
from copyrator.api.schema import UnreadableJsonError, read_json


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
        "nonsense",
        b"\xff",
        "NaN",
        "1e999",
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
    "number",
    ["1e308", "1e-308", "5e-324", "1e23", "2.2250738585072011e-308", "1.5", "1." + "3" * 800, "12"],
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
