"""With an approval a correction only puts back what was deployed; all else is planned and approved.

What a chart renders may differ between the deploy and a check: it reads the time, or draws.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    annotate,
    approve,
    condition,
    deployed,
    idle,
    pending,
    plan,
    reject,
    waits,
)
from tests.component.bundles.drifting import CORRECT, EDITED, OTHER, Release
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fake_werf import DELETE, Werf, container, hash_of
from tests.component.bundles.features.drift.test_drift_corrections import check_now, history
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.freezing import freeze_all, thaw_all
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry

pytestmark = pytest.mark.needs("approval")

PROMPT = {"limit": 2, "backoff": "1s"}
DIFFERS = ("True", "RenderedDifferently")


@pytest.fixture
def release(cluster: BundleCluster, werf: Werf) -> Release:
    return Release(cluster, werf)


def renders(werf: Werf, text: str) -> None:
    """What the chart gives from now on."""
    werf.renders = lambda _: hash_of(text)


async def installed(
    cluster: BundleCluster, run: Run, bundle: Make, release: Release, **spec: Any
) -> Any:
    """An operator with a Bundle that was approved, deployed and found in sync."""
    bundle(drift=CORRECT, retry=PROMPT, **{"approval": ALWAYS, **spec})
    operator = await run(timer_interval=1.0)
    if "approval" not in spec:
        approve(cluster, await waits(cluster))
    await deployed(cluster)
    await release.in_sync()
    return operator


async def drift(cluster: BundleCluster, release: Release, *changed: str) -> None:
    release.changed += changed
    await check_now(cluster, release)


async def test_what_renders_differently_waits_for_approval_and_is_corrected_once(
    cluster: BundleCluster, run: Run, bundle: Make, release: Release, werf: Werf
) -> None:
    operator = await installed(cluster, run, bundle, release)
    base = cluster.status()["baseline"]["job"]
    renders(werf, "later")

    await drift(cluster, release, *EDITED)

    await release.judged(*DIFFERS)
    found = await waits(cluster, outcome="Planned", version="1.0.0")
    await idle(operator)
    assert condition(cluster, "Ready") == ("True", "Deployed")
    assert len(cluster.jobs()) == 1
    assert found["digest"] == cluster.status()["deployed"]["digest"]

    approve(cluster, found)
    await release.in_sync()
    await idle(operator)
    assert history(cluster) == [("Succeeded", True), ("Succeeded", False)]
    latest = cluster.status()["history"][0]
    assert (latest["plan"], latest["approvedBy"]) == (found["id"], "ann")
    assert werf.applied[1][1].splitlines()[0] == "revision 2"
    assert set(werf.applied[1][1].splitlines()[1:]) == {*release.always, *EDITED}
    assert cluster.status()["baseline"]["job"] == base
    assert (release.drift["corrections"], pending(cluster)) == (1, "")


def draws(_: BundleCluster, werf: Werf) -> None:
    werf.renders = lambda _: "none"


def has_more_after_the_install(_: BundleCluster, werf: Werf) -> None:
    """Where ``.Release.IsUpgrade``: objects that nobody saw."""
    todo = werf.todo
    more = lambda: ["create ::Secret:unseen"] if werf.revision > 1 else []  # noqa: E731
    werf.todo = lambda digest: [*todo(digest), *more()]
    werf.renders = lambda _: hash_of(f"revision {min(werf.revision, 2)}")


def was_not_judged(cluster: BundleCluster, _: Werf) -> None:
    """By an earlier version of the operator."""
    baseline = {**cluster.status()["baseline"], "bound": None}
    cluster.change("bundles", "shop", status={"baseline": baseline})


def is_run_by_an_unknown_werf(cluster: BundleCluster, _: Werf) -> None:
    """The image's digest, which the baseline had, isn't reported any more."""
    cluster.werf_image = ""


Change = Callable[[BundleCluster, Werf], None]
NOT_BOUND: dict[str, tuple[Change | None, Change | None, bool | None]] = {
    "its chart draws": (draws, None, False),
    "it has what nobody saw": (has_more_after_the_install, None, None),
    "it wasn't judged": (None, was_not_judged, None),
    "another werf may correct it": (None, is_run_by_an_unknown_werf, False),
}
"""What happens before the deploy and after the baseline, and whether a plan is bound then."""


@pytest.mark.needs("charts")
@pytest.mark.parametrize("why", NOT_BOUND)
async def test_by_a_baseline_that_isnt_bound_nothing_is_corrected_unasked(
    cluster: BundleCluster, run: Run, bundle: Make, release: Release, werf: Werf, why: str
) -> None:
    before, after, bound = NOT_BOUND[why]
    if before is not None:
        before(cluster, werf)
    operator = await installed(cluster, run, bundle, release)
    assert cluster.status()["baseline"].get("bound", False) is (before is None)
    if after is not None:
        await operator.stop()
        after(cluster, werf)
        operator = await run(timer_interval=1.0, approval_policy=True)

    await drift(cluster, release, *EDITED)

    await release.judged(*DIFFERS)
    found = await waits(cluster, outcome="Planned", **({} if bound is None else {"bound": bound}))
    await idle(operator)
    assert len(cluster.jobs()) == len(werf.applied) == 1
    approve(cluster, found)
    await eventually(lambda: cluster.status()["history"][0].get("correction"), "the correction")
    latest = cluster.status()["history"][0]
    assert (latest["cause"], latest["approvedBy"]) == ("Correction", "ann")
    # What approved-by says counts as a name only where the chart's policy compares it.
    assert latest.get("by") == (None if after is None else "ann")


async def test_drift_alone_corrects_a_chart_that_draws(
    cluster: BundleCluster, run: Run, bundle: Make, release: Release, werf: Werf
) -> None:
    """A Job that renders once gives it a hash that no other render has."""
    drawn = count()

    def draw(job: dict[str, Any]) -> str:
        command = container(job)["command"]
        renders_twice = command[3] == "plan" and command[7] == "2"
        return "none" if renders_twice else hash_of(str(next(drawn)))

    werf.renders = draw
    await installed(cluster, run, bundle, release, approval={"mode": "Never"})

    await drift(cluster, release, *EDITED)

    await eventually(lambda: history(cluster)[0] == ("Succeeded", True))
    await release.in_sync()
    assert not cluster.jobs("plan")


@pytest.mark.needs("freeze")
async def test_a_later_check_doesnt_replace_what_was_approved(
    cluster: BundleCluster, run: Run, bundle: Make, release: Release, werf: Werf
) -> None:
    """It is approved while a freeze holds it back, and a check finds more."""
    operator = await installed(cluster, run, bundle, release)
    renders(werf, "later")
    await drift(cluster, release, *EDITED)
    found = await waits(cluster, outcome="Planned")
    freeze_all(cluster, reason="incident")
    approve(cluster, found)
    await eventually(lambda: plan(cluster).get("decision") == "Approved")
    renders(werf, "even later")
    await drift(cluster, release, OTHER, DELETE)
    await eventually(lambda: len(release.drift["objects"]) == 3)
    await idle(operator)

    thaw_all(cluster)

    again = await waits(cluster, outcome="Planned", operations=5)
    await idle(operator)
    assert again["id"] != found["id"]
    assert len(werf.applied) == 1
    assert history(cluster)[0] == ("Interrupted", True)
    assert cluster.status()["attempted"]["reason"] == "PlanChanged"
    approve(cluster, again)
    await release.in_sync()
    assert len(werf.applied) == 2


async def test_a_rejected_correction_isnt_made(
    cluster: BundleCluster, run: Run, bundle: Make, release: Release, werf: Werf
) -> None:
    operator = await installed(cluster, run, bundle, release)
    renders(werf, "later")
    await drift(cluster, release, *EDITED)
    reject(cluster, await waits(cluster, outcome="Planned"))
    await waits(cluster, "PlanRejected")
    annotate(cluster, **{"rejected-plan": None, "approved-by": None})
    await drift(cluster, release)
    await idle(operator)
    assert pending(cluster) == "PlanRejected"
    assert len(cluster.jobs()) == 1


@pytest.mark.parametrize("order", ["drift first", "version first"])
async def test_the_plan_of_a_newer_version_goes_first(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    release: Release,
    werf: Werf,
    order: str,
) -> None:
    """A correction would be in vain: the newer version replaces what is corrected."""
    operator = await installed(cluster, run, bundle, release, version="1.*")
    renders(werf, "later")
    if order == "drift first":
        await drift(cluster, release, *EDITED)
        await waits(cluster, outcome="Planned", version="1.0.0")
    registry.put("app", "1.1.0", "two")
    newer = await waits(cluster, outcome="Planned", version="1.1.0")
    await drift(cluster, release, *EDITED)
    await release.judged(*DIFFERS)
    await idle(operator)
    assert plan(cluster)["id"] == newer["id"]
    assert len(cluster.jobs()) == 1


async def test_a_newer_version_that_comes_with_drift_is_planned(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    release: Release,
    werf: Werf,
) -> None:
    """Both are known when the operator decides: no plan of a correction takes its place."""
    operator = await installed(cluster, run, bundle, release, version="1.*")
    renders(werf, "later")
    werf.holds_checks = True
    await drift(cluster, release, *EDITED)
    await operator.stop()
    registry.put("app", "1.1.0", "two")
    werf.finish(cluster.jobs("drift")[-1])
    operator = await run(timer_interval=1.0)
    await release.judged(*DIFFERS)
    newer = await waits(cluster, outcome="Planned", version="1.1.0")
    await idle(operator)
    assert plan(cluster)["id"] == newer["id"]
    approve(cluster, newer)
    await deployed(cluster, version="1.1.0")
    assert history(cluster) == [("Succeeded", False), ("Succeeded", False)]


async def test_a_correction_that_expires_is_planned_anew(
    cluster: BundleCluster, run: Run, bundle: Make, release: Release, werf: Werf
) -> None:
    operator = await installed(cluster, run, bundle, release)
    renders(werf, "later")
    await drift(cluster, release, *EDITED)
    first = await waits(cluster, outcome="Planned")
    await operator.stop()
    expired = {**plan(cluster), "expiresAt": "2020-01-01T00:00:00Z"}
    cluster.change("bundles", "shop", status={"plan": expired})
    await run(timer_interval=1.0)
    await eventually(lambda: plan(cluster)["number"] > first["number"])
    await waits(cluster, outcome="Planned", version="1.0.0")
    assert len(cluster.jobs()) == 1
