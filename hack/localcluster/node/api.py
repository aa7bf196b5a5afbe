"""A small Kubernetes API client on aiohttp: requests, and one endless watch.

The node doesn't use the operator's client: what proves the operator must not share its faults.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp

from .kubeconfig import Connection

log = logging.getLogger(__name__)

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
_TIMEOUT = aiohttp.ClientTimeout(total=30)
_WATCH_SECONDS = 290
Object = dict[str, Any]


class ApiError(Exception):
    """The API server refused a request (status is its HTTP code) or wasn't there (status 0)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}" if status else message)
        self.status = status

    @property
    def gone(self) -> bool:
        """Whether the object of the request doesn't exist, or not in that incarnation."""
        return self.status in (404, 409)


class Api:
    """One API server; an async context manager that owns the connections."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # Every pod in work may hold a request of its own; none of them may wait for the watch.
        connector = aiohttp.TCPConnector(limit=64)
        headers = {"User-Agent": "localcluster-node"}
        self._session = aiohttp.ClientSession(connector=connector, headers=headers)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        """Send one request and decode the answer.

        Raises:
            ApiError: an error answer, or none within 30 s.
        """
        assert self._session is not None, "Api is used outside its `async with`"
        data = None if body is None else json.dumps(body).encode()
        try:
            async with self._session.request(
                method,
                self.connection.server + path,
                data=data,
                params=params,
                headers={"Content-Type": content_type, "Accept": "application/json"},
                ssl=self.connection.tls,
                timeout=_TIMEOUT,
            ) as answer:
                content = await answer.read()
                if answer.status >= 400:
                    raise _error(answer.status, content)
                return dict(json.loads(content))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ApiError(0, "Unreachable", f"{method} {path}: {error!r}") from error

    async def get(self, path: str) -> Object:
        """Read one object."""
        return await self.request("GET", path)

    async def follow(self, path: str, params: Mapping[str, str]) -> AsyncIterator[list[Object]]:
        """List and watch a collection, for ever.

        Yields:
            Lists of events (`type`, `object`). A complete list comes as one batch that starts with
            an event of type LISTED, whose object is None: what isn't in that batch doesn't exist.
        """
        delay = 0.2
        while True:
            try:
                listed = await self.request("GET", path, params=params)
                batch: list[Object] = [{"type": "LISTED", "object": None}]
                batch += [{"type": "ADDED", "object": item} for item in listed.get("items") or []]
                yield batch
                delay = 0.2
                version = str(listed["metadata"]["resourceVersion"])
                async for event in self._watch(path, params, version):
                    yield [event]
            except ApiError as error:
                if error.status != 410:
                    log.warning("watch of %s: %s; trying again", path, error)
            await asyncio.sleep(delay * random.uniform(0.8, 1.2))  # noqa: S311 - jitter
            delay = min(delay * 2, 5.0)

    async def _watch(
        self, path: str, params: Mapping[str, str], version: str
    ) -> AsyncIterator[Object]:
        """Watch from a resource version on, over any number of connections, until an error."""
        assert self._session is not None
        while True:
            query = {
                **params,
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": version,
                "timeoutSeconds": str(_WATCH_SECONDS),
            }
            timeout = aiohttp.ClientTimeout(
                total=None, sock_connect=10, sock_read=_WATCH_SECONDS + 20
            )
            try:
                async with self._session.get(
                    self.connection.server + path,
                    params=query,
                    ssl=self.connection.tls,
                    timeout=timeout,
                ) as answer:
                    if answer.status >= 400:
                        raise _error(answer.status, await answer.read())
                    async for event in _lines(answer.content):
                        if event["type"] == "ERROR":
                            status = event["object"]
                            raise ApiError(
                                int(status.get("code", 500)),
                                str(status.get("reason")),
                                str(status.get("message")),
                            )
                        version = event["object"]["metadata"]["resourceVersion"]
                        if event["type"] != "BOOKMARK":
                            yield event
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise ApiError(0, "Unreachable", f"watch {path}: {error!r}") from error


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[Object]:
    """Decode a stream of JSON lines of any length."""
    pending = b""
    async for chunk in content.iter_any():
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            if line.strip():
                yield json.loads(line)


def _error(status: int, content: bytes) -> ApiError:
    try:
        body = json.loads(content)
        return ApiError(status, str(body.get("reason")), str(body.get("message")))
    except (ValueError, AttributeError):
        return ApiError(status, "", content[:200].decode(errors="replace"))
