"""What Jobs of plans and of planned deploys can read of the Secret of spec.auth."""

from __future__ import annotations

import pytest
from tests.component.bundles.approvals import ALWAYS, annotate, approve, deployed, secrets, waits
from tests.component.bundles.fake_cluster import BundleCluster, path_of, succeed
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.test_job_credentials import Logins, give, several
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry


@pytest.fixture(autouse=True)
def _private(registry: FakeRegistry) -> None:
    registry.auth, registry.users = "basic", {"alice": "s3cret"}


@pytest.mark.needs("previews")
async def test_plans_their_deploys_previews_and_uninstalls_have_no_other_credential(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    give(cluster, several(registry))
    logins = Logins(cluster, registry)
    bundle(auth="creds", approval=ALWAYS)
    await run()
    waiting = await waits(cluster)
    assert not [name for name in secrets(cluster) if name.endswith("-login")]
    approve(cluster, waiting)
    await deployed(cluster)
    annotate(cluster, **{"plan-at": "now", "plan-version": "1.0.0"})
    await eventually(lambda: cluster.status().get("preview", {}).get("outcome") == "Planned")
    await eventually(lambda: not [one for one in secrets(cluster) if one.endswith("-login")])
    logins._ends = succeed
    cluster.drop(path_of("bundles", "shop"))
    await eventually(lambda: cluster.look("bundles", "shop") is None)

    assert {kind: len(names) for kind, names in logins.by_kind.items()} == {
        "plan": 2,
        "deploy": 1,
        "uninstall": 1,
    }
