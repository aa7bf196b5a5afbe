"""While a namespace, or all of them, are frozen, no deploy begins."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from tests.component.bundles.approvals import condition, idle
from tests.component.bundles.conftest import Operator
from tests.component.bundles.fake_cluster import (
    TEAM,
    WAITING,
    BundleCluster,
    path_of,
)
from tests.component.bundles.fixture_types import Make, Run
from tests.component.bundles.freezing import (
    CONFIG,
    ending_in,
    freeze,
    freeze_all,
    gate,
    thaw,
    thaw_all,
    waits,
)
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry
from tests.long import LONG

from copyrator.api.keys import BundleKey
from copyrator.api.names import ANN_FORCE_AT, ANN_GIVEN_UP, ANN_REQUESTED_AT
from copyrator.api.reasons import AnyReason
from copyrator.kube.events import ObjectRef, event_type

pytestmark = pytest.mark.usefixtures("registry")

MANY = 1_000 if LONG else 50
LATE = 600 if LONG else 120
"""Seconds in which they all have written on a loaded machine."""


async def test_from_the_first_deploy_after_a_start_on_nothing_begins_until_it_is_thawed(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    freeze(cluster)
    bundle()
    await run()
    await waits(cluster)
    assert condition(cluster, "Ready") == ("Unknown", "Frozen")
    assert condition(cluster, "Reconciling")[0] == "True"
    assert condition(cluster, "UpdatePending") == ("True", "Frozen")
    assert "namespace team is frozen: holidays" in cluster.message()
    assert "until" not in gate(cluster)
    assert cluster.jobs() == []

    thaw(cluster)

    await eventually(lambda: cluster.reason() == "Deployed")
    assert "gates" not in cluster.status()
    assert condition(cluster, "UpdatePending") == ("", ""), "the Bundle has no gates of its own"


async def test_a_running_release_stays_ready_and_a_force_waits_too(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make
) -> None:
    bundle(version="1.*")
    await run(timer_interval=1.0)
    await eventually(lambda: cluster.reason() == "Deployed")
    freeze_all(cluster, reason="holidays", who="ann")
    registry.put("app", "1.1.0", "next")
    await waits(cluster)
    assert condition(cluster, "Ready") == ("True", "Deployed")
    assert condition(cluster, "UpdatePending") == ("True", "Frozen")
    assert gate(cluster)["message"] == "all namespaces are frozen by ann: holidays"

    cluster.change("bundles", "shop", metadata={"annotations": {ANN_FORCE_AT: "now"}})
    await eventually(lambda: condition(cluster, "Ready") == ("Unknown", "Frozen"))
    assert len(cluster.jobs()) == 1

    thaw_all(cluster)
    await eventually(lambda: cluster.status()["deployed"]["version"] == "1.1.0")
    assert cluster.status()["lastHandledForce"] == "now"


async def test_the_release_namespace_counts_too(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    cluster.namespace("elsewhere")
    freeze(cluster, namespace="elsewhere")
    cluster.namespace("another")
    freeze(cluster, namespace="another")
    cluster.grant("elsewhere")
    bundle(project_namespace="elsewhere")
    await run()
    await waits(cluster)
    assert gate(cluster)["message"] == "namespace elsewhere is frozen: holidays"

    thaw(cluster, "elsewhere")

    await eventually(lambda: cluster.reason() == "Deployed")


async def test_it_ends_by_itself_at_its_end_and_not_before(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    until, value = ending_in(3600)
    freeze(cluster, value)
    bundle()
    operator = await run()
    await waits(cluster)
    assert gate(cluster)["until"] == until.strftime("%Y-%m-%dT%H:%M:%SZ")
    await operator.stop()
    operator = await run(ahead=timedelta(minutes=50))
    await waits(cluster)
    assert not cluster.jobs()

    operator.let_pass(timedelta(minutes=10))

    await eventually(cluster.jobs)
    await eventually(lambda: cluster.reason() == "Deployed")


async def test_a_job_whose_pod_has_not_started_is_ended_and_does_not_count(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    ends, cluster.ends, cluster.pods = cluster.ends, None, WAITING
    bundle(retry={"limit": 1, "backoff": "1h"})
    operator = await run()
    await eventually(cluster.jobs)
    name = cluster.runs[0]

    freeze(cluster)

    job = await eventually(lambda: given_up(cluster, name))
    assert job["spec"]["activeDeadlineSeconds"] == 1
    await idle(operator)
    assert cluster.status()["attempted"]["outcome"] == "Running", "until it has ended"
    cluster.end_without_pod(name)
    await waits(cluster)
    attempted = cluster.status()["attempted"]
    assert (attempted["outcome"], attempted["reason"]) == ("Interrupted", "Frozen")
    assert not attempted.get("failures")
    assert not attempted.get("interruptions")
    cluster.ends = ends
    thaw(cluster)
    await eventually(lambda: cluster.reason() == "Deployed")
    assert len(cluster.runs) == 2


def given_up(cluster: BundleCluster, name: str) -> dict[str, Any] | None:
    job = cluster.objects[path_of("jobs", name)]
    annotations = job["metadata"]["annotations"]
    return job if annotations.get(ANN_GIVEN_UP) == "Frozen" else None


async def test_a_job_without_a_pod_is_ended_and_a_running_deploy_goes_on(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    cluster.ends = None
    bundle("shop")
    await run()
    await eventually(cluster.jobs)
    cluster.pods = None
    bundle("cart")
    await eventually(lambda: len(cluster.jobs()) == 2)
    shop, cart = cluster.runs

    freeze_all(cluster)

    await eventually(lambda: given_up(cluster, cart))
    cluster.change("jobs", shop, metadata={"labels": {"touched": "true"}})
    cluster.end_job(shop, 0, '{"status": "deployed", "revision": 1}')
    await eventually(lambda: cluster.reason("shop") == "Deployed")
    assert not given_up(cluster, shop)


async def test_a_request_that_a_freeze_delays_is_said_to_wait_and_handled_when_it_ends(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    bundle()
    await run()
    await eventually(lambda: cluster.reason() == "Deployed")
    freeze_all(cluster)
    cluster.change("bundles", "shop", metadata={"annotations": {ANN_REQUESTED_AT: "now"}})
    await eventually(lambda: cluster.status().get("lastFailedRequest") == "now")
    assert condition(cluster, "UpdatePending") == ("True", "Frozen")
    thaw_all(cluster)
    await eventually(lambda: cluster.status().get("lastHandledRequest") == "now")
    assert "lastFailedRequest" not in cluster.status()


async def test_an_uninstall_goes_on(cluster: BundleCluster, run: Run, bundle: Make) -> None:
    bundle()
    await run()
    await eventually(lambda: cluster.reason() == "Deployed")
    freeze_all(cluster)
    freeze(cluster)
    cluster.drop(path_of("bundles", "shop"))
    await eventually(lambda: cluster.look("bundles", "shop") is None)
    assert len(cluster.jobs("uninstall")) == 1


async def test_an_annotation_that_can_not_be_read_freezes_its_namespace_alone(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    freeze(cluster, "x" * 5000)
    bundle()
    operator = await run()
    await waits(cluster, "FreezeUnreadable")
    assert "copyrator thaw -n team" in cluster.message()
    assert operator.controller.checks["freeze"]() is None

    freeze(cluster, "holidays")
    await waits(cluster, "Frozen")


async def test_a_config_map_that_can_not_be_read_freezes_and_readiness_says_why(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    freeze_all(cluster, unti="tomorrow")
    bundle()
    operator = await run()
    await waits(cluster, "FreezeUnreadable")
    assert (
        "ConfigMap default/copyrator-freeze can't be read" in operator.controller.checks["freeze"]()
    )

    freeze_all(cluster, reason="holidays")
    await waits(cluster, "Frozen")
    assert operator.controller.checks["freeze"]() is None


async def test_a_missing_permission_freezes_until_it_is_granted(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    refusals = cluster.refuse("list", "/namespaces/default/configmaps", 403, "you may not")
    cluster.refuse("get", CONFIG, 403, "you may not")
    bundle()
    operator = await run()
    await waits(cluster, "FreezeUnreadable")
    assert "you may not" in operator.controller.checks["freeze"]()

    refusals.clear()

    await eventually(lambda: cluster.reason() == "Deployed")
    assert operator.controller.checks["freeze"]() is None


async def test_nothing_is_deployed_before_it_is_known_what_is_frozen(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    bundle("old")
    operator = await run()
    await eventually(lambda: cluster.reason("old") == "Deployed")
    await operator.stop()
    refusals = cluster.refuse("list", "/api/v1/namespaces", 500, "not yet")
    bundle()
    cluster.drop(path_of("bundles", "old"))
    await run()
    await eventually(lambda: cluster.look("bundles", "old") is None, "an uninstall doesn't wait")
    freeze(cluster)
    assert len(cluster.jobs()) == 1

    refusals.clear()

    await waits(cluster)
    assert len(cluster.jobs()) == 1


async def test_who_looks_at_the_namespace_sees_that_it_was_seen(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    told: list[tuple[str, str, str]] = []

    def tell(about: ObjectRef, reason: AnyReason, *_: Any, **_more: Any) -> None:
        if about.kind != "Bundle":
            told.append((about.kind, event_type(reason), reason))

    cluster.namespace("old")
    freeze(cluster, namespace="old")
    bundle()
    await run(recorder=SimpleNamespace(record=tell))
    await eventually(lambda: cluster.reason() == "Deployed")
    freeze(cluster)
    freeze(cluster, "{")
    thaw(cluster)
    await eventually(lambda: len(told) == 3)  # of the ConfigMap another watch tells
    freeze_all(cluster)
    thaw_all(cluster)
    await eventually(lambda: len(told) == 5)
    assert told == [
        ("Namespace", "Normal", "Frozen"),
        ("Namespace", "Warning", "FreezeUnreadable"),
        ("Namespace", "Normal", "Thawed"),
        ("ConfigMap", "Normal", "Frozen"),
        ("ConfigMap", "Normal", "Thawed"),
    ]


async def test_the_gauges_count_what_is_in_force(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    for name, value in (("a", "x"), ("b", "x"), ("c", "{"), ("d", ending_in(-5)[1])):
        cluster.namespace(name)
        freeze(cluster, value, name)
    freeze_all(cluster)
    operator = await run()
    await eventually(lambda: freezes(operator, "all") == 1)
    await eventually(lambda: freezes(operator, "namespace") == 2)
    await eventually(lambda: freezes(operator, "namespace", "FreezeUnreadable") == 1)
    assert freezes(operator, "all", "FreezeUnreadable") == 0


def freezes(operator: Operator, scope: str, reason: str = "Frozen") -> float | None:
    """The gauge of freezes."""
    operator.controller.publish()
    registry, labels = operator.metrics.registry, {"scope": scope, "reason": reason}
    return registry.get_sample_value("copyrator_freezes", labels)


async def test_many_frozen_bundles_cost_nothing_until_something_happens(
    cluster: BundleCluster,
    registry: FakeRegistry,
    run: Run,
    bundle: Make,
) -> None:
    freeze(cluster)
    for number in range(MANY):
        bundle(f"shop-{number}")
    operator = await run()
    await eventually(lambda: frozen(cluster) == MANY, "all wait", LATE)
    await eventually(lambda: not operator.queue.working and not len(operator.queue))
    seen, asked = len(cluster.seen), len(registry.asked)
    assert cluster.bundle_writes() <= 2 * MANY, "a finalizer and a status each"
    reconciled = len(operator.reconciled)
    cluster.namespace("other")
    freeze(cluster, namespace="other")
    await eventually(lambda: freezes(operator, "namespace") == 2)
    await eventually(lambda: not operator.queue.working and not len(operator.queue))
    assert operator.reconciled[reconciled:] == [], "another namespace's freeze is none of theirs"
    requests = [one for one in cluster.seen[seen:] if "events" not in one.path]
    assert [one for one in requests if not one.params.get("watch")] == []
    assert len(registry.asked) == asked
    due = [operator.scheduler.due(BundleKey(TEAM, f"shop-{n}")) for n in range(MANY)]
    known = [one for one in due if one is not None]
    assert max(known) - min(known) < 1, "nothing is due but the poll that they share"
    left = timedelta(seconds=min(known) - operator.monotonic() - 1)
    operator.let_pass(max(left, timedelta()))
    await idle(operator)
    assert operator.reconciled[reconciled:] == [], "none wakes by itself"


def frozen(cluster: BundleCluster) -> int:
    return sum(gate(cluster, f"shop-{n}").get("reason") == "Frozen" for n in range(MANY))


async def test_a_thaw_while_the_wait_is_being_written_is_not_missed(
    cluster: BundleCluster, run: Run, bundle: Make
) -> None:
    """The Bundle isn't known to wait yet, so that the thaw alone doesn't queue it."""
    freeze(cluster)
    operators: list[Any] = []
    thawed: list[str] = []

    async def thawing(request: web.Request) -> web.StreamResponse:
        answer = await cluster.serve(request)
        if "Frozen" in await request.text() and not thawed:
            thawed.append(request.path)
            thaw(cluster)
            await eventually(lambda: freezes(operators[0], "namespace") == 0)
        return answer

    cluster.always("patch", thawing)
    operators.append(await run())
    bundle()
    await eventually(lambda: cluster.reason() == "Deployed")
    assert thawed
