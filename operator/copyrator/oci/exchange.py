"""A repository, a request to its registry and the answer: the error in it, and its next page.

Sources: the OCI distribution specification; for Link RFC 8288.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from multidict import MultiMapping
from yarl import URL

from copyrator.api.schema import read_json
from copyrator.oci.errors import InvalidResponse
from copyrator.oci.push_route import Route

DOCKER_HUB_HOST: Final = "registry-1.docker.io"
DOCKER_HUB_NAMES: Final = frozenset(
    {"docker.io", "index.docker.io", "registry.hub.docker.com", DOCKER_HUB_HOST}
)
"""Names of Docker Hub, whose API has another host: ``docker.io`` is a web site."""

DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
"""The only form that werf accepts to pin a pull (docs/facts/werf.md)."""


@dataclass(frozen=True, slots=True)
class Repository:
    """One repository of one registry, and how to connect to that registry."""

    registry: str
    """``host[:port]`` as the user wrote it."""
    name: str
    """Path in the registry, without tag."""
    plain_http: bool = False
    verify: bool = True
    """False: any TLS certificate is accepted."""
    ca: bytes | None = field(default=None, repr=False)
    """PEM certificates to trust instead of the system's."""

    @property
    def host(self) -> str:
        """``host[:port]`` that requests go to."""
        return DOCKER_HUB_HOST if self.registry in DOCKER_HUB_NAMES else self.registry

    @property
    def path(self) -> str:
        """The repository's name in the API (Docker Hub's official images: ``library/…``)."""
        short = self.host == DOCKER_HUB_HOST and "/" not in self.name
        return f"library/{self.name}" if short else self.name

    @property
    def origin(self) -> str:
        """``https://host[:port]``."""
        return f"{'http' if self.plain_http else 'https'}://{self.host}"

    def manifest_url(self, reference: str) -> str:
        """URL of the manifest of a tag or digest."""
        return f"{self.origin}/v2/{self.path}/manifests/{reference}"

    def blob_url(self, digest: str) -> str:
        """URL of a blob."""
        return f"{self.origin}/v2/{self.path}/blobs/{digest}"

    def referrers_url(self, digest: str) -> str:
        """URL of the first page of the list of manifests that refer to this one (OCI 1.1)."""
        return f"{self.origin}/v2/{self.path}/referrers/{digest}"

    def tags_url(self, page: int | None) -> str:
        """URL of the tag list's first page, of ``page`` tags or as many as the registry wants."""
        return f"{self.origin}/v2/{self.path}/tags/list" + (f"?n={page}" if page else "")

    def __str__(self) -> str:
        return f"{self.registry}/{self.name}"


REGISTRY_HEADER_BYTES: Final = 16 * 1024
"""Bytes of one header, and of all Link or all WWW-Authenticate headers of a response that are
read."""

Sink = Callable[[bytearray], Awaitable[None]]
"""Takes an answer's body; few large ones are held until it has returned."""


Via = Callable[["Request", Route], Awaitable["Response"]]
"""Sends a request in place of the transport, which has checked the route."""


@dataclass(frozen=True, slots=True)
class TlsVerification:
    """The verification of a server's certificate."""

    verify: bool = True
    ca: bytes | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One request. ``max_body`` in bytes; a longer answer is an InvalidResponse.

    With a ``sink`` the body of a 200 goes there and isn't part of the Response; only waiting for
    the network counts towards the timeout. ``named``: the host is named by a Bundle. ``see_other``:
    a 303 is followed; otherwise it is the answer. ``via`` sends it, if that isn't the transport.
    With ``any_status`` every answer is returned with its body, also a redirect, error or 429, and
    no pause of the host counts.
    """

    method: str
    url: str
    trust: TlsVerification = TlsVerification()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    form: Mapping[str, str] | None = field(default=None, repr=False)
    data: bytes | None = field(default=None, repr=False)
    """The body, in place of a form."""
    max_body: int = 0
    sink: Sink | None = None
    named: bool = False
    see_other: bool = True
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """The answer's own message isn't repeated if it has one of these."""
    via: Via | None = None
    any_status: bool = False


@dataclass(frozen=True, slots=True)
class Response:
    """The answer; ``headers`` are case-insensitive."""

    status: int
    headers: MultiMapping[str]
    challenges: tuple[str, ...]
    body: bytes
    url: str
    said: str = ""
    """Of an error: its own code and message for our message, `` (DENIED: …)``; empty without."""


def is_same_origin(one: URL, other: URL) -> bool:
    """Whether scheme, host and port are the same (RFC 6454), also where one names its port."""
    return (one.scheme, one.raw_host, one.port) == (other.scheme, other.raw_host, other.port)


def parse_url(text: str) -> URL:
    """Parse a URL, absolute or not, that a server sent.

    Raises:
        ValueError: it isn't one, or its host can't be decoded (``xn--a``).
    """
    try:
        url = URL(text)
        _ = url.authority
    except IndexError:  # yarl's, for some, such as //]@
        raise ValueError(text) from None
    return url


SAID_CHARACTERS: Final = 200
_QUOTED: Final = 64
"""Characters of a secret whose beginning isn't repeated: a text may quote a part, or be cut off."""
_CODES: Final = ("code", "status", "error", "title")
_MESSAGES: Final = ("message", "error_description", "details", "detail", "description", "msg")
_CODE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_CHANGING: Final = re.compile(
    r"(?<![\w:])(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{16,256}|[12][0-9]{9}"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,]{5,20}Z?)(?!\w)",
    re.IGNORECASE,
)
"""IDs of requests and times, by which each answer's message would be another one."""


def error_text(body: bytes, secrets: Iterable[str]) -> str:
    """The code and message of an error's body in parentheses, bounded and cleaned.

    Sources: the OCI distribution specification ("Error Codes"), RFC 6749 (token servers), and
    what Docker Hub's token server, Artifactory, GitLab and Google respond with. Empty for other
    bodies, such as web pages, and for a text with one of the secrets.
    """
    try:
        code, message = _error_in(read_json(body))
    except (ValueError, RecursionError):
        return ""
    if code and not _CODE.fullmatch(code):
        code, message = "", message or code
    text = ": ".join(filter(None, (code, _clean(message))))
    if any(secret and _clean(secret)[:_QUOTED] in text for secret in secrets):
        return ""
    text = _CHANGING.sub("…", text)
    if len(text) > SAID_CHARACTERS:
        start, _, word = text[:SAID_CHARACTERS].rpartition(" ")
        text = f"{start if len(start) > len(word) else text[:SAID_CHARACTERS]} …"
    return f" ({text})" if text else ""


def _error_in(answer: Any) -> tuple[str, str]:
    """Code and message of the first error."""
    found = answer.get("errors", answer.get("error")) if isinstance(answer, dict) else None
    if isinstance(found, list):
        found = found[0] if found else None
        if isinstance(found, str):
            return "", found
    entry = found if isinstance(found, dict) else answer
    if not isinstance(entry, dict):
        return "", ""
    codes = [entry.get(key) for key in _CODES]
    number = next((str(one) for one in codes if type(one) is int and 0 < one < 10_000), "")
    code = next((one for one in codes if isinstance(one, str) and one), number)
    texts = (entry.get(key) for key in _MESSAGES)
    return code, next((one for one in texts if isinstance(one, str) and one), "")


def _clean(text: str) -> str:
    """Printable characters of a text on one line; of a long text the beginning."""
    words = text[: SAID_CHARACTERS * 20].split()
    return " ".join("".join(filter(str.isprintable, word)) for word in words).strip()


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
