"""No sequence of events makes a deploy Job for a digest whose gates don't pass at that moment.

The whole controller runs in a simulation (``simulated.py``) with three Bundles. Pushes, freezes,
holds, decisions, edits, failures, clocks that are set and restarts come in any order, signatures
and keys that come and go, drift, and ill health where a story has such gates. An account
that owes the operator nothing (``gate_world.py``) judges each Job at the moment that it is made,
and looks after each step whether a wait has ended when its message said so. In the end everything
that waits for somebody is decided, and the newest version has to arrive everywhere.
"""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.component.bundles.gate_account import AGE, HOME, INTERVAL, KEYS, SOAK, STAGE
from tests.component.bundles.gate_world import World
from tests.long import LONG
from tests.unit.workqueue.simulation import SimulatedLoop, simulate

from copyrator.bundles.engine.gate import PASSED, Gate, Gates
from copyrator.bundles.features.age.feature import AgeFeature
from copyrator.bundles.features.approval.feature import ApprovalFeature
from copyrator.bundles.features.dependencies.feature import DependenciesFeature
from copyrator.bundles.features.promotion.feature import PromotionFeature
from copyrator.bundles.features.rollback.feature import RollbackFeature
from copyrator.bundles.features.windows.feature import WindowsFeature

pytestmark = pytest.mark.needs(
    *("age", "approval", "consent", "dependencies", "drift", "freeze", "health", "promotion"),
    *("rollback", "signatures", "windows"),
)

Step = tuple[Any, ...]
"""The name of a method below, and its arguments."""

REGULAR = 15 * 60 + 20
"""Seconds within which there is a check for drift."""
WAITS = [0, 1, 7, 30, AGE, SOAK + 1, SOAK + 1, INTERVAL]
COMMON: list[st.SearchStrategy[Step]] = [
    st.tuples(st.just("push"), st.tuples(st.integers(0, 2), st.just(0)), st.sampled_from(WAITS)),
    st.tuples(st.just("wait"), st.sampled_from(WAITS)),
    st.tuples(st.just("freeze"), st.sampled_from([HOME, STAGE, ""]), st.sampled_from([None, 30])),
    st.tuples(st.just("thaw"), st.sampled_from([HOME, STAGE, ""])),
    st.tuples(st.just("hold"), st.booleans()),
    st.tuples(st.just("consent"), st.booleans()),
    st.tuples(
        st.just("ask"), st.sampled_from(sorted(KEYS)), st.sampled_from(["requestedAt", "forceAt"])
    ),
    st.tuples(st.just("fail"), st.sampled_from(sorted(KEYS))),
    st.tuples(st.just("lose"), st.sampled_from(sorted(KEYS))),
    st.tuples(st.just("pin"), st.sampled_from(sorted(KEYS)), st.sampled_from(["1.*", "1.0.0"])),
    st.tuples(st.just("colour"), st.sampled_from(sorted(KEYS))),
    st.tuples(st.just("pause"), st.sampled_from(sorted(KEYS)), st.booleans()),
    st.tuples(st.just("skip"), st.sampled_from(sorted(KEYS)), st.integers(-1, 2)),
    st.tuples(st.just("delete")),
    st.tuples(st.just("recreate")),
    st.tuples(st.just("clock"), st.sampled_from([-900, -90, 90, 900])),
    st.tuples(st.just("restart"), st.sampled_from([0, 30, SOAK]), st.booleans()),
]
OF_GATE: dict[str, list[st.SearchStrategy[Step]]] = {
    "age": [],
    "windows": [],
    "approval": [
        st.tuples(st.just("decide"), st.sampled_from(["approved-plan"] * 3 + ["rejected-plan"])),
    ],
    "signature": [
        st.tuples(
            st.just("push_signed"),
            st.integers(0, 2),
            st.sampled_from(["", "B"]),
            st.sampled_from(WAITS),
        ),
        st.tuples(st.just("sign"), st.integers(0, 2), st.sampled_from(["A", "A", "B", ""])),
        st.tuples(st.just("sign"), st.integers(0, 2), st.sampled_from(["A", "A", "B", ""])),
        st.tuples(st.just("notify")),
        st.tuples(st.just("trust"), st.sampled_from(["A", "B", "AB", ""])),
        st.tuples(st.just("policy"), st.sampled_from([None, "A", "B", ""])),
        st.tuples(st.just("hide_signatures"), st.booleans()),
    ],
    "drift": [
        st.tuples(
            st.just("drift"),
            st.sampled_from(sorted(KEYS)),
            st.sampled_from(["once", "once", "fought", "undone"]),
        ),
        st.tuples(st.just("ask"), st.sampled_from(sorted(KEYS)), st.just("plan-at")),
        st.tuples(st.just("check"), st.sampled_from(sorted(KEYS)), st.sampled_from([5, 20])),
        st.tuples(st.just("check"), st.sampled_from(sorted(KEYS)), st.sampled_from([5, 20])),
        st.tuples(st.just("wait"), st.just(REGULAR)),
        st.tuples(
            st.just("set_mode"),
            st.sampled_from(sorted(KEYS)),
            st.sampled_from(["Detect", "Correct"]),
        ),
    ],
    "health": [
        st.tuples(
            st.just("become"),
            st.sampled_from(["failed", "failed", "pending", "current"]),
            st.sampled_from([0, 5, 11, 20]),
        )
    ]
    * 3,
}
"""What happens only where there is such a gate."""


