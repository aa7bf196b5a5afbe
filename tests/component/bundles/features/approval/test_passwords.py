"""Where an approval is required, a password goes only to the hosts that its Secret names."""

from __future__ import annotations

import base64
import json

from tests.component.bundles.approvals import idle
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry

FLOOR = (("team", "Always"),)


async def test_where_approval_is_required_a_password_goes_only_to_the_host_that_its_secret_names(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
) -> None:
    registry.auth, registry.users = "basic", {"alice": "good"}
    cluster.put_object("secrets", "creds", data={"username": "YWxpY2U=", "password": "Z29vZA=="})
    bundle(auth="creds")
    operator = await run(require_approval=FLOOR)
    for named in (None, "other.example", f"{registry.host}.example"):
        if named:
            cluster.change(
                "secrets", "creds", metadata={"annotations": {"operator.werf.dev/registry": named}}
            )
        await eventually(lambda: cluster.reason() == "AuthenticationFailed")
        await idle(operator)
        assert registry.asked == []
        assert cluster.runs == []
    assert (
        f"Secret team/creds of spec.auth isn't sent to {registry.host}: bundles.requireApproval"
    ) in cluster.message()
    assert f"operator.werf.dev/registry={registry.host}" in cluster.message()

    host = {"operator.werf.dev/registry": registry.host.upper()}
    cluster.change("secrets", "creds", metadata={"annotations": host})

    await eventually(lambda: cluster.jobs("plan"))
    (login,) = cluster.jobs("plan")[0]["spec"]["template"]["spec"]["initContainers"]
    assert login["command"][-1] == registry.host


async def test_where_approval_is_required_a_secret_that_names_its_hosts_needs_no_annotation(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    registry.auth, registry.users = "basic", {"alice": "good"}
    config = {
        "auths": {
            registry.host: {"username": "alice", "password": "good"},
            "other.example": {"username": "bob", "password": "else"},
        }
    }
    data = {".dockerconfigjson": base64.b64encode(json.dumps(config).encode()).decode()}
    cluster.put_object("secrets", "creds", data=data)
    bundle(auth="creds")

    await run(require_approval=FLOOR)

    await eventually(lambda: cluster.jobs("plan"))
