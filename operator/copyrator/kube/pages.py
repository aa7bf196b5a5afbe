"""Pages of a list and events of a watch, decoded one object at a time.

A page of Secrets can be many megabytes: it is held once, as the bytes that arrived, and each object
is turned into Python only while somebody looks at it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import msgspec

from copyrator.kube.answers import from_answer
from copyrator.kube.depth import MOST, flattened, read
from copyrator.kube.errors import BrokenAnswer, Gone

METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
METADATA_WATCH = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"

PAGE_BYTES = 4 * 1024 * 1024
"""A page stays near this size."""

BOOKMARK = "BOOKMARK"
DELETED = "DELETED"


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _List(msgspec.Struct):
    kind: str
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_list_decoder = msgspec.json.Decoder(_List)
_event_decoder = msgspec.json.Decoder(_Event)


class Items(Sequence[dict[str, Any]]):
    """The objects of a page; each access decodes anew, so look at each once."""

    __slots__ = ("_raw",)

    def __init__(self, raw: list[msgspec.Raw]) -> None:
        self._raw = raw

    def __len__(self) -> int:
        return len(self._raw)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Items: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | Items:
        if isinstance(index, slice):
            return Items(self._raw[index])
        decoded: dict[str, Any] = read(bytes(self._raw[index]))
        return decoded


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list; the list is complete only when the iteration ends without an error."""

    items: Items
    resource_version: str
    continue_token: str = ""
    size: int = 0
    """Bytes on the wire."""

    def next_limit(self) -> int:
        """How many objects the next page should have, judged by this one: 10 to 1000."""
        each = max(self.size // max(len(self.items), 1), 1)
        return max(10, min(1000, PAGE_BYTES // each))


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """`type` is ADDED, MODIFIED, DELETED or BOOKMARK (of which only the version counts)."""

    type: str
    object: dict[str, Any]


def decode_page(raw: bytes) -> Page:
    """Decode a list.

    Raises:
        BrokenAnswer: it isn't one, or was cut.
    """
    try:
        try:
            answer = _list_decoder.decode(raw)
        except RecursionError:  # still too deep for one object, so that `read` marks it
            answer = _list_decoder.decode(flattened(raw, 2 * MOST))
    except msgspec.MsgspecError as error:
        raise BrokenAnswer("the API server's list is cut off or isn't JSON") from error
    if not answer.kind.endswith("List") or not answer.metadata.resource_version:
        raise BrokenAnswer("the API server's answer isn't a list")
    return Page(
        items=Items(answer.items or []),
        resource_version=answer.metadata.resource_version,
        continue_token=answer.metadata.continue_,
        size=len(raw),
    )


def decode_event(line: bytes) -> WatchEvent:
    """Decode a line of a watch.

    Raises:
        ApiError: the line is an ERROR; `Gone` where the version to go on from was compacted.
        BrokenAnswer: the line was cut or isn't JSON.
    """
    try:
        try:
            event = _event_decoder.decode(line)
        except RecursionError:
            event = _event_decoder.decode(flattened(line, 2 * MOST))
        body = read(bytes(event.object))
    except msgspec.MsgspecError as error:
        raise BrokenAnswer("an event of the watch is cut off or isn't JSON") from error
    if not isinstance(body, dict):
        raise BrokenAnswer("an event of the watch holds no object")
    if event.type == "ERROR":
        code = body.get("code")
        raise from_answer(code if isinstance(code, int) else Gone.default_status, body)
    return WatchEvent(event.type, body)


async def lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Split a stream into lines of any length.

    Raises:
        BrokenAnswer: the stream ended within a line.
    """
    rest: list[bytes] = []
    async for chunk in chunks:
        if b"\n" not in chunk:
            rest.append(chunk)
            continue
        first, *others = chunk.split(b"\n")
        line = b"".join((*rest, first))
        rest = [others.pop()]
        if line:
            yield line
        for line in others:
            if line:
                yield line
    if any(rest):
        raise BrokenAnswer("the watch was cut off within an event")
