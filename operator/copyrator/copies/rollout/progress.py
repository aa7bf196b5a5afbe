"""Carries out ``spec.rollout``: opens a rule's barrier step by step (steps.py decides).

A step is written to the status before any copy of it. A restart continues from the status and the
copies' seals, which show what was written of a step. Old and new content are compared in memory: no
copy is read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from copyrator.api.conditions import Health, ReadyCondition
from copyrator.api.keys import CopyKey
from copyrator.api.reasons.rules import RuleReason
from copyrator.api.rollout import Restart, Rollout, RolloutState, Stopped
from copyrator.api.rule_status import RuleFacts
from copyrator.api.structs import replace
from copyrator.api.text import format_time
from copyrator.copies.context import CopyContext
from copyrator.copies.rollout import steps
from copyrator.copies.rollout.consumers import Consumers, ConsumersError
from copyrator.copies.rollout.steps import (
    ConsumerState,
    RestartCause,
    RolloutBarrier,
    TargetNamespace,
    in_order,
    merge_unhealthy,
    newly_unhealthy,
    unhealthy,
)
from copyrator.copies.rules.state import CompiledRule, RuleState
from copyrator.copies.rules.trace import Trigger
from copyrator.workqueue.fairness import TimeSlice

WriteStatus = Callable[[], Awaitable[None]]
"""Writes a rule's status now, unless another client has changed the rule."""


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
        if self.state is None or self.state.stopped is None:
            if not self.fault:
                return None
            text = f"the rollout can't continue: {copies}: {self.fault}"
            return ReadyCondition(Health.RETRYING, RuleReason.PARTIAL_FAILURE, text)
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

    @property
    def _steps(self) -> int:
        rollout = self.compiled.spec.rollout
        return len(rollout.steps) if rollout else 0


@dataclass(frozen=True, slots=True)
class RolloutTargets:
    """The namespaces that get copies of a rule."""

    ordered: Sequence[str]
    """In the order in which the steps cover them."""
    old: frozenset[str]
    """Those with a copy of other content."""
    unwritten: frozenset[str]
    """Of these, those whose write hasn't failed."""


AT_ONCE: Final = 0.0
"""In place of seconds: the content has changed meanwhile."""
FAULT_SECONDS: Final = 15.0
"""Seconds before consumers that couldn't be read or restarted are read again."""
UNSAVED: Final = 1.0
"""Seconds before a step is begun again whose state couldn't be written."""


