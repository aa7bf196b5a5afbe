"""Summarizes a rule's copies: which are right, due, failed or unwanted.

A survey compares what is wanted with what exists, both in memory, without requests. It is done in
slices: with 100,000 copies it takes a good part of a second.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from copyrator.api import names
from copyrator.api.keys import CopyKey
from copyrator.api.rule_status import MAX_FAILURES, Failure, FailureReason
from copyrator.copies.cache.claims import CopyRequest, SourceBinding
from copyrator.copies.cache.namespaces import Namespace
from copyrator.copies.cache.rules import Rule
from copyrator.copies.policy.planning import Action, Cause
from copyrator.workqueue.timeslice import TimeSlice

if TYPE_CHECKING:
    from copyrator.copies.context import CopyContext

log = logging.getLogger(__name__)

MASS_LEAST = 20
"""A deletion of no more copies than this is never a mass deletion."""


@dataclass(slots=True)
class Survey:
    """The result of a survey."""

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
    """Wanted copies that don't exist (and no foreign object does)."""
    due: list[CopyKey] = field(default_factory=list)
    """Targets that are due and didn't fail before."""
    retrying: list[CopyKey] = field(default_factory=list)
    """Targets that failed and wait for their back-off."""
    unsealed: list[CopyKey] = field(default_factory=list)
    """Wanted copies that carry the rule's marks without a valid seal, to be read once."""
    refused: list[CopyKey] = field(default_factory=list)
    """Those that were read and don't have the wanted content, or couldn't be sealed anew."""
    unwanted: list[CopyKey] = field(default_factory=list)
    """Copies of the rule that it doesn't want any more."""
    samples: list[Failure] = field(default_factory=list)

    @property
    def pending(self) -> int:
        """Neither right nor failed."""
        return self.desired - self.ready - self.failed - self.conflicts

    @property
    def is_mass_deletion(self) -> bool:
        """More than half of the rule's copies, and more than MASS_LEAST."""
        total = self.kept + len(self.unwanted)
        return len(self.unwanted) > MASS_LEAST and 2 * len(self.unwanted) > total

    def sample(self, key: CopyKey, reason: FailureReason, message: str) -> None:
        """Keep a failure for the status, which holds a few."""
        if len(self.samples) < MAX_FAILURES:
            self.samples.append(Failure(key.namespace, key.name, reason, message))


async def survey_rule(context: CopyContext, rule: Rule, survey: Survey | None = None) -> Survey:
    """Survey all targets of a rule and all its copies; `survey` is filled where it is given."""
    survey = survey or Survey()
    turn = TimeSlice()
    for claim in list(context.index.of_rule(rule.owner).values()):
        alone = context.index.is_alone(claim)
        await claim.maker.targets.settle(turn)
        for name in list(claim.maker.targets):
            survey_target(context, survey, claim, name, alone=alone)
            await turn.pause()
        for name in claim.maker.targets.targets.named if claim.source else ():
            _find_refused(context, survey, claim, name)
            await turn.pause()
        _find_unreadable(survey, claim)
    if context.count_owned(rule.owner) != survey.kept:
        await _find_unwanted(context, survey, rule, turn)
    return survey


def survey_target(
    context: CopyContext, survey: Survey, claim: SourceBinding, name: str, *, alone: bool = False
) -> None:
    """Survey one target of a binding; errors are counted, not raised."""
    desired = survey.desired
    try:
        _survey_target(context, survey, claim, name, alone=alone)
    except Exception as error:
        log.error("%s in %s: %s", claim.maker.rule.owner, name, type(error).__name__)
        survey.desired = desired + 1
        survey.failed += 1
        key = CopyKey(claim.maker.resource, name, claim.static_name or "")
        why = f"what is to be done there can't be determined: {type(error).__name__}"
        survey.sample(key, FailureReason.ERROR, why)


def _survey_target(
    context: CopyContext, survey: Survey, claim: SourceBinding, name: str, *, alone: bool
) -> None:
    namespace = context.namespaces.get(name)
    if namespace is None or namespace.terminating or not claim.covers(namespace):
        return
    survey.desired += 1
    wish = claim.at(namespace)
    key = CopyKey(claim.maker.resource, name, wish.name)
    view = context.kinds.get(key.kind)
    if not wish.name or view is None:
        survey.failed += 1
        survey.sample(key, FailureReason.TEMPLATE_ERROR, wish.problem or "")
        return
    record = view.copies.get((name, wish.name))
    owned = record is not None and record.owner == claim.maker.rule.owner
    if (
        alone
        and owned
        and record
        and not record.deleting
        and CopyRequest(claim, wish, namespace).is_right(record)
    ):
        survey.kept += 1
        survey.ready += 1
    else:
        _judge(context, survey, claim, key, owned=owned)


def _find_refused(context: CopyContext, survey: Survey, claim: SourceBinding, name: str) -> None:
    """Count a target that the rule names and may not write to.

    Of those that a glob or a selector matches, the ones that consent are served; others aren't
    counted.
    """
    namespace = context.namespaces.get(name)
    if namespace is None or not claim.maker.targets.means(namespace):
        return
    source = claim.source
    if source and source.consent and source.consent.problem:
        return  # reported once for all
    if (why := why_refused(claim, namespace)) is not None:
        survey.desired += 1
        survey.failed += 1
        key = CopyKey(claim.maker.resource, name, claim.static_name or claim.source_name)
        survey.sample(key, FailureReason.NOT_ACCEPTED, why)


