"""Which plans may be deployed, and what the others wait for."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders.bundles import bundle, parsed
from tests.job_records import job, pod
from tests.replacing import replace
from tests.unit.bundles.plans.plan_samples import LATER, NOW, TARGET, spec, with_plan

from copyrator.api.bundle_spec import Retry
from copyrator.api.bundle_status import Attempted, BundleStatus, GateStatus, Outcome
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.selectors import Globs
from copyrator.api.text import format_time
from copyrator.bundles.engine.gate import (
    PASSED,
    Candidate,
    Facts,
    Findings,
    Occasion,
    Refused,
    Verdict,
    Waiting,
)
from copyrator.bundles.features.approval import gates as approval
from copyrator.bundles.features.approval.defaults import ApprovalPolicy
from copyrator.bundles.features.approval.gates import GATE, passes, summary
from copyrator.bundles.fields import BundleDefaults
from copyrator.bundles.jobs.job import AUTO_ROLLBACK
from copyrator.bundles.jobs.outcome import Ending, checked_ending, ending_of
from copyrator.bundles.jobs.revisions import asks_for_rollback
from copyrator.bundles.jobs.script import SealedFile
from copyrator.bundles.plans.endings import planned_ending
from copyrator.bundles.plans.fields import ApprovalMode, ApprovalSpec, OperationCounts, PlanStatus
from copyrator.bundles.plans.plan_words import UNKNOWN
from copyrator.bundles.plans.record import PlanTarget
from copyrator.bundles.plans.script import PlanExit, deploy_command


def judged(
    status: BundleStatus,
    mode: ApprovalMode = ApprovalMode.ALWAYS,
    occasion: Occasion = Occasion.NEW_DIGEST,
    target: PlanTarget = TARGET,
) -> Verdict:
    facts = Facts(status, occasion, findings=Findings((target,)))
    return GATE.judge(spec(mode), Candidate("1.1", "sha256:b"), facts, NOW)


CHANGED = Attempted(
    digest="sha256:b",
    values_hash="v",
    spec_hash="s",
    reason=BundleReason.PLAN_CHANGED,
    message="nothing was applied",
    interruptions=3,
)
UNSTABLE = Refused(
    "PlanUnstable",
    "what was planned couldn't be deployed by several Jobs: nothing was applied. "
    "It isn't tried again until the version, the spec or the values change, or until copyrator "
    "reconcile bundle -n prod shop",
)
ALL_COUNTS = "1 create, 2 update, 3 delete, 4 recreate, 5 blind apply; 12 risky"
PLANNING = Waiting("Planning", "the deploy of 1.1 is planned first")


@pytest.mark.parametrize(
    ("status", "mode", "verdict"),
    [
        (BundleStatus(), "Always", PLANNING),
        (with_plan(outcome="Running"), "Always", PLANNING),
        (
            with_plan(outcome="Failed", message="broken", next_retry_at=format_time(NOW)),
            "Always",
            PLANNING,
        ),
        (
            with_plan(outcome="Running", message="Job x is blocked: no node"),
            "Always",
            Waiting("Planning", "Job x is blocked: no node"),
        ),
        (
            with_plan(),
            "Always",
            Waiting(
                "AwaitingApproval",
                "plan id-1 of 1.1 (2 create, 1 blind apply; 1 risky) waits for approval: copyrator "
                "approve bundle -n prod shop",
                LATER,
            ),
        ),
        (
            with_plan(message="it was made again"),
            "Always",
            Waiting(
                "AwaitingApproval",
                "plan id-1 of 1.1 (2 create, 1 blind apply; 1 risky) waits for approval, as it was "
                "made again: copyrator approve bundle -n prod shop",
                LATER,
            ),
        ),
        (with_plan(risky_operations=0, bound=True, enforced=True), "OnRisk", PASSED),
        (with_plan(risky_operations=None, bound=True, enforced=True), "OnRisk", PASSED),
        (
            with_plan(risky_operations=0, bound=False),
            "OnRisk",
            Waiting(
                "AwaitingApproval",
                "plan id-1 of 1.1 (2 create, 1 blind apply; contents aren't bound) waits for "
                "approval: copyrator approve bundle -n prod shop",
                LATER,
            ),
        ),
        (
            with_plan(risky_operations=0, counts=OperationCounts()),
            "Always",
            Waiting(
                "AwaitingApproval",
                "plan id-1 of 1.1 (no changes) waits for approval: copyrator approve bundle "
                "-n prod shop",
                LATER,
            ),
        ),
        (with_plan(decision="Approved"), "Always", PASSED),
        (with_plan(decision="Approved"), "OnRisk", PASSED),
        (
            with_plan(decision="Rejected", by="ben", risky_operations=0),
            "OnRisk",
            Refused("PlanRejected", "plan id-1 of 1.1 was rejected by ben"),
        ),
        (
            with_plan(decision="Rejected", by="ben", decision_reason="it deletes data"),
            "Always",
            Refused("PlanRejected", "plan id-1 of 1.1 was rejected by ben: it deletes data"),
        ),
        (
            with_plan(decision="Rejected"),
            "Always",
            Refused("PlanRejected", "plan id-1 of 1.1 was rejected"),
        ),
        (
            with_plan(
                outcome="Failed",
                reason="PlanChanged",
                message="broken",
                next_retry_at=format_time(LATER),
            ),
            "Always",
            Waiting("PlanChanged", "broken", LATER),
        ),
        (
            with_plan(outcome="Failed", message="broken", failures=3),
            "Always",
            Refused("PlanUnstable", "planning failed 3 times: broken"),
        ),
        (BundleStatus(attempted=CHANGED), "Always", UNSTABLE),
        (
            BundleStatus(attempted=replace(CHANGED, reason=BundleReason.PLAN_FAILED)),
            "Always",
            UNSTABLE,
        ),
        (BundleStatus(attempted=replace(CHANGED, interruptions=2)), "Always", PLANNING),
        (BundleStatus(attempted=replace(CHANGED, digest="sha256:a")), "Always", PLANNING),
        (BundleStatus(attempted=replace(CHANGED, reason="JobLost")), "Always", PLANNING),
    ],
)
def test_the_gate_says_what_a_deploy_waits_for(
    status: BundleStatus, mode: str, verdict: Verdict
) -> None:
    assert judged(status, ApprovalMode(mode)) == verdict


NEITHER = "Not enforced: a guard is missing. Not bound: a: b draws; c draws; d draws"
DRAWS = ("a: b draws", "c draws", "d draws", "e draws")


@pytest.mark.promise
@pytest.mark.parametrize("decision", [None, "Approved"])
@pytest.mark.parametrize("mode", [ApprovalMode.ALWAYS, ApprovalMode.ON_RISK])
@pytest.mark.parametrize(
    ("found", "faults"),
    [
        ({"bound": True, "enforced": True}, ""),
        ({"bound": False, "enforced": True, "unbound": ("a: b draws",)}, "Not bound: a: b draws"),
        ({"bound": True, "enforced": False, "unenforced": "no guard"}, "Not enforced: no guard"),
        ({"enforced": True}, f"Not bound: {UNKNOWN}"),
        (
            {
                "bound": False,
                "enforced": False,
                "unbound": DRAWS,
                "unenforced": "a guard is missing",
            },
            NEITHER,
        ),
    ],
)
def test_where_bound_plans_are_required_no_other_is_deployed_whoever_approves_it(
    found: dict[str, Any], faults: str, mode: ApprovalMode, decision: str | None
) -> None:
    status = with_plan(**found, decision=decision, risky_operations=0, message=None)
    asked = replace(spec(mode).part(ApprovalSpec), must_be_bound=True)
    required = spec(mode).with_part(asked)
    verdict = GATE.judge(
        required,
        Candidate("1.1", "sha256:b"),
        Facts(status, Occasion.NEW_DIGEST, findings=Findings((TARGET,))),
        NOW,
    )

    assert passes(status.part(PlanStatus), asked) is (verdict == PASSED)
    if faults:
        assert verdict == Refused(
            BundleReason.PLAN_UNBOUND,
            "plan id-1 of 1.1 isn't enforced, and bound or exact, as bundles.requireBoundPlans "
            f"requires in this namespace. {faults}. Correct that, or ask an administrator to "
            "change the setting",
        )
    elif decision or mode is ApprovalMode.ON_RISK:
        assert verdict == PASSED
    else:
        assert isinstance(verdict, Waiting)


@pytest.mark.promise
@pytest.mark.parametrize("outcome", ["Running", "Failed"])
def test_only_a_plan_that_was_made_passes(outcome: str) -> None:
    plan = with_plan(outcome=outcome, bound=True, enforced=True, risky_operations=0).part(
        PlanStatus
    )
    assert not passes(plan, spec(ApprovalMode.ON_RISK).part(ApprovalSpec))


def test_without_retries_one_change_is_too_many() -> None:
    once = replace(spec(), retry=Retry(limit=0, backoff=30))
    for interruptions, verdict in ((None, PLANNING), (0, PLANNING), (1, UNSTABLE)):
        status = BundleStatus(attempted=replace(CHANGED, interruptions=interruptions))
        facts = Facts(status, Occasion.NEW_DIGEST, findings=Findings((TARGET,)))
        assert GATE.judge(once, Candidate("1.1", "sha256:b"), facts, NOW) == verdict


@pytest.mark.parametrize("occasion", [Occasion.REQUEST, Occasion.FORCE])
def test_a_request_tries_again_what_kept_changing(occasion: Occasion) -> None:
    assert judged(BundleStatus(attempted=CHANGED), occasion=occasion) == PLANNING


@pytest.mark.parametrize(
    ("found", "risky", "text"),
    [
        (OperationCounts(create=1, update=2, delete=3, recreate=4, apply=5), 12, ALL_COUNTS),
        (OperationCounts(update=1, recreate=0), 0, "1 update"),
        (OperationCounts(), None, "no changes"),
    ],
)
def test_a_plan_in_a_few_words(found: OperationCounts, risky: int | None, text: str) -> None:
    assert summary(PlanStatus(counts=found, risky_operations=risky)) == text


def test_it_is_asked_where_the_spec_or_the_settings_ask_for_approval() -> None:
    assert [GATE.concerns(spec(mode)) for mode in ApprovalMode] == [False, True, True]
    assert frozenset(Occasion) - GATE.occasions == {Occasion.CORRECTION}


# --- nothing is planned ---
SUSPENDED = Waiting(
    "Suspended",
    "nothing is planned while spec.suspend is true, unless a plan is requested: copyrator plan "
    "bundle -n prod shop --refresh",
)


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (BundleStatus(), SUSPENDED),
        (with_plan(expires_at=format_time(NOW)), SUSPENDED),
        (with_plan(outcome="Failed", next_retry_at=format_time(NOW)), SUSPENDED),
        (with_plan(outcome="Running"), PLANNING),
        (with_plan(decision="Approved"), PASSED),
    ],
)
def test_a_suspended_bundle_is_not_said_to_be_planned_unless_it_is(
    status: BundleStatus, verdict: Verdict
) -> None:
    candidate = Candidate("1.1", "sha256:b")
    facts = Facts(status, Occasion.NEW_DIGEST, findings=Findings((TARGET,)))
    assert GATE.judge(spec(suspend=True), candidate, facts, NOW) == verdict


def test_the_gate_of_a_paused_bundle_does_not_say_that_it_is_planned() -> None:
    other = GateStatus(name="signature", state="Passed")
    planning = GateStatus(name="approval", state="Waiting", reason="Planning", message="x")
    waits = GateStatus(name="approval", state="Waiting", reason="AwaitingApproval", message="x")
    status = BundleStatus(gates=(other, planning))
    first, ours = approval.record_pause(status).gates
    assert (first, ours.reason, ours.state) == (other, "AutoupdateDisabled", "Waiting")
    assert ours.message == (
        "nothing is planned until the annotation operator.werf.dev/disable-autoupdate is removed"
    )
    assert approval.record_pause(approval.record_pause(status)) == approval.record_pause(status)
    for gates in ((), (waits,), (other,)):
        kept = BundleStatus(gates=gates)
        assert approval.record_pause(kept) == kept


def test_the_gate_says_that_it_is_planned_once_a_plan_is_begun() -> None:
    waits = GateStatus(name="approval", state="Waiting", reason="Suspended", message="x")
    (ours,) = approval.record_planning(replace(with_plan(), gates=(waits,))).gates
    assert (ours.name, ours.reason) == ("approval", "Planning")
    assert ours.message == PLANNING.message
    other = BundleStatus(gates=(GateStatus(name="signature", state="Passed"),))
    assert approval.record_planning(other) == other


BROKEN = BundleReason.DEPLOY_FAILED
MISMATCH = "plan artifact release revision mismatch: expected 4, got 5"


@pytest.mark.parametrize(
    ("text", "is_changed"),
    [
        (f"Error: {MISMATCH}", True),
        (f"Error: release install: validate plan artifact: {MISMATCH}\n\nUse --debug", True),
        (f'Error: release install: failed release "r" (namespace: "n"): {MISMATCH}', True),
        (f"Error: {MISMATCH}\nError: release install: other", False),
        (f"Error: chart render: execution error at (a/templates/b.yaml:1:1): {MISMATCH}", False),
        (f'Error: release install: template: a.yaml:1:1: executing "a" at <x>: {MISMATCH}', False),
        (f"Error: {MISMATCH} or so", False),
    ],
)
def test_another_revision_between_check_and_apply_is_another_plan(
    text: str, is_changed: bool
) -> None:
    """werf 3 refuses the plan that it saved before it writes anything."""
    ending = planned_ending(ending_of(job(), [pod(1, text)]))

    expected = (Outcome.FAILED, BROKEN)
    if is_changed:
        expected = (Outcome.INTERRUPTED, BundleReason.PLAN_CHANGED)
    assert (ending.outcome, ending.reason) == expected


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_deploy_that_stored_something_else_has_failed_whatever_werf_says(
    outcome: Outcome,
) -> None:
    ended = planned_ending(Ending(outcome, BROKEN, "bad", 4, PlanExit.DIFFERENT, is_raw=True))

    assert (ended.outcome, ended.reason) == (Outcome.FAILED, BundleReason.DEPLOYED_DIFFERENTLY)
    assert "as revision 4 isn't what was approved" in ended.message
    assert not ended.is_raw


@pytest.mark.parametrize("code", [None, 0, 1, 9, 15])
def test_whatever_else_a_planned_deploy_ends_with_is_werfs(code: int | None) -> None:
    ending = Ending(Outcome.FAILED, BROKEN, "bad", 4, code)

    assert planned_ending(checked_ending(ending)) is ending


def test_the_pod_of_a_planned_deploy_says_whether_a_rollback_was_asked_for() -> None:
    file = SealedFile("/in/approved", "/in/salt", "/tmp/approved", "0" * 64)
    for flags in ((), (AUTO_ROLLBACK,)):
        command = list(deploy_command(file, file, (), flags))
        body = {"spec": {"containers": [{"name": "werf", "command": command}]}}
        assert asks_for_rollback([body]) is bool(flags)


@pytest.mark.parametrize(
    ("asked", "namespace", "release", "mode"),
    [
        (None, "prod", None, ApprovalMode.ALWAYS),
        ("OnRisk", "prod", None, ApprovalMode.ALWAYS),
        ("Always", "test-1", None, ApprovalMode.ALWAYS),
        ("Never", "test-1", None, ApprovalMode.ON_RISK),
        ("OnRisk", "dev", None, ApprovalMode.ON_RISK),
        (None, "dev", None, ApprovalMode.NEVER),
        ("Never", "dev", "prod", ApprovalMode.ALWAYS),
        ("Never", "test-1", "prod", ApprovalMode.ALWAYS),
        ("Never", "prod", "dev", ApprovalMode.ALWAYS),
        ("Never", "dev", "dev-2", ApprovalMode.NEVER),
    ],
)
def test_no_bundle_goes_below_what_the_settings_require_for_its_namespace_and_its_releases(
    asked: str | None, namespace: str, release: str | None, mode: ApprovalMode
) -> None:
    floors = (
        (Globs(("p*", "test-*")), ApprovalMode.ON_RISK),
        (Globs(("prod",)), ApprovalMode.ALWAYS),
    )
    approval = {"mode": asked} if asked else None
    body = bundle(namespace=namespace, project_namespace=release, approval=approval)
    spec = parsed(body, BundleDefaults(policies=(ApprovalPolicy(floors),)))
    is_required = {namespace, release} & {"prod", "test-1"} != set()
    assert spec.part(ApprovalSpec) == ApprovalSpec(
        mode=mode, expires=86400.0, is_required=is_required
    )
