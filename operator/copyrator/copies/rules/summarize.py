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
from copyrator.copies.targets.fights import Fight
from copyrator.copies.targets.namespaces import Namespace
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
        alone = context.index.is_alone(binding)
        await binding.compiled.targets.settle(turn)
        for name in list(binding.compiled.targets):
            summarize_target(context, summary, binding, name, alone=alone)
            await turn.pause()
        named = binding.compiled.targets.targets.named
        for name in named:
            _find_refused(context, summary, binding, name)
            await turn.pause()
        _find_unreadable(summary, binding)
    if context.count_owned(rule.owner) != summary.kept:
        await _find_unwanted(context, summary, rule, turn)
    return summary


def summarize_target(
    context: CopyContext,
    summary: RuleSummary,
    binding: SourceBinding,
    name: str,
    *,
    alone: bool = False,
) -> None:
    """Summarize one target of a binding; errors are counted, not raised."""
    desired = summary.desired
    try:
        _summarize_target(context, summary, binding, name, alone=alone)
    except Exception as error:
        log.error("%s in %s: %s", binding.compiled.rule.owner, name, type(error).__name__)
        summary.desired = desired + 1
        summary.failed += 1
        key = CopyKey(binding.compiled.resource, name, binding.static_name or "")
        why = f"the required change can't be determined: {type(error).__name__}"
        summary.sample(key, FailureReason.ERROR, why)


def _summarize_target(
    context: CopyContext, summary: RuleSummary, binding: SourceBinding, name: str, *, alone: bool
) -> None:
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
        alone
        and owned
        and record
        and not record.deleting
        and CopyRequest(binding, desired, namespace).is_right(record)
        and _reported_fight(context, key) is None
    ):
        summary.kept += 1
        summary.ready += 1
    else:
        _count_target(context, summary, binding, namespace, key, owned=owned)


def _find_refused(
    context: CopyContext, summary: RuleSummary, binding: SourceBinding, name: str
) -> None:
    """Count a target that the rule names and may not write to.

    Of those that a glob or a selector matches, the ones that consent are served; others aren't
    counted.
    """
    namespace = context.namespaces.get(name)
    if namespace is None or not binding.compiled.targets.means(namespace):
        return
    if any(binding.unreadable()):
        return  # reported once for all
    if (why := why_refused(binding, namespace)) is not None:
        summary.desired += 1
        summary.failed += 1
        named = binding.static_name or (binding.source.name if binding.source else "")
        key = CopyKey(binding.compiled.resource, name, named)
        summary.sample(key, FailureReason.NOT_ACCEPTED, why)


def _find_unreadable(summary: RuleSummary, binding: SourceBinding) -> None:
    """A source with an invalid annotation is copied nowhere; reported once."""
    for kind, name, problem in binding.unreadable():
        summary.desired += 1
        summary.failed += 1
        why = f"the annotation {names.ANN_ALLOW_TO} of this source {problem}"
        key = CopyKey(kind, *name)
        summary.sample(key, FailureReason.NOT_ACCEPTED, f"{why}; it isn't copied")


def why_refused(binding: SourceBinding, namespace: Namespace) -> str | None:
    """Why a binding may not be copied into a namespace that its rule selects, or None."""
    targets = binding.compiled.targets
    if not targets.is_accepted_by(namespace):
        if namespace.consent and namespace.consent.problem:
            return f"the namespace's annotation {names.ANN_ALLOW_FROM} {namespace.consent.problem}"
        return (
            f"the namespace doesn't accept copies from {targets.tenant}: its owner must name "
            f"that namespace in the annotation {names.ANN_ALLOW_FROM}"
        )
    if (origin := binding.forbidding(namespace.name)) is not None:
        return f"the annotation {names.ANN_ALLOW_TO} of {origin} doesn't name it"
    return None


def _count_target(
    context: CopyContext,
    summary: RuleSummary,
    binding: SourceBinding,
    namespace: Namespace,
    key: CopyKey,
    *,
    owned: bool,
) -> None:
    """Count one target by its planned action."""
    plan = context.plan(key)
    mine = plan.winner is not None and plan.winner.binding is binding
    summary.kept += owned and mine
    problem = binding.at(namespace).problem
    may_fight = mine and problem is None and key not in context.problems
    if may_fight and (fight := _reported_fight(context, key)) is not None:
        _count_contested(summary, key, plan, fight)
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
        summary.sample(key, FailureReason.CONFLICT, _lost_to(binding, plan.winner))
        if plan.act is not Action.NOTHING:
            summary.due.append(key)
    else:
        _count_wrong(context, summary, key, plan, binding)


