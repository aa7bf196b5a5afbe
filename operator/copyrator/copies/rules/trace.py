"""What caused a rule's writes since the last report, and how many there were.

A burst is written as one log line: ``created 2 copies: namespaces team-a, team-b are new or
changed; deleted 7 copies: targets changed from team-* to tem-* by generation 4``. Bursts of several
rules in one namespace are one Event.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import Final, TypeVar

import msgspec

from copyrator.api.keys import CopyKey
from copyrator.api.rule_spec import RuleSpec
from copyrator.api.text import count
from copyrator.copies.targets.planning import Action

QUIET: Final = 1.5
"""Seconds without a write that end a burst."""
LONGEST: Final = 60.0
"""Seconds after which a burst that continues is reported."""
NAMED: Final = 3
"""Namespaces or sources that a cause names; the rest is counted."""
REMEMBERED: Final = 1_000
"""Names that are counted for one cause."""

_VERBS: Final = {
    Action.CREATE: "created",
    Action.REPLACE: "updated",
    Action.ADOPT: "took over",
    Action.RESEAL: "sealed",
    Action.DELETE: "deleted",
    Action.RELEASE: "released",
}


class Trigger(Enum):
    """Why copies are written: the text, where it names nothing; else singular and plural."""

    EDIT = ("{}", "{}")
    """What the latest edit of the rule changed."""
    SOURCE = ("source {} is new or changed", "sources {} are new or changed")
    COMPOSED = ("source {} is new, changed or gone", "sources {} are new, changed or gone")
    """Of a rule with several sources, all of which are in each copy."""
    SOURCE_GONE = ("source {} no longer exists or matches", "sources {} no longer exist or match")
    NAMESPACE = ("namespace {} is new or changed", "namespaces {} are new or changed")
    NAMESPACE_LEFT = ("namespace {} no longer matches", "namespaces {} no longer match")
    DRIFT = ("changes by another client",)
    LOST = ("deletion by another client",)
    ROLLOUT = ("rollout step {}", "rollout steps {}")
    ROLLOUT_FINISHED = ("the rollout is finished at once",)
    TAKEN_OVER = ("released by another rule",)
    UNMANAGED = ("allowed by onConflict",)
    UNSEALED = ("the seal was missing",)
    RULE_DELETED = ("the rule is being deleted",)

    def text(self, names: dict[str, None]) -> str:
        """The cause as a text, with the names that are given."""
        forms: tuple[str, ...] = self.value
        return forms[len(names) > 1 and len(forms) > 1].format(list_names(names))


def list_names(names: Collection[str]) -> str:
    """The first NAMED of them, and how many more there are."""
    shown = ", ".join(islice(names, NAMED))
    return f"{shown} and {len(names) - NAMED} more" if len(names) > NAMED else shown


@dataclass(slots=True)
class _Writes:
    number: int = 0
    names: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class Burst:
    """Writes of one rule that follow each other within QUIET seconds."""

    first: float
    last: float
    _writes: dict[tuple[Action, Trigger], _Writes] = field(default_factory=dict)

    def add(self, action: Action, trigger: Trigger, names: tuple[str, ...], now: float) -> None:
        """Count a write; ``names`` is what the trigger names."""
        self.last = now
        self._count(action, trigger, names, 1)

    def merge(self, other: Burst) -> None:
        """Count the writes of another burst, too."""
        for (action, trigger), writes in other._writes.items():
            self._count(action, trigger, writes.names, writes.number)

    def _count(self, action: Action, trigger: Trigger, names: Iterable[str], number: int) -> None:
        writes = self._writes.setdefault((action, trigger), _Writes())
        writes.number += number
        for name in names:
            if len(writes.names) < REMEMBERED:
                writes.names[name] = None

    @property
    def number(self) -> int:
        """How many writes there are."""
        return sum(writes.number for writes in self._writes.values())

    def is_over(self, now: float) -> bool:
        """Whether it is time to report it."""
        return now - self.last >= QUIET or now - self.first >= LONGEST

    def to_string(self) -> str:
        """Counts and causes."""
        return "; ".join(
            f"{_VERBS[action]} {count(writes.number, 'copy', 'copies')}: "
            f"{trigger.text(writes.names)}"
            for (action, trigger), writes in self._writes.items()
        )


def edit_text(old: RuleSpec | None, new: RuleSpec, generation: int) -> str:
    """What an edit changed; ``old`` is None where the earlier spec isn't known."""
    by = f"generation {generation} of the rule"
    if old is None:
        return by
    changed = [
        one.encode_name
        for one in msgspec.structs.fields(RuleSpec)
        if getattr(old, one.name) != getattr(new, one.name)
    ]
    parts = []
    if "targets" in changed:
        changed.remove("targets")
        parts.append(f"targets changed from {old.targets.to_string()} to {new.targets.to_string()}")
    if changed:
        parts.append(f"{', '.join(changed)} changed")
    return f"{' and '.join(parts)} by {by}" if parts else by


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

    @property
    def is_open(self) -> bool:
        """Whether writes wait to be reported."""
        return self._burst is not None

    def take(self, now: float) -> Burst | None:
        """A burst that is over."""
        burst = self._burst
        if burst is None:
            self._forget_old(now)
            return None
        if not burst.is_over(now):
            return None
        self._burst = None
        self._forget(burst.number)
        return burst

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
