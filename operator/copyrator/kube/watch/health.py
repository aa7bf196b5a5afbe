"""The history of a watch's streams: whether it can be resumed, and whether it is healthy."""

from __future__ import annotations

import random

from copyrator.kube.errors import ApiError, BrokenAnswer, Gone, Unreachable
from copyrator.kube.watch.faults import Timing
from copyrator.kube.watch.store import OutOfOrderError

RESUMES = 3
"""Tries to resume a watch before everything is listed again: after etcd was restored from a backup
our resourceVersion may be in its future, and the server always answers "too large"."""


class WatchHealth:
    """One for each watch, for all its streams.

    Attributes:
        doubt: a stream was silent; the next one counts as healthy only after an event, a bookmark
            or a regular end.
        suspected: a stream broke or was refused, or another watch was found silent: the same cause
            may leave the next one silent, so that one is short, and its silence is detected soon.
    """

    def __init__(self, timing: Timing) -> None:
        self.doubt = False
        self.suspected = False
        self._timing = timing
        self._resumes = 0
        self._expired = False
        self._bookmarks = True

    def lengths(self) -> tuple[float, float]:
        """Timeout of the next stream and how long it may be silent, in seconds."""
        timing = self._timing
        spread = random.uniform(0.9, 1.1)  # noqa: S311 - not for secrets
        short = self.doubt or self.suspected
        length = timing.doubt if short else timing.stream * spread
        silence = timing.doubt_silence if short else timing.silence
        return length, silence if self._bookmarks else length + 5.0

    def broke(self, error: ApiError, *, opened: bool) -> tuple[ApiError | None, str]:
        """Record the failure of a stream, or the refusal of one that was never `opened`.

        Returns:
            The error to report, or None; and the reason why everything has to be listed again,
            empty where the watch can be resumed.
        """
        self.suspected = True
        if isinstance(error, Gone):
            again, self._expired = self._expired, True
            return error if again else None, "expired"  # once is normal, repeatedly isn't
        if isinstance(error, OutOfOrderError):
            return error, "out_of_order"
        if opened and error.reason == "Timeout":
            self.doubt = True
            silent = "the watch has received no event and no bookmark"
            return Unreachable(silent, reason="WatchSilent"), "silent"
        if opened or error.status:  # without an answer the version isn't in doubt
            self._resumes += 1
        return error, "lost" if self._resumes >= RESUMES else ""

    def ended(self, lived: float, *, bookmarks: bool) -> None:
        """Record a stream's regular end after `lived` seconds.

        Raises:
            BrokenAnswer: it was closed at once.
        """
        if lived < self._timing.settled:
            raise BrokenAnswer("the server closes the watch at once", reason="WatchClosed")
        self._bookmarks = bookmarks or (self._bookmarks and not self.doubt)
        self.suspected = False
        self.recovered()

    def listed(self) -> None:
        """Everything was listed: the next watch starts from there."""
        self._resumes = 0

    def recovered(self) -> None:
        """The stream is healthy."""
        self.doubt = False
        self._resumes = 0
        self._expired = False
