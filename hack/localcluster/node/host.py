"""What every pod of a node shares, and the requests that pods make through it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .api import Api, ApiError
from .stand_in import StandIn
from .status import timestamp
from .volumes import TokenSpec

log = logging.getLogger(__name__)
Object = Mapping[str, Any]
OWN_VARIABLES = "variables.json"
"""The file in the state directory with variables for all containers."""


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class Host:
    """One node.

    Attributes:
        api: its API server.
        name: the Node's name.
        directory: the state directory, where pods/ is.
        clock: tells the time.
        stand_in: runs the stand-in for werf for containers; None: they run it themselves.
    """

    api: Api
    name: str
    directory: Path
    clock: Callable[[], datetime] = _now
    stand_in: StandIn | None = None
    _told: set[tuple[str, str, str]] = field(default_factory=set)

    @property
    def pods(self) -> Path:
        """The directory of the pods' directories."""
        return self.directory / "pods"

    def pod_dir(self, pod: Object) -> Path:
        """A pod's own directory: its containers' output, volumes and views."""
        metadata = pod["metadata"]
        return self.pods / f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}"

    def own_variables(self) -> dict[str, str]:
        """What tests add to the environment of each container that starts from now on."""
        try:
            return dict(json.loads((self.directory / OWN_VARIABLES).read_text()))
        except FileNotFoundError:
            return {}

    def service_variables(self) -> dict[str, str]:
        """Where a pod finds the API server, as the kubelet says it."""
        address = urlsplit(self.api.connection.server)
        port = str(address.port or 443)
        return {
            "KUBERNETES_SERVICE_HOST": address.hostname or "",
            "KUBERNETES_SERVICE_PORT": port,
            "KUBERNETES_SERVICE_PORT_HTTPS": port,
        }

    async def token(self, pod: Object, spec: TokenSpec) -> str:
        """Ask for a token of the pod's service account, bound to the pod.

        Raises:
            ApiError: the account doesn't exist, or the pod is gone.
        """
        metadata = pod["metadata"]
        account = pod["spec"].get("serviceAccountName", "default")
        wanted: dict[str, Any] = {
            "expirationSeconds": spec.seconds,
            "boundObjectRef": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
        }
        if spec.audience:
            wanted["audiences"] = [spec.audience]
        path = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": wanted}
        answer = await self.api.request("POST", path, body)
        return str(answer["status"]["token"])

    async def warn(self, pod: Object, reason: str, message: str) -> None:
        """Record a Warning Event for a pod, once for each message; never fails."""
        metadata = pod["metadata"]
        namespace = metadata["namespace"]
        key = (metadata["uid"], reason, message)
        if key in self._told:
            return
        self._told.add(key)
        now = timestamp(self.clock())
        event = {
            "metadata": {
                "generateName": f"{metadata['name']}.",
                "namespace": metadata["namespace"],
            },
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": metadata["name"],
                "namespace": namespace,
                "uid": metadata["uid"],
            },
            "type": "Warning",
            "reason": reason,
            "message": message[:1024],
            "source": {"component": "kubelet", "host": self.name},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await self.api.request("POST", f"/api/v1/namespaces/{namespace}/events", event)
        except ApiError as error:
            log.debug("event %s for pod %s: %s", reason, metadata["name"], error)

    def forget(self, uid: str) -> None:
        """Forget which Events a pod that is gone has had."""
        self._told = {key for key in self._told if key[0] != uid}
