"""`approve bundle` and `reject bundle`."""

import json

import pytest
from rich.text import Text
from tests.e2e.cli.plans.planned import (
    ANN,
    APPROVE,
    DAY,
    LOOK,
    PLAN,
    READ_LOGS,
    ROLE,
    stamp,
    terminal,
)

pytestmark = pytest.mark.refused("*")


@pytest.mark.parametrize(
    ("verb", "decision", "other"),
    [("approve", "Approved", "rejected-plan"), ("reject", "Rejected", "approved-plan")],
)
def test_a_decision_is_written_as_the_user_and_waited_for(
    planned, user, word, verb, decision, other
):
    done = decision.lower()
    planned.team.annotate("shop", **{other: PLAN})
    person = user(*LOOK, READ_LOGS, APPROVE)
    with planned.operator(lambda found: f"{done}-plan" in found, planned.decide(decision)):
        said = person.types(f"{verb} {PLAN} --yes")
    assert f"risky  create     Role       -          {ROLE}\n" in said
    assert said.endswith(
        f"\nbundle {planned.name}: plan {PLAN} {done}; status Deployed: it is deployed\n"
    )
    assert planned.annotations[f"{done}-plan"] == PLAN
    assert planned.annotations["approved-by"] == f"user-{word}"
    assert other not in planned.annotations
    (fields,) = (
        one["fieldsV1"]
        for one in planned.body["metadata"]["managedFields"]
        if one["manager"] == "copyrator-approve"
    )
    assert set(fields["f:metadata"]["f:annotations"]) - {"."} == {
        f"f:{ANN}{done}-plan", f"f:{ANN}approved-by"
    }  # fmt: skip
    said = planned.types(f"{verb} --yes", code=1)
    assert f"plan {PLAN} was {done} by user-" in said


def test_who_may_not_approve_is_told_which_role_is_missing(planned, user):
    said = user(*LOOK).types("approve --yes", code=1)
    assert said == (
        f"Error: you have no permission to approve plans of bundle {planned.name}: the verb "
        "approve on bundles.operator.werf.dev is missing in the namespace "
        f"{planned.team.namespace}; ask an administrator for a RoleBinding there to the "
        "ClusterRole copyrator-approver\n"
    )
    assert planned.annotations == {}


@pytest.mark.parametrize(
    ("plan", "command", "said"),
    [
        ({}, "approve 0123 --yes", f"has the plan {PLAN}, not 0123; check it"),
        ({"expiresAt": stamp(-DAY)}, "approve --yes", f"plan {PLAN} expired 24h ago"),
        ({"id": None}, "approve --yes", "has a plan without an ID in its status"),
        ({}, "approve", "add --yes to approve the plan"),
        ({}, "reject -o json", "add --yes to reject the plan"),
    ],
)
def test_a_decision_that_means_nothing_is_refused(planned, plan, command, said):
    planned.write_status(planned.plan(**plan), waits=True)
    assert said in planned.types(command, code=None)
    assert planned.annotations == {}


def test_where_no_decision_is_asked_for_none_is_written(planned):
    for mode, plan, said in (
        ("Never", {}, "spec.approval.mode is Never; there is nothing to decide"),
        ("OnRisk", {"riskyOperations": 0}, "is OnRisk, and it has no risky operations;"),
    ):
        planned.team.patch("bundles", "shop", spec={"approval": {"mode": mode}})
        planned.write_status(planned.plan(**plan), waits=False)
        assert said in planned.types("approve --yes", code=1)
        assert planned.annotations == {}


def test_a_decision_without_a_wait_is_only_written(planned):
    said = planned.types("approve --yes --timeout 0")
    assert said.endswith(f"\nbundle {planned.name}: plan {PLAN} annotated.\n")
    assert planned.annotations["approved-plan"] == PLAN
    found = json.loads(planned.types("reject --yes --timeout 0 -o json"))
    assert found["metadata"]["annotations"][f"{ANN}rejected-plan"] == PLAN
    assert "approved-plan" not in planned.annotations


def test_who_is_impersonated_is_the_one_who_approved(planned, user, word):
    user(*LOOK, READ_LOGS, APPROVE)
    planned.types(f"approve --yes --timeout 0 --as user-{word}")
    assert planned.annotations["approved-by"] == f"user-{word}"
    said = planned.types("approve --yes --as somebody-else", code=1)
    assert 'User "somebody-else" cannot get resource "bundles"' in said


def test_a_plan_that_is_replaced_before_the_operator_sees_the_decision(planned):
    def act():
        planned.write_status(planned.plan(id=PLAN[::-1]), waits=True)

    with planned.operator(lambda found: "approved-plan" in found, act):
        said = planned.types("approve --yes", code=1)
    assert f"plan {PLAN} was replaced by {PLAN[::-1]}, so your decision doesn't count" in said


def test_a_person_is_asked(planned):
    command = f"approve bundle {planned.name}"
    with terminal(planned.stage, command) as one:
        one.read_until("Approve this plan? [y/N]: ")
        assert one.types("n") == 1
    assert one.output.endswith("Error: nothing was decided\n")
    assert f"\n{PLAN}: 2 operations: 2 create; 1 risky.\n" in one.output
    assert max(len(line) for line in Text.from_ansi(one.output).plain.splitlines()) <= 80
    assert planned.annotations == {}

    with terminal(planned.stage, f"{command} --timeout 0") as one:
        one.read_until("Approve this plan? [y/N]: ")
        planned.team.patch("bundles", "shop", metadata={"labels": {"edited": "meanwhile"}})
        assert one.types("y") == 0, one.output
    assert planned.annotations["approved-plan"] == PLAN


def test_what_was_shown_is_what_is_approved(planned):
    with terminal(planned.stage, f"approve bundle {planned.name} --timeout 0") as one:
        one.read_until("Approve this plan? [y/N]: ")
        planned.write_status(planned.plan(id=PLAN[::-1]), waits=True)
        assert one.types("y") == 1
    assert f"has the plan {PLAN[::-1]}, not {PLAN}" in " ".join(one.output.split())
    assert planned.annotations == {}
