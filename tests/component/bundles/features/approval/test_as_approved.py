"""What becomes of a deploy by what was stored for its release, beside what was approved."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    ON_RISK,
    approve,
    condition,
    deployed,
    idle,
    refresh,
    waits,
)
from tests.component.bundles.fake_cluster import (
    GUARD,
    GUARD_BINDING,
    GUARD_POLICY,
    TEAM,
    BundleCluster,
    fail,
    path_of,
)
from tests.component.bundles.fake_werf import NONCE, Werf, container
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.telling import Told
from tests.component.bundles.test_metrics import shown
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry
from tests.packed_charts import chart

from copyrator.bundles.features.approval.endings import STORED, StoredWord
from copyrator.bundles.plans.guard.enforcement import API_SERVICES

pytestmark = pytest.mark.usefixtures("registry")


AS_APPROVED = "AsApproved"
DIFFERENT = ("False", "DeployedDifferently")


async def approved(cluster: BundleCluster) -> None:
    approve(cluster, await waits(cluster))


async def quarantined(cluster: BundleCluster) -> dict[str, Any]:
    await eventually(lambda: cluster.reason() == "Quarantined", "it is quarantined")
    return cluster.status()


@pytest.mark.parametrize(
    ("stores", "found"),
    [
        ("same", ("True", "AsApproved")),
        (StoredWord.EXACT, ("True", "Exact")),
        (StoredWord.NONE, ("Unknown", "RendersDiffer")),
        (StoredWord.SKIPPED, ("Unknown", "NothingStored")),
        (StoredWord.NOT_ASKED, ("Unknown", "NotSupported")),
        (StoredWord.UNREADABLE, ("Unknown", "Unreadable")),
    ],
)
async def test_the_condition_says_what_was_found(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    werf: Werf,
    stores: str,
    found: tuple[str, str],
) -> None:
    werf.stores = lambda _: stores
    bundle(approval=ALWAYS)
    operator = await run()
    await approved(cluster)

    status = await deployed(cluster)

    assert condition(cluster, AS_APPROVED) == found
    assert status["asApproved"]["reason"] == found[1]
    gauge = f'copyrator_bundles_as_approved{{as_approved="{found[0]}"}}'
    await eventually(lambda: shown(operator)[gauge] == 1)


@pytest.mark.parametrize("stores", ["other", StoredWord.LARGE])
async def test_what_was_stored_otherwise_quarantines_the_version_until_another_is_deployed(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    werf: Werf,
    stores: str,
) -> None:
    told = Told()
    bundle(approval=ALWAYS, retry={"limit": 3, "backoff": "1s"}, version="1.*")
    werf.stores = lambda _: stores
    operator = await run(recorder=told, timer_interval=1.0)
    await approved(cluster)

    status = await quarantined(cluster)

    assert condition(cluster, AS_APPROVED) == DIFFERENT
    assert status["attempted"]["reason"] == "DeployedDifferently"
    assert "deployed" not in status
    assert "1.0.0 (revision 1): what was stored isn't" in told.said["DeployedDifferently"][-1]
    assert "as revision 1 isn't what was approved. It isn't" in told.said["Quarantined"][-1]
    gauge = 'copyrator_bundles_as_approved{as_approved="False"}'
    await eventually(lambda: shown(operator)[gauge] == 1)
    await idle(operator)
    assert len(werf.applied) == 1, "it isn't retried"

    werf.stores = lambda _: "same"
    registry.put("app", "1.1.0", "next")
    await approved(cluster)
    await deployed(cluster, version="1.1.0")
    assert condition(cluster, AS_APPROVED) == ("True", AS_APPROVED)


COMPLETE = {"type": "Complete", "status": "True"}


def logging(
    cluster: BundleCluster, werf: Werf, log: str, code: int | None = None
) -> Callable[[dict[str, Any]], tuple[int, str] | None]:
    """How a Job ends whose script compares: with this log, in which the nonce is filled in."""

    def end(job: dict[str, Any]) -> tuple[int, str] | None:
        ended = werf.run(job)
        found = NONCE.search(container(job)["command"][2])
        if not found or not ended:
            return ended
        cluster.logs[f"{job['metadata']['name']}-pod"] = log.format(nonce=found[1])
        return ended if code is None else (code, ended[1])

    return end


@pytest.mark.needs("charts")
async def test_after_a_kill_the_last_line_may_be_a_hooks(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    """One that may read its Job knows the nonce; werf's report says that it has succeeded."""
    line = f"{STORED} {{nonce}} {'a' * 64} {'a' * 64}\n"
    cluster.ends = logging(cluster, werf, line, code=137)
    bundle(approval=ON_RISK)
    await run()
    await deployed(cluster)

    assert condition(cluster, AS_APPROVED) == ("Unknown", "Unreadable")


