"""A release in another namespace, and the operator's identity in a cloud: whose consent counts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from tests.component.bundles.approvals import ALWAYS, annotate, approve, deployed, idle, waits
from tests.component.bundles.drifting import CORRECT, EDITED, Release
from tests.component.bundles.fake_cluster import BundleCluster, fail
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry

TEN_MINUTES = timedelta(minutes=10)
PROMPT = {"limit": 5, "backoff": "1s"}


def edit(cluster: BundleCluster, _registry: FakeRegistry) -> None:
    cluster.change("bundles", "shop", spec={"retry": {"limit": 4, "backoff": "1s"}})


def push(_cluster: BundleCluster, registry: FakeRegistry) -> None:
    registry.put("app", "1.0.0", "two")


def values(cluster: BundleCluster, _registry: FakeRegistry) -> None:
    cluster.change("configmaps", "values", data={"values.yaml": "a: 2\n"})


def ask(name: str, **more: str) -> Callable[[BundleCluster, FakeRegistry], None]:
    return lambda cluster, _registry: annotate(cluster, **{name: "now", **more})


BEGINNINGS = {
    "an edit of the spec": edit,
    "a push": push,
    "an edit of values": values,
    "requestedAt": ask("requestedAt"),
    "forceAt": ask("forceAt"),
}


@pytest.mark.parametrize("what", BEGINNINGS)
async def test_the_consent_of_a_namespace_is_at_most_ten_minutes_old_when_an_attempt_begins(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, what: str
) -> None:
    cluster.grant("prod")
    cluster.namespace("prod")
    cluster.put_object("configmaps", "values", data={"values.yaml": "a: 1\n"})
    bundle(
        project_namespace="prod",
        retry=PROMPT,
        valuesFrom=[{"kind": "ConfigMap", "name": "values"}],
    )
    operator = await run()
    await deployed(cluster)
    await idle(operator)
    cluster.granted.clear()

    operator.let_pass(TEN_MINUTES)
    BEGINNINGS[what](cluster, registry)

    await eventually(lambda: cluster.reason() == "ReleaseNotAccepted", cluster.message())
    operator.let_pass(TEN_MINUTES)
    await idle(operator)
    assert len(cluster.runs) == 1
    assert cluster.status()["consent"]["state"] == "NotAccepted"


async def test_a_retry_after_ten_minutes_asks_for_consent_again(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    cluster.grant("prod")
    cluster.namespace("prod")
    cluster.ends = fail
    bundle(project_namespace="prod", retry={"limit": 5, "backoff": "15m"})
    operator = await run()
    await eventually(lambda: cluster.reason() == "DeployFailed")
    await idle(operator)
    cluster.granted.clear()

    operator.let_pass(timedelta(minutes=30))

    await eventually(lambda: cluster.reason() == "ReleaseNotAccepted", cluster.message())
    await idle(operator)
    assert len(cluster.runs) == 1


@pytest.mark.needs("approval")
async def test_an_approval_after_ten_minutes_asks_for_consent_again(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    cluster.grant("prod")
    cluster.namespace("prod")
    bundle(project_namespace="prod", approval=ALWAYS)
    operator = await run()
    found = await waits(cluster)
    await idle(operator)
    cluster.granted.clear()

    operator.let_pass(TEN_MINUTES)
    approve(cluster, found)

    await eventually(lambda: cluster.reason() == "ReleaseNotAccepted", cluster.message())
    await idle(operator)
    assert cluster.jobs() == []


@pytest.mark.needs("drift")
async def test_a_correction_of_drift_after_ten_minutes_asks_for_consent_again(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    release = Release(cluster, werf)
    cluster.grant("prod")
    cluster.namespace("prod")
    bundle(project_namespace="prod", drift=CORRECT)
    operator = await run()
    await release.in_sync()
    await idle(operator)
    cluster.granted.clear()
    release.changed += EDITED

    operator.let_pass(timedelta(hours=1))

    await eventually(lambda: cluster.reason() == "ReleaseNotAccepted", cluster.message())
    await idle(operator)
    assert len(cluster.jobs()) == 1


async def test_it_is_the_bundles_account_that_is_asked_about_and_no_other(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    """What one Bundle's account may do is no consent to another's."""
    cluster.grant("prod")
    cluster.namespace("prod")
    cluster.put_object("serviceaccounts", "weak")
    bundle("one", project_namespace="prod")
    operator = await run(allowed_service_accounts=("werf", "weak"))
    await deployed(cluster, "one")

    bundle("two", project_namespace="prod", serviceAccountName="weak")

    await eventually(lambda: cluster.reason("two") == "ReleaseNotAccepted")
    await idle(operator)
    assert "service account team/weak" in cluster.message("two")
    assert len(cluster.runs) == 1


@pytest.mark.parametrize(
    ("globs", "is_accepted"),
    [("team", True), ("a, te*", True), ("team-*", False), ("teams", False), ("", False)],
    ids=["its name", "a glob", "another glob", "a longer name", "nothing"],
)
async def test_an_annotation_accepts_the_namespaces_that_it_names(
    cluster: BundleCluster, run: Run, bundle: Make, globs: str, is_accepted: bool
) -> None:
    cluster.accept("prod", globs)
    bundle(project_namespace="prod")
    operator = await run()
    reason = "Deployed" if is_accepted else "ReleaseNotAccepted"
    await eventually(lambda: cluster.reason() == reason, cluster.message())
    await idle(operator)
    assert len(cluster.runs) == is_accepted


# --- the operator's own identity ------------------------------------------------------------------
