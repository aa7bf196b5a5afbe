"""What people are told follows from a status alone."""

import pytest

from copyrator.api.reasons.notices import About
from copyrator.api.rule_status import FIELDS_DROPPED, read_rule_status
from copyrator.bundles.fields import bundle_conditions, parse_status
from copyrator.bundles.words import load_words
from copyrator.notify.config import SubjectKind
from copyrator.notify.transitions import FAULTS, ObjectIdentity, bundle_state, rule_state

SHOP = ObjectIdentity(SubjectKind.BUNDLE, "prod", "shop", "uid-1")
CREDS = ObjectIdentity(SubjectKind.RULE, "ops", "creds", "uid-2")
AT = "2026-11-27T12:00:00Z"


def condition(kind, status, reason="", message=""):
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": AT,
    }


def of_bundle(**status):
    return bundle_state(SHOP, parse_status({"status": status}), load_words())


def of_rule(**status):
    return rule_state(CREDS, read_rule_status({"status": status}))


def one(state, about):
    (found,) = [one for one in state.holding if one.about == about]
    return found


ATTEMPT = {"version": "1.9.0", "attempt": 3, "finishedAt": AT}
PLAN = {
    "id": "3f46bdff",
    "version": "1.9.0",
    "madeAt": AT,
    "operations": 3,
    "counts": {"update": 2, "delete": 1},
    "risky": ["delete prod::PersistentVolumeClaim:data"],
    "riskyOperations": 1,
}


def test_a_plan_without_a_waiting_gate_is_not_told():
    assert of_bundle(plan=PLAN).holding == ()


def test_a_deploy_is_told_once_it_has_succeeded():
    running = of_bundle(attempted={**ATTEMPT, "outcome": "Running"})
    assert running.holding == ()
    assert {About.DEPLOY_FAILED, About.QUARANTINED} <= running.unknown, "it may fail again"
    done = of_bundle(
        attempted={**ATTEMPT, "outcome": "Succeeded"},
        deployed={"version": "1.9.0", "revision": 12, "time": AT},
    )
    assert one(done, About.DEPLOYED).what == "runs 1.9.0 (revision 12)"
    assert About.DEPLOY_FAILED in done.resolved


@pytest.mark.parametrize("outcome", ["Interrupted", None])
def test_what_the_infrastructure_ended_neither_fails_nor_resolves(outcome):
    state = of_bundle(attempted={**ATTEMPT, "outcome": outcome})
    assert state.holding == ()
    assert About.DEPLOY_FAILED not in state.resolved


def test_a_failed_attempt_is_a_fault_and_each_further_one_is_told():
    attempt = {**ATTEMPT, "outcome": "Failed", "message": "boom", "nextRetryAt": AT}
    state = of_bundle(attempted=attempt)
    failed = one(state, About.DEPLOY_FAILED)
    assert failed.why == "boom"
    assert failed.command == "copyrator logs bundle -n prod shop"
    assert About.QUARANTINED not in {one.about for one in state.holding}
    next_one = one(of_bundle(attempted={**attempt, "attempt": 4}), About.DEPLOY_FAILED)
    assert next_one.id != failed.id


def test_the_last_attempt_is_a_quarantine():
    state = of_bundle(attempted={**ATTEMPT, "outcome": "Failed"})
    assert {one.about for one in state.holding} == {About.DEPLOY_FAILED, About.QUARANTINED}


def test_a_roll_back_names_what_runs_again():
    attempt = {**ATTEMPT, "outcome": "Failed", "rollback": "Succeeded"}
    state = of_bundle(attempted=attempt, deployed={"version": "1.8.0"})
    assert one(state, About.ROLLED_BACK).what == (
        "was rolled back to 1.8.0, as 1.9.0 couldn't be deployed"
    )


@pytest.mark.needs("drift", "health")
def test_conditions_are_faults_until_they_are_known_not_to_hold():
    bad = of_bundle(
        conditions=[
            condition("Drifted", "True", "Drifted", "ConfigMap app"),
            condition("Healthy", "False", "Unhealthy", "web has no pods"),
        ],
        drift={"since": AT, "count": 2},
    )
    assert one(bad, About.DRIFTED).what == "has drifted in 2 objects"
    assert one(bad, About.UNHEALTHY).why == "web has no pods"
    unknown = of_bundle(
        conditions=[condition("Drifted", "Unknown"), condition("Healthy", "Unknown")]
    )
    assert not {About.DRIFTED, About.UNHEALTHY} & unknown.resolved
    good = of_bundle(conditions=[condition("Drifted", "False"), condition("Healthy", "True")])
    assert {About.DRIFTED, About.UNHEALTHY} <= good.resolved


def test_a_registry_is_unreachable_after_some_polls_and_not_by_one():
    few = of_bundle(failedPolls={"count": 1, "since": AT})
    assert few.holding == ()
    assert About.SOURCE_UNREACHABLE not in few.resolved
    state = of_bundle(failedPolls={"count": 3, "since": AT}, lastError={"message": "timeout"})
    assert one(state, About.SOURCE_UNREACHABLE).why == "timeout"


