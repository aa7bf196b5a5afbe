"""lightkube, as the question of clients uses one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from lightkube import AsyncClient, KubeConfig
from lightkube.generic_resource import create_namespaced_resource
from lightkube.types import PatchType

Secret: Any = create_namespaced_resource("", "v1", "Secret", "secrets")


class Lightkube:
    """Generic resources: the typed ones drop fields that they don't know."""

    def __init__(self, client: Any) -> None:
        self._client = client

    @classmethod
    async def connect(cls, kubeconfig: str) -> Lightkube:
        """Load the kubeconfig."""
        return cls(AsyncClient(KubeConfig.from_file(kubeconfig).get(), trust_env=False))

    async def close(self) -> None:
        """Close the session."""
        await self._client.close()

    async def create(self, body: dict[str, Any]) -> Any:
        """POST."""
        return await self._client.create(Secret(body))

    async def read(self, namespace: str, name: str) -> Any:
        """GET."""
        return await self._client.get(Secret, name, namespace=namespace)

    async def replace(self, body: dict[str, Any]) -> Any:
        """PUT."""
        return await self._client.replace(Secret(body))

    async def patch(self, namespace: str, name: str, body: dict[str, Any]) -> Any:
        """PATCH, as a merge patch."""
        return await self._client.patch(
            Secret, name, body, namespace=namespace, patch_type=PatchType.MERGE
        )

    async def delete(self, namespace: str, name: str) -> Any:
        """DELETE."""
        await self._client.delete(Secret, name, namespace=namespace)

    async def list(self, namespace: str, *, metadata_only: bool) -> tuple[int, str]:
        """All in pages: how many, and the list's resourceVersion."""
        if metadata_only:
            raise NotImplementedError  # no way to set a list's Accept
        found = self._client.list(Secret, namespace=namespace, chunk_size=500)
        count = 0
        async for _ in found:
            count += 1
        return count, found.resourceVersion

    async def watch(self, namespace: str, version: str) -> AsyncIterator[Any]:
        """The events after a resourceVersion."""
        events = self._client.watch(Secret, namespace=namespace, resource_version=version)
        async for _, found in events:
            yield found

    def retry_after(self, error: Exception) -> float | None:
        """What a 429 asked for."""
        answer = getattr(error, "response", None)
        told = answer.headers.get("Retry-After") if answer is not None else None
        return float(told) if told else None
