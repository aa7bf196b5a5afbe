"""What changes make due is queued in slices: tenants take turns, trusted rules wait for none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count, groupby
from types import SimpleNamespace
from typing import Any, cast

import pytest

from copyrator.copies import controller
from copyrator.copies.context import Changes
from copyrator.copies.sources.bindings import SourceBinding
from copyrator.workqueue.fairness import TimeSlice

SLICE = 5
"""Times that the clock is looked at in one slice."""


class Work(controller.DueWork):
    """Notes each target instead of judging it."""

    def __init__(self) -> None:
        self.changes = Changes()
        self.bindings: dict[str, dict[str, SourceBinding]] = {}
        index = SimpleNamespace(of_rule=lambda owner: self.bindings.get(owner, {}))
        super().__init__(cast("Any", SimpleNamespace(changes=self.changes, index=index)))
        self.done: list[str] = []

    def add(self, tenant: str | None, targets: int, origin: str = "source") -> None:
        """A source of this tenant, and so this number of its targets, has changed."""
        owner = f"{tenant}/rule"
        names = [f"{tenant}-{number}" for number in range(targets)]
        compiled = SimpleNamespace(
            targets=Targets(names, tenant), rule=SimpleNamespace(owner=owner)
        )
        binding = cast("SourceBinding", SimpleNamespace(compiled=compiled, origin=origin))
        self.bindings.setdefault(owner, {})[origin] = binding
        self.changes.add_binding(binding)

    def _enqueue_if_due(self, _binding: Any, namespace: str, _priority: Any) -> None:
        self.done.append(namespace)
        if self.done == ["again-0"]:
            self.add("again", 1, "another")

    def tenants(self) -> list[str]:
        """Whose targets were noted, in their order, those of one slice as one."""
        return [tenant for tenant, _ in groupby(name.split("-")[0] for name in self.done)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self.run(trusted=trusted)) for trusted in (False, True)]
        yield
        for _ in range(200):
            await asyncio.sleep(0)
        for task in tasks:
            assert not task.done()
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Targets(list[str]):
    def __init__(self, names: list[str], tenant: str | None) -> None:
        super().__init__(names)
        self.tenant = tenant


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    monkeypatch.setattr(controller, "TimeSlice", lambda: TimeSlice(SLICE, clock=count().__next__))
    return Work()


async def test_tenants_take_turns_of_one_slice(work: Work) -> None:
    work.add("many", 40)
    work.add("few", 12)
    async with work.running():
        pass
    assert work.tenants()[:6] == ["many", "few"] * 3
    assert len(work.done) == 52


async def test_one_that_comes_while_another_has_much_to_do_waits_for_one_slice(work: Work) -> None:
    work.add("many", 100)
    async with work.running():
        await asyncio.sleep(0)
        before = len(work.done)
        work.add("late", 1)
    assert 0 < before < work.done.index("late-0") <= before + 2 * SLICE
    assert len(work.done) == 101


async def test_trusted_rules_wait_for_no_tenant(work: Work) -> None:
    for number in range(20):
        work.add(f"tenant{number}", 40)
    work.add(None, 10)
    async with work.running():
        pass
    own = [number for number, name in enumerate(work.done) if name.startswith("None")]
    assert len(own) == 10
    assert own[-1] < 60  # in turn with the others' task, not with all of them


async def test_what_changes_while_it_is_processed_is_not_lost(work: Work) -> None:
    work.add("again", 1)
    async with work.running():
        pass
    assert work.done == ["again-0", "again-0"]


async def test_nothing_is_kept_of_what_is_done(work: Work) -> None:
    for tenant in ("a", "b", None):
        for number in range(10):
            work.add(tenant, 3, f"source{number}")
    async with work.running():
        pass
    assert len(work.done) == 90
    assert not work.changes._pending
