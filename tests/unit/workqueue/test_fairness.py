"""Groups are served in turn, none has more than its limit, and none is forgotten.

`Turns` says what "in turn" means: between two items of one group, each other group that waited all
that time is served. Every form of it is compared with that: the round robin, the limit, the queue
of Events and the queue of keys.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable
from operator import itemgetter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.workqueue.simulation import SimulatedLoop, simulate

from copyrator.workqueue.fairness import FairLimit, FairQueue, RoundRobin
from copyrator.workqueue.queue import WorkQueue

GROUPS = st.sampled_from("abc")


class Turns:
    """Checks the order in which groups are served."""

    def __init__(self) -> None:
        self._owed: dict[str, set[str]] = {}

    def serve(self, group: str, waiting: Iterable[str]) -> None:
        """A group is served; these could have been, at that moment."""
        others = set(waiting) - {group}
        assert not self._owed.get(group, set()) & others, f"{group} is served before its turn"
        self.wait(others | {group})
        for owed in self._owed.values():
            owed.discard(group)
        self._owed[group] = others

    def wait(self, waiting: Iterable[str]) -> None:
        """Only these wait: others begin anew when they return."""
        for owed in self._owed.values():
            owed.intersection_update(waiting)


@given(st.lists(st.tuples(st.sampled_from(["put", "take", "remove", "block", "unblock"]), GROUPS)))
def test_a_round_robin_is_a_queue_of_each_group_in_turn(steps: list[tuple[str, str]]) -> None:
    void: set[int] = set()
    robin: RoundRobin[int] = RoundRobin(lambda item: item not in void)
    turns, blocked = Turns(), set[str]()
    items: dict[str, deque[int]] = {group: deque() for group in "abc"}

    def ready() -> list[str]:
        return [group for group, held in items.items() if held and group not in blocked]

    for number, (step, group) in enumerate(steps):
        match step:
            case "put":
                robin.put(group, number)
                items[group].append(number)
            case "take":
                waiting, found = ready(), robin.take()
                assert (found is not None) == bool(waiting)
                if found is not None:
                    assert found[0] in waiting
                    turns.serve(found[0] or "", waiting)
                    assert found[1] == items[found[0] or ""].popleft()
            case "remove" if items[group]:
                if number % 2:
                    robin.remove(group, items[group].pop())
                else:
                    void.add(items[group].popleft())
            case "block":
                robin.block(group)
                blocked.add(group)
            case "unblock":
                robin.unblock(group)
                blocked.discard(group)
            case _:
                robin.remove(group, -1)
        turns.wait(ready())
    for group in "abc":
        robin.unblock(group)
    assert sum(1 for _ in iter(robin.take, None)) == sum(map(len, items.values()))
    assert not robin.items


class Holder:
    """Waits for a slot, and holds it until it may end."""

    def __init__(self, limit: FairLimit, group: str, served: list[str]) -> None:
        self.group = group
        self.has_slot = False
        self.may_end = asyncio.Event()
        self.task = asyncio.create_task(self._hold(limit, served))

    async def _hold(self, limit: FairLimit, served: list[str]) -> None:
        async with limit.slot(self.group):
            self.has_slot = True
            served.append(self.group)
            await self.may_end.wait()


class Holders:
    """Those of all groups, at a limit of two each and three together."""

    def __init__(self) -> None:
        self.limit = FairLimit(each=2, together=3)
        self.served: list[str] = []
        self.all: list[Holder] = []

    def acquire(self, group: str) -> None:
        self.all.append(Holder(self.limit, group, self.served))

    def of(self, *, has_slot: bool, group: str = "abc") -> list[Holder]:
        return [
            one
            for one in self.all
            if one.group in group and one.has_slot == has_slot and not one.task.done()
        ]

    async def settle(self) -> list[str]:
        """The groups that wait and are below their limit, when all that can run has run."""
        for _ in range(4):
            await asyncio.sleep(0)
        have = Counter(one.group for one in self.of(has_slot=True))
        assert have.total() == self.limit.in_flight <= 3
        assert max(have.values(), default=0) <= 2
        ready = [one.group for one in self.of(has_slot=False) if have[one.group] < 2]
        assert have.total() == 3 or not ready, f"{ready} wait for free slots"
        return ready

    async def end(self) -> None:
        """All get their slots in the end, and nothing is left of them."""
        for one in self.all:
            one.may_end.set()
        async with asyncio.timeout(60):
            await asyncio.gather(*(one.task for one in self.all), return_exceptions=True)
        assert all(one.has_slot or one.task.cancelled() for one in self.all)
        assert (self.limit.in_flight, len(self.limit)) == (0, 0)


STEPS = st.sampled_from(["acquire", "acquire", "release", "give up", "give up as served"])


@given(st.lists(st.tuples(STEPS, GROUPS), max_size=30))
@example([("acquire", "a"), ("acquire", "a"), ("acquire", "a"), ("give up as served", "a")])
def test_no_slot_and_no_waiter_is_lost_whoever_gives_up(steps: list[tuple[str, str]]) -> None:
    async def main(_: SimulatedLoop) -> None:
        holders = Holders()
        for step, group in steps:
            held, waiting = (holders.of(has_slot=one, group=group) for one in (True, False))
            if step == "acquire":
                holders.acquire(group)
            elif step == "give up" and waiting:
                for one in held[:1]:
                    one.may_end.set()  # its slot is given before the other has gone
                waiting[0].task.cancel()
            elif held:
                held[0].may_end.set()
                await asyncio.sleep(0)  # the slot is given to one that hasn't run since
                if step == "give up as served":
                    for one in holders.of(has_slot=False)[:2]:
                        one.task.cancel()
            await holders.settle()
        await holders.end()

    simulate(main)


@given(st.lists(st.tuples(GROUPS, st.integers(0, 2)), min_size=4, max_size=20))
def test_slots_go_round_between_groups(groups: list[tuple[str, int]]) -> None:
    async def main(_: SimulatedLoop) -> None:
        holders, turns = Holders(), Turns()
        for group, _ in groups:
            holders.acquire(group)
        await holders.settle()
        for _, which in groups:
            held = holders.of(has_slot=True)
            ends, before = held[which % len(held)], len(holders.served)
            have = Counter(one.group for one in held if one is not ends)
            waiting = holders.of(has_slot=False)
            ends.may_end.set()
            turns.wait(await holders.settle())
            for group in holders.served[before:]:  # one at most
                turns.serve(group, [one.group for one in waiting if have[one.group] < 2])
        await holders.end()

    simulate(main)


async def test_a_limit_keeps_nothing_of_those_that_gave_up() -> None:
    limit = FairLimit(each=1, together=1)
    await limit.acquire("a")
    waiting = [asyncio.create_task(limit.acquire(group)) for group in "abc"]
    await asyncio.sleep(0)
    assert len(limit) == 3
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert len(limit) == 1


async def test_work_for_no_tenant_has_no_limit() -> None:
    limit = FairLimit(each=1, together=1)
    async with asyncio.timeout(60), limit.slot("a"), limit.slot(None), limit.slot(None):
        assert limit.in_flight == 1


# --- the queue of Events -------------------------------------------------------------------------


async def served(queue: FairQueue[str]) -> list[str]:
    found = []
    while len(queue):
        found.append(await queue.get())
        queue.done()
    return found


def filled(size: int, *items: str) -> tuple[FairQueue[str], list[str]]:
    """A queue after these items, whose first letter is the namespace, and those that it dropped."""
    queue: FairQueue[str] = FairQueue(size)
    dropped = [queue.put(item[0], item) for item in items]
    return queue, [one for one in dropped if one]


async def test_a_flood_drops_its_own_newest() -> None:
    queue, dropped = filled(3, "a1", "b1", "a2", "a3", "a4")
    assert dropped == ["a3", "a4"]
    assert await served(queue) == ["a1", "b1", "a2"]


@pytest.mark.parametrize(
    ("items", "dropped"),
    [
        ("a1 a2 b1 b2", "b2"),  # it would have as many as the other
        ("a1 b1 b2 a2", "a2"),
        ("a1 a2 a3 b1", "a3"),  # it would have fewer
        ("a1 b1 c1 d1", "d1"),  # nobody has more than it would have
        ("a1 a2 b1 c1", "a2"),
    ],
)
async def test_another_namespaces_newest_is_dropped_only_if_it_still_has_more(
    items: str, dropped: str
) -> None:
    queue, found = filled(3, *items.split())
    assert found == [dropped]
    assert sorted(await served(queue)) == sorted(set(items.split()) - {dropped})


async def test_a_namespace_that_fills_the_queue_again_and_again_is_served_once_in_a_turn() -> None:
    queue, _ = filled(4, "b1", "c1", "b2")
    found = []
    for number in range(8):
        for more in range(9):
            queue.put("a", f"a{number}{more}")
        found.append((await queue.get())[0])
        queue.done()
    assert found == list("bcabaaaa")


async def test_a_consumer_that_gives_up_takes_nothing_along() -> None:
    queue, _ = filled(3)
    gives_up = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.put("a", "a1")
    gives_up.cancel()
    await asyncio.gather(gives_up, return_exceptions=True)
    async with asyncio.timeout(60):
        assert await queue.get() == "a1"


# --- the queue of keys ---------------------------------------------------------------------------


KEYS = st.builds("{}{}".format, GROUPS, st.integers(0, 3))


@given(st.lists(st.tuples(st.sampled_from(["add", "add", "poll", "done"]), KEYS)))
def test_keys_of_tenants_are_returned_in_turn(steps: list[tuple[str, str]]) -> None:
    queue: WorkQueue[str] = WorkQueue(group=itemgetter(0), each=2, together=3)
    turns, ready, working = Turns(), list[str](), list[str]()

    def waiting() -> list[str]:
        busy = Counter(key[0] for key in working)
        return [key[0] for key in ready if busy[key[0]] < 2]

    for step, key in steps:
        if step == "add" and key not in working and key not in ready:
            queue.add(key)
            ready.append(key)
        elif step == "done" and working:
            queue.done(working.pop(0))
        elif step == "poll":
            could, found = waiting(), queue.poll()
            assert (found is not None) == (bool(could) and len(working) < 3)
            if found is not None:
                turns.serve(found[0], could)
                ready.remove(found)
                working.append(found)
        turns.wait(waiting())
