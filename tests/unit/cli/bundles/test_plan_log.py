"""Which Job, pod and log are a plan's, and how its operations are shown."""

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.replacing import replace

from copyrator.bundles.fields import parse_status
from copyrator.bundles.jobs.pod import JobKind
from copyrator.bundles.jobs.script import SealedFile
from copyrator.bundles.plans.fields import PlanStatus
from copyrator.bundles.plans.operations import Plan, effects, read_operation
from copyrator.bundles.plans.record import id_of
from copyrator.bundles.plans.script import plan_command
from copyrator.cli.bundles.plan import PlanView, document
from copyrator.cli.bundles.plan_log import (
    PlanLog,
    _UnreadableError,
    agreed,
    agreed_drift,
    ended_pod,
    nonce_of,
    release_namespace,
    remove_no_errors,
)
from copyrator.cli.view.bundle import BundleView

NONCE = "0123456789abcdef" * 2
BUNDLE: dict[str, Any] = {"metadata": {"namespace": "apps", "name": "shop", "uid": "the-bundle"}}
LABELS = {"operator.werf.dev/bundle": "shop", "operator.werf.dev/job": "plan"}


def operation(text):
    found = read_operation(text)
    assert found is not None
    return found


PLAN = Plan(
    3, tuple(map(operation, ("create ::ConfigMap:a", "delete :apps:StatefulSet:b", "update ::X:c")))
)
STATUS = PlanStatus.parse(
    {"outcome": "Planned", "revision": 3, "counts": {"create": 1, "update": 1, "delete": 1}}
)


COMMAND = plan_command(NONCE, SealedFile("/salt", "/salts", "/copy", "0" * 64), ())


def job(*, owner="the-bundle", command=COMMAND, **labels):
    container = {"name": "werf", "command": list(command)}
    return {
        "metadata": {
            "name": "shop-plan-1",
            "uid": "the-job",
            "labels": {**LABELS, **{f"operator.werf.dev/{k}": v for k, v in labels.items()}},
            "ownerReferences": [{"uid": owner}],
        },
        "spec": {"template": {"spec": {"containers": [container]}}},
    }


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (job(owner="another"), "isn't a plan Job of this Bundle"),
        (job(bundle="another"), "isn't a plan Job of this Bundle"),
        (job(job="deploy"), "isn't a plan Job of this Bundle"),
        (job(command=("werf", "bundle", "apply")), "has no container that plans"),
        (job(command=()), "has no container that plans"),
        ({"metadata": {"name": "x\x1b[2J", "uid": "y"}}, r"the Job x\x1b[2J isn't a plan Job"),
    ],
)
def test_a_job_of_another_purpose_isnt_read(found, message):
    with pytest.raises(_UnreadableError) as caught:
        nonce_of(found, BUNDLE)
    assert message in str(caught.value)


def test_a_check_for_drift_is_read_only_where_it_is_asked_for():
    assert nonce_of(job(), BUNDLE) == NONCE
    check = job(job="drift")
    assert nonce_of(check, BUNDLE, (JobKind.DRIFT, JobKind.PLAN)) == NONCE
    assert nonce_of(job(), BUNDLE, (JobKind.DRIFT, JobKind.PLAN)) == NONCE
    with pytest.raises(_UnreadableError):
        nonce_of(check, BUNDLE)


def drifted(objects, job="shop-drift-1", **check):
    found = {"verdict": "Drifted", "foundJob": "shop-drift-1", "objects": objects}
    return parse_status({"status": {"drift": found | {"check": {"job": job} | check}}})


def test_the_log_of_a_check_for_drift_is_shown_if_it_names_what_the_status_names():
    objects = ["delete :apps:StatefulSet:b"]
    assert agreed_drift(PLAN, drifted(objects), "apps") == PLAN.operations
    assert agreed_drift(PLAN, drifted([*objects, "create ::X:d"]), "apps") is None
    missing = drifted(["create ::Namespace:apps"])
    assert agreed_drift(PLAN, missing, "apps") == effects(PLAN, "apps")


