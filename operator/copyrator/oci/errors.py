"""Typed errors of requests to registries.

Messages name the host and the remedy. They never include credentials, tokens, query strings (a
token server's may be sensitive) or more of an answer than the registry's own code and message,
which are bounded and cleaned (exchange.py).
"""

# ruff: noqa: N818 - the classes have the conditions' reasons as names, which don't end in Error

from __future__ import annotations

from typing import ClassVar

from copyrator.api.reasons.bundles import BundleReason


class RegistryError(Exception):
    """A request to a registry that failed, or had an unusable answer."""

    reason: ClassVar[BundleReason] = BundleReason.REGISTRY_UNREACHABLE
    """The Bundle condition's reason for it (docs/bundles.md)."""

    def __init_subclass__(cls, *, is_reason: bool = True) -> None:
        """The class's name is the reason, unless it is the parent's."""
        if is_reason:
            cls.reason = BundleReason(cls.__name__)

    def __init__(
        self, message: str, retry_after: float | None = None, *, status: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after = retry_after
        """Seconds for which no request is sent to the host; None: requests are sent."""
        self.status = status
        """The HTTP status of the registry's own answer to the request; 0: the answer was cut off or
        isn't HTTP. None: no answer, a pause, or the fault is of another server (token server)."""


class AuthenticationFailed(RegistryError):
    """The registry or its token server refuses these credentials, or requires some."""


class TagNotFound(RegistryError):
    """The registry has no such tag (or repository: for tags many registries don't distinguish)."""


class RepositoryNotFound(TagNotFound):
    """The registry has no such repository, or doesn't show it to who asks."""


class RateLimited(RegistryError):
    """The registry responded with 429."""


class RegistryUnreachable(RegistryError):
    """There was no answer (DNS, connection refused, timeout, reset), or one with 5xx."""


class IdentityMissing(AuthenticationFailed):
    """There is no identity of spec.provider's cloud: an annotation, right or library is missing."""


class IdentityRefused(AuthenticationFailed):
    """The cloud refuses the identity, or doesn't give it a token for the registry."""


class IdentityUnavailable(RegistryUnreachable):
    """The cloud's server that gives tokens, or its metadata server, can't be reached or fails."""


class TLSFailed(RegistryError, is_reason=False):
    """The connection was opened, but its certificate or protocol isn't acceptable."""


class InvalidResponse(RegistryError, is_reason=False):
    """An answer that violates the distribution specification, or exceeds a limit."""


class PushRefused(RegistryError):
    """The registry doesn't take what is pushed: a quota, an immutable tag, an unsupported type."""


class AddressRefused(RegistryError, is_reason=False):
    """A registry, its token server or a redirect is at an address that isn't allowed."""
