"""The times of polls and checks: spread, shared, and the same after a restart."""

import hashlib
import random
import statistics
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.replacing import replace

from copyrator.api.bundle_spec import BundleSpec
from copyrator.bundles.engine.poll import (
    LAST,
    Rhythm,
    choose_rhythm,
    interval_of,
    poll_retry,
    query_of,
    retry_delay,
    same_rhythm,
    unready_at,
)

NOW = datetime(2026, 1, 1, 12, 0, 0, 500_000, tzinfo=UTC)
SPEC = BundleSpec(namespace="n", name="b", registry="r", repo="app", project_namespace="n")


def choose(
    query: str,
    interval: float,
    known: Sequence[Rhythm | None] = (),
    *,
    cluster: int = 0,
    announced: datetime | None = None,
) -> Rhythm:
    digest = hashlib.blake2b(query.encode(), key=str(cluster).encode()).hexdigest()
    return choose_rhythm(query, interval, digest, known, announced)


def spread(count: int, interval: float, *, cluster: int = 0) -> list[Rhythm]:
    found = list[Rhythm]()
    for i in range(count):
        found.append(choose(f"app{i}", interval, found, cluster=cluster))
    return found


def busiest(rhythms: Sequence[Rhythm]) -> int:
    """Polls in the second that has most of them."""
    return max(Counter(int(one.after(NOW).timestamp()) for one in rhythms).values())


def say(rhythm: Rhythm) -> datetime:
    """What a status says of the next poll: whole seconds."""
    return rhythm.after(NOW).replace(microsecond=0)


@pytest.mark.parametrize(
    ("count", "interval", "usual", "most"),
    [(1000, 60.0, 18, 18), (1000, 600.0, 3, 3), (1000, 3600.0, 2, 2), (150, 10.0, 16, 17)],
)
def test_the_busiest_second_has_little_more_than_the_mean(
    count: int, interval: float, usual: int, most: int
) -> None:
    found = [busiest(spread(count, interval, cluster=cluster)) for cluster in range(8)]

    assert statistics.median(found) <= usual
    assert max(found) <= most


def test_it_stays_so_while_bundles_come_and_go() -> None:
    chance, rhythms = random.Random(1), spread(1000, 60.0)
    for i in range(2000):
        rhythms.pop(chance.randrange(len(rhythms)))
        rhythms.append(choose(f"new{i}", 60.0, rhythms))

    assert busiest(rhythms) <= 19


def test_within_a_second_polls_are_spread_too() -> None:
    tenths = Counter(int(one.phase * 10) for one in spread(1000, 60.0))

    assert max(tenths.values()) <= 9
    assert len(tenths) > 450  # of 600


def test_clusters_do_not_ask_together() -> None:
    assert len({int(choose("app", 600.0, cluster=i).phase) for i in range(10)}) == 10


def test_the_same_query_has_the_same_rhythm() -> None:
    first = choose("app", 60.0)
    crowd = [Rhythm(60.0, first.phase, f"other{i}") for i in range(3)]

    assert choose("app", 60.0, crowd) != first
    assert choose("app", 60.0, [*crowd, None, first]) == first
    assert choose("app", 60.0, [first, *crowd], announced=NOW) == first


def test_bundles_that_share_a_query_count_once() -> None:
    first = choose("app", 60.0)
    same = [Rhythm(60.0, first.phase, "x") for _ in range(5)]
    seconds = set(range(60)) - {int(first.phase)}
    others = [Rhythm(60.0, second, f"{query}{second}") for second in seconds for query in "yz"]

    assert choose("app", 60.0, [*same, *others]) == first


def test_other_intervals_do_not_count() -> None:
    first = choose("app", 60.0)

    assert choose("app", 60.0, [Rhythm(90.0, first.phase, "x"), Rhythm(90.0, 1.0, "app")]) == first


@pytest.mark.parametrize("interval", [7.5, 60.0, 600.0, 86400.0])
def test_after_a_restart_each_is_asked_when_its_status_says(interval: float) -> None:
    before, after = spread(500, interval), list[Rhythm]()
    for one in random.Random(1).sample(before, len(before)):
        after.append(choose(one.query, interval, after, announced=say(one)))

    announced = {one.query: say(one) for one in before}
    assert all(one.includes(announced[one.query]) for one in after)
    assert busiest(after) == busiest(before)


def test_dates_of_another_rhythm_do_not_make_a_crowd() -> None:
    """As after a restore from another cluster's backup, or a change of the interval."""
    after = list[Rhythm]()
    for one in spread(1000, 60.0, cluster=1):
        after.append(choose(one.query, 600.0, after, announced=say(one)))

    assert busiest(after) <= 5


@given(
    interval=st.floats(1.0, 10**9),
    seconds=st.floats(0, 10**8),
    cluster=st.integers(0, 1000),
    known=st.none() | st.floats(-(10**9), 10**9),
)
def test_the_next_moment_is_after_now_and_at_most_an_interval_away(
    interval: float, seconds: float, cluster: int, known: float | None
) -> None:
    now = NOW + timedelta(seconds=seconds)
    date = None if known is None else NOW + timedelta(seconds=known)

    rhythm = choose("app", interval, cluster=cluster, announced=date)

    first = rhythm.after(now)
    assert timedelta(0) < first - now <= timedelta(seconds=interval, milliseconds=1)
    assert rhythm.after(first) - first == pytest.approx(
        timedelta(seconds=interval), abs=timedelta(milliseconds=1)
    )
    assert rhythm.includes(first.replace(microsecond=0))