def test_the_log_of_the_newest_check_has_its_id():
    known = {"digest": "sha256:1", "valuesHash": "v", "jobHash": "j"}
    record = PlanStatus(digest="sha256:1", values_hash="v", job_hash="j")
    made = id_of(record, replace(PLAN, exact=None), PLAN.operations)
    assert agreed_drift(PLAN, drifted([], id=made, **known), "apps") == PLAN.operations
    assert agreed_drift(PLAN, drifted([], id="another", **known), "apps") is None
    older = drifted([], job="shop-drift-2", id="another", **known)
    assert agreed_drift(PLAN, older, "apps") == PLAN.operations


def pod(code=0, owner="the-job", container="werf"):
    ended = {"name": container, "state": {"terminated": {"exitCode": code}}}
    return {
        "metadata": {"name": f"pod-{code}", "ownerReferences": [{"uid": owner}]},
        "status": {"containerStatuses": [ended]},
    }


def test_only_a_pod_of_the_job_that_ended_well_is_read():
    assert ended_pod([pod(owner="another"), pod(11), pod()], job()) == "pod-0"
    for pods, message in (
        ([], "was deleted"),
        ([pod(owner="another")], "was deleted"),
        ([pod(11)], "hasn't ended with exit code 0"),
        ([pod(container="login")], "hasn't ended with exit code 0"),
        ([{**pod(), "status": {}}], "hasn't ended with exit code 0"),
    ):
        with pytest.raises(_UnreadableError) as caught:
            ended_pod(pods, job())
        assert message in str(caught.value)


def test_the_logs_plan_is_shown_if_the_status_counts_the_same():
    assert agreed(PLAN, STATUS, "apps") == PLAN.operations
    assert agreed(replace(PLAN, revision=4), STATUS, "apps") is None
    assert agreed(Plan(3, PLAN.operations[1:]), STATUS, "apps") is None
    swapped = (operation("create ::ConfigMap:b"), *PLAN.operations[:1], PLAN.operations[2])
    assert agreed(Plan(3, swapped), STATUS, "apps") is None
    named = replace(STATUS, risky=("delete :apps:StatefulSet:b",))
    assert agreed(PLAN, named, "apps") == PLAN.operations
    assert agreed(PLAN, replace(STATUS, risky=("delete ::X:c",)), "apps") is None


def test_a_namespace_that_werf_will_create_is_shown_too():
    two = replace(STATUS, counts=replace(STATUS.counts, create=2))
    assert agreed(PLAN, two, "apps") is None
    counted = replace(two, risky=("create ::Namespace:apps",))
    found = agreed(PLAN, counted, "apps")
    assert found == effects(PLAN, "apps")
    assert operation("create ::Namespace:apps") in found


@pytest.mark.parametrize(("repo", "namespace"), [("shop", "prod"), (1, "apps")])
def test_the_release_of_an_invalid_spec_is_looked_for_beside_its_bundle(repo, namespace):
    spec = {"registry": "r.example.com", "repo": repo, "project_namespace": "prod"}
    assert release_namespace({**BUNDLE, "spec": spec}) == namespace


def shown(risky, number, **log):
    status = STATUS.to_dict() | {"risky": risky, "riskyOperations": number}
    body = {**BUNDLE, "status": {"plan": status}}
    now = datetime(2026, 1, 2, tzinfo=UTC)
    return PlanView(
        BundleView(body, now), PlanLog(**{"operations": PLAN.operations, "diff": "x", **log})
    )


def test_where_the_status_doesnt_name_all_risky_ones_they_are_found_again():
    found = document(shown([], 21))["operations"]
    assert [one["name"] for one in found if one["risky"]] == ["b"]


def test_a_document_without_the_log_says_why():
    found = document(shown([], 0, operations=None, diff=None, fault="no permission"))
    assert (found["operations"], found["diff"], found["error"]) == (None, None, "no permission")


@pytest.mark.parametrize(
    ("last", "shown"),
    [
        ("Error: changes planned\n", ""),  # werf 2.67.0 and 2.75.3
        ("Error: resource changes planned\n", ""),  # 3.2.0
        ("Error: no resource changes planned, but still must install release\n", ""),  # 3.2.0
        ("Error: changes planned\r\n", ""),
        ("Error: changes planned\n\nthe block\n", "\nthe block\n"),
        ("Error: no changes planned\n", "Error: no changes planned\n"),
        ("│ Error: changes planned\n", "│ Error: changes planned\n"),
    ],
)
def test_that_changes_are_planned_is_no_error(last, shown):
    assert remove_no_errors(f"the diff\n{last}") == f"the diff\n{shown}"
