"""What an approval rests on: rejected plans, the seal of operations, a second render."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.component.bundles.approvals import (
    ALWAYS,
    ON_RISK,
    PATIENT,
    annotate,
    approve,
    deployed,
    idle,
    plan,
    refresh,
    reject,
    waits,
)
from tests.component.bundles.fake_cluster import BundleCluster, path_of
from tests.component.bundles.fake_werf import CREATE, DELETE, SEALED, UPDATE, Werf, container
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry
from tests.plan_jobs import DOCUMENTS, Ended, Pod, graph, node, shell_of


async def waits_anew(cluster: BundleCluster, *known: dict[str, Any]) -> dict[str, Any]:
    """The plan that waits for approval, once it is none of these."""
    ids = {None, *(one["id"] for one in known)}
    await eventually(lambda: plan(cluster).get("id") not in ids, cluster.status())
    return await waits(cluster)


# --- rejected plans -------------------------------------------------------------------------------

LEFT: dict[str, dict[str, str | None]] = {
    "the rejection stays": {},
    "the rejection is removed": {"rejected-plan": None, "approved-by": None},
}


@pytest.mark.parametrize("restarted", [False, True], ids=["", "and the operator restarted"])
@pytest.mark.parametrize("how", LEFT)
async def test_what_was_rejected_doesnt_pass_by_itself_when_its_plan_is_made_anew(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf, how: str, restarted: bool
) -> None:
    """Under OnRisk: the risk has gone from the plan, or somebody made it look so."""
    werf.todo = lambda digest: [CREATE, DELETE]
    bundle(approval=ON_RISK)
    operator = await run()
    found = await waits(cluster)
    reject(cluster, found)
    await waits(cluster, "PlanRejected")
    annotate(cluster, **LEFT[how])
    if restarted:
        await operator.stop()
        operator = await run()
    werf.todo = lambda digest: [CREATE]

    refresh(cluster, "again")

    again = await waits_anew(cluster, found)
    assert again.get("riskyOperations", 0) == 0
    await idle(operator)
    assert cluster.jobs() == []
    annotate(cluster, **{"rejected-plan": None})
    approve(cluster, again)
    await deployed(cluster)


async def test_what_was_rejected_doesnt_pass_by_itself_after_an_edit_there_and_back(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    werf.todo = lambda digest: [CREATE, DELETE]
    bundle(approval=ON_RISK, env={"WERF_SET_A": "a=1"})
    operator = await run()
    first = await waits(cluster)
    reject(cluster, first)
    await waits(cluster, "PlanRejected")
    cluster.change("bundles", "shop", spec={"env": {"WERF_SET_A": "a=2"}})
    second = await waits_anew(cluster, first)
    reject(cluster, second)
    await waits(cluster, "PlanRejected")
    werf.todo = lambda digest: [CREATE]

    cluster.change("bundles", "shop", spec={"env": {"WERF_SET_A": "a=1"}})

    await waits_anew(cluster, first, second)
    await idle(operator)
    assert cluster.jobs() == []


# --- the seal of operations -----------------------------------------------------------------------


def forge(cluster: BundleCluster, job: str, *operations: str) -> None:
    """Put operations into the Secret of a plan, as whoever may write Secrets there can."""
    path = path_of("secrets", f"{job}-operations")
    body = cluster.objects[path]
    (key,) = (one for one in body["data"] if one != "salt")
    lines = base64.b64decode(body["data"][key]).decode().splitlines()
    text = "".join(f"{line}\n" for line in [*lines[:2], *sorted({*lines[2:], *operations})])
    data = {**body["data"], key: base64.b64encode(text.encode()).decode()}
    cluster.write(path, {**body, "data": data})


@pytest.mark.needs("charts")
async def test_operations_that_somebody_adds_to_an_approved_plan_arent_deployed(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    bundle(approval=ALWAYS, retry=PATIENT)
    operator = await run()
    found = await waits(cluster)
    forge(cluster, found["job"], DELETE)
    werf.todo = lambda digest: [CREATE, DELETE]

    approve(cluster, found)

    await waits_anew(cluster, found)
    await idle(operator)
    assert werf.applied == []


async def test_an_approval_doesnt_carry_over_to_operations_that_somebody_added_to_its_plan(
    cluster: BundleCluster, run: Run, bundle: Make, werf: Werf
) -> None:
    """The attempt fails; the plan that is made for its retry has what was added."""
    werf.ends = lambda job: (1, "Error: no\n")
    werf.holds_deploys = True
    bundle(approval=ALWAYS, retry=PATIENT)
    operator = await run()
    found = await waits(cluster)
    approve(cluster, found)
    (job,) = await eventually(cluster.jobs)
    forge(cluster, found["job"], DELETE)
    werf.todo = lambda digest: [CREATE, DELETE]

    werf.finish(job)

    await waits_anew(cluster, found)
    await idle(operator)
    assert len(cluster.jobs()) == 1


@pytest.mark.needs("charts", "drift")
async def test_a_forged_baseline_hides_no_risk(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, werf: Werf
) -> None:
    """What the baseline has is no risk: each deploy does it anyway."""
    werf.todo = lambda digest: [UPDATE] if werf.revision > 1 else [CREATE]
    bundle(version="1.*", approval=ON_RISK)
    operator = await run(timer_interval=1.0)
    await deployed(cluster)
    job = await eventually(
        lambda: cluster.status().get("baseline", {}).get("job"), cluster.status()
    )
    await idle(operator)
    forge(cluster, job, DELETE)
    werf.todo = lambda digest: [UPDATE, DELETE]

    registry.put("app", "1.1.0", "two")

    found = await waits(cluster, version="1.1.0")
    assert found["risky"] == [DELETE]
    await idle(operator)
    assert len(cluster.jobs()) == 1


# --- a second render ------------------------------------------------------------------------------


class Scripts:
    """Runs the scripts of the operator's Jobs as they are, in a container's place."""

    def __init__(self, cluster: BundleCluster, werf: Werf, pod: Pod, root: Path) -> None:
        self._cluster, self._werf, self._pod, self._root = cluster, werf, pod, root
        werf.holds_plans = werf.holds_deploys = True

    async def run(self, kind: str, renders: Sequence[str], count: int = 1) -> Ended:
        """Run the newest Job of a kind; werf renders these, one after the other."""
        await eventually(lambda: len(self._cluster.jobs(kind)) == count)
        job = self._cluster.jobs(kind)[-1]
        name, command = job["metadata"]["name"], container(job)["command"]
        files = command[8 if kind == "deploy" else 9 :]
        assert len(files) % SEALED == 0
        for path in command[3:]:
            self._place(path).parent.mkdir(parents=True, exist_ok=True)
        self._place(command[4]).mkdir(exist_ok=True)
        for at in range(0, len(files), SEALED):
            for path in files[at : at + 2]:
                self._place(path).write_bytes(self._werf.mounted(job, path))
        for number, text in enumerate(renders, 1):
            (self._pod.fake / f"render.{number}").write_text(text)
        self._pod.documents = renders[-1]
        there = [str(self._place(one)) if one.startswith("/") else one for one in command[3:]]
        ended = self._pod.run((*command[:3], *there), graph([node(CREATE)], 1))
        self._cluster.logs[f"{name}-pod"] = ended.log
        self._cluster.end_job(name, ended.code, ended.log[-1000:])
        return ended

    def _place(self, path: str) -> Path:
        return self._root / path.lstrip("/")


@pytest.fixture
def scripts(
    cluster: BundleCluster, werf: Werf, tmp_path: Path, request: pytest.FixtureRequest
) -> Scripts:
    return Scripts(cluster, werf, Pod(shell_of(request), tmp_path), tmp_path / "root")


OTHER = DOCUMENTS.replace("hunter3", "hunter4")


async def test_what_renders_as_planned_is_applied(
    cluster: BundleCluster, run: Run, bundle: Make, scripts: Scripts
) -> None:
    bundle(approval=ALWAYS)
    await run(guard_policy=None)  # its probe is the API server's
    await scripts.run("plan", [DOCUMENTS, DOCUMENTS])
    approve(cluster, await waits(cluster))

    ended = await scripts.run("deploy", [DOCUMENTS])

    assert ended.applied, ended.log


@pytest.mark.needs("charts")
async def test_the_chart_is_rendered_again_before_the_apply_and_nothing_else_is_applied(
    cluster: BundleCluster, run: Run, bundle: Make, scripts: Scripts
) -> None:
    """The operations are the same: only what they write differs."""
    bundle(approval=ALWAYS, retry=PATIENT)
    await run(guard_policy=None)  # its probe is the API server's
    await scripts.run("plan", [DOCUMENTS, DOCUMENTS])
    found = await waits(cluster)
    approve(cluster, found)

    ended = await scripts.run("deploy", [OTHER])

    assert ended.applied == [], ended.log
    await scripts.run("plan", [OTHER, OTHER], count=2)
    await waits_anew(cluster, found)
    assert len(cluster.jobs()) == 1


async def test_a_plan_renders_twice_and_one_whose_renders_differ_isnt_bound(
    cluster: BundleCluster, run: Run, bundle: Make, scripts: Scripts
) -> None:
    bundle(approval=ON_RISK)
    operator = await run(guard_policy=None)

    await scripts.run("plan", [DOCUMENTS, OTHER])

    found = await waits(cluster, bound=False)
    assert "two renders" in "".join(found["unbound"])
    await idle(operator)
    assert cluster.jobs() == []
