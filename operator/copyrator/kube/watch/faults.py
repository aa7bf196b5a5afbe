"""The fault of a watch: its duration, its log lines, and the delay before the next try."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

from copyrator.kube.errors import ApiError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations in seconds; only tests use others than the defaults."""

    stream: float = 46.0
    """Requested timeout of a watch, plus or minus a tenth. The server sends a bookmark every 60 s
    and 2 s before the end, if an object of the kind has changed since the last one: a longer watch
    could be silent for a minute and more and still be healthy."""
    silence: float = 55.0
    """Without a byte for so long the stream counts as dead."""
    doubt: float = 16.0
    """Timeout of kopf's streams, and of ours after a broken or silent one, until one is healthy."""
    doubt_silence: float = 20.0
    settled: float = 1.0
    """A stream that ends earlier counts as closed at once: a fault."""
    stable: float = 10.0
    """A stream that was open for so long resets the delays."""
    suspects: float = 2.0
    """In which watches that may be silent are reopened, so that not all come at once."""
    namespaces: float = 10.0
    """Between two polls of namespaces, so the delay of a new label or a deletion."""
    answer: float = 60.0
    """Timeout of a whole answer to kopf, or of a watch's headers."""
    first_delay: float = 0.3
    longest_delay: float = 10.0
    tolerance: float = 60.0
    """After a fault of this duration the cache doesn't count as synced any more."""


DEFAULT_TIMING = Timing()


class Faults:
    """The present fault of a watch, logged once and not per try; and the back-off."""

    def __init__(self, what: str, timing: Timing, clock: Callable[[], float]) -> None:
        self.current: ApiError | None = None
        self.since = 0.0
        self._what = what
        self._timing = timing
        self._clock = clock
        self._reported: set[tuple[type[ApiError], str]] = set()
        self._warned = False
        self._delay = 0.0

    @property
    def seconds(self) -> float:
        """Duration of the present fault; 0 without one."""
        return self._clock() - self.since if self.current else 0.0

    def note(
        self,
        error: ApiError,
        *,
        kept: str = "",
        everywhere: bool = False,
        since: float | None = None,
    ) -> None:
        """Record a fault that occurred now or at the time `since`; `kept` is added to the log line.

        A fault that occurs `everywhere` is logged by the circuit breaker, once for all. A single
        broken connection that is replaced at the first try is not logged.
        """
        is_single = self.current is None and error.concerns_all
        if self.current is None:
            self.since = self._clock() if since is None else since
        self.current = error
        kind = type(error), error.reason
        if kind not in self._reported and not everywhere and not is_single:
            self._reported.add(kind)
            self._warned = True
            log.warning("%s: %s%s", self._what, error, kept)

    def clear(self) -> None:
        """The fault is over."""
        if self._warned:
            log.info("%s: works again after %.0f s", self._what, self.seconds)
        self.current = None
        self._warned = False

    def calm(self) -> None:
        """Called after a long time without a fault: reset the delays, and log the next fault.

        A fault that comes and goes within seconds is logged once.
        """
        self._delay = 0.0
        if self.current is None:
            self._reported.clear()

    def next_delay(self) -> float:
        """Seconds to wait before the next try: each time three times as long, with jitter.

        A dozen watches that all fail still make fewer than ten tries a second.
        """
        timing = self._timing
        self._delay = min(max(self._delay * 3, timing.first_delay), timing.longest_delay)
        return self._delay * random.uniform(0.5, 1.0)  # noqa: S311 - not for secrets
