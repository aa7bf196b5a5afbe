"""What differs between plans of deploys, checks for drift and previews.

The table is in docs/architecture.md, with the files in which its other cells are tested.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    annotate,
    approve,
    deployed,
    idle,
    lose,
    operations,
    secrets,
    waits,
)
from tests.component.bundles.drifting import DETECT, Release, checked_long_ago
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fake_werf import Werf, container
from tests.component.bundles.features.drift.test_drift_queue import running, skipped
from tests.component.bundles.features.previews.test_previews import ask
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.freezing import freeze_all
from tests.component.bundles.test_metrics import shows
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry

pytestmark = [pytest.mark.usefixtures("registry"), pytest.mark.needs("previews")]

DEPLOY, CHECK, PREVIEW = ("deploy", "check", "preview")
PLANNED, PREVIEWED = pytest.mark.needs("approval"), pytest.mark.needs("previews")
PURPOSES = (
    pytest.param(DEPLOY, marks=PLANNED),
    CHECK,
    pytest.param(PREVIEW, marks=PREVIEWED),
)
PAUSED = {"disable-autoupdate": "true"}
SOON = {"limit": 1, "backoff": "1s"}


@dataclass
class Shop:
    """A Bundle with a plan of one purpose."""

    cluster: BundleCluster
    werf: Werf
    bundle: Make
    purpose: str = DEPLOY

    @property
    def record(self) -> dict[str, Any]:
        """The plan in the status."""
        status = self.cluster.status()
        if self.purpose == CHECK:
            found: dict[str, Any] = status.get("drift", {}).get("check", {})
        else:
            found = status.get("preview" if self.purpose == PREVIEW else "plan", {})
        return found

    @property
    def jobs(self) -> list[dict[str, Any]]:
        return self.cluster.jobs("drift" if self.purpose == CHECK else "plan")

    @property
    def marks(self) -> dict[str, str]:
        """The annotations of its newest Job."""
        found: dict[str, str] = self.jobs[-1]["metadata"]["annotations"]
        return found

    async def plan(self, purpose: str, run: Run, **spec: Any) -> Any:
        """An operator, once the plan's Job runs; it has a baseline if it is a check."""
        self.purpose = purpose
        self.cluster.put_object("configmaps", "values", data={"values.yaml": "a: 1"})
        spec = {"values": "values", "retry": SOON, **spec}
        release = Release(self.cluster, self.werf)
        if purpose != DEPLOY:
            self.bundle(drift=DETECT if purpose == CHECK else None, **spec)
            operator = await run()
            await deployed(self.cluster)
        if purpose == CHECK:
            await release.in_sync()
        self.werf.holds_plans = self.werf.holds_checks = True
        if purpose == DEPLOY:
            self.bundle(approval=ALWAYS, **spec)
            operator = await run()
        elif purpose == CHECK:
            await idle(operator)
            self.cluster.change("bundles", "shop", status=checked_long_ago(self.cluster))
        else:
            ask(self.cluster, "1.0.0")
        await eventually(lambda: self.is_running, f"{self.purpose}: {self.cluster.status()}")
        await idle(operator)
        return operator

    @property
    def is_running(self) -> bool:
        name = self.record.get("job", "")
        return self.record.get("outcome") == "Running" and bool(self.cluster.look("jobs", name))

    async def ended(self, outcome: str) -> dict[str, Any]:
        """The plan, once it has this outcome."""
        seen = lambda: self.record.get("outcome") == outcome  # noqa: E731
        await eventually(seen, f"{self.purpose} {outcome}: {self.cluster.status()}")
        return self.record


@pytest.fixture
def shop(cluster: BundleCluster, werf: Werf, bundle: Make) -> Shop:
    return Shop(cluster, werf, bundle)


SEALED = {DEPLOY: (True, True, 2), CHECK: (False, False, 1), PREVIEW: (False, False, 1)}
"""Whether records of values are written while a plan is made, and its operations are kept; and how
often its chart is rendered."""


def renders_of(job: dict[str, Any]) -> int:
    """How often the script of a plan's Job is told to render the chart."""
    return int(container(job)["command"][7])