@dataclass(slots=True)
class _Decision:
    """One decision about one rule."""

    context: CopyContext
    rule_state: RuleState
    rollout: RuleRollout
    spec: Rollout
    consumers: Consumers
    write: WriteStatus

    @property
    def compiled(self) -> CompiledRule:
        """The rule."""
        return self.rollout.compiled

    @property
    def content(self) -> str:
        """A keyed hash of what a rule's copies are to have now, whatever their namespaces."""
        owner = self.compiled.rule.owner
        bindings = self.context.index.of_rule(owner)
        marks = {origin: binding.mark.hex() for origin, binding in bindings.items()}
        return self.compiled.sealer.digest({"rule": owner, "content": marks}).hex()

    async def take(self) -> float | None:
        """Decide and act; see `Rollouts.advance`."""
        content = self.content
        before = self.rollout.state or self.compiled.rule.status.rollout
        if before is not None and before.content == content and not before.running:
            return self._done(content)
        now = self.context.clock()
        found = await self._compare(steps.began(before, content, now))
        if self.content != content:
            return AT_ONCE
        wanted = steps.Wanted(content, len(found.ordered), len(found.old))
        known = steps.begin(self.spec, before, wanted, now)
        if not known.running:
            interrupted = before is not None and before.running
            return (
                await self._at_once(content, found, before) if interrupted else self._done(content)
            )
        if self.compiled.rule.finish == known.id:
            return await self._at_once(content, found)
        return await (self._enter if known != before else self._carry_on)(known, found)

    async def _compare(self, began: datetime) -> RolloutTargets:
        """Compare all targets; `began`: when the rollout of the present content did, or would."""
        context, compiled = self.context, self.compiled
        view = context.kinds[compiled.resource]
        targets: dict[str, TargetNamespace] = {}
        old: set[str] = set()
        unwritten: set[str] = set()
        turn = TimeSlice()
        for binding in list(context.index.of_rule(compiled.rule.owner).values()):
            for name in list(compiled.targets):
                await turn.pause()
                namespace = context.namespaces.get(name)
                if namespace is None or namespace.terminating or not binding.covers(namespace):
                    continue
                targets[name] = TargetNamespace(name, namespace.labels, namespace.created)
                request = binding.request(namespace)
                key = CopyKey(compiled.resource, name, request.desired.name)
                record = view.copies.get((name, key.name))
                if record is None or record.owner != request.owner or record.deleting:
                    continue
                # One that can't be rendered isn't changed at all.
                if not (request.broken or request.pending) and request.is_old(record):
                    old.add(name)
                    if (
                        CopyKey(compiled.resource, name, request.desired.name)
                        not in context.problems
                    ):
                        unwritten.add(name)
        ordered = in_order(self.spec, targets.values(), began)
        return RolloutTargets(ordered, frozenset(old), frozenset(unwritten))

    async def _carry_on(self, known: RolloutState, found: RolloutTargets) -> float | None:
        """A step has begun, maybe before a restart."""
        is_edited = self.rollout.state is not None and self.rollout.step != known.step
        self.rollout.state = known
        paused = known.next_at is not None and known.stopped is None
        if is_edited and paused and (added := self._unwritten(known, found)):
            return await self._extend(known, found, added)
        if self.rollout.step != known.step:  # after a restart, or an edit of the rule
            self._admit(known, found)
        if known.stopped is not None:
            return await self._stopped(known, known.stopped, found)
        return await self._go_on(known, found)

    def _done(self, content: str) -> float | None:
        """No rollout is in progress, or not any more: there is nothing to wait for."""
        if self.rollout.state is not None and self.rollout.state.running:
            self._count("finished")
        self.rollout.state = RolloutState(content)
        self.rollout.open()
        return None

    async def _at_once(
        self, content: str, found: RolloutTargets, interrupted: RolloutState | None = None
    ) -> float | None:
        """Write everywhere: a change back from an `interrupted` rollout, or the end of one.

        The status keeps the rollout until its consumers are restarted, so that this isn't
        forgotten.
        """
        self.rollout.open()
        places = found.ordered
        if interrupted is not None:
            places = steps.share(self.spec, interrupted.step, found.ordered)
        if self.spec.restart is Restart.CONSUMERS:
            if found.unwritten:
                return None  # each write requeues the rule
            cause = RestartCause(self.compiled.rule.owner, content, back=interrupted is not None)
            seen = await self.consumers.find(self.compiled, places)
            await self.consumers.restart(cause, seen)
            if self.content != content:
                self.rollout.close()
                return AT_ONCE
        return self._done(content)

    def _count(self, outcome: str) -> None:
        self.context.metrics.rollouts.labels(outcome).inc()

    async def _enter(self, state: RolloutState, found: RolloutTargets) -> float | None:
        """Begin a step: it is written to the status before any copy of it."""
        if state.step == 1:
            self.rollout.close()
        if self.spec.health:
            seen = await self._read_consumers(state, found)
            state = replace(state, unhealthy_before=unhealthy(seen))
        return await self._begin(state, found)

    async def _extend(
        self, state: RolloutState, found: RolloutTargets, added: Sequence[str]
    ) -> float | None:
        """An edit has added namespaces to a step that has begun: its pause begins anew."""
        if self.spec.health:
            seen = await self.consumers.find(self.compiled, added)
            before = merge_unhealthy(state.unhealthy_before, unhealthy(seen))
            state = replace(state, unhealthy_before=before)
        state = replace(state, next_at=None, stopped=None)
        return await self._begin(state, found, is_new=False)

    async def _begin(
        self, state: RolloutState, found: RolloutTargets, *, is_new: bool = True
    ) -> float | None:
        if not await self._persist(state):
            return UNSAVED
        if self.content != state.content:
            return AT_ONCE
        if is_new and state.step == 1:
            self._count("started")
        self._admit(state, found)
        return None

    def _unwritten(self, state: RolloutState, found: RolloutTargets) -> list[str]:
        """The namespaces of a step that has begun whose copies are old, and can be written."""
        share = steps.share(self.spec, state.step, found.ordered)
        return [name for name in share if name in found.unwritten]

    async def _persist(self, state: RolloutState) -> bool:
        """Write a step to the status; it has begun only where that succeeded."""
        before, written = self.rollout.state, False
        self.rollout.state = state
        try:
            await self.write()
            stored = self.compiled.rule.status.rollout
            written = stored is not None and stored.ticket == state.ticket
        finally:
            if not written:
                self.rollout.state = before
        return written

    def _admit(self, state: RolloutState, found: RolloutTargets) -> None:
        portion = steps.portion(self.spec, state.step, found.ordered)
        self.rollout.admit(state.step, steps.share(self.spec, state.step, found.ordered), portion)

    async def _go_on(self, state: RolloutState, found: RolloutTargets) -> float | None:
        """Wait for the writes of a step, then for its pause, then begin the next one."""
        if state.next_at is None:
            if any(name in self.rollout for name in found.unwritten):
                return None  # each write requeues the rule
            if self.spec.restart is Restart.CONSUMERS:
                seen = await self._read_consumers(state, found)
                cause = RestartCause(self.compiled.rule.owner, state.content)
                await self.consumers.restart(cause, seen)
            if not self.spec.health and not self._next(state, found):
                return self._done(state.content)
            self.rollout.state = state = steps.paused(state, self.context.clock(), self._pause)
            self.rule_state.next_status = 0.0
        assert state.next_at is not None
        left = (state.next_at - self.context.clock()) / timedelta(seconds=1)
        if left > 0:
            return left
        if self.spec.health and self.compiled.rule.resume != state.ticket:
            one = newly_unhealthy(state, await self._read_consumers(state, found))
            if one is not None:
                return self._stop(state, one)
        return await self._end_step(state, found)

    @property
    def _pause(self) -> float:
        """Seconds between the writes of two steps."""
        least = self.context.settings.rollout_health_pause if self.spec.health else 0.0
        return max(self.spec.pause, least)

    async def _end_step(self, state: RolloutState, found: RolloutTargets) -> float | None:
        if self.content != state.content:
            return AT_ONCE
        if state.stopped is not None and (added := self._unwritten(state, found)):
            return await self._extend(state, found, added)  # an edit has made the step larger
        step = self._next(state, found)
        if not step:
            return self._done(state.content)
        after = replace(state, step=step, next_at=None, stopped=None)
        return await self._enter(after, found)

    def _next(self, state: RolloutState, found: RolloutTargets) -> int:
        return steps.next_step(self.spec, state.step, len(found.ordered))

    # --- health ----------------------------------------------------------------------------------

    async def _read_consumers(
        self, state: RolloutState, found: RolloutTargets
    ) -> list[ConsumerState]:
        """Read the consumers in the namespaces that a step adds."""
        if self.rollout.step == state.step:
            places: Sequence[str] = self.rollout.portion
        else:
            places = steps.portion(self.spec, state.step, found.ordered)
        return await self.consumers.find(self.compiled, places)

    def _stop(self, state: RolloutState, one: ConsumerState) -> float:
        """Stop the rollout: from now on only missing copies are written."""
        self.rollout.stop()
        self.rollout.state = replace(state, stopped=Stopped.by(one.consumer, one.lacks))
        self.rule_state.next_status = 0.0
        wait = self.context.timing.consumer_read
        self.rollout.next_consumer_read = self.context.monotonic() + wait
        self._count("stopped")
        return wait

    async def _stopped(
        self, state: RolloutState, stopped: Stopped, found: RolloutTargets
    ) -> float | None:
        """Continue when a user requests it, or when the consumer has recovered."""
        self.rollout.stop()
        if self.compiled.rule.resume == state.ticket:
            return await self._end_step(state, found)
        left = self.rollout.next_consumer_read - self.context.monotonic()
        if left > 0:
            return left
        wait = self.context.timing.consumer_read
        self.rollout.next_consumer_read = self.context.monotonic() + wait
        seen = await self.consumers.read(self.compiled, stopped)
        if seen is not None and not seen.healthy:
            return wait
        one = newly_unhealthy(state, await self._read_consumers(state, found))
        if one is not None:
            self.rollout.state = replace(state, stopped=Stopped.by(one.consumer, one.lacks))
            return wait
        return await self._end_step(state, found)


