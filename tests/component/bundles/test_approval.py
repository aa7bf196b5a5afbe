"""Deploys that a person approves: what a decision is worth, and how long."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    ON_RISK,
    PATIENT,
    annotate,
    approve,
    condition,
    deployed,
    idle,
    lose,
    operations,
    pending,
    plan,
    refresh,
    reject,
    secrets,
    waits,
)
from tests.component.bundles.conftest import eventually
from tests.component.bundles.fake_cluster import BundleCluster, fail, path_of, succeed
from tests.component.bundles.fake_werf import CREATE, DELETE, UPDATE, Werf
from tests.component.oci.fake_registry import FakeRegistry, answering

from copyrator.api.keys import BundleKey

Run = Callable[..., Any]
Make = Callable[..., dict[str, Any]]

pytestmark = pytest.mark.usefixtures("registry")


async def test_a_decision_names_the_id_of_the_plan_that_waits(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, version="1.*")
    operator = await run()
    found = await waits(cluster)
    for unknown in ("0" * 32, "", "a" * 5000, found["id"].upper(), f" {found['id']}"):
        annotate(cluster, **{"approved-plan": unknown, "approved-by": "ann"})
        await idle(operator)
    assert cluster.jobs() == []
    assert "decision" not in plan(cluster)

    approve(cluster, found)

    status = await deployed(cluster, version="1.0.0")
    assert status["history"][0]["plan"] == found["id"]
    assert status["history"][0]["approvedBy"] == "ann"
    assert [made for _, made in werf.applied] == [f"revision 1\n{CREATE}\n"]


async def test_the_id_of_another_bundle_s_equal_plan_means_nothing(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS)
    bundle("other", approval=ALWAYS)
    operator = await run()
    found = await waits(cluster)
    theirs = await waits(cluster, name="other")
    assert found["id"] != theirs["id"]
    approve(cluster, theirs)
    await idle(operator)
    assert cluster.jobs() == []


async def test_an_old_id_means_nothing_for_what_is_planned_next(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, version="1.*")
    operator = await run(timer_interval=1.0)
    approve(cluster, await waits(cluster))
    await deployed(cluster, version="1.0.0")
    registry.put("app", "1.1.0", "two")
    await waits(cluster, version="1.1.0")
    await idle(operator)
    assert len(werf.applied) == 1


async def test_an_approval_that_comes_while_the_plan_is_made_anew_counts_for_an_equal_one(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS)
    await run()
    first = await waits(cluster)
    werf.holds_plans = True
    refresh(cluster)
    await eventually(lambda: plan(cluster)["outcome"] == "Running")
    approve(cluster, first)
    await eventually(lambda: len(cluster.jobs("plan")) == 2)
    assert cluster.jobs() == []
    werf.finish(cluster.jobs("plan")[-1])

    status = await deployed(cluster)

    assert status["plan"]["id"] == first["id"]
    assert status["plan"]["job"] != first["job"]


async def test_an_approval_that_comes_while_the_plan_is_made_anew_is_none_of_another_one(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS)
    operator = await run()
    first = await waits(cluster)
    werf.todo = lambda _: [CREATE, DELETE]
    werf.holds_plans = True
    refresh(cluster)
    await eventually(lambda: len(cluster.jobs("plan")) == 2)
    approve(cluster, first)
    werf.finish(cluster.jobs("plan")[-1])
    await waits(cluster, operations=2)
    await idle(operator)
    assert cluster.jobs() == []


async def test_of_two_approvers_the_first_is_named_and_there_is_one_deploy(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS)
    operator = await run()
    found = await waits(cluster)
    werf.holds_deploys = True
    approve(cluster, found, "ann")
    await eventually(lambda: len(cluster.jobs()) == 1)
    approve(cluster, found, "cleo")
    await idle(operator)
    werf.finish(cluster.jobs()[0])
    status = await deployed(cluster)
    assert (status["plan"]["by"], status["history"][0]["approvedBy"]) == ("ann", "ann")
    assert len(werf.applied) == 1


async def test_a_plan_that_is_approved_and_rejected_at_once_is_rejected(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS)
    operator = await run()
    found = await waits(cluster)
    annotate(
        cluster,
        **{"approved-plan": found["id"], "rejected-plan": found["id"], "approved-by": "ann"},
    )
    await waits(cluster, "PlanRejected", decision="Rejected")
    await idle(operator)
    assert cluster.jobs() == []
    assert condition(cluster, "Stalled") == ("True", "PlanRejected")


async def test_a_mind_can_be_changed_until_the_deploy_begins(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, suspend=True)
    operator = await run()
    refresh(cluster)
    await eventually(lambda: plan(cluster).get("outcome") == "Planned")
    found = plan(cluster)
    approve(cluster, found)
    await eventually(lambda: plan(cluster).get("decision") == "Approved")
    reject(cluster, found)
    await eventually(lambda: plan(cluster).get("decision") == "Rejected")
    cluster.change("bundles", "shop", spec={"suspend": None})
    await waits(cluster, "PlanRejected")
    await idle(operator)
    assert cluster.jobs() == []
    annotate(cluster, **{"rejected-plan": None, "approved-by": "ann"})
    await deployed(cluster)


async def test_a_rejected_plan_made_anew_is_not_approved_by_an_earlier_approval(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, suspend=True)
    operator = await run()
    refresh(cluster)
    await eventually(lambda: plan(cluster).get("outcome") == "Planned")
    found = plan(cluster)
    approve(cluster, found)
    await eventually(lambda: plan(cluster).get("decision") == "Approved")
    reject(cluster, found)
    await eventually(lambda: plan(cluster).get("decision") == "Rejected")
    names = ("approved-plan", "rejected-plan", "approved-by")
    annotate(cluster, **dict.fromkeys(names))
    cluster.change("bundles", "shop", spec={"suspend": None})
    refresh(cluster, "again")
    await waits(cluster)
    await idle(operator)
    assert cluster.jobs() == []


async def test_an_approval_that_is_removed_after_it_was_seen_counts_also_after_a_restart(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS)
    operator = await run(timer_interval=1.0)
    found = await waits(cluster)
    cluster.change("bundles", "shop", spec={"suspend": True})
    await eventually(lambda: cluster.reason() == "Suspended")
    approve(cluster, found)
    await eventually(lambda: plan(cluster).get("decision") == "Approved")
    annotate(cluster, **{"approved-plan": None, "approved-by": None})
    await idle(operator)
    await operator.stop()
    cluster.change("bundles", "shop", spec={"suspend": None})
    await run()
    status = await deployed(cluster)
    assert status["history"][0]["approvedBy"] == "ann"


async def test_an_approval_is_taken_while_the_registry_does_not_answer(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS)
    await run(timer_interval=1.0)
    found = await waits(cluster)
    registry.fault = answering(503)
    await eventually(lambda: cluster.reason() == "RegistryUnreachable")
    approve(cluster, found)
    await eventually(lambda: plan(cluster).get("decision") == "Approved")
    annotate(cluster, **{"approved-plan": None, "approved-by": None})
    registry.fault = None
    annotate(cluster, requestedAt="now")
    await deployed(cluster)


async def test_a_bundle_created_again_is_not_approved_by_the_annotations_of_the_old_one(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    """Its manifest in Git may have them."""
    bundle(approval=ALWAYS, deletionPolicy="Orphan")
    operator = await run()
    first = await waits(cluster)
    approve(cluster, first)
    await deployed(cluster)
    lose(cluster, "bundles", "shop")
    await eventually(lambda: cluster.look("bundles", "shop") is None)
    werf.revision = 1  # and the release is gone: the effects are the same
    old = {"operator.werf.dev/approved-plan": first["id"], "operator.werf.dev/approved-by": "ann"}
    bundle(approval=ALWAYS, metadata={"annotations": old})
    found = await waits(cluster)
    assert found["id"] != first["id"]
    await idle(operator)
    assert len(werf.applied) == 1


@pytest.mark.parametrize("held", [False, True], ids=["while it waits", "while it is planned"])
async def test_a_bundle_that_is_deleted_leaves_nothing(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, held: bool
) -> None:
    werf.holds_plans = held
    bundle(approval=ALWAYS)
    operator = await run()
    await eventually(lambda: cluster.jobs("plan"))
    if not held:
        await waits(cluster)
    lose(cluster, "bundles", "shop")
    await eventually(lambda: cluster.look("bundles", "shop") is None)
    await idle(operator)
    assert cluster.jobs() == cluster.jobs("uninstall") == []
    job = cluster.jobs("plan")[0]
    assert ("operator.werf.dev/given-up" in job["metadata"]["annotations"]) is held
    owned = {one["uid"] for one in job["metadata"]["ownerReferences"]}
    for name in secrets(cluster):
        secret = cluster.look("secrets", name) or {}
        assert {one["uid"] for one in secret["metadata"]["ownerReferences"]} == owned
        assert secret["immutable"] is True


async def test_a_force_and_a_request_are_asked_for_although_the_same_was_approved_before(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS)
    operator = await run()
    approve(cluster, await waits(cluster))
    await deployed(cluster)
    werf.todo = lambda _: [UPDATE]  # which an approved create would cover

    annotate(cluster, requestedAt="now")
    found = await waits(cluster)
    await idle(operator)
    assert "lastHandledRequest" not in cluster.status()
    assert len(werf.applied) == 1
    approve(cluster, found)
    await eventually(lambda: cluster.status().get("lastHandledRequest") == "now")
    await deployed(cluster)

    annotate(cluster, forceAt="now")
    found = await waits(cluster)
    await idle(operator)
    assert len(werf.applied) == 2
    approve(cluster, found)
    await eventually(lambda: cluster.status().get("lastHandledForce") == "now")
    await deployed(cluster)

    cluster.change("bundles", "shop", status={"forceUpdate": 1})
    found = await waits(cluster)
    await idle(operator)
    assert cluster.status()["forceUpdate"] == 1
    approve(cluster, found)
    await eventually(lambda: cluster.status()["forceUpdate"] == 0)
    await deployed(cluster)
    assert len(werf.applied) == 4


async def test_a_plan_of_what_is_deployed_does_not_approve_a_force(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS)
    operator = await run()
    approve(cluster, await waits(cluster))
    first = (await deployed(cluster))["plan"]
    werf.todo = lambda _: [UPDATE]
    refresh(cluster)
    await eventually(lambda: plan(cluster)["outcome"] == "Planned" and plan(cluster) != first)
    assert "decision" not in plan(cluster)
    annotate(cluster, forceAt="now")
    await waits(cluster)
    await idle(operator)
    assert len(werf.applied) == 1


async def test_a_failed_apply_is_tried_again_as_far_as_it_was_approved(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, retry=PATIENT)
    operator = await run()
    werf.todo = lambda _: [CREATE, "create ::Service:app"]
    werf.ends = fail
    first = await waits(cluster)
    approve(cluster, first)
    await eventually(lambda: cluster.reason() == "DeployFailed")
    # It did a half: the rest, and an update of what is there, was approved.
    werf.todo = lambda _: [UPDATE, "create ::Service:app"]
    await eventually(lambda: len(werf.applied) == 2)
    await eventually(lambda: cluster.reason() == "DeployFailed")
    second = cluster.status()["history"][0]
    assert (second["approvedBy"], second["outcome"]) == ("ann", "Failed")
    assert second["plan"] != first["id"]
    # Something else wasn't.
    werf.todo, werf.ends = lambda _: [UPDATE, DELETE], succeed
    found = await waits(cluster, operations=2)
    await idle(operator)
    assert len(werf.applied) == 2
    assert secrets(cluster) == operations(found, first)
    approve(cluster, found, "cleo")
    status = await deployed(cluster)
    assert status["history"][0]["approvedBy"] == "cleo"


async def test_the_secrets_of_a_superseded_approval_go(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, retry=PATIENT)
    await run()
    werf.ends = fail
    approve(cluster, await waits(cluster))
    await eventually(lambda: cluster.reason() == "DeployFailed")
    werf.todo = lambda _: [DELETE]
    approve(cluster, await waits(cluster, operations=1, number=2))
    await eventually(lambda: len(werf.applied) == 2)
    werf.ends = succeed
    found = (await deployed(cluster))["plan"]
    approved = {"job": found["approved"]["job"]}
    assert secrets(cluster) <= operations(found, approved)


async def test_an_interrupted_attempt_is_made_anew_as_approved(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, retry=PATIENT)
    await run()
    werf.holds_deploys = True
    approve(cluster, await waits(cluster))
    await eventually(lambda: cluster.runs and len(cluster.jobs()) == 1)
    werf.holds_deploys = False
    lose(cluster, "jobs", cluster.runs[-1])
    status = await deployed(cluster)
    assert [one["outcome"] for one in status["history"]] == ["Succeeded", "Interrupted"]
    assert [one["approvedBy"] for one in status["history"]] == ["ann", "ann"]


async def test_a_first_install_into_a_missing_namespace_creates_it_as_approved(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ON_RISK, retry=PATIENT, project_namespace="prod")
    await run()
    werf.holds_deploys = True
    found = await waits(cluster)
    assert found["risky"] == ["create ::Namespace:prod"]
    assert found["counts"] == {"create": 2}
    approve(cluster, found)
    # An attempt that is lost before it creates the namespace needs no second approval.
    await eventually(lambda: len(cluster.jobs()) == 1)
    werf.holds_deploys = False
    lose(cluster, "jobs", cluster.runs[-1])
    await deployed(cluster)
    assert len(werf.applied) == 1


async def test_what_was_deleted_between_plan_and_deploy_is_planned_anew(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, retry=PATIENT)
    operator = await run()
    found = await waits(cluster)
    werf.todo = lambda _: [CREATE, "create ::Service:app"]
    approve(cluster, found)
    again = await waits(cluster, operations=2)
    entry = cluster.status()["history"][0]
    assert (entry["outcome"], entry["reason"]) == ("Interrupted", "PlanChanged")
    assert cluster.status()["attempted"]["failures"] == 0
    await idle(operator)
    assert werf.applied == []
    approve(cluster, again)
    await deployed(cluster)


async def test_values_edited_before_the_deploy_begins_are_planned(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    cluster.put_object("configmaps", "values", data={"values.yaml": "a: 1"})
    bundle(approval=ALWAYS, values="values")
    operator = await run()
    first = await waits(cluster)
    cluster.change("configmaps", "values", data={"values.yaml": "a: 2"})
    approve(cluster, first)
    await eventually(lambda: plan(cluster).get("id") not in (None, first["id"]))
    found = await waits(cluster)
    await idle(operator)
    assert werf.applied == []
    assert secrets(cluster) == operations(found)
    approve(cluster, found)
    await deployed(cluster)
    await eventually(lambda: secrets(cluster) == operations(found))


async def test_a_spec_edited_before_the_job_could_be_created_is_planned(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    """The same process tries to create the Job again: not one of another spec."""
    bundle(approval=ALWAYS, retry=PATIENT)
    operator = await run()
    found = await waits(cluster)
    refused = cluster.refuse("create", "/jobs", 500)
    approve(cluster, found)
    await eventually(lambda: cluster.status().get("attempted", {}).get("outcome") == "Running")
    cluster.change("bundles", "shop", spec={"env": {"COLOUR": "blue"}})
    await eventually(lambda: operator.bundles.get(BundleKey("team", "shop")).generation == 2)
    refused.clear()
    again = await waits(cluster)
    assert again["id"] != found["id"]
    await idle(operator)
    assert werf.applied == []
    approve(cluster, again)
    await deployed(cluster)


@pytest.mark.parametrize("what", ["operations", "values-000", "salt"])
@pytest.mark.parametrize("how", ["replaced", "deleted"])
async def test_a_secret_of_ours_that_is_not_as_planned_ends_the_deploy(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    werf: Werf,
    what: str,
    how: str,
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr("copyrator.bundles.runs.BLOCKED_AFTER", 0.1)
    monkeypatch.setattr("copyrator.bundles.runs.LOOK_AGAIN", 0.2)
    cluster.put_object("configmaps", "values", data={"values.yaml": "a: 1"})
    bundle(approval=ALWAYS, values="values", retry=PATIENT)
    await run()
    found = await waits(cluster)
    werf.holds_deploys = True
    cluster.pods = {"waiting": {"reason": "ContainerCreating"}}
    approve(cluster, found)
    await eventually(lambda: len(cluster.jobs()) == 1)
    werf.holds_deploys = False
    (job,) = cluster.jobs()
    name = f"{found['job'] if what == 'operations' else job['metadata']['name']}-{what}"
    secret = cluster.look("secrets", name) or {}
    lose(cluster, "secrets", name)
    if how == "replaced":
        data = dict.fromkeys(secret["data"], "b3RoZXI=")
        cluster.write(path_of("secrets", name), {**secret, "data": data})
        werf.finish(job)
    else:  # the pod can't start; the Job controller ends what was given up
        given_up = "operator.werf.dev/given-up"
        await eventually(
            lambda: given_up in (cluster.jobs()[0]["metadata"]["annotations"]), "given up"
        )
        cluster.end_without_pod(job["metadata"]["name"])
    await eventually(lambda: cluster.status().get("history"))
    entry = cluster.status()["history"][0]
    assert (entry["outcome"], entry["reason"]) == ("Interrupted", "PlanChanged"), entry
    assert werf.applied == []


async def test_a_stream_of_pushes_replaces_no_plan_that_waits(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, version="1.*")
    operator = await run(timer_interval=1.0)
    found = await waits(cluster)
    for number in range(1, 6):
        registry.put("app", f"1.{number}.0", f"{number}")
        registry.put("app", "1.0.0", f"pushed again {number}")
        annotate(cluster, requestedAt=f"{number}")  # polls at once
        await waits(cluster, newer=f"1.{number}.0", id=found["id"])
    await idle(operator)
    assert len(cluster.jobs("plan")) == 1
    approve(cluster, found)
    await eventually(lambda: werf.applied)
    assert werf.applied[0][0] == found["digest"]
    await waits(cluster, version="1.5.0")


@pytest.mark.parametrize("restart", [False, True])
async def test_a_plan_that_nobody_decides_about_is_made_anew_when_it_expires(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    werf: Werf,
    restart: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("copyrator.api.bundle.MIN_APPROVAL_EXPIRES", 1.0)
    bundle(approval={"mode": "Always", "expires": "2s"})
    operator = await run()
    found = await waits(cluster)
    if restart:
        await operator.stop()
        await run()
    werf.todo = lambda _: [CREATE, DELETE]
    again = await waits(cluster, number=2)
    assert again["startedAt"] >= found["expiresAt"]
    assert datetime.fromisoformat(again["startedAt"]) <= datetime.now(UTC)
    assert again["id"] != found["id"]


async def test_an_approval_does_not_expire(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("copyrator.api.bundle.MIN_APPROVAL_EXPIRES", 1.0)
    bundle(approval={"mode": "Always", "expires": "1s"}, suspend=True)
    await run()
    refresh(cluster)
    await eventually(lambda: plan(cluster).get("outcome") == "Planned")
    found = plan(cluster)
    approve(cluster, found)
    expires = datetime.fromisoformat(found["expiresAt"])
    await eventually(lambda: datetime.now(UTC) > expires)
    cluster.change("bundles", "shop", spec={"suspend": None})
    status = await deployed(cluster)
    assert status["plan"]["job"] == found["job"]


async def test_a_suspended_bundle_is_planned_on_request_only(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, suspend=True)
    operator = await run()
    await eventually(lambda: cluster.reason() == "Suspended")
    await idle(operator)
    assert cluster.runs == []
    refresh(cluster)
    await eventually(lambda: plan(cluster).get("outcome") == "Planned")
    assert cluster.status()["lastHandledPlan"] == "now"
    approve(cluster, plan(cluster))
    await eventually(lambda: plan(cluster).get("decision") == "Approved")
    await idle(operator)
    assert cluster.jobs() == []


async def test_a_paused_bundle_is_not_planned_nor_deployed_and_a_decision_is_kept(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, metadata={"annotations": {"operator.werf.dev/plan-at": "1"}})
    annotate(cluster, **{"disable-autoupdate": "true"})
    operator = await run()
    await eventually(lambda: cluster.reason() == "AutoupdateDisabled")
    await idle(operator)
    assert cluster.runs == []
    assert registry.asked == []
    annotate(cluster, **{"disable-autoupdate": None})
    found = await waits(cluster)
    annotate(cluster, **{"disable-autoupdate": "true"})
    await eventually(lambda: cluster.reason() == "AutoupdateDisabled")
    asked = len(registry.asked)
    approve(cluster, found)
    await eventually(lambda: plan(cluster).get("decision") == "Approved")
    annotate(cluster, **{"approved-plan": None, "approved-by": None})
    await idle(operator)
    assert cluster.jobs() == []
    assert len(registry.asked) == asked
    annotate(cluster, **{"disable-autoupdate": None})
    await deployed(cluster)


async def test_what_waits_is_deployed_when_approval_is_no_longer_asked_for(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS)
    operator = await run()
    await waits(cluster)
    cluster.change("bundles", "shop", spec={"approval": None})
    status = await deployed(cluster)
    assert "plan" not in status["history"][0]
    assert [made for _, made in werf.applied] == [""]
    await idle(operator)
    assert secrets(cluster) == set()
    # What was planned then is worth nothing later.
    cluster.change("bundles", "shop", spec={"approval": ALWAYS})
    werf.revision = 1
    annotate(cluster, forceAt="now")
    await waits(cluster, number=2)


async def test_an_approval_ends_with_a_deploy_that_needed_none(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, retry={"limit": 3, "backoff": "60s"})
    operator = await run()
    werf.ends = fail
    approve(cluster, await waits(cluster))
    await eventually(lambda: cluster.reason() == "DeployFailed")
    werf.ends = succeed
    cluster.change("bundles", "shop", spec={"approval": None})
    await deployed(cluster)
    cluster.change("bundles", "shop", spec={"approval": ALWAYS})
    werf.todo = lambda _: [UPDATE]
    annotate(cluster, forceAt="now")
    await waits(cluster)
    await idle(operator)
    assert len(werf.applied) == 2


async def test_a_deploy_that_runs_when_approval_is_asked_for_ends_and_its_retry_waits(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    werf.holds_deploys = True
    bundle(retry=PATIENT)
    operator = await run()
    await eventually(lambda: len(cluster.jobs()) == 1)
    cluster.change("bundles", "shop", spec={"approval": ALWAYS})
    await idle(operator)
    cluster.end_job(cluster.runs[0], *fail({}))
    found = await waits(cluster)
    await idle(operator)
    assert len(cluster.jobs()) == 1
    werf.holds_deploys = False
    approve(cluster, found)
    await deployed(cluster)


async def test_a_risky_retry_of_a_plan_that_passed_by_itself_waits(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ON_RISK, retry=PATIENT)
    operator = await run()
    werf.ends = fail
    await eventually(lambda: cluster.reason() == "DeployFailed")
    werf.todo = lambda _: [UPDATE, DELETE]
    found = await waits(cluster)
    assert found["risky"] == [DELETE]
    await idle(operator)
    assert len(werf.applied) == 1
    assert pending(cluster) == "AwaitingApproval"