@pytest.mark.parametrize("purpose", PURPOSES)
async def test_what_is_sealed_for_a_plan_and_what_is_left_of_it(
    cluster: BundleCluster, run: Run, shop: Shop, purpose: str
) -> None:
    has_inputs, keeps_operations, renders = SEALED[purpose]
    operator = await shop.plan(purpose, run)
    job = shop.record["job"]
    assert renders_of(shop.jobs[-1]) == renders
    if purpose == CHECK:
        assert renders_of(shop.jobs[0]) == 2, "the baseline's"
    kept = operations(cluster.status().get("baseline", {}))
    assert secrets(cluster) == kept | {f"{job}-values-000", f"{job}-salt"}
    assert bool(secrets(cluster, inputs=True)) == has_inputs

    shop.werf.finish(shop.jobs[-1])
    found = await shop.ended("Planned")
    await idle(operator)

    assert secrets(cluster) == kept | (operations(found) if keeps_operations else set())
    assert bool(secrets(cluster, inputs=True)) == has_inputs
    assert ("id" in found) == (purpose != PREVIEW)


AGAIN = {DEPLOY: (2, 2), CHECK: (0, None), PREVIEW: (0, None)}
"""Plans that are made after a failed one, and the failures that are counted."""


@pytest.mark.parametrize("purpose", PURPOSES)
async def test_a_plan_whose_job_vanishes_has_failed_and_only_one_of_a_deploy_is_made_again(
    cluster: BundleCluster, run: Run, shop: Shop, purpose: str
) -> None:
    again, failures = AGAIN[purpose]
    operator = await shop.plan(purpose, run)
    first = shop.record["job"]
    number = shop.record["number"]
    await idle(operator)  # else it creates once more what it hasn't seen yet
    lose(cluster, "jobs", first)
    written = cluster.statuses["shop"]
    text = f"Job {first} was deleted before its plan was read"
    await eventually(lambda: any(text in str(one) for one in written), text)
    if again:
        await eventually(lambda: shop.is_running and shop.record["number"] == number + 1)
        lose(cluster, "jobs", shop.record["job"])
    found = await shop.ended("Failed")
    await idle(operator)
    assert (found["number"], found.get("failures")) == (number + (again > 0), failures)
    assert found["reason"] == "PlanFailed"
    assert "nextRetryAt" not in found
    assert shop.jobs == [] or purpose == CHECK


@pytest.mark.parametrize("purpose", PURPOSES)
async def test_a_job_that_vanishes_while_no_operator_runs_is_made_again_under_its_name(
    cluster: BundleCluster, run: Run, shop: Shop, purpose: str
) -> None:
    """The new process can't know that it was made: it may have died before."""
    operator = await shop.plan(purpose, run)
    job = shop.record["job"]
    await operator.stop()
    lose(cluster, "jobs", job)
    await run()
    await eventually(lambda: cluster.look("jobs", job), "it is made again")
    shop.werf.finish(shop.jobs[-1])
    assert (await shop.ended("Planned"))["job"] == job


EDITS = [
    *(pytest.param(DEPLOY, one, marks=PLANNED) for one in ("values", "spec")),
    *((CHECK, "values"), (CHECK, "spec")),
    pytest.param(PREVIEW, "values", marks=PREVIEWED),
]
"""A preview is of the spec as it is."""


@pytest.mark.parametrize(("purpose", "edited"), EDITS)
@pytest.mark.needs("freeze")
async def test_what_is_edited_before_the_job_is_not_planned(
    cluster: BundleCluster, run: Run, shop: Shop, purpose: str, edited: str
) -> None:
    """The process died before it created the Job."""
    operator = await shop.plan(purpose, run)
    job, number = shop.record["job"], shop.record["number"]
    await operator.stop()
    lose(cluster, "jobs", job)
    if edited == "values":
        cluster.change("configmaps", "values", data={"values.yaml": "a: 2"})
    else:
        freeze_all(cluster)  # else the edit is deployed, which ends the check
        cluster.change("bundles", "shop", spec={"env": {"WERF_ENV": "b"}})
    operator = await run()
    if purpose == DEPLOY:
        await eventually(lambda: shop.is_running and shop.record["number"] == number + 1)
    elif purpose == CHECK:
        await eventually(lambda: shop.record == {"number": number}, "it is broken off")
    else:
        found = await shop.ended("Failed")
        assert (found["reason"], found["number"]) == ("PlanChanged", number)
    await idle(operator)
    assert cluster.runs.count(job) == 1
    assert cluster.look("jobs", job) is None


