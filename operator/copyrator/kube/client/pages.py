"""Pages of a list and events of a watch, decoded one object at a time.

A page of Secrets can be many megabytes: it is held once, as the bytes that arrived, and each object
is decoded only on access.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import msgspec

from copyrator.kube.client.answers import MOST, flattened, from_answer, read
from copyrator.kube.errors import AnswerTooLarge, BrokenAnswer, Gone

METADATA_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
METADATA_WATCH = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"

USUAL_BYTES = 4 * 1024 * 1024
"""Target size of a page."""

LONE_BYTES = 256 * 1024
"""Above this size what is too deep isn't cut out of a page of several objects: that takes up to
190 ms a megabyte."""

BOOKMARK = "BOOKMARK"

_CUT_OFF = "an event of the watch is truncated or isn't JSON"


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    kind: str
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Meta(msgspec.Struct, rename="camel", omit_defaults=True):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Named(msgspec.Struct):
    metadata: _Meta


_list_decoder = msgspec.json.Decoder(_List)
_event_decoder = msgspec.json.Decoder(_Event)
_named_decoder = msgspec.json.Decoder(_Named)

Reader = Callable[[bytes], Any]
"""Decodes an object's JSON."""


def read_name(raw: bytes) -> Any:
    """Decode only an object's name, namespace and resourceVersion.

    Raises:
        msgspec.MsgspecError: it isn't JSON, or has no metadata.
    """
    try:
        return msgspec.to_builtins(_named_decoder.decode(raw))
    except RecursionError:
        return read(raw)


class Items(Sequence[dict[str, Any]]):
    """The objects of a page; each access decodes again, so access each once."""

    __slots__ = ("_raw", "_reader")

    def __init__(self, raw: list[msgspec.Raw], reader: Reader = read) -> None:
        self._raw = raw
        self._reader = reader

    def raw(self) -> Iterator[bytes]:
        """The objects as received."""
        return map(bytes, self._raw)

    def __len__(self) -> int:
        return len(self._raw)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Items: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | Items:
        if isinstance(index, slice):
            return Items(self._raw[index], self._reader)
        decoded: dict[str, Any] = self._reader(bytes(self._raw[index]))
        return decoded


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list; the list is complete only when the iteration ends without an error."""

    items: Items
    resource_version: str
    continue_token: str = ""
    size: int = 0
    """Bytes on the wire."""

    def next_limit(self, usual: int = USUAL_BYTES) -> int:
        """The limit for the next page of about `usual` bytes by this one's: 1 to 1000 objects."""
        each = max(self.size // max(len(self.items), 1), 1)
        return max(1, min(1000, usual // each))


def fewer(limit: int) -> int:
    """The limit to request after a page of `limit` objects was too large."""
    return max(1, limit // 8)


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """`type` is ADDED, MODIFIED, DELETED or BOOKMARK (of which only the resourceVersion is set)."""

    type: str
    object: dict[str, Any]


@dataclass(frozen=True, slots=True)
class BareEvent:
    """A WatchEvent whose object isn't decoded yet."""

    type: str
    raw: bytes


def decode_page(raw: bytes, *, reader: Reader = read, lone: bool = False) -> Page:
    """Decode a list; `reader` decodes its objects.

    `lone`: it has at most one object, so that it can't be split further.

    Raises:
        AnswerTooLarge: an object is nested deeply; a page with fewer objects can be decoded.
        BrokenAnswer: it isn't a list, or is cut off.
    """
    try:
        try:
            answer = _list_decoder.decode(raw)
        except RecursionError:
            if len(raw) > LONE_BYTES and not lone:
                raise AnswerTooLarge("a page with a deeply nested object is too long") from None
            # still too deep for one object, so that `read` marks it
            answer = _list_decoder.decode(flattened(raw, 2 * MOST))
    except msgspec.MsgspecError as error:
        raise BrokenAnswer("the API server's list is truncated or isn't JSON") from error
    if not answer.kind.endswith("List") or not answer.metadata.resource_version:
        raise BrokenAnswer("the API server's response isn't a list")
    return Page(
        items=Items(answer.items or [], reader),
        resource_version=answer.metadata.resource_version,
        continue_token=answer.metadata.continue_,
        size=len(raw),
    )


def decode_event(line: bytes, reader: Reader = read) -> WatchEvent:
    """Decode a line of a watch; `reader` decodes its object.

    Raises:
        ApiError: the line is an ERROR; `Gone` where the resourceVersion was compacted.
        BrokenAnswer: the line is cut off or isn't JSON.
    """
    event = bare_event(line)
    return WatchEvent(event.type, _object(event.raw, reader))


def bare_event(line: bytes) -> BareEvent:
    """Decode a line of a watch, but not its object; raises like `decode_event`."""
    try:
        try:
            event = _event_decoder.decode(line)
        except RecursionError:
            event = _event_decoder.decode(flattened(line, 2 * MOST))
    except msgspec.MsgspecError as error:
        raise BrokenAnswer(_CUT_OFF) from error
    raw = bytes(event.object)
    if event.type == "ERROR":
        if len(raw) > LONE_BYTES:
            raise BrokenAnswer("an error in the watch is too long")
        body = _object(raw)
        code = body.get("code")
        raise from_answer(code if isinstance(code, int) else Gone.default_status, body)
    return BareEvent(event.type, raw)


def _object(raw: bytes, reader: Reader = read) -> dict[str, Any]:
    try:
        body = reader(raw)
    except msgspec.MsgspecError as error:
        raise BrokenAnswer(_CUT_OFF) from error
    if not isinstance(body, dict):
        raise BrokenAnswer("an event of the watch has no object")
    return body


async def lines(
    chunks: AsyncIterator[bytes], most: int | None = None
) -> AsyncGenerator[bytes, None]:
    """Split a stream into lines of any length, or of at most about `most` bytes.

    Raises:
        AnswerTooLarge: a line is longer.
        BrokenAnswer: the stream ended within a line.
    """
    rest: list[bytes] = []
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if most is not None and size > most + len(chunk):
            raise AnswerTooLarge(f"an event of the watch is longer than {most} bytes")
        if b"\n" not in chunk:
            rest.append(chunk)
            continue
        first, *others = chunk.split(b"\n")
        size = len(others[-1])
        line = b"".join((*rest, first))
        rest = [others.pop()]
        if line:
            yield line
        for line in others:
            if line:
                yield line
    if any(rest):
        raise BrokenAnswer("the watch was interrupted within an event")
