"""Decides which of a rule's copies are deleted, and ends rules.

Two bounds apply beside a complete view. What an edit of the rule would delete needs a confirmation
where it is more than ``spec.maxDelete``. Without an edit, a mass deletion needs a second list with
the same result.

Whether the rule was edited is derived from its status, so that a restart changes nothing: the
status names the last generation whose deletions were allowed.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable

from copyrator.api import names
from copyrator.api.keys import CopyKey, RuleKey
from copyrator.api.rule_spec import DeletionPolicy, RuleSpec
from copyrator.api.rule_status import RuleFacts
from copyrator.copies.context import CopyContext
from copyrator.copies.rules import ready_conditions
from copyrator.copies.rules.admission import is_served
from copyrator.copies.rules.rules import Rule
from copyrator.copies.rules.state import RulePhase, RuleState
from copyrator.copies.rules.status import (
    delay_first_status,
    patch_metadata,
    report_all_writes,
    write_status,
)
from copyrator.copies.rules.summarize import RuleSummary, owned_copies
from copyrator.copies.targets.planning import Cause, Unconfirmed, judge_edit
from copyrator.kube import errors
from copyrator.workqueue.fairness import TimeSlice
from copyrator.workqueue.queue import Done, Outcome, Priority, RequeueAfter

log = logging.getLogger(__name__)


class DeletionGuard:
    """Decides on the deletions of rules that are served."""

    def __init__(self, context: CopyContext) -> None:
        self._context = context

    # --- edits -----------------------------------------------------------------------------------

    async def judge(self, state: RuleState, rule: Rule, spec: RuleSpec) -> None:
        """Decide on the deletions of the rule's generation; before it writes anything."""
        if state.deletions.confirmed == rule.generation:
            return
        if rule.confirmed == str(rule.generation):
            state.deletions.confirm(rule.generation)
            return
        self._recall(state, rule)
        if state.deletions.confirmed == rule.generation or state.deletions.is_unconfirmed(
            rule.generation
        ):
            return
        deleted: set[CopyKey] = set()
        had = 0
        async for key, required in owned_copies(self._context, rule, TimeSlice()):
            had += 1
            if not required and self._would_delete(key):
                deleted.add(key)
        had = state.deletions.count_before(had)
        if state.phase is not RulePhase.SERVING:
            return
        found = None
        if spec.deletion_policy is DeletionPolicy.DELETE:
            unconfirmed = state.deletions.unconfirmed
            found = judge_edit(rule.generation, deleted, had, spec.max_delete, unconfirmed)
        if found is None:
            state.deletions.confirm(rule.generation)
        else:
            state.deletions.unconfirmed = found

    def _recall(self, state: RuleState, rule: Rule) -> None:
        """After a restart, restore earlier decisions about deletions from the status."""
        if state.deletions.recalled:
            return
        edit = rule.status.unconfirmed
        observed = rule.status.observed_generation
        confirmed, unconfirmed = state.deletions.confirmed, state.deletions.unconfirmed
        if edit and edit.copies and observed is not None:
            unconfirmed = Unconfirmed(observed, None, edit.had)
        elif rule.status.confirmed_generation == rule.generation:
            confirmed = rule.generation
        state.deletions.recall(confirmed, unconfirmed)

    def _would_delete(self, key: CopyKey) -> bool:
        """Whether no other rule takes over a copy that isn't required."""
        return self._context.plan(key).why is Cause.UNWANTED

    # --- copies ----------------------------------------------------------------------------------

    async def decide(self, state: RuleState, rule: Rule, summary: RuleSummary) -> None:
        """Decide which copies are deleted, on a complete view."""
        if state.deletions.is_unconfirmed(rule.generation) and not await self._ends(
            state, rule, summary
        ):
            return
        edited = state.deletions.take_edit() and state.summarized != 0
        if not summary.unwanted:
            state.deletions.spare()
            return
        known = state.deletions.condemned.issuperset(summary.unwanted)
        assert self._context.namespace_watch is not None
        watches = [*state.sources, self._context.namespace_watch]
        is_sure = edited or known or not summary.is_mass_deletion
        if not (is_sure or state.deletions.listed_again(watches)):
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
        state.deletions.condemned = set(summary.unwanted)
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
        if copies and state.deletions.unconfirmed is not None:
            edit = dataclasses.replace(state.deletions.unconfirmed, copies=frozenset(copies))
            state.deletions.unconfirmed = edit
            return False
        state.deletions.confirm(rule.generation)
        return True


KIND_GONE = 10.0
"""Seconds that a kind must be missing before its objects count as deleted."""
RECHECK_SECONDS = 5.0
"""Seconds before a rule that waits for its copies' deletion is reconciled again in any case."""


