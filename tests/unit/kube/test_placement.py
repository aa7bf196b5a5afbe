"""Which watches are open, and when a denied one is tried again, by a simulated clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Set
from dataclasses import dataclass
from itertools import pairwise

import pytest
from tests.unit.workqueue.simulation import SimulatedLoop, simulate

from copyrator.kube.errors import ApiError
from copyrator.kube.watch.informers import PlacementTiming, WatchPlacement

TIMING = PlacementTiming(check=5.0)


@dataclass
class Watch:
    """What is open at a place."""

    denial: str = ""
    is_open: bool = True

    def close(self) -> None:
        self.is_open = False


class Placement(WatchPlacement[str, Watch]):
    """Watches what it is told, and notes when what was done."""

    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__(TIMING, loop.time)
        self.told: set[str] = set()
        self.missing: dict[str, str | ApiError] = {}
        self.takes: dict[str, float] = {}
        self.kept: set[str] = set()
        self.remembers = True
        self.log: list[tuple[float, str]] = []
        self.held: Set[str] = set()
        self.checks = 0
        self.next: str | None = None
        self._loop = loop

    def tell(self, *places: str) -> None:
        self.told = set(places)
        self.arrange_soon()

    def note(self, what: str) -> None:
        self.log.append((round(self._loop.time(), 2), what))

    def choose(self, denied: Set[str], held: Set[str]) -> set[str]:
        self.note("choose")
        self.held = set(held)
        return {"b" if place == "a" and "a" in denied else place for place in self.told}

    async def find_missing(self, place: str) -> str:
        self.note(f"review {place}")
        await asyncio.sleep(self.takes.get(place, 0))
        missing = self.missing.get(place, "")
        if isinstance(missing, ApiError):
            raise missing
        return missing

    def open(self, place: str) -> None:
        self.note(f"open {place}")
        self.opened[place] = Watch()

    def may_end(self, place: str) -> bool:
        return place not in self.kept

    def forgets(self, place: str, *, is_unused: bool) -> bool:
        return is_unused and not self.remembers

    def on_denied(self, place: str, why: str, *, is_new: bool) -> None:
        assert place not in self.wanted
        self.note(f"{'denied' if is_new else 'still denied'} {place}: {why}")

    def on_checked(self) -> None:
        self.checks += 1
        if self.next is not None:
            self.tell(self.next)
            self.next = None

    def times_of(self, what: str) -> list[float]:
        return [moment for moment, noted in self.log if noted == what]


Story = Callable[[Placement], Awaitable[None]]


def run(story: Story) -> Placement:
    async def main(loop: SimulatedLoop) -> Placement:
        placement = Placement(loop)
        await story(placement)
        placement.close()
        return placement

    return simulate(main)


def test_changes_are_collected_and_open_watches_stay() -> None:
    async def story(placement: Placement) -> None:
        placement.tell("a")
        await asyncio.sleep(0.04)
        placement.tell("a", "c")
        await asyncio.sleep(1)
        assert placement.opened.keys() == {"a", "c"}
        placement.tell("c", "d")
        await asyncio.sleep(60)
        assert placement.opened.keys() == {"c", "d"}

    log = run(story).log
    assert [moment for moment, what in log if what == "choose"] == [0.05, 1.09]
    assert sorted(what for _, what in log if what.startswith("review")) == [
        "review a",
        "review c",
        "review d",
    ]


@pytest.mark.parametrize("remembers", [True, False])
def test_a_denied_place_is_replaced_and_retried_ever_later(remembers: bool) -> None:
    async def story(placement: Placement) -> None:
        placement.remembers = remembers
        placement.missing["a"] = "no permission"
        placement.tell("a")
        await asyncio.sleep(2500)
        assert placement.opened.keys() == {"b"}
        assert placement.chosen == placement.wanted == {"b"}
        placement.missing.clear()
        await asyncio.sleep(610)
        assert placement.opened.keys() == {"a"}
        assert placement.denied == {}

    placement = run(story)
    reviews = placement.times_of("review a")
    waits = [later - earlier for earlier, later in pairwise(reviews)]
    assert waits[:7] == pytest.approx([15, 30, 60, 120, 240, 480, 600], abs=TIMING.check)
    assert all(wait <= 600 + TIMING.check for wait in waits)
    assert len(placement.times_of("denied a: no permission")) == 1
    assert len(placement.times_of("still denied a: no permission")) == len(reviews) - 2


def test_a_watch_that_is_refused_is_closed_and_reviewed_before_it_is_opened_again() -> None:
    async def story(placement: Placement) -> None:
        placement.tell("a")
        await asyncio.sleep(1)
        watch, watch.denial = placement.opened["a"], "403"
        await asyncio.sleep(TIMING.check + 0.1)
        assert not watch.is_open
        assert placement.opened.keys() == {"b"}
        await asyncio.sleep(20)
        assert placement.opened.keys() == {"a"}

    log = [what for _, what in run(story).log if what != "choose"]
    assert log == [
        "review a",
        "open a",
        "denied a: 403",
        "review b",
        "open b",
        "review a",
        "open a",
    ]


def test_a_review_that_fails_is_repeated_at_the_next_check_and_denies_nothing() -> None:
    async def story(placement: Placement) -> None:
        placement.missing["c"] = ApiError("no answer")
        placement.tell("c")
        await asyncio.sleep(11)
        assert placement.denied == {}
        placement.missing.clear()
        await asyncio.sleep(5)
        assert placement.opened.keys() == {"c"}

    assert run(story).times_of("review c") == pytest.approx([0.05, 5.05, 10.05, 15.05])


def test_a_slow_review_is_sent_once_delays_no_other_and_counts_as_held() -> None:
    async def story(placement: Placement) -> None:
        placement.takes["c"] = 12
        placement.tell("c", "d")
        await asyncio.sleep(1)
        assert placement.opened.keys() == {"d"}
        placement.tell("c")
        await asyncio.sleep(12)
        assert placement.held == {"c", "d"}
        assert placement.opened.keys() == {"c"}

    assert len(run(story).times_of("review c")) == 1


def test_what_is_no_longer_wanted_after_its_review_is_not_opened() -> None:
    async def story(placement: Placement) -> None:
        placement.takes["c"], placement.missing["c"] = 3, "no permission"
        placement.tell("c")
        await asyncio.sleep(1)
        placement.tell()
        await asyncio.sleep(20)
        assert not placement.denied

    assert run(story).times_of("open c") == []


def test_a_watch_is_kept_until_those_that_replace_it_are_ready() -> None:
    async def story(placement: Placement) -> None:
        placement.tell("c")
        await asyncio.sleep(1)
        watch = placement.opened["c"]
        placement.kept.add("c")
        placement.tell("d")
        await asyncio.sleep(60)
        assert watch.is_open
        placement.kept.clear()
        placement.retire()
        assert not watch.is_open
        assert placement.opened.keys() == {"d"}

    run(story)


@pytest.mark.parametrize(("remembers", "again"), [(True, "still denied"), (False, "denied")])
def test_a_denial_that_is_over_is_forgotten_where_its_user_says_so(
    remembers: bool, again: str
) -> None:
    async def story(placement: Placement) -> None:
        placement.remembers, placement.missing["c"] = remembers, "no permission"
        placement.tell("c", "d")
        await asyncio.sleep(1)
        placement.tell("d")
        await asyncio.sleep(5)
        placement.tell("c", "d")
        await asyncio.sleep(1)
        assert len(placement.times_of("review c")) == 1
        placement.tell("d")
        await asyncio.sleep(25)
        placement.tell("c", "d")
        await asyncio.sleep(1)

    assert run(story).times_of(f"{again} c: no permission")[-1] > 31


def test_while_watches_are_chosen_they_are_checked_and_afterwards_nothing_runs() -> None:
    async def story(placement: Placement) -> None:
        placement.tell("c")
        await asyncio.sleep(51)
        assert placement.checks == 11
        placement.tell()
        await asyncio.sleep(1000)
        assert placement.checks == 12

    run(story)


def test_a_change_during_a_check_is_arranged_soon() -> None:
    async def story(placement: Placement) -> None:
        placement.next = "d"
        placement.tell("c")
        await asyncio.sleep(1)
        assert placement.opened.keys() == {"d"}

    run(story)


def test_after_close_nothing_is_open_and_nothing_is_opened() -> None:
    async def story(placement: Placement) -> None:
        placement.takes["c"] = 3
        placement.tell("c", "d")
        await asyncio.sleep(1)
        watch = placement.opened["d"]
        placement.tell("c", "d", "e")
        placement.close()
        checks = placement.checks
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await asyncio.sleep(60)
        assert placement.checks == checks
        assert not watch.is_open
        assert placement.opened == {}
        assert placement.chosen == placement.wanted == set()

    assert [what for _, what in run(story).log if what.startswith("open")] == ["open d"]
