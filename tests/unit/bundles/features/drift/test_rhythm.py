"""When drift is looked for: each Bundle at a moment of its own in the interval."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from copyrator.bundles.features.drift.record import check_rhythm

NOW = datetime(2026, 1, 1, 12, 0, 0, 500_000, tzinfo=UTC)


@given(
    uid=st.text(min_size=1, max_size=36),
    interval=st.integers(900, 30 * 24 * 3600).map(float),
    moment=st.floats(1.5e9, 4e9).map(lambda seconds: datetime.fromtimestamp(seconds, UTC)),
)
def test_checks_are_in_whole_seconds_one_interval_apart(
    uid: str, interval: float, moment: datetime
) -> None:
    rhythm = check_rhythm(uid, interval)
    first = rhythm.after(moment)
    assert moment < first <= moment + timedelta(seconds=interval)
    assert first.microsecond == 0
    assert rhythm.after(first) == first + timedelta(seconds=interval)
    assert rhythm.after(first - timedelta(microseconds=1)) == first
    assert rhythm.count(moment, first) == 1
    assert rhythm.count(first, first) == 0
    assert rhythm.count(first, first - timedelta(hours=1)) == 0
    assert rhythm.count(moment, first + timedelta(seconds=3 * interval)) == 4


def test_the_checks_of_three_hundred_bundles_are_spread_over_the_interval() -> None:
    """No quarter of a minute of fifteen has more than a few of them."""
    at = [check_rhythm(f"uid-{number}", 900.0).after(NOW) for number in range(300)]
    quarters = [int((one - NOW).total_seconds() // 15) for one in at]
    assert max(map(quarters.count, quarters)) <= 15


def test_an_upgrade_moves_no_check() -> None:
    assert check_rhythm("uid-1", 3600.0).phase == 3495


def test_an_interval_of_less_than_a_second_is_one() -> None:
    assert [check_rhythm("uid-1", interval).interval for interval in (0.0, 1.5)] == [1, 1]
