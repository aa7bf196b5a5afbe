"""What a planned attempt is made of: the values that were planned, and the plan's digest."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    approve,
    deployed,
    idle,
    plan,
    waits,
)
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually, reconciled
from tests.component.oci.fake_registry import FakeRegistry
from tests.component.promises.test_attempts import EDITS, PROMPT, VALUES, encoded, tags


class Story:
    """A Bundle whose plan waits, and what then happens to it."""

    def __init__(self, cluster: BundleCluster, run: Run, werf: Werf) -> None:
        self.cluster, self.run, self.werf = cluster, run, werf
        self.operator: Any = None
        self.found: dict[str, Any] = {}

    async def begin(self) -> None:
        self.operator = await self.run()
        self.found = await waits(self.cluster)

    async def edited_first(self, edit: Callable[[BundleCluster], None]) -> None:
        edit(self.cluster)
        approve(self.cluster, self.found)

    async def approved_first(self, edit: Callable[[BundleCluster], None]) -> None:
        approve(self.cluster, self.found)
        edit(self.cluster)

    async def before_the_job(self, edit: Callable[[BundleCluster], None]) -> None:
        """The attempt is on record, and its Job can't be created yet."""
        await self._between(edit, "/jobs")

    async def before_the_values(self, edit: Callable[[BundleCluster], None]) -> None:
        """The attempt is on record, and its copies of the values can't be written yet."""
        await self._between(edit, "/secrets")

    async def _between(self, edit: Callable[[BundleCluster], None], ending: str) -> None:
        refused = self.cluster.refuse("create", ending, 500)
        approve(self.cluster, self.found)
        await eventually(lambda: self.cluster.status().get("attempted", {}).get("outcome"))
        edit(self.cluster)
        await reconciled(self.operator, 2)
        refused.clear()
        self.operator.let_pass(timedelta(minutes=1))

    async def while_it_is_down(self, edit: Callable[[BundleCluster], None]) -> None:
        await self.operator.stop()
        approve(self.cluster, self.found)
        edit(self.cluster)
        self.operator = await self.run()

    async def after_it_died(self, edit: Callable[[BundleCluster], None]) -> None:
        """The process ends once the attempt is on record; the next one takes it over."""
        refused = self.cluster.refuse("create", "/jobs", 500)
        approve(self.cluster, self.found)
        await eventually(lambda: self.cluster.status().get("attempted", {}).get("outcome"))
        await self.operator.stop(0.0)
        edit(self.cluster)
        refused.clear()
        self.operator = await self.run()
        self.operator.let_pass(timedelta(minutes=1))


ORDERS: dict[str, Callable[..., Awaitable[None]]] = {
    "the edit comes first": Story.edited_first,
    "the approval comes first": Story.approved_first,
    "the edit comes before the Job": Story.before_the_job,
    "the edit comes before the copies of values": Story.before_the_values,
    "both come while no operator runs": Story.while_it_is_down,
    "the edit comes after the operator died": Story.after_it_died,
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("order", ORDERS)
async def test_an_attempt_whose_values_differ_from_those_planned_isnt_made(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
    werf: Werf,
    order: str,
    edit: str,
) -> None:
    cluster.put_object("configmaps", "plain", data={"values.yaml": "a: 1"})
    cluster.put_object("secrets", "hidden", data={"values.yaml": encoded("b: 1")})
    bundle(approval=ALWAYS, valuesFrom=VALUES, retry=PROMPT)
    story = Story(cluster, run, werf)
    await story.begin()

    await ORDERS[order](story, EDITS[edit])

    await eventually(lambda: plan(cluster).get("id") not in (None, story.found["id"]))
    await waits(cluster, outcome="Planned")
    await idle(story.operator)
    assert werf.applied == []
    approve(cluster, plan(cluster))
    status = await deployed(cluster)
    assert status["deployed"]["valuesHash"] == plan(cluster)["valuesHash"]
    assert len(werf.applied) == 1


async def test_a_planned_deploys_job_is_pinned_to_the_plans_digest_and_not_to_a_tag(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    first = registry.put("app", "1.0.0", "one")
    bundle(approval=ALWAYS)
    await run(timer_interval=1.0)
    found = await waits(cluster)

    second = registry.put("app", "1.0.0", "pushed again")
    await waits(cluster, newer="1.0.0")
    approve(cluster, found)

    await eventually(lambda: werf.applied)
    assert werf.applied[0][0] == first
    assert tags(cluster, "deploy") == [f"1.0.0@{first}"]
    assert tags(cluster, "plan")[0] == f"1.0.0@{first}"
    again = await waits(cluster, digest=second)
    assert tags(cluster, "plan")[-1] == f"1.0.0@{second}"
    assert again["id"] != found["id"]
