"""A small Kubernetes API client on aiohttp: requests, and one endless watch.

The node doesn't use the operator's client: what proves the operator must not share its faults.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from .kubeconfig import Connection

log = logging.getLogger(__name__)

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
_TIMEOUT = aiohttp.ClientTimeout(total=30)
_WATCH_SECONDS = 290
_WATCH_TIMEOUT = aiohttp.ClientTimeout(sock_connect=10, sock_read=_WATCH_SECONDS + 20)
_PAUSE = 0.2
"""Seconds between two watches."""
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


@dataclass(frozen=True, slots=True)
class Api:
    """One API server, asked on the connections of a session."""

    connection: Connection
    session: aiohttp.ClientSession

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
        data = None if body is None else json.dumps(body).encode()
        try:
            async with self.session.request(
                method,
                self.connection.server + path,
                data=data,
                params=params,
                headers={"Content-Type": content_type, "Accept": "application/json"},
                timeout=_TIMEOUT,
            ) as answer:
                content = await answer.read()
                if answer.status >= 400:
                    raise _error(answer.status, content)
                return dict(json.loads(content))
        except (aiohttp.ClientError, OSError) as error:
            raise ApiError(0, "Unreachable", f"{method} {path}: {error!r}") from error

    async def follow(self, path: str, params: Mapping[str, str]) -> AsyncIterator[list[Object]]:
        """List and watch a collection, and anew when the watch ends, for ever.

        Yields:
            Lists of events (`type`, `object`). A complete list comes as one batch that starts with
            an event of type LISTED, whose object is None: what isn't in that batch doesn't exist.
        """
        while True:
            try:
                listed = await self.request("GET", path, params=params)
                batch: list[Object] = [{"type": "LISTED", "object": None}]
                batch += [{"type": "ADDED", "object": item} for item in listed.get("items") or []]
                yield batch
                version = str(listed["metadata"]["resourceVersion"])
                watch = {"watch": "true", "resourceVersion": version}
                async with self.session.get(
                    self.connection.server + path,
                    params={**params, **watch, "timeoutSeconds": str(_WATCH_SECONDS)},
                    timeout=_WATCH_TIMEOUT,
                    raise_for_status=True,
                ) as answer:
                    async for event in _lines(answer.content):
                        if event["type"] == "ERROR":
                            break
                        yield [event]
            except (ApiError, aiohttp.ClientError, OSError) as error:
                log.warning("watch of %s: %r; trying again", path, error)
            await asyncio.sleep(_PAUSE)


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
