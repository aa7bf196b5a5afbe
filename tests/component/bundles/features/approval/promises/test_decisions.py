"""Decisions of people: an approval after a rejection, and a rollback of what they saw."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.component.bundles.approvals import (
    ALWAYS,
    annotate,
    approve,
    deployed,
    idle,
    plan,
    refresh,
    reject,
    waits,
)
from tests.component.bundles.fake_cluster import BundleCluster
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually, reconciled
from tests.component.oci.fake_registry import FakeRegistry
from tests.component.promises.commands import typed
from tests.component.promises.test_attempts import EDITS, PROMPT, VALUES, encoded, tags

APPROVED, REJECTED, BY = "approved-plan", "rejected-plan", "approved-by"


async def approved_then_rejected(
    cluster: BundleCluster, run: Run, bundle: Make
) -> tuple[Any, dict[str, Any]]:
    """A suspended Bundle, so that the approval isn't used before the rejection is seen."""
    bundle(approval=ALWAYS)
    operator = await run()
    found = await waits(cluster)
    cluster.change("bundles", "shop", spec={"suspend": True})
    await eventually(lambda: cluster.reason() == "Suspended")
    approve(cluster, found)
    await eventually(lambda: plan(cluster).get("decision") == "Approved")
    reject(cluster, found)
    await eventually(lambda: plan(cluster).get("decision") == "Rejected")
    cluster.change("bundles", "shop", spec={"suspend": None})
    await waits(cluster, "PlanRejected")
    return operator, found


LEFT: dict[str, list[dict[str, str | None]]] = {
    "the rejection is removed": [{REJECTED: None}],
    "the rejection is removed, and the approver named again": [{REJECTED: None}, {BY: "ann"}],
    "the approver changes": [{REJECTED: None, BY: "zoe"}],
    "another plan is rejected": [{REJECTED: "0" * 32}],
    "the approver is removed and named again": [{REJECTED: None, BY: None}, {BY: "ann"}],
}


@pytest.mark.parametrize("restarted", [False, True], ids=["", "and the operator restarted"])
@pytest.mark.parametrize("what", LEFT)
async def test_an_approval_that_was_there_before_a_rejection_doesnt_count_after_it(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, what: str, restarted: bool
) -> None:
    operator, _ = await approved_then_rejected(cluster, run, bundle)

    for change in LEFT[what]:
        if restarted:
            await operator.stop()
        annotate(cluster, **change)
        if restarted:
            operator = await run()
        await idle(operator)

    assert plan(cluster)["decision"] == "Rejected"
    assert cluster.jobs() == []


@pytest.mark.parametrize("restarted", [False, True], ids=["", "and the operator restarted"])
async def test_an_approval_after_a_rejection_counts_only_once_the_old_one_was_seen_gone(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, restarted: bool
) -> None:
    operator, found = await approved_then_rejected(cluster, run, bundle)
    # Removed and set again at once: nobody saw it gone.
    await operator.stop()
    annotate(cluster, **{REJECTED: None, APPROVED: None})
    approve(cluster, found)
    operator = await run()
    await idle(operator)
    assert plan(cluster)["decision"] == "Rejected"
    assert cluster.jobs() == []

    annotate(cluster, **{APPROVED: None})
    await eventually(lambda: plan(cluster).get("approvalCleared") is True)
    if restarted:
        await operator.stop()
        await run()
    approve(cluster, found)

    await deployed(cluster)
    assert len(cluster.jobs()) == 1


@pytest.mark.parametrize("first", [APPROVED, REJECTED])
async def test_of_both_at_once_the_rejection_wins(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, first: str
) -> None:
    bundle(approval=ALWAYS)
    operator = await run()
    found = await waits(cluster)
    second = REJECTED if first == APPROVED else APPROVED
    annotate(cluster, **{first: found["id"], BY: "ann"})
    annotate(cluster, **{second: found["id"]})

    await eventually(lambda: plan(cluster).get("decision") or cluster.jobs())
    await idle(operator)

    if second == APPROVED or plan(cluster).get("decision") == "Rejected":
        assert cluster.jobs() == []


async def test_a_rejected_plan_that_is_made_anew_has_another_id_and_no_approval(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    operator, found = await approved_then_rejected(cluster, run, bundle)
    annotate(cluster, **{REJECTED: None})

    refresh(cluster, "again")

    await eventually(lambda: plan(cluster).get("id") not in (None, found["id"]))
    await waits(cluster)
    await idle(operator)
    assert cluster.jobs() == []


class InFront:
    """The API server of a command; something happens once, right before a patch that has `text`."""

    def __init__(
        self, cluster: BundleCluster, happens: Callable[[], None] = lambda: None, text: str = ""
    ) -> None:
        self.url, self.patches = "", 0
        self._cluster, self._happens, self._text = cluster, happens, text

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/selfsubjectreviews"):
            return web.json_response({"status": {"userInfo": {"username": "ann"}}}, status=201)
        if request.method == "PATCH":
            self.patches += 1
            if self._text in await request.text():
                self._happens()
                self._happens = lambda: None
        return await self._cluster.handle(request)

    async def typed(self, folder: Path, *words: str) -> tuple[int, str]:
        """The exit code of a command, and what it prints."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.handle)
        async with TestServer(app) as server:
            self.url = str(server.make_url("")).rstrip("/")
            return await typed(self, folder, *words)


APPROVES = ("approve", "bundle", "shop", "-n", "team", "--yes", "--timeout")


async def test_the_command_approves_a_rejected_plan_once_the_old_approval_was_seen_gone(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, tmp_path: Path
) -> None:
    await approved_then_rejected(cluster, run, bundle)

    code, said = await InFront(cluster).typed(tmp_path, *APPROVES, "240")

    assert code == 0, said
    await deployed(cluster)
    assert len(cluster.jobs()) == 1


async def test_the_command_approves_nothing_that_is_rejected_meanwhile(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, tmp_path: Path
) -> None:
    operator, found = await approved_then_rejected(cluster, run, bundle)
    # Not the patch before it, which removes both annotations: of that there are several where the
    # operator writes meanwhile.
    front = InFront(cluster, lambda: reject(cluster, found, by="zoe"), BY)

    code, said = await front.typed(tmp_path, *APPROVES, "240")

    assert code != 0, said
    assert "was rejected in the meantime" in said
    await idle(operator)
    assert plan(cluster)["decision"] == "Rejected"
    assert cluster.jobs() == []


async def test_the_command_approves_no_rejected_plan_that_no_operator_has_seen_without_approval(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, tmp_path: Path
) -> None:
    operator, _ = await approved_then_rejected(cluster, run, bundle)
    await operator.stop()

    code, said = await InFront(cluster).typed(tmp_path, *APPROVES, "0.5")

    assert code != 0, said
    assert "hasn't seen that within 0.5 s" in said
    await idle(await run())
    assert plan(cluster)["decision"] == "Rejected"
    assert cluster.jobs() == []


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
