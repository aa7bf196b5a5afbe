"""Tag lists: whole or not at all, page by page, and never more than a bounded amount.

Whoever decides on a list must have seen all of it: half a list looks as if newer versions were
gone. So everything that makes a list doubtful is an error, and nothing of it is a result. Sources:
the OCI distribution specification ("Listing Tags") and RFC 8288 for Link.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import Final

import msgspec
from yarl import URL

from copyrator.oci.errors import InvalidResponse, Unreachable
from copyrator.oci.reference import Repository
from copyrator.oci.transport import Answer

TAGS_A_PAGE: Final = 1000
MAX_PAGE: Final = 8 * 1024 * 1024
"""Bytes of one page: registries that don't page send everything at once."""
MAX_PAGES: Final = 1000
MAX_LIST: Final = 64 * 1024 * 1024
"""Bytes of all pages."""
MAX_SECONDS: Final = 600.0
"""Seconds for all pages; a single one has the client's time-out."""

_LINK = re.compile(r"<([^<>]*)>([^<]*)")
_NEXT = re.compile(r"""\brel\s*=\s*(?:"[^"]*\bnext\b[^"]*"|next\b)""", re.IGNORECASE)


class _Page(msgspec.Struct):
    tags: list[str] | None
    """``null`` is what Go makes of an empty list."""


_clock = time.monotonic
_decoder = msgspec.json.Decoder(_Page)


async def tag_pages(
    ask: Callable[[str], Awaitable[Answer]], repository: Repository
) -> AsyncGenerator[list[str], None]:
    """The tags, at most TAGS_A_PAGE at a time; ``ask`` gets a page and raises if it can't.

    Raises:
        InvalidResponse: a page that is none, that leads to another host, or one too many.
        Unreachable: the list takes too long.
    """
    url: str | None = repository.tags_url(TAGS_A_PAGE)
    started = _clock()
    seen: set[str] = set()
    size = 0
    before = b""
    while url is not None:
        seen.add(url)
        answer = await ask(url)
        size += len(answer.body)
        tags = _read(answer, repository)
        content = hashlib.sha256(answer.body).digest() if tags else b""
        url = _next_page(answer, repository)
        if content and content == before:
            raise _endless(repository, "sends the same page again")
        if url in seen or (url is not None and (len(seen) >= MAX_PAGES or size > MAX_LIST)):
            raise _endless(repository, "always names one more page")
        if _clock() - started > MAX_SECONDS:
            raise Unreachable(f"{repository.host}: the tag list takes over {MAX_SECONDS:.0f} s")
        before = content or before
        for start in range(0, len(tags), TAGS_A_PAGE):
            yield tags[start : start + TAGS_A_PAGE]
            await asyncio.sleep(0)  # a registry that doesn't page must not hold up all others


def _read(answer: Answer, repository: Repository) -> list[str]:
    try:
        return _decoder.decode(answer.body).tags or []
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise InvalidResponse(f"{repository.host} answers a tag list that is none") from None


def _next_page(answer: Answer, repository: Repository) -> str | None:
    """The next page. Another host would get our credentials: refused."""
    target = _next_target(answer.headers.getall("Link", ()))
    if target is None:
        return None
    try:
        if not target:
            raise ValueError(target)
        url = URL(answer.url).join(URL(target))
        same = url.origin() == URL(repository.origin).origin()
    except ValueError:
        raise InvalidResponse(f"{repository.host} names a next page that is no URL") from None
    if not same:
        raise InvalidResponse(f"{repository.host} sends us to {url.host} for more tags; refused")
    return str(url)


def _next_target(headers: Iterable[str]) -> str | None:
    for header in headers:
        for target, parameters in _LINK.findall(header):
            if _NEXT.search(parameters):
                return str(target)
        if _NEXT.search(header):  # a next page that we can't find must not end the list
            return ""
    return None


def _endless(repository: Repository, how: str) -> InvalidResponse:
    return InvalidResponse(f"{repository.host} never ends its tag list: it {how}")
