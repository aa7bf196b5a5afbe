"""Reads answers of the API server: typed errors, JSON within limits, pages, events of a watch.

Parts too deep or too large are left out, instead of failing a whole page. The API server accepts
10,000 levels wherever a CRD leaves a field open; Python's parsers fail at about a thousand. One
such object of 5 KB would make a whole page unreadable. And of 1.4 MB of nothing but brackets Python
makes 700,000 lists, which takes a quarter of a second. A page of Secrets can be many megabytes: it
is held once, as the bytes that arrived, and each object is decoded only on access.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
)
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from copyrator.api.schema import DECODER, NOT_WHOLE, OBJECT_CONTAINERS, TOO_DEEP, TOO_MANY
from copyrator.api.text import parse_retry_after
from copyrator.kube.errors import (
    AdmissionDenied,
    AlreadyExists,
    AnswerTooLarge,
    ApiError,
    BadRequest,
    BrokenAnswer,
    ConflictError,
    Forbidden,
    Gone,
    Invalid,
    NamespaceTerminating,
    NotFound,
    QuotaExceeded,
    ServerError,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)

if TYPE_CHECKING:
    import aiohttp
    from multidict import CIMultiDictProxy


MOST: Final = 256
"""Levels that are kept: more than any spec of ours may have, so that its parser refuses the rest,
and fewer than cause an error anywhere."""

_TOO_DEEP: Final = msgspec.json.encode(TOO_DEEP)

_BLOCKS: Final = (512, 32)
"""Bytes whose levels are looked at together; only where some may be too deep, in smaller blocks,
then one by one."""

_field_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = bytes(1 if code in b"[{" else 255 if code in b"]}" else 0 for code in range(256))
"""As signed bytes: one level up for an opening bracket, one down for a closing one."""


def flattened(raw: bytes, most: int = MOST) -> bytes:
    """The same JSON, with a text in place of every map and list beyond `most` levels.

    All loops over characters run in C: 1.4 MB take under 50 ms, or with `read` up to 330 ms where
    they are too deep and consist of nothing but short strings or lists (measured, idle core).
    """
    if _openings(raw) <= most:
        return raw
    parts = _split(raw)
    return _flattened(raw, parts, _brackets(parts), most)


def _flattened(raw: bytes, parts: list[bytes], brackets: bytes, most: int) -> bytes:
    if not any(b"\1" in block for block in _too_deep(brackets, most)):
        return raw
    deep = b"".join(_too_deep(_masked(parts), most))
    found: list[bytes] = []
    kept = 0
    while (start := deep.find(b"\1", kept)) >= 0:
        end = deep.find(b"\0", start)
        found += (raw[kept:start], _TOO_DEEP)
        kept = end + 1 if end >= 0 else len(raw)
    return b"".join((*found, raw[kept:]))


def _split(raw: bytes) -> list[bytes]:
    """The parts between quotation marks that aren't escaped: each second one is a string."""
    return raw.replace(rb"\\", b"__").replace(rb"\"", b"__").split(b'"')


def _brackets(parts: list[bytes]) -> bytes:
    """The brackets outside strings."""
    return b"".join(parts[::2]).translate(None, _NO_BRACKETS)


def _masked(parts: list[bytes]) -> bytes:
    """The same text with zeros as the characters of strings."""
    masked = parts.copy()
    masked[1::2] = map(bytes, map(len, parts[1::2]))
    return b'"'.join(masked)


def _openings(text: bytes) -> int:
    return text.count(b"{") + text.count(b"[")


def _too_deep(
    text: bytes, most: int, level: int = 0, blocks: tuple[int, ...] = _BLOCKS
) -> Iterator[bytes]:
    """For each character of a text without strings 1 where it is beyond `most` levels, else 0."""
    size, *smaller = blocks
    for at in range(0, len(text), size):
        block = text[at : at + size]
        up = _openings(block)
        down = block.count(b"}") + block.count(b"]")
        if level + up <= most:
            yield bytes(len(block))
        elif level - down > most:
            yield b"\1" * len(block)
        elif smaller:
            yield from _too_deep(block, most, level, tuple(smaller))
        else:
            steps = array("b", block.translate(_STEPS))
            levels = islice(accumulate(steps, initial=level), 1, None)
            yield bytes(map(most.__lt__, levels))
        level += up - down


def containers(raw: bytes) -> int:
    """An upper bound of the maps and lists in a JSON text; exact above OBJECT_CONTAINERS."""
    openings = _openings(raw)
    if openings <= OBJECT_CONTAINERS:
        return openings
    return len(_brackets(_split(raw))) // 2


def read(raw: bytes) -> Any:
    """Decode one object; a part that is too deep or too large is replaced by a text.

    Its metadata then has the reason, under NOT_WHOLE.

    Raises:
        msgspec.MsgspecError: it isn't JSON, or has too many maps and lists and isn't a map.
    """
    if _openings(raw) <= MOST:
        return DECODER.decode(raw)
    parts = _split(raw)
    brackets = _brackets(parts)
    if len(brackets) // 2 > OBJECT_CONTAINERS:
        return _read_small_fields(raw)
    flat = _flattened(raw, parts, brackets, MOST)
    decoded = DECODER.decode(flat)
    if flat is not raw and isinstance(decoded, dict) and isinstance(decoded.get("metadata"), dict):
        decoded["metadata"][NOT_WHOLE] = TOO_DEEP
    return decoded


