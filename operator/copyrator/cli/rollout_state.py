"""A rule's rollout as commands show it: pure, from the spec, the status and the time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from copyrator.api.rollout import Restart, Rollout, RolloutState, read_rollout_state
from copyrator.api.rule_status import read_rule_status
from copyrator.api.times import format_duration, format_time
from copyrator.cli import rows


def state_of(status: Any) -> RolloutState | None:
    """The rollout that is in progress by a stored status, or None."""
    if not isinstance(status, Mapping) or "rollout" not in status:
        return None
    state = read_rollout_state(read_rule_status(status))
    return state if state is not None and state.running else None


def progress(body: Mapping[str, Any]) -> str:
    """``step 2/4``, or ``step 2/4, stopped``; a dash where no rollout is in progress."""
    status = body.get("status") or {}
    state = state_of(status)
    if state is None:
        return "-"
    stopped = ", stopped" if state.stopped is not None else ""
    return f"step {state.step}/{_steps(status)}{stopped}"


def _steps(status: Mapping[str, Any]) -> object:
    return (status.get("rollout") or {}).get("steps", "?")


def described(rollout: Rollout) -> str:
    """``1, 10%, 100%; 10m after each; tier=canary first; watches health``."""
    parts = [", ".join(rollout.steps), f"{format_duration(rollout.pause)} after each"]
    if rollout.first is not None:
        parts.append(f"{rollout.first.to_string()} first")
    if rollout.health:
        parts.append("stops if consumers aren't healthy")
    if rollout.restart is Restart.CONSUMERS:
        parts.append("restarts consumers")
    return "; ".join(parts)


def state_lines(status: Mapping[str, Any], now: datetime) -> Iterator[str]:
    """The present step, and the consumer that stopped it."""
    state = state_of(status)
    if state is None:
        return
    text = f"{state.step} of {_steps(status)}"
    if state.stopped is not None:
        who = state.stopped.consumer
        yield f"{text}, stopped: {who.kind} {who.namespace}/{who.name}: {state.stopped.message}"
    elif state.next_at is not None:
        stamp = format_time(state.next_at)
        yield f"{text}, its pause ends at {stamp} ({rows.until(stamp, now)})"
    else:
        yield f"{text}, being written"


def in_steps(rollout: Rollout, targets: int) -> str:
    """A sentence for a plan: its changes of existing copies aren't made at once."""
    pause = format_duration(rollout.pause)
    return (
        f"Existing copies are changed in steps (spec.rollout): {rollout.to_string(targets)} of "
        f"{targets} namespaces, {pause} after each; new ones are created at once."
    )


def waits(owner: str, state: RolloutState) -> str:
    """Why a copy of a rule may not have the new content yet."""
    text = (
        f"It doesn't have the new content: the rule {owner} changes its copies in steps, and "
        f"the step of this copy hasn't begun (step {state.step}"
    )
    if state.stopped is not None:
        who = state.stopped.consumer
        return f"{text}); the rollout is stopped by {who.kind} {who.namespace}/{who.name}."
    due = f", the next one is due at {format_time(state.next_at)}" if state.next_at else ""
    return f"{text}{due})."
