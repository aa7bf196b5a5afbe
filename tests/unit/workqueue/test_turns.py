"""Turns between namespaces in the queue, and who works for no tenant."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from tests.unit.workqueue.simulation import SimulatedLoop, simulate

from copyrator.workqueue.fairness import working_for
from copyrator.workqueue.limits import AdaptiveLimit
from copyrator.workqueue.queue import Priority, WorkQueue


def group(key: str) -> str | None:
    """Keys are ``tenant-number``; those of ``own`` are nobody's."""
    tenant = key.partition("-")[0]
    return None if tenant == "own" else tenant


@pytest.fixture
def queue() -> WorkQueue[str]:
    return WorkQueue(group=group, each=2, together=4, jitter=lambda: 1.0)


def add(
    queue: WorkQueue[str], tenant: str, count: int, priority: Priority = Priority.NORMAL
) -> None:
    for number in range(count):
        queue.add(f"{tenant}-{number}", priority)


def work(queue: WorkQueue[str], count: int) -> list[str]:
    """Whose the next keys are, each done before the next."""
    found = []
    for _ in range(count):
        key = queue.poll()
        assert key is not None
        found.append(key.partition("-")[0])
        queue.done(key)
    return found


def test_a_tenant_with_a_thousand_keys_delays_another_by_one(queue: WorkQueue[str]) -> None:
    add(queue, "many", 1000)
    add(queue, "few", 3)
    assert work(queue, 8) == ["many", "few", "many", "few", "many", "few", "many", "many"]


def test_turns_are_taken_within_each_priority(queue: WorkQueue[str]) -> None:
    add(queue, "many", 100, Priority.URGENT)
    add(queue, "few", 1, Priority.URGENT)
    add(queue, "other", 1, Priority.NORMAL)
    assert work(queue, 2) == ["many", "few"]
    assert "other" in work(queue, 20)


def test_one_tenant_never_has_more_than_its_workers(queue: WorkQueue[str]) -> None:
    add(queue, "many", 10)
    add(queue, "few", 1)
    held = [queue.poll() for _ in range(4)]
    assert Counter(key.partition("-")[0] for key in held if key) == {"many": 2, "few": 1}
    assert len(queue) == 8
    queue.done("many-0")
    assert queue.poll() == "many-2"


def test_all_tenants_together_leave_workers_to_the_operators_own_keys(
    queue: WorkQueue[str],
) -> None:
    for tenant in "abcd":
        add(queue, tenant, 5)
    assert [queue.poll() is not None for _ in range(5)] == [True] * 4 + [False]
    queue.add("own-1")
    assert queue.poll() == "own-1"


def test_the_operators_own_keys_pass_a_line_of_tenants_urgent_ones(queue: WorkQueue[str]) -> None:
    add(queue, "many", 1000, Priority.URGENT)
    add(queue, "own", 8, Priority.NORMAL)
    assert work(queue, 10).count("own") == 8
    add(queue, "own", 1000, Priority.URGENT)
    assert work(queue, 10).count("many") == 2  # nor does anybody starve


async def test_a_worker_that_found_only_blocked_keys_is_woken_when_one_may_go_on(
    queue: WorkQueue[str],
) -> None:
    add(queue, "many", 3)
    held = [await queue.get(), await queue.get()]
    waiting = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.done(held[0])
    assert await asyncio.wait_for(waiting, 60) == "many-2"


def test_the_age_of_the_queue_is_not_that_of_a_tenant_who_has_had_its_share() -> None:
    now = 0.0
    queue: WorkQueue[str] = WorkQueue(group=group, each=1, clock=lambda: now)
    add(queue, "many", 2)
    assert queue.poll() == "many-0"
    now = 100.0
    assert queue.oldest_age() == 0
    queue.done("many-0")
    assert queue.oldest_age() == 100


def test_a_write_for_no_tenant_passes_the_tenants_that_wait() -> None:
    async def main(loop: SimulatedLoop) -> tuple[int, int]:
        limit = AdaptiveLimit(start=2, least=2, most=2, clock=loop.time)
        done: list[str] = []

        async def write(name: str, tenant: str | None) -> None:
            with working_for(tenant):
                async with limit.slot():
                    await asyncio.sleep(1)
            done.append(name)

        tenants = [asyncio.create_task(write("tenant", f"t{n}")) for n in range(46)]
        await asyncio.sleep(0)
        own = [asyncio.create_task(write("own", None)) for _ in range(8)]
        await asyncio.gather(*own)
        before = done.count("tenant")
        await asyncio.gather(*tenants)
        return before, len(done)

    before, all_of_them = simulate(main)
    assert before <= 6  # without turns it would be 46
    assert all_of_them == 54
