"""Summarizes a rule's copies: which are right, due, failed or unwanted.

A summary compares what is wanted with what exists, both in memory, without requests. It is done in
slices: with 100,000 copies it takes a large part of a second.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from copyrator.api import names
from copyrator.api.keys import CopyKey
from copyrator.api.reasons.rules import FailureReason
from copyrator.api.rule_status import MAX_FAILURES, Failure
from copyrator.copies.rules.rules import Rule
from copyrator.copies.sources.bindings import CopyRequest, SourceBinding
from copyrator.copies.targets.planning import FEW_DELETIONS, Action, Cause, CopyDecision
from copyrator.workqueue.fairness import TimeSlice

if TYPE_CHECKING:
    from copyrator.copies.context import CopyContext

log = logging.getLogger(__name__)


@dataclass(slots=True)
class RuleSummary:
    """The result of comparing a rule's desired copies with the existing ones."""

    desired: int = 0
    ready: int = 0
    satisfied: int = 0
    """Of the ready ones: objects that other clients made."""
    failed: int = 0
    conflicts: int = 0
    stuck: int = 0
    """Unwanted copies whose removal failed."""
    kept: int = 0
    """Wanted copies that exist and are ours, right or not."""
    missing: int = 0
    """Wanted copies that don't exist (and no unmanaged object does)."""
    due: list[CopyKey] = field(default_factory=list)
    """Targets that are due and didn't fail before."""
    retrying: list[CopyKey] = field(default_factory=list)
    """Targets that failed and wait for their back-off."""
    unsealed: list[CopyKey] = field(default_factory=list)
    """Wanted copies that carry the rule's marks without a valid seal, to be read once."""
    refused: list[CopyKey] = field(default_factory=list)
    """Those that were read and don't have the wanted content, or couldn't be resealed."""
    unwanted: list[CopyKey] = field(default_factory=list)
    """Copies of the rule that it doesn't want any more."""
    contested: list[CopyKey] = field(default_factory=list)
    """Copies that others change back each time, right now or not."""
    contest: str = ""
    """The first of them, and what others do to it."""
    samples: list[Failure] = field(default_factory=list)

    @property
    def pending(self) -> int:
        """Neither right nor failed."""
        others = self.failed + self.conflicts + len(self.contested)
        return self.desired - self.ready - others

    @property
    def is_mass_deletion(self) -> bool:
        """More than half of the rule's copies, and more than FEW."""
        total = self.kept + len(self.unwanted)
        return len(self.unwanted) > FEW_DELETIONS and 2 * len(self.unwanted) > total

    def sample(self, key: CopyKey, reason: FailureReason, message: str) -> None:
        """Keep a failure for the status, which holds a few."""
        self.keep(key, Failure(key.namespace, key.name, reason, message))

    def keep(self, _key: CopyKey, failure: Failure) -> None:
        """The same of a failure that is known; copies that others change back leave one place."""
        contested = FailureReason.CONFLICT_PERSISTS
        if len(self.samples) < MAX_FAILURES:
            self.samples.append(failure)
        elif failure.reason is not contested and self.samples[0].reason is contested:
            self.samples[0] = failure


async def summarize_rule(
    context: CopyContext, rule: Rule, summary: RuleSummary | None = None
) -> RuleSummary:
    """Summarize all targets of a rule and all its copies; fills `summary` where it is given."""
    summary = summary or RuleSummary()
    turn = TimeSlice()
    for binding in list(context.index.of_rule(rule.owner).values()):
        targets = TargetSummary(context, summary, binding)
        await binding.compiled.targets.settle(turn)
        for name in list(binding.compiled.targets):
            targets.add(name)
            await turn.pause()
        for name in binding.compiled.targets.targets.named:
            targets.add_refused(name)
            await turn.pause()
        for kind, source, problem in binding.unreadable():  # it is copied nowhere
            summary.desired += 1
            summary.failed += 1
            why = f"the annotation {names.ANN_ALLOW_TO} of this source {problem}; it isn't copied"
            summary.sample(CopyKey(kind, *source), FailureReason.NOT_ACCEPTED, why)
    if context.count_owned(rule.owner) != summary.kept:
        async for key, required in owned_copies(context, rule, turn):
            if required:
                continue
            summary.unwanted.append(key)
            if failure := context.problems.get(key):
                summary.stuck += 1
                summary.keep(key, failure)
    return summary