@st.composite
def stories(draw: st.DrawFn) -> tuple[frozenset[str], list[Step]]:
    """Gates, and events that concern them."""
    gates = draw(st.frozensets(st.sampled_from(sorted(OF_GATE)), max_size=None if LONG else 3))
    more = [one for gate in sorted(gates) for one in OF_GATE[gate]]
    return gates, draw(st.lists(st.one_of(*COMMON, *more), min_size=3, max_size=14))


async def take(world: World, step: Step) -> None:
    """One event, and what follows at once."""
    match step:
        case ("push", version, seconds):
            world.push(version)
            await world.wait(seconds)
        case ("wait", seconds):
            await world.wait(seconds)
        case ("push_signed", version, key, seconds):
            world.push((version, 0), key)
            await world.wait(seconds)
        case ("check", name, seconds):
            world.drift(name, "once")
            world.ask(name, "plan-at")
            await world.wait(seconds)
        case ("become", how, seconds):
            world.health.become(how)
            await world.wait(seconds)
        case ("trust", keys):
            world.signers.trust(keys)
        case ("policy", keys):
            world.signers.set_policy(keys)
        case ("freeze", where, seconds):
            world.freeze(where, seconds)
        case ("fail", name):
            world.fails.add(name)
        case ("lose", name):
            world.lose_job(name)
        case ("pin", name, version):
            world.edit(name, version=version)
        case ("colour", name):
            world.serial += 1
            world.edit(name, env={"WERF_ENV": str(world.serial)})
        case ("delete",):
            world.delete_staging()
        case ("recreate",):
            world.recreate_staging()
        case ("clock", seconds):
            world.set_clock(seconds)
        case ("restart", seconds, in_order):
            await world.stop(5.0 if in_order else 0.0)
            await world.wait(seconds)
            await world.start()
        case (name, *values):
            getattr(world, name)(*values)
    await world.wait(2)


def happens(gates: frozenset[str], steps: list[Step]) -> World:
    """The world after these events."""

    async def main(loop: SimulatedLoop) -> World:
        world = World(loop, gates)  # type: ignore[arg-type]
        try:
            await world.begin()
            for step in steps:
                await take(world, step)
            if not world.wrong:
                await world.comes_to_rest()
        finally:
            await world.stop()
        return world

    return simulate(main)


@settings(max_examples=3000 if LONG else 7, deadline=None)
@given(stories())
def test_no_job_is_made_whose_gates_do_not_pass(story: tuple[frozenset[str], list[Step]]) -> None:
    world = happens(*story)
    assert not world.wrong
    assert len(world.jobs) >= len(KEYS)


PLAN_IS_LOST: list[Step] = [("ask", "production", "plan-at"), ("lose", "production")]


@pytest.mark.parametrize(
    ("gates", "steps"),
    [
        ("", [("wait", 105), *PLAN_IS_LOST]),
        ("approval", [("wait", 105), ("decide", "approved-plan"), ("wait", 30), *PLAN_IS_LOST]),
        ("windows", [("wait", 245), ("colour", "production"), *PLAN_IS_LOST]),
    ],
    ids=["of what is deployed", "of what was approved", "of what waits for a window"],
)
def test_a_requested_plan_that_fails_keeps_nobody_busy(gates: str, steps: list[Step]) -> None:
    """It isn't retried; the time at which it could be is in the past soon."""
    world = happens(frozenset(gates.split()), [*steps, ("wait", 30)])
    assert not world.wrong


def let_pass(found: Gate | Gates) -> Gate | Gates:
    """A gate, or all gates of a feature, that pass everything."""
    if isinstance(found, Gate):
        return replace(found, judge=lambda *_: PASSED)
    version, moment = (
        tuple(replace(one, judge=lambda *_: PASSED) for one in part)
        for part in (found.version, found.moment)
    )
    return Gates(version, moment)


BROKEN: list[tuple[ModuleType | type, str, str, list[Step], str]] = [
    (AgeFeature, "gates", "age", [("wait", 200), ("push", (1, 0), 30)], "too young"),
    (PromotionFeature, "gates", "", [("wait", 30)], "it was deployed in staging for"),
    (DependenciesFeature, "gates", "", [("wait", 7)], "staging isn't Ready"),
    (
        WindowsFeature,
        "gates",
        "windows",
        [("wait", 300), ("push", (1, 0), 30)],
        "no window is open",
    ),
    (ApprovalFeature, "gates", "approval", [("wait", 100)], "nobody approved it"),
    (
        RollbackFeature,
        "gates",
        "",
        [("freeze", HOME, None), ("skip", "shop", 0), ("thaw", HOME), ("wait", 30)],
        "the digest is skipped",
    ),
]


SOME = BROKEN if LONG else BROKEN[::2]


@pytest.mark.parametrize(
    ("module", "name", "gate", "steps", "said"),
    SOME,
    ids=[
        module.__name__.split(".")[-1] if name in ("GATE", "gates") else name.lower()
        for module, name, *_ in SOME
    ],
)
def test_a_gate_that_lets_everything_pass_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType | type,
    name: str,
    gate: str,
    steps: list[Step],
    said: str,
) -> None:
    gates = frozenset({gate} - {""})
    assert happens(gates, steps).wrong == []
    monkeypatch.setattr(module, name, let_pass(getattr(module, name)))
    assert any(said in one for one in happens(gates, steps).wrong)


def test_a_wait_that_a_clock_set_forward_ends_is_not_longer() -> None:
    steps: list[Step] = [("freeze", HOME, 600), ("wait", 30), ("clock", 900), ("wait", 20)]
    assert happens(frozenset(), steps).wrong == []
