"""Plans of a version that a user names: any, at any time, and only shown."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from itertools import cycle, product
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    annotate,
    approve,
    condition,
    deployed,
    idle,
    lose,
    operations,
    pending,
    plan,
    secrets,
    waits,
)
from tests.component.bundles.crashing import die_after, sampled
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fake_werf import DELETE, UPDATE, Werf, digest
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.test_gated_jobs import assert_restricted, spec
from tests.component.bundles.test_job_credentials import give, several
from tests.component.bundles.waiting import eventually
from tests.component.kube.fake_api import turns
from tests.component.oci.fake_registry import FakeRegistry
from tests.long import LONG

pytestmark = pytest.mark.usefixtures("registry")


def preview(cluster: BundleCluster, name: str = "shop") -> dict[str, Any]:
    found: dict[str, Any] = cluster.status(name).get("preview", {})
    return found


def ask(cluster: BundleCluster, version: str, token: str = "now", name: str = "shop") -> None:
    annotate(cluster, name, **{"plan-at": token, "plan-version": version})


async def answered(
    cluster: BundleCluster, token: str = "now", name: str = "shop"
) -> dict[str, Any]:
    """The preview, once the request is handled and has an outcome."""

    def look() -> bool:
        handled = cluster.status(name).get("lastHandledPlan") == token
        return handled and preview(cluster, name)["outcome"] != "Running"

    try:
        await eventually(look, f"{token} is answered")
    except AssertionError:
        raise AssertionError(f"{token} isn't answered: {cluster.status(name)}") from None
    return preview(cluster, name)


SPECS: dict[str, dict[str, Any]] = {
    "without approval": {},
    "while another plan waits": {"approval": ALWAYS},
    "while suspended": {"approval": ALWAYS, "suspend": True},
}
VERSIONS = {"1.1.0": "1.1.0", "1.*": "1.1.0", "<1": "0.9.0", "2.x": "2.0.0"}
"""What is asked for, and what is found."""


@pytest.mark.parametrize(
    ("spec", "version"),
    [
        pytest.param(*one, marks=[pytest.mark.needs("approval")] if SPECS[one[0]] else [])
        for one in (product(SPECS, VERSIONS) if LONG else zip(cycle(SPECS), VERSIONS, strict=False))
    ],
)
async def test_any_version_can_be_planned_and_nothing_follows_from_it(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    werf: Werf,
    spec: str,
    version: str,
) -> None:
    found, asked = VERSIONS[version], SPECS[spec]
    for tag in ("0.9.0", "1.1.0", "2.0.0"):
        registry.put("app", tag, tag)
    bundle(**asked)
    operator = await run()
    await eventually(lambda: cluster.reason() in ("Deployed", "AwaitingApproval", "Suspended"))
    if "approval" in asked and not asked.get("suspend"):
        await waits(cluster)
    before, waiting = cluster.status(), pending(cluster)
    werf.todo = lambda _: [UPDATE, DELETE]

    ask(cluster, version)
    seen = await answered(cluster)

    assert (seen["outcome"], seen["version"], seen["requestedVersion"]) == (
        "Planned",
        found,
        version,
    )
    assert (seen["operations"], seen["risky"]) == (2, [DELETE])
    job = next(one for one in cluster.jobs("plan") if one["metadata"]["name"] == seen["job"])
    assert digest(job) == seen["digest"]
    await idle(operator)
    after = cluster.status()
    for part in ("plan", "deployed", "attempted", "gates", "available", "history"):
        assert after.get(part) == before.get(part), part
    assert pending(cluster) == waiting
    assert secrets(cluster) == operations(plan(cluster))


@pytest.mark.needs("approval")
async def test_a_preview_can_not_be_approved(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    registry.put("app", "1.1.0", "two")
    bundle(approval=ALWAYS)
    operator = await run()
    waiting = await waits(cluster)
    ask(cluster, "1.1.0")
    assert "id" not in await answered(cluster)
    await idle(operator)
    assert cluster.jobs() == []
    approve(cluster, waiting)
    status = await deployed(cluster, version="1.0.0")
    assert status["preview"]["version"] == "1.1.0"


UNFIT = {
    "a bad range": (">=1 <", "InvalidSpec", "operator.werf.dev/plan-version: '>=1 <'"),
    "a regular expression": (r"1\.[0-9]+", "InvalidSpec", "regular expression"),
    "a very long one": ("1" * 2000, "InvalidSpec", "at most 256 characters"),
    "a tag that isn't there": ("9.9.9", "TagNotFound", "9.9.9"),
    "a range without a tag": (">=3", "NoMatchingVersion", "No tag matches >=3"),
}


@pytest.mark.parametrize(("version", "reason", "message"), UNFIT.values(), ids=UNFIT.keys())
async def test_what_can_not_be_planned_is_said(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    werf: Werf,
    version: str,
    reason: str,
    message: str,
) -> None:
    bundle()
    operator = await run()
    await deployed(cluster)
    ask(cluster, version)
    seen = await answered(cluster)
    assert (seen["outcome"], seen["reason"]) == ("Failed", reason)
    assert message in seen["message"]
    assert len(json.dumps(seen)) < 2000
    await idle(operator)
    assert cluster.jobs("plan") == []
    assert cluster.reason() == "Deployed"


async def test_another_request_replaces_a_preview_that_is_being_made(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    cluster.put_object("configmaps", "values", data={"values.yaml": "a: 1"})
    registry.put("app", "1.1.0", "two")
    werf.holds_plans = True
    bundle(suspend=True, values="values")
    operator = await run()
    ask(cluster, "1.0.0")
    await eventually(lambda: len(cluster.jobs("plan")) == 1)
    ask(cluster, "1.1.0", "again")
    await eventually(lambda: len(cluster.jobs("plan")) == 2)
    await eventually(
        lambda: "operator.werf.dev/given-up" in cluster.jobs("plan")[0]["metadata"]["annotations"]
    )
    werf.finish(cluster.jobs("plan")[1])
    assert (await answered(cluster, "again"))["version"] == "1.1.0"
    await idle(operator)
    assert secrets(cluster) == set()


@pytest.mark.needs("approval")
async def test_a_preview_waits_its_turn(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    """It is called when a plan ends, not when it looks again."""
    werf.holds_plans = True
    bundle("first", approval=ALWAYS)
    bundle("second", approval=ALWAYS)
    bundle("shop", suspend=True)
    operator = await run(max_plan_jobs=4)
    await eventually(lambda: len(cluster.jobs("plan")) == 2)
    ask(cluster, "1.*")
    await idle(operator)
    assert len(cluster.jobs("plan")) == 2
    werf.finish(cluster.jobs("plan")[0])
    await eventually(lambda: len(cluster.jobs("plan")) == 3)
    werf.finish(cluster.jobs("plan")[2])
    await answered(cluster)


async def test_a_preview_is_removed_when_its_time_is_over(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    werf: Werf,
) -> None:
    bundle(suspend=True)
    operator = await run()
    ask(cluster, "1.*")
    seen = await answered(cluster)
    made = datetime.fromisoformat(seen["madeAt"])
    assert datetime.fromisoformat(seen["expiresAt"]) == made + timedelta(days=1)
    ttl = lambda: cluster.jobs("plan")[0]["spec"].get("ttlSecondsAfterFinished")  # noqa: E731
    await eventually(lambda: ttl() == 24 * 3600)
    await idle(operator)
    assert preview(cluster) != {"number": 1}
    operator.let_pass(timedelta(days=1))
    await eventually(lambda: preview(cluster) == {"number": 1}, "removed")
    ask(cluster, "1.*", "again")
    again = await answered(cluster, "again")
    assert (again["number"], again["job"] != seen["job"]) == (2, True)


async def test_a_preview_without_values_or_whose_job_is_deleted_or_refused_says_so(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    werf.holds_plans = True
    bundle(suspend=True, values="values")
    operator = await run()
    ask(cluster, "1.*", "first")
    assert "ConfigMap team/values" in (await answered(cluster, "first"))["message"]
    cluster.put_object("configmaps", "values", data={"values.yaml": "a: 1"})
    ask(cluster, "1.*")
    await eventually(lambda: cluster.jobs("plan"))
    lose(cluster, "jobs", cluster.runs[0])
    assert "was deleted before its plan was read" in (await answered(cluster))["message"]
    refused = cluster.refuse("create", "/jobs", 403, "exceeded quota: jobs")
    ask(cluster, "1.*", "again")
    assert "exceeded quota: jobs" in (await answered(cluster, "again"))["message"]
    refused.clear()
    werf.holds_plans = False
    ask(cluster, "1.*", "third")
    assert (await answered(cluster, "third"))["outcome"] == "Planned"
    await idle(operator)
    assert secrets(cluster) == set()


PREVIEW_WRITES = 8
"""From the request: the record, discarded Secrets, the values and their salt, the Job, the outcome,
discarded values, the Job's TTL."""


