"""Headers of any content, as long as they may be, are read in little processor time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.steps import STEP_SECONDS, assert_quick

from copyrator.oci.auth import parse_challenges
from copyrator.oci.exchange import REGISTRY_HEADER_BYTES, next_target
from copyrator.oci.transport import DEFAULT_RETRY_AFTER, RETRY_AFTER_CAP, retry_after

PIECES = [
    "a", "a ", "a=", 'a="', '\\"x=', "a-", "-a", 'b="\\', "Bearer,", ", ", ",Basi", 'Bearer a="b" ',
    "rel=", 'rel="', "rel  ", 'rel="next ', "next ", "<", "<a", "<a>;", "rel=next;", "=", '"', "\\",
    " ", "1", "1_", "(", "()", ":", "Mon, ", "Mon, 01 Jan 2020 00:00:00 +", "-", "\u00e9",
]  # fmt: skip


def read_retry_after(header: str) -> float:
    return retry_after({"Retry-After": header, "Date": header})


READERS: dict[str, Callable[[str], Any]] = {
    "WWW-Authenticate": lambda header: parse_challenges([header] * 64),
    "Link": lambda header: next_target([header] * 64),
    "Retry-After": read_retry_after,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("start", ["", "Bearer ", 'Bearer a="', '<a>; rel="'])
def test_a_long_header_takes_no_long_step(read: Callable[[str], Any], start: str) -> None:
    for piece in PIECES:
        header = (start + piece * REGISTRY_HEADER_BYTES)[:REGISTRY_HEADER_BYTES]
        assert_quick(lambda: read(header), STEP_SECONDS)  # noqa: B023


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@given(
    pieces=st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=6),
    times=st.integers(1, 3000),
)
def test_no_mixture_takes_a_long_step_either(
    read: Callable[[str], Any], pieces: list[str], times: int
) -> None:
    header = ("".join(pieces) * times)[:REGISTRY_HEADER_BYTES]
    assert_quick(lambda: read(header), STEP_SECONDS)


@given(st.text(), st.text())
def test_any_retry_after_is_a_time_within_bounds(value: str, date: str) -> None:
    asked = retry_after({"Retry-After": value, "Date": date})
    assert 1.0 <= asked <= RETRY_AFTER_CAP
    assert DEFAULT_RETRY_AFTER <= RETRY_AFTER_CAP


def test_what_stands_beyond_the_bytes_that_are_read_does_not_end_a_tag_list() -> None:
    padding = "<a>; rel=prev, " + "x" * REGISTRY_HEADER_BYTES
    assert next_target([padding, "<b>; rel=next"]) == ""
