"""No namespace takes all slots for plans: not by many, by forged ones, or by ones that hang."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.component.bundles.approvals import ALWAYS, idle, waits
from tests.component.bundles.conftest import Operator
from tests.component.bundles.drifting import DETECT, Release
from tests.component.bundles.fake_cluster import RUNNING, TEAM, WAITING, BundleCluster, path_of
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry

from copyrator.api.keys import BundleKey

CROWD = "crowd"
NAMES = [f"shop{number:02}" for number in range(12)]
START = datetime(2026, 1, 1, tzinfo=UTC)


class Namespaces:
    """Bundles in several namespaces, their plans, and the time."""

    def __init__(self, cluster: BundleCluster, registry: FakeRegistry, run: Run) -> None:
        self.cluster = cluster
        self.host = registry.host
        self._run = run
        self.operator: Operator

    async def start(self, slots: int) -> None:
        ahead = START - datetime.now(UTC)
        self.operator = await self._run(max_plan_jobs=slots, ahead=ahead)

    def add(self, namespace: str, *bundles: str, **spec: Any) -> None:
        self.cluster.namespace(namespace)
        account = {"metadata": {"name": "werf", "namespace": namespace}}
        self.cluster.write(path_of("serviceaccounts", "werf", namespace), account)
        spec = {"registry": self.host, "repo": "app", "version": "1.0.0", "insecure": True, **spec}
        for name in bundles:
            body = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
            self.cluster.write(path_of("bundles", name, namespace), body)

    def running(self, namespace: str) -> list[dict[str, Any]]:
        """Its unfinished plans, checks for drift included."""
        prefix = path_of("jobs", namespace=namespace) + "/"
        found = [body for path, body in self.cluster.objects.items() if path.startswith(prefix)]
        return [job for job in found if not job.get("status", {}).get("conditions")]

    async def run(self, namespace: str, count: int) -> None:
        """So many of its plans come to run, and no more."""
        await eventually(lambda: len(self.running(namespace)) >= count, f"{namespace}: {count}")
        await idle(self.operator)
        assert len(self.running(namespace)) == count

    async def reach(self, seconds: float) -> None:
        """Let it be so many seconds after the start, at once: what was due by then is done now."""
        await idle(self.operator)
        now = START + timedelta(seconds=seconds)
        self.cluster.created = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        self.operator.let_pass(now - self.operator.now())
        await idle(self.operator)

    def start_pods(self, namespace: str) -> None:
        """As the Job controller says it."""
        for job in self.running(namespace):
            path = path_of("jobs", job["metadata"]["name"], namespace)
            self.cluster.write(path, {**job, "status": {"active": 1, "ready": 1}})

    def end(self, namespace: str) -> None:
        """Let one of its plans fail."""
        name = self.running(namespace)[0]["metadata"]["name"]
        self.cluster.end_job(name, 1, "", namespace)


@pytest.fixture
def there(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, werf: Werf, bundle: Make
) -> Namespaces:
    werf.holds_plans = werf.holds_checks = True
    return Namespaces(cluster, registry, run)


async def test_jobs_that_no_bundles_status_names_take_no_slot(
    there: Namespaces, cluster: BundleCluster, werf: Werf
) -> None:
    """Six that are suspended, half of them with the owner and uid of a Bundle that has a plan."""
    there.add(CROWD, "real", approval=ALWAYS)
    uid = cluster.objects[path_of("bundles", "real", CROWD)]["metadata"]["uid"]
    for number in range(6):
        labels = {"operator.werf.dev/job": "plan", "operator.werf.dev/bundle": "real"}
        annotations = {"operator.werf.dev/bundle-uid": uid if number % 2 else "1"}
        name = f"real-plan-{number}"
        metadata = {"name": name, "labels": labels, "annotations": annotations}
        body = {"metadata": {**metadata, "namespace": CROWD}, "spec": {"suspend": True}}
        cluster.write(path_of("jobs", name, CROWD), body)
    await there.start(4)
    await there.run(CROWD, 7)
    werf.holds_plans = False
    there.add(TEAM, "shop", approval=ALWAYS)
    await waits(cluster)


@pytest.mark.parametrize(("slots", "half"), [(4, 2), (5, 2), (2, 1)])
async def test_a_namespace_takes_half_of_the_slots_at_most(
    there: Namespaces, slots: int, half: int
) -> None:
    there.add(CROWD, *NAMES, approval=ALWAYS)
    await there.start(slots)
    await there.run(CROWD, half)
    there.add(TEAM, "shop", approval=ALWAYS)
    await there.run(TEAM, 1)


async def test_a_namespace_that_has_a_plan_begins_no_second_while_another_waits(
    there: Namespaces,
) -> None:
    for namespace in ("one", "two"):
        there.add(namespace, *NAMES[:4], approval=ALWAYS)
    await there.start(4)
    await there.run("one", 2)
    await there.run("two", 2)
    there.add(TEAM, *NAMES[:4], approval=ALWAYS)
    await idle(there.operator)
    there.end("one")
    await there.run(TEAM, 1)
    there.end("one")
    await eventually(lambda: len(there.running("one")) == 1, "it has the fewest")
    await there.run(TEAM, 1)


async def test_with_one_slot_namespaces_take_turns(there: Namespaces) -> None:
    there.add(CROWD, *NAMES, approval=ALWAYS)
    await there.start(1)
    await there.run(CROWD, 1)
    there.add(TEAM, *NAMES[:2], approval=ALWAYS)
    await idle(there.operator)
    for namespace in (TEAM, CROWD, TEAM):
        other = CROWD if namespace == TEAM else TEAM
        there.end(other)
        await there.run(namespace, 1)
        assert there.running(other) == []


@pytest.mark.parametrize(("slots", "crowds"), [(1, ["a"]), (2, ["a", "b"]), (4, ["a", "b"])])
async def test_a_plan_whose_pod_does_not_start_gives_its_slot_back(
    there: Namespaces, cluster: BundleCluster, slots: int, crowds: list[str]
) -> None:
    """Another's begins within 70 s, at the moment when the slot is free."""
    cluster.pods = WAITING
    for crowd in crowds:
        there.add(crowd, *NAMES, approval=ALWAYS, job={"nodeSelector": {"no": "where"}})
    await there.start(slots)
    for crowd in crowds:
        await there.run(crowd, max(slots // 2, 1))
    await there.reach(25)
    there.add(TEAM, "shop", approval=ALWAYS)
    await there.run(TEAM, 0)
    await there.reach(56)
    assert there.running(TEAM) == []
    await there.reach(62)
    assert len(there.running(TEAM)) == 1
    for crowd in crowds:
        assert len(there.running(crowd)) == max(slots // 2, 1), "its Jobs stay, others don't begin"


async def test_such_a_plan_counts_again_once_its_pod_runs(
    there: Namespaces, cluster: BundleCluster
) -> None:
    cluster.pods = WAITING
    there.add(CROWD, *NAMES[:2], approval=ALWAYS)
    await there.start(1)
    await there.run(CROWD, 1)
    await there.reach(61)
    there.add(TEAM, "shop", approval=ALWAYS)
    await there.run(TEAM, 1)
    there.start_pods(CROWD)
    there.add("third", "shop", approval=ALWAYS)
    await idle(there.operator)
    there.end(TEAM)
    await there.run("third", 0)
    there.end(CROWD)
    await there.run("third", 1)


async def test_a_pod_that_runs_counts_also_where_the_job_does_not_say_that_it_is_ready(
    there: Namespaces, cluster: BundleCluster
) -> None:
    cluster.pods = RUNNING
    there.add(CROWD, "shop", approval=ALWAYS)
    await there.start(1)
    await there.run(CROWD, 1)
    await there.reach(15)
    there.operator.queue.add(BundleKey(CROWD, "shop"))
    await there.reach(61)
    there.add(TEAM, "shop", approval=ALWAYS)
    await there.run(TEAM, 0)


async def test_two_plans_of_a_namespace_give_their_slots_back_and_no_more(
    there: Namespaces, cluster: BundleCluster
) -> None:
    cluster.pods = WAITING
    there.add(CROWD, *NAMES, approval=ALWAYS)
    await there.start(8)
    await there.run(CROWD, 4)
    there.add("one", *NAMES, approval=ALWAYS)
    await there.run("one", 4)
    there.start_pods("one")
    there.add(TEAM, *NAMES, approval=ALWAYS)
    await there.run(TEAM, 0)
    await there.reach(61)
    await there.run(TEAM, 2)
    await there.run(CROWD, 4)


@pytest.mark.needs("drift")
async def test_plans_that_may_not_begin_keep_no_check_from_it(
    there: Namespaces, cluster: BundleCluster, werf: Werf
) -> None:
    """Plans have precedence over checks, but not those beyond their namespace's half."""
    Release(cluster, werf, is_installed=True)
    there.add(CROWD, *NAMES, approval=ALWAYS)
    await there.start(4)
    await there.run(CROWD, 2)
    there.add(TEAM, "shop", drift=DETECT)
    await there.run(TEAM, 1)


async def test_a_restart_counts_the_same_plans(there: Namespaces, cluster: BundleCluster) -> None:
    cluster.pods = WAITING
    there.add(CROWD, *NAMES, approval=ALWAYS)
    await there.start(4)
    await there.run(CROWD, 2)
    await there.reach(61)
    await there.operator.stop(0.0)
    await there.start(4)
    there.operator.passed = timedelta(seconds=62)
    for namespace in ("one", "two"):
        there.add(namespace, *NAMES, approval=ALWAYS)
        await there.run(namespace, 2)
    await there.run(CROWD, 2)
