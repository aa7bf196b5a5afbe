"""The Node object and its Lease: how the control plane knows that this node lives."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
from datetime import UTC, datetime
from typing import Any

from .api import MERGE, Api, ApiError

log = logging.getLogger(__name__)
Object = dict[str, Any]

_RENEW = 8.0
"""Seconds between renewals of the Lease; the controller manager waits 40 for one."""
_LEASE_SECONDS = 40
_STATUS_EVERY = 30
"""Renewals between reports of the Node's status, about as a kubelet does (5 minutes)."""


async def keep(api: Api, name: str, log_port: int, registered: asyncio.Event) -> None:
    """Register a Node and keep it alive, for ever; also when somebody deletes it.

    Args:
        api: the API server.
        name: the Node's name.
        log_port: where the node serves logs.
        registered: set as soon as the Node exists and may be scheduled to.
    """
    turn = 0
    while True:
        try:
            if turn % _STATUS_EVERY == 0:
                await _register(api, name, log_port)
            await _renew(api, name)
            registered.set()
            turn += 1
        except ApiError as error:
            log.warning("node %s: %s; trying again", name, error)
            turn = 0
        await asyncio.sleep(_RENEW if turn else 1.0)


async def _register(api: Api, name: str, log_port: int) -> None:
    node = manifest(name, log_port)
    try:
        await api.request("POST", "/api/v1/nodes", node)
    except ApiError as error:
        if error.status != 409:
            raise
    status = {"status": node["status"]}
    await api.request("PATCH", f"/api/v1/nodes/{name}/status", status, content_type=MERGE)
    # A new Node is born with the taint not-ready, which the node controller takes off at its
    # leisure. This one is ready as soon as it is registered.
    await api.request(
        "PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, content_type=MERGE
    )


async def _renew(api: Api, name: str) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}"
    now = {"holderIdentity": name, "leaseDurationSeconds": _LEASE_SECONDS, "renewTime": _micro()}
    try:
        await api.request("PATCH", path, {"spec": now}, content_type=MERGE)
    except ApiError as error:
        if error.status != 404:
            raise
        # Also the answer while the namespace kube-node-lease is yet to be made.
        lease = {"metadata": {"name": name}, "spec": now}
        await api.request("POST", path.removesuffix(f"/{name}"), lease)
    # The Lease survives its Node; a Node that is gone must be registered again.
    await api.request("GET", f"/api/v1/nodes/{name}")


def manifest(name: str, log_port: int) -> Object:
    """The Node, with a status that makes it fit for any pod."""
    resources = {
        "cpu": str(max(16, os.cpu_count() or 1)),
        "memory": "64Gi",
        "ephemeral-storage": "100Gi",
        "pods": "250",
    }
    now = _micro()
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "ProcessNodeReady",
        "message": "process node",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": machine,
            },
            "annotations": {
                "copyrator.local/node": "runs containers as local processes, without isolation"
            },
        },
        "spec": {},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [ready],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": log_port}},
            "nodeInfo": {
                "kubeletVersion": "v1.34.4",
                "operatingSystem": "linux",
                "architecture": machine,
            },
        },
    }


def _micro() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