@pytest.mark.parametrize("phase", [10.0, 10.5, 10.999])
def test_a_status_means_the_time_in_the_second_that_it_says(phase: float) -> None:
    rhythm = Rhythm(60.0, phase)
    found = [at for at in range(130) if rhythm.includes(datetime.fromtimestamp(at, UTC))]
    assert found == [10, 70]


def test_the_checks_between_two_times_are_counted() -> None:
    rhythm = Rhythm(60.0, 7.0)
    first = rhythm.after(NOW)
    second = timedelta(seconds=1)
    assert rhythm.count(NOW, first - second) == 0
    assert rhythm.count(NOW, first) == 1
    assert rhythm.count(first, first + 59 * second) == 0
    assert rhythm.count(NOW, first + 180 * second) == 4
    assert rhythm.count(first, NOW) == 0


def test_all_ranges_of_a_repository_are_one_query_and_its_tags_others() -> None:
    def query(version: str) -> str:
        return query_of(replace(SPEC, version=version))

    assert query("1.0.*") == query(">=1 <2") == query("*")
    assert len({query("*"), query("1.0.0"), query("1.0.1")}) == 3


def test_bundles_that_share_a_tag_have_one_query() -> None:
    assert query_of(replace(SPEC, name="x", namespace="y")) == query_of(SPEC)


@pytest.mark.parametrize(
    ("gap", "same"),
    [
        (0, True),
        (600, True),
        (6000, True),
        (601, True),
        (599, True),
        (598, False),
        (602, False),
        (300, False),
        (-600, False),
        (5, False),
    ],
)
def test_knows_whether_an_old_date_still_tells_the_truth(gap: float, same: bool) -> None:
    assert same_rhythm(SPEC, NOW, NOW + timedelta(seconds=gap)) is same


@pytest.mark.parametrize(("interval", "seconds"), [(0.2, 1.0), (1.0, 1.0), (1.5, 1.5)])
def test_polls_are_a_second_apart_at_least(interval: float, seconds: float) -> None:
    assert interval_of(replace(SPEC, interval=interval)) == seconds


def test_a_bundle_that_has_to_wait_resumes_by_its_place_in_the_interval() -> None:
    waits = [
        (poll_retry(Rhythm(600.0, phase), 1, NOW, asked, first=15.0) - NOW).total_seconds()
        for phase, asked in [(0.0, 120.0), (300.0, 120.0), (300.0, 4000.0)]
    ]

    assert waits == [120, 150, 4300]


def test_failed_polls_are_retried_soon_then_at_the_regular_times() -> None:
    rhythm = Rhythm(86400.0, 3.0)
    waits = [(poll_retry(rhythm, n, NOW, first=15.0) - NOW).total_seconds() for n in range(1, 20)]

    assert waits[:3] == [15, 30, 60]
    assert waits == sorted(waits)
    assert waits[-1] == (rhythm.after(NOW) - NOW).total_seconds()


@pytest.mark.parametrize("asked", [1.0, 120.0, 3600.0])
def test_a_registry_that_asks_for_time_gets_it_and_no_stampede_afterwards(asked: float) -> None:
    times = [Rhythm(600.0, i * 6.0) for i in range(100)]

    waits = [(poll_retry(one, 1, NOW, asked, first=15.0) - NOW).total_seconds() for one in times]

    assert min(waits) >= asked
    assert max(waits) <= max(asked * 1.5, 15.0)
    assert asked < 15.0 or len(set(waits)) == len(times)


def test_deploys_are_retried_ever_more_slowly_up_to_a_quarter_of_an_hour() -> None:
    assert [retry_delay(30.0, n) for n in range(1, 8)] == [30, 60, 120, 240, 480, 900, 900]
    assert retry_delay(3600.0, 5) == 3600.0
    assert retry_delay(30.0, 10**6) == 900


@pytest.mark.parametrize(
    ("failures", "interval", "minutes"),
    [
        # With the third failure or after two intervals, whichever is later ...
        (3, 600.0, 20.0),
        (3, 60.0, 2.0),
        (3, 10.0, 1 / 3),
        (9, 60.0, 2.0),
        # ... at most 30 minutes.
        (3, 900.0, 30.0),
        (3, 901.0, 30.0),
        (3, 86400.0, 30.0),
        (1, 10.0, 30.0),
        (2, 600.0, 30.0),
        (2, 86400.0, 30.0),
    ],
)
def test_failed_polls_make_ready_false_after_some_time(
    failures: int, interval: float, minutes: float
) -> None:
    assert unready_at(NOW, failures, interval) == NOW + timedelta(minutes=minutes)


def test_a_status_may_say_the_end_of_all_times() -> None:
    """Anybody who may write it can; the Bundle is reconciled on."""
    assert Rhythm(3600.0, 17.0).after(LAST.replace(microsecond=0)) == LAST
