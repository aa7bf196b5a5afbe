"""Carries out ``spec.rollout``: opens a rule's gate step by step (policy/rollout.py decides).

A step is written to the status before any copy of it. Without the rest of a status a restart goes
on where it was: what was written of a step is told from the copies' seals.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from copyrator.api.rollout import Rollout, RolloutState, read_rollout_state
from copyrator.copies.cache.bindings import CompiledRule, CopyRequest, SourceBinding
from copyrator.copies.cache.rollout_gate import RolloutGate
from copyrator.copies.context import CopyContext
from copyrator.copies.policy import rollout as policy
from copyrator.copies.rule_state import RuleState
from copyrator.workqueue.timeslice import TimeSlice

Persist = Callable[[], Awaitable[bool]]
"""Writes the status now; returns whether it has the rollout's state."""
AT_ONCE: Final = 0.0
"""In place of seconds: the content has changed meanwhile."""
UNSAVED: Final = 1.0
"""Seconds before a step is begun again whose state couldn't be written."""


@dataclass(slots=True)
class _Found:
    """A rule's targets, compared with what it wants."""

    ordered: Sequence[str]
    """In the order of their turns."""
    old: set[str]
    """Those with a copy of other content."""
    unwritten: set[str]
    """Of these, those that haven't failed."""


@dataclass(slots=True)
class _Turn:
    """One decision about one rule."""

    context: CopyContext
    state: RuleState
    compiled: CompiledRule
    spec: Rollout
    persist: Persist

    @property
    def gate(self) -> RolloutGate:
        """Where changed content is written."""
        assert self.compiled.gate is not None
        return self.compiled.gate

    async def take(self) -> float | None:
        """Decide and act; see `advance`."""
        content = self._content()
        before = self.state.rollout or read_rollout_state(self.compiled.rule.status)
        if before is not None and before.content == content and not before.running:
            return self._done(content)
        found = await self._compare()
        if self._content() != content:
            return AT_ONCE
        wanted = policy.Wanted(content, len(found.ordered), len(found.old))
        known = policy.begin(self.spec, before, wanted, self.context.clock())
        if not known.running or self.compiled.rule.finish == content:
            return self._done(content)
        if known != before:
            return await self._enter(known, found)
        self.state.rollout = known
        if self.gate.step != known.step:  # after a restart, or an edit of the rule
            self._admit(known, found)
        return await self._go_on(known, found)

    def _done(self, content: str) -> float | None:
        """No rollout is in progress, or not any more: there is nothing to wait for."""
        self.state.rollout, self.state.rollout_fault = RolloutState(content), None
        self.gate.open()
        return None

    async def _enter(self, state: RolloutState, found: _Found) -> float | None:
        """Begin a step."""
        self.gate.close()
        self.state.rollout = state
        if not await self.persist():
            return UNSAVED
        if self._content() != state.content:
            return AT_ONCE
        self._admit(state, found)
        return None

    def _admit(self, state: RolloutState, found: _Found) -> None:
        self.gate.admit(state.step, policy.share(self.spec, state.step, found.ordered))

    async def _go_on(self, state: RolloutState, found: _Found) -> float | None:
        """Wait for the writes of a step, then for its pause, then begin the next one."""
        now = self.context.clock()
        step = policy.next_step(self.spec, state.step, len(found.ordered))
        if state.next_at is None:
            if any(name in self.gate for name in found.unwritten):
                return None  # each write is followed by a look at the rule
            if not step:
                return self._done(state.content)
            self.state.rollout = state = policy.paused(state, now, self.spec.pause)
        assert state.next_at is not None
        if now < state.next_at:
            return (state.next_at - now) / timedelta(seconds=1)
        if not step:
            return self._done(state.content)
        return await self._enter(dataclasses.replace(state, step=step, next_at=None), found)

    # --- what is wanted, and what exists ---------------------------------------------------------

    def _content(self) -> str:
        """A keyed hash of what the rule's copies are to have, whatever their namespaces."""
        owner = self.compiled.rule.owner
        marks = {
            origin: binding.mark.hex()
            for origin, binding in self.context.index.of_rule(owner).items()
        }
        return self.compiled.sealer.digest({"rule": owner, "content": marks}).hex()

    async def _compare(self) -> _Found:
        """All targets, in memory: no copy is read."""
        targets: dict[str, Mapping[str, str]] = {}
        old: set[str] = set()
        unwritten: set[str] = set()
        turn = TimeSlice()
        for binding in list(self.context.index.of_rule(self.compiled.rule.owner).values()):
            for name in list(self.compiled.targets):
                await turn.pause()
                namespace = self.context.home.namespaces.get(name)
                if namespace is None or namespace.terminating or not binding.covers(namespace):
                    continue
                targets[name] = namespace.labels
                request = CopyRequest.of(binding, namespace)
                if self._is_old(binding, request):
                    old.add(name)
                    if not self._has_failed(request):
                        unwritten.add(name)
        return _Found(policy.in_order(self.spec, targets.items()), old, unwritten)

    def _is_old(self, binding: SourceBinding, request: CopyRequest) -> bool:
        view = self.context.home.kinds.get(binding.compiled.resource)
        if view is None or request.broken or request.pending:
            return False
        record = view.copies.get((request.namespace.name, request.desired.name))
        mine = (
            record is not None and record.owner == self.compiled.rule.owner and not record.deleting
        )
        return mine and record is not None and request.is_old(record)

    def _has_failed(self, request: CopyRequest) -> bool:
        key = self.context.home.key(
            self.compiled.resource, request.namespace.name, request.desired.name
        )
        return key in self.context.problems


async def advance(context: CopyContext, state: RuleState, persist: Persist) -> float | None:
    """Decide where a rule's changed content is written now.

    Returns:
        Seconds until this has to be called again although nothing changes, or None.

    Raises:
        ApiError: the status can't be written.
    """
    compiled = state.compiled
    assert compiled is not None
    spec = compiled.spec.rollout
    if compiled.gate is None or spec is None:
        state.rollout = None
        return None
    if not context.rollouts:
        compiled.gate.open()
        return None
    return await _Turn(context, state, compiled, spec, persist).take()
