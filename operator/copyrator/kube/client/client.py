"""The Kubernetes API as the operator uses it: objects, lists, watches.

Plain dicts, because typed models take three times the CPU and drop unknown fields, so that a
read-modify-write would lose them.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Self

import msgspec

from copyrator.api.names import FIELD_MANAGER
from copyrator.connections import aiohttp
from copyrator.kube.client import answers, transport
from copyrator.kube.client.answers import Page, WatchEvent, read
from copyrator.kube.client.transport import (
    CONNECT_TIMEOUT,
    JSON,
    WRITES,
    Call,
    Transport,
)
from copyrator.kube.errors import AnswerTooLarge, BrokenAnswer
from copyrator.kube.resources import Resource

PAGE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of one page of a list: a larger one is requested again, with fewer objects."""

__all__ = ["KubeClient", "Page", "PatchType", "WatchEvent"]

LIST_TIMEOUT = 60.0
"""Seconds for one page of a list."""


@dataclass(frozen=True, slots=True)
class ObjectFilter:
    """Which objects a list or watch asks for."""

    resource: Resource
    namespace: str | None
    field_selector: str | None
    names_only: bool = False

    @property
    def reader(self) -> answers.Reader:
        """Decodes one of them."""
        return answers.read_name if self.names_only else read


class PatchType(enum.StrEnum):
    """A patch's format, as its media type."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"


class KubeClient(Transport):
    """Requests, lists and watches; must be made in the running loop, and closed.

    Every method raises subclasses of ApiError. All writes have our field manager.
    """

    page_bytes: int = PAGE_BYTES
    usual_page_bytes = answers.USUAL_BYTES
    list_timeout = LIST_TIMEOUT

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def get(self, res: Resource, namespace: str | None, name: str) -> dict[str, Any]:
        """Read one object."""
        return await self._object(Call("get", res.key, res.path(namespace, name)))

    async def create(
        self, res: Resource, namespace: str | None, body: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Create; raises AlreadyExists where the name is taken."""
        return await self._object(transport.write("POST", res, res.path(namespace), body))

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
        """Patch; `force` takes ownership of fields from other managers and is for APPLY only."""
        params = {"force": "true"} if force else {}
        params["fieldManager"] = field_manager or FIELD_MANAGER
        path = res.path(namespace, name, subresource)
        return await self._object(
            transport.write("PATCH", res, path, body, content_type=kind.value, **params)
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
        """Delete; a uid or resourceVersion that isn't the present one raises ConflictError."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        if any(preconditions.values()):
            options["preconditions"] = {k: v for k, v in preconditions.items() if v}
        if propagation:
            options["propagationPolicy"] = propagation
        return await self._object(
            transport.write("DELETE", res, res.path(namespace, name), options)
        )

    async def read_log(
        self,
        namespace: str,
        pod: str,
        container: str,
        *,
        tail_lines: int | None = None,
        limit_bytes: int | None = None,
    ) -> str:
        """Return the container's output; bytes that aren't UTF-8 are replaced."""
        limits = {"tailLines": tail_lines, "limitBytes": limit_bytes}
        params = {"container": container}
        params |= {key: str(value) for key, value in limits.items() if value is not None}
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log"
        call = Call("get", "pods", path, params=params)
        return await self.fetch(call, lambda raw: raw.decode("utf-8", "replace"))

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
        dropped: set[str] | None = None,
    ) -> Any:
        """Other requests: subresources, reviews, discovery, /version. Returns the decoded JSON.

        The fields of the body that the server has dropped are added to ``dropped``.
        """
        verb = transport.VERBS.get(method, "get")
        params = dict(params or {})
        headers = {"Accept": accept or JSON}
        if body is not None:
            headers["Content-Type"] = content_type
        if verb in WRITES and method != "DELETE":
            params.setdefault("fieldManager", FIELD_MANAGER)
        limit = transport.total(timeout) if timeout else transport.USUAL_TIMEOUT
        call = Call(
            verb,
            transport.resource_of(path),
            path,
            method,
            params,
            body,
            headers,
            limit,
            dropped=dropped,
        )
        return await self.fetch(call, _decode)

    async def list_pages(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        metadata_only: bool = False,
        names_only: bool = False,
        limit: int = 1000,
        resource_version: str | None = None,
    ) -> AsyncGenerator[Page, None]:
        """List page by page; complete only when the iteration ends without an error.

        Without `resource_version` the list is consistent: it includes every write answered before.
        The first page is small; the others have about 4 MB, and at most `limit` objects. A page
        larger than PAGE_BYTES is requested again, with fewer objects. With `names_only` an object
        is its name, namespace and resourceVersion.
        """
        params = transport.selectors(label_selector, field_selector)
        if resource_version is not None:
            params["resourceVersion"] = resource_version
        metadata_only |= names_only
        headers = {"Accept": answers.METADATA_LIST if metadata_only else JSON}
        size = min(limit, 500 if metadata_only else 100)
        wanted = ObjectFilter(res, namespace, field_selector, names_only)
        while True:
            params["limit"] = str(size)
            call = Call(
                "list",
                res.key,
                res.path(namespace),
                params=dict(params),
                headers=headers,
                timeout=transport.total(self.list_timeout),
                most=self.page_bytes if size > 1 else None,
            )
            try:
                decode = partial(self._decode_page, wanted, size == 1)
                page = await self.fetch(call, decode)
            except AnswerTooLarge:
                if size == 1:  # of a server that isn't trusted
                    raise
                size = answers.fewer(size)
                continue
            yield page
            if not page.continue_token:
                return
            params["continue"] = page.continue_token
            params.pop("resourceVersion", None)  # the token includes it; both together are refused
            size = min(limit, page.next_limit(self.usual_page_bytes))
            del page  # at most one page in memory

    async def watch(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        metadata_only: bool = False,
        names_only: bool = False,
        resource_version: str | None = None,
        timeout: float = 290.0,  # noqa: ASYNC109 - the server ends the stream
        silence: float | None = None,
        on_open: Callable[[], None] | None = None,
        reserved: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield changes until the server ends the stream after `timeout` seconds.

        Bookmarks are requested; the server sends about one a minute, so `silence` seconds without
        a byte mean that the stream is dead (Unreachable, reason Timeout). `on_open` is called when
        the server has accepted the watch. A `reserved` watch has a connection of its own; others
        wait for one of WATCH_CONNECTIONS. `names_only` as for a list.

        Raises:
            Gone: `resource_version` was compacted; list again.
        """
        params = transport.selectors(label_selector, field_selector)
        params |= {"watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(int(timeout))}
        if resource_version is not None:
            params["resourceVersion"] = resource_version
        call = Call(
            "watch",
            res.key,
            res.path(namespace),
            params=params,
            headers={"Accept": answers.METADATA_WATCH if metadata_only or names_only else JSON},
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=CONNECT_TIMEOUT, sock_read=silence or timeout + 15.0
            ),
        )
        async with (
            self.stream(call, reserved=reserved) as content,
            aclosing(answers.lines(self._chunks(content), self._most)) as lines,
        ):
            if on_open:
                on_open()
            wanted = ObjectFilter(res, namespace, field_selector, names_only)
            async for line in lines:
                yield self._decode_event(wanted, line)

    # --- what differs for a server that isn't trusted --------------------------------------------

    def _decode_page(self, wanted: ObjectFilter, lone: bool, raw: bytes) -> Page:
        return answers.decode_page(raw, reader=wanted.reader, lone=lone)

    def _decode_event(self, wanted: ObjectFilter, line: bytes) -> WatchEvent:
        return answers.decode_event(line, wanted.reader)

    def _chunks(self, content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
        return content.iter_any()

    async def _object(self, call: Call) -> dict[str, Any]:
        return await self.fetch(call, _decode_object)


def _decode(raw: bytes) -> Any:
    try:
        return read(raw)
    except msgspec.MsgspecError as error:
        raise BrokenAnswer("the API server's response is truncated or isn't JSON") from error


def _decode_object(raw: bytes) -> dict[str, Any]:
    decoded = _decode(raw)
    if not isinstance(decoded, dict):
        raise BrokenAnswer("the API server's response isn't an object")
    return decoded