@pytest.mark.parametrize("number", sampled(range(1, PREVIEW_WRITES + 1)))
async def test_the_process_dies_at_any_write_of_a_preview(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf, number: int
) -> None:
    cluster.put_object("configmaps", "values", data={"values.yaml": "a: 1"})
    bundle(suspend=True, values="values")
    operator = await run()
    await eventually(lambda: cluster.reason() == "Suspended")
    await idle(operator)
    await operator.stop()
    cluster.writes_seen = 0

    ask(cluster, "1.*")
    await die_after(cluster, run, number)
    operator = await run()

    assert (await answered(cluster))["outcome"] == "Planned"
    await idle(operator)
    assert len(cluster.runs) == len(set(cluster.runs)) == 1
    await eventually(lambda: secrets(cluster) == set())


async def test_a_previews_credential_is_deleted_however_often_that_fails(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    registry.auth, registry.users = "basic", {"alice": "s3cret"}
    give(cluster, several(registry))
    bundle(auth="creds")
    operator = await run()
    await deployed(cluster)
    refusals = cluster.refuse("delete", "/secrets", 500)
    annotate(cluster, **{"plan-at": "now", "plan-version": "1.0.0"})
    await eventually(lambda: cluster.status().get("preview", {}).get("outcome") == "Planned")
    await turns()
    assert [name for name in secrets(cluster) if name.endswith("-login")]
    refusals.clear()

    def look() -> bool:
        operator.let_pass(timedelta(seconds=30))
        return not secrets(cluster)

    await eventually(look, "its Secrets are deleted")


@pytest.mark.usefixtures("registry")
async def test_previews_of_any_bundle_are_restricted_and_say_what_the_deploy_has(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(**spec())
    await run()
    status = await deployed(cluster)
    assert condition(cluster, "SettingsWithheld") == ("", "")
    annotate(cluster, **{"plan-at": "now", "plan-version": "1.0.0"})
    await eventually(lambda: cluster.status().get("preview", {}).get("outcome") == "Planned")
    assert_restricted(cluster, "plan")
    message = cluster.status()["preview"]["message"]
    assert message.startswith("planned without spec.env.NOBODY_READS_IT, spec.env.PATH, ")
    assert message.endswith(
        r"spec.job.podAnnotations.vault\.hashicorp\.com/agent-inject, which the deploy gets"
    )
    assert cluster.status()["deployed"] == status["deployed"]


async def test_a_paused_bundle_has_no_preview(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(metadata={"annotations": {"operator.werf.dev/disable-autoupdate": "true"}})
    ask(cluster, "1.*")
    operator = await run()
    await eventually(lambda: cluster.reason() == "AutoupdateDisabled")
    await idle(operator)
    assert (cluster.runs, registry.asked) == ([], [])
    annotate(cluster, **{"disable-autoupdate": None})
    await answered(cluster)
