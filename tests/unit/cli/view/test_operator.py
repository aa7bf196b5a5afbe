"""What is said first where the operator is down: by its Lease, in the API server's time."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from copyrator.api.text import format_micro_time, format_time
from copyrator.cli.core.installation import Installation, find_installation
from copyrator.cli.view.operator import read_downtime
from copyrator.kube import errors
from copyrator.kube.resources import Resource

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
"""By the API server's clock, whatever that of this machine says."""
AGO = "The operator has been down for 3m"
THEN = "What follows is as of 2026-01-02T11:57:00Z, when its Lease op/copyrator was last renewed"
SEE = "see: copyrator doctor -n op"
DENIED = errors.Forbidden('User "ann" cannot list')


def lease(seconds: float, *, namespace: str = "op", written: float | None = None) -> dict[str, Any]:
    """Renewed so long ago by the holder's clock, and written by the API server's."""
    stamp = format_micro_time(NOW - timedelta(seconds=seconds))
    fields = [] if written is None else [{"time": format_time(NOW - timedelta(seconds=written))}]
    return {
        "metadata": {"namespace": namespace, "name": "copyrator", "managedFields": fields},
        "spec": {"holderIdentity": "one", "renewTime": stamp, "leaseDurationSeconds": 10},
    }


def deployment(
    replicas: int = 1, ready: int = 0, *args: str, namespace: str = "op"
) -> dict[str, Any]:
    container = {"name": "copyrator", "image": "i", "args": ["run", *args]}
    container["env"] = [{"name": "POD_NAMESPACE"}]
    return {
        "metadata": {"namespace": namespace, "name": "copyrator"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "copyrator"}},
            "template": {"spec": {"containers": [container]}},
        },
        "status": {"readyReplicas": ready},
    }


def pod(reason: str, message: str = "", /, **last: Any) -> dict[str, Any]:
    state: dict[str, Any] = {"state": {"waiting": {"reason": reason, "message": message}}}
    if last:
        state["lastState"] = {"terminated": last}
    metadata = {"namespace": "op", "name": "p"}
    return {"metadata": metadata, "status": {"containerStatuses": [state]}}


UNSCHEDULABLE = pod("ContainerCreating")
UNSCHEDULABLE["status"] = {
    "containerStatuses": [{"state": {"running": {}}}],
    "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
    ],
}


