"""What is known of the Bundles of ``gate_world.py`` without asking the operator."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.component.bundles.gate_world import World

HOME, STAGE = "team", "stage"
SOAK, AGE, INTERVAL = 60, 40, 240
STARTS, TAKES = 1, 5
"""Seconds until a Job's pod has started, and until it has ended after that."""
RACE = 1.0
"""Seconds within which what changes while a Job is being made may have been seen or not."""
ROUNDED = timedelta(seconds=1)
"""A status has whole seconds."""
LATE = timedelta(seconds=2)
"""After what a message said."""
SURE = 5.0
"""Seconds after which the operator has acted on what changed."""
NOTICED = 16.0
"""Seconds until the condition Healthy has changed: 1 s after an object, 10 s after the last change,
and the beginning of an operator."""
BEGINS = 4.0
"""Seconds until a new operator has looked at everything."""
OPEN, EVERY = 4, 10
"""Of each ten minutes the first four are open."""
WINDOWS = [
    {"from": f"{i // 60:02}:{i % 60:02}", "to": f"{(i + OPEN) // 60:02}:{(i + OPEN) % 60:02}"}
    for i in range(0, 200, EVERY)
]
KEYS = {"staging": STAGE, "production": HOME, "shop": HOME}


class Flag:
    """Whether something holds, and until when it did."""

    def __init__(self, value: bool = False) -> None:
        self.value = value
        self.changed_at = float("-inf")

    def set(self, value: bool) -> None:
        if value != self.value:
            self.value, self.changed_at = value, asyncio.get_running_loop().time()

    def may_be(self, value: bool) -> bool:
        """Whether it has this value, or had it just now."""
        recent = asyncio.get_running_loop().time() - self.changed_at <= RACE
        return self.value is value or recent

    def is_surely(self, value: bool) -> bool:
        """Whether it has had this value for SURE seconds."""
        sure = asyncio.get_running_loop().time() - self.changed_at > SURE
        return self.value is value and sure


@dataclass
class Account:
    """What is known of one Bundle without its status."""

    deployed: str | None = None
    """The digest."""
    last: tuple[str, str] | None = None
    """Digest and generation of the last attempt."""
    outcome: str = ""
    """Of the last attempt: succeeded, failed, interrupted; empty while it runs."""
    corrects: bool = False
    """The last attempt corrects drift."""
    approved: set[tuple[str, str]] = field(default_factory=set)
    """Digests whose plans a user approved, with all else that their Job gets: here ``env``."""
    specs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By generation."""
    skipped: dict[str, Flag] = field(default_factory=dict)
    """Digests that a user has ever named as skipped."""
    paused: Flag = field(default_factory=Flag)

    @property
    def is_as_deployed(self) -> bool:
        """Whether the last attempt left what is deployed: a correction may have been broken off."""
        broken_off = self.corrects and self.outcome == "interrupted"
        return self.outcome == "succeeded" or broken_off


class Standing:
    """How long each digest was deployed in staging without a break, an operator looking."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.forget()

    def forget(self) -> None:
        self.digest: str | None = None
        """What stands there now."""
        self.since = 0.0
        self.longest: dict[str, float] = {}
        self.order: list[str] = []
        self._withdrawn: dict[str, tuple[float, float]] = {}
        """Evidence that the operator may still count, and until when it looks."""

    def begins(self, digest: str) -> None:
        self.digest, self.since = digest, self._world.looked()
        if digest in self.order:
            self.order.remove(digest)
        self.order.append(digest)

    def ends(self, *, withdrawn: str | None = None) -> None:
        """The stretch ends; the evidence of ``withdrawn`` doesn't count any more."""
        if self.digest is not None:
            self.longest[self.digest] = self.of(self.digest)
        self.digest = None
        if withdrawn is not None and (longest := self.longest.pop(withdrawn, None)):
            notices = RACE if self._world.operator else BEGINS
            self._withdrawn[withdrawn] = longest, self._world.looked() + notices

    def of(self, digest: str) -> float:
        """The longest stretch, in seconds."""
        looked = self._world.looked()
        now = looked - self.since if digest == self.digest else 0.0
        withdrawn, until = self._withdrawn.get(digest, (0.0, 0.0))
        return max(self.longest.get(digest, 0.0), now, withdrawn if looked <= until else 0.0)
