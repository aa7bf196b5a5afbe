"""`plan bundle`, `approve bundle`, `reject bundle`, and what other commands show of plans."""

import json
from contextlib import contextmanager

import pytest
from rich.text import Text
from tests.e2e.cli.conftest import plainly
from tests.e2e.cli.plans.planned import (
    ANN,
    APPROVE,
    DAY,
    LOOK,
    NONCE,
    PLAN,
    READ_LOGS,
    RISKY,
    ROLE,
    stamp,
)
from tests.e2e.cli.terminal import typed

pytestmark = pytest.mark.refused("*")


def test_a_plan_is_shown_with_its_operations_and_werfs_diff(planned):
    said = planned.types("plan", code=2)
    shown = plainly(said)
    assert f"Bundle: {planned.name}\n" in shown
    assert f"Plan: {PLAN}\n" in shown
    assert "State: waits for a decision; expires in AGE\n" in shown
    assert "Changes: 2 operations: 2 create; 1 risky\n" in shown
    assert "\nRISK OPERATION KIND NAMESPACE NAME\n" in shown
    assert "\n create ConfigMap - shop-app\n" in shown
    assert f"\nrisky create Role - {ROLE}\n" in shown
    head = f"Diff:\n create Role/{ROLE} (rbac.authorization.k8s.io), risky\n + apiVersion: rbac."
    assert head in shown
    assert "\n create ConfigMap/shop-app\n + apiVersion: v1\n + data:\n + text: one\n" in shown
    assert "werf.io/version" not in said, "it is in every plan"
    assert f"with them: copyrator plan bundle {planned.name} --whole\n" in shown
    whole = planned.types("plan --whole", code=2)
    assert "werf.io/version" in whole
    assert "Not shown:" not in whole
    assert NONCE not in said, "the block is for the operator"
    assert f"Release: {planned.name}, revision 1\n" in shown
    assert "Error: changes planned" not in said
    assert f"\nTo decide: copyrator approve bundle {planned.name} or copyrator reject" in shown


def test_a_plan_without_operations_is_exit_code_0(planned):
    planned.write_status(
        planned.plan(operations=0, counts=None, risky=None, riskyOperations=0), waits=False
    )
    assert "no operations" in planned.types("plan")


def test_without_the_right_to_the_log_the_status_is_shown_and_why_the_rest_is_not(user):
    said = plainly(user(*LOOK).types("plan", code=2))
    assert "Changes: 2 operations: 2 create; 1 risky\n" in said
    assert f"Risky:\n {RISKY}\n" in said
    assert 'cannot get resource "pods/log"' in said
    assert "ask an administrator for this permission" in said
    assert "KIND" not in said


def test_refresh_says_why_nothing_can_be_planned_and_shows_no_older_plan(planned):
    def answer():
        planned.write_status(
            planned.plan(), waits=True, lastHandledPlan=planned.annotations["plan-at"]
        )

    with planned.operator(lambda found: "plan-at" in found, answer):
        said = planned.types("plan --refresh", code=1)
    assert "nothing can be planned now; status AwaitingApproval: the plan waits" in said
    assert "Plan:" not in said


# Decisions


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
        ({}, "approve", "add --yes to approve the plan"),
        ({}, "reject -o json", "add --yes to reject the plan"),
    ],
)
def test_a_decision_that_means_nothing_is_refused(planned, plan, command, said):
    planned.write_status(planned.plan(**plan), waits=True)
    assert said in planned.types(command, code=None)
    assert planned.annotations == {}


def test_a_decision_without_a_wait_is_only_written(planned):
    said = planned.types("approve --yes --timeout 0")
    assert said.endswith(f"\nbundle {planned.name}: plan {PLAN} annotated.\n")
    assert planned.annotations["approved-plan"] == PLAN
    found = json.loads(planned.types("reject --yes --timeout 0 -o json"))
    assert found["metadata"]["annotations"][f"{ANN}rejected-plan"] == PLAN
    found = json.loads(planned.types("reject --yes --timeout 0 --reason unsafe -o json"))
    assert found["metadata"]["annotations"][f"{ANN}rejection-reason"] == "unsafe"
    said = planned.types(f"reject --yes --reason {'x' * 201}", code=2)
    assert "--reason must be one line of 1 to 200 characters" in said
    assert "approved-plan" not in planned.annotations


def test_who_is_impersonated_is_the_one_who_approved(planned, user, word):
    user(*LOOK, READ_LOGS, APPROVE)
    planned.types(f"approve --yes --timeout 0 --as user-{word}")
    assert planned.annotations["approved-by"] == f"user-{word}"
    said = planned.types("approve --yes --as somebody-else", code=1)
    assert 'User "somebody-else" cannot get resource "bundles"' in said


@contextmanager
def asked(planned):
    """`approve` at a terminal, once it has shown the plan."""
    with typed(planned.stage, f"approve bundle {planned.name} --timeout 0") as (one, process):
        one.read_until("Approve this plan? [y/N]: ")
        yield one, process


def test_a_person_is_asked(planned):
    with asked(planned) as (one, process):
        one.type("n\n")
        assert one.read_to_the_end(process) == 1
    assert one.output.endswith("Error: nothing was decided\n")
    assert f"\n{PLAN}: 2 operations: 2 create; 1 risky.\n" in one.output
    namespace, name = planned.name.split("/")
    api = planned.stage.api
    asked_about = plainly(one.output)
    named = f"\nBundle: {name}\nNamespace: {namespace}\nContext: copyrator-local\n"
    assert f"{named}Server: {api.server}\nApprove this plan? [y/N]: " in asked_about
    assert max(len(line) for line in Text.from_ansi(one.output).plain.splitlines()) <= 80
    assert planned.annotations == {}

    with asked(planned) as (one, process):
        planned.team.patch("bundles", "shop", metadata={"labels": {"edited": "meanwhile"}})
        one.type("y\n")
        assert one.read_to_the_end(process) == 0, one.output
    assert planned.annotations["approved-plan"] == PLAN


@pytest.mark.parametrize("recorded", [False, True], ids=["by the annotation", "in the status"])
def test_a_rejection_after_the_plan_was_shown_isnt_overruled(planned, recorded):
    with asked(planned) as (one, process):
        if recorded:
            plan = planned.plan(decision="Rejected", by="ben", at=stamp(), approvalCleared=True)
            planned.write_status(plan, waits=True)
        else:
            planned.team.annotate("shop", **{"rejected-plan": PLAN})
        one.type("y\n")
        assert one.read_to_the_end(process) == 1
    text = " ".join(one.output.split())
    assert f"plan {PLAN} was rejected in the meantime, so it isn't approved; see" in text
    assert "approved-plan" not in planned.annotations
