"""What people are told: approval."""

from tests.unit.notify.test_transitions import AT, ATTEMPT, PLAN, condition, of_bundle, one

from copyrator.api.reasons import Severity
from copyrator.api.reasons.notices import About

APPROVAL = {"name": "approval", "state": "Waiting", "reason": "AwaitingApproval"}


def test_a_plan_that_waits_names_version_operations_and_the_command():
    found = one(of_bundle(plan=PLAN, gates=[APPROVAL]), About.AWAITING_APPROVAL)
    assert found.what == (
        "waits for approval of 1.9.0 "
        "(2 updates, 1 delete; at risk: delete of PersistentVolumeClaim/data)"
    )
    assert found.command == "copyrator approve bundle -n prod shop 3f46bdff"
    assert found.severity is Severity.INFO


def test_another_plan_is_another_transition_and_the_same_one_is_the_same():
    first = one(of_bundle(plan=PLAN, gates=[APPROVAL]), About.AWAITING_APPROVAL)
    again = one(of_bundle(plan=PLAN, gates=[APPROVAL], ready=1), About.AWAITING_APPROVAL)
    other = {**PLAN, "id": "00000000"}
    assert first.id == again.id
    assert first.id != one(of_bundle(plan=other, gates=[APPROVAL]), About.AWAITING_APPROVAL).id


def test_a_rejection_names_who_and_why():
    plan = {**PLAN, "decision": "Rejected", "by": "ann", "at": AT}
    assert one(of_bundle(plan=plan), About.PLAN_REJECTED).what.endswith("was rejected by ann")
    told = one(of_bundle(plan=plan | {"decisionReason": "it deletes data"}), About.PLAN_REJECTED)
    assert (told.what[-3:], told.why) == ("ann", "it deletes data")


def test_a_deploy_that_stored_something_else_is_told_as_such_and_not_as_failed():
    attempt = {**ATTEMPT, "outcome": "Failed", "reason": "DeployedDifferently"}
    found = {"reason": "DeployedDifferently", "version": "1.9.0", "revision": 3, "at": AT}
    conditions = [condition("AsApproved", "False", "DeployedDifferently", "it isn't")]
    bad = of_bundle(attempted=attempt, asApproved=found, conditions=conditions)
    assert {one.about for one in bad.holding} == {About.DEPLOYED_DIFFERENTLY, About.QUARANTINED}
    told = one(bad, About.DEPLOYED_DIFFERENTLY)
    assert (told.what, told.why) == ("doesn't run what was approved of 1.9.0", "it isn't")
    assert About.DEPLOYED_DIFFERENTLY not in of_bundle().resolved
    good = of_bundle(asApproved={**found, "reason": "AsApproved"}, conditions=conditions)
    assert About.DEPLOYED_DIFFERENTLY in good.resolved


def test_a_forged_plan_adds_no_options_to_a_command():
    state = of_bundle(plan={**PLAN, "id": "1a2b -n prod payments"}, gates=[APPROVAL])
    assert one(state, About.AWAITING_APPROVAL).command == ""