def _count_wrong(
    context: CopyContext,
    summary: RuleSummary,
    key: CopyKey,
    plan: CopyDecision[CopyRequest],
    binding: SourceBinding,
) -> None:
    """Count a copy that isn't as wanted, for a reason other than its content and other rules."""
    if plan.why in _OCCUPIED:
        _count_occupied(context, summary, key, plan.why, binding)
    elif problem := context.problems.get(key):
        _count_problem(summary, key, problem, plan.act)
    elif plan.act is not Action.NOTHING or plan.why is Cause.PENDING:
        (summary.unsealed if plan.act is Action.RESEAL else summary.due).append(key)
        summary.missing += plan.act is Action.CREATE
    elif plan.why is Cause.PAUSED:
        record = context.record(key)
        summary.missing += record is None


def _reported_fight(context: CopyContext, key: CopyKey) -> Fight | None:
    fight = context.fights.get(key)
    return fight if fight is not None and fight.persists else None


def _count_contested(
    summary: RuleSummary, key: CopyKey, plan: CopyDecision[CopyRequest], fight: Fight
) -> None:
    summary.contested.append(key)
    summary.contest = summary.contest or f"{key.namespace}/{key.name}: {fight.message}"
    summary.sample(key, FailureReason.CONFLICT_PERSISTS, fight.message)
    if plan.act is not Action.NOTHING or plan.why is Cause.CONTESTED:
        summary.due.append(key)


def _count_problem(summary: RuleSummary, key: CopyKey, problem: Failure, act: Action) -> None:
    (summary.refused if act is Action.RESEAL else summary.retrying).append(key)
    if problem.reason is FailureReason.CONFLICT:
        summary.conflicts += 1
    else:
        summary.failed += 1
    summary.keep(key, problem)


def _lost_to(binding: SourceBinding, winner: CopyRequest) -> str:
    if winner.binding.compiled.rule is binding.compiled.rule:
        return (
            f"the source {winner.binding.origin} has the same name and comes first; "
            f"{binding.origin} isn't copied there"
        )
    return f"the target belongs to the rule {winner.owner}"


_OCCUPIED = (Cause.OWNED_BY_OTHER, Cause.IS_SOURCE, Cause.BEING_DELETED)
"""The existing object has to be removed by another client before there can be a copy."""


def _count_occupied(
    context: CopyContext, summary: RuleSummary, key: CopyKey, why: Cause, binding: SourceBinding
) -> None:
    summary.conflicts += 1
    message = _occupied(context, key, why)
    if why is Cause.IS_SOURCE and len(summary.samples) < MAX_FAILURES:  # which asks all rules
        message = _is_source(context, key, binding)
    summary.sample(key, FailureReason.CONFLICT, message)


def _occupied(context: CopyContext, key: CopyKey, why: Cause) -> str:
    if why is Cause.BEING_DELETED:
        return _being_deleted(context, key)
    if why is Cause.IS_SOURCE:
        return "the object is the source of a rule, and is never overwritten"
    record = context.kinds[key.kind].copies.get((key.namespace, key.name))
    return f"the copy belongs to the rule {record.owner if record else '?'}"


def _is_source(context: CopyContext, key: CopyKey, binding: SourceBinding) -> str:
    """Whose source it is, and whether that rule copies onto this one's."""
    readers = context.index.readers(key.kind, key.namespace, key.name)
    rule = f"the rule {readers[0]}" if readers else "a rule"
    said = f"the object is the source of {rule}, and is never overwritten"
    origin = f"{key.namespace}/{key.name}"
    for owner in readers:
        other = context.index.of_rule(owner).get(origin)
        if (
            other is not None
            and binding.source is not None
            and other.static_name == binding.source.name
            and binding.source.namespace in other.compiled.targets
        ):
            return f"{said}; {loop(owner, binding.compiled.rule.owner)}"
    return said


def loop(one: str, other: str) -> str:
    """The message about two rules that copy onto each other's sources."""
    return (
        f"{one} and {other} are a loop: each copies to where the other one's source is. Delete one "
        "of the rules, or change its targets"
    )


def _being_deleted(context: CopyContext, key: CopyKey) -> str:
    record = context.record(key)
    held = ", ".join(record.extras.finalizers) if record else ""
    return (
        "the object is being deleted, and has the finalizer "
        f"{held or '?'}; the copy is created when it is removed"
    )


async def _find_unwanted(
    context: CopyContext, summary: RuleSummary, rule: Rule, turn: TimeSlice
) -> None:
    """Copies that the rule doesn't want any more, except those that are being deleted already."""
    async for key, required in owned_copies(context, rule, turn):
        if required:
            continue
        summary.unwanted.append(key)
        if problem := context.problems.get(key):
            summary.stuck += 1
            summary.keep(key, problem)


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
