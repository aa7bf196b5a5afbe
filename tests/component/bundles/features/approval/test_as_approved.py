"""What becomes of a deploy by what was stored for its release, beside what was approved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    ON_RISK,
    annotate,
    approve,
    condition,
    deployed,
    idle,
    waits,
)
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.bundles.fake_werf import NONCE, Werf, container
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.promoting import CONSENT, soak_of
from tests.component.bundles.telling import Told
from tests.component.bundles.test_metrics import shown
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry

from copyrator.bundles.features.approval.endings import STORED, StoredWord

pytestmark = pytest.mark.usefixtures("registry")

AS_APPROVED = "AsApproved"
DIFFERENT = ("False", "DeployedDifferently")


async def approved(cluster: BundleCluster) -> None:
    approve(cluster, await waits(cluster))


async def quarantined(cluster: BundleCluster) -> dict[str, Any]:
    await eventually(lambda: cluster.reason() == "Quarantined", "it is quarantined")
    return cluster.status()


@pytest.mark.parametrize(
    ("stores", "found"),
    [
        ("same", ("True", "AsApproved")),
        (StoredWord.EXACT, ("True", "Exact")),
        (StoredWord.NONE, ("Unknown", "RendersDiffer")),
        (StoredWord.SKIPPED, ("Unknown", "NothingStored")),
        (StoredWord.NOT_ASKED, ("Unknown", "NotSupported")),
        (StoredWord.UNREADABLE, ("Unknown", "Unreadable")),
    ],
)
async def test_the_condition_says_what_was_found(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    werf: Werf,
    stores: str,
    found: tuple[str, str],
) -> None:
    werf.stores = lambda _: stores
    bundle(approval=ALWAYS)
    operator = await run()
    await approved(cluster)

    status = await deployed(cluster)

    assert condition(cluster, AS_APPROVED) == found
    assert status["asApproved"]["reason"] == found[1]
    gauge = f'copyrator_bundles_as_approved{{as_approved="{found[0]}"}}'
    await eventually(lambda: shown(operator)[gauge] == 1)


@pytest.mark.parametrize("stores", ["other", StoredWord.LARGE])
async def test_what_was_stored_otherwise_quarantines_the_version_until_another_is_deployed(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    werf: Werf,
    stores: str,
) -> None:
    told = Told()
    bundle(approval=ALWAYS, retry={"limit": 3, "backoff": "1s"}, version="1.*")
    werf.stores = lambda _: stores
    operator = await run(recorder=told, timer_interval=1.0)
    await approved(cluster)

    status = await quarantined(cluster)

    assert condition(cluster, AS_APPROVED) == DIFFERENT
    assert status["attempted"]["reason"] == "DeployedDifferently"
    assert "deployed" not in status
    assert "1.0.0 (revision 1): what was stored isn't" in told.said["DeployedDifferently"][-1]
    assert "as revision 1 isn't what was approved. It isn't" in told.said["Quarantined"][-1]
    gauge = 'copyrator_bundles_as_approved{as_approved="False"}'
    await eventually(lambda: shown(operator)[gauge] == 1)
    await idle(operator)
    assert len(werf.applied) == 1, "it isn't retried"

    werf.stores = lambda _: "same"
    registry.put("app", "1.1.0", "next")
    await approved(cluster)
    await deployed(cluster, version="1.1.0")
    assert condition(cluster, AS_APPROVED) == ("True", AS_APPROVED)


@pytest.mark.needs("promotion", "charts")
async def test_it_ends_a_soak_and_withdraws_its_evidence(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    metadata = {"annotations": CONSENT}
    bundle(approval=ON_RISK, version="1.*", metadata=metadata, env={"WERF_SET_A": "a=1"})
    await run()
    await deployed(cluster)
    assert "until" not in soak_of(cluster, "shop")[0]
    werf.stores = lambda _: "other"

    cluster.change("bundles", "shop", spec={"env": {"WERF_SET_A": "a=2"}})

    await quarantined(cluster)
    (record,) = soak_of(cluster, "shop")
    assert record["brokenBy"] == "1.0.0 wasn't deployed as approved"
    assert "longest" not in record


COMPLETE = {"type": "Complete", "status": "True"}
FORGED = (
    f"{STORED} {'0' * 32} {'a' * 64} {'a' * 64}\n",
    f"{STORED} {{nonce}} {'a' * 64} {'a' * 64}\nand more\n",
    f" {STORED} {{nonce}} {'a' * 64} {'a' * 64}\n",
    "",
)


def logging(
    cluster: BundleCluster, werf: Werf, log: str, code: int | None = None
) -> Callable[[dict[str, Any]], tuple[int, str] | None]:
    """How a Job ends whose script compares: with this log, in which the nonce is filled in."""

    def end(job: dict[str, Any]) -> tuple[int, str] | None:
        ended = werf.run(job)
        found = NONCE.search(container(job)["command"][2])
        if not found or not ended:
            return ended
        cluster.logs[f"{job['metadata']['name']}-pod"] = log.format(nonce=found[1])
        return ended if code is None else (code, ended[1])

    return end


@pytest.mark.needs("charts")
@pytest.mark.parametrize("log", FORGED)
async def test_a_log_without_the_scripts_last_line_says_nothing(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, log: str
) -> None:
    cluster.ends = logging(cluster, werf, log)
    bundle(approval=ON_RISK)
    await run()
    await deployed(cluster)

    assert condition(cluster, AS_APPROVED) == ("Unknown", "Unreadable")


@pytest.mark.needs("charts")
async def test_after_a_kill_the_last_line_may_be_a_hooks(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    """One that may read its Job knows the nonce; werf's report says that it has succeeded."""
    line = f"{STORED} {{nonce}} {'a' * 64} {'a' * 64}\n"
    cluster.ends = logging(cluster, werf, line, code=137)
    bundle(approval=ON_RISK)
    await run()
    await deployed(cluster)

    assert condition(cluster, AS_APPROVED) == ("Unknown", "Unreadable")


