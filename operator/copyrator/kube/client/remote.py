"""The client of another cluster, which isn't trusted: all that it sends is bounded and checked.

What is wrong in an answer makes that request fail. The uid of the Namespace kube-system tells
clusters apart: it is read before each list and each watch, unless that was done seconds ago, so
that the objects of another cluster behind the same address are never taken for changes of the
former one's.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, Final

import msgspec

from copyrator.api.schema import DECODER, OBJECT_CONTAINERS
from copyrator.connections import aiohttp
from copyrator.kube.client import answers
from copyrator.kube.client.answers import (
    BOOKMARK,
    Page,
    WatchEvent,
    containers,
    from_foreign_answer,
    in_pieces,
)
from copyrator.kube.client.client import KubeClient, ObjectFilter
from copyrator.kube.client.transport import Call, Connection, Endpoint, Pauses, total
from copyrator.kube.errors import (
    AnswerTooLarge,
    ApiError,
    BrokenAnswer,
    ClusterChanged,
    Forbidden,
    NotFound,
    Unreachable,
)
from copyrator.kube.resources import DELETED, NAMESPACES, UID_NAMESPACE, Resource

REMOTE_ANSWER: Final = 2 * 1024 * 1024
"""Bytes of one answer of another cluster, and of one event of a watch there: etcd accepts objects
of 1.5 MB. Nothing is parsed of a longer one."""

REMOTE_OBJECTS: Final = 10_000
"""Objects of one list there."""

REMOTE_LIST_SECONDS: Final = 120.0
"""Seconds for all pages of one list there."""

REMOTE_REQUEST_SECONDS: Final = 10.0
"""Seconds for any other answer there."""

REMOTE_WATCHES: Final = 32
"""Watches with one credential."""

REMOTE_BURST: Final = 8 * 1024 * 1024
"""Bytes of a watch there that are read at once, where each event counts as REMOTE_EVENT at least:
500 changes, or four objects of the largest size."""

REMOTE_RATE: Final = 160 * 1024
"""Bytes a second that are read beyond the burst: ten changes a second."""

REMOTE_EVENT: Final = 16 * 1024
"""Bytes that an event counts as in addition to its own."""

_PAUSES: Final = Pauses(patience=5.0)
"""Shorter than usual, but longer than the pauses: who waits has to be there for the next probe."""
_LONGEST_PAUSE: Final = 30.0
_PAGE: Final = 512 * 1024
_LEAST_PAGE: Final = 10
"""Objects that a page counts as, at least."""
_FRESH_SECONDS: Final = 1.0
"""A list that follows an identification so soon doesn't ask again."""
FRESH_FOR_WATCHES: Final = 10.0
"""Seconds, for a watch that follows one that ended regularly, as those of a server do that is being
replaced."""
_UID: Final = re.compile(r"[0-9A-Za-z-]{1,64}")
_VERSION: Final = re.compile(r"[!-~]{1,64}")
_NAME: Final = re.compile(r"[!-$&-.0-~]{1,253}")
"""Without the characters that no name in a path may have: '/' and '%'."""
_PARTIAL: Final = "PartialObjectMetadata"
_BY_NAME: Final = "metadata.name="
_TEXTS: Final = {"ConfigMap": ("data", "binaryData"), "Secret": ("data", "stringData")}
"""Fields that are maps of texts."""


