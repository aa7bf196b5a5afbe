"""The next page of a list: of tags, of referrers.

Source: RFC 8288 (Link), as the OCI distribution specification uses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from yarl import URL

from copyrator.oci.errors import InvalidResponse
from copyrator.oci.exchange import Response, is_same_origin, parse_url
from copyrator.oci.reference import Repository
from copyrator.settings.limits import REGISTRY_HEADER_BYTES

_LINK = re.compile(r"<([^<>]*)>([^<]*)")
_REL = re.compile(r"""\brel\s*=\s*(?:"([^"]*)"|([^\s",;]+))""", re.IGNORECASE)
_NEXT = re.compile(r"\bnext\b", re.IGNORECASE)


def next_page(answer: Response, repository: Repository, what: str) -> str | None:
    """The next page's URL; None at the end. Another host is refused: it would get our credentials.

    ``what`` is listed: ``tags``, ``referrers``.

    Raises:
        InvalidResponse: a next page is announced, but can't be requested.
    """
    target = next_target(answer.headers.getall("Link", ()))
    if target is None:
        return None
    try:
        if not target:
            raise ValueError(target)
        url = URL(answer.url).join(parse_url(target))
        same = bool(url.origin()) and is_same_origin(url, URL(repository.origin))
    except ValueError:
        raise InvalidResponse(f"{repository.host} has a next page that isn't a URL") from None
    if not same:
        raise InvalidResponse(
            f"{repository.host} has its next page of {what} on another host, {url.host}; refused"
        )
    return str(url)


def next_target(headers: Iterable[str]) -> str | None:
    """The next page in the Link headers; "" where one is announced but can't be parsed."""
    room = REGISTRY_HEADER_BYTES
    for header in headers:
        room -= len(header)
        if room < 0:
            return ""
        for target, parameters in _LINK.findall(header):
            if _is_next(parameters):
                return str(target)
        if _is_next(header):  # else a next page that can't be parsed would end the list
            return ""
    return None


def _is_next(parameters: str) -> bool:
    return any(_NEXT.search(quoted or bare) for quoted, bare in _REL.findall(parameters))
