"""What is said first where the operator is down: by its Lease, in the API server's time."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from copyrator.api.text import format_micro_time, format_time
from copyrator.cli.core.installation import Installation, find_installation
from copyrator.cli.view.operator import read_downtime, wait_reasons
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


@pytest.mark.parametrize(
    ("objects", "text"),
    [
        pytest.param(
            {"leases": [lease(180)], "deployments": [deployment(0)]},
            f"{AGO}: the Deployment op/copyrator is scaled to 0. {THEN}; {SEE}",
            id="scaled to 0",
        ),
        pytest.param(
            {
                "leases": [lease(180)],
                "deployments": [deployment()],
                "pods": [pod("CrashLoopBackOff", "back-off 5m0s", exitCode=2, reason="Error")],
            },
            f"{AGO}: no pod of the Deployment op/copyrator is ready: p: CrashLoopBackOff: back-off "
            f"5m0s (exit code 2, Error). {THEN}; {SEE}",
            id="crash looping",
        ),
        pytest.param(
            {
                "leases": [lease(180)],
                "deployments": [deployment()],
                "pods": [pod("ImagePullBackOff", "no such image")],
            },
            f"{AGO}: no pod of the Deployment op/copyrator is ready: p: ImagePullBackOff: no such "
            f"image. {THEN}; {SEE}",
            id="no image",
        ),
        pytest.param(
            {"leases": [lease(180)], "deployments": [deployment()]},
            f"{AGO}: no pod of the Deployment op/copyrator is ready: there are none. {THEN}; {SEE}",
            id="no pods",
        ),
        pytest.param(
            {"leases": [lease(180)], "deployments": [deployment()], "pods": DENIED},
            f"{AGO}: no pod of the Deployment op/copyrator is ready: you have no permission to "
            f"list them. {THEN}; {SEE}",
            id="pods may not be listed",
        ),
        pytest.param(
            {"leases": [lease(180)], "deployments": [deployment(2, 1)]},
            f"{AGO}: the Deployment op/copyrator has 1 of 2 pods ready. {THEN}; {SEE}",
            id="a pod that can't renew it",
        ),
        pytest.param(
            {"leases": [lease(180)], "deployments": DENIED},
            f"{AGO}. {THEN}; {SEE}",
            id="the Deployment may not be read",
        ),
        pytest.param(
            {"leases": [lease(-3600, written=180)], "deployments": [deployment(0)]},
            f"{AGO}: the Deployment op/copyrator is scaled to 0. {THEN}; {SEE}",
            id="the clock of its node is fast",
        ),
        pytest.param(
            {"leases": [lease(180), lease(5000, namespace="former")]},
            f"{AGO}. {THEN}; {SEE}",
            id="a Lease of a former installation",
        ),
        pytest.param(
            {"deployments": [deployment(0)]},
            "The operator is down: its Lease op/copyrator doesn't exist; the Deployment "
            f"op/copyrator is scaled to 0. What follows may be out of date; {SEE}",
            id="no Lease",
        ),
        pytest.param(
            {},
            "No operator was found in the cluster: there is neither a Deployment with the label "
            "app.kubernetes.io/name=copyrator nor a Lease copyrator. What follows may be out of "
            "date; see: copyrator doctor",
            id="nothing installed",
        ),
    ],
)
def test_why_it_is_down_and_since_when(objects, text):
    assert said(Cluster(**objects)) == [text]


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param(
            {"leases": [lease(3)], "deployments": [deployment(0)]}, id="it runs elsewhere"
        ),
        pytest.param({"leases": [lease(10)], "deployments": [deployment()]}, id="the last moment"),
        pytest.param(
            {"leases": [lease(600, written=2)], "deployments": [deployment(1, 1)]},
            id="the clock of its node is slow",
        ),
        pytest.param({"leases": DENIED, "deployments": [deployment(0)]}, id="no permission"),
        pytest.param({"leases": DENIED, "deployments": DENIED}, id="no permission at all"),
        pytest.param({"leases": [], "deployments": DENIED}, id="its Lease may have another name"),
        pytest.param(
            {"deployments": [deployment(1, 1, "--no-leader-election")]}, id="it needs no Lease"
        ),
        pytest.param({"leases": errors.Unreachable("no answer")}, id="the API server fails"),
    ],
)
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


def test_a_pods_reasons_are_those_of_its_containers_and_its_node():
    found = pod("ImagePullBackOff", "no such image")
    found["status"]["containerStatuses"].append({"state": {"running": {}}})
    found["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
    ]
    assert list(wait_reasons(found)) == [
        "p: ImagePullBackOff: no such image",
        "p: Unschedulable: no",
    ]
