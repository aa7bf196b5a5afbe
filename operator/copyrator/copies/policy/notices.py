"""How many Events the owners of target namespaces get about copies that can't be written."""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Final

PERIOD: Final = 3600.0
"""Seconds in which one rule causes at most one Event for each namespace and reason."""
EACH: Final = 10
"""Events in one namespace in PERIOD, of all rules."""
TOGETHER: Final = 300
"""Events in all target namespaces in PERIOD."""

Notice = tuple[str, str, str]
"""Namespace, rule and reason."""


class NoticeLimits:
    """What was reported in the last PERIOD; at most TOGETHER entries."""

    def __init__(self) -> None:
        self._told: OrderedDict[Notice, float] = OrderedDict()
        self._each: Counter[str] = Counter()

    def take(self, notice: Notice, now: float) -> bool:
        """Whether an Event may be written now; it counts from then on."""
        self._forget(now)
        namespace = notice[0]
        if notice in self._told or len(self._told) >= TOGETHER or self._each[namespace] >= EACH:
            return False
        self._told[notice] = now
        self._each[namespace] += 1
        return True

    def _forget(self, now: float) -> None:
        while self._told:
            notice, when = next(iter(self._told.items()))
            if now - when < PERIOD:
                return
            del self._told[notice]
            self._each[notice[0]] -= 1
            if not self._each[notice[0]]:
                del self._each[notice[0]]
