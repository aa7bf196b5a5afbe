"""Which settings of a Bundle reach its previews, and which credential."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest
from tests.component.bundles.approvals import (
    annotate,
    condition,
    deployed,
    secrets,
)
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.test_gated_jobs import (
    assert_restricted,
    spec,
)
from tests.component.bundles.test_job_credentials import give, several
from tests.component.bundles.waiting import eventually
from tests.component.kube.fake_api import turns
from tests.component.oci.fake_registry import FakeRegistry


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


async def test_a_reconcile_tries_once_to_delete_what_a_former_process_left(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    werf: Werf,
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry.auth, registry.users = "basic", {"alice": "s3cret"}
    give(cluster, several(registry))
    bundle(auth="creds")
    operator = await run()
    await deployed(cluster)
    annotate(cluster, **{"plan-at": "now", "plan-version": "1.0.0"})
    await eventually(lambda: cluster.status().get("preview", {}).get("outcome") == "Planned")
    await operator.stop()
    cluster.refuse("delete", "/secrets", 409)
    caplog.set_level(logging.DEBUG, "copyrator")

    def tries() -> int:
        return sum("Secrets can't be deleted now" in one for one in caplog.messages)

    await run()
    await eventually(tries, "it tries to delete Secrets")
    await turns()
    assert tries() == 1, "the preview and the login have it deleted"


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
