"""When registries are asked: spread, shared, and true for whoever reads an old nextPollAt."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from copyrator.api.bundle_spec import BundleSpec
from copyrator.bundles.version.rhythm import (
    PollSlot,
    interval_of,
    poll_retry,
    query_of,
    retry_delay,
    same_rhythm,
)

NOW = datetime(2026, 1, 1, 12, 0, 0, 500_000, tzinfo=UTC)
SPEC = BundleSpec(namespace="n", name="b", registry="r", repo="app", project_namespace="n")


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
        (
            poll_retry(PollSlot("app", 600.0, phase, 0), 1, NOW, asked, first=15.0) - NOW
        ).total_seconds()
        for phase, asked in [(0.0, 120.0), (300.0, 120.0), (300.0, 4000.0)]
    ]

    assert waits == [120, 150, 4300]


def test_failed_polls_are_retried_soon_then_at_the_slots() -> None:
    slot = PollSlot("app", 86400.0, 3.0, 0)
    waits = [(poll_retry(slot, n, NOW, first=15.0) - NOW).total_seconds() for n in range(1, 20)]

    assert waits[:3] == [15, 30, 60]
    assert waits == sorted(waits)
    assert waits[-1] == (slot.after(NOW) - NOW).total_seconds()


@pytest.mark.parametrize("asked", [1.0, 120.0, 3600.0])
def test_a_registry_that_asks_for_time_gets_it_and_no_stampede_afterwards(asked: float) -> None:
    slots = [PollSlot(f"app{i}", 600.0, i * 6.0, 0) for i in range(100)]

    waits = [(poll_retry(slot, 1, NOW, asked, first=15.0) - NOW).total_seconds() for slot in slots]

    assert min(waits) >= asked
    assert max(waits) <= max(asked * 1.5, 15.0)
    assert asked < 15.0 or len(set(waits)) == len(slots)


def test_deploys_are_retried_ever_more_slowly_up_to_a_quarter_of_an_hour() -> None:
    assert [retry_delay(30.0, n) for n in range(1, 8)] == [30, 60, 120, 240, 480, 900, 900]
    assert retry_delay(3600.0, 5) == 3600.0
    assert retry_delay(30.0, 10**6) == 900
