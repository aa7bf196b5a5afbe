"""Reads tag lists page by page, completely or not at all, up to a limit.

A decision needs the complete list: an incomplete one looks as if newer versions were deleted. So
any fault of a list raises, and the tags read so far must not be used. Source: the OCI
distribution specification ("Listing Tags").
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from typing import Final

import msgspec

from copyrator.oci.errors import InvalidResponse, RegistryError, RegistryUnreachable
from copyrator.oci.exchange import Repository, Response, Sink, next_page
from copyrator.workqueue.fairness import FairLimit, TimeSlice

TAG_LIST_BYTES: Final = 64 * 1024 * 1024
"""Bytes of all pages of a tag list."""

TAG_LIST_TAGS: Final = 400_000
"""Tags of a list: many times what large repositories have; choosing from so many takes seconds of
processor time."""

TAG_LIST_PAGES: Final = 1000
"""Pages of a tag list."""

TAG_LIST_SECONDS: Final = 600.0
"""Seconds for all pages of a tag list; a single one has the client's timeout."""

TAG_CHARACTERS: Final = 128
"""Characters of a tag: the OCI specification's own limit."""

TAGS_A_PAGE: Final = 1000
_REFUSES_SIZE: Final = frozenset({400, 405, 406, 413, 414, 416, 422, 501})
"""Statuses with which registries refuse a page's size; the list is requested again without one."""

Take = Callable[[list[str]], Awaitable[None]]
"""Called with the tags, at most a thousand at a time."""


async def read_tags(
    ask: Callable[[str, Sink], Awaitable[Response]],
    repository: Repository,
    take: Take,
    turns: FairLimit,
    clock: Callable[[], float],
) -> None:
    """Pass all tags to `take`; `ask` requests a page into a sink, and raises if it can't.

    Tags are decoded and passed on while holding a slot of `turns`, a thousand at a time.

    Raises:
        InvalidResponse: a page is invalid, leads to another host, or exceeds a limit.
        RegistryUnreachable: the list takes too long.
    """
    url: str | None = (first := repository.tags_url(TAGS_A_PAGE))
    started = clock()
    seen: set[str] = set()
    pages = _Pages(repository, take, turns)
    before = b""
    while url is not None:
        seen.add(url)
        try:
            answer = await ask(url, pages.read)
        except RegistryError as error:
            if url != first or error.status not in _REFUSES_SIZE:
                raise
            url = repository.tags_url(None)
            continue
        url = next_page(answer, repository, "tags")
        if pages.digest and pages.digest == before:
            raise _endless(repository, "returns the same page again")
        if url in seen or (
            url is not None and (len(seen) >= TAG_LIST_PAGES or pages.size > TAG_LIST_BYTES)
        ):
            raise _endless(repository, "always has one more page")
        if clock() - started > TAG_LIST_SECONDS:
            raise RegistryUnreachable(
                f"{repository.host}: the tag list takes more than {TAG_LIST_SECONDS:.0f} s"
            )
        before = pages.digest or before


class _Pages:
    """The pages of one list, of which one after the other is read.

    Attributes:
        size: bytes of all.
        digest: the last one's hash, to detect a repeated page; empty of one without tags.
    """

    def __init__(self, repository: Repository, take: Take, turns: FairLimit) -> None:
        self.size = 0
        self.digest = b""
        self._count = 0
        self._repository = repository
        self._take = take
        self._turns = turns

    async def read(self, page: bytearray) -> None:
        """Pass a page's tags on, with pauses."""
        self.size += len(page)
        time_slice = TimeSlice()
        batches = tags_of(page)
        before = self._count
        while True:
            async with self._turns.slot(self._repository.host):
                try:
                    tags = next(batches, None)
                except ValueError:
                    text = f"{self._repository.host} responds with an invalid tag list"
                    raise InvalidResponse(text) from None
                if tags is None:
                    break
                self._count += len(tags)
                if self._count > TAG_LIST_TAGS:
                    raise InvalidResponse(
                        f"{self._repository} has more than {TAG_LIST_TAGS} tags, too many to "
                        "choose from: set spec.version to one tag, or delete tags"
                    )
                if tags:
                    await self._take(tags)
                await time_slice.pause()
        self.digest = hashlib.sha256(page).digest() if self._count > before else b""


def _endless(repository: Repository, how: str) -> InvalidResponse:
    return InvalidResponse(f"{repository.host} returns an endless tag list: it {how}")


class _Page(msgspec.Struct):
    tags: msgspec.Raw


_pages = msgspec.json.Decoder(_Page)
_strings = msgspec.json.Decoder(list[str])


def _spelled(plain: int) -> re.Pattern[bytes]:
    """The key "tags" whose first letters are plain, the next one escaped, the others either."""
    escaped = [rb"\\u%04x" % letter for letter in b"tags"]
    start = b'"' + b"tags"[:plain] + b"".join(escaped[plain : plain + 1])
    rest = zip(b"tags"[plain + 1 :], escaped[plain + 1 :], strict=True)
    either = b"".join(rb"(?:%c|%b)" % pair for pair in rest)
    return re.compile(start + either + rb'"[ \t\n\r]*:')


_KEYS: Final = tuple(map(_spelled, range(5)))
"""The key in each spelling: apart, since a pattern is found quickly only by a constant start."""
_BATCH: Final = re.compile(
    rb'(?:[ \t\n\r,]*+"[^"\\]*+(?:\\.[^"\\]*+)*+"){1,%d}+' % TAGS_A_PAGE, re.DOTALL
)
"""Strings of an array whose commas are known to be in their places."""
_BATCH_BYTES: Final = 64 * 1024
_DIGEST: Final = re.compile(r"[a-z][a-z0-9+._-]{0,31}[:-][0-9a-fA-F]{64,256}(?:\.[a-z0-9-]{1,16})?")
"""A digest as some registries list it among the tags: ``sha512:…``, ``sha512-….sig``."""


def tags_of(page: bytes | bytearray) -> Iterator[list[str]]:
    """The tags of a page in batches, each of which takes less than a millisecond.

    All at once would be a string for each tag in memory: 100 MB from 8 MB of two-letter tags. Empty
    batches separate steps that take milliseconds for a hostile page.

    Raises:
        ValueError: it isn't a complete tag list: anything but strings under "tags", "tags" twice or
            not at all, or no JSON; the message doesn't quote it.
    """
    try:
        array = memoryview(_pages.decode(page).tags)
        at = 1
        while batch := _BATCH.match(array, at, at + _BATCH_BYTES):
            at = batch.end()
            tags = _strings.decode(b"[" + bytes(batch[0]).lstrip(b" \t\n\r,") + b"]")
            longer = {tag for tag in tags if len(tag) > TAG_CHARACTERS}
            if not all(map(_DIGEST.fullmatch, longer)):
                raise ValueError
            yield [tag for tag in tags if tag not in longer] if longer else tags
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise ValueError("not a tag list") from None
    if bytes(array[:4]) != b"null" and bytes(array[at:]).strip(b" \t\n\r") != b"]":
        raise ValueError("not a tag list")
    yield []
    keys = 0
    for spelled in _KEYS:
        keys += len(list(islice(spelled.finditer(page), 2)))
        if keys > 1:
            raise ValueError("not a tag list")
        yield []