class RemoteClient(KubeClient):
    """Reads from another cluster; as KubeClient, but no message has words of the server's.

    Attributes:
        uid: of its Namespace kube-system; None where that may not be read, or wasn't yet.
        identified: whether it was read, or found to be unreadable.
        changed: another cluster has answered since: this client is of no use any more.
        on_changed: called then.
    """

    page_bytes = REMOTE_ANSWER
    usual_page_bytes = _PAGE
    list_timeout = 1.5 * REMOTE_REQUEST_SECONDS

    def __init__(self, endpoint: Endpoint, place: str) -> None:
        super().__init__(
            Connection(endpoint, origin=place, pauses=_PAUSES, place=place),
            watch_connections=REMOTE_WATCHES,
            watch_patience=REMOTE_REQUEST_SECONDS,
            most=REMOTE_ANSWER,
        )
        self.uid: str | None = None
        self.identified = False
        self.changed = False
        self.on_changed: Callable[[], None] = lambda: None
        self._identified_at = 0.0
        self._in_doubt = False

    @property
    def identified_for(self) -> float:
        """Seconds since it was last read which cluster it is."""
        return time.monotonic() - self._identified_at

    async def identify(self) -> None:
        """Read the cluster's uid.

        Raises:
            ClusterChanged: it is another one than before.
            ApiError: there is no answer.
        """
        uid = await self._read_uid()
        if self.changed or (uid and self.uid and uid != self.uid):
            if not self.changed:
                self.changed = True
                self.on_changed()
            raise ClusterChanged("another cluster answers than before")
        self.uid = self.uid or uid
        self.identified, self._in_doubt = True, False
        self._identified_at = time.monotonic()

    async def _read_uid(self) -> str | None:
        try:
            body = await self.get(NAMESPACES, None, UID_NAMESPACE)
        except (Forbidden, NotFound):
            return None
        uid = body["metadata"].get("uid")
        if not isinstance(uid, str) or not _UID.fullmatch(uid):
            raise BrokenAnswer(f"the Namespace {UID_NAMESPACE} has no valid uid")
        return uid

    async def get(self, res: Resource, namespace: str | None, name: str) -> dict[str, Any]:
        """Read one object."""
        wanted = ObjectFilter(res, namespace, f"{_BY_NAME}{name}")
        timeout = total(REMOTE_REQUEST_SECONDS)
        call = Call("get", res.key, res.path(namespace, name), timeout=timeout)
        return await self.fetch(call, partial(_decode_wanted, wanted))

    async def list_pages(
        self, res: Resource, namespace: str | None = None, **options: Any
    ) -> AsyncGenerator[Page, None]:
        """List page by page, after it is known that it is still the same cluster."""
        began = time.monotonic()
        if self.identified_for > _FRESH_SECONDS:
            await self.identify()
        objects = 0
        async with aclosing(super().list_pages(res, namespace, **options)) as found:
            async for page in found:
                objects += max(len(page.items), _LEAST_PAGE)
                if objects > REMOTE_OBJECTS:
                    raise BrokenAnswer(f"its list has more than {REMOTE_OBJECTS} objects")
                yield page
                if time.monotonic() - began > REMOTE_LIST_SECONDS:
                    raise Unreachable(f"its list takes more than {REMOTE_LIST_SECONDS:g} s")

    async def watch(
        self, res: Resource, namespace: str | None = None, **options: Any
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield changes, after it is known that it is still the same cluster."""
        if self._in_doubt or self.identified_for > FRESH_FOR_WATCHES:
            await self.identify()
        try:
            async with aclosing(super().watch(res, namespace, **options)) as events:
                async for event in events:
                    yield event
        except ApiError:
            self._in_doubt = True
            raise

    def _decode_page(self, wanted: ObjectFilter, lone: bool, raw: bytes) -> Page:  # noqa: ARG002
        if containers(raw) > OBJECT_CONTAINERS:
            raise AnswerTooLarge(f"a page has more than {OBJECT_CONTAINERS} maps and lists")
        return answers.decode_page(raw, reader=partial(_decode_wanted, wanted), lone=False)

    def _decode_event(self, wanted: ObjectFilter, line: bytes) -> WatchEvent:
        _check_size(line)
        try:
            event = answers.bare_event(line)
        except BrokenAnswer:
            raise
        except ApiError as error:
            raise from_foreign_answer(error.status, {}) from None
        body = _decode(event.raw)
        if event.type == BOOKMARK:
            _check_version(body)
        elif event.type in ("ADDED", "MODIFIED", DELETED):
            _check(wanted, body)
        else:
            raise BrokenAnswer("a watch has an event of another type than a watch's")
        return WatchEvent(event.type, body)

    def _chunks(self, content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
        return _paced(in_pieces(content))


async def _paced(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The same, no faster than REMOTE_RATE after a burst; the sender has to wait."""
    left, at = float(REMOTE_BURST), time.monotonic()
    async for chunk in chunks:
        yield chunk
        now = time.monotonic()
        left = min(left + (now - at) * REMOTE_RATE, REMOTE_BURST)
        at = now
        left -= len(chunk) + REMOTE_EVENT * chunk.count(b"\n")
        if left < 0:
            left = max(left, -_LONGEST_PAUSE * REMOTE_RATE)
            await asyncio.sleep(-left / REMOTE_RATE)


def _check_size(raw: bytes) -> None:
    if containers(raw) > OBJECT_CONTAINERS:
        raise BrokenAnswer(f"an object has more than {OBJECT_CONTAINERS} maps and lists")


def _decode(raw: bytes) -> dict[str, Any]:
    try:
        body = DECODER.decode(raw)
    except RecursionError:
        raise BrokenAnswer("an object is nested too deeply") from None
    except (msgspec.MsgspecError, ValueError):
        raise BrokenAnswer("an object is cut off or isn't JSON") from None
    if not isinstance(body, dict):
        raise BrokenAnswer("an object isn't a map")
    return body


def _decode_wanted(wanted: ObjectFilter, raw: bytes) -> dict[str, Any]:
    _check_size(raw)
    body = _decode(raw)
    _check(wanted, body)
    return body


def _check(wanted: ObjectFilter, body: Mapping[str, Any]) -> None:
    """Refuse an object that wasn't asked for, or whose metadata or data no API server has.

    Raises:
        BrokenAnswer: names the fault.
    """
    metadata, res = _check_version(body), wanted.resource
    if body.get("kind") not in (None, res.kind, _PARTIAL):
        raise BrokenAnswer(f"an object isn't of the kind {res.kind}")
    name = metadata.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BrokenAnswer("an object has no valid name")
    if (wanted.field_selector or "").startswith(_BY_NAME):
        asked = (wanted.field_selector or "").removeprefix(_BY_NAME)
        if name != asked:
            raise BrokenAnswer(f"an object has another name than {asked}")
    if res.namespaced and metadata.get("namespace") != wanted.namespace:
        raise BrokenAnswer(f"an object isn't in the namespace {wanted.namespace}")
    for field in ("labels", "annotations"):
        _check_texts(metadata.get(field), f"metadata.{field}")
    for field in _TEXTS.get(res.kind, ()):
        _check_texts(body.get(field), field)
    if res.kind == "Secret" and not isinstance(body.get("type", ""), str):
        raise BrokenAnswer("a Secret's type isn't a text")


def _check_version(body: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        raise BrokenAnswer("an object has no metadata")
    version = metadata.get("resourceVersion")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        raise BrokenAnswer("an object has no valid resourceVersion")
    return metadata


def _check_texts(found: object, field: str) -> None:
    if found is None:
        return
    if not isinstance(found, dict) or not all(type(value) is str for value in found.values()):
        raise BrokenAnswer(f"{field} of an object isn't a map of texts")
