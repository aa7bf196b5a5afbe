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

    stream: float = 46.0
    """How long the server is asked to keep a watch open, plus or minus a tenth. It sends a bookmark
    every 60 s and 2 s before the end: a longer one could be silent for a minute and be well."""
    silence: float = 55.0
    """Without a byte: the stream is dead."""
    doubt: float = 16.0
    """Length of kopf's streams, and of ours after one broke or was silent, until one has lived."""
    doubt_silence: float = 20.0
    settled: float = 1.0
    """A stream that ends earlier was closed at once: a fault."""
    stable: float = 10.0
    """A stream that lives so long makes the delays start small again."""
    first_delay: float = 0.3
    longest_delay: float = 10.0
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
        self._warned = False
        self._delay = 0.0

    @property
    def seconds(self) -> float:
        """How long the present fault has lasted; 0 when all is well."""
        return self._clock() - self.since if self.current else 0.0

    def note(
        self,
        error: ApiError,
        *,
        kept: str = "",
        everywhere: bool = False,
        since: float | None = None,
    ) -> None:
        """Something went wrong, now or at the time `since`; `kept` says what is still known.

        What happens `everywhere` is told by the gate, once for all. One cut connection that is
        mended at the first try is not logged.
        """
        hiccup = self.current is None and error.concerns_all
        if self.current is None:
            self.since = self._clock() if since is None else since
        self.current = error
        kind = type(error), error.reason
        if kind not in self._told and not everywhere and not hiccup:
            self._told.add(kind)
            self._warned = True
            log.warning("%s: %s%s", self._what, error, kept)

    def clear(self) -> None:
        """All is well (again)."""
        if self._warned:
            log.info("%s: works again after %.0f s", self._what, self.seconds)
        self.current = None
        self._warned = False

    def calm(self) -> None:
        """All has been well for long: let the delays start small, and tell what comes then.

        What comes and goes within seconds is told once.
        """
        self._delay = 0.0
        if self.current is None:
            self._told.clear()

    def next_delay(self) -> float:
        """Seconds to wait before the next try: each time three times as long, with jitter.

        A dozen watches that all fail are still fewer than ten tries a second.
        """
        timing = self._timing
        self._delay = min(max(self._delay * 3, timing.first_delay), timing.longest_delay)
        return self._delay * random.uniform(0.5, 1.0)  # noqa: S311 - not for secrets