async def test_the_exit_code_tells_it_where_no_log_can_be_read(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    werf.stores = lambda _: "other"
    bundle(approval=ALWAYS)
    await run()
    found = await waits(cluster)
    cluster.log_faults = [500] * 20
    approve(cluster, found)

    await quarantined(cluster)

    assert condition(cluster, AS_APPROVED) == DIFFERENT


@pytest.mark.needs("charts")
async def test_where_the_pod_is_gone_it_isnt_known(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    def end(job: dict[str, Any]) -> tuple[int, str] | None:
        ended = werf.run(job)
        if NONCE.search(container(job)["command"][2]):
            name = job["metadata"]["name"]
            cluster.drop(path_of("pods", f"{name}-pod"))
            cluster.change("jobs", name, status={"conditions": [COMPLETE]})
            return None
        return ended

    cluster.ends = end
    bundle(approval=ON_RISK)
    await run()
    await deployed(cluster)

    assert condition(cluster, AS_APPROVED) == ("Unknown", "Unreadable")


@pytest.mark.needs("charts")
async def test_without_an_approval_nothing_is_compared(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ON_RISK)
    await run()
    await deployed(cluster)
    assert condition(cluster, AS_APPROVED) == ("True", AS_APPROVED)

    cluster.change("bundles", "shop", spec={"approval": None, "env": {"WERF_SET_A": "a=2"}})
    await eventually(lambda: len(werf.applied) == 2)
    await deployed(cluster)

    assert condition(cluster, AS_APPROVED) == ("", "")
    assert "asApproved" not in cluster.status()
    assert not any(STORED in part for part in container(cluster.jobs()[-1])["command"])


ASKED = (GUARD_POLICY, GUARD_BINDING, API_SERVICES)
Change = Callable[[BundleCluster], None]


def of(path: str, **change: Any) -> Change:
    return lambda cluster: cluster.objects[path]["spec"].update(change)


def lists_of_others(cluster: BundleCluster) -> None:
    cluster.objects[GUARD_BINDING]["spec"]["paramRef"]["namespace"] = TEAM


def no_lists(cluster: BundleCluster) -> None:
    selector = cluster.objects[GUARD_BINDING]["spec"]["paramRef"]["selector"]
    selector["matchExpressions"][0]["operator"] = "DoesNotExist"


def not_there(path: str) -> Change:
    return lambda cluster: cluster.drop(path)


def aggregated(cluster: BundleCluster) -> None:
    spec = {"group": "example.com", "service": {"name": "a", "namespace": "b"}}
    body = {"metadata": {"name": "v1.example.com"}, "spec": spec}
    cluster.write(f"{API_SERVICES}/v1.example.com", body)


def may(*wanted: str) -> Change:
    """A verb and a resource."""

    def change(cluster: BundleCluster) -> None:
        cluster.changes_policies = lambda asked: (asked["verb"], asked["resource"]) == wanted

    return change


def unasked(cluster: BundleCluster) -> None:
    cluster.changes_policies = None


WHY: dict[str, tuple[Change, str]] = {
    "no policy": (not_there(GUARD_POLICY), f"no ValidatingAdmissionPolicy {GUARD}"),
    "no binding": (not_there(GUARD_BINDING), f"no ValidatingAdmissionPolicyBinding {GUARD}"),
    "errors are ignored": (of(GUARD_POLICY, failurePolicy="Ignore"), "failurePolicy isn't Fail"),
    "a CRD's lists": (
        of(GUARD_POLICY, paramKind={"apiVersion": "x/v1", "kind": "X"}),
        "a ConfigMap",
    ),
    "no validations": (of(GUARD_POLICY, validations=[]), "no validations"),
    "some requests": (of(GUARD_POLICY, matchConstraints={}), "leaves some requests out"),
    "no lists": (no_lists, "paramRef.selector isn't by the label"),
    "another policy is bound": (of(GUARD_BINDING, policyName="other"), f"policyName isn't {GUARD}"),
    "only audited": (of(GUARD_BINDING, validationActions=["Audit"]), "lacks Deny"),
    "some objects": (
        of(GUARD_BINDING, matchResources={"resourceRules": [{}]}),
        "leaves some objects out",
    ),
    "lists elsewhere": (lists_of_others, "its lists aren't those of namespace copyrator"),
    "an account that removes it": (
        may("delete", "validatingadmissionpolicybindings"),
        f"service account {TEAM}/werf may delete validatingadmissionpolicybindings",
    ),
    "an account that removes all": (
        may("deletecollection", "mutatingadmissionpolicies"),
        "may deletecollection mutatingadmissionpolicies",
    ),
    "an account that acts as others": (
        may("impersonate", "users"),
        f"service account {TEAM}/werf may impersonate users, so it could write as somebody without",
    ),
    "an account that acts as any account": (
        may("impersonate", "serviceaccounts"),
        "may impersonate serviceaccounts, so",
    ),
    "nobody may ask": (unasked, "may change admission policies or impersonate others can't be"),
    "another API server": (aggregated, "objects of example.com go to another API server"),
}


@pytest.mark.needs("charts")
@pytest.mark.parametrize(("change", "why"), WHY.values(), ids=WHY)
async def test_a_plan_that_isnt_enforced_waits_for_a_person_who_is_told_why(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    werf: Werf,
    change: Change,
    why: str,
) -> None:
    change(cluster)
    werf.todo = lambda _: ["create :example.com:Widget:a"]
    bundle(approval=ON_RISK)
    await run()

    found = await waits(cluster, bound=True, enforced=False)

    assert why in found["unenforced"], found
    assert "; operations aren't enforced" in cluster.message()


@pytest.mark.needs("charts")
@pytest.mark.promise
async def test_an_approval_of_an_enforced_plan_doesnt_cover_a_retry_that_isnt_enforced(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    werf.ends = fail
    bundle(approval=ALWAYS, retry={"limit": 3, "backoff": "1h"})
    operator = await run()
    first = await waits(cluster, enforced=True)
    approve(cluster, first)
    await eventually(lambda: cluster.status().get("attempted", {}).get("nextRetryAt"))
    cluster.drop(GUARD_POLICY)

    operator.let_pass(timedelta(hours=1))

    again = await waits(cluster, enforced=False)
    await idle(operator)
    assert "decision" not in again
    text = f"the approval of plan {first['id']} was of a deploy that the API server holds to its"
    assert again["message"].startswith(text)
    assert len(cluster.jobs()) == 1


@pytest.mark.needs("charts")
async def test_without_a_policy_in_the_settings_nothing_is_asked(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ON_RISK)
    await run(guard_policy=None)

    found = await waits(cluster, bound=True, enforced=False)

    assert "bundles.guard.enabled" in found["unenforced"]
    assert not [seen for seen in cluster.seen if seen.path in ASKED]
    approve(cluster, found)
    await deployed(cluster)


@pytest.mark.needs("charts")
async def test_a_plan_that_is_enforced_is_asked_about_once_in_ten_minutes(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS)
    operator = await run()
    first = await waits(cluster, enforced=True)
    refresh(cluster)
    await waits(cluster, enforced=True, number=first["number"] + 1)
    await idle(operator)

    asked = [seen.path for seen in cluster.seen if seen.path in ASKED]
    assert sorted(asked) == sorted(ASKED)


@pytest.mark.needs("charts")
async def test_where_bound_plans_are_required_one_that_isnt_enforced_is_refused(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    unasked(cluster)
    bundle(approval=ALWAYS)
    operator = await run(require_bound_plans=(TEAM,))

    found = await waits(cluster, "PlanUnbound", enforced=False)

    assert (
        "isn't enforced, and bound or exact, as bundles.requireBoundPlans requires"
        in cluster.message()
    )
    assert ". Not enforced: whether service account team/werf may " in cluster.message()
    assert "Not bound" not in cluster.message()
    approve(cluster, found)
    await waits(cluster, "PlanUnbound", decision="Approved")
    await idle(operator)
    assert cluster.jobs() == []


@pytest.mark.needs("charts")
async def test_where_bound_plans_are_required_all_that_is_missing_is_named(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    cluster.drop(GUARD_POLICY)
    registry.put_chart("app", "1.0.0", chart("a: {{ randAlphaNum 5 }}"))
    bundle(approval=ALWAYS)
    await run(require_bound_plans=(TEAM,))

    await waits(cluster, "PlanUnbound", enforced=False, bound=False)

    told = cluster.message()
    assert f". Not enforced: there is no ValidatingAdmissionPolicy {GUARD}" in told
    assert ". Not bound: templates/0.yaml:1: randAlphaNum draws." in told
