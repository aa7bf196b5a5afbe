"""Bundles that are suspended, or whose updates are disabled: Ready keeps its status."""

from __future__ import annotations

import pytest
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.test_metrics import shows
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry, answering

OFF = "operator.werf.dev/disable-autoupdate"
BYS = ("Suspended", "AutoupdateDisabled")


def ready(cluster: BundleCluster, name: str = "shop") -> tuple[str, ...]:
    """Ready, Reconciling and Stalled, and the reason and message of Ready."""
    found = cluster.status(name).get("conditions") or []
    kinds = {one["type"]: one for one in found}
    if not kinds:
        return ()
    statuses = (kinds[kind]["status"] for kind in ("Ready", "Reconciling", "Stalled"))
    return *statuses, kinds["Ready"]["reason"], kinds["Ready"]["message"]


def pause(cluster: BundleCluster, by: str, name: str = "shop", *, on: bool = True) -> None:
    """Suspend a Bundle, or resume it."""
    if by == "Suspended":
        cluster.change("bundles", name, spec={"suspend": on})
    else:
        cluster.change("bundles", name, metadata={"annotations": {OFF: "" if on else None}})


async def is_paused(cluster: BundleCluster, status: str, by: str, before: str) -> None:
    expected = (status, "False", "False", by)
    await eventually(lambda: ready(cluster)[:4] == expected, f"{expected}")
    assert ready(cluster)[-1].startswith(f"suspended; before: {before}")
    assert cluster.message().count("before: ") == 1


@pytest.mark.parametrize("by", BYS)
async def test_what_runs_stays_ready_until_it_is_resumed(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, by: str
) -> None:
    """Edits, restarts and failed polls change nothing; an edit that isn't valid does."""
    bundle(version="1.*")
    operator = await run(timer_interval=1.0)
    await eventually(lambda: cluster.reason() == "Deployed")
    before = f"Deployed: {cluster.message()}"

    pause(cluster, by)
    await is_paused(cluster, "True", by, before)
    await shows(operator, {f'copyrator_bundles{{reason="{by}"}}': 1})
    assert cluster.message() == f"suspended; before: {before}"

    cluster.change("bundles", "shop", spec={"registry": "http://no"})
    await eventually(lambda: ready(cluster)[:4] == ("False", "False", "True", "InvalidSpec"))
    cluster.change("bundles", "shop", spec={"registry": registry.host, "retry": {"limit": 2}})
    await is_paused(cluster, "True", by, before)
    assert cluster.message() == f"suspended; before: {before}; edited while suspended"
    observed = cluster.status()["observedGeneration"]
    bundles = cluster.look("bundles", "shop") or {}
    assert observed == bundles["metadata"]["generation"]

    await operator.stop()
    registry.fault = answering(502)
    operator = await run(timer_interval=1.0)
    if by == "Suspended":
        await eventually(lambda: cluster.status().get("lastError"), "a poll failed")
    else:
        bundle("other", repo="other")
        await eventually(lambda: cluster.status("other").get("lastError"))
    await is_paused(cluster, "True", by, before)

    registry.fault = None
    registry.put("app", "1.1.0", "next")
    if by == "Suspended":
        await eventually(lambda: cluster.message().endswith(") is available"))
        assert "lastError" not in cluster.status()
    assert len(cluster.jobs()) == 1

    pause(cluster, by, on=False)
    await eventually(lambda: cluster.status().get("deployed", {}).get("version") == "1.1.0")
    await eventually(lambda: ready(cluster)[:4] == ("True", "False", "False", "Deployed"))
    assert "suspension" not in cluster.status()
