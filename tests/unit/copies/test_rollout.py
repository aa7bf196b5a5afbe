"""The steps of a rollout, as tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.replacing import replace

from copyrator.api.rollout import Rollout, RolloutState
from copyrator.api.selectors import LabelSelector
from copyrator.copies.rollout.steps import (
    RolloutBarrier,
    TargetNamespace,
    Wanted,
    began,
    begin,
    in_order,
    next_step,
    paused,
    portion,
    share,
)

NOW = datetime(2026, 1, 1, 12, 0, 0, 500_000, tzinfo=UTC)
OLD, NEW, NEWER = "a" * 32, "b" * 32, "c" * 32
ROLLOUT = Rollout(("1", "10%", "50%", "100%"))
TEN = [f"t{number}" for number in range(10)]
RUNNING = RolloutState(NEW, step=2, previous=OLD, started_at=NOW)
FAR = replace(RUNNING, step=4)
BEGUN = replace(RolloutState(NEW, step=1), started_at=NOW + timedelta(seconds=0.5))


@pytest.mark.parametrize(
    ("before", "wanted", "state"),
    [
        # nothing was known
        (None, Wanted(NEW, 10, 0), RolloutState(NEW)),
        (None, Wanted(NEW, 10, 10), BEGUN),
        # what is known is carried on, whatever the copies have
        (RUNNING, Wanted(NEW, 10, 9), RUNNING),
        (RUNNING, Wanted(NEW, 10, 0), RUNNING),
        (replace(RUNNING, step=9), Wanted(NEW, 10, 9), replace(RUNNING, step=4)),
        (RolloutState(NEW), Wanted(NEW, 10, 3), RolloutState(NEW)),
        # a change
        (RolloutState(OLD), Wanted(NEW, 10, 10), replace(BEGUN, previous=OLD)),
        (RolloutState(OLD), Wanted(NEW, 10, 1), replace(BEGUN, previous=OLD)),
        (RolloutState(OLD), Wanted(NEW, 10, 0), RolloutState(NEW)),
        # a change during a rollout
        (RUNNING, Wanted(NEWER, 10, 10), replace(BEGUN, content=NEWER, previous=OLD)),
        (FAR, Wanted(NEWER, 10, 10), replace(BEGUN, content=NEWER, previous=NEW)),
        # a change back
        (RUNNING, Wanted(OLD, 10, 1), RolloutState(OLD)),
        (RUNNING, Wanted(OLD, 10, 4), RolloutState(OLD)),
        (RUNNING, Wanted(OLD, 10, 5), replace(BEGUN, content=OLD, previous=OLD)),
        (FAR, Wanted(OLD, 10, 8), replace(BEGUN, content=OLD, previous=NEW)),
        # what few copies hold isn't called a change back, though most of them happen to be right
        (RUNNING, Wanted(NEWER, 10, 1), replace(BEGUN, content=NEWER, previous=OLD)),
        # half of them is not most
        (
            replace(RUNNING, step=3),
            Wanted(NEWER, 10, 9),
            replace(BEGUN, content=NEWER, previous=OLD),
        ),
        # fewer steps than before
        (
            replace(RUNNING, step=9),
            Wanted(NEWER, 10, 9),
            replace(BEGUN, content=NEWER, previous=NEW),
        ),
    ],
)
def test_what_the_wanted_content_asks_for(
    before: RolloutState | None, wanted: Wanted, state: RolloutState
) -> None:
    assert begin(ROLLOUT, before, wanted, NOW) == state


def test_the_selected_namespaces_come_first_and_the_rest_by_name() -> None:
    rollout = replace(ROLLOUT, first=LabelSelector.from_labels({"tier": "canary"}))
    canary = {"tier": "canary"}
    targets = [
        TargetNamespace("b", {}),
        TargetNamespace("z", canary),
        TargetNamespace("a", {"tier": "x"}),
        TargetNamespace("y", canary),
    ]
    assert in_order(rollout, targets, NOW) == ["y", "z", "a", "b"]
    assert in_order(ROLLOUT, targets, NOW) == ["a", "b", "y", "z"]


def test_namespaces_created_since_the_beginning_come_last() -> None:
    targets = [
        TargetNamespace("a", {}, "2026-01-01T12:00:02Z"),
        TargetNamespace("b", {}, "2026-01-01T12:00:01Z"),
        TargetNamespace("y", {}, "2026-01-01T12:00:00Z"),
        TargetNamespace("z", {}),
    ]
    since = datetime(2026, 1, 1, 12, 0, 1, tzinfo=UTC)
    assert in_order(ROLLOUT, targets, since) == ["y", "z", "a", "b"]
    assert in_order(ROLLOUT, targets, since + timedelta(seconds=2)) == ["a", "b", "y", "z"]


@pytest.mark.parametrize(
    ("before", "content", "moment"),
    [
        (None, NEW, NOW + timedelta(seconds=0.5)),
        (RolloutState(NEW), NEW, NOW + timedelta(seconds=0.5)),
        (RUNNING, NEW, NOW),
        (RUNNING, OLD, NOW + timedelta(seconds=0.5)),
    ],
)
def test_when_a_rollout_began(before: RolloutState | None, content: str, moment: datetime) -> None:
    assert began(before, content, NOW) == moment


@pytest.mark.parametrize(
    ("step", "whole", "new", "after"),
    [(1, 1, 1, 3), (2, 1, 1, 3), (3, 5, 4, 4), (4, 10, 5, 0)],
)
def test_a_step_covers_its_total_and_one_that_adds_nothing_is_passed_over(
    step: int, whole: int, new: int, after: int
) -> None:
    assert share(ROLLOUT, step, TEN) == TEN[:whole]
    assert portion(ROLLOUT, step, TEN) == TEN[whole - new : whole]
    assert next_step(ROLLOUT, step, len(TEN)) == after


def test_the_first_portion_is_all_of_the_first_step() -> None:
    two = Rollout(("2", "100%"))
    assert [portion(two, step, TEN) for step in (1, 2)] == [TEN[:2], TEN[2:]]


def test_without_targets_there_is_nothing() -> None:
    assert share(ROLLOUT, 1, []) == []
    assert portion(ROLLOUT, 1, []) == []
    assert next_step(ROLLOUT, 1, 0) == 0


def test_a_pause_is_never_shorter_than_asked_for() -> None:
    state = paused(RUNNING, NOW, 10)
    assert state.next_at == datetime(2026, 1, 1, 12, 0, 11, tzinfo=UTC)
    assert paused(RUNNING, NOW.replace(microsecond=0), 10).next_at == datetime(
        2026, 1, 1, 12, 0, 10, tzinfo=UTC
    )


def test_a_barrier_holds_old_copies_back_and_a_stopped_one_all() -> None:
    barrier = RolloutBarrier()
    assert barrier.holds("a", old=True)
    assert not barrier.holds("a", old=False)
    barrier.admit(2, ["a"], ["a"])
    assert ("a" in barrier, "b" in barrier, barrier.step, barrier.portion) == (
        True,
        False,
        2,
        ["a"],
    )
    assert not barrier.holds("a", old=True)
    assert barrier.holds("b", old=True)
    barrier.stop()
    assert barrier.holds("a", old=True)
    assert barrier.holds("a", old=False)
    barrier.open()
    assert not barrier.holds("b", old=True)
    assert "b" in barrier
    assert barrier.step == 0
    barrier.close()
    assert barrier.holds("b", old=True)
