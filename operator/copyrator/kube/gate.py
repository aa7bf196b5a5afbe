"""While the API server fails everybody, one request at a time finds out whether it is back.

Each key and each watch has delays of its own, but there can be ten thousand of them: without this
an API server that struggles to its feet would be met by all of them at once, again and again.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from copyrator.kube.errors import ApiError

log = logging.getLogger(__name__)

FAILURES = 5
"""So many failures in a row, with no answer between them, close the gate."""

FIRST_PAUSE = 0.25
LONGEST_PAUSE = 2.0
"""Seconds between probes: few requests, and a recovery is noticed soon."""

PATIENCE = 15.0
"""Seconds that a request waits at the gate before it fails as the last probe did."""


class Gate:
    """Open while the server answers; closed when nothing but failures comes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._last: ApiError | None = None
        self._closed_at: float | None = None
        self._pause = 0.0
        self._probing = False
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def outage(self) -> tuple[ApiError, float] | None:
        """What all requests fail with, and for how many seconds; None while the gate is open."""
        if self._closed_at is None or self._last is None:
            return None
        return self._last, self._clock() - self._closed_at

    @asynccontextmanager
    async def attempt(self) -> AsyncIterator[None]:
        """Wait until it makes sense to try, and learn from how it goes.

        Raises:
            ApiError: like the last probe's, when the wait took too long.
        """
        if self._closed_at is not None:
            await self._wait()
        try:
            yield
        except ApiError as error:
            if error.concerns_all:
                self._failed(error)
            else:
                self._answered()
            raise
        except BaseException:
            self._abandoned()
            raise
        else:
            self._answered()

    async def _wait(self) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._arm()
        try:
            async with asyncio.timeout(PATIENCE):
                await turn
        except (asyncio.CancelledError, TimeoutError) as error:
            if turn.done() and not turn.cancelled():
                self._abandoned()
            else:
                self._waiting.remove(turn)
            if isinstance(error, TimeoutError) and self._last:
                raise copy.copy(self._last) from None
            raise

    def _failed(self, error: ApiError) -> None:
        self._failures += 1
        self._last = error
        self._probing = False
        if self._failures >= FAILURES:
            if self._closed_at is None:
                self._closed_at = self._clock()
                self._pause = FIRST_PAUSE
                log.warning("the API server fails all requests; they wait until it is back")
            else:
                self._pause = min(self._pause * 2, LONGEST_PAUSE)
            self._arm()

    def _answered(self) -> None:
        self._failures = 0
        self._probing = False
        if self._closed_at is not None:
            log.info("the API server is back after %.0f s", self._clock() - self._closed_at)
            self._closed_at = None
            while self._waiting:
                self._release()

    def _abandoned(self) -> None:
        """Somebody left without having learnt anything: let the next one probe."""
        self._probing = False
        self._arm()

    def _arm(self) -> None:
        if self._closed_at is not None and self._waiting and not (self._probing or self._timer):
            self._timer = asyncio.get_running_loop().call_later(self._pause, self._probe)

    def _probe(self) -> None:
        self._timer = None
        self._probing = bool(self._waiting)
        self._release()

    def _release(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
