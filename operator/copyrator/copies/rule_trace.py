"""What caused a rule's writes since the last report, and how many there were."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TypeVar

from copyrator.api.keys import CopyKey
from copyrator.copies.policy.planning import Action
from copyrator.copies.policy.trace import LONGEST, REMEMBERED, Burst, Trigger

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True, eq=False)
class RuleTrace:
    """Causes are recorded as events arrive, and dropped when a burst is reported.

    Those that are newer than its last write are kept: they cause the next one. Each has the number
    of the burst's writes before it.

    Attributes:
        edit: what the rule's present generation changed.
        deletes_by_edit: whether the copies that are being deleted were decided on for an edit.
        sources: ``namespace/name`` of sources that are new or changed.
        namespaces: namespaces that are new or changed.
        lost: copies that another client deleted.
    """

    edit: str = ""
    deletes_by_edit: bool = False
    sources: dict[str, int] = field(default_factory=dict)
    namespaces: dict[str, int] = field(default_factory=dict)
    lost: dict[CopyKey, int] = field(default_factory=dict)
    _burst: Burst | None = None
    _waiting: float | None = None
    """Since when causes wait for a write."""

    def begin(self, edit: str) -> None:
        """A version of the spec is served from now on; it is the cause of what follows."""
        self.edit = edit
        self._forget()

    def source_changed(self, origin: str) -> None:
        """A source is new or changed."""
        self._remember(self.sources, origin)

    def namespace_changed(self, name: str) -> None:
        """A namespace is new or changed."""
        self._remember(self.namespaces, name)

    def copy_lost(self, key: CopyKey) -> None:
        """A copy was deleted."""
        self._remember(self.lost, key)

    def add(self, action: Action, trigger: Trigger, names: tuple[str, ...], now: float) -> None:
        """Count a write."""
        if self._burst is None:
            self._burst = Burst(now, now)
        self._burst.add(action, trigger, names, now)

    def take(self, now: float) -> str:
        """The text of a burst that is over; empty where there is none."""
        burst = self._burst
        if burst is None:
            self._forget_old(now)
            return ""
        if not burst.is_over(now):
            return ""
        self._burst = None
        self._forget(burst.number)
        return burst.to_string()

    def _forget_old(self, now: float) -> None:
        """Drop causes that no write follows: they are not the cause of a later one."""
        if not (self.sources or self.namespaces or self.lost):
            self._waiting = None
        elif self._waiting is None:
            self._waiting = now
        elif now - self._waiting >= LONGEST:
            self._forget()

    def _forget(self, writes: int | None = None) -> None:
        """Drop all causes, or those of so many writes."""
        self._waiting = None
        self.sources = _later(self.sources, writes)
        self.namespaces = _later(self.namespaces, writes)
        self.lost = _later(self.lost, writes)

    def _remember(self, known: dict[K, int], one: K) -> None:
        if one in known or len(known) < REMEMBERED:
            known[one] = self._burst.number if self._burst else 0


def _later(known: dict[K, int], writes: int | None) -> dict[K, int]:
    """The causes that came after so many writes; none without a number."""
    return {} if writes is None else {one: 0 for one, before in known.items() if before >= writes}
