"""What our client tells the child process that pushes, and what the child answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How to reach a registry, as our own client has decided it."""

    origin: str
    """``https://host[:port]``."""
    addresses: tuple[str, ...]
    """Of the host; without a proxy no other is connected to."""
    proxy: str | None = field(repr=False)
    """Its URL; it resolves the host's name."""
    verify: bool
    ca: bytes | None = field(repr=False)
    """PEM certificates that are trusted instead of the system's."""
    system_ca: tuple[str | None, str | None]
    """The system's file and directory of certificates, as the operator's environment sets them."""
    authorization: str | None = field(repr=False)
    user_agent: str


@dataclass(frozen=True, slots=True)
class Upload:
    """What is uploaded to a repository: blobs, then the manifest that names them."""

    path: str
    """The repository's name in the API."""
    blobs: tuple[bytes, ...]
    reference: str
    """A digest or a tag."""
    media_type: str
    manifest: bytes
    expected: str | None = None
    """The digest that the reference has before, empty for none; None: any."""


class PushFault(StrEnum):
    """Why there is no answer."""

    UNREACHABLE = "can't be reached"
    SLOW = "didn't respond in time"
    CUT_OFF = "closed the connection without a complete response"
    TLS = "fails in the TLS handshake"
    CERTIFICATE = "has a certificate that isn't trusted"
    PROXY = "can't be reached through the proxy"
    REDIRECT = "redirects what is pushed, which is refused"
    OTHER_HOST = "wants the upload to be sent to another host, which is refused"
    INVALID = "doesn't respond as a registry"
    CHANGED = "has another manifest there now"


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the last request, or why there is none."""

    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    """Only those that are used."""
    body: bytes = field(default=b"", repr=False)
    """Of an error: at most 16 KiB."""
    fault: PushFault | None = None
