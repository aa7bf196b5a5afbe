"""When a copy is read whole, by a clock of the test's own."""

import pytest
from tests.clock import Clock

from copyrator.api.keys import CopyKey
from copyrator.copies.targets.fights import CopyDriftTracker
from copyrator.copies.targets.kinds import LONGEST_STEP, ROUND_RATE, Round
from copyrator.copies.timing import DEFAULT_TIMING

KEY = CopyKey("secrets", "team", "app")


@pytest.fixture
def clock():
    return Clock()


def test_a_copy_is_read_at_once_and_then_not_before_ten_seconds_are_over(clock):
    drift = CopyDriftTracker(clock)
    assert drift.wait(KEY) is None
    drift.suspect(KEY, "5")
    assert drift.wait(KEY) == 0
    drift.reading(KEY)
    assert drift.wait(KEY) is None
    clock.now += 4
    drift.suspect(KEY, "6")
    assert drift.wait(KEY) == DEFAULT_TIMING.reread - 4
    clock.now += 6
    assert drift.wait(KEY) == 0


@pytest.mark.parametrize(
    ("seen", "written", "suspected"),
    [
        ("5", "5", False),
        ("5", "6", False),
        ("10", "9", True),
        ("a", "b", False),
        ("5", "b", False),
        ("a", "6", False),
        (None, "1", False),
    ],
)
def test_what_came_before_our_own_write_needs_no_look(clock, seen, written, suspected):
    drift = CopyDriftTracker(clock)
    drift.suspect(KEY, seen)
    drift.wrote(KEY, written)
    assert (drift.wait(KEY) is not None) == suspected


def test_what_was_read_long_ago_is_forgotten(clock):
    drift = CopyDriftTracker(clock)
    drift.reading(KEY)
    drift.suspect(KEY, "5")
    clock.now += DEFAULT_TIMING.reread - 1
    drift.forget_old()
    assert drift.wait(KEY) == 1
    clock.now += 2
    drift.forget_old()
    assert not drift._read


def test_a_copy_that_was_never_read_is_read_at_once_also_when_the_clock_has_just_begun(clock):
    drift = CopyDriftTracker(clock)
    clock.now = 0.0
    drift.wrote(KEY, "4")
    drift.suspect(KEY, "5")
    assert drift.wait(KEY) == 0


def walked(clock, copies, seconds, step=10.0):
    """What a round reads, and the most at one time."""
    round_ = Round(clock, lambda: copies, chance=lambda: 0.5)
    clock.now += DEFAULT_TIMING.round_rest
    found, most = [], 0
    for _ in range(int(seconds / step)):
        clock.now += step
        due = round_.due()
        most = max(most, len(due))
        found += due
    return found, most


def test_every_copy_is_read_once_in_a_day_and_evenly(clock):
    names = [(f"team-{number}", "app") for number in range(1_000)]
    copies = {"secrets": names[:600], "configmaps": names[600:], "roles": []}
    found, most = walked(clock, copies, DEFAULT_TIMING.round)
    assert most == 1
    assert 990 <= len(found) <= 1_000
    assert len(set(found)) == len(found)


def test_never_more_than_a_few_in_a_second(clock):
    copies = {"secrets": [(f"team-{number}", "app") for number in range(500_000)]}
    _, most = walked(clock, copies, 600)
    assert most <= ROUND_RATE * 10 + 1


def test_nothing_is_read_in_the_first_hour_nor_in_a_burst_after_a_pause(clock):
    copies = {"secrets": [(f"team-{number}", "app") for number in range(100_000)]}
    round_ = Round(clock, lambda: copies)
    clock.now += DEFAULT_TIMING.round_rest
    assert round_.due() == []
    clock.now += DEFAULT_TIMING.round
    assert len(round_.due()) <= ROUND_RATE * LONGEST_STEP
