"""What reaches the Jobs of a Bundle that the operator's signature policy concerns."""

from __future__ import annotations

import yaml
from tests.component.bundles.approvals import (
    condition,
    deployed,
)
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.test_gated_jobs import (
    ACTING,
    assert_restricted,
    pods,
    spec,
    uninstalled,
    variables,
)
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry


async def test_a_bundle_that_the_policy_concerns_gets_no_setting_that_acts(
    cluster: BundleCluster, run: Run, bundle: Make, registry: FakeRegistry
) -> None:
    """Before and after: the policy may come when the Bundle is deployed already."""
    bundle(**spec())
    await run()
    await deployed(cluster)
    assert variables(pods(cluster, "deploy")[0]).items() >= ACTING.items()
    entry = {
        "repositories": [f"{registry.host}/*"],
        "anyOf": [{"cosign": {"keysFrom": {"kind": "ConfigMap", "name": "keys"}}}],
    }
    data = {"policy.yaml": yaml.safe_dump({"entries": [entry]})}
    cluster.write(
        path_of("configmaps", "copyrator-signature-policy", "default"),
        {
            "metadata": {"name": "copyrator-signature-policy", "namespace": "default"},
            "data": data,
        },
    )
    await eventually(lambda: condition(cluster, "SettingsWithheld")[0] == "True")
    await uninstalled(cluster)
    assert_restricted(cluster, "uninstall")
