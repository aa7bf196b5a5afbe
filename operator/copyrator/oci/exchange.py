"""A request to a registry and its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from multidict import MultiMapping
from yarl import URL

Sink = Callable[[bytes], Awaitable[None]]
"""Takes an answer's body in chunks; the next one is read when it has returned."""


@dataclass(frozen=True, slots=True)
class TlsVerification:
    """The verification of a server's certificate."""

    verify: bool = True
    ca: bytes | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """One request. ``max_body`` in bytes; a longer answer is an InvalidResponse.

    With a ``sink`` the body of a 200 goes there and isn't part of the Response; the sink's time
    doesn't count towards the timeout. ``named``: the host is named by a Bundle. ``see_other``:
    a 303 is followed; otherwise it is the answer.
    """

    method: str
    url: str
    trust: TlsVerification = TlsVerification()
    headers: Mapping[str, str] | None = None
    form: Mapping[str, str] | None = None
    max_body: int = 0
    sink: Sink | None = None
    named: bool = False
    see_other: bool = True
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """The answer's own message isn't repeated if it has one of these."""


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