class Rollouts:
    """The rollouts of all rules with ``spec.rollout``."""

    def __init__(self, context: CopyContext) -> None:
        self._context = context
        self._consumers = Consumers(context)

    def begin(self, compiled: CompiledRule, earlier: object) -> RuleRollout:
        """Close the barrier of a version of a rule; `earlier` is that of the version before."""
        rollout = earlier if isinstance(earlier, RuleRollout) else RuleRollout(compiled)
        rollout.compiled = compiled
        rollout.close()
        return rollout

    async def advance(self, state: RuleState, write: WriteStatus) -> float | None:
        """Decide where a rule's changed content is written now; `write` writes its status.

        Returns:
            Seconds until this has to be called again although nothing changes, or None.

        Raises:
            ApiError: the status can't be written.
        """
        rollout = state.compiled.barrier if state.compiled else None
        assert isinstance(rollout, RuleRollout)
        spec = rollout.compiled.spec.rollout
        assert spec is not None
        decision = _Decision(self._context, state, rollout, spec, self._consumers, write)
        try:
            wait = await decision.take()
            rollout.fault = None
        except ConsumersError as error:
            wait, rollout.fault = FAULT_SECONDS, str(error)
        if rollout.state is not None and rollout.state.running:
            state.lag.changed_at = None  # its copies are delayed by the rollout
        return wait
