"""What a watch has been through: whether it can go on from where it was, and whether it lives."""

from __future__ import annotations

import random

from copyrator.kube.errors import ApiError, BrokenAnswer, Gone, Unreachable
from copyrator.kube.watch.faults import Timing
from copyrator.kube.watch.store import OutOfOrderError

RESUMES = 3
"""Tries to go on with a watch before everything is listed again: after etcd was restored from a
backup our version lies in its future, and the server answers "too large" for ever."""


class WatchHealth:
    """One for each watch, through all its streams.

    Attributes:
        doubt: a stream was silent; the next one has to prove by an event or a bookmark, or by an
            end in order, that it lives.
        wary: a stream broke, was refused, or is suspected: what broke it may leave the next one
            silent, so that one is short, and its silence is noticed soon.
    """

    def __init__(self, timing: Timing) -> None:
        self.doubt = False
        self.wary = False
        self._timing = timing
        self._resumes = 0
        self._expired = False
        self._bookmarks = True

    def lengths(self) -> tuple[float, float]:
        """How long the next stream is asked to last, and how long it may be silent."""
        timing = self._timing
        spread = random.uniform(0.9, 1.1)  # noqa: S311 - not for secrets
        short = self.doubt or self.wary
        length = timing.doubt if short else timing.stream * spread
        silence = timing.doubt_silence if short else timing.silence
        return length, silence if self._bookmarks else length + 5.0

    def broke(self, error: ApiError, *, opened: bool) -> tuple[ApiError | None, str]:
        """Judge the end of a stream, or the refusal of one that was never `opened`.

        Returns:
            What is to be reported, None where it is nothing; and why everything has to be listed
            again, empty where the watch can go on.
        """
        self.wary = True
        if isinstance(error, Gone):
            again, self._expired = self._expired, True
            return error if again else None, "expired"  # once is normal; again and again isn't
        if isinstance(error, OutOfOrderError):
            return error, "out_of_order"
        if opened and error.reason == "Timeout":
            self.doubt = True
            silent = "the watch is silent: no event, no bookmark"
            return Unreachable(silent, reason="WatchSilent"), "silent"
        if opened or error.status:  # a server that isn't there says nothing about our version
            self._resumes += 1
        return error, "lost" if self._resumes >= RESUMES else ""

    def ended(self, lived: float, *, bookmarks: bool) -> None:
        """A stream ended in order after so many seconds.

        Raises:
            BrokenAnswer: before it was of any use.
        """
        if lived < self._timing.settled:
            raise BrokenAnswer("the server closes the watch at once", reason="WatchClosed")
        self._bookmarks = bookmarks or (self._bookmarks and not self.doubt)
        self.wary = False
        self.recovered()

    def listed(self) -> None:
        """Everything was listed: the next watch goes on from there."""
        self._resumes = 0

    def recovered(self) -> None:
        """All is well."""
        self.doubt = False
        self._resumes = 0
        self._expired = False
