"""The API server's address, our credentials, which are renewed in time, and its circuit breaker.

While all requests fail, the breaker lets one probe at a time through until one succeeds. Each key
and each watch has a back-off of its own, but there can be ten thousand of them: without this, all
would send their retries to an API server that is recovering. When it is back, all continue at once,
however long their back-offs had become.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from copyrator import __version__
from copyrator.kube.errors import ApiError, NotLeading
from copyrator.workqueue.fairness import Waiters

log = logging.getLogger(__name__)

FAILURES = 5
"""Failures in a row, with no other answer between them, after which attempts are held back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """Durations in seconds; only tests use others than the defaults."""

    first: float = 0.25
    longest: float = 2.0
    """Between probes: few requests, and a recovery is detected soon."""
    patience: float = 15.0
    """An attempt is held back for so long before it fails with the last probe's error."""


DEFAULT_PAUSES = Pauses()


class Permit:
    """One attempt that was let through. Only the first outcome that is reported counts."""

    __slots__ = ("_breaker", "_caller", "_reported")

    def __init__(self, breaker: CircuitBreaker, caller: object) -> None:
        self._breaker = breaker
        self._caller = caller
        self._reported = False

    def succeeded(self) -> None:
        """The server answered, or refused this request alone."""
        if self._is_first():
            self._breaker.answered()

    def failed(self, error: ApiError) -> None:
        """It failed with an error that any other attempt would get."""
        if self._is_first():
            self._breaker.failed(error, self._caller)

    def given_up(self) -> None:
        """It ended without an outcome."""
        if self._is_first():
            self._breaker.abandoned()

    def _is_first(self) -> bool:
        reported, self._reported = self._reported, True
        return not reported


class Attempt:
    """One attempt as an async context manager; a class, because there is one for each request."""

    __slots__ = ("_breaker", "_patience", "_permit")

    def __init__(self, breaker: CircuitBreaker, patience: float) -> None:
        self._breaker = breaker
        self._patience = patience

    async def __aenter__(self) -> None:
        self._permit = await self._breaker.permit(patience=self._patience)

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        single = isinstance(error, ApiError) and not error.concerns_all
        if error is None or (single and not isinstance(error, NotLeading)):
            self._permit.succeeded()
        elif isinstance(error, ApiError) and not isinstance(error, NotLeading):
            self._permit.failed(error)
        else:
            self._permit.given_up()  # nothing was sent, or it was cancelled


class CircuitBreaker:
    """Closed while attempts at `what` succeed; open, with single probes, while all of them fail."""

    def __init__(
        self,
        what: str = "requests",
        clock: Callable[[], float] = time.monotonic,
        pauses: Pauses = DEFAULT_PAUSES,
    ) -> None:
        self.answered_at = clock()
        """`clock` at the server's last answer, including the refusal of a single request."""
        self.on_close: Callable[[], None] = lambda: None
        """Called when the server is back, so that back-offs elsewhere can end."""
        self._what = what
        self._clock = clock
        self._pauses = pauses
        self._failing: set[object] = set()
        self._last: ApiError | None = None
        self._opened_at: float | None = None
        self._pause = 0.0
        self._probing = False
        self._waiting = Waiters()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def outage(self) -> tuple[ApiError, float] | None:
        """The common error and its duration in seconds; None while closed."""
        if self._opened_at is None or self._last is None:
            return None
        return self._last, self._clock() - self._opened_at

    def attempt(self) -> Attempt:
        """Wait until attempts are let through, and record the outcome: a context manager.

        Entering raises a copy of the last probe's error after `Pauses.patience`.
        """
        return Attempt(self, self._pauses.patience)

    async def permit(self, caller: object = None, *, patience: float) -> Permit:
        """Wait until attempts are let through; the outcome must be reported to the Permit.

        Args:
            caller: failures of the same caller count once; without a caller, each counts.
            patience: seconds to wait.

        Raises:
            ApiError: a copy of the last probe's, after `patience` seconds.
        """
        if self._opened_at is not None:
            await self._wait(patience)
        return Permit(self, caller or object())

    async def _wait(self, patience: float) -> None:
        turn = self._waiting.join()
        self._arm()
        try:
            async with asyncio.timeout(patience):
                await self._waiting.wait(turn, self.abandoned)
        except TimeoutError:
            if self._last:
                raise copy.copy(self._last) from None
            raise

    def failed(self, error: ApiError, caller: object) -> None:
        """Record a failed attempt."""
        self._last = error
        self._probing = False
        if self._opened_at is not None:
            self._pause = min(self._pause * 2, self._pauses.longest)
            self._arm()
            return
        self._failing.add(caller)
        if len(self._failing) >= FAILURES:
            self._opened_at = self._clock()
            self._pause = self._pauses.first
            log.warning(
                "all %s fail (%s); they are paused until the API server recovers", self._what, error
            )
            self._arm()

    def answered(self) -> None:
        """Record a success and release all that wait."""
        self.answered_at = self._clock()
        self._failing.clear()
        self._probing = False
        if self._opened_at is not None:
            seconds = self._clock() - self._opened_at
            log.info("the API server serves %s again after %.0f s", self._what, seconds)
            self._opened_at = None
            while self._waiting:
                self._waiting.call()
            self.on_close()

    def abandoned(self) -> None:
        """Record an attempt without an outcome: the next one becomes the probe."""
        self._probing = False
        self._arm()

    def _arm(self) -> None:
        if self._opened_at is not None and self._waiting and not (self._probing or self._timer):
            self._timer = asyncio.get_running_loop().call_later(self._pause, self._probe)

    def _probe(self) -> None:
        self._timer = None
        self._probing = self._waiting.call()


