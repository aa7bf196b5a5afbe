"""`kubernetes.aio`: its REST client with raw responses, as the question of clients uses one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import load_kube_config

_METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


class RefusedError(Exception):
    """An answer that isn't good: the raw client returns it like any other."""

    def __init__(self, status: int, retry_after: str | None) -> None:
        super().__init__(str(status))
        self.retry_after = retry_after


async def _api(kubeconfig: str) -> ApiClient:
    configuration = Configuration()
    await load_kube_config(config_file=kubeconfig, client_configuration=configuration)  # type: ignore[no-untyped-call]
    # Else aiohttp looks for proxies and a .netrc before each request: half of its time.
    configuration.client_session_kwargs = {"trust_env": False}
    return ApiClient(configuration)


class Raw:
    """ApiClient.call_api, decoded by msgspec."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self.close = api.close

    @classmethod
    async def connect(cls, kubeconfig: str) -> Raw:
        """Load the kubeconfig."""
        return cls(await _api(kubeconfig))

    async def _call(
        self, method: str, url: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Any:
        answer = await self._open(method, url, body, headers or {})
        raw: bytes = await answer.read()
        return msgspec.json.decode(raw)

    async def _open(self, method: str, url: str, body: Any, headers: dict[str, str]) -> Any:
        configuration = self._api.configuration
        headers = {"Accept": "application/json", **headers}
        headers["authorization"] = await configuration.get_api_key_with_prefix("BearerToken")
        answer = await self._api.call_api(method, configuration.host + url, headers, body)
        if answer.status >= 300:
            await answer.read()  # type: ignore[no-untyped-call]
            raise RefusedError(answer.status, answer.headers.get("Retry-After"))
        return answer

    async def create(self, body: dict[str, Any]) -> Any:
        """POST."""
        return await self._call("POST", _path(body["metadata"]["namespace"]), body)

    async def read(self, namespace: str, name: str) -> Any:
        """GET."""
        return await self._call("GET", _path(namespace, name))

    async def replace(self, body: dict[str, Any]) -> Any:
        """PUT."""
        metadata = body["metadata"]
        return await self._call("PUT", _path(metadata["namespace"], metadata["name"]), body)

    async def patch(self, namespace: str, name: str, body: dict[str, Any]) -> Any:
        """PATCH, as a merge patch."""
        kind = {"Content-Type": "application/merge-patch+json"}
        return await self._call("PATCH", _path(namespace, name), body, kind)

    async def delete(self, namespace: str, name: str) -> Any:
        """DELETE."""
        return await self._call("DELETE", _path(namespace, name))

    async def list(self, namespace: str, *, metadata_only: bool) -> tuple[int, str]:
        """All in pages: how many, and the list's resourceVersion."""
        count, url = 0, f"{_path(namespace)}?limit=500"
        headers = {"Accept": _METADATA} if metadata_only else {}
        while True:
            page = await self._call("GET", url, None, headers)
            count += len(page["items"])
            token = page["metadata"].get("continue")
            if not token:
                return count, page["metadata"]["resourceVersion"]
            url = f"{_path(namespace)}?limit=500&continue={token}"

    async def watch(self, namespace: str, version: str) -> AsyncIterator[Any]:
        """The events after a resourceVersion."""
        url = f"{_path(namespace)}?watch=1&allowWatchBookmarks=true&resourceVersion={version}"
        answer = await self._open("GET", url, None, {})
        async for line in answer.response.content:
            event = msgspec.json.decode(line)
            if event["type"] != "BOOKMARK":
                yield event["object"]
        answer.response.close()

    def retry_after(self, error: Exception) -> float | None:
        """What a 429 asked for."""
        told = error.retry_after if isinstance(error, RefusedError) else None
        return float(told) if told else None


def _path(namespace: str, name: str = "") -> str:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    return f"{path}/{name}" if name else path
