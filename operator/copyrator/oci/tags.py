"""Reads tag lists page by page, completely or not at all, up to a limit.

A decision needs the complete list: an incomplete one looks as if newer versions were deleted. So
any fault of a list raises, and the tags read so far must not be used. Source: the OCI
distribution specification ("Listing Tags").
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Final

from copyrator.oci.errors import InvalidResponse, RegistryError, RegistryUnreachable
from copyrator.oci.exchange import Response, Sink
from copyrator.oci.paging import next_page
from copyrator.oci.reference import Repository
from copyrator.oci.tag_scanner import NotATagListError, TagScanner
from copyrator.settings.limits import (
    TAG_LIST_BYTES,
    TAG_LIST_PAGES,
    TAG_LIST_SECONDS,
    TAG_LIST_TAGS,
    TAG_LIST_VALUES,
)
from copyrator.workqueue.fairness import FairLimit, TimeSlice

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

    Tags are decoded and passed on while holding a slot of `turns`.

    Raises:
        InvalidResponse: a page is invalid, leads to another host, or exceeds a limit.
        Unreachable: the list takes too long.
    """
    url: str | None = (first := repository.tags_url(TAGS_A_PAGE))
    started = clock()
    seen: set[str] = set()
    size = count = 0
    values = TAG_LIST_VALUES
    before = b""
    while url is not None:
        seen.add(url)
        page = _Page(repository, take, turns, room=TAG_LIST_TAGS - count, values=values)
        try:
            answer = await ask(url, page.feed)
        except RegistryError as error:
            if url != first or error.status not in _REFUSES_SIZE:
                raise
            url = repository.tags_url(None)
            continue
        page.close()
        size += page.size
        count += page.count
        values = page.scanner.room
        content = page.digest if page.count else b""
        url = next_page(answer, repository, "tags")
        if content and content == before:
            raise _endless(repository, "returns the same page again")
        if url in seen or (
            url is not None and (len(seen) >= TAG_LIST_PAGES or size > TAG_LIST_BYTES)
        ):
            raise _endless(repository, "always has one more page")
        if clock() - started > TAG_LIST_SECONDS:
            raise RegistryUnreachable(
                f"{repository.host}: the tag list takes more than {TAG_LIST_SECONDS:.0f} s"
            )
        before = content or before


class _Page:
    """One page, parsed as it is received."""

    def __init__(
        self, repository: Repository, take: Take, turns: FairLimit, *, room: int, values: int
    ) -> None:
        self.count = 0
        self.size = 0
        self._repository = repository
        self._take = take
        self._turns = turns
        self._room = room
        self.scanner = TagScanner(values)
        self._hash = hashlib.sha256()

    @property
    def digest(self) -> bytes:
        """The page's hash, to detect a repeated page."""
        return self._hash.digest()

    async def feed(self, piece: bytes) -> None:
        """Parse a chunk and pass its tags on, with pauses."""
        self.size += len(piece)
        self._hash.update(piece)
        async with self._turns.slot(self._repository.host):
            time_slice = TimeSlice()
            try:
                for tags in self.scanner.feed(piece):
                    self.count += len(tags)
                    if self.count > self._room:
                        raise InvalidResponse(
                            f"{self._repository} has more than {TAG_LIST_TAGS} tags, too many to "
                            "choose from: set spec.version to one tag, or delete tags"
                        )
                    if tags:
                        await self._take(tags)
                    await time_slice.pause()
            except NotATagListError:
                raise _no_list(self._repository) from None

    def close(self) -> None:
        """Check the page at the end of the answer; raises InvalidResponse if it is incomplete."""
        try:
            self.scanner.close()
        except NotATagListError:
            raise _no_list(self._repository) from None


def _no_list(repository: Repository) -> InvalidResponse:
    return InvalidResponse(f"{repository.host} responds with an invalid tag list")


def _endless(repository: Repository, how: str) -> InvalidResponse:
    return InvalidResponse(f"{repository.host} returns an endless tag list: it {how}")
