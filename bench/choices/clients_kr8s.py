"""kr8s, as the question of clients uses one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import kr8s.asyncio
from kr8s.asyncio.objects import Secret


class Kr8s:
    """Its objects; what it has none for by its call_api, whose answers are httpx's."""

    def __init__(self, api: Any) -> None:
        self._api = api

    @classmethod
    async def connect(cls, kubeconfig: str) -> Kr8s:
        """Load the kubeconfig."""
        return cls(await kr8s.asyncio.api(kubeconfig=kubeconfig))

    async def close(self) -> None:
        """Close the session: there is no public way."""

    async def create(self, body: dict[str, Any]) -> Any:
        """POST."""
        secret = await Secret(body, api=self._api)
        await secret.create()
        return secret.raw

    async def read(self, namespace: str, name: str) -> Any:
        """GET."""
        secret = await Secret(_named(namespace, name), api=self._api)
        await secret.refresh()
        return secret.raw

    async def replace(self, body: dict[str, Any]) -> Any:
        """PUT: objects can only be patched."""
        metadata = body["metadata"]
        async with self._api.call_api(
            "PUT",
            namespace=metadata["namespace"],
            url=f"secrets/{metadata['name']}",
            content=json.dumps(body),
        ) as answer:
            return answer.json()

    async def patch(self, namespace: str, name: str, body: dict[str, Any]) -> Any:
        """PATCH, as a merge patch."""
        secret = await Secret(_named(namespace, name), api=self._api)
        await secret.patch(body)
        return secret.raw

    async def delete(self, namespace: str, name: str) -> Any:
        """DELETE."""
        secret = await Secret(_named(namespace, name), api=self._api)
        await secret.delete()

    async def list(self, namespace: str, *, metadata_only: bool) -> tuple[int, str]:
        """All in pages of 100: how many; it doesn't tell the list's resourceVersion."""
        if metadata_only:
            raise NotImplementedError  # only of one object: as_object turns the pages off
        count, newest = 0, 0
        async for found in self._api.get(Secret, namespace=namespace):
            count += 1
            newest = max(newest, int(found.metadata.resourceVersion))
        return count, str(newest)

    async def watch(self, namespace: str, version: str) -> AsyncIterator[Any]:
        """The events after a resourceVersion."""
        async for _, found in self._api.watch(Secret, namespace=namespace, since=version):
            yield found

    def retry_after(self, error: Exception) -> float | None:
        """What a 429 asked for."""
        answer = getattr(error, "response", None)
        told = answer.headers.get("Retry-After") if answer is not None else None
        return float(told) if told else None


def _named(namespace: str, name: str) -> dict[str, Any]:
    return {"metadata": {"namespace": namespace, "name": name}}
