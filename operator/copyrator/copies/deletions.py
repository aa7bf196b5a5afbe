"""Decides which of a rule's copies are deleted, and which deletions wait.

Two bounds apply beside a complete view. What an edit of the rule would delete needs a confirmation
where it is more than ``spec.maxDelete``. Without an edit, a mass deletion needs a second list with
the same result.

Whether the rule was edited is derived from its status, so that a restart changes nothing: the
status names the last generation whose deletions were allowed.
"""

from __future__ import annotations

import dataclasses
import logging

from copyrator.api.keys import CopyKey
from copyrator.api.rule_spec import DeletionPolicy, RuleSpec
from copyrator.api.rule_status import confirmed_generation, read_unconfirmed
from copyrator.copies.cache.rules import Rule
from copyrator.copies.context import CopyContext
from copyrator.copies.policy.confirmation import Unconfirmed, judge_edit
from copyrator.copies.policy.planning import Cause
from copyrator.copies.rule_state import RulePhase, RuleState
from copyrator.copies.summarize import RuleSummary, owned_copies
from copyrator.workqueue.fairness import TimeSlice
from copyrator.workqueue.outcome import Priority

log = logging.getLogger(__name__)


class DeletionGuard:
    """Decides on the deletions of rules that are served."""

    def __init__(self, context: CopyContext) -> None:
        self._context = context

    # --- edits -----------------------------------------------------------------------------------

    async def judge(self, state: RuleState, rule: Rule, spec: RuleSpec) -> None:
        """Decide on the deletions of the rule's generation; before it writes anything."""
        if state.confirmed == rule.generation:
            return
        if rule.confirmed == str(rule.generation):
            state.confirm(rule.generation)
            return
        self._recall(state, rule)
        if state.confirmed == rule.generation or state.is_unconfirmed(rule.generation):
            return
        deleted, had = await self._find_deletions(rule)
        had = state.count_before(had)
        if state.phase is not RulePhase.SERVING:
            return
        found = None
        if spec.deletion_policy is DeletionPolicy.DELETE:
            args = (set(deleted), had, spec.max_delete, state.unconfirmed)
            found = judge_edit(rule.generation, *args)
        if found is None:
            state.confirm(rule.generation)
        else:
            state.leave_unconfirmed(found)

    def _recall(self, state: RuleState, rule: Rule) -> None:
        """After a restart, restore earlier decisions about deletions from the status."""
        if state.recalled:
            return
        edit = read_unconfirmed(rule.status)
        observed = rule.status.get("observedGeneration")
        confirmed, unconfirmed = state.confirmed, state.unconfirmed
        if edit and edit.copies and isinstance(observed, int):
            unconfirmed = Unconfirmed(observed, None, edit.had)
        elif confirmed_generation(rule.status) == rule.generation:
            confirmed = rule.generation
        state.recall(confirmed, unconfirmed)

    async def _find_deletions(self, rule: Rule) -> tuple[list[CopyKey], int]:
        """The copies that no rule requires, and how many the rule has."""
        deleted, had = [], 0
        async for key, required in owned_copies(self._context, rule, TimeSlice()):
            had += 1
            if not required and self._would_delete(key):
                deleted.append(key)
        return deleted, had

    def _would_delete(self, key: CopyKey) -> bool:
        """Whether no other rule takes over a copy that isn't required."""
        return self._context.plan(key).why is Cause.UNWANTED

    # --- copies ----------------------------------------------------------------------------------

    async def decide(self, state: RuleState, rule: Rule, summary: RuleSummary) -> None:
        """Decide which copies are deleted, on a complete view."""
        if state.is_unconfirmed(rule.generation) and not await self._ends(state, rule, summary):
            return
        edited = state.take_edit() and state.summarized != 0
        if not summary.unwanted:
            state.spare()
            return
        known = state.condemned.issuperset(summary.unwanted)
        if summary.is_mass_deletion and not (edited or known or self._is_listed_again(state)):
            log.warning(
                "%s: %d of %d copies are no longer required, although the rule hasn't changed; "
                "listing again before they are deleted",
                state.key,
                len(summary.unwanted),
                len(summary.unwanted) + summary.kept,
            )
            return
        if not known:
            state.trace.deletes_by_edit = edited
        state.condemn(summary.unwanted)
        for key in summary.unwanted:
            self._context.queue.add(key, Priority.NORMAL, respect_backoff=True)

    async def _ends(self, state: RuleState, rule: Rule, summary: RuleSummary) -> bool:
        """Whether an unconfirmed edit would delete nothing any more; else it stays unconfirmed."""
        turn = TimeSlice()
        copies = set()
        for key in summary.unwanted:
            if self._would_delete(key):
                copies.add(key)
            await turn.pause()
        if copies and state.unconfirmed is not None:
            edit = dataclasses.replace(state.unconfirmed, copies=frozenset(copies))
            state.leave_unconfirmed(edit)
            return False
        state.confirm(rule.generation)
        return True

    def _is_listed_again(self, state: RuleState) -> bool:
        assert self._context.home.namespace_watch is not None
        return state.listed_again([*state.sources, self._context.home.namespace_watch])
