"""The client and its watches against the real API server: what it really says and does."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from copyrator.api.reasons.rules import FailureReason
from copyrator.kube import errors
from copyrator.kube.auth import load_connection
from copyrator.kube.client.client import KubeClient, PatchType
from copyrator.kube.events import EventRecorder, ObjectRef
from copyrator.kube.resources import (
    CONFIGMAPS,
    NAMESPACES,
    RESOURCEQUOTAS,
    SECRETS,
    Discovery,
    Resource,
)
from copyrator.workqueue.limits import AdaptiveLimit
from localcluster import Cluster

MakeNamespace = Callable[..., str]


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[KubeClient]:
    connection = await load_connection(cluster.admin_kubeconfig)
    async with KubeClient(connection, limit=AdaptiveLimit()) as client:
        yield client


def named(name: str, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **fields}


# --- writes and errors ---------------------------------------------------------------------------


async def test_a_dry_run_changes_nothing_whatever_the_verb(
    cluster: Cluster, client: KubeClient, namespace: MakeNamespace
) -> None:
    ns = namespace()
    made = await client.create(SECRETS, ns, named("s", stringData={"a": "1"}))
    metadata = made["metadata"]
    told: list[str] = []
    connection = await load_connection(cluster.admin_kubeconfig)
    async with KubeClient(connection, on_dry_run=lambda call, _: told.append(call.verb)) as dry:
        await dry.create(SECRETS, ns, named("new"))
        body = {"metadata": metadata, "data": {"b": "Mg=="}}
        await dry.request("PUT", SECRETS.path(ns, "s"), body=body)
        for kind in (PatchType.MERGE, PatchType.APPLY):
            apply = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
            await dry.patch(SECRETS, ns, "s", {**apply, "data": {"b": "Mg=="}}, kind=kind)
        await dry.delete(SECRETS, ns, "s")
        await dry.delete(
            SECRETS, ns, "s", uid=metadata["uid"], resource_version=metadata["resourceVersion"]
        )
        await dry.request("DELETE", SECRETS.path(ns, "s"))
    assert told == ["create", "update", "patch", "patch", "delete", "delete", "delete"]
    assert await client.get(SECRETS, ns, "s") == made
    with pytest.raises(errors.NotFound):
        await client.get(SECRETS, ns, "new")


async def test_a_terminating_namespace_says_so(
    client: KubeClient, namespace: MakeNamespace
) -> None:
    ns = namespace()
    held = {"metadata": {"name": "held", "finalizers": ["test.copyrator/hold"]}}
    await client.create(CONFIGMAPS, ns, held)
    await client.delete(NAMESPACES, None, ns)
    try:
        with pytest.raises(errors.NamespaceTerminating):
            await client.create(CONFIGMAPS, ns, named("late"))
        recorder = EventRecorder(client)
        task = asyncio.create_task(recorder.run())
        recorder.record(
            ObjectRef("v1", "ConfigMap", ns, "held"), FailureReason.CONFLICT, "not possible"
        )
        recorder.record(
            ObjectRef("v1", "Namespace", "", ns), FailureReason.CONFLICT, "but here it is"
        )
        await recorder.flush(10)
        task.cancel()
        found = await client.request(
            "GET",
            "/api/v1/namespaces/default/events",
            params={"fieldSelector": f"involvedObject.name={ns}"},
        )
        assert [event["message"] for event in found["items"]] == ["but here it is"]
    finally:
        await client.patch(CONFIGMAPS, ns, "held", {"metadata": {"finalizers": None}})


async def test_a_used_up_quota_says_so(client: KubeClient, namespace: MakeNamespace) -> None:
    ns = namespace()
    quota = named("q", spec={"hard": {"count/secrets": "0"}})
    await client.create(RESOURCEQUOTAS, ns, quota)

    async def known() -> bool:
        """Whether admission knows of the quota: later than the quota's status does."""
        try:
            await client.request(
                "POST", SECRETS.path(ns), params={"dryRun": "All"}, body=named("probe")
            )
        except errors.QuotaExceeded:
            return True
        return False

    async with asyncio.timeout(20):
        while not await known():
            await asyncio.sleep(0.05)
    counted = "the ResourceQuota q counts count/secrets: 0 of 0 used, 1 requested"
    with pytest.raises(errors.QuotaExceeded, match=counted):
        await client.create(SECRETS, ns, named("s"))


