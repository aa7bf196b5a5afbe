"""What a decision about a plan is worth."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    PATIENT,
    annotate,
    approve,
    condition,
    deployed,
    idle,
    lose,
    pending,
    plan,
    refresh,
    reject,
    secrets,
    waits,
)
from tests.component.bundles.fake_cluster import BundleCluster, fail, path_of, succeed
from tests.component.bundles.fake_werf import CREATE, DELETE, UPDATE, Werf
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.telling import Told
from tests.component.bundles.test_gitops import gitops_health, gitops_message
from tests.component.bundles.test_metrics import shown, shows
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry, answering

pytestmark = pytest.mark.usefixtures("registry")


SHA = f"sha256:{'6' * 64}"


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


@pytest.mark.usefixtures("werf")
@pytest.mark.parametrize(
    ("image", "reported", "runs"),
    [
        ("org/werf:2.75.3", f"docker.io/org/werf@{SHA}", f"org/werf@{SHA}"),
        ("docker.io/werf:2.75.3", f"docker-pullable://werf@{SHA}", f"docker.io/werf@{SHA}"),
        ("org/werf:2.75.3", SHA, None),
        ("org/werf:2.75.3", f"mirror.example/org/werf@{SHA}", None),
    ],
)
async def test_the_approved_werf_runs_by_the_digest_that_the_node_reports_or_it_is_said(
    cluster: BundleCluster, run: Run, bundle: Make, image: str, reported: str, runs: str | None
) -> None:
    cluster.werf_image = reported
    bundle(approval=ALWAYS, werf={"image": image})
    await run(allowed_images=(image.partition(":")[0],))
    found = await waits(cluster)
    unbound = "\n".join(found.get("unbound", ()))
    assert unbound.count("name it by digest in spec.werf.image") == (runs is None)
    assert ("another werf may deploy" in unbound) == (runs is None)

    approve(cluster, found)

    await deployed(cluster)
    (job,) = cluster.jobs()
    pod = job["spec"]["template"]["spec"]
    assert {one["image"] for one in pod["containers"]} == {runs or image}


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


@pytest.fixture
def told() -> Told:
    return Told()


async def test_a_plan_and_a_decision_are_told_by_one_event_each(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, told: Told
) -> None:
    bundle(approval=ALWAYS)
    operator = await run(recorder=told)
    await waits(cluster)
    refresh(cluster)  # Ready has another reason than Planning when it begins
    await eventually(lambda: plan(cluster)["number"] == 2)
    reject(cluster, await waits(cluster))
    await waits(cluster, "PlanRejected")
    await idle(operator)
    assert told[:2] == [("Normal", "Planning"), ("Normal", "AwaitingApproval")]
    reasons = [reason for _, reason in told]
    assert (reasons.count("Planning"), reasons.count("PlanRejected")) == (2, 1)


async def test_what_cannot_be_planned_yet_is_not_told_to_be_planned(
    cluster: BundleCluster, run: Run, bundle: Make, told: Told
) -> None:
    cluster.drop(path_of("serviceaccounts", "werf"))
    bundle(approval=ALWAYS)
    operator = await run(recorder=told)
    await eventually(lambda: cluster.reason() == "ServiceAccountMissing")
    await idle(operator)
    assert told == [("Warning", "ServiceAccountMissing")]
    update = condition(cluster, "UpdatePending")
    assert update == ("True", "Planning")


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


async def test_gitops_tools_see_that_an_approval_is_waited_for(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, version="1.*")
    await run()
    approve(cluster, await waits(cluster))
    assert gitops_health(cluster) == ("Suspended", "InProgress", "InProgress")
    assert "copyrator approve" in gitops_message(cluster)
    await deployed(cluster, version="1.0.0")
    assert gitops_health(cluster) == ("Healthy", "Current", "Current")
    cluster.change("bundles", "shop", spec={"env": {"MODE": "test"}})
    await waits(cluster)
    assert gitops_health(cluster) == ("Suspended", "InProgress", "Current")


async def test_what_updates_wait_for_is_counted_also_where_an_older_version_runs(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    operator = await run(timer_interval=1.0)
    bundle(version="1.*", approval=ALWAYS, retry={"limit": 0})
    found = await waits(cluster)
    waiting, failing = (
        f'copyrator_updates_pending{{reason="{one}"}}'
        for one in ("AwaitingApproval", "PlanUnstable")
    )
    await shows(operator, {waiting: 1})
    approve(cluster, found)
    await deployed(cluster)
    assert not [name for name in shown(operator) if "updates_pending{" in name]
    werf.says = lambda *_: (1, "Error: no\n")
    registry.put("app", "1.1.0", "next")
    await eventually(lambda: pending(cluster) == "PlanUnstable")
    await shows(operator, {failing: 1, 'copyrator_bundles{reason="Deployed"}': 1})


async def test_a_deletion_uninstalls_without_approval(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    """docs/trust.md says so."""
    bundle(approval=ALWAYS)
    await run(require_approval=(("*", "Always"),))
    approve(cluster, await waits(cluster))
    await deployed(cluster)

    cluster.drop(path_of("bundles", "shop"))

    await eventually(lambda: cluster.jobs("uninstall"))


A_MINUTE = timedelta(minutes=1)


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
) -> None:
    bundle(approval={"mode": "Always", "expires": "1m"})
    operator = await run()
    found = await waits(cluster)
    if restart:
        await operator.stop()
        operator = await run()
        await idle(operator)
    werf.todo = lambda _: [CREATE, DELETE]
    operator.let_pass(A_MINUTE)
    again = await waits(cluster, number=2)
    assert again["startedAt"] >= found["expiresAt"]
    assert datetime.fromisoformat(again["startedAt"]) <= operator.now()
    assert again["id"] != found["id"]


async def test_a_suspended_bundle_is_planned_on_request_only(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, suspend=True)
    operator = await run()
    await eventually(lambda: cluster.reason() == "Suspended")
    await idle(operator)
    assert cluster.runs == []
    assert pending(cluster) == "Suspended"
    werf.holds_plans = True
    refresh(cluster)
    await eventually(lambda: cluster.jobs("plan"))
    await waits(cluster, "Planning", outcome="Running")
    werf.holds_plans = False
    werf.finish(cluster.jobs("plan")[0])
    await eventually(lambda: plan(cluster).get("outcome") == "Planned")
    assert cluster.status()["lastHandledPlan"] == "now"
    await waits(cluster)
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


@pytest.mark.parametrize(
    "is_preview",
    [
        pytest.param(False, id="plan"),
        pytest.param(True, id="preview", marks=pytest.mark.needs("previews")),
    ],
)
async def test_a_plan_without_a_job_is_made_when_its_bundle_is_not_paused_any_more(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, is_preview: bool
) -> None:
    """The process died between the record and the Job, and then the Bundle was paused."""

    def record() -> dict[str, Any]:
        found: dict[str, Any] = cluster.status().get("preview" if is_preview else "plan", {})
        return found

    refused = cluster.refuse("create", "/jobs", 500)
    bundle(approval=None if is_preview else ALWAYS, suspend=is_preview)
    if is_preview:
        annotate(cluster, **{"plan-at": "now", "plan-version": "1.*"})
    operator = await run()
    await eventually(lambda: record().get("outcome") == "Running")
    await operator.stop()
    annotate(cluster, **{"disable-autoupdate": "true"})
    refused.clear()

    operator = await run()
    await eventually(lambda: "isn't created until the annotation" in record().get("message", ""))
    await eventually(lambda: cluster.reason() == "AutoupdateDisabled")
    await idle(operator)
    assert cluster.runs == []
    assert pending(cluster) != "Planning"

    annotate(cluster, **{"disable-autoupdate": None})
    await eventually(lambda: record()["outcome"] == "Planned")
    assert (record()["number"], "message" in record()) == (1, False)
    assert len(cluster.jobs("plan")) == 1


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


def ttl(cluster: BundleCluster, number: int = 0) -> int | None:
    found: int | None = cluster.jobs("plan")[number]["spec"].get("ttlSecondsAfterFinished")
    return found


@pytest.mark.parametrize("decide", [approve, reject], ids=["approved", "rejected"])
async def test_the_job_of_a_plan_is_kept_as_long_as_it_waits(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, decide: Callable[..., None]
) -> None:
    """Not by a timer of the Job: nobody may be there for longer than that."""
    bundle(approval={"mode": "Always", "expires": "720h"})
    operator = await run()
    found = await waits(cluster)
    await idle(operator)
    assert ttl(cluster) is None
    await operator.stop()
    await run()
    decide(cluster, found)
    await eventually(lambda: ttl(cluster) == 3 * 24 * 3600)
