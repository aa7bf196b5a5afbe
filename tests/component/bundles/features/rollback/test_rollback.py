"""A rollback: the annotation pin is taken into the status, and only that digest is deployed."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    annotate,
    approve,
    condition,
    waits,
)
from tests.component.bundles.fake_cluster import BundleCluster, fail, succeed
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.features.signatures.test_signatures import VERIFY, Signed
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.promoting import promoted_from
from tests.component.bundles.telling import Told
from tests.component.bundles.waiting import eventually, polled
from tests.component.oci.fake_registry import FakeRegistry, answering, digest_of
from tests.unit.signatures.making import key, public_pem


def deployed(cluster: BundleCluster, name: str = "shop") -> str:
    return str(cluster.status(name).get("deployed", {}).get("digest"))


def pin(cluster: BundleCluster, value: str | None, name: str = "shop") -> None:
    annotate(cluster, name=name, pin=value)


def pin_of(cluster: BundleCluster) -> dict[str, Any]:
    found: dict[str, Any] = cluster.status().get("pin", {})
    return found


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
async def run(run: Run, told: Told) -> Run:
    return partial(run, recorder=told)


async def seen(cluster: BundleCluster, value: str | None) -> dict[str, Any]:
    """The pin in the status, once this value of the annotation was seen."""
    await eventually(lambda: pin_of(cluster).get("requested") == value, f"{value} is seen")
    return pin_of(cluster)


async def deploy_two(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, **spec: Any
) -> tuple[str, str, Any]:
    """The digests of 1.0.0 and of 1.1.0, which runs, and the operator."""
    bundle(**{"version": "1.*", **spec})
    operator = await run(timer_interval=1.0)
    await eventually(lambda: cluster.reason() == "Deployed")
    first, second = deployed(cluster), registry.put("app", "1.1.0", "second")
    await eventually(lambda: deployed(cluster) == second and cluster.reason() == "Deployed")
    return first, second, operator


async def deploy_approved(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> str:
    """The digest of 1.0.0, which runs, of a Bundle each deploy of which is approved."""
    bundle(version="1.*", approval=ALWAYS)
    await run(timer_interval=1.0)
    first = digest_of(registry.manifests["app", "1.0.0"])
    approve(cluster, await waits(cluster, digest=first))
    await eventually(lambda: deployed(cluster) == first)
    return first


async def rolled_back(cluster: BundleCluster, digest: str) -> None:
    await eventually(lambda: deployed(cluster) == digest and cluster.reason() == "Deployed")
    await eventually(lambda: condition(cluster, "UpdatePending") == ("True", "Pinned"))


async def test_the_pinned_version_is_deployed_and_stays_until_it_is_unpinned(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, told: Told
) -> None:
    first, second, operator = await deploy_two(cluster, registry, run, bundle)
    assert cluster.status()["history"][0]["reference"] == f"{registry.host}/app"

    pin(cluster, f"1.0.0@{first}")
    await rolled_back(cluster, first)
    status = cluster.status()
    assert {key: pin_of(cluster)[key] for key in ("version", "digest")} == {
        "version": "1.0.0",
        "digest": first,
    }
    assert status["target"] == {"version": "1.0.0", "digest": first}
    assert (status["available"]["version"], status["available"]["digest"]) == ("1.1.0", second)
    assert condition(cluster, "Ready") == ("True", "Deployed")
    (text,) = told.said["Pinned"]
    assert "copyrator unpin bundle -n team shop" in text

    pin(cluster, None)
    assert (await seen(cluster, None))["digest"] == first
    third = registry.put("app", "1.2.0", "third")
    await eventually(lambda: cluster.status()["available"]["digest"] == third)
    assert deployed(cluster) == first
    await operator.stop()
    await run(timer_interval=1.0)
    await polled(operator, registry)
    assert deployed(cluster) == first
    assert len(cluster.runs) == 3

    pin(cluster, "none")
    await eventually(lambda: deployed(cluster) == third and cluster.reason() == "Deployed")
    assert pin_of(cluster) == {"requested": "none"}
    await eventually(lambda: condition(cluster, "UpdatePending") == ("", ""))
    assert len(told.said["Unpinned"]) == 1


@pytest.mark.parametrize("died", ["before it was seen", "after it was seen"])
async def test_a_restart_in_between_changes_nothing(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, died: str
) -> None:
    first, second, operator = await deploy_two(cluster, registry, run, bundle)
    if died == "after it was seen":
        registry.fault, registry.fault_at = answering(500), first
        pin(cluster, f"1.0.0@{first}")
        assert (await seen(cluster, f"1.0.0@{first}"))["digest"] == first
        pin(cluster, None)
        await operator.stop(0)
        registry.fault = None
    else:
        await operator.stop(0)
        pin(cluster, f"1.0.0@{first}")
    await run(timer_interval=600.0)
    await rolled_back(cluster, first)

    pin(cluster, "none")
    await eventually(lambda: deployed(cluster) == second)


async def hang(_request: Any) -> Any:
    await asyncio.Event().wait()  # until its client goes


async def test_an_unpin_that_was_seen_before_a_restart_is_done_after_it(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    first, second, operator = await deploy_two(cluster, registry, run, bundle)
    pin(cluster, f"1.0.0@{first}")
    await rolled_back(cluster, first)
    await operator.stop()
    operator = await run(timer_interval=600.0)
    annotate(cluster, requestedAt="now")  # so that no regular poll is due soon
    await eventually(lambda: len(cluster.runs) == 4 and cluster.reason() == "Deployed")
    registry.fault = hang
    pin(cluster, "none")
    assert await seen(cluster, "none") == {"requested": "none"}
    await operator.stop(0)
    registry.fault = None
    await run(timer_interval=600.0)
    await eventually(lambda: deployed(cluster) == second)


async def test_what_is_pinned_and_runs_stays_ready_when_it_is_skipped(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    first, _, operator = await deploy_two(cluster, registry, run, bundle)
    pin(cluster, f"1.0.0@{first}")
    await rolled_back(cluster, first)
    annotate(cluster, **{"skip-digests": first})
    await polled(operator, registry)
    assert condition(cluster, "Ready") == ("True", "Deployed")
    cluster.change("bundles", "shop", spec={"env": {"WERF_ENV": "blue"}})
    await eventually(lambda: condition(cluster, "Ready") == ("False", "Skipped"))
    assert len(cluster.runs) == 3


async def test_an_edit_of_what_chooses_the_version_ends_it_and_other_edits_do_not(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    told: Told,
) -> None:
    first, second, operator = await deploy_two(cluster, registry, run, bundle)
    pin(cluster, f"1.0.0@{first}")
    await rolled_back(cluster, first)

    cluster.change("bundles", "shop", spec={"env": {"WERF_ENV": "blue"}})
    await eventually(lambda: len(cluster.runs) == 4 and cluster.reason() == "Deployed")
    for number, request in enumerate(("requestedAt", "forceAt"), 5):
        annotate(cluster, **{request: "now"})
        await eventually(lambda: len(cluster.runs) == number and cluster.reason() == "Deployed")  # noqa: B023
    assert deployed(cluster) == first
    assert condition(cluster, "UpdatePending") == ("True", "Pinned")

    cluster.change("bundles", "shop", spec={"version": "1.*.*"})
    await eventually(lambda: deployed(cluster) == second and cluster.reason() == "Deployed")
    assert pin_of(cluster) == {"requested": f"1.0.0@{first}"}, "the value isn't taken again"
    assert "was edited" in told.said["Unpinned"][0]
    await polled(operator, registry)
    assert deployed(cluster) == second


async def test_what_was_never_deployed_from_this_repository_is_refused_by_name(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, told: Told
) -> None:
    first, second, operator = await deploy_two(cluster, registry, run, bundle)
    unknown = registry.put("app", "0.9.0", "never deployed here")
    bad = {
        f"0.9.0@{unknown}": "no successful deploy of 0.9.0",
        "x" * 200_000: "isn't VERSION@sha256:",
        "": "isn't VERSION@sha256:",
    }
    for value, why in bad.items():
        pin(cluster, value)
        found = await seen(cluster, value[:1024])
        assert why in found["refused"]
        assert "digest" not in found
        await eventually(lambda: condition(cluster, "UpdatePending") == ("False", "PinRefused"))
    assert len(str(cluster.status())) < 20_000
    assert deployed(cluster) == second
    assert len(cluster.runs) == 2
    assert any("no successful deploy of 0.9.0" in one for one in told.said["PinRefused"])

    pin(cluster, f"1.0.0@{first}")
    await rolled_back(cluster, first)
    pin(cluster, f"0.9.0@{unknown}")
    found = await seen(cluster, f"0.9.0@{unknown}")
    assert found["digest"] == first, "the former pin stays"
    await eventually(lambda: condition(cluster, "UpdatePending") == ("True", "Pinned"))
    await polled(operator, registry)
    assert deployed(cluster) == first

    cluster.change("bundles", "shop", spec={"repo": "other"})
    registry.put("other", "1.1.0", "of the other repository")
    await eventually(lambda: cluster.reason() == "Deployed" and len(cluster.runs) == 4)
    pin(cluster, f"1.1.0@{second}")
    found = await seen(cluster, f"1.1.0@{second}")
    assert f"from {registry.host}/other" in found["refused"], "it is of the first repository"


async def test_without_its_manifest_in_the_registry_what_runs_stays(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    first, second, operator = await deploy_two(cluster, registry, run, bundle)
    registry.untag("app", "1.0.0")
    registry.untagged.clear()
    pin(cluster, f"1.0.0@{first}")
    await eventually(lambda: cluster.reason() == "TagNotFound")
    assert f"1.0.0 ({first[:19]}) is pinned" in cluster.message()
    await polled(operator, registry)
    assert deployed(cluster) == second
    assert len(cluster.runs) == 2

    assert registry.put("app", "1.0.0", "one") == first
    await rolled_back(cluster, first)


@pytest.mark.needs("age", "dependencies", "promotion")
async def test_age_promotion_and_dependencies_are_passed_over_and_named(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, told: Told
) -> None:
    first, _, _ = await deploy_two(cluster, registry, run, bundle)
    gates = {
        "minAge": "2h",
        "promoteFrom": promoted_from("staging", soak="1h"),
        "dependsOn": [{"namespace": "team", "name": "absent"}],
    }
    cluster.change("bundles", "shop", spec=gates)
    pin(cluster, f"1.0.0@{first}")
    await rolled_back(cluster, first)
    (text,) = told.said["GatesPassedOver"]
    assert "rollback to 1.0.0" in text
    assert "dependsOn (DependencyNotReady)" in text
    assert "promotion (NotPromoted)" in text
    assert [one["name"] for one in cluster.status()["history"][0]["passedOver"]] == [
        "promotion",
        "dependsOn",
    ]


@pytest.mark.needs("approval")
async def test_an_approval_is_asked_and_no_other_plan_waits_for_one(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    first = await deploy_approved(cluster, registry, run, bundle)
    second = registry.put("app", "1.1.0", "second")
    approve(cluster, await waits(cluster, digest=second))
    await eventually(lambda: deployed(cluster) == second)
    third = registry.put("app", "1.2.0", "third")
    await waits(cluster, digest=third)

    pin(cluster, f"1.0.0@{first}")
    found = await waits(cluster, digest=first)
    assert condition(cluster, "Ready")[0] == "Unknown"
    pin(cluster, "none")
    assert (await waits(cluster, digest=third)).get("pinned") is None
    pin(cluster, f"1.0.0@{first}")
    found = await waits(cluster, digest=first)
    assert found["pinned"] is True
    approve(cluster, found)
    await rolled_back(cluster, first)
    assert [digest for digest, _ in werf.applied] == [first, second, first]


@pytest.mark.needs("signatures")
async def test_what_was_deployed_without_a_signature_is_refused_once_one_is_required(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    registry = Signed()
    await registry.start()
    try:
        first = registry.put("app", "1.0.0", "first")
        cluster.put_object("configmaps", "keys", data={"0.pub": public_pem(key("P-256")).decode()})
        here = partial(bundle, registry=registry.host)
        _, second, operator = await deploy_two(cluster, registry, run, here)
        registry.sign(second)
        cluster.change("bundles", "shop", spec={"verify": VERIFY})
        await eventually(lambda: condition(cluster, "Verified") == ("True", "Verified"))
        runs = len(cluster.runs)

        pin(cluster, f"1.0.0@{first}")
        await eventually(lambda: condition(cluster, "UpdatePending") == ("True", "Unsigned"))
        assert condition(cluster, "Ready") == ("False", "Unsigned")
        annotate(cluster, forceAt="now")
        await eventually(lambda: cluster.status().get("lastHandledForce") == "now")
        await polled(operator, registry)
        assert (deployed(cluster), len(cluster.runs)) == (second, runs)

        registry.sign(first)
        await rolled_back(cluster, first)
    finally:
        await registry.stop()


async def test_an_edit_that_ends_it_is_told_as_the_cause_also_where_the_annotation_is_gone_too(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, told: Told
) -> None:
    first, second, operator = await deploy_two(cluster, registry, run, bundle)
    pin(cluster, f"1.0.0@{first}")
    await rolled_back(cluster, first)
    await operator.stop()
    cluster.change("bundles", "shop", spec={"version": "1.*.*"})
    pin(cluster, None)
    await run(timer_interval=1.0)
    await eventually(lambda: deployed(cluster) == second and cluster.reason() == "Deployed")
    (text,) = told.said["Unpinned"]
    assert text.endswith("of its spec was edited")


async def test_it_is_seen_while_updates_are_off_and_during_a_deploy_and_done_afterwards(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    first, second, _ = await deploy_two(cluster, registry, run, bundle)
    annotate(cluster, **{"disable-autoupdate": ""})
    pin(cluster, f"1.0.0@{first}")
    assert (await seen(cluster, f"1.0.0@{first}"))["digest"] == first
    asked = -1
    while len(registry.asked) != asked:  # one poll may have begun; if more do, it never ends
        asked = len(registry.asked)
        await asyncio.sleep(1.5)
    assert deployed(cluster) == second
    annotate(cluster, **{"disable-autoupdate": None})
    await rolled_back(cluster, first)

    ends, cluster.ends = cluster.ends, None
    pin(cluster, "none")
    await eventually(lambda: cluster.status()["attempted"]["outcome"] == "Running")
    pin(cluster, f"1.0.0@{first}")
    await seen(cluster, f"1.0.0@{first}")
    assert cluster.status()["attempted"]["digest"] == second
    cluster.ends = ends
    cluster.end_job(cluster.runs[-1])
    await rolled_back(cluster, first)


async def test_where_a_quarantined_version_is_skipped_the_next_lower_one_is_deployed(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    bundle(version="1.*", retry={"limit": 0, "backoff": "1s"})
    operator = await run(timer_interval=1.0)
    await eventually(lambda: cluster.reason() == "Deployed")
    cluster.ends = lambda job: fail(job) if "1.2.0" in str(job) else succeed(job)
    bad = registry.put("app", "1.2.0", "bad")
    await eventually(lambda: cluster.reason() == "Quarantined")
    lower = registry.put("app", "1.1.0", "lower")
    await polled(operator, registry)
    assert cluster.reason() == "Quarantined", "nothing lower replaces it by itself"
    annotate(cluster, **{"skip-digests": bad})
    await eventually(lambda: deployed(cluster) == lower)
