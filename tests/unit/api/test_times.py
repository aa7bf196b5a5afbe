"""Times and durations are read and written as Kubernetes does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.api.text import (
    format_duration,
    format_micro_time,
    format_time,
    parse_duration,
    parse_retry_after,
    parse_time,
)

DURATIONS = [
    ("30s", 30.0),
    ("5m", 300.0),
    ("1h30m", 5400.0),
    ("1.5h", 5400.0),
    ("500ms", 0.5),
    ("1h1m1s", 3661.0),
    ("0s", 0.0),
]


@pytest.mark.parametrize(("text", "seconds"), DURATIONS)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "5", "s", "5 m", "-5m", "5d", "5m ", "5m\n", "1e3s", "٣s", "9" * 40 + "s"]
)
def test_what_is_no_duration_is_none(text: str) -> None:
    assert parse_duration(text) is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (1.5, "1.5s"), (60, "1m"), (5400, "1h30m"), (3601, "1h1s")]
)
def test_a_duration_is_written_shortly(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(min_value=0, max_value=10**7))
def test_what_is_written_is_read_alike(seconds: int) -> None:
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds)


def test_a_time_is_written_in_utc() -> None:
    there = datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=3)))
    assert format_time(there) == "2025-12-31T23:00:00Z"
    assert parse_time("2025-12-31T23:00:00Z") == there


def test_a_time_without_a_zone_is_utc() -> None:
    assert parse_time("2026-01-01T00:00:00") == datetime(2026, 1, 1, tzinfo=UTC)


def test_a_time_of_an_event_has_microseconds() -> None:
    there = datetime(2026, 1, 1, 2, 0, 0, 5, tzinfo=timezone(timedelta(hours=3)))
    assert format_micro_time(there) == "2025-12-31T23:00:00.000005Z"


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("elsewhere")
def test_the_zone_of_the_machine_means_nothing() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert format_time(moment) == "2026-01-01T00:00:00Z"
    assert format_micro_time(moment) == "2026-01-01T00:00:00.000000Z"
    for text in ("2026-01-01T00:00:00", "2026-01-01T00:00:00Z", "2026-01-01T09:00:00+09:00"):
        found = parse_time(text)
        assert found == moment
        assert found.tzinfo is UTC


def test_a_duration_has_at_most_32_characters_and_three_places() -> None:
    assert parse_duration("0" * 31 + "s") == 0.0
    assert parse_duration("0" * 32 + "s") is None
    assert format_duration(1.23456) == "1.235s"


@pytest.mark.parametrize("junk", [None, 5, "", "yesterday", "0001-01-01T00:00:00+23:59", []])
def test_what_is_no_time_is_none(junk: object) -> None:
    assert parse_time(junk) is None


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("30", 30.0),
        (7, 7.0),
        ("-1", -1.0),
        ("inf", float("inf")),
        ("Wed, 25 Nov 2026 00:01:00 GMT", 60.0),
        ("Tue, 24 Nov 2026 23:59:00 GMT", -60.0),
        ("nan", None),
        ("soon", None),
        (None, None),
        ([], None),
        (10**400, None),
    ],
)
def test_retry_after_is_a_number_or_a_date(value: object, seconds: float | None) -> None:
    assert parse_retry_after(value, {"Date": "Wed, 25 Nov 2026 00:00:00 GMT"}) == seconds


def test_without_the_answers_date_a_retry_after_date_says_nothing() -> None:
    assert parse_retry_after("Wed, 25 Nov 2026 00:01:00 GMT", {}) is None