def test_another_reason_is_not_ready_and_is_not_told_twice():
    state = of_bundle(conditions=[condition("Ready", "False", "InvalidSpec", "spec.repo: no")])
    assert one(state, About.NOT_READY).what == "isn't ready: InvalidSpec"
    failed = of_bundle(
        attempted={**ATTEMPT, "outcome": "Failed"},
        conditions=[condition("Ready", "False", "Quarantined")],
    )
    assert About.NOT_READY not in {one.about for one in failed.holding}
    progressing = of_bundle(conditions=[condition("Ready", "Unknown", "Deploying")])
    assert About.NOT_READY not in progressing.resolved


def test_of_a_bundle_that_is_deleted_only_a_failed_uninstall_is_told():
    attempt = {**ATTEMPT, "outcome": "Failed"}

    def deleting(reason):
        ready = condition("Ready", "False", reason, "the Job failed")
        status = parse_status({"status": {"attempted": attempt, "conditions": [ready]}})
        return bundle_state(SHOP, status, load_words(), deleting=True)

    assert deleting("Uninstalling").holding == ()
    assert deleting("Uninstalling").resolved == frozenset()
    found = one(deleting("UninstallFailed"), About.NOT_READY)
    assert (found.what, found.why) == ("isn't ready: UninstallFailed", "the Job failed")


def test_a_rule_tells_of_its_certificate_and_its_rollout():
    ends = condition("CertificateExpiring", "True", "CertificateExpiring", "api ends on Monday")
    stopped = condition("Ready", "False", "RolloutStopped", "web isn't healthy")
    state = of_rule(conditions=[ends, stopped], rollout={"content": "a" * 32, "step": 2})
    assert one(state, About.CERTIFICATE_EXPIRING).why == "api ends on Monday"
    found = one(state, About.ROLLOUT_STOPPED)
    assert found.what == "stopped its rollout at step 2"
    assert found.command == "copyrator rollout resume rule ops/creds"
    well = of_rule(conditions=[condition("Ready", "True", "Synced")])
    assert {About.ROLLOUT_STOPPED, About.CERTIFICATE_EXPIRING, About.NOT_READY} <= well.resolved


@pytest.mark.parametrize(
    ("reason", "about"),
    [
        ("ConflictPersists", About.CONFLICT_PERSISTS),
        ("SourceNotFound", About.SOURCE_UNREACHABLE),
        ("SourceUnreachable", About.SOURCE_UNREACHABLE),
        ("SourceClusterChanged", About.NOT_READY),
        ("PartialFailure", About.NOT_READY),
    ],
)
def test_a_rule_that_is_not_ready_is_told_once(reason, about):
    state = of_rule(conditions=[condition("Ready", "False", reason, "why")])
    (found,) = state.holding
    assert (found.about, found.why) == (about, "why")
    assert about in FAULTS


@pytest.mark.parametrize("status", [{}, {"conditions": 7}, {"conditions": [1, {"type": 2}]}])
def test_a_status_of_nonsense_says_nothing(status):
    assert of_rule(**status).holding == ()
    assert of_bundle(**status).holding == ()


def test_of_a_log_only_the_first_line_is_told():
    status = {"attempted": {**ATTEMPT, "outcome": "Failed", "message": "no image\ntoken abc"}}
    assert one(of_bundle(**status), About.DEPLOY_FAILED).why == "no image"


def test_what_waits_and_what_is_stored_of_a_forged_status_is_short():
    long = "x" * 20_000
    at = f"2026-11-27T12:00:00.{'0' * 20_000}Z"  # the API server accepts it as a time
    attempt = {"version": long, "attempt": 3, "outcome": "Failed", "message": long}
    ready = {**condition("Ready", "False", long, long), "lastTransitionTime": at}
    states = [
        of_bundle(attempted={**attempt, "finishedAt": at}, plan={**PLAN, "id": long}),
        of_rule(conditions=[ready], rollout={"step": long}),
    ]
    found = [one for state in states for one in state.holding]
    assert len(found) >= 3
    for each in found:
        assert len(each.at) <= 40
        assert len(f"{each.what}{each.why}{each.key}{each.command}") <= 3_000
    assert of_rule(conditions=[{**ready, "reason": f"{long}y"}]).holding[0].id != found[-1].id


@pytest.mark.parametrize("wrong", [5, [], {"a": 1}, None])
@pytest.mark.parametrize("status", ["True", "False", "Unknown", []])
def test_a_condition_with_fields_of_wrong_types_is_told_without_them(status, wrong):
    odd = {"reason": wrong, "message": wrong, "lastTransitionTime": wrong, "other": wrong}
    kinds = *bundle_conditions(), FIELDS_DROPPED
    odd_ones = [{"type": str(kind), "status": status} | odd for kind in kinds]
    for state in (of_bundle(conditions=odd_ones), of_rule(conditions=odd_ones)):
        is_told = {one.about for one in state.holding}
        assert (About.NOT_READY in is_told) == (status == "False")
        assert all(one.why == "" and one.at == "" for one in state.holding)
