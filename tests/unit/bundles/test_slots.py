"""Polls spread evenly over their interval, for as long as Bundles come and go."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copyrator.bundles.version.rhythm import PollSlot, SlotAllocator

NOW = datetime(2026, 1, 1, 12, 0, 0, 500_000, tzinfo=UTC)


def spread(slots: SlotAllocator, count: int, interval: float) -> list[PollSlot]:
    return [slots.take(None, f"app{i}", interval, bundles=count) for i in range(count)]


def busiest(slots: Iterable[PollSlot]) -> int:
    """Polls in the second that has most of them."""
    return max(Counter(int(slot.after(NOW).timestamp()) for slot in slots).values())


def announced(slot: PollSlot) -> datetime:
    """What a status says of it: whole seconds."""
    return slot.after(NOW).replace(microsecond=0)


@pytest.mark.parametrize("start", [0.0, 0.3, 0.999])
@pytest.mark.parametrize(("interval", "most"), [(10.0, 100), (60.0, 17), (600.0, 2), (3600.0, 1)])
def test_the_busiest_second_has_its_share_and_no_more(
    interval: float, most: int, start: float
) -> None:
    assert busiest(spread(SlotAllocator(start), 1000, interval)) == most


def test_within_a_second_polls_are_spread_too() -> None:
    found = spread(SlotAllocator(0.4), 1000, 60.0)

    tenths = Counter(int(slot.phase * 10) for slot in found)

    assert max(tenths.values()) <= 3


def test_a_few_are_far_apart() -> None:
    moments = sorted(slot.phase for slot in spread(SlotAllocator(0.4), 4, 600.0))

    assert min(b - a for a, b in itertools.pairwise(moments)) > 60


def test_clusters_do_not_ask_together() -> None:
    assert len({int(SlotAllocator(i / 10).take(None, "app", 60.0).phase) for i in range(10)}) == 10


def test_the_same_query_has_the_same_slot() -> None:
    slots = SlotAllocator(0.4)
    first = slots.take(None, "app", 60.0)

    assert slots.take(None, "app", 60.0) is first
    assert slots.take(first, "app", 60.0) is first
    assert slots.take(None, "app", 90.0) is not first
    assert len(slots) == 2


def test_what_nobody_asks_any_more_leaves_its_place_to_others() -> None:
    slots = SlotAllocator(0.4)
    held = [slots.take(None, f"old{i}", 60.0) for i in range(600)]
    for slot in held[::2]:
        slots.give_back(slot)
    moved = [slots.take(slot, f"new{i}", 60.0, bundles=300) for i, slot in enumerate(held[1::2])]

    assert len(slots) == 300
    assert busiest(moved) <= 6  # as they come and go; 5 would be their share

    for slot in moved:
        slots.give_back(slot)
    assert len(slots) == 0


def test_a_slot_stays_while_anybody_holds_it_and_then_its_place_is_free() -> None:
    slots = SlotAllocator(0.4)
    others = [slots.take(None, f"other{i}", 5.0) for i in range(4)]
    held = [slots.take(None, "app", 5.0) for _ in range(3)]
    assert held[0].holders == 3
    for slot in held[:2]:
        slots.give_back(slot)
    assert slots.take(None, "app", 5.0) is held[2]
    for _ in range(2):
        slots.give_back(held[2])
    assert len(slots) == 4
    assert slots.take(None, "new", 5.0).bin == held[2].bin
    assert held[2].bin not in {slot.bin for slot in others}


@pytest.mark.parametrize("interval", [7.5, 60.0, 600.0, 86400.0])
def test_after_a_restart_each_is_asked_when_its_status_says(interval: float) -> None:
    before = spread(SlotAllocator(0.4), 1000, interval)
    restarted = SlotAllocator(0.7)
    after = [
        restarted.take(None, slot.query, interval, announced=announced(slot), bundles=1000)
        for slot in random.Random(1).sample(before, len(before))
    ]

    by_query = {slot.query: slot for slot in before}
    for slot in after:
        late = slot.after(NOW) - announced(by_query[slot.query])
        assert abs((late.total_seconds() + interval / 2) % interval - interval / 2) <= 1.0
    assert busiest(after) <= busiest(before) * 1.5


def test_when_the_interval_has_changed_the_old_dates_do_not_make_a_crowd() -> None:
    before = spread(SlotAllocator(0.4), 1000, 60.0)
    slots = SlotAllocator(0.7)

    after = [
        slots.take(None, slot.query, 600.0, announced=announced(slot), bundles=1000)
        for slot in before
    ]

    assert busiest(after) <= 3


@given(
    interval=st.floats(1.0, 10**9),
    seconds=st.floats(0, 10**8),
    start=st.floats(0, 1, exclude_max=True),
    known=st.none() | st.floats(-(10**9), 10**9),
)
def test_the_next_moment_is_after_now_and_at_most_an_interval_away(
    interval: float, seconds: float, start: float, known: float | None
) -> None:
    now = NOW + timedelta(seconds=seconds)
    date = None if known is None else NOW + timedelta(seconds=known)

    slot = SlotAllocator(start).take(None, "app", interval, announced=date)

    first = slot.after(now)
    assert timedelta(0) < first - now <= timedelta(seconds=interval, milliseconds=1)
    assert slot.after(first) - first == pytest.approx(
        timedelta(seconds=interval), abs=timedelta(milliseconds=1)
    )
