"""kopf's own handlers against the event handlers of today: what they cost and what they miss."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tests.e2e.faults.proxy import FaultProxy

from bench.choices import objects
from bench.choices.child import Child
from bench.choices.kopf_child import OWN, SIDES
from bench.choices.missed import missed
from bench.choices.passing import Passing
from bench.choices.sides import Sides
from bench.process import BenchError
from bench.rig import Rig, until, writes
from bench.scenario import Figures, Run, scenario

SETTLED = 8.0
"""Seconds in which a side that has nothing more to do, takes less than IDLE of processor time.

The keys alone don't tell: event handlers have theirs from a list that comes before kopf's own.
"""

IDLE = 0.1

CHANGED = 1000
"""Of the Bundles so many are changed."""

LIMIT = 900.0

ORDER = sorted(SIDES, key=OWN.__eq__)
"""The side with the timer comes last: it puts a finalizer on every object."""


@scenario(
    "choices-kopf",
    "kopf, {size} Bundles",
    size=10_000,
    runs=1,
    goals={},
    warm_up=False,
    group="choices",
)
def kopf_way(rig: Rig, size: int) -> Iterator[Run]:
    """The same Bundles for each side."""

    def run() -> Figures:
        sides = Sides()
        empty = {side: _memory_without_objects(rig, side) for side in ORDER}
        rig.tell(f"{size} Bundles are made")
        rig.bare("POST", objects.creations(size))
        for side in ORDER:
            figures = _cost(rig, side, size, empty[side])
            rig.tell(
                f"{side}: {', '.join(f'{name} {value:.4g}' for name, value in figures.items())}"
            )
            sides.add(side, figures)
        return sides.figures

    yield run


@scenario(
    "choices-missed",
    "kopf, {size} changes of each kind in each case",
    size=5,
    runs=1,
    goals={},
    warm_up=False,
    group="choices",
)
def missed_keys(rig: Rig, size: int) -> Iterator[Run]:
    """The same faults for each side."""

    def run() -> Figures:
        sides = Sides()
        with FaultProxy(rig.cluster) as broken:
            for side in ORDER:
                sides.add(side, missed(rig, broken, side, size))
        return sides.figures

    yield run


def _settle(process: Child) -> None:
    """Wait until nothing more is done: kopf's tasks for single objects have ended, too."""
    before = process.cpu
    until_ = time.monotonic() + LIMIT
    while time.monotonic() < until_:
        time.sleep(SETTLED)
        if process.cpu - before < IDLE:
            return
        before = process.cpu
    raise BenchError(f"it is never idle: {process.log}")


def _memory_without_objects(rig: Rig, side: str) -> float:
    since = rig.cluster.audit_offset()
    with Passing(rig, side, rig.operator_kubeconfig) as child:

        def watches() -> bool:
            return any(e.verb == "watch" for e in rig.seen(since, rig.user))

        until(watches, f"{side} watches")
        _settle(child.process)
        return child.process.rss


def _cost(rig: Rig, side: str, size: int, empty: float) -> dict[str, float]:
    """What a start with so many objects costs, and then changes."""
    changed = min(size, CHANGED)
    since = rig.cluster.audit_offset()
    with Passing(rig, side, rig.operator_kubeconfig) as child:
        until(lambda: len(child.keys()) >= size, f"{side} passes all keys on", LIMIT)
        _settle(child.process)
        cpu, memory, start = child.process.cpu, child.process.rss, rig.seen(since, rig.user)
        child.forget()
        since = rig.cluster.audit_offset()
        rig.bare("PATCH", objects.changes(changed, side))
        until(lambda: len(child.keys()) >= changed, f"{side} passes all changes on", LIMIT)
        _settle(child.process)
        asked = rig.seen(since, rig.user)
        return {
            "requests of a start": float(len(start)),
            "of them writes": float(writes(start)),
            "CPU of a start, s": cpu,
            "memory, MB": memory,
            "memory an object, KB": 1000 * (memory - empty) / size,
            f"requests while {changed} are changed": float(len(asked)),
            "of these writes": float(writes(asked)),
            "CPU of a change, ms": 1000 * (child.process.cpu - cpu) / changed,
            "memory after that, MB": child.process.rss,
        }
