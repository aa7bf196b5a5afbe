"""While the API server fails everybody, one attempt at a time finds out whether it is back.

Each key and each watch has delays of its own, but there can be ten thousand of them: without this
an API server that struggles to its feet would be met by all of them at once, again and again. And
when it is back, all know at once, however long their delays had become.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from copyrator.kube.errors import ApiError, NotLeading

log = logging.getLogger(__name__)

FAILURES = 5
"""So many failures in a row, with no answer between them, close the gate."""

FIRST_PAUSE = 0.25
LONGEST_PAUSE = 2.0
"""Seconds between probes: few requests, and a recovery is noticed soon."""

PATIENCE = 15.0
"""Seconds that a request waits at the gate before it fails as the last probe did."""


class Permit:
    """Somebody's attempt behind the gate. The first that is said of how it went counts."""

    __slots__ = ("_gate", "_open", "_who")

    def __init__(self, gate: CircuitBreaker, who: object) -> None:
        self._gate = gate
        self._who = who
        self._open = True

    def succeeded(self) -> None:
        """The server did what it should, or refused this one alone."""
        if self._close():
            self._gate.answered()

    def failed(self, error: ApiError) -> None:
        """It failed as it would have for anybody."""
        if self._close():
            self._gate.failed(error, self._who)

    def given_up(self) -> None:
        """Nothing was learnt."""
        if self._close():
            self._gate.abandoned()

    def _close(self) -> bool:
        was, self._open = self._open, False
        return was


class CircuitBreaker:
    """Open while `what` it stands before succeed; closed when nothing but failures comes."""

    def __init__(self, what: str = "requests", clock: Callable[[], float] = time.monotonic) -> None:
        self.answered_at = clock()
        """When the server last answered somebody, be it with a refusal of that one request."""
        self.on_open: Callable[[], None] = lambda: None
        """Called when the server is back: whoever waits elsewhere has no reason to any more."""
        self._what = what
        self._clock = clock
        self._failing: set[object] = set()
        self._last: ApiError | None = None
        self._closed_at: float | None = None
        self._pause = 0.0
        self._probing = False
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def outage(self) -> tuple[ApiError, float] | None:
        """What all fail with, and for how many seconds; None while the gate is open."""
        if self._closed_at is None or self._last is None:
            return None
        return self._last, self._clock() - self._closed_at

    @asynccontextmanager
    async def attempt(self) -> AsyncIterator[None]:
        """Wait until it makes sense to try, and learn from how it goes.

        Raises:
            ApiError: like the last probe's, when the wait took too long.
        """
        turn = await self.turn(patience=PATIENCE)
        try:
            yield
        except NotLeading:
            turn.given_up()  # nobody was asked
            raise
        except ApiError as error:
            if error.concerns_all:
                turn.failed(error)
            else:
                turn.succeeded()
            raise
        except BaseException:
            turn.given_up()
            raise
        else:
            turn.succeeded()

    async def turn(self, who: object = None, *, patience: float) -> Permit:
        """Wait until it makes sense to try; the Turn is then to be told how it went.

        Args:
            who: several failures of the same one count as one; of nobody, each counts.
            patience: seconds to wait.

        Raises:
            ApiError: like the last probe's, when the wait took too long.
        """
        if self._closed_at is not None:
            await self._wait(patience)
        return Permit(self, who or object())

    async def _wait(self, patience: float) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._arm()
        try:
            async with asyncio.timeout(patience):
                await turn
        except (asyncio.CancelledError, TimeoutError) as error:
            if turn.done() and not turn.cancelled():
                self.abandoned()
            else:
                self._waiting.remove(turn)
            if isinstance(error, TimeoutError) and self._last:
                raise copy.copy(self._last) from None
            raise

    def failed(self, error: ApiError, who: object) -> None:
        """An attempt failed."""
        self._last = error
        self._probing = False
        if self._closed_at is not None:
            self._pause = min(self._pause * 2, LONGEST_PAUSE)
            self._arm()
            return
        self._failing.add(who)
        if len(self._failing) >= FAILURES:
            self._closed_at = self._clock()
            self._pause = FIRST_PAUSE
            log.warning(
                "the API server fails all %s (%s); they wait until it is back", self._what, error
            )
            self._arm()

    def answered(self) -> None:
        """An attempt succeeded: let everybody in."""
        self.answered_at = self._clock()
        self._failing.clear()
        self._probing = False
        if self._closed_at is not None:
            seconds = self._clock() - self._closed_at
            log.info("the API server is back for %s after %.0f s", self._what, seconds)
            self._closed_at = None
            while self._waiting:
                self._release()
            self.on_open()

    def abandoned(self) -> None:
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
