"""What a step returns is written, then done, and its due times are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.keys import BundleKey
from copyrator.bundles.engine import conditions as ready_conditions
from copyrator.bundles.engine.bundle import BundleCache, BundleEntry, Memories, read_entry
from copyrator.bundles.engine.choose import PollMemory, PollStates
from copyrator.bundles.engine.context import BundleTiming
from copyrator.bundles.engine.poll import Answered, Asked, Settled
from copyrator.bundles.engine.reconciler import StepTaker
from copyrator.bundles.engine.schedule import Schedule
from copyrator.bundles.engine.step import AT_ONCE, Change, Stale, Step
from copyrator.bundles.fields import BundleDefaults
from copyrator.workqueue.queue import Priority

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=60)
KEY = BundleKey("team", "shop")
SHOP = read_entry(
    {
        "metadata": {"namespace": "team", "name": "shop", "uid": "1", "resourceVersion": "1"},
        "spec": {"registry": "r.example", "repo": "app", "version": "1.0.0"},
    },
    BundleDefaults(),
)
DEPLOYED = ready_conditions.taken_over(SHOP.status)


class Journal:
    """In place of the StatusWriter: keeps what is done, in order."""

    def __init__(self, *, fails: bool = False) -> None:
        self.done: list[str] = []
        self._fails = fails

    async def write(
        self, entry: BundleEntry, status: BundleStatus, _verdict: Any, *, decided: bool
    ) -> BundleEntry:
        return self._write("write" if decided else "write of an older spec's", entry, status)

    async def write_part(self, entry: BundleEntry, status: BundleStatus) -> BundleEntry:
        return self._write("write a part", entry, status)

    def _write(self, what: str, entry: BundleEntry, status: BundleStatus) -> BundleEntry:
        if self._fails:
            raise ConnectionError
        self.done.append(what)
        return replace(entry, status=status, resource_version=f"{entry.resource_version}+")

    def effect(self, name: str, step: Step | None = None) -> Any:
        async def act(written: BundleEntry) -> Step:
            self.done.append(f"{name} at {written.resource_version}")
            return step if step is not None else Step(written)

        return act

    @contextmanager
    def guard(self) -> Iterator[None]:
        self.done.append("guarded")
        try:
            yield
        finally:
            self.done.append("released")


def take(journal: Any, step: Step) -> tuple[BundleEntry, list[datetime]]:
    taker = StepTaker(journal)
    return asyncio.run(taker.take(step)), taker.due


def test_the_status_is_on_record_before_the_effect_and_its_result_is_taken_likewise() -> None:
    journal = Journal()
    inner = Step(SHOP, BundleStatus(ready=0), DEPLOYED, decided=False, due=(LATER,))
    step = Step(SHOP, BundleStatus(ready=1), DEPLOYED, effect=journal.effect("do", inner))
    bundle, due = take(journal, replace(step, due=(NOW, None)))
    assert journal.done == ["write", "do at 1+", "write of an older spec's"]
    assert bundle.status.ready == 0
    assert due == [NOW, LATER]


def test_a_further_effect_comes_after_all_of_a_steps_own() -> None:
    journal = Journal()
    inner = Step(SHOP, BundleStatus(ready=0), effect=journal.effect("inner"))
    step = Step(SHOP, BundleStatus(ready=1), effect=journal.effect("outer", inner))
    take(journal, step.then(journal.effect("last")))
    assert journal.done == [
        "write a part",
        "outer at 1+",
        "write a part",
        "inner at 1+",
        "last at 1+",
    ]


def test_a_guard_is_held_from_before_the_write_until_after_the_effect() -> None:
    journal = Journal()
    guarded = Step(SHOP, BundleStatus(ready=1), guard=journal.guard(), effect=journal.effect("do"))
    take(journal, guarded)
    assert journal.done == ["guarded", "write a part", "do at 1+", "released"]


def test_what_cannot_be_written_has_no_effect_and_frees_its_guard() -> None:
    journal = Journal(fails=True)
    step = Step(SHOP, BundleStatus(ready=1), guard=journal.guard(), effect=journal.effect("do"))
    with pytest.raises(ConnectionError):
        take(journal, step)
    assert journal.done == ["guarded", "released"]


# --- the schedule ---------------------------------------------------------------------------------


class Queues:
    """In place of the work queue and the scheduler of due times."""

    def __init__(self) -> None:
        self.added: list[tuple[BundleKey, float, Priority]] = []
        self.dates: dict[BundleKey, float] = {}

    def add_after(self, key: BundleKey, delay: float, priority: Priority) -> None:
        self.added.append((key, delay, priority))

    def set(self, key: BundleKey, due: float) -> None:
        self.dates[key] = due

    def remove(self, key: BundleKey) -> None:
        self.dates.pop(key, None)


def schedule() -> tuple[Schedule, Memories, Queues]:
    queues: Any = Queues()
    bundles, memories = BundleCache(), Memories()
    bundles.take(SHOP)
    made = Schedule(
        queues,
        queues,
        bundles,
        memories,
        clock=lambda: NOW,
        monotonic=lambda: 1000.0,
    )
    context: Any = SimpleNamespace(
        bundles=bundles,
        memories=memories,
        schedule=made,
        timing=BundleTiming(),
        clock=lambda: NOW,
        monotonic=lambda: 1000.0,
    )
    PollStates(context)
    return made, memories, queues


@pytest.mark.parametrize("why", Change)
def test_each_change_has_its_priority_and_makes_stale_what_its_row_says(why: Change) -> None:
    made, memories, queues = schedule()
    polling = memories.of(KEY, PollMemory).polling
    polling.state = Settled(("all",))
    made.changed(KEY, why)
    interval = SHOP.spec.interval if isinstance(SHOP.spec, BundleSpec) else 0.0
    asked = {Stale.DECISION: 1000.0 - interval, Stale.ANSWERS: 1000.0}.get(why.stale)
    assert queues.added == [(KEY, 0.0, why.priority)]
    assert polling.is_settled(("all",)) == (why.stale not in (Stale.SETTLED, Stale.DECISION))
    assert (polling.poll.since if polling.poll else None) == asked
    assert polling.again == (1002.0 if why.stale is Stale.ANSWERS else None)
    assert made.take_changes(KEY) == {why}


def test_a_decision_in_progress_does_not_count_as_the_new_one() -> None:
    made, memories, _ = schedule()
    made.changed(KEY, Change.PUSH)
    polling = memories.of(KEY, PollMemory).polling
    polling.answer()
    assert isinstance(decided := polling.state, Answered)
    made.changed(KEY, Change.GATE)
    assert polling.state == Asked(decided.poll)
    assert decided.poll.since == 1000.0


def test_a_gate_of_a_deleted_bundle_enqueues_nothing_and_nothing_is_remembered() -> None:
    made, memories, queues = schedule()
    gone = BundleKey("team", "gone")
    made.changed(gone, Change.DEPENDENCY)
    assert queues.added == []
    made.changed(gone, Change.JOB)
    assert [key for key, *_ in queues.added] == [gone]
    assert not len(memories)


def test_the_due_time_replaces_the_one_before_and_goes_with_the_bundle() -> None:
    made, memories, queues = schedule()
    made.set_due(KEY, LATER)
    assert queues.dates == {KEY: 1060.0}
    made.set_due(KEY, NOW - timedelta(seconds=5))
    assert queues.dates == {KEY: 1000.0}
    made.set_due(KEY, AT_ONCE)
    assert queues.added == [(KEY, 0.0, Priority.NORMAL)]
    memories.drop(KEY)
    assert queues.dates == {}
    made.set_due(KEY, LATER)
    made.set_due(KEY, None)
    assert queues.dates == {}