# --- kinds ---------------------------------------------------------------------------------------


async def test_kinds_are_found_by_discovery(client: KubeClient) -> None:
    discovery = Discovery(client)
    deployments = await discovery.resolve("Deployment")
    assert deployments == Resource("apps", "v1", "deployments", "Deployment")
    assert await discovery.resolve("Deployment", "apps/v1") == deployments
    nodes = await discovery.resolve("Node")
    assert not nodes.namespaced
    assert await discovery.resolve("NetworkPolicy") == Resource(
        "networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"
    )
    with pytest.raises(errors.KindUnavailable, match="Unicorn"):
        await discovery.resolve("Unicorn")
    with pytest.raises(errors.KindUnavailable, match="apps/v9"):
        await discovery.resolve("Deployment", "apps/v9")
    with pytest.raises(errors.AmbiguousKind, match=r"events\.k8s\.io/v1 or v1"):
        await discovery.resolve("Event")
    assert (await discovery.resolve("Event", "v1")).group == ""


# --- lists and watches ---------------------------------------------------------------------------


async def test_a_short_watch_ends_with_a_bookmark(
    client: KubeClient, namespace: MakeNamespace
) -> None:
    """What `Timing.doubt` relies on: a stream shorter than a minute proves itself to be alive.

    There is a bookmark only if some object of the kind has changed meanwhile; see below.
    """
    ns, elsewhere = namespace(), namespace()
    pages = [page async for page in client.list_pages(CONFIGMAPS, ns)]
    started = time.monotonic()
    version = pages[-1].resource_version
    opened = asyncio.Event()

    async def change() -> None:
        await opened.wait()
        await client.create(CONFIGMAPS, elsewhere, named("c"))

    stream = client.watch(CONFIGMAPS, ns, resource_version=version, timeout=8, on_open=opened.set)
    async with asyncio.TaskGroup() as group:
        group.create_task(change())
        events = [event.type async for event in stream]
    assert "BOOKMARK" in events
    assert 6 <= time.monotonic() - started < 60  # without the timeout half an hour at least


async def test_a_short_watch_of_what_does_not_change_ends_by_itself(
    client: KubeClient, namespace: MakeNamespace
) -> None:
    """It mostly has no bookmark then: the regular end is what proves it to be alive."""
    ns = namespace()
    pages = [page async for page in client.list_pages(RESOURCEQUOTAS, ns)]
    version = pages[-1].resource_version
    started = time.monotonic()
    stream = client.watch(RESOURCEQUOTAS, ns, resource_version=version, timeout=3)
    assert {event.type async for event in stream} <= {"BOOKMARK"}
    assert 2 <= time.monotonic() - started < 60


# --- Events --------------------------------------------------------------------------------------


async def test_kubectl_describe_shows_events_with_their_count(
    cluster: Cluster, client: KubeClient, namespace: MakeNamespace
) -> None:
    ns = namespace()
    made = await client.create(CONFIGMAPS, ns, named("c"))
    now = [0.0]
    recorder = EventRecorder(client, clock=lambda: now[0])
    task = asyncio.create_task(recorder.run())
    ref = ObjectRef.of(made, "v1", "ConfigMap")
    for _ in range(4):
        recorder.record(ref, FailureReason.CONFLICT, "somebody else's object is in the way")
        await recorder.flush(10)
        now[0] += 61
    again = EventRecorder(client)  # as after a restart
    other = asyncio.create_task(again.run())
    again.record(ref, FailureReason.CONFLICT, "somebody else's object is in the way")
    await again.flush(10)
    for each in (task, other):
        each.cancel()
    shown = await asyncio.to_thread(cluster.kubectl, "describe", "configmap", "c", "-n", ns)
    line = next(text for text in shown.splitlines() if "in the way" in text)
    assert "Warning" in line
    assert "Conflict" in line
    assert "(x5 over" in line
    assert "copyrator" in line
