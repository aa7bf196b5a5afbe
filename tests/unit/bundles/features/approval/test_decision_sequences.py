"""A rejected plan is never deployed unless somebody with ``approve`` decides so afterwards.

All sequences of a few acts: an editor removes annotations, edits and requests plans; people with
the verb ``approve`` approve, reject and withdraw, as the chart's policy lets them; the operator
observes, plans and deploys at any of these moments, or, where it is stopped, only after several.
``is_admitted`` is that policy; the real one is in tests/e2e/approval_policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from tests.long import LONG
from tests.replacing import replace
from tests.unit.bundles.plans.plan_samples import (
    CREATE,
    DELETE,
    NOW,
    TARGET,
    made,
    spec,
)

from copyrator.api.bundle_status import Attempted, BundleStatus, Outcome
from copyrator.api.names import ANN_APPROVED_BY, ANN_APPROVED_PLAN, ANN_REJECTED_PLAN
from copyrator.api.text import format_time
from copyrator.bundles.features.approval import gates as approval
from copyrator.bundles.features.approval import gates as plan_decision
from copyrator.bundles.features.approval import record as deploy_record
from copyrator.bundles.features.approval.record import DEPLOY
from copyrator.bundles.plans import record as plan_record
from copyrator.bundles.plans.fields import ApprovalMode, ApprovalSpec, PlanOutcome, PlanStatus
from copyrator.bundles.plans.operations import Plan

DECISIONS = (ANN_APPROVED_PLAN, ANN_APPROVED_BY, ANN_REJECTED_PLAN)
APPROVERS = ("ann", "ben")
EDITOR = "eve"
TARGETS = (TARGET, replace(TARGET, values_hash="other"))
Changes = Mapping[str, str | None]


def is_admitted(user: str, old: Changes, new: Mapping[str, str], plan: PlanStatus) -> bool:
    """What charts/copyrator/templates/approval.yaml says of a write."""
    decides = [name for name in DECISIONS if name in new and new[name] != old.get(name)]
    by, approved = new.get(ANN_APPROVED_BY, ""), new.get(ANN_APPROVED_PLAN, "")
    if decides and user not in APPROVERS:
        return False
    if decides and by != user and not (by == "" and decides == [ANN_REJECTED_PLAN]):
        return False
    if ANN_APPROVED_PLAN in decides and approved == new.get(ANN_REJECTED_PLAN):
        return False
    withdrawn = old.get(ANN_REJECTED_PLAN)
    if withdrawn in (None, new.get(ANN_REJECTED_PLAN)) or user in APPROVERS:
        return True
    return is_recorded(plan, withdrawn or "", approved)


def is_recorded(plan: PlanStatus, withdrawn: str, approved: str) -> bool:
    if plan.id == withdrawn:
        again = plan.approval_cleared and approved == withdrawn
        return plan.decision == "Rejected" and not again
    if plan.rejected.id == withdrawn:
        return True
    is_being_made = plan.id is None and plan.outcome is not None
    return not is_being_made and withdrawn not in (approved, plan.approved.id)


@dataclass(frozen=True)
class World:
    """A Bundle as the API server has it, and what people have decided."""

    mode: ApprovalMode
    status: BundleStatus
    annotations: tuple[tuple[str, str], ...] = ()
    content: int = 0
    """Of TARGETS, what is wanted."""
    known: tuple[str, ...] = ()
    """IDs of plans that were made."""
    stored: tuple[tuple[str | None, Plan], ...] = ()
    """The operations of those plans, by their Jobs."""
    rejected: frozenset[str] = frozenset()
    """Those that were rejected, and that nobody who may approve has decided about since."""

    @property
    def plan(self) -> PlanStatus:
        return self.status.part(PlanStatus)

    def write(self, user: str, changes: Changes) -> World | None:
        """After a write of annotations; None where it is denied, or changes nothing."""
        old = dict(self.annotations)
        merged: dict[str, str | None] = {**old, **changes}
        new = {name: value for name, value in merged.items() if value is not None}
        if new == old or not is_admitted(user, old, new, self.plan):
            return None
        before, after = old.get(ANN_REJECTED_PLAN), new.get(ANN_REJECTED_PLAN)
        approved, rejected = new.get(ANN_APPROVED_PLAN), set(self.rejected)
        # Of a plan that isn't the present one, and that nothing approves, it is no decision.
        plan, is_being_made = self.plan, self.plan.id is None and self.plan.outcome is not None
        decides = (plan.id, plan.approved.id, approved)
        is_other = not is_being_made and before not in (*decides, plan.rejected.id)
        if before != after and (user in APPROVERS or is_other):
            rejected.discard(before or "")
        if approved is not None and approved != old.get(ANN_APPROVED_PLAN):
            rejected.discard(approved)
        if after is not None and after != before and (is_being_made or after in decides):
            rejected.add(after)
        return replace(self, annotations=tuple(sorted(new.items())), rejected=frozenset(rejected))

    def people(self) -> Iterator[tuple[str, World | None]]:
        for name in DECISIONS:
            yield f"remove {name}", self.write(EDITOR, {name: None})
        yield "remove all", self.write(EDITOR, dict.fromkeys(DECISIONS))
        ids = [one for one in (self.plan.id, *self.known[:1]) if one is not None]
        for plan in dict.fromkeys(ids):
            approves = {ANN_APPROVED_PLAN: plan, ANN_APPROVED_BY: "ann"}
            yield f"approve {plan}", self.write("ann", approves)
            yield (
                f"approve {plan} after all",
                self.write("ann", approves | {ANN_REJECTED_PLAN: None}),
            )
            for by in (None, "ben"):
                rejects = {ANN_REJECTED_PLAN: plan, ANN_APPROVED_BY: by}
                yield f"reject {plan} as {by}", self.write("ben", rejects)
            yield (
                f"reject {plan} by command",
                self.write(
                    "ben",
                    {ANN_REJECTED_PLAN: plan, ANN_APPROVED_BY: "ben", ANN_APPROVED_PLAN: None},
                ),
            )
        yield "edit", replace(self, content=1 - self.content)

    def operator(self) -> Iterator[tuple[str, World | None]]:
        """Each is one write of the status, with the resourceVersion of what it was decided on."""
        target, status, annotations = TARGETS[self.content], self.status, dict(self.annotations)
        if status.part(PlanStatus).outcome == PlanOutcome.RUNNING and plan_record.is_for(
            status.part(PlanStatus), target
        ):
            kept = dict(self.stored).get(status.part(PlanStatus).approved.job)
            for operations in ((CREATE, DELETE), (CREATE,)):
                found = made(*operations, approved=kept, baseline=Plan(3, (DELETE,)))
                after = deploy_record.record_result(status, found, spec(self.mode), NOW)
                plan = replace(after.part(PlanStatus), bound=True, enforced=True)
                after = after.with_part(plan)
                # A rejection while it was made isn't of this one, where it came out as another.
                others = {annotations.get(ANN_REJECTED_PLAN)} - {plan.id, plan.approved.id}
                after = plan_decision.record_decision(after, annotations, NOW)
                yield (
                    f"plans {len(operations)}",
                    replace(
                        self,
                        status=after,
                        known=(*self.known, plan.id or ""),
                        stored=(*self.stored, (plan.job, found.plan)),
                        rejected=self.rejected - others,
                    ),
                )
            return
        status = plan_decision.record_decision(status, annotations, NOW)
        status = deploy_record.drop_plan(status, target)
        attempted = status.attempted
        if attempted.outcome == Outcome.RUNNING:
            failed = replace(status, attempted=replace(attempted, outcome=Outcome.FAILED))
            yield "the deploy fails", replace(self, status=failed)
        if not deploy_record.is_current(status, target) and attempted.outcome != Outcome.RUNNING:
            number = (status.part(PlanStatus).number or 0) + 1
            begun = plan_record.record_plan(status, DEPLOY, target, f"plan-{number}", NOW)
            yield "begins a plan", replace(self, status=begun)
            return
        yield "observes", replace(self, status=status)
        refreshed = plan_record.record_plan(
            status, DEPLOY, target, f"plan-{status.part(PlanStatus).number}-again", NOW
        )
        if (status.part(PlanStatus).number or 0) < 3:
            yield "plans again, as an editor asks", replace(self, status=refreshed)
        if attempted.outcome != Outcome.RUNNING and approval.passes(
            status.part(PlanStatus), spec(self.mode).part(ApprovalSpec)
        ):
            yield "deploys", replace(self, status=self.deployed(status))

    def deployed(self, status: BundleStatus) -> BundleStatus:
        plan = status.part(PlanStatus)
        assert plan.id not in self.rejected, "a rejected plan is deployed"
        if plan.decision == "Approved":
            assert plan.approved.id not in self.rejected, "by an approval of a rejected plan"
        attempted = Attempted(
            attempt=(status.attempted.attempt or 0) + 1,
            digest=plan.digest,
            values_hash=plan.values_hash,
            spec_hash=plan.spec_hash,
            started_at=format_time(NOW),
            outcome=Outcome.RUNNING,
        )
        return plan_decision.use_plan(replace(status, attempted=attempted))

    def key(self) -> Any:
        """Without what is only counted: worlds that differ in nothing else go on alike."""
        return self.mode, self.annotations, self.status, self.content, self.known[:1], self.rejected


DEPTH = 8 if LONG else 6


@pytest.mark.parametrize("mode", [ApprovalMode.ALWAYS, ApprovalMode.ON_RISK])
def test_a_rejected_plan_is_never_deployed_unless_somebody_who_may_decides_so(
    mode: ApprovalMode,
) -> None:
    begun = plan_record.record_plan(BundleStatus(), DEPLOY, TARGET, "plan-1", NOW)
    worlds: dict[Any, tuple[World, tuple[str, ...]]] = {}
    for act, world in World(mode, begun).operator():
        assert world is not None
        worlds[world.key()] = (world, (act,))
    seen, deploys = set(worlds), 0
    for _ in range(DEPTH):
        found: dict[Any, tuple[World, tuple[str, ...]]] = {}
        for world, acts in worlds.values():
            try:
                for act, after in (*world.people(), *world.operator()):
                    if after is not None and after.key() not in seen:
                        deploys += act == "deploys"
                        seen.add(after.key())
                        found[after.key()] = (after, (*acts, act))
            except AssertionError as error:
                raise AssertionError(f"{error} after: {'; '.join(acts)}") from None
        worlds = found
    assert deploys > 10
