"""One rule's rollout, as it is remembered between two reconciles, and what is said of it."""

from __future__ import annotations

import dataclasses

from copyrator.api.conditions import Health, ReadyCondition
from copyrator.api.reasons.rules import RuleReason
from copyrator.api.rollout import RolloutState
from copyrator.api.rule_status import RuleFacts
from copyrator.api.text import format_time
from copyrator.copies.rollout.steps import RolloutBarrier
from copyrator.copies.rules.state import CompiledRule
from copyrator.copies.rules.trace import Trigger


class RuleRollout(RolloutBarrier):
    """A rule's barrier (copies.rules.state.Barrier), and why it is where it is."""

    __slots__ = ("compiled", "fault", "next_consumer_read", "state")

    def __init__(self, compiled: CompiledRule) -> None:
        super().__init__()
        self.compiled = compiled
        self.state: RolloutState | None = None
        """For the status; None while it isn't known."""
        self.fault: str | None = None
        """Why it can't continue now: a message."""
        self.next_consumer_read = 0.0
        """Loop time before which the consumer that stopped it is not read."""

    def describe(self, facts: RuleFacts) -> RuleFacts:
        """What the status says of it."""
        return dataclasses.replace(facts, rollout=self.state)

    def cause(self) -> tuple[Trigger, tuple[str, ...]] | None:
        """A step after the first one, or a user's end of all steps; None where it is neither."""
        if self.state is None:
            return None
        finish = self.compiled.rule.finish or ""
        if finish.startswith(f"{self.state.content}-"):  # it may have ended already
            return Trigger.ROLLOUT_FINISHED, ()
        return (Trigger.ROLLOUT, (str(self.state.step),)) if self.state.step > 1 else None

    @property
    def progress(self) -> str:
        """``rollout step 2 of 4, the next one is due at …``; empty where none is in progress."""
        state = self.state
        if state is None or not state.running:
            return ""
        text = f"rollout step {state.step} of {self._steps}"
        if state.next_at is None:
            return f"{text}, being written"
        due = "it ends" if state.step == self._steps else "the next one is due"
        return f"{text}, {due} at {format_time(state.next_at)}"

    def blocked(self, copies: str) -> ReadyCondition | None:
        """Why nothing more is changed; `copies` is how many have the new content."""
        return self._stopped(copies) or self._faulty(copies)

    def _stopped(self, copies: str) -> ReadyCondition | None:
        """A consumer isn't healthy with the new content: its recovery or a user continues it."""
        if self.state is None or self.state.stopped is None:
            return None
        who, lacks = self.state.stopped, self.state.stopped.message
        return ReadyCondition(
            Health.STALLED,
            RuleReason.ROLLOUT_STOPPED,
            f"{who.kind} {who.namespace}/{who.name} isn't healthy since its copy was changed"
            f"{f' ({lacks})' if lacks else ''}; the rollout is stopped at step {self.state.step} "
            f"of {self._steps}: {copies}. It continues when that recovers, and starts over when "
            "the source changes; to continue nevertheless: copyrator rollout resume rule "
            f"{self.compiled.rule.owner}",
        )

    def _faulty(self, copies: str) -> ReadyCondition | None:
        if not self.fault:
            return None
        text = f"the rollout can't continue: {copies}: {self.fault}"
        return ReadyCondition(Health.RETRYING, RuleReason.PARTIAL_FAILURE, text)

    @property
    def _steps(self) -> int:
        rollout = self.compiled.spec.rollout
        return len(rollout.steps) if rollout else 0