REREAD_SECONDS = 60.0
"""Interval for reading token files again: bound service account tokens rotate on disk."""

RENEW_PAUSE = 10.0
"""Seconds between renewals caused by refused requests: an exec plug-in can be slow."""


class KubeconfigError(Exception):
    """The cluster can't be configured; the message names the file and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One server and one set of credentials, as loaded."""

    host: str
    authorization: str | None = None
    """Value of the header: ``Bearer …``; never logged, so not part of the representation."""
    ssl: ssl.SSLContext | None = None
    proxy: str | None = None
    server_hostname: str | None = None
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    verify: bool = True
    valid_for: float | None = None
    """Seconds after which it should be loaded again; None: as long as it is accepted."""

    def __repr__(self) -> str:
        return f"Endpoint(host={self.host!r})"


Loader = Callable[[], Awaitable[Endpoint]]


class Connection:
    """The current `Endpoint`, loaded again when it is due or the server refused it.

    Attributes:
        origin: human-readable source of the credentials.
        place: `` in the cluster of …`` for messages; empty for the cluster of the operator.
        generation: grows with each renewal, so that many requests refused together cause one.
        requests: holds all requests back while the server fails all of them.
        watches: holds watches back while none of them can be opened.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        origin: str = "given",
        loader: Loader | None = None,
        clock: Callable[[], float] = time.monotonic,
        pauses: Pauses = DEFAULT_PAUSES,
        place: str = "",
    ) -> None:
        self.endpoint = endpoint
        self.origin = origin
        self.place = place
        self.generation = 0
        self.requests = CircuitBreaker(f"requests{place}", clock, pauses)
        self.watches = CircuitBreaker(f"watches{place}", clock, pauses)
        self._loader = loader
        self._clock = clock
        self._lock = asyncio.Lock()
        self._loaded_at = clock()
        self._tried_at = float("-inf")
        self._fault: str | None = None
        self.impersonate: str | None = None
        """User to impersonate, where the credentials allow it."""
        self._headers = _headers(endpoint)

    @property
    def host(self) -> str:
        """The server's URL without a trailing slash."""
        return self.endpoint.host

    @property
    def ssl(self) -> ssl.SSLContext | None:
        """The SSL context of the current credentials (client certificates can change)."""
        return self.endpoint.ssl

    @property
    def breaker_is_open(self) -> bool:
        """Whether a circuit breaker delays requests or watches; it has logged the cause already."""
        return bool(self.requests.outage or self.watches.outage)

    async def headers(self) -> Mapping[str, str]:
        """Headers of a request: user agent and impersonation, and the present token."""
        due = self.endpoint.valid_for
        if due is not None and self._clock() - self._loaded_at >= due:
            await self.renew(self.generation, pause=REREAD_SECONDS / 4)
        if self.impersonate:
            return {**self._headers, "Impersonate-User": self.impersonate}
        return self._headers

    async def renew(self, seen: int, *, pause: float = RENEW_PAUSE) -> bool:
        """Load the credentials again, unless another caller did so meanwhile.

        Args:
            seen: the generation that was refused.
            pause: minimum seconds between two tries.

        Returns:
            True if there are newer credentials than generation `seen`.
        """
        async with self._lock:
            if self.generation != seen:
                return True
            now = self._clock()
            if self._loader is None or now - self._tried_at < pause:
                return False
            self._tried_at = now
            try:
                endpoint = await self._loader()
            except (KubeconfigError, OSError, ssl.SSLError) as error:
                self._report(f"credentials can't be renewed ({self.origin}): {error}")
                return False
            self._report(None)
            self.endpoint = endpoint
            self._headers = _headers(endpoint)
            self._loaded_at = self._clock()
            self.generation += 1
            return True

    def _report(self, fault: str | None) -> None:
        if fault != self._fault:
            if fault:
                log.warning("%s", fault)
            else:
                log.info("credentials were renewed (%s)", self.origin)
        self._fault = fault


def _headers(endpoint: Endpoint) -> Mapping[str, str]:
    headers = {"User-Agent": f"copyrator/{__version__}", "Accept-Encoding": "identity"}
    if endpoint.authorization:
        headers["Authorization"] = endpoint.authorization
    return headers
