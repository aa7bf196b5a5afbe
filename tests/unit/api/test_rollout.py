"""``spec.rollout`` and ``status.rollout``: what is accepted, and what is read back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.replacing import replace
from tests.targets import EVERYWHERE

from copyrator.api.rollout import (
    ROLLOUT_STEPS,
    UNHEALTHY_BEFORE,
    Consumer,
    Restart,
    Rollout,
    RolloutState,
    Stopped,
)
from copyrator.api.rule_spec import RuleSpec, parse_rule
from copyrator.api.rule_status import read_rule_status
from copyrator.api.schema import InvalidSpec
from copyrator.api.selectors import LabelSelector
from hostile.mangled import JSON


def read_rollout_state(status: dict[str, Any]) -> RolloutState | None:
    return read_rule_status({"status": status}).rollout


NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
CONTENT = "0123456789abcdef" * 2


def parsed(**rollout: Any) -> RuleSpec | InvalidSpec:
    source = {"kind": "Secret", "name": "x"}
    return parse_rule(
        {"metadata": {}, "spec": {"source": source, "targets": EVERYWHERE, "rollout": rollout}}
    )


def accepted(**rollout: Any) -> Rollout:
    spec = parsed(**rollout)
    assert isinstance(spec, RuleSpec), spec
    assert spec.rollout is not None
    return spec.rollout


def test_everything_is_read_and_has_defaults() -> None:
    assert accepted(steps=["100%"]) == Rollout(("100%",), 600.0, None, False, Restart.NEVER)
    steps = ("1", "10%", "50%", "100%")
    first = {"matchLabels": {"tier": "canary"}}
    found = accepted(steps=[*steps], pause="1h30m", first=first, health=True, restart="Consumers")
    canary = LabelSelector.from_labels({"tier": "canary"})
    assert found == Rollout(steps, 5400.0, canary, True, Restart.CONSUMERS)


@pytest.mark.parametrize(
    ("steps", "targets", "totals"),
    [
        (["1", "10%", "50%", "100%"], 500, [1, 50, 250, 500]),
        (["1", "10%", "50%", "100%"], 7, [1, 1, 4, 7]),
        (["1", "10%", "50%", "100%"], 1, [1, 1, 1, 1]),
        (["1", "10%", "50%", "100%"], 0, [0, 0, 0, 0]),
        (["5", "1%", "100%"], 100, [5, 5, 100]),
        (["29%", "100%"], 100, [29, 100]),
        (["1000", "100%"], 10, [10, 10]),
    ],
)
def test_steps_are_totals_rounded_up(steps: list[str], targets: int, totals: list[int]) -> None:
    found = accepted(steps=steps)
    assert found.totals(targets) == totals
    assert found.to_string(targets) == ", ".join(map(str, dict.fromkeys(totals)))


@pytest.mark.parametrize(
    ("rollout", "reads"),
    [({}, False), ({"health": True}, True), ({"restart": "Consumers"}, True)],
)
def test_which_rules_read_consumers(rollout: dict[str, Any], reads: bool) -> None:
    assert accepted(steps=["100%"], **rollout).reads_consumers is reads


STATES = [
    RolloutState(CONTENT),
    RolloutState(CONTENT, step=ROLLOUT_STEPS),
    RolloutState(CONTENT, step=2, previous="a" * 32, started_at=NOW),
    RolloutState(
        CONTENT,
        step=2,
        previous="a" * 32,
        started_at=NOW,
        next_at=NOW,
        stopped=Stopped("team-a", "Deployment", "web", "Replicas: 0/1"),
        unhealthy_before=("team-a/Deployment/api",),
    ),
]


@pytest.mark.parametrize("state", STATES)
def test_a_state_is_read_as_it_was_written(state: RolloutState) -> None:
    assert read_rollout_state({"rollout": state.to_dict()}) == state


@pytest.mark.parametrize(
    "found",
    [
        None,
        [],
        {},
        {"content": "short"},
        {"content": 5},
        {"content": CONTENT, "step": -1},
        {"content": CONTENT, "step": ROLLOUT_STEPS + 1},
        {"content": CONTENT, "step": True},
        {"content": CONTENT, "step": "1"},
    ],
)
def test_what_isnt_ours_counts_as_absent(found: Any) -> None:
    assert read_rollout_state({"rollout": found}) is None


def test_a_hostile_state_is_bounded() -> None:
    many = [*(f"n/Deployment/{number}" for number in range(300)), 5]
    found = {"content": CONTENT, "step": 1, "unhealthyBefore": many, "stopped": {"name": "x" * 999}}
    state = read_rollout_state({"rollout": found})
    assert state is not None
    assert len(state.unhealthy_before) == UNHEALTHY_BEFORE
    assert state.stopped is not None
    assert len(state.stopped.name) == 400
    assert (state.stopped.namespace, state.stopped.kind) == ("", "")
    longest, longer = "x" * 400, "x" * 401
    state = read_rollout_state({"rollout": found | {"unhealthyBefore": [longer, longest]}})
    assert state is not None
    assert state.unhealthy_before == (longest,)


def test_the_status_has_what_is_known_of_a_rollout_that_runs() -> None:
    assert STATES[0].to_dict() == {"content": CONTENT}
    assert replace(STATES[-1], steps=4).to_dict() == {
        "content": CONTENT,
        "step": 2,
        "steps": 4,
        "previous": "a" * 32,
        "startedAt": "2026-01-01T12:00:00Z",
        "nextAt": "2026-01-01T12:00:00Z",
        "stopped": {
            "namespace": "team-a",
            "kind": "Deployment",
            "name": "web",
            "message": "Replicas: 0/1",
        },
        "unhealthyBefore": ["team-a/Deployment/api"],
    }


def test_a_long_message_is_cut() -> None:
    stopped = Stopped.by(Consumer("a", "Deployment", "b"), "x" * 1000)
    assert len(stopped.to_dict()["message"]) == 256


def test_each_rollout_and_each_step_of_it_has_a_name_of_its_own() -> None:
    state = RolloutState(CONTENT, step=3, started_at=NOW)
    assert state.id == f"{CONTENT}-2026-01-01T12:00:00Z"
    assert state.ticket == f"{CONTENT}-2026-01-01T12:00:00Z-3"
    assert RolloutState(CONTENT).id == f"{CONTENT}-"


@given(JSON)
def test_no_json_breaks_the_readers(value: Any) -> None:
    assert isinstance(parsed(steps=value), RuleSpec | InvalidSpec)
    read_rollout_state({"rollout": value})
    read_rollout_state({"rollout": {"content": CONTENT, "stopped": value, "startedAt": value}})


@given(st.lists(st.integers(1, 100), min_size=1, max_size=6, unique=True), st.integers(0, 10_000))
def test_totals_never_decrease_and_end_with_all(steps: list[int], targets: int) -> None:
    texts = [f"{one}%" for one in sorted({*steps, 100})]
    totals = accepted(steps=texts).totals(targets)
    assert totals == sorted(totals)
    assert totals[-1] == targets
