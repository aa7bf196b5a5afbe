"""What can go wrong between us and a registry, typed where the answer is seen.

Messages name the host and what to do. They never carry credentials, tokens, query strings (a
token server's may be sensitive) or more of an answer than the registry's own error code.
"""

# ruff: noqa: N818 - the classes carry the conditions' own reasons, which don't end in Error

from __future__ import annotations

from typing import ClassVar


class RegistryError(Exception):
    """An answer that is of no use, or the lack of one."""

    reason: ClassVar[str] = "RegistryUnreachable"
    """The Bundle condition's reason for it (docs/bundles.md)."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after = retry_after
        """Seconds for which the whole host is left alone, where it asked for that."""


class AuthenticationFailed(RegistryError):
    """The registry or its token server refuses these credentials, or wants some."""

    reason = "AuthenticationFailed"


class NotFound(RegistryError):
    """The registry answers, and has no such tag (or repository: many registries don't tell)."""

    reason = "TagNotFound"


class RateLimited(RegistryError):
    """429."""

    reason = "RateLimited"


class Unreachable(RegistryError):
    """No answer (name, refusal, timeout, reset) or a 5xx one."""


class TLSFailed(RegistryError):
    """The connection came about, but its certificate or protocol isn't acceptable."""


class InvalidResponse(RegistryError):
    """An answer that breaks the distribution specification, or our limits."""


class AddressRefused(RegistryError):
    """A registry, its token server or a redirect is at an address that is never asked."""