async def test_the_exit_code_tells_it_where_no_log_can_be_read(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    werf.stores = lambda _: "other"
    bundle(approval=ALWAYS)
    await run()
    found = await waits(cluster)
    cluster.log_faults = [500] * 20
    approve(cluster, found)

    await quarantined(cluster)

    assert condition(cluster, AS_APPROVED) == DIFFERENT


@pytest.mark.needs("charts")
async def test_where_the_pod_is_gone_it_isnt_known(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    def end(job: dict[str, Any]) -> tuple[int, str] | None:
        ended = werf.run(job)
        if NONCE.search(container(job)["command"][2]):
            name = job["metadata"]["name"]
            cluster.drop(path_of("pods", f"{name}-pod"))
            cluster.change("jobs", name, status={"conditions": [COMPLETE]})
            return None
        return ended

    cluster.ends = end
    bundle(approval=ON_RISK)
    await run()
    await deployed(cluster)

    assert condition(cluster, AS_APPROVED) == ("Unknown", "Unreadable")


@pytest.mark.needs("charts")
async def test_without_an_approval_nothing_is_compared(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ON_RISK)
    await run()
    await deployed(cluster)
    assert condition(cluster, AS_APPROVED) == ("True", AS_APPROVED)

    cluster.change("bundles", "shop", spec={"approval": None, "env": {"WERF_SET_A": "a=2"}})
    await eventually(lambda: len(werf.applied) == 2)
    await deployed(cluster)

    assert condition(cluster, AS_APPROVED) == ("", "")
    assert "asApproved" not in cluster.status()
    assert not any(STORED in part for part in container(cluster.jobs()[-1])["command"])


async def test_another_try_that_a_user_asks_for_is_planned_and_approved_again(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    werf.stores = lambda _: "other"
    bundle(approval=ALWAYS)
    await run()
    await approved(cluster)
    await quarantined(cluster)
    werf.stores = lambda _: "same"

    annotate(cluster, requestedAt="now")
    await approved(cluster)

    await deployed(cluster)
    assert condition(cluster, AS_APPROVED) == ("True", AS_APPROVED)
