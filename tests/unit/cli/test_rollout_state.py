"""What commands say of a rollout."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from copyrator.api.rollout import Consumer, Restart, Rollout, RolloutState, Stopped
from copyrator.api.selectors import LabelSelector
from copyrator.cli.view.rule import (
    describe_rollout,
    in_steps,
    rollout_lines,
    rollout_progress,
    rollout_state,
    waits_for_rollout,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
RUNNING = RolloutState("a" * 32, step=2, next_at=NOW + timedelta(seconds=90))
STOPPED = RolloutState(
    "a" * 32, step=2, stopped=Stopped(Consumer("team-a", "Deployment", "web"), "Replicas: 0/1")
)
ROLLOUT = Rollout(("1", "10%", "100%"))


@pytest.mark.parametrize(
    ("rollout", "text"),
    [
        (ROLLOUT, "1, 10%, 100%; 10m after each"),
        (
            Rollout(
                ("100%",),
                3600,
                LabelSelector.from_labels({"tier": "canary"}),
                True,
                Restart.CONSUMERS,
            ),
            (
                "100%; 1h after each; tier=canary first; stops if consumers aren't healthy; "
                "restarts consumers"
            ),
        ),
    ],
)
def test_the_spec_in_a_line(rollout, text):
    assert describe_rollout(rollout) == text


@pytest.mark.parametrize(
    ("state", "lines"),
    [
        (RolloutState("a" * 32), []),
        (RolloutState("a" * 32, step=1), ["1 of 3, being written"]),
        (RUNNING, ["2 of 3, its pause ends at 2026-01-01T12:01:30Z (in 90s)"]),
        (STOPPED, ["2 of 3, stopped: Deployment team-a/web: Replicas: 0/1"]),
    ],
)
def test_the_step(state, lines):
    assert list(rollout_lines({"rollout": state.to_dict(3)}, NOW)) == lines


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (RolloutState("a" * 32), "-"),
        (RUNNING, "step 2/3"),
        (STOPPED, "step 2/3, stopped"),
    ],
)
def test_the_progress_in_a_table(state, text):
    assert rollout_progress({"status": {"rollout": state.to_dict(3)}}) == text
    assert rollout_progress({}) == rollout_progress({"status": {"rollout": "junk"}}) == "-"


def test_what_isnt_ours_is_no_rollout():
    assert rollout_state(None) is None
    assert rollout_state({"rollout": {"content": "x", "step": 1}}) is None


def test_a_plan_names_the_namespaces_of_each_step():
    assert in_steps(ROLLOUT, 500) == (
        "Existing copies are changed in steps (spec.rollout): 1, 50, 500 of 500 namespaces, 10m "
        "after each; new ones are created at once."
    )


def test_why_a_copy_isnt_changed_yet():
    assert waits_for_rollout("home/r", RUNNING) == (
        "It doesn't have the new content: the rule home/r changes its copies in steps, and the "
        "step of this copy hasn't begun (step 2, the next one is due at 2026-01-01T12:01:30Z)."
    )


def test_a_stopped_rollout_has_no_next_step_that_is_due():
    stopped = replace(STOPPED, next_at=NOW)
    assert waits_for_rollout("home/r", stopped).endswith(
        "(step 2); the rollout is stopped by Deployment team-a/web."
    )