def loop(one: str, other: str) -> str:
    """The message about two rules that copy onto each other's sources."""
    return (
        f"{one} and {other} are a loop: each copies to where the other one's source is. Delete one "
        "of the rules, or change its targets"
    )


_OCCUPIED = (Cause.OWNED_BY_OTHER, Cause.IS_SOURCE, Cause.BEING_DELETED)
"""The existing object has to be removed by another client before there can be a copy."""


class TargetSummary:
    """Adds the targets of one binding to a summary."""

    def __init__(self, context: CopyContext, summary: RuleSummary, binding: SourceBinding) -> None:
        self._context = context
        self._summary = summary
        self._binding = binding
        self._alone = context.index.is_alone(binding)

    def add(self, name: str) -> None:
        """Add the target in a namespace; errors are counted, not raised."""
        summary, desired = self._summary, self._summary.desired
        try:
            self._add(name)
        except Exception as error:
            compiled = self._binding.compiled
            log.error("%s in %s: %s", compiled.rule.owner, name, type(error).__name__)
            summary.desired = desired + 1
            summary.failed += 1
            key = CopyKey(compiled.resource, name, self._binding.static_name or "")
            why = f"the required change can't be determined: {type(error).__name__}"
            summary.sample(key, FailureReason.ERROR, why)

    def add_refused(self, name: str) -> None:
        """Add a target that the rule names and may not write to.

        Of those that a glob or a selector matches, the ones that consent are served; others aren't
        counted.
        """
        binding, summary = self._binding, self._summary
        namespace = self._context.namespaces.get(name)
        if namespace is None or not binding.compiled.targets.means(namespace):
            return
        if any(binding.unreadable()):
            return  # reported once for all
        targets = binding.compiled.targets
        if not targets.is_accepted_by(namespace):
            why = (
                f"the namespace doesn't accept copies from {targets.tenant}: its owner must name "
                f"that namespace in the annotation {names.ANN_ALLOW_FROM}"
            )
            if namespace.consent and (problem := namespace.consent.problem):
                why = f"the namespace's annotation {names.ANN_ALLOW_FROM} {problem}"
        elif (origin := binding.forbidding(namespace.name)) is not None:
            why = f"the annotation {names.ANN_ALLOW_TO} of {origin} doesn't name it"
        else:
            return
        summary.desired += 1
        summary.failed += 1
        named = binding.static_name or (binding.source.name if binding.source else "")
        key = CopyKey(binding.compiled.resource, name, named)
        summary.sample(key, FailureReason.NOT_ACCEPTED, why)

    def _add(self, name: str) -> None:
        context, summary, binding = self._context, self._summary, self._binding
        namespace = context.namespaces.get(name)
        if namespace is None or namespace.terminating or not binding.covers(namespace):
            return
        summary.desired += 1
        desired = binding.at(namespace)
        key = CopyKey(binding.compiled.resource, name, desired.name)
        view = context.kinds.get(key.kind)
        if not desired.name or view is None:
            summary.failed += 1
            summary.sample(key, FailureReason.TEMPLATE_ERROR, desired.problem or "")
            return
        record = view.copies.get((name, desired.name))
        owned = record is not None and record.owner == binding.compiled.rule.owner
        if (
            self._alone
            and owned
            and record
            and not record.deleting
            and CopyRequest(binding, desired, namespace).is_right(record)
            and not ((fight := context.fights.get(key)) and fight.persists)
        ):
            summary.kept += 1
            summary.ready += 1
        else:
            self._add_planned(key, desired.problem, owned=owned)

    def _add_planned(self, key: CopyKey, problem: str | None, *, owned: bool) -> None:
        """Count one target by its planned action."""
        summary, plan = self._summary, self._context.plan(key)
        fight = self._context.fights.get(key)
        mine = plan.winner is not None and plan.winner.binding is self._binding
        summary.kept += owned and mine
        may_fight = mine and problem is None and key not in self._context.problems
        if may_fight and fight is not None and fight.persists:
            summary.contested.append(key)
            summary.contest = summary.contest or f"{key.namespace}/{key.name}: {fight.message}"
            summary.sample(key, FailureReason.CONFLICT_PERSISTS, fight.message)
            if plan.act is not Action.NOTHING or plan.why is Cause.CONTESTED:
                summary.due.append(key)
        elif mine and plan.why in (Cause.UP_TO_DATE, Cause.SATISFIED):
            summary.ready += 1
            summary.satisfied += plan.why is Cause.SATISFIED
        elif problem:  # may be the cause of a conflict
            summary.failed += 1
            summary.sample(key, FailureReason.TEMPLATE_ERROR, problem)
            if not mine and plan.act is not Action.NOTHING:
                summary.due.append(key)
        elif plan.winner is not None and not mine:
            summary.conflicts += 1
            summary.sample(key, FailureReason.CONFLICT, self._lost_to(plan.winner))
            if plan.act is not Action.NOTHING:
                summary.due.append(key)
        else:
            self._add_wrong(key, plan)

    def _add_wrong(self, key: CopyKey, plan: CopyDecision[CopyRequest]) -> None:
        """Count a copy that is wrong, neither by its content nor because of other rules."""
        summary = self._summary
        if plan.why in _OCCUPIED:
            summary.conflicts += 1
            summary.sample(key, FailureReason.CONFLICT, self._occupied(key, plan.why))
        elif failure := self._context.problems.get(key):
            (summary.refused if plan.act is Action.RESEAL else summary.retrying).append(key)
            is_conflict = failure.reason is FailureReason.CONFLICT
            summary.conflicts += is_conflict
            summary.failed += not is_conflict
            summary.keep(key, failure)
        elif plan.act is not Action.NOTHING or plan.why is Cause.PENDING:
            (summary.unsealed if plan.act is Action.RESEAL else summary.due).append(key)
            summary.missing += plan.act is Action.CREATE
        elif plan.why is Cause.PAUSED:
            summary.missing += self._context.record(key) is None

    def _lost_to(self, winner: CopyRequest) -> str:
        if winner.rule is not self._binding.compiled.rule:
            return f"the target belongs to the rule {winner.owner}"
        return (
            f"the source {winner.binding.origin} has the same name and comes first; "
            f"{self._binding.origin} isn't copied there"
        )

    def _occupied(self, key: CopyKey, why: Cause) -> str:
        """What the object is in whose place a copy should be."""
        record = self._context.record(key)
        if why is Cause.BEING_DELETED:
            held = ", ".join(record.extras.finalizers) if record else ""
            return (
                "the object is being deleted, and has the finalizer "
                f"{held or '?'}; the copy is created when it is removed"
            )
        if why is Cause.OWNED_BY_OTHER:
            return f"the copy belongs to the rule {record.owner if record else '?'}"
        if len(self._summary.samples) >= MAX_FAILURES:  # all rules are asked whose source it is
            return "the object is the source of a rule, and is never overwritten"
        return self._is_source(key)

    def _is_source(self, key: CopyKey) -> str:
        """Whose source it is, and whether that rule copies onto this one's."""
        index, binding = self._context.index, self._binding
        readers = index.readers(key.kind, key.namespace, key.name)
        rule = f"the rule {readers[0]}" if readers else "a rule"
        said = f"the object is the source of {rule}, and is never overwritten"
        origin = f"{key.namespace}/{key.name}"
        for owner in readers:
            other = index.of_rule(owner).get(origin)
            if (
                other is not None
                and binding.source is not None
                and other.static_name == binding.source.name
                and binding.source.namespace in other.compiled.targets
            ):
                return f"{said}; {loop(owner, binding.compiled.rule.owner)}"
        return said


async def owned_copies(
    context: CopyContext, rule: Rule, turn: TimeSlice
) -> AsyncIterator[tuple[CopyKey, bool]]:
    """A rule's copies outside Terminating namespaces, and whether the rule requires each.

    Without those that are being deleted.
    """
    for key in list(context.owned(rule.owner)):
        await turn.pause()
        namespace = context.namespaces.get(key.namespace)
        if namespace is not None and context.has_copy(rule.owner, key):
            requests = context.index.requests(key.kind, namespace, key.name)
            yield key, any(request.owner == rule.owner for request in requests)
