"""When registries are asked: spread, shared, and true for whoever reads an old nextPollAt."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.api.bundle_spec import BundleSpec
from copyrator.bundles.schedule import next_slot, poll_retry, retry_delay, same_rhythm, slot_offset

NOW = datetime(2026, 1, 1, 12, 0, 0, 500_000, tzinfo=UTC)
SPEC = BundleSpec(namespace="n", name="b", registry="r", repo="app", project_namespace="n")


@given(
    interval=st.floats(0.5, 86400),
    seconds=st.floats(0, 10**8),
    repo=st.text("abc", min_size=1),
)
def test_the_next_slot_is_after_now_and_at_most_an_interval_away(
    interval: float, seconds: float, repo: str
) -> None:
    spec = replace(SPEC, interval=interval, repo=repo)
    now = NOW + timedelta(seconds=seconds)

    slot = next_slot(spec, now)

    assert timedelta(0) < slot - now <= timedelta(seconds=max(interval, 1.0) + 1.0)
    assert slot.microsecond == 0


def test_slots_follow_each_other_by_the_interval() -> None:
    first = next_slot(SPEC, NOW)

    assert next_slot(SPEC, first) - first == timedelta(seconds=SPEC.interval)
    assert same_rhythm(SPEC, first, next_slot(SPEC, first + timedelta(hours=7)))


def test_bundles_that_share_a_tag_come_due_together() -> None:
    assert next_slot(replace(SPEC, name="x", namespace="y"), NOW) == next_slot(SPEC, NOW)


def test_all_ranges_of_a_repository_come_due_together_but_its_tags_apart() -> None:
    def due(version: str) -> datetime:
        return next_slot(replace(SPEC, version=version), NOW)

    assert due("1.0.*") == due(">=1 <2") == due("*")
    assert len({due("*"), due("1.0.0"), due("1.0.1")}) == 3


def test_a_thousand_repositories_are_spread_over_the_interval() -> None:
    slots = Counter(
        int(slot_offset(replace(SPEC, repo=f"app{i}")) // (SPEC.interval / 10)) for i in range(1000)
    )

    assert len(slots) == 10
    assert max(slots.values()) < 150


@pytest.mark.parametrize(
    ("gap", "same"),
    [(0, True), (600, True), (6000, True), (601, True), (300, False), (-600, False), (5, False)],
)
def test_knows_whether_an_old_date_still_tells_the_truth(gap: float, same: bool) -> None:
    assert same_rhythm(SPEC, NOW, NOW + timedelta(seconds=gap)) is same


def test_failed_polls_are_retried_soon_then_at_the_slots() -> None:
    spec = replace(SPEC, interval=86400.0)
    waits = [(poll_retry(spec, n, NOW) - NOW).total_seconds() for n in range(1, 20)]

    assert waits[:3] == [15, 30, 60]
    assert waits == sorted(waits)
    assert waits[-1] == (next_slot(spec, NOW) - NOW).total_seconds()


def test_a_registry_that_asks_for_time_gets_it() -> None:
    assert poll_retry(SPEC, 1, NOW, 120.0) - NOW == timedelta(seconds=120)
    assert poll_retry(SPEC, 1, NOW, 3600.0) - NOW == timedelta(seconds=3600)


def test_deploys_are_retried_ever_more_slowly_up_to_a_quarter_of_an_hour() -> None:
    assert [retry_delay(30.0, n) for n in range(1, 8)] == [30, 60, 120, 240, 480, 900, 900]
    assert retry_delay(3600.0, 5) == 3600.0
    assert retry_delay(30.0, 10**6) == 900