def _read_small_fields(raw: bytes) -> dict[str, Any]:
    """Decode the small fields of an object and of its metadata."""
    fields = _fields(raw)
    metadata = fields.pop("metadata", None)
    found = _small_ones(fields)
    if metadata is not None:
        found["metadata"] = _small_ones(_fields(bytes(metadata))) | {NOT_WHOLE: TOO_MANY}
    return found


def _fields(raw: bytes) -> dict[str, msgspec.Raw]:
    try:
        return _field_decoder.decode(raw)
    except RecursionError:
        return _field_decoder.decode(flattened(raw))


def _small_ones(fields: dict[str, msgspec.Raw]) -> dict[str, Any]:
    """Decode the smallest fields, up to half of an object's limit of maps and lists together."""
    left = OBJECT_CONTAINERS // 2
    found: dict[str, Any] = {}
    for key, value in sorted(fields.items(), key=lambda field: len(bytes(field[1]))):
        text = bytes(value)
        parts = _split(text)
        brackets = _brackets(parts)
        left -= len(brackets) // 2
        if left < 0:
            found[key] = TOO_MANY
        else:
            found[key] = DECODER.decode(_flattened(text, parts, brackets, MOST))
    return found


# Errors ------------------------------------------------------------------------------------------

RETRY_AFTER_CAP = 300.0
"""Seconds; a longer Retry-After is capped to this."""

_WEBHOOK = re.compile(r"""admission webhook ["'][^"']+["'] denied the request""")
_POLICY = re.compile(r"ValidatingAdmissionPolicy '[^']+' with binding '[^']+' denied request")
_TOO_LARGE = re.compile(
    r"request is too large|message larger than max|entity too large"
    r"|(?:may not be more than|must have at most|may not be longer than) \d{5,}(?: bytes)?"
)

_BY_STATUS: Mapping[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: ConflictError,
    410: Gone,
    413: TooLarge,
    422: Invalid,
    429: TooManyRequests,
}


def from_answer(
    status: int, body: Mapping[str, Any] | None, headers: Mapping[str, str] | None = None
) -> ApiError:
    """Build the error for an HTTP answer, or for the code in the Status of an ERROR in a watch.

    `body` is the decoded Status object, None where the answer isn't one.
    """
    body = body or {}
    message = str(body.get("message") or f"the API server responded with {status}")
    details = body.get("details")
    details = details if isinstance(details, Mapping) else {}
    reason = str(body.get("reason") or "")
    wait = _retry_after(headers or {}, details)
    kind = _classify(status, reason, message, details)
    if kind.default_reason not in (reason, "InternalError") and status not in (409, 410):
        reason = kind.default_reason
    if kind is QuotaExceeded:
        message = _QUOTA.sub(_describe_quota, message)
    return kind(message, status=status, reason=reason, details=details, retry_after=wait)


_QUOTA: Final = re.compile(
    r"exceeded quota: ([^ ,]+), requested: ([^ ]+), used: ([^ ]+), limited: ([^ ]+)"
)


def _describe_quota(found: re.Match[str]) -> str:
    """What a quota counts, with its numbers side by side."""
    requested, used, limited = (
        dict(one.rpartition("=")[::2] for one in numbers.split(","))
        for numbers in found.groups()[1:]
    )
    counted = [
        f"{what}: {used.get(what, '?')} of {limit} used, {requested.get(what, '?')} requested"
        for what, limit in limited.items()
        if what
    ]
    return f"the ResourceQuota {found[1]} counts {'; '.join(counted)}" if counted else found[0]


_FOREIGN: Final[Mapping[int, str]] = {
    401: "it refuses the credential (401): that has ended, was revoked, or is another cluster's",
    403: "it forbids the request (403); the credential needs get, list and watch there",
    404: "it has nothing at this path (404): the kind isn't served, or the object is missing",
    410: "it has forgotten this version (410)",
    429: "it asks for a pause (429)",
}


def from_foreign_answer(status: int, headers: Mapping[str, str]) -> ApiError:
    """Build the error for an HTTP answer of a server that isn't trusted.

    Its words are in no message: they may repeat the credential.
    """
    if isinstance(status, bool) or not 300 <= status < 600:
        status = 500  # of an ERROR in a watch: any number
    if status < 400:
        text = f"it redirects ({status}), which isn't followed; write the server's own URL"
    else:
        text = _FOREIGN.get(status, f"it responded with {status}")
    return from_answer(status, {"message": text}, headers)


