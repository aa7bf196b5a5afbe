"""The Kubernetes API as the operator uses it: objects, lists, watches.

Raw requests and plain dicts, because models cost three times the CPU and drop the fields that they
don't know, so that a read-modify-write would lose other people's data.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

import aiohttp
import msgspec

from copyrator.api.names import FIELD_MANAGER
from copyrator.kube import pages
from copyrator.kube.connection import Connection
from copyrator.kube.errors import BrokenAnswer
from copyrator.kube.pages import Page, WatchEvent
from copyrator.kube.resources import Resource
from copyrator.kube.transport import (
    CONNECT_TIMEOUT,
    REQUEST_TIMEOUT,
    WATCH_CONNECTIONS,
    WRITES,
    Call,
    Transport,
    WriteLimit,
)
from copyrator.metrics import Metrics

__all__ = ["KubeClient", "Page", "PatchType", "WatchEvent", "WriteLimit"]

JSON = "application/json"
LIST_TIMEOUT = 60.0
"""Seconds for one page of a list."""

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class PatchType(enum.StrEnum):
    """How a patch is written, as its media type."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"


class KubeClient:
    """Requests, lists and watches; to be made inside the running loop, and closed.

    Every method raises subclasses of ApiError. All writes carry our field manager.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        limit: WriteLimit | None = None,
        metrics: Metrics | None = None,
        watch_connections: int = WATCH_CONNECTIONS,
    ) -> None:
        self.connection = connection
        self._http = Transport(
            connection, limit=limit, metrics=metrics, watch_connections=watch_connections
        )

    async def __aenter__(self) -> KubeClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; requests in flight fail with Unreachable."""
        await self._http.close()

    async def get(self, res: Resource, namespace: str | None, name: str) -> dict[str, Any]:
        """Read one object."""
        return await self._object(Call("get", res.key, res.path(namespace, name)))

    async def create(
        self, res: Resource, namespace: str | None, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Create; raises AlreadyExists rather than touch what is there."""
        return await self._object(_write("POST", res, res.path(namespace), body))

    async def replace(
        self,
        res: Resource,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str | None = None,
    ) -> dict[str, Any]:
        """Make the object exactly `body`; uid and resourceVersion in it are preconditions."""
        path = res.path(namespace, name, subresource)
        return await self._object(_write("PUT", res, path, body))

    async def patch(
        self,
        res: Resource,
        namespace: str | None,
        name: str,
        body: Mapping[str, Any] | Sequence[Any],
        *,
        kind: PatchType = PatchType.MERGE,
        subresource: str | None = None,
        field_manager: str | None = None,
        force: bool = False,
    ) -> dict[str, Any]:
        """Patch; `force` takes fields over from other managers and is for APPLY only."""
        params = {"force": "true"} if force else {}
        params["fieldManager"] = field_manager or FIELD_MANAGER
        path = res.path(namespace, name, subresource)
        return await self._object(
            _write("PATCH", res, path, body, content_type=kind.value, **params)
        )

    async def delete(
        self,
        res: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
    ) -> dict[str, Any]:
        """Delete; a uid or resourceVersion that isn't there any more raises ConflictError."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        if any(preconditions.values()):
            options["preconditions"] = {k: v for k, v in preconditions.items() if v}
        if propagation:
            options["propagationPolicy"] = propagation
        return await self._object(_write("DELETE", res, res.path(namespace, name), options))

    async def read_log(
        self,
        namespace: str,
        pod: str,
        container: str,
        *,
        tail_lines: int | None = None,
        limit_bytes: int | None = None,
    ) -> str:
        """The container's output; bytes that aren't UTF-8 are replaced."""
        limits = {"tailLines": tail_lines, "limitBytes": limit_bytes}
        params = {"container": container}
        params |= {key: str(value) for key, value in limits.items() if value is not None}
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
        return (await self._http.fetch(Call("get", "pods", path, params=params))).decode(
            "utf-8", "replace"
        )

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        accept: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - becomes a timeout of the connection
    ) -> Any:
        """Anything else: subresources, reviews, discovery, /version. Returns the decoded JSON."""
        verb = _VERBS.get(method, "get")
        params = dict(params or {})
        headers = {"Accept": accept or JSON}
        if body is not None:
            headers["Content-Type"] = content_type
        if verb in WRITES and method != "DELETE":
            params.setdefault("fieldManager", FIELD_MANAGER)
        limit = _total(timeout or REQUEST_TIMEOUT)
        call = Call(verb, _resource_of(path), path, method, params, body, headers, limit)
        return _decode(await self._http.fetch(call))

    async def list_pages(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        metadata_only: bool = False,
        limit: int = 500,
        resource_version: str | None = None,
    ) -> AsyncGenerator[Page, None]:
        """List page by page; complete only when the iteration ends without an error.

        Without `resource_version` the list is consistent: it shows every write that was answered
        before. Whole objects are asked for in pages of about 4 MB.
        """
        params = _selectors(label_selector, field_selector)
        if resource_version is not None:
            params["resourceVersion"] = resource_version
        headers = {"Accept": pages.METADATA_LIST if metadata_only else JSON}
        size = limit if metadata_only else min(limit, 100)
        while True:
            params["limit"] = str(size)
            call = Call(
                "list",
                res.key,
                res.path(namespace),
                params=dict(params),
                headers=headers,
                timeout=_total(LIST_TIMEOUT),
            )
            page = pages.decode_page(await self._http.fetch(call))
            yield page
            if not page.continue_token:
                return
            params["continue"] = page.continue_token
            params.pop("resourceVersion", None)  # the token carries it; both together are refused
            if not metadata_only:
                size = min(limit, page.next_limit())
            del page  # not two pages at a time

    async def watch(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        metadata_only: bool = False,
        resource_version: str | None = None,
        timeout: float = 290.0,  # noqa: ASYNC109 - the server ends the stream
        silence: float | None = None,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Follow changes until the server ends the stream after `timeout` seconds.

        Bookmarks are asked for; the server sends about one a minute, so `silence` seconds without
        a byte mean that the stream is dead (Unreachable, reason Timeout). `on_open` is called when
        the server has accepted the watch.

        Raises:
            Gone: `resource_version` was compacted; list again.
        """
        params = _selectors(label_selector, field_selector)
        params |= {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(int(timeout))}
        if resource_version is not None:
            params["resourceVersion"] = resource_version
        call = Call(
            "watch",
            res.key,
            res.path(namespace),
            params=params,
            headers={"Accept": pages.METADATA_WATCH if metadata_only else JSON},
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=CONNECT_TIMEOUT, sock_read=silence or timeout + 15.0
            ),
        )
        async with (
            self._http.stream(call) as content,
            aclosing(pages.lines(content.iter_any())) as lines,
        ):
            if on_open:
                on_open()
            async for line in lines:
                yield pages.decode_event(line)

    async def _object(self, call: Call) -> dict[str, Any]:
        decoded = _decode(await self._http.fetch(call))
        if not isinstance(decoded, dict):
            raise BrokenAnswer("the API server's answer isn't an object")
        return decoded


def _write(
    method: str, res: Resource, path: str, body: Any, *, content_type: str = JSON, **params: str
) -> Call:
    if method != "DELETE":
        params.setdefault("fieldManager", FIELD_MANAGER)
    headers = {"Content-Type": content_type, "Accept": JSON}
    return Call(_VERBS[method], res.key, path, method, params, body, headers)


def _total(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds, sock_connect=CONNECT_TIMEOUT)


def _selectors(label_selector: str | None, field_selector: str | None) -> dict[str, str]:
    selectors = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in selectors.items() if value}


def _decode(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except msgspec.MsgspecError as error:
        raise BrokenAnswer("the API server's answer is cut off or isn't JSON") from error


def _resource_of(path: str) -> str:
    """The resource's key for a path, for metrics; the path itself where it names none."""
    parts = path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (".".join(parts[1:2]), parts[3:])
    if len(rest) > 2 and rest[0] == "namespaces":
        rest = rest[2:]
    if parts[0] not in {"api", "apis"} or not rest:
        return parts[0]
    return f"{rest[0]}.{group}" if group else rest[0]
