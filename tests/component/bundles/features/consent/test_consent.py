"""A release in another namespace needs that namespace's consent."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.component.bundles.approvals import annotate, condition
from tests.component.bundles.fake_cluster import TEAM, BundleCluster, path_of
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.features.health.watching import health_watches, healthy, said
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.test_deletion import delete
from tests.component.bundles.waiting import eventually
from tests.component.bundles.workloads import deployment
from tests.component.kube.fake_api import error
from tests.component.oci.fake_registry import FakeRegistry

from copyrator.bundles.engine.context import BundleTiming
from copyrator.bundles.features.consent.feature import ConsentTiming
from copyrator.bundles.features.health.watcher import HealthTiming
from copyrator.kube.watch.informers import PlacementTiming

ACCEPT = "operator.werf.dev/accept-from"
OLD = {"deployed": {"namespace": "prod", "version": "0.9.0", "digest": "sha256:" + "a" * 64}}
EVIL = path_of("bundles", "shop", "evil")


HEALTH = HealthTiming(status=0.1, watches=PlacementTiming(check=5.0, settle=0.01))


def soon(**durations: float) -> BundleTiming:
    """Answers are asked for again sooner."""
    found = ConsentTiming(**{"pause": 0.2, "longest_pause": 0.2} | durations)
    return replace(TIMING, features=(HEALTH, found))


@pytest.fixture
def timing() -> BundleTiming:
    return soon()


def consent(cluster: BundleCluster) -> dict[str, Any]:
    return cluster.status().get("consent") or {}


async def refused(cluster: BundleCluster) -> None:
    await eventually(lambda: cluster.reason() == "ReleaseNotAccepted", cluster.message())


async def deployed(cluster: BundleCluster, times: int = 1) -> None:
    await eventually(lambda: cluster.reason() == "Deployed" and len(cluster.runs) == times)


async def test_without_consent_nothing_is_polled_or_deployed_until_the_annotation_is_set(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    cluster.namespace("prod")
    bundle(project_namespace="prod")
    await run()
    await refused(cluster)
    assert condition(cluster, "Ready") == ("False", "ReleaseNotAccepted")
    assert "service account team/werf may not create Secrets there" in cluster.message()
    assert f"kubectl annotate namespace prod {ACCEPT}=team" in cluster.message()
    assert (consent(cluster)["state"], cluster.runs) == ("NotAccepted", [])
    assert registry.asked == []

    cluster.accept("prod", "a, te*")
    await deployed(cluster)
    found = consent(cluster)
    assert (found["state"], found["by"]) == ("Accepted", "Annotation")
    assert found["namespace"] == "prod"


async def test_who_may_create_secrets_there_needs_no_annotation(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    bundle(project_namespace="prod")
    await run()
    await refused(cluster)

    cluster.grant("prod")
    await deployed(cluster)
    assert consent(cluster)["by"] == "Permission"
    asked = len(cluster.consents_asked)
    cluster.change("bundles", "shop", spec={"interval": "11m"})
    await eventually(
        lambda: cluster.status()["observedGeneration"] == 2 or cluster.reason() == "Deployed"
    )
    assert len(cluster.consents_asked) == asked, "an answer counts for ten minutes"


async def test_a_release_in_the_bundles_own_namespace_is_never_asked_about(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    bundle()
    bundle("named", project_namespace=TEAM)
    await run()
    await eventually(lambda: cluster.reason() == cluster.reason("named") == "Deployed")
    assert cluster.consents_asked == []
    assert "consent" not in cluster.status()


async def test_withdrawn_consent_stops_deploys_at_once_and_no_uninstall(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    cluster.accept("prod")
    bundle(project_namespace="prod")
    operator = await run(timer_interval=1.0)
    await deployed(cluster)

    cluster.accept("prod", None)
    await refused(cluster)
    registry.put("app", "1.0.0", "two")
    cluster.change("bundles", "shop", spec={"env": {"A": "b"}})
    await operator.stop()
    await run(timer_interval=1.0)
    await refused(cluster)
    assert len(cluster.runs) == 1

    cluster.accept("prod")
    await deployed(cluster, 2)
    cluster.accept("prod", None)
    await refused(cluster)
    lose(cluster)
    await eventually(lambda: cluster.look("bundles", "shop") is None)
    assert [name for name in cluster.runs if "uninstall" in name]


@pytest.mark.needs("drift", "previews")
async def test_withdrawn_consent_stops_plans_previews_and_checks_for_drift(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    cluster.accept("prod")
    bundle(project_namespace="prod", drift={"mode": "Correct", "interval": "15m"})
    await run(timing=soon(pause=0.05, longest_pause=0.05))
    await eventually(lambda: cluster.status().get("baseline", {}).get("job"))
    plans = len(cluster.jobs("plan"))

    cluster.accept("prod", None)
    await refused(cluster)
    for name in ("plan-at", "drift-at", "forceAt"):
        annotate(cluster, **{name: "now"})
    annotate(cluster, plan_at="then", plan_version="1.*")
    await eventually(lambda: cluster.status().get("lastFailedForce") == "now")
    asked = len(cluster.consents_asked)
    await eventually(lambda: len(cluster.consents_asked) > asked + 3, "it was reconciled thrice")
    assert len(cluster.jobs("plan")) == plans
    assert len(cluster.jobs()) == 1

    cluster.accept("prod")
    await eventually(lambda: len(cluster.jobs("plan")) > plans)


def lose(cluster: BundleCluster) -> None:
    body = cluster.look("bundles", "shop") or {}
    cluster.write(
        path_of("bundles", "shop"),
        {**body, "metadata": {**body["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}},
    )


@pytest.mark.parametrize("fault", [403, 500])
async def test_where_it_cant_be_asked_only_new_releases_are_refused(
    cluster: BundleCluster, run: Run, bundle: Make, fault: int
) -> None:
    cluster.consents_fault = error(fault, "Refused", "no")
    cluster.namespace("prod")
    bundle(project_namespace="prod")
    bundle("old", project_namespace="prod")
    cluster.change("bundles", "old", status=OLD)
    await run()
    await refused(cluster)
    await eventually(lambda: cluster.reason("old") == "Deployed")
    assert ("bundles.permissionReviews" in cluster.message()) == (fault == 403)
    assert "can't be asked" in cluster.message()

    cluster.consents_fault = None
    cluster.grant("prod")
    await eventually(lambda: cluster.reason() == "Deployed")


@pytest.fixture
def evil(cluster: BundleCluster, bundle: Make) -> Any:
    """Makes the Bundle evil/shop with the release team/shop."""

    def make(status: dict[str, Any], **fields: Any) -> None:
        cluster.namespace("evil")
        where = path_of("serviceaccounts", "werf", "evil")
        cluster.write(where, {"metadata": {"name": "werf", "namespace": "evil"}})
        spec = {**bundle("template")["spec"], "project_namespace": TEAM, **fields}
        cluster.drop(path_of("bundles", "template"))
        metadata = {"name": "shop", "namespace": "evil"}
        cluster.write(EVIL, {"metadata": metadata, "spec": spec, "status": status})

    return make


def evils(cluster: BundleCluster) -> str:
    status = (cluster.objects.get(EVIL) or {}).get("status") or {}
    return str((status.get("conditions") or [{}])[0].get("reason"))


FAKED = {"deployed": {**OLD["deployed"], "namespace": TEAM, "time": "2026-01-01T00:00:00Z"}}
CONSENTED = {
    "namespace": TEAM,
    "state": "Accepted",
    "by": "Permission",
    "at": "2026-01-01T00:00:00Z",
}


@pytest.mark.parametrize(
    ("status", "fields", "reason"),
    [
        (FAKED, {}, "ReleaseNotAccepted"),
        (FAKED | {"consent": CONSENTED}, {}, "ReleaseNotAccepted"),
        (FAKED | {"consent": CONSENTED}, {"registry": "https://broken"}, "InvalidSpec"),
        (FAKED | {"consent": CONSENTED}, {"project_namespace": "evil"}, "NamespaceChanged"),
    ],
    ids=["before the rule", "once accepted", "then broken", "then moved"],
)
async def test_a_faked_outcome_keeps_no_namespace_from_its_own_release(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    evil: Any,
    status: dict[str, Any],
    fields: dict[str, Any],
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    evil(status, **fields)
    bundle()
    await run()
    await eventually(lambda: cluster.reason() == "Deployed")
    await eventually(lambda: evils(cluster) == reason)
    assert caplog.text.count("this Bundle takes it over") == 1  # the Event is logged, too

    cluster.drop(EVIL)
    await eventually(lambda: EVIL not in cluster.objects)
    assert not [name for name in cluster.runs if "uninstall" in name]


async def test_a_bundle_that_is_being_deleted_contests_no_release_that_was_there_before_the_rule(
    cluster: BundleCluster, run: Run, bundle: Make, evil: Any
) -> None:
    """Its deletion waits for its Job; the other Bundle deployed the release before both."""
    cluster.ends = None
    bundle()
    operator = await run()
    await eventually(lambda: cluster.runs, "it deploys")
    delete(cluster)
    await eventually(lambda: "A deploy is running" in cluster.message())
    await operator.stop()
    evil(FAKED)

    await run()

    await eventually(lambda: evils(cluster) not in ("None", "Planning"))
    consents = cluster.objects[EVIL]["status"]["consent"]
    assert (consents["state"], evils(cluster)) == ("Assumed", "ReleaseConflict")
    cluster.end_job(cluster.runs[0], 1, "Error: no")


@pytest.mark.needs("health")
async def test_health_is_read_only_with_consent(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    cluster.accept("prod")
    bundle(project_namespace="prod", health="Watch")
    deployment(cluster, ready=0, late=True, namespace="prod")
    operator = await run()
    await eventually(lambda: healthy(cluster) == ("False", "Unhealthy"))

    cluster.accept("prod", None)
    await eventually(lambda: healthy(cluster) == ("Unknown", "ReleaseNotAccepted"))
    assert said(cluster).startswith("nothing is read in namespace prod")
    await eventually(lambda: health_watches(operator) == [])
    await operator.stop()
    lists = len(cluster.of("list"))
    operator = await run()
    await refused(cluster)
    assert not [one for one in cluster.of("list")[lists:] if one.path.endswith("/deployments")]

    cluster.accept("prod")
    await eventually(lambda: healthy(cluster) == ("False", "Unhealthy"))


async def test_a_new_answer_counts_for_a_user_who_asks_for_it(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    bundle(project_namespace="prod")
    await run(timing=soon(pause=600.0, asked=0.0))
    await refused(cluster)
    cluster.grant("prod")
    annotate(cluster, requestedAt="now")
    await deployed(cluster)
    await eventually(lambda: cluster.status()["lastHandledRequest"] == "now")


async def test_what_was_refused_is_asked_again_ever_less_often(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    """Many Bundles that nobody accepts are no load."""
    bundle(project_namespace="prod")
    await run(timing=soon(pause=0.01, longest_pause=600.0))
    await eventually(lambda: cluster.consents_asked, "it is asked")
    began = asyncio.get_running_loop().time()

    await eventually(lambda: len(cluster.consents_asked) >= 8, "it is asked again")

    assert asyncio.get_running_loop().time() - began > 0.01 * 2**7 * 0.8


async def test_an_operator_of_some_namespaces_asks_where_it_cant_read_the_annotation(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    cluster.accept("prod")
    bundle(project_namespace="prod")
    await run(watch_namespaces=(TEAM,))
    await refused(cluster)
    assert "can't read that Namespace's annotations" in cluster.message()
    cluster.grant("prod")
    await deployed(cluster)
