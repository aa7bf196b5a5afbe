"""What goes wrong with a watch: for how long, how it is told, and when to try again."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

from copyrator.kube.errors import ApiError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. Tests shorten them; nobody else has a reason to."""

    stream: float = 290.0
    """How long the server is asked to keep a watch open, give or take a tenth."""
    silence: float = 70.0
    """Without a byte: the server sends a bookmark about every 60 s, so the stream is dead."""
    doubt: float = 20.0
    """Length of streams after one was silent, until one has proved to be alive: a server sends a
    bookmark 2 s before the end."""
    doubt_silence: float = 25.0
    settled: float = 1.0
    """A stream that ends earlier was closed at once: a fault."""
    stable: float = 30.0
    """A stream that lives so long makes the delays start small again."""
    first_delay: float = 0.2
    longest_delay: float = 20.0
    tolerance: float = 60.0
    """After a fault of this length what is known doesn't count as known any more."""


DEFAULT_TIMING = Timing()


class Faults:
    """The present fault of a watch, told once and not per try; and the growing delays."""

    def __init__(self, what: str, timing: Timing, clock: Callable[[], float]) -> None:
        self.current: ApiError | None = None
        self.since = 0.0
        self._what = what
        self._timing = timing
        self._clock = clock
        self._told: set[tuple[type[ApiError], str]] = set()
        self._delay = 0.0

    @property
    def seconds(self) -> float:
        """How long the present fault has lasted; 0 when all is well."""
        return self._clock() - self.since if self.current else 0.0

    def note(self, error: ApiError, known: int, *, everywhere: bool = False) -> None:
        """Something went wrong; `known` objects are kept.

        What happens `everywhere` is told by the gate, once for all. One cut connection that is
        mended at the first try isn't worth a word either.
        """
        hiccup = self.current is None and error.concerns_all
        if self.current is None:
            self.since = self._clock()
        self.current = error
        kind = type(error), error.reason
        if kind not in self._told and not everywhere and not hiccup:
            self._told.add(kind)
            log.warning("watch of %s: %s; the %d objects known are kept", self._what, error, known)

    def clear(self) -> None:
        """All is well (again)."""
        if self._told:
            log.info("watch of %s: works again after %.0f s", self._what, self.seconds)
        self.current = None
        self._told.clear()

    def calm(self) -> None:
        """All has been well for long: let the delays start small."""
        self._delay = 0.0

    def next_delay(self) -> float:
        """Seconds to wait before the next try: each time twice as long, with jitter."""
        timing = self._timing
        self._delay = min(max(self._delay * 2, timing.first_delay), timing.longest_delay)
        return self._delay * random.uniform(0.5, 1.0)  # noqa: S311 - not for secrets
