"""The operator's client (`copyrator.kube`), as the question of clients uses one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from copyrator.kube.auth import load_connection
from copyrator.kube.client.client import KubeClient
from copyrator.kube.errors import ApiError
from copyrator.kube.resources import SECRETS


class Today:
    """copyrator.kube.client."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self.close = client.close

    @classmethod
    async def connect(cls, kubeconfig: str) -> Today:
        """Load the kubeconfig."""
        return cls(KubeClient(await load_connection(kubeconfig)))

    async def create(self, body: dict[str, Any]) -> Any:
        """POST."""
        return await self._client.create(SECRETS, body["metadata"]["namespace"], body)

    async def read(self, namespace: str, name: str) -> Any:
        """GET."""
        return await self._client.get(SECRETS, namespace, name)

    async def replace(self, body: dict[str, Any]) -> Any:
        """PUT."""
        metadata = body["metadata"]
        path = SECRETS.path(metadata["namespace"], metadata["name"])
        return await self._client.request("PUT", path, body=body)

    async def patch(self, namespace: str, name: str, body: dict[str, Any]) -> Any:
        """PATCH, as a merge patch."""
        return await self._client.patch(SECRETS, namespace, name, body)

    async def delete(self, namespace: str, name: str) -> Any:
        """DELETE."""
        return await self._client.delete(SECRETS, namespace, name)

    async def list(self, namespace: str, *, metadata_only: bool) -> tuple[int, str]:
        """All in pages: how many, and the list's resourceVersion."""
        count, version = 0, ""
        pages = self._client.list_pages(SECRETS, namespace, metadata_only=metadata_only, limit=500)
        async for page in pages:
            count += sum(1 for _ in page.items)
            version = page.resource_version
        return count, version

    async def watch(self, namespace: str, version: str) -> AsyncIterator[Any]:
        """The events after a resourceVersion."""
        async for event in self._client.watch(SECRETS, namespace, resource_version=version):
            if event.type != "BOOKMARK":
                yield event.object

    def retry_after(self, error: Exception) -> float | None:
        """What a 429 asked for."""
        return error.retry_after if isinstance(error, ApiError) else None
