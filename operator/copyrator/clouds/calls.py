"""What a cloud's protocol is given, and what it returns.

The clouds' libraries are synchronous, so they run in threads: a bounded number of them, fair
between namespaces, each with a time limit. A thread can't be ended, so it counts until it has ended
by itself; the process's end doesn't wait for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from yarl import URL

from copyrator.api.clouds import CloudRegistry, Provider
from copyrator.oci.auth import TOKEN_CHARACTERS
from copyrator.oci.errors import (
    IdentityMissing,
    IdentityUnavailable,
    RegistryError,
    TLSFailed,
)
from copyrator.oci.exchange import Request, Response
from copyrator.oci.transport import RegistryTransport
from copyrator.workqueue.fairness import FairLimit, tenant

CLOUD_CALLS: Final = 8
"""Requests to clouds for tokens at a time, each in a thread; two for one namespace's Bundles."""

CLOUD_CALL_SECONDS: Final = 45.0
"""What one may take; the libraries have shorter limits of their own for each request."""

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Account:
    """A service account whose identity is used."""

    namespace: str
    name: str
    annotations: Mapping[str, str]
    token: Callable[[str], Awaitable[str]]
    """Returns a token of the account for an audience, which ends after some ten minutes."""

    def __str__(self) -> str:
        return f"ServiceAccount {self.namespace}/{self.name}"

    @property
    def subject(self) -> str:
        """The name that its tokens have."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    def require(self, annotation: str, meaning: str, note: str = "") -> str:
        """The value of an annotation.

        Raises:
            IdentityMissing: there is none.
        """
        if value := self.annotations.get(annotation, "").strip():
            return value
        raise IdentityMissing(
            f"{self} has no annotation {annotation}; set it to {meaning}{note and f'. {note}'}"
        )


@dataclass(frozen=True, slots=True)
class Issued:
    """A username and password that a cloud's registries take."""

    username: str
    password: str = field(repr=False)
    expires: datetime


class Issue(Protocol):
    """Asks one cloud for a login; without an account for the operator's own identity.

    Raises:
        RegistryError: IdentityMissing, IdentityRefused, IdentityUnavailable, or RateLimited.
    """

    async def __call__(
        self, calls: Calls, registry: CloudRegistry, account: Account | None, *, writes: bool
    ) -> Issued:
        """``writes``: it is for a push."""


class Calls:
    """Runs functions of the clouds' libraries.

    Attributes:
        transport: requests to registries.
        clock: the time.
    """

    def __init__(self, transport: RegistryTransport, clock: Callable[[], datetime]) -> None:
        self.transport = transport
        self.clock = clock
        self._limit = FairLimit(each=2, together=CLOUD_CALLS)

    async def run(
        self, provider: Provider, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a function in a thread.

        Raises:
            IdentityMissing: the provider's library isn't installed.
            IdentityUnavailable: it takes too long.
        """
        group = tenant()
        await self._limit.acquire(group)
        loop, future = asyncio.get_running_loop(), Future[T]()

        def work() -> None:
            try:
                found = call(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(found)
            finally:
                with suppress(RuntimeError):  # the loop has been closed
                    loop.call_soon_threadsafe(self._limit.release, group)

        future.set_running_or_notify_cancel()
        try:
            threading.Thread(target=work, name=f"{provider} login", daemon=True).start()
        except RuntimeError:  # it would never be released
            self._limit.release(group)
            raise IdentityUnavailable(
                f"no thread can be started for a login of {provider}: let the operator's pod have "
                "more processes"
            ) from None
        try:
            async with asyncio.timeout(CLOUD_CALL_SECONDS):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise IdentityUnavailable(
                f"{provider} didn't give a token within {CLOUD_CALL_SECONDS:.0f} s"
            ) from None
        except ImportError:
            raise IdentityMissing(
                f"the provider {provider} needs a library that isn't installed: set "
                f"image.variant=clouds of the chart, or run pip install 'copyrator[{provider}]'"
            ) from None

    async def send(self, request: Request, seconds: float, note: str = "") -> Response:
        """Send a request of a library by the transport, in so many seconds at most.

        Raises:
            IdentityUnavailable: there is no usable response; ``note`` is added to what isn't known
                to have another cause.
        """
        host = URL(request.url).host
        try:
            async with asyncio.timeout(seconds):
                return await self.transport.send(request)
        except TimeoutError:
            raise IdentityUnavailable(f"{host} doesn't answer within {seconds:.0f} s") from None
        except TLSFailed:
            raise IdentityUnavailable(
                f"{host}: its certificate isn't trusted, or TLS fails; where a proxy ends TLS, "
                "give the operator its CA (ca.configMapName of the chart)"
            ) from None
        except RegistryError as error:
            raise IdentityUnavailable(f"{error.message}{note}") from None


def is_token(text: Any) -> bool:
    """Whether a text that a cloud's server sent as a token fits into a header and a form."""
    if not isinstance(text, str) or not 0 < len(text) <= TOKEN_CHARACTERS:
        return False
    return text.isascii() and text.isprintable() and " " not in text