class RuleRemover:
    """Ends the service of rules.

    Args:
        release: closes what a rule has opened beside its watches.
        forgets: called with each rule that isn't served any more.
    """

    def __init__(
        self,
        context: CopyContext,
        release: Callable[[RuleKey], None],
        *forgets: Callable[[RuleKey], None],
    ) -> None:
        self._release = release
        self._forgets = (release, *forgets)
        self._context = context
        self._takeover_at: dict[RuleKey, float] = {}
        """Loop time from which this operator ends a rule that it doesn't serve."""

    def forget(self, key: RuleKey) -> None:
        """The rule is gone, or not this operator's: its copies aren't changed."""
        self._takeover_at.pop(key, None)
        self._context.rule_metrics.forget(key)
        for forget in self._forgets:
            forget(key)
        self._context.shares.forget(key, key.namespace)
        state = self._context.rule_states.pop(key, None)
        if state is not None:
            self._end(state, f"{key.namespace}/{key.name}")

    def freeze(self, rule: Rule) -> None:
        """The rule isn't valid or not trusted (any more): its copies aren't changed."""
        state = self._context.rule_states.get(rule.key)
        if state is not None:
            state.phase = RulePhase.FROZEN
            self._context.shares.forget(rule.key, rule.key.namespace)
            self._end(state, rule.owner)

    def _end(self, state: RuleState, owner: str) -> None:
        self.drop_bindings(owner)
        self._context.unmanaged.rule_ended(owner)
        state.end()

    def drop_bindings(self, owner: str) -> None:
        """Remove a rule's bindings; rules that had lost a target to it are queued."""
        for key in self._context.index.remove_rule(owner):
            self._context.queue.add(key, Priority.RESYNC)

    async def remove(self, rule: Rule) -> Outcome:
        """Delete the rule's copies, then remove the finalizer.

        Raises:
            ApiError: the finalizer can't be removed, or the status can't be written.
        """
        if names.FINALIZER_RULE not in rule.finalizers:
            self.forget(rule.key)
            return Done()
        context = self._context
        if (wait := self._takeover_wait(rule)) > 0:
            return RequeueAfter(wait)
        state = context.rule_states.setdefault(rule.key, RuleState(rule.key))
        if state.phase is not RulePhase.DELETING:
            self._end(state, rule.owner)
            self._release(rule.key)
            state.phase = RulePhase.DELETING
            delay_first_status(context, state)
        if not self._sees_all_copies(rule):
            await write_status(context, state, rule, ready_conditions.reading(), RuleFacts())
            return RequeueAfter(1.0)
        left = self._left(rule)
        if not left:
            await self._drop_finalizer(rule)
            return Done()
        for key in left:
            context.queue.add(key, Priority.NORMAL, respect_backoff=True)
        problems = [context.problems[key] for key in left if key in context.problems]
        condition = ready_conditions.removing(len(left), problems)
        await write_status(context, state, rule, condition, RuleFacts(failures=problems))
        return RequeueAfter(RECHECK_SECONDS)

    def _takeover_wait(self, rule: Rule) -> float:
        """Seconds to wait for another operator that may serve the rule; 0 where this one may act.

        The finalizer may also date from before our settings changed: then no other operator serves
        it.
        """
        context = self._context
        if is_served(rule.key, context.settings):
            return 0.0
        takeover_at = self._takeover_at.setdefault(
            rule.key, context.monotonic() + context.timing.takeover
        )
        return max(0.0, takeover_at - context.monotonic())

    def _sees_all_copies(self, rule: Rule) -> bool:
        """Whether the absence of copies can be relied on.

        A kind that we may not list blocks only its own rules. One that isn't served any more has no
        objects left: a CRD's deletion ends only after theirs.
        """
        kind = rule.kind[0] if rule.kind else None
        if not self._context.namespaces_synced:
            return False
        for view in self._context.kinds.values():
            if view.synced:
                continue
            failure = view.registration.failure
            if not isinstance(failure, errors.Forbidden | errors.NotFound):
                return False
            missing = isinstance(failure, errors.NotFound) and failure.kind_missing
            is_gone = missing and view.registration.reflector.failing_for >= KIND_GONE
            if view.resource.kind == kind and not is_gone:
                return False
        return True

    def _left(self, rule: Rule) -> list[CopyKey]:
        """The copies that still exist.

        Those in Terminating namespaces don't count, nor do those that are being deleted: the owner
        of their finalizer has to remove it, and that blocks nothing else.
        """
        context = self._context
        return [key for key in context.owned(rule.owner) if context.has_copy(rule.owner, key)]

    async def _drop_finalizer(self, rule: Rule) -> None:
        finalizers = [one for one in rule.finalizers if one != names.FINALIZER_RULE]
        try:
            await patch_metadata(self._context, rule, finalizers=finalizers)
        except errors.NotFound:
            return
        report_all_writes(self._context, [rule])
        self.forget(rule.key)
