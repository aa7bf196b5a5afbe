"""What has drifted is deployed again, if nothing else is to be done, and not for ever."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
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
    waits,
)
from tests.component.bundles.conftest import Operator
from tests.component.bundles.drifting import (
    CORRECT,
    DETECT,
    EDITED,
    Release,
    history,
    told,
)
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fake_werf import DELETE, Werf
from tests.component.bundles.features.windows.office_hours import MONDAY, OFFICE_HOURS, ahead_of
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.freezing import freeze_all, thaw_all
from tests.component.bundles.test_metrics import shows
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry

GAUGES = {"Drifted": 1.0, "DriftRecurring": 0.0}
SOON = {"limit": 2, "backoff": "1s"}


@pytest.fixture
def release(cluster: BundleCluster, werf: Werf) -> Release:
    return Release(cluster, werf)


def gates_of(cluster: BundleCluster, what: str) -> dict[str, str | None]:
    """A field of each gate's verdict, without the one on the chart, which can't be judged here."""
    found = cluster.status().get("gates", [])
    return {one["name"]: one.get(what) for one in found if one["name"] != "vendored"}


async def drift(release: Release, *changed: str, value: str = "now") -> None:
    release.changed += changed
    await release.look(value)


@pytest.mark.needs("approval")
async def test_drift_is_corrected_and_counted_and_looked_for_at_once(
    cluster: BundleCluster,
    run: Run,
    bundle: Make,
    release: Release,
    werf: Werf,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    bundle(drift=CORRECT)
    operator = await run()
    await release.in_sync()
    base = cluster.status()["baseline"]
    werf.holds_deploys = True
    await drift(release, *EDITED)
    await eventually(lambda: len(cluster.jobs()) == 2)
    gauges = {f'copyrator_bundles_drifted{{reason="{one}"}}': n for one, n in GAUGES.items()}
    await shows(operator, gauges)
    werf.holds_deploys = False
    werf.finish(cluster.jobs()[1])
    found = await release.in_sync()
    await idle(operator)
    assert history(cluster) == [("Succeeded", True), ("Succeeded", False)]
    assert told(caplog) == ["Drifted", "DriftCorrected"]
    assert (found["corrections"], found["corrected"]) == (1, EDITED)
    _, proved = werf.applied[1]
    assert set(proved.splitlines()[1:]) == {*release.always, *EDITED}
    assert cluster.status()["baseline"] == base
    assert release.checks == 2
    assert cluster.reason() == "Deployed"
    counted = {
        'copyrator_bundles_drifted{reason="Drifted"}': 0.0,
        'copyrator_drift_corrections_total{result="succeeded"}': 1.0,
        'copyrator_deploys_total{action="drift",result="succeeded"}': 2.0,
        'copyrator_deploys_total{action="deploy",result="succeeded"}': 2.0,
    }
    after = await shows(operator, counted)
    assert 'copyrator_drift_corrections_total{result="running"}' not in after


@pytest.mark.needs("approval", "charts")
async def test_no_approval_is_asked_and_the_plan_that_waits_stays(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, release: Release
) -> None:
    """While a newer version waits for days."""
    bundle(drift=CORRECT, approval=ALWAYS, version="1.*", retry=SOON)
    operator = await run(timer_interval=1.0)
    await approved(cluster, release)
    registry.put("app", "1.1.0", "two")
    waiting = await waits(cluster, version="1.1.0")
    await corrected(cluster, operator, release)
    assert plan(cluster)["id"] == waiting["id"]
    assert pending(cluster) == "AwaitingApproval"
    assert cluster.status()["deployed"]["version"] == "1.0.0"
    approve(cluster, waiting)
    await deployed(cluster, version="1.1.0")
    await release.in_sync()
    assert history(cluster)[0] == ("Succeeded", False)


@pytest.mark.needs("approval", "charts")
async def test_a_request_that_waits_for_approval_isnt_answered_by_a_correction(
    cluster: BundleCluster, run: Run, bundle: Make, release: Release
) -> None:
    bundle(drift=CORRECT, approval=ALWAYS, retry=SOON)
    operator = await run(timer_interval=1.0)
    await approved(cluster, release)
    annotate(cluster, requestedAt="now")
    waiting = await waits(cluster, outcome="Planned")
    await corrected(cluster, operator, release)
    assert "lastHandledRequest" not in cluster.status()
    assert (pending(cluster), plan(cluster)["id"]) == ("AwaitingApproval", waiting["id"])

    approve(cluster, waiting)

    await eventually(lambda: cluster.status().get("lastHandledRequest") == "now")
    await eventually(lambda: history(cluster)[0] == ("Succeeded", False))


@pytest.mark.needs("approval")
@pytest.mark.promise
async def test_the_plan_of_a_newer_version_is_no_check_for_drift(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, release: Release
) -> None:
    """What it would change has not drifted, and is deployed by no correction."""
    bundle(drift=CORRECT, approval=ALWAYS, version="1.*", retry=SOON)
    operator = await run(timer_interval=1.0)
    await approved(cluster, release)
    release.changed += EDITED

    registry.put("app", "1.1.0", "two")

    await waits(cluster, version="1.1.0", operations=3)
    await idle(operator)
    assert condition(cluster, "Drifted") == ("False", "InSync")
    assert len(cluster.jobs()) == 1


async def approved(cluster: BundleCluster, release: Release) -> None:
    """The first deploy, with its plan's approval."""
    approve(cluster, await waits(cluster))
    await deployed(cluster)
    await release.in_sync()