class Cluster:
    """What may be read of Deployments, Leases and pods; an error in place of some is raised."""

    server_time = NOW

    def __init__(self, **objects: list[dict[str, Any]] | errors.ApiError) -> None:
        self.objects = objects
        self.requests: list[str] = []

    def _of(self, resource: Resource) -> list[dict[str, Any]]:
        found = self.objects.get(resource.plural, [])
        if isinstance(found, errors.ApiError):
            raise found
        return found

    async def get(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
        self.requests.append(f"get {resource.plural}")
        for one in self._of(resource):
            if (one["metadata"]["namespace"], one["metadata"]["name"]) == (namespace, name):
                return one
        raise errors.NotFound("no")

    async def list_pages(self, resource: Resource, namespace: str | None, **_: Any) -> Any:
        self.requests.append(f"list {resource.plural}")
        found = [
            one for one in self._of(resource) if namespace in (None, one["metadata"]["namespace"])
        ]
        yield type("Page", (), {"items": found})


def said(cluster: Cluster, home: str | None = None, scope: str | None = None) -> list[str]:
    async def read() -> list[str]:
        client = cast("Any", cluster)

        async def find() -> Installation:
            return await find_installation(client, home)

        return await read_downtime(client, find(), [scope])

    return asyncio.run(read())


NOT_READY = f"{AGO}: no pod of the Deployment op/copyrator is ready:"
NO_LEASE = (
    "The operator is down: its Lease op/copyrator doesn't exist; the Deployment op/copyrator is "
    f"scaled to 0. What follows may be out of date; {SEE}"
)
NOTHING = (
    "No operator was found in the cluster: there is neither a Deployment with the label "
    "app.kubernetes.io/name=copyrator nor a Lease copyrator. What follows may be out of date; "
    "see: copyrator doctor"
)
DOWN: dict[str, tuple[dict[str, Any], str]] = {
    "scaled to 0": (
        {"deployments": [deployment(0)]},
        f"{AGO}: the Deployment op/copyrator is scaled to 0. {THEN}; {SEE}",
    ),
    "crash looping": (
        {"pods": [pod("CrashLoopBackOff", "back-off 5m0s", exitCode=2, reason="Error")]},
        f"{NOT_READY} p: CrashLoopBackOff: back-off 5m0s (exit code 2, Error). {THEN}; {SEE}",
    ),
    "no image": (
        {"pods": [pod("ImagePullBackOff", "no such image")]},
        f"{NOT_READY} p: ImagePullBackOff: no such image. {THEN}; {SEE}",
    ),
    "no node": ({"pods": [UNSCHEDULABLE]}, f"{NOT_READY} p: Unschedulable: no. {THEN}; {SEE}"),
    "no pods": ({}, f"{NOT_READY} there are none. {THEN}; {SEE}"),
    "pods may not be listed": (
        {"pods": DENIED},
        f"{NOT_READY} you have no permission to list them. {THEN}; {SEE}",
    ),
    "a pod that can't renew it": (
        {"deployments": [deployment(2, 1)]},
        f"{AGO}: the Deployment op/copyrator has 1 of 2 pods ready. {THEN}; {SEE}",
    ),
    "the Deployment may not be read": ({"deployments": DENIED}, f"{AGO}. {THEN}; {SEE}"),
    "the clock of its node is fast": (
        {"leases": [lease(-3600, written=180)], "deployments": [deployment(0)]},
        f"{AGO}: the Deployment op/copyrator is scaled to 0. {THEN}; {SEE}",
    ),
    "a Lease of a former installation": (
        {"leases": [lease(180), lease(5000, namespace="former")], "deployments": []},
        f"{AGO}. {THEN}; {SEE}",
    ),
    "no Lease": (
        {"leases": [], "deployments": [deployment(0)]},
        NO_LEASE,
    ),
    "nothing installed": (
        {"leases": [], "deployments": []},
        NOTHING,
    ),
}


@pytest.mark.parametrize(("objects", "text"), DOWN.values(), ids=DOWN)
def test_why_it_is_down_and_since_when(objects, text):
    there = {"leases": [lease(180)], "deployments": [deployment()]} | objects
    assert said(Cluster(**there)) == [text]


WELL: dict[str, dict[str, Any]] = {
    "it runs elsewhere": {"leases": [lease(3)], "deployments": [deployment(0)]},
    "the last moment": {"leases": [lease(10)], "deployments": [deployment()]},
    "the clock of its node is slow": {
        "leases": [lease(600, written=2)],
        "deployments": [deployment(1, 1)],
    },
    "no permission": {"leases": DENIED, "deployments": [deployment(0)]},
    "no permission at all": {"leases": DENIED, "deployments": DENIED},
    "its Lease may have another name": {"deployments": DENIED},
    "it needs no Lease": {"deployments": [deployment(1, 1, "--no-leader-election")]},
    "the API server fails": {"leases": errors.Unreachable("no answer")},
}


@pytest.mark.parametrize("objects", WELL.values(), ids=WELL)
def test_without_evidence_nothing_is_said(objects):
    assert said(Cluster(**objects)) == []


def two() -> Cluster:
    """One that serves a and b, and is down, and one that serves c."""
    return Cluster(
        deployments=[
            deployment(0, 0, "--watch-namespaces=a,b", namespace="one"),
            deployment(1, 1, "--watch-namespaces=c", namespace="two"),
        ],
        leases=[lease(180, namespace="one"), lease(1, namespace="two")],
    )


@pytest.mark.parametrize(
    ("home", "scope", "is_down"),
    [
        pytest.param(None, "a", True, id="its namespace"),
        pytest.param(None, "c", False, id="a namespace of the other"),
        pytest.param(None, None, True, id="all namespaces"),
        pytest.param("one", None, True, id="it is named"),
        pytest.param("two", None, False, id="the other is named"),
    ],
)
def test_of_two_operators_the_one_that_is_meant_counts(home, scope, is_down):
    found = said(two(), home, scope)
    assert [one.partition(" has")[0] for one in found] == ["The operator for a, b"] * is_down


def test_while_it_runs_one_more_object_is_read():
    cluster = Cluster(leases=[lease(1)], deployments=[deployment()])
    said(cluster)
    assert cluster.requests == ["list deployments", "get leases"]
