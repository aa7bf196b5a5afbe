"""The Node object, which nobody takes for dead: components.py leaves that controller out."""

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


async def register(api: Api, name: str, log_port: int) -> None:
    """Make a Node, or take it over from an earlier run; tried until it is done.

    Args:
        api: the API server.
        name: the Node's name.
        log_port: where the node serves logs.
    """
    node = manifest(name, log_port)
    path = f"/api/v1/nodes/{name}"
    while True:
        try:
            try:
                await api.request("POST", "/api/v1/nodes", node)
            except ApiError as error:
                if error.status != 409:
                    raise
            status = {"status": node["status"]}
            await api.request("PATCH", f"{path}/status", status, content_type=MERGE)
            # A new Node is born with the taint not-ready.
            untainted = {"spec": {"taints": None}}
            await api.request("PATCH", path, untainted, content_type=MERGE)
        except ApiError as error:
            log.warning("node %s: %s; trying again", name, error)
            await asyncio.sleep(1.0)
        else:
            return


def manifest(name: str, log_port: int) -> Object:
    """The Node, with a status that makes it fit for any pod."""
    resources = {
        "cpu": str(max(16, os.cpu_count() or 1)),
        "memory": "64Gi",
        "ephemeral-storage": "100Gi",
        "pods": "250",
    }
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
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
