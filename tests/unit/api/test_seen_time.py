"""What time an operator saw, by the renewals of its Lease."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.api.seen_time import ALL_SEEN, KEPT, MAX_GAPS, Gap, SeenTime, parse_seen

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def gap(start: float, end: float) -> Gap:
    return Gap(at(start), at(end))


GAPS = SeenTime(at(-60), (gap(10, 20), gap(30, 31)), at(40))


@pytest.mark.parametrize(
    ("start", "end", "minutes"),
    [
        (0, 10, 10),
        (0, 20, 10),
        (0, 40, 29),
        (12, 18, 0),
        (15, 35, 14),
        (-90, 0, 60),
        (-90, -70, 0),
        (5, 5, 0),
        (5, -5, 0),
    ],
    ids=[
        "before the gap",
        "the gap doesn't count",
        "nor do two",
        "within a gap",
        "from within one",
        "before the record began",
        "long before",
        "no time",
        "the clock was set back: never negative",
    ],
)
def test_time_counts_but_for_the_gaps(start: float, end: float, minutes: float) -> None:
    seen = GAPS.seen(at(start), at(end))
    assert seen == timedelta(minutes=minutes)
    assert GAPS.unseen(at(start), at(end)) == max(at(end) - at(start), timedelta()) - seen


@pytest.mark.parametrize(
    ("start", "minutes", "end"),
    [(0, 10, 10), (0, 11, 21), (0, 21, 32), (12, 1, 21), (-90, 60, 0), (35, 5, 40), (0, 0.5, 0.5)],
)
def test_when_it_reaches_a_duration(start: float, minutes: float, end: float) -> None:
    assert GAPS.reaches(at(start), timedelta(minutes=minutes)) == at(end)


def test_a_renewal_in_time_is_no_gap_and_a_late_one_is() -> None:
    first = ALL_SEEN.renewed_at(None, at(0) + timedelta(milliseconds=1))
    assert first == SeenTime(at(0) + timedelta(seconds=1), (), at(0) + timedelta(milliseconds=1))
    later = at(0) + timedelta(seconds=10)
    assert first.renewed_at(at(0), later) == SeenTime(first.since, (), later)
    late = at(0) + timedelta(seconds=10, milliseconds=1)
    found = first.renewed_at(at(0), late)
    assert found.gaps == (Gap(at(0), at(0) + timedelta(seconds=11)),)


def test_a_clock_that_is_set_forward_is_a_gap_and_one_that_is_set_back_is_none() -> None:
    seen = SeenTime(at(-60), (), at(0))
    assert seen.as_of(at(60)).gaps == (gap(0, 60),)
    assert seen.as_of(at(-30)).gaps == ()
    assert ALL_SEEN.as_of(at(60)) is ALL_SEEN


def test_gaps_that_touch_are_one_and_old_ones_are_forgotten() -> None:
    seen = SeenTime(at(-60), (gap(0, 1), gap(2, 3)), at(3))
    assert seen.renewed_at(at(3), at(5)).gaps == (gap(0, 1), gap(2, 5))
    much_later = at(1) + KEPT
    assert gap(0, 1) not in seen.renewed_at(much_later, much_later).gaps
    assert gap(2, 3) in seen.renewed_at(much_later, much_later).gaps


def test_of_too_many_gaps_the_nearest_become_one() -> None:
    gaps = (*(gap(10 * n, 10 * n + 1) for n in range(MAX_GAPS - 1)), gap(182, 183))
    found = SeenTime(at(-60), gaps, at(200)).renewed_at(at(200), at(300)).gaps
    assert len(found) == MAX_GAPS
    assert gap(180, 183) in found
    assert found[-1] == gap(200, 300)


def test_it_is_stored_as_text() -> None:
    text = "2026-05-04T11:00:00Z 2026-05-04T12:10:00Z+600s 2026-05-04T12:30:00Z+60s"
    assert GAPS.format() == text
    assert parse_seen(text, at(40)) == GAPS


@pytest.mark.parametrize(
    "text",
    [
        None,
        7,
        "",
        " ",
        "yesterday",
        "2026-05-04T11:00:00Z never",
        "2026-05-04T11:00:00Z 2026-05-04T12:10:00Z",
        "2026-05-04T11:00:00Z 9999-12-31T23:59:59Z+999999999s",
        "2026-05-04T11:00:00Z x+5s",
        "2026-05-04T11:00:00Z " + "2026-05-04T12:10:00Z+1s " * 200,
    ],
)
def test_anything_else_is_no_record(text: object) -> None:
    assert parse_seen(text, None) is None


MINUTES = st.integers(-100, 400)


@given(st.lists(st.tuples(MINUTES, MINUTES), max_size=30), MINUTES, st.integers(1, 200))
def test_what_it_reaches_is_when_so_much_was_seen(
    renewals: list[tuple[int, int]], start: int, minutes: int
) -> None:
    seen = SeenTime(at(-50))
    for before, now in renewals:
        seen = seen.renewed_at(at(before), at(now))
    end, wanted = seen.reaches(at(start), timedelta(minutes=minutes)), timedelta(minutes=minutes)
    assert seen.seen(at(start), end) == wanted
    assert seen.seen(at(start), end - timedelta(seconds=1)) < wanted
    assert len(seen.gaps) <= MAX_GAPS
    assert parse_seen(seen.format(), None) == SeenTime(seen.since, seen.gaps)
