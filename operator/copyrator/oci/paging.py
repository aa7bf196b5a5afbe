"""The next page of a list: of tags, of referrers.

Source: RFC 8288 (Link), as the OCI distribution specification uses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from yarl import URL

from copyrator.oci.errors import InvalidResponse
from copyrator.oci.exchange import Response, parse_url
from copyrator.oci.reference import Repository
from copyrator.settings.limits import REGISTRY_HEADER_BYTES

_LINK = re.compile(r"<([^<>]*)>([^<]*)")
_REL = re.compile(r"""\brel\s*=\s*(?:"([^"]*)"|([^\s",;]+))""", re.IGNORECASE)
_NEXT = re.compile(r"\bnext\b", re.IGNORECASE)
_LIST = re.compile(r"/(?:tags/list|referrers/[^/]+)\Z")
"""The end of a page's path, which says what it lists."""
_PORTS: Final = {"http": 80, "https": 443}
_NAME_CHARACTERS: Final = 300
"""Of another host's name in a message."""


def next_page(answer: Response, repository: Repository, what: str) -> str | None:
    """The next page's URL on the repository's origin; None at the end.

    Behind a proxy that ends TLS, or that serves the registry under another path, Link has the
    registry's own scheme, no port, or its own path: only its query is used if it ends as this
    page's path does. Another host is refused: it would get our credentials. ``what`` is listed:
    ``tags``, ``referrers``.

    Raises:
        InvalidResponse: a next page is announced, but can't be requested.
    """
    target = next_target(answer.headers.getall("Link", ()))
    if target is None:
        return None
    try:
        if not target:
            raise ValueError(target)
        page, origin = URL(answer.url), URL(repository.origin)
        url = page.join(parse_url(target))
        url.origin()
        same = (
            url.scheme in _PORTS
            and url.raw_host == origin.raw_host
            and url.port in (_PORTS[url.scheme], origin.port)
        )
    except ValueError:
        raise InvalidResponse(f"{repository.host} has a next page that isn't a URL") from None
    if not same:
        name = f"{url.scheme}://{url.raw_host}" + (f":{url.port}" if url.port else "")
        raise InvalidResponse(
            f"{repository.host} has its next page of {what} on another host, "
            f"{name[:_NAME_CHARACTERS]}; refused"
        )
    end = _LIST.search(page.path)
    path = page.raw_path if end is not None and url.path.endswith(end[0]) else url.raw_path
    return f"{repository.origin}{path}" + (f"?{query}" if (query := url.raw_query_string) else "")


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
