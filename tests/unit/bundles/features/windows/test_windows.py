"""The gate of ``spec.windows``: when it is open, and when it opens next, in any time zone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from time import tzset
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.builders.bundles import bundle, parsed

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.bundles.engine.gate import PASSED, Candidate, Facts, Occasion, Waiting
from copyrator.bundles.features.windows.fields import (
    DAYS,
    Window,
    WindowsSpec,
    is_open,
    next_opening,
    shown,
)
from copyrator.bundles.features.windows.gates import GATE

BERLIN = "Europe/Berlin"
MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def machine_is_far_away(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine's own zone, 14 hours before UTC, is of no account."""
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "Pacific/Kiritimati")
        tzset()
        yield
    tzset()


def window(text: str, zone: str = BERLIN) -> Window:
    """``Mon,Tue 09:00-17:00``."""
    days, hours = text.split(" ")
    start, end = (int(one[:2]) * 60 + int(one[3:]) for one in hours.split("-"))
    return Window(frozenset(DAYS.index(day) for day in days.split(",")), start, end, zone)


def at(text: str, zone: str = BERLIN, fold: int = 0) -> datetime:
    """A wall time, in UTC: ``2026-03-29 02:30``."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC)


@pytest.mark.parametrize(
    ("hours", "opens", "now"),
    [
        ("Mon 09:00-17:00", True, "2026-11-23 09:00"),
        ("Mon 09:00-17:00", True, "2026-11-23 16:59:59.999"),
        ("Mon 09:00-17:00", False, "2026-11-23 17:00"),
        ("Mon 09:00-17:00", False, "2026-11-23 08:59:59.999"),
        ("Mon 09:00-17:00", False, "2026-11-24 12:00"),
        ("Mon 09:00-24:00", True, "2026-11-23 23:59"),
        ("Mon 09:00-24:00", False, "2026-11-24 00:00"),
        # Over midnight the day is that of the opening.
        ("Fri 22:00-06:00", True, "2026-11-27 22:00"),
        ("Fri 22:00-06:00", True, "2026-11-28 05:59"),
        ("Fri 22:00-06:00", False, "2026-11-28 06:00"),
        ("Fri 22:00-06:00", False, "2026-11-27 05:00"),
        ("Sun 22:00-06:00", True, "2026-11-23 05:00"),
    ],
)
def test_a_window_is_open_from_its_beginning_to_just_before_its_end(
    hours: str, opens: bool, now: str
) -> None:
    assert is_open([window(hours)], at(now)) is opens


def test_the_zone_decides_the_day() -> None:
    sunday = window("Sun 00:00-24:00", "Pacific/Auckland")
    assert is_open([sunday], datetime(2026, 11, 28, 12, tzinfo=UTC))
    assert not is_open([sunday], datetime(2026, 11, 29, 12, tzinfo=UTC))


def test_a_window_later_today_is_found_where_the_machine_has_tomorrow() -> None:
    later = window("Mon 13:00-17:00")
    now = at("2026-11-23 12:00")
    assert next_opening([later], now) == (at("2026-11-23 13:00"), later)


def test_hours_that_summer_time_skips_never_open() -> None:
    skipped = window("Sun 02:15-02:45")
    before = at("2026-03-29 01:30")
    assert not any(is_open([skipped], before + number * MINUTE) for number in range(120))
    found = next_opening([skipped], before)
    assert found == (at("2026-04-05 02:15"), skipped)


def test_a_window_whose_beginning_is_skipped_opens_with_what_is_left() -> None:
    late = window("Sun 02:30-05:00")
    found = next_opening([late], at("2026-03-29 01:30"))
    assert found == (at("2026-03-29 03:00"), late)


def test_hours_that_are_repeated_open_twice() -> None:
    twice = window("Sun 02:15-02:45")
    first, second = at("2026-10-25 02:15"), at("2026-10-25 02:15", fold=1)
    assert second - first == timedelta(hours=1)
    assert next_opening([twice], at("2026-10-25 01:00")) == (first, twice)
    assert not is_open([twice], first + timedelta(minutes=30))
    assert next_opening([twice], first + timedelta(minutes=30)) == (second, twice)
    # The clock goes back into a window that has closed already.
    back = window("Sun 01:00-02:30")
    closed = at("2026-10-25 02:30")
    assert next_opening([back], closed) == (at("2026-10-25 02:00", fold=1), back)


def test_of_several_windows_the_first_to_open_counts() -> None:
    weekend, tuesday = window("Sat,Sun 10:00-12:00"), window("Tue 09:00-10:00", "UTC")
    now = at("2026-11-23 12:00")
    assert next_opening([weekend, tuesday], now) == (at("2026-11-24 09:00", "UTC"), tuesday)


def test_of_windows_that_open_together_the_first_counts() -> None:
    one, other = window("Tue 09:00-12:00"), window("Mon,Tue 09:00-10:00")
    opening = at("2026-11-24 09:00")
    assert next_opening([one, other], at("2026-11-23 12:00")) == (opening, one)


def test_a_change_of_the_offset_later_on_the_same_day_is_found() -> None:
    late = window("Sun 02:30-05:00", "Pacific/Auckland")
    now = datetime(2026, 9, 26, 13, 30, tzinfo=UTC)
    assert next_opening([late], now) == (datetime(2026, 9, 26, 14, tzinfo=UTC), late)


ZONES = ("UTC", BERLIN, "America/St_Johns", "Australia/Lord_Howe", "Africa/Casablanca")
DAYS_AROUND = (datetime(2026, month, 20, tzinfo=UTC) for month in (2, 3, 10, 11))
SOME_DAY = st.sampled_from(tuple(DAYS_AROUND))


@settings(max_examples=60)
@example(frozenset({6}), 135, 165, BERLIN, datetime(2026, 3, 28, tzinfo=UTC), 0)
@example(frozenset({6}), 60, 150, BERLIN, datetime(2026, 10, 25, tzinfo=UTC), 90)
@given(
    st.frozensets(st.integers(0, 6), min_size=1),
    st.integers(0, 1439),
    st.integers(1, 1440),
    st.sampled_from(ZONES),
    SOME_DAY,
    st.integers(0, 14 * 1440),
)
def test_the_next_opening_is_the_first_minute_that_is_open(
    days: frozenset[int], start: int, end: int, zone: str, begin: datetime, minutes: int
) -> None:
    if start == end:
        end += 1
    windows = [Window(days, start, end, zone)]
    now = begin + minutes * MINUTE
    found = next_opening(windows, now)
    assert found is not None
    opening = found[0]
    assert opening > now
    assert is_open(windows, opening)
    # A window is open from its beginning, so the minute before is another one, or closed.
    ahead = int((opening - now) / MINUTE)
    was_open = is_open(windows, now)
    for number in range(1, min(ahead, 3000)):
        is_now = is_open(windows, now + number * MINUTE)
        assert not is_now or was_open, "it opened before"
        was_open = is_now


SPEC = BundleSpec(namespace="apps", name="shop", registry="r", repo="a", project_namespace="apps")


def judge(spec: BundleSpec, now: datetime) -> object:
    facts = Facts(BundleStatus(), Occasion.NEW_DIGEST)
    return GATE.judge(spec, Candidate("1.0.0", "sha256:0"), facts, now)


def test_the_gate_waits_until_the_next_opening_and_says_it() -> None:
    spec = SPEC.with_part(WindowsSpec((window("Mon 09:00-17:00"),)))
    assert GATE.concerns(spec)
    opening = at("2026-11-30 09:00")
    assert judge(spec, at("2026-11-23 17:00")) == Waiting(
        "OutsideWindow",
        "deploys begin only in spec.windows; the next one opens on Mon 2026-11-30 09:00 "
        "Europe/Berlin",
        opening,
    )
    assert judge(spec, opening) is PASSED


def test_the_gate_looks_again_each_day_where_no_window_opens() -> None:
    never = Window(frozenset(), 0, 60, BERLIN)
    spec = SPEC.with_part(WindowsSpec((never,)))
    text = "deploys begin only in spec.windows, of which none opens within two weeks"
    for hour in (0, 23):
        now = datetime(2026, 11, 23, hour, 30, tzinfo=UTC)
        assert judge(spec, now) == Waiting(
            "OutsideWindow", text, datetime(2026, 11, 24, tzinfo=UTC)
        )
    assert not GATE.concerns(SPEC)


def test_a_force_and_an_interrupted_attempt_pass_over_it() -> None:
    assert frozenset(Occasion) - GATE.occasions == {Occasion.FORCE, Occasion.INTERRUPTED}


@pytest.mark.parametrize(
    ("window", "wanted", "text"),
    [
        ({"from": "00:00"}, Window(), "00:00-24:00 UTC"),
        (
            {"days": ["Mon", "Tue", "Wed"], "from": "09:00", "to": "17:30"},
            Window(frozenset({0, 1, 2}), 540, 1050),
            "Mon-Wed 09:00-17:30 UTC",
        ),
        (
            {"days": ["Sat", "Mon", "Sat"], "to": "06:00", "timeZone": "Asia/Kolkata"},
            Window(frozenset({0, 5}), 0, 360, "Asia/Kolkata"),
            "Mon,Sat 00:00-06:00 Asia/Kolkata",
        ),
        ({"days": ["Mon", "Tue"]}, Window(frozenset({0, 1})), "Mon,Tue 00:00-24:00 UTC"),
        ({"days": ["Tue", "Wed", "Thu"]}, Window(frozenset({1, 2, 3})), "Tue-Thu 00:00-24:00 UTC"),
        (
            {"days": ["Mon", "Wed", "Fri"]},
            Window(frozenset({0, 2, 4})),
            "Mon,Wed,Fri 00:00-24:00 UTC",
        ),
        (
            {"days": ["Fri"], "from": "22:00", "to": "06:00"},
            Window(frozenset({4}), 1320, 360),
            "Fri 22:00-06:00 UTC",
        ),
    ],
)
def test_a_window_has_days_hours_and_a_zone(
    window: dict[str, Any], wanted: Window, text: str
) -> None:
    found = parsed(bundle(windows=[window]))
    assert found.part(WindowsSpec).windows == (wanted,)
    assert shown(found.part(WindowsSpec).windows) == text


def test_windows_are_shown_one_after_the_other() -> None:
    assert shown((Window(), Window(frozenset({6})))) == "00:00-24:00 UTC; Sun 00:00-24:00 UTC"


def test_without_windows_deploys_begin_at_any_time() -> None:
    assert parsed(bundle()).part(WindowsSpec).windows == ()
