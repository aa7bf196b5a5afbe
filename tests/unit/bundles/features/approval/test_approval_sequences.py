"""No sequence of events deploys what wasn't approved.

A simulation makes pushes, edits, decisions, plans, outcomes and waits in any order, and calls the
pure functions as the operator does. It keeps its own account of what people have approved, and
checks each attempt that begins.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.long import LONG
from tests.replacing import replace

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, Outcome
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.engine import deciding as state
from copyrator.bundles.engine.bundle import BundleEntry, Memories, acknowledge, read_entry
from copyrator.bundles.engine.choose import Resolution
from copyrator.bundles.engine.deploy import Case, decide_deploy, record_resolution
from copyrator.bundles.engine.feature import Feature, Features
from copyrator.bundles.engine.gate import NOTHING_FOUND, Gates
from copyrator.bundles.features.approval import gates as approval
from copyrator.bundles.features.approval import gates as plan_decision
from copyrator.bundles.features.approval import record as deploy_record
from copyrator.bundles.features.approval.deploy_plans import find_required
from copyrator.bundles.features.approval.feature import ApprovalFeature
from copyrator.bundles.features.approval.record import DEPLOY, requested_plan
from copyrator.bundles.fields import BundleDefaults, parse_status
from copyrator.bundles.jobs.outcome import Ending
from copyrator.bundles.plans import record as plan_record
from copyrator.bundles.plans.fields import (
    ApprovalMode,
    ApprovalSpec,
    Baseline,
    PlanOutcome,
    PlanRequests,
    PlanStatus,
)
from copyrator.bundles.plans.operations import (
    Operation,
    Plan,
    covers,
    effects,
    read_operation,
    risky,
)
from copyrator.bundles.plans.record import PlanFault, PlanResult, PlanTarget

if TYPE_CHECKING:
    from copyrator.bundles.engine.context import Context

LINES = (
    "create ::ConfigMap:a",
    "update ::ConfigMap:a",
    "recreate ::ConfigMap:a",
    "delete ::Service:b",
    "apply ::Service:b",
    "create :rbac.authorization.k8s.io:Role:c",
)
ENDINGS = [
    (Outcome.SUCCEEDED, BundleReason.DEPLOYED),
    (Outcome.SUCCEEDED, BundleReason.DEPLOYED),
    (Outcome.FAILED, BundleReason.DEPLOY_FAILED),
    (Outcome.FAILED, BundleReason.DEPLOY_FAILED),
    (Outcome.INTERRUPTED, BundleReason.JOB_LOST),
    (Outcome.INTERRUPTED, BundleReason.PLAN_CHANGED),
    (Outcome.INTERRUPTED, BundleReason.PLAN_FAILED),
]
POOL = tuple(one for one in map(read_operation, LINES) if one is not None)


FEATURES = Features([ApprovalFeature(cast("Context", None))], Memories())


class Simulation:
    """One Bundle, and everything that can happen to it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.status = BundleStatus()
        self.spec: dict[str, Any] = {
            "registry": "r.example",
            "repo": "app",
            "version": "1.*",
            "project_namespace": "prod",
        }
        self.annotations: dict[str, str] = {}
        self.generation = 1
        self.pushed, self.values, self.revision = 0, 0, 1
        self.plans: dict[str, tuple[tuple[Any, ...], frozenset[Operation]]] = {}
        """What each plan was made of, and its effects, by its ID."""
        self.stored: dict[str, Plan] = {}
        """The Secrets with operations, by their Job."""
        self.named: set[str] = set()
        """IDs that an annotation has ever named as approved."""
        self.holding: set[str] = set()
        """Those whose approval was taken, and whose deploy hasn't succeeded since."""
        self.failed_since: set[str] = set()
        """Of these, those that an attempt at has failed."""

    # --- what happens around the operator ---

    def go_on(self) -> None:
        """Mostly what would come next, and now and then anything else."""
        chance, pick = self.random.random(), self.random.choice
        if chance < 0.1:
            changes = ["push", "values", "spec", "suspend", "mode", "undo"]
            modes = [ApprovalMode.ALWAYS, ApprovalMode.ALWAYS, *ApprovalMode]
            self.change(pick(changes), pick([0, 0, 1]), pick(modes), "")
        elif chance < 0.25:
            asked = pick(["plan-at", "requestedAt", "forceAt"])
            self.change(
                pick(["ask", "force"]), self.random.randrange(99), ApprovalMode.NEVER, asked
            )
        elif chance < 0.3 and self.plans:
            self.decide(pick(sorted(self.plans)), pick(["approved-plan", "rejected-plan"]))
        elif chance < 0.35:
            pick([self.forget_decisions, self.restart])()
        elif self.status.attempted.outcome == Outcome.RUNNING:
            self.deploy_ends(pick(ENDINGS))
        elif self.status.part(PlanStatus).outcome == PlanOutcome.RUNNING:
            if chance < 0.4:
                self.plan_fails(BundleReason.PLAN_FAILED)
            else:
                found = set(self.random.sample(POOL, pick([1, 1, 2])))
                self.plan_ends(found, pick([False, False, True]))
        elif (
            self.status.part(PlanStatus).id
            and not self.status.part(PlanStatus).decision
            and chance < 0.8
        ):
            verb = pick(["approved-plan"] * 4 + ["rejected-plan"])
            self.decide(self.status.part(PlanStatus).id, verb)
        else:
            self.wait(pick([60, 3600, 3600, 25 * 3600]))

    def create(self, mode: str) -> None:
        self.spec["approval"] = {"mode": mode}
        self.visit()

    def change(self, what: str, value: int, mode: ApprovalMode, name: str) -> None:
        """What users do beside deciding."""
        match what:
            case "push":
                self.pushed = value
            case "values":
                self.values = value
            case "spec":
                self.edit(env={"WERF_ENV": str(value)})
            case "suspend":
                self.edit(suspend=bool(value))
            case "mode":
                self.edit(approval={"mode": str(mode)})
            case "ask":
                self.annotations[f"operator.werf.dev/{name}"] = str(value)
            case "force":
                self.status = replace(self.status, force_update=1)
            case "undo":  # the release is uninstalled by hand
                self.revision = 1
        self.visit()

    def edit(self, **fields: Any) -> None:
        self.spec |= fields
        self.generation += 1

    def decide(self, plan: str, verb: str) -> None:
        self.annotations[f"operator.werf.dev/{verb}"] = plan
        self.annotations["operator.werf.dev/approved-by"] = "ann"
        if verb == "approved-plan":
            self.named.add(plan)
        self.visit()

    def forget_decisions(self) -> None:
        for name in ("approved-plan", "rejected-plan", "approved-by"):
            self.annotations.pop(f"operator.werf.dev/{name}", None)
        self.visit()

    def wait(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)
        self.visit()

    def restart(self) -> None:
        """Only the status survives, as the API server has it."""
        forced = self.status.force_update
        self.status = parse_status({"status": self.status.to_dict() | {"forceUpdate": forced}})
        self.visit()

    def plan_ends(self, operations: set[Operation], is_missing: bool) -> None:
        status, job = self.status, self.status.part(PlanStatus).job or ""
        plan = Plan(self.revision, tuple(sorted(operations, key=str)))
        made = PlanResult(
            plan,
            "prod" if is_missing else None,
            "seal",
            approved=self.stored.get(status.part(PlanStatus).approved.job or ""),
            baseline=self.stored.get(status.part(Baseline).job or ""),
        )
        self.stored[job] = plan
        self.status = deploy_record.record_result(status, made, self.read(), self.now)
        found = self.status.part(PlanStatus)
        assert found.id is not None
        whole = frozenset(effects(plan, made.missing_namespace))
        assert self.plans.setdefault(found.id, (made_of(found), whole)) == (made_of(found), whole)
        self.visit()

    def plan_fails(self, reason: BundleReason) -> None:
        spec = self.read()
        self.status = plan_record.record_failure(
            self.status, DEPLOY, PlanFault("no", reason), spec.retry, self.now
        )
        self.visit()

    def deploy_ends(self, outcome: tuple[Outcome, BundleReason]) -> None:
        ending = Ending(*outcome, "said", self.revision)
        if outcome[1] in (BundleReason.DEPLOYED, BundleReason.DEPLOY_FAILED):
            self.revision += 1
        spec = self.read()
        self.status = state.finish(self.status, ending, state.Evidence(), spec.retry, self.now)
        if outcome[0] is Outcome.SUCCEEDED:
            self.holding.clear()
            self.failed_since.clear()
        else:
            self.failed_since |= self.holding
        self.visit()

    # --- the operator ---

    def visit(self) -> None:
        """Until nothing is left to do now, as bundles.engine.reconciler does it."""
        for _ in range(9):
            if self.status.attempted.outcome == Outcome.RUNNING or not self.step():
                break
        else:
            raise AssertionError("it never comes to rest")
        kept = FEATURES.needed_jobs(self.status)
        self.stored = {job: plan for job, plan in self.stored.items() if job in kept}

    def step(self) -> bool:
        entry = self.entry()
        spec = readable(entry)
        status = self.observed(entry)
        resolution = Resolution(f"1.{self.pushed}.0", f"sha256:{self.pushed}")
        values = f"values {self.values}"
        case = decide_deploy(
            entry,
            spec,
            resolution,
            values,
            status,
            moment=(approval.GATE,),
            features=FEATURES,
            findings=NOTHING_FOUND,
            now=self.now,
        )
        status = record_resolution(case, self.now, Gates())
        if case.deploys:
            self.begin(case, status)
            return False
        if (target := find_required(replace(case, status=status))) is not None:
            job = f"plan-{(entry.status.part(PlanStatus).number or 0) + 1}"
            is_requested = entry.request is not None
            status = plan_record.record_plan(
                status, DEPLOY, target, job, self.now, is_requested=is_requested
            )
            if (request := requested_plan(entry.annotations, entry.status)) is not None:
                status = status.with_part(PlanRequests(last_handled_plan=request))
            self.status = status
            return False
        if not spec.suspend and case.held is None and entry.request is not None:
            status = acknowledge(status, entry.request)
            if entry.request.force_update:
                status = replace(status, force_update=0)
        news, self.status = status != self.status, status
        return news

    def observed(self, entry: BundleEntry) -> BundleStatus:
        before = self.status.part(PlanStatus).decision
        status = plan_decision.record_decision(self.status, entry.annotations, self.now)
        if status.part(PlanStatus).decision != before:
            assert status.part(PlanStatus).id is not None
            if status.part(PlanStatus).decision == "Approved":
                assert status.part(PlanStatus).id in self.named
                self.holding = {status.part(PlanStatus).id}
                self.failed_since.clear()
            else:
                self.holding.clear()
        return status

    def begin(self, case: Case, status: BundleStatus) -> None:
        assert case.decision.need is not None
        status = state.begin(status, case.wanted, self.now)
        if case.spec.uses(ApprovalSpec):
            self.check(case)
        else:
            self.holding.clear()
        for one in FEATURES.of(case.entry, Feature.begun):
            status = one.begun(replace(case, status=status), is_correction=False)
        job = f"deploy-{status.attempted.attempt}"
        status = replace(status, attempted=replace(status.attempted, job=job))
        self.status = replace(status, force_update=0)

    def check(self, case: Case) -> None:
        """What begins now was approved, or needs no approval."""
        plan, mode = case.status.part(PlanStatus), case.spec.part(ApprovalSpec).mode
        target = case.findings.of(PlanTarget)
        assert target is not None
        assert made_of(plan) == made_of(target)
        assert plan.revision is not None
        assert plan.job in self.stored
        assert plan.decision != "Rejected"
        content, found = self.plans[plan.id or ""]
        assert content == made_of(plan)
        if mode is ApprovalMode.ON_RISK and not risky(found, self.baseline(case)):
            return
        assert plan.decision == "Approved"
        if plan.id in self.named:
            return
        assert any(self.carries(one, content, found) for one in self.holding), (
            "a plan was deployed that nobody approved"
        )

    def carries(self, approved: str, content: tuple[Any, ...], found: frozenset[Operation]) -> bool:
        of, operations = self.plans[approved]
        whole = covers(operations, found) if approved in self.failed_since else found <= operations
        return of == content and whole

    def baseline(self, case: Case) -> tuple[Operation, ...]:
        kept = self.stored.get(case.status.part(Baseline).job or "")
        return kept.operations if kept else ()

    def entry(self) -> BundleEntry:
        metadata = {
            "namespace": "team",
            "name": "shop",
            "uid": "u",
            "resourceVersion": "1",
            "generation": self.generation,
            "annotations": self.annotations,
        }
        status = self.status.to_dict() | {"forceUpdate": self.status.force_update or 0}
        body = {"metadata": metadata, "spec": self.spec, "status": status}
        return read_entry(body, BundleDefaults())

    def read(self) -> BundleSpec:
        return readable(self.entry())


def readable(entry: BundleEntry) -> BundleSpec:
    spec = entry.spec
    assert isinstance(spec, BundleSpec), spec
    return spec


def made_of(plan: Any) -> tuple[Any, ...]:
    return plan.version, plan.digest, plan.values_hash, plan.spec_hash, plan.job_hash


MOST = settings.default.max_examples
LIVES = 2 * MOST if LONG else 10 if MOST > 20 else 4  # 4 in `make mutate`


@settings(max_examples=LIVES, deadline=None)
@given(st.randoms(use_true_random=True))
def test_nothing_is_deployed_that_was_not_approved(random: Random) -> None:
    simulation = Simulation(random)
    simulation.create(random.choice(["Always", "OnRisk"]))
    for _ in range(60):
        simulation.go_on()
