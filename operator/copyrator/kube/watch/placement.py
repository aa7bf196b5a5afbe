"""Keeps open the watches that are wanted and allowed, while either changes.

A place is what is watched by one decision: an object, a namespace, all namespaces. Where a wide
place is denied, its user may choose narrower ones, or report what is missing.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Set
from contextvars import Context
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from copyrator.kube.errors import ApiError, Permission, Refusal
from copyrator.kube.resources import Resource

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PlacementTiming:
    """Durations in seconds."""

    check: float
    """Between two checks whether watches work, are forbidden, or may be retried."""
    settle: float = 0.05
    """After a change further changes are collected for so long before the watches are arranged."""
    retry: float = 15.0
    """Before a place that is forbidden is retried, doubling."""
    longest_retry: float = 600.0


@dataclass(frozen=True, slots=True)
class DeniedPlace:
    """A place that may not be watched, by an access review or a 403."""

    why: str
    until: float
    """Monotonic seconds."""
    delay: float


def watch_permissions(resources: Iterable[Resource], namespaces: Iterable[str]) -> list[Refusal]:
    """The permissions that watches in namespaces ("": in all) require, each as its refusal."""
    return [
        Refusal(Permission(resource.group, resource.plural, verb), namespace)
        for resource in resources
        for namespace in namespaces
        for verb in ("list", "watch")
    ]


class Opened(Protocol):
    """What is open at a place: one watch or several."""

    @property
    def denial(self) -> str:
        """The message of a 403 that denies the whole place; else empty."""
        ...

    def close(self) -> None:
        """End the watches."""
        ...


P = TypeVar("P", bound=Hashable)
W = TypeVar("W", bound=Opened)


class WatchPlacement(ABC, Generic[P, W]):
    """Opens and ends the watches of places, as a subclass chooses them.

    Each place is reviewed before it is opened: without the review a forbidden list would be
    reported as a missing permission. One that is denied is retried after a growing delay. The old
    watches end only when those that replace them are ready.

    Attributes:
        chosen: the places to watch, by the last decision; denied ones may be among them.
        wanted: those of them that aren't denied now.
        opened: what is open at each place.
        denied: places that are denied, and those that may be retried by now.
    """

    def __init__(self, timing: PlacementTiming, monotonic: Callable[[], float]) -> None:
        self.chosen: set[P] = set()
        self.wanted: set[P] = set()
        self.opened: dict[P, W] = {}
        self.denied: dict[P, DeniedPlace] = {}
        self._timing = timing
        self._monotonic = monotonic
        self._reviews: dict[P, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._has_changed = False

    @abstractmethod
    def choose(self, denied: Set[P], held: Set[P]) -> set[P]:
        """The places to watch; denied ones aren't opened. ``held`` are open or being reviewed."""

    @abstractmethod
    async def find_missing(self, place: P) -> str:
        """The permission that is missing for a place, as a message; else empty.

        Raises:
            ApiError: the review failed; it is repeated at the next check.
        """

    @abstractmethod
    def open(self, place: P) -> None:
        """Open the watches of a place, as ``opened[place]``."""

    @abstractmethod
    def may_end(self, place: P) -> bool:
        """Whether those are ready that replace a place that isn't wanted any more."""

    @abstractmethod
    def forgets(self, place: P, *, is_unused: bool) -> bool:
        """Whether a denial doesn't matter any more; `is_unused`: it is over, and not retried."""

    @abstractmethod
    def on_denied(self, place: P, why: str, *, is_new: bool) -> None:
        """A place was denied; `is_new`: not at a retry."""

    def on_checked(self) -> None:
        """Called after each check."""

    def close(self) -> None:
        """End all watches."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._has_changed = False
        for review in self._reviews.values():
            review.cancel()
        for opened in self.opened.values():
            opened.close()
        self.chosen.clear()
        self.wanted.clear()
        self.opened.clear()
        self.denied.clear()

    def arrange_soon(self) -> None:
        """Arrange the watches once all concurrent changes have been made."""
        if not self._has_changed:
            self._has_changed = True
            self._call_later(self._timing.settle)

    def retire(self) -> None:
        """End watches that aren't wanted any more, as soon as they may."""
        for place in self.opened.keys() - self.wanted:
            if self.may_end(place):
                self.opened.pop(place).close()

    def deny(self, place: P, why: str) -> None:
        """Close a place that may not be watched, and retry it later."""
        before, delay = self.denied.get(place), self._timing.retry
        if before is not None:
            delay = min(before.delay * 2, self._timing.longest_retry)
        self.denied[place] = DeniedPlace(why, self._monotonic() + delay, delay)
        self.wanted.discard(place)
        self.on_denied(place, why, is_new=before is None)
        if place in self.opened:
            self.opened.pop(place).close()
        self.arrange_soon()

    def _call_later(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        # The watches serve all users: neither logs nor fairness assign the call to one key.
        self._timer = asyncio.get_running_loop().call_later(seconds, self._check, context=Context())

    def _check(self) -> None:
        """Close watches that are forbidden, and open and end watches where that is due."""
        self._timer = None
        try:
            for place, opened in list(self.opened.items()):
                if opened.denial:
                    self.deny(place, opened.denial)
            now = self._monotonic()
            over = {place for place, denied in self.denied.items() if denied.until <= now}
            if self._has_changed or over or self._unopened():
                self._has_changed = False
                self._arrange(self.denied.keys() - over)
            self.on_checked()
        finally:
            if self.chosen or self.opened:
                timing = self._timing
                self._call_later(timing.settle if self._has_changed else timing.check)

    def _unopened(self) -> set[P]:
        return self.wanted - self.opened.keys() - self._reviews.keys()

    def _arrange(self, denied: Set[P]) -> None:
        self.chosen = self.choose(denied, self.opened.keys() | self._reviews.keys())
        self.wanted = self.chosen - denied
        for place in list(self.denied):
            is_unused = place not in denied and place not in self.chosen
            if self.forgets(place, is_unused=is_unused):
                del self.denied[place]
        for place in self._unopened():
            self._reviews[place] = asyncio.create_task(
                self._review(place), name=f"access review of {place}"
            )
        self.retire()

    async def _review(self, place: P) -> None:
        """Open a place if an access review allows it."""
        try:
            missing = await self.find_missing(place)
        except ApiError as error:
            log.debug("can't review whether %s may be watched: %s", place, error)
            return
        finally:
            self._reviews.pop(place, None)
        if place not in self.wanted:
            return
        if missing:
            self.deny(place, missing)
        else:
            self.denied.pop(place, None)
            self.open(place)
