"""What every pod of a node shares, and the requests that pods make through it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .api import Api
from .stand_in import StandIn

Object = Mapping[str, Any]
OWN_VARIABLES = "variables.json"
"""The file in the state directory with variables for all containers."""
_TOKEN_SECONDS = 24 * 3600
"""More than any container runs: tokens aren't renewed."""


@dataclass(slots=True)
class Host:
    """One node.

    Attributes:
        api: its API server.
        name: the Node's name.
        directory: the state directory, where pods/ is.
        stand_in: runs the stand-in for werf for containers.
    """

    api: Api
    name: str
    directory: Path
    stand_in: StandIn

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

    async def token(self, pod: Object, audience: str | None) -> str:
        """Ask for a token of the pod's service account, bound to the pod.

        Raises:
            ApiError: the account doesn't exist, or the pod is gone.
        """
        metadata = pod["metadata"]
        account = pod["spec"].get("serviceAccountName", "default")
        wanted: dict[str, Any] = {
            "expirationSeconds": _TOKEN_SECONDS,
            "boundObjectRef": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
        }
        if audience:
            wanted["audiences"] = [audience]
        path = f"/api/v1/namespaces/{metadata['namespace']}/serviceaccounts/{account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": wanted}
        answer = await self.api.request("POST", path, body)
        return str(answer["status"]["token"])