def no_answer(host: str, error: Exception) -> Unreachable:
    """Build the error for a request to `host` that raised an exception of aiohttp's."""
    import aiohttp  # noqa: PLC0415 - commands without a cluster don't need it

    if isinstance(error, aiohttp.ClientPayloadError):
        return BrokenAnswer(f"the response of {host} was truncated")
    if isinstance(error, aiohttp.ClientResponseError):  # which would quote it
        return BrokenAnswer(f"the response of {host} isn't HTTP")
    if isinstance(error, TimeoutError):  # aiohttp's timeouts are TimeoutErrors too
        return Unreachable(f"{host} didn't respond in time", reason="Timeout")
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.strerror:
        text = error.os_error.strerror  # str(error) shows the repr of an SSLContext
    elif isinstance(error, aiohttp.ServerDisconnectedError):
        text = "Server disconnected"  # str(error) shows the headers received so far
    else:
        text = " ".join(str(error).split()) or type(error).__name__
    return Unreachable(f"{host} can't be reached: {text}")


def _classify(status: int, reason: str, message: str, details: Mapping[str, Any]) -> type[ApiError]:
    if 400 <= status < 500 and (_WEBHOOK.search(message) or _POLICY.search(message)):
        return AdmissionDenied
    if status in (400, 413, 422, 500) and _TOO_LARGE.search(message):
        return TooLarge
    special: type[ApiError] | None = None
    if status == 403 and _has_cause(details, "NamespaceTerminating"):
        special = NamespaceTerminating
    elif status == 403 and ("exceeded quota" in message or "failed quota" in message):
        special = QuotaExceeded
    elif status == 409 and reason == "AlreadyExists":
        special = AlreadyExists
    elif reason in {"Expired", "Gone"}:
        special = Gone
    return special or _BY_STATUS.get(status) or (ServerError if status >= 500 else ApiError)


def _has_cause(details: Mapping[str, Any], reason: str) -> bool:
    causes = details.get("causes") or ()
    return any(isinstance(cause, Mapping) and cause.get("reason") == reason for cause in causes)


_UNKNOWN_FIELD: Final = re.compile(r'unknown field "([^"]{1,253})"')


def _retry_after(headers: Mapping[str, str], details: Mapping[str, Any]) -> float | None:
    """Seconds from the header (a number or, from proxies, a date) or from the Status object."""
    value = headers.get("Retry-After") or details.get("retryAfterSeconds")
    seconds = parse_retry_after(value, headers) if value else None
    return None if seconds is None else min(max(seconds, 0.0), RETRY_AFTER_CAP)


def dropped_fields(warnings: Iterable[str]) -> set[str]:
    r"""The fields that the server has dropped, by its Warning headers.

    It sends these by default (``fieldValidation=Warn``): ``299 - "unknown field \"spec.x\""``.
    """
    found = (_UNKNOWN_FIELD.search(one.replace('\\"', '"')) for one in warnings)
    return {"".join(filter(str.isprintable, one[1])) for one in found if one}


FEW_PIECES: Final = 1000
SMALL_PIECE: Final = 32
"""Bytes: an event of a watch has more than 100."""


async def in_pieces(content: aiohttp.StreamReader) -> AsyncGenerator[bytes, None]:
    """What a server that isn't trusted sends, as it is sent.

    Raises:
        BrokenAnswer: in pieces of a few bytes, of which each takes some microseconds.
    """
    pieces = size = 0
    async for piece, _ in content.iter_chunks():
        pieces += 1
        size += len(piece)
        if pieces > FEW_PIECES and size < pieces * SMALL_PIECE:
            raise BrokenAnswer("its answer comes in pieces of a few bytes")
        yield piece


class Answer(NamedTuple):
    """A whole answer, with what is used of an aiohttp.ClientResponse."""

    status: int
    headers: CIMultiDictProxy[str]
    raw: bytes

    async def read(self) -> bytes:
        """The body."""
        return self.raw

    def release(self) -> None:
        """Its connection is free already."""


async def read_answer(
    response: aiohttp.ClientResponse | Answer, most: int | None, *, foreign: bool = False
) -> bytes:
    """Read the whole answer; `foreign` of a server that isn't trusted.

    Raises:
        AnswerTooLarge: it is longer than `most` bytes; the connection is closed.
        BrokenAnswer: as `in_pieces`.
    """
    if most is None or isinstance(response, Answer):
        return await response.read()
    chunks, left = [], most
    try:
        content = response.content
        async for chunk in in_pieces(content) if foreign else content.iter_any():
            chunks.append(chunk)
            left -= len(chunk)
            if left < 0:
                raise AnswerTooLarge(f"the response is longer than {most} bytes")
    except BaseException:
        response.close()  # as response.read() does
        raise
    return b"".join(chunks)


# Pages of lists, and events of watches -----------------------------------------------------------

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


@dataclass(frozen=True, slots=True)
class Items:
    """The objects of a page; each iteration decodes again, so iterate once."""

    parts: list[msgspec.Raw]
    reader: Reader

    def raw(self) -> Iterator[bytes]:
        """The objects as received."""
        return map(bytes, self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self.reader, self.raw())


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