async def corrected(cluster: BundleCluster, operator: Operator, release: Release) -> None:
    """Somebody edits the release, which the next check finds and corrects."""
    await release.check_now(*EDITED)
    await eventually(lambda: history(cluster)[0] == ("Succeeded", True))
    await release.in_sync()
    await idle(operator)


@pytest.mark.needs("approval")
async def test_a_correction_that_would_do_more_is_checked_again_first(
    cluster: BundleCluster, run: Run, bundle: Make, release: Release, werf: Werf
) -> None:
    bundle(drift=CORRECT, retry=SOON)
    operator = await run()
    await release.in_sync()
    werf.holds_deploys = True
    await drift(release, *EDITED)
    await eventually(lambda: len(cluster.jobs()) == 2)
    release.changed.append(DELETE)
    werf.finish(cluster.jobs()[1])
    await eventually(lambda: history(cluster)[0] == ("Interrupted", True))
    assert cluster.reason() == "Deployed"
    assert cluster.status()["attempted"]["reason"] == "PlanChanged"
    werf.holds_deploys = False
    await release.in_sync()
    await idle(operator)
    assert history(cluster)[0] == ("Succeeded", True)
    assert len(werf.applied) == 2
    assert set(werf.applied[1][1].splitlines()[1:]) == {*release.always, *EDITED, DELETE}
    assert release.drift["corrections"] == 1


CANT: dict[str, Callable[[BundleCluster], Any]] = {
    "suspended": lambda c: c.change("bundles", "shop", spec={"suspend": True}),
    "paused": lambda c: annotate(c, **{"disable-autoupdate": "true"}),
    "another mode": lambda c: c.change("bundles", "shop", spec={"drift": DETECT}),
}


@pytest.mark.parametrize("what", CANT)
async def test_nothing_is_corrected_where_nothing_may_be_deployed(
    cluster: BundleCluster, run: Run, bundle: Make, release: Release, werf: Werf, what: str
) -> None:
    """Found before, or while the check ran."""
    bundle(drift=CORRECT)
    operator = await run()
    await release.in_sync()
    werf.holds_checks = True
    await release.check_now(*EDITED)
    CANT[what](cluster)
    await idle(operator)
    werf.finish(cluster.jobs("drift")[-1])
    await eventually(lambda: condition(cluster, "Drifted")[0] in ("Unknown", "True"))
    await idle(operator)
    assert len(cluster.jobs()) == 1


NEWER: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "alone": ({}, {"window": "Waiting"}),
    "beside a newer version": (
        {"version": "1.*", "minAge": "720h"},
        {"age": "Waiting", "window": "Waiting"},
    ),
}


@pytest.mark.parametrize("what", NEWER)
@pytest.mark.needs("approval", "windows", "age")
async def test_a_correction_waits_for_a_window(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    release: Release,
    what: str,
) -> None:
    spec, gates = NEWER[what]
    bundle(drift=CORRECT, windows=OFFICE_HOURS, **spec)
    operator = await run(ahead=ahead_of(MONDAY + timedelta(minutes=1)))
    await release.in_sync()
    await operator.stop()
    registry.put("app", "1.1.0", "two")

    operator = await run(ahead=ahead_of(MONDAY + timedelta(hours=2)))
    await drift(release, *EDITED)
    await release.judged("True", "Drifted")
    there = lambda: gates_of(cluster, "state")  # noqa: E731
    await eventually(lambda: there() == gates, str(gates))
    await idle(operator)
    assert condition(cluster, "Ready") == ("True", "Deployed")
    assert len(cluster.jobs()) == 1
    await operator.stop()

    await run(ahead=ahead_of(MONDAY + timedelta(days=7, seconds=-1)))

    await eventually(lambda: len(cluster.jobs()) == 2, "it is corrected")
    await release.in_sync()
    assert history(cluster)[0] == ("Succeeded", True)


@pytest.mark.parametrize("is_skipped", [False, True], ids=["", "of a skipped digest"])
@pytest.mark.needs("freeze", "rollback")
async def test_a_correction_waits_for_the_end_of_a_freeze(
    cluster: BundleCluster, run: Run, bundle: Make, release: Release, *, is_skipped: bool
) -> None:
    """What skip-digests names is deployed, so no update is pending, and no gate is recorded."""
    bundle(drift=CORRECT)
    operator = await run()
    await release.in_sync()
    if is_skipped:
        annotate(cluster, **{"skip-digests": cluster.status()["deployed"]["digest"]})
        await idle(operator)
    freeze_all(cluster, reason="incident")
    await release.check_now(*EDITED)
    await release.judged("True", "Drifted")
    there = lambda: gates_of(cluster, "reason")  # noqa: E731
    said = {} if is_skipped else {"freeze": "Frozen"}
    await eventually(lambda: there() == said, "the gate says it")
    await idle(operator)
    assert condition(cluster, "Ready") == ("True", "Deployed")
    assert len(cluster.jobs()) == 1

    thaw_all(cluster)

    await eventually(lambda: len(cluster.jobs()) == 2, "it is corrected")
    await release.in_sync()
    assert history(cluster)[0] == ("Succeeded", True)