def _find_unreadable(survey: Survey, claim: SourceBinding) -> None:
    """A source with an invalid annotation is copied nowhere; reported once."""
    source = claim.source
    if source is not None and source.consent and source.consent.problem:
        survey.desired += 1
        survey.failed += 1
        key = CopyKey(claim.maker.resource, source.namespace, source.name)
        why = f"the annotation {names.ANN_ALLOW_TO} of this source {source.consent.problem}"
        survey.sample(key, FailureReason.NOT_ACCEPTED, f"{why}; it isn't copied")


def why_refused(claim: SourceBinding, namespace: Namespace) -> str | None:
    """Why a binding may not be copied into a namespace that its rule selects, or None."""
    targets, source = claim.maker.targets, claim.source
    if not targets.is_accepted_by(namespace):
        if namespace.consent and namespace.consent.problem:
            return f"the namespace's annotation {names.ANN_ALLOW_FROM} {namespace.consent.problem}"
        return (
            f"the namespace doesn't accept copies from {targets.tenant}: its owner must name "
            f"that namespace in the annotation {names.ANN_ALLOW_FROM}"
        )
    if source is not None and not source.allows(namespace.name):
        return f"the annotation {names.ANN_ALLOW_TO} of {claim.origin} doesn't name it"
    return None


def _judge(
    context: CopyContext, survey: Survey, claim: SourceBinding, key: CopyKey, *, owned: bool
) -> None:
    """Count one target by its planned action."""
    plan = context.plan(key)
    mine = plan.winner is not None and plan.winner.claim is claim
    survey.kept += owned and mine
    if mine and plan.why in (Cause.UP_TO_DATE, Cause.SATISFIED):
        survey.ready += 1
        survey.satisfied += plan.why is Cause.SATISFIED
    elif plan.winner is not None and mine and plan.why is Cause.BROKEN:
        survey.failed += 1
        survey.sample(key, FailureReason.TEMPLATE_ERROR, plan.winner.wish.problem or "")
    elif plan.winner is not None and not mine:
        survey.conflicts += 1
        survey.sample(key, FailureReason.CONFLICT, _lost_to(claim, plan.winner))
        if plan.act is not Action.NOTHING:
            survey.due.append(key)
    elif plan.why in _OCCUPIED:
        survey.conflicts += 1
        survey.sample(key, FailureReason.CONFLICT, _occupied(context, key, plan.why))
    elif problem_there := context.problems.get(key):
        _count_problem(survey, key, problem_there, plan.act)
    elif plan.act is not Action.NOTHING:
        (survey.unsealed if plan.act is Action.RESEAL else survey.due).append(key)
        survey.missing += plan.act is Action.CREATE
    elif plan.why is Cause.PAUSED:
        record = context.kinds[key.kind].copies.get((key.namespace, key.name))
        survey.missing += record is None


def _count_problem(survey: Survey, key: CopyKey, problem: Failure, act: Action) -> None:
    (survey.refused if act is Action.RESEAL else survey.retrying).append(key)
    if problem.reason is FailureReason.CONFLICT:
        survey.conflicts += 1
    else:
        survey.failed += 1
    survey.sample(key, problem.reason, problem.message)


def _lost_to(claim: SourceBinding, winner: CopyRequest) -> str:
    if winner.claim.maker.rule is claim.maker.rule:
        return (
            f"the source {winner.claim.origin} has the same name and comes first; "
            f"{claim.origin} isn't copied there"
        )
    return f"the target belongs to the rule {winner.owner}"


_OCCUPIED = (Cause.OWNED_BY_OTHER, Cause.IS_SOURCE, Cause.BEING_DELETED)
"""The existing object has to be removed by another client before there can be a copy."""


def _occupied(context: CopyContext, key: CopyKey, why: Cause) -> str:
    if why is Cause.BEING_DELETED:
        return _being_deleted(context, key)
    if why is Cause.IS_SOURCE:
        return "the object is the source of a rule, and is never overwritten"
    record = context.kinds[key.kind].copies.get((key.namespace, key.name))
    return f"the copy belongs to the rule {record.owner if record else '?'}"


def _being_deleted(context: CopyContext, key: CopyKey) -> str:
    record = context.kinds[key.kind].copies.get((key.namespace, key.name))
    held = ", ".join(record.extras.finalizers) if record else ""
    return (
        "the object is being deleted, and has the finalizer "
        f"{held or '?'}; the copy is created when it is removed"
    )


async def _find_unwanted(context: CopyContext, survey: Survey, rule: Rule, turn: TimeSlice) -> None:
    """Copies that the rule doesn't want any more, except those that are being deleted already."""
    for view, (namespace_name, name) in list(context.owned(rule.owner)):
        await turn.pause()
        namespace = context.namespaces.get(namespace_name)
        record = view.copies.get((namespace_name, name))
        if record is None or record.deleting or record.owner != rule.owner:
            continue
        if namespace is not None and not namespace.terminating:
            bids = context.index.bids(view.resource.key, namespace, name)
            if not any(bid.owner == rule.owner for bid in bids):
                key = CopyKey(view.resource.key, namespace_name, name)
                survey.unwanted.append(key)
                if problem := context.problems.get(key):
                    survey.stuck += 1
                    survey.sample(key, problem.reason, problem.message)
