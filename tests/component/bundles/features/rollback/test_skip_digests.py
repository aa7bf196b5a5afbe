"""Digests that the annotation skip-digests names are never chosen."""

from __future__ import annotations

import pytest
from tests.component.bundles.approvals import ALWAYS, annotate, approve, condition, waits
from tests.component.bundles.fake_cluster import BundleCluster, fail, succeed
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry


def skip(cluster: BundleCluster, *digests: str) -> None:
    annotate(cluster, skip_digests=", ".join(digests) or None)


def deployed(cluster: BundleCluster) -> str:
    return str(cluster.status().get("deployed", {}).get("digest"))


async def test_the_next_lower_version_is_deployed_and_the_skipped_one_is_named(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    lower, bad = (registry.put("app", tag, tag) for tag in ("1.1.0", "1.2.0"))
    bundle(version="1.*", metadata={"annotations": {"operator.werf.dev/skip-digests": bad}})
    await run()
    await eventually(lambda: deployed(cluster) == lower)
    status = cluster.status()
    assert status["available"]["rejected"] == [{"version": "1.2.0", "reason": "Skipped"}]
    (gate,) = status["gates"]
    assert (gate["name"], gate["state"], gate["reason"]) == ("skip-digests", "Refused", "Skipped")
    assert bad in gate["message"]
    assert condition(cluster, "Ready") == ("True", "Deployed")
    assert condition(cluster, "UpdatePending") == ("True", "Skipped")

    skip(cluster)  # seen at once, not at the next poll in ten minutes
    await eventually(lambda: deployed(cluster) == bad)
    assert "gates" not in cluster.status()


@pytest.mark.parametrize("request_", ["requestedAt", "forceAt"])
async def test_no_request_and_no_edit_deploys_it(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, request_: str
) -> None:
    bundle(version="1.0.0")
    await run(timer_interval=1.0)
    await eventually(lambda: cluster.reason() == "Deployed")
    first, second = deployed(cluster), registry.put("app", "1.0.0", "pushed anew")
    skip(cluster, second)
    annotate(cluster, **{request_: "now"})
    echo = "lastHandledRequest" if request_ == "requestedAt" else "lastHandledForce"
    await eventually(lambda: cluster.status().get(echo) == "now")
    await eventually(lambda: len(cluster.runs) == 2 and cluster.reason() == "Deployed")
    assert deployed(cluster) == first, "it is deployed again"

    skip(cluster, first, second)
    cluster.change("bundles", "shop", spec={"env": {"WERF_ENV": "blue"}})
    await eventually(lambda: condition(cluster, "Ready")[1] == "Skipped")
    assert len(cluster.runs) == 2
    skip(cluster, second)
    await eventually(lambda: len(cluster.runs) == 3 and cluster.reason() == "Deployed")
    assert deployed(cluster) == first


async def test_a_failed_one_is_not_retried(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    bundle(version="1.*", retry={"limit": 5, "backoff": "1s"})
    await run(timer_interval=1.0)
    await eventually(lambda: cluster.reason() == "Deployed")
    cluster.ends = lambda job: fail(job) if "1.1.0" in str(job) else succeed(job)
    bad = registry.put("app", "1.1.0", "next")
    await eventually(lambda: cluster.status()["history"][0]["outcome"] == "Failed")
    skip(cluster, bad)
    await eventually(lambda: condition(cluster, "UpdatePending") == ("True", "Skipped"))
    await eventually(lambda: cluster.reason() == "Deployed", "the last good one is repaired")
    tried = [one["version"] for one in cluster.status()["history"]]
    assert tried[0] == "1.0.0"
    polls = len(registry.asked)
    await eventually(lambda: len(registry.asked) >= polls + 6, "polls")
    assert [one["version"] for one in cluster.status()["history"]] == tried


@pytest.mark.needs("approval")
@pytest.mark.parametrize("is_approved", [False, True])
async def test_a_plan_of_it_that_waits_is_replaced_and_an_approved_one_is_not_deployed(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    werf: Werf,
    is_approved: bool,
) -> None:
    lower, bad = (registry.put("app", tag, tag) for tag in ("1.1.0", "1.2.0"))
    bundle(version="1.*", approval=ALWAYS)
    await run()
    found = await waits(cluster, digest=bad)
    if is_approved:  # by the same edit: the decision is taken before the digest is skipped
        annotate(cluster, approved_plan=found["id"], approved_by="ann", skip_digests=bad)
    else:
        skip(cluster, bad)
    found = await waits(cluster, digest=lower)
    assert werf.applied == []
    approve(cluster, found)
    await eventually(lambda: deployed(cluster) == lower)
    assert [digest for digest, _ in werf.applied] == [lower]