@pytest.mark.parametrize("purpose", PURPOSES)
async def test_a_paused_bundle_has_plans_read_that_run_except_checks(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, shop: Shop, purpose: str
) -> None:
    operator = await shop.plan(purpose, run)
    annotate(cluster, **PAUSED)
    await eventually(lambda: cluster.reason() == "AutoupdateDisabled")
    asked = len(registry.asked)
    shop.werf.finish(shop.jobs[-1])
    if purpose == CHECK:
        await idle(operator)
        assert shop.record["outcome"] == "Running"
        assert "operator.werf.dev/given-up" not in shop.marks
        annotate(cluster, **{"disable-autoupdate": None})
    found = await shop.ended("Planned")
    assert found["job"] == shop.jobs[-1]["metadata"]["name"]
    assert len(registry.asked) == asked or purpose == CHECK


ENDS = {CHECK: True, PREVIEW: False}


@pytest.mark.parametrize("purpose", PURPOSES[1:])
async def test_a_deploy_breaks_off_a_check_but_no_preview(
    cluster: BundleCluster, run: Run, shop: Shop, purpose: str
) -> None:
    operator = await shop.plan(purpose, run)
    first = shop.record
    cluster.change("bundles", "shop", spec={"env": {"WERF_ENV": "b"}})
    await eventually(lambda: len(cluster.jobs()) == 2)
    await deployed(cluster)
    await idle(operator)
    job = cluster.look("jobs", first["job"]) or {}
    given_up = "operator.werf.dev/given-up" in job["metadata"]["annotations"]
    assert given_up == ENDS[purpose]
    assert (shop.record.get("job") == first["job"]) != ENDS[purpose]
    if purpose == CHECK:  # by the record of the attempt, before its Job is created
        begins = [one for one in cluster.statuses["shop"] if one["attempted"]["attempt"] == 2]
        assert {"number": first["number"]} == begins[0]["drift"]["check"]


@PREVIEWED
async def test_a_preview_that_waits_goes_before_checks_and_counts_none_as_skipped(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    Release(cluster, werf, is_installed=True)
    werf.holds_checks = werf.holds_plans = True
    for name in ("shop0", "shop1", "shop2"):
        bundle(name, drift=DETECT)
    bundle("idle", suspend=True)
    operator = await run(max_plan_jobs=1)
    await eventually(lambda: len(running(cluster, "drift")) == 1)
    ask(cluster, "1.0.0", name="idle")
    await idle(operator)
    assert (running(cluster, "plan"), skipped(operator)) == ([], 0)
    werf.finish(running(cluster, "drift")[0])
    await eventually(lambda: running(cluster, "plan"), "it is the next one")
    await idle(operator)
    assert running(cluster, "drift") == []


COUNTED = {DEPLOY: "plan", CHECK: "drift", PREVIEW: "plan"}


@pytest.mark.parametrize("purpose", PURPOSES)
async def test_plans_are_counted_by_the_kind_of_their_jobs_and_once(
    cluster: BundleCluster, run: Run, shop: Shop, purpose: str
) -> None:
    operator = await shop.plan(purpose, run)
    succeeded = f'copyrator_deploys_total{{action="{COUNTED[purpose]}",result="succeeded"}}'
    counted = 1 + float(purpose == CHECK)  # the baseline
    refused = cluster.refuse("patch", "/bundles/shop/status", 500)
    seen = len(cluster.seen)
    shop.werf.finish(shop.jobs[-1])
    tries = lambda: [one for one in cluster.seen[seen:] if one.path.endswith("/log")]  # noqa: E731
    await eventually(lambda: len(tries()) > 2, "its log is read again")
    refused.clear()
    await shop.ended("Planned")
    await shows(operator, {succeeded: counted})
    if purpose == DEPLOY:  # nor is its deploy counted as one
        approve(cluster, await waits(cluster))
        await deployed(cluster)
        await shows(operator, {succeeded: counted})


# --- a plan without operations: werf only stores the release (werf 2 ends with 2, werf 3 with 3)
