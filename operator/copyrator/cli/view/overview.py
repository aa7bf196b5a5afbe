"""Rules and Bundles in one view, those with faults first. Pure, from a snapshot and the time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from copyrator.api.freeze import Freeze, sentence
from copyrator.api.keys import ObjectName
from copyrator.cli.view import rows
from copyrator.cli.view.bundle import BundleView, freezes_of
from copyrator.cli.view.rows import State
from copyrator.cli.view.rule import (
    CertificateRow,
    RuleView,
    first_rows,
    rollout_progress,
)

Body = Mapping[str, Any]


class SeenCopies:
    """The copies of each rule in each namespace, by kind and name."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, set[tuple[str, str]]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def of(self, rule: str) -> Mapping[str, set[tuple[str, str]]]:
        """Kind and name of a rule's copies (``namespace/name``), by namespace."""
        return self._found.get(rule, {})

    def rules(self) -> Iterable[str]:
        """The rules that have copies."""
        return self._found

    def add(self, rule: str, kind: str, name: ObjectName) -> None:
        """A copy appeared."""
        found = self._found.setdefault(rule, {}).setdefault(name.namespace, set())
        self._count += (kind, name.name) not in found
        found.add((kind, name.name))

    def remove(self, rule: str, kind: str, name: ObjectName) -> None:
        """A copy is gone, or is another rule's now."""
        places = self._found.get(rule, {})
        found = places.get(name.namespace, set())
        self._count -= (kind, name.name) in found
        found.discard((kind, name.name))
        if not found:
            places.pop(name.namespace, None)
        if not places:
            self._found.pop(rule, None)


@dataclass(slots=True)
class Snapshot:
    """What is known now; its parts change until it is read again."""

    rules: Mapping[ObjectName, Body]
    bundles: Mapping[ObjectName, Body]
    copies: SeenCopies
    namespaces: Sequence[str]
    faults: Sequence[str] = ()
    """Why it may be out of date."""
    denied: Sequence[str] = ()
    """What the user may not list."""
    freezes: Sequence[Freeze] = ()
    """Ended ones too."""
    loading: Sequence[str] = ()
    """Kinds that are still being listed: their copies aren't all known yet."""


CERTIFICATES: Final = 10
"""Certificates of the overview."""


ORDER: Final = {state: number for number, state in enumerate(State)}


@dataclass(frozen=True, slots=True)
class OverviewRow:
    """A rule or Bundle in a list."""

    what: str
    """``rules`` or ``bundles``."""
    namespace: str
    name: str
    state: State
    reason: str
    since: str
    """How long: ``5m``."""
    message: str
    """The fault, or what it waits for; empty where there is neither."""
    numbers: str
    """A rule's copies ``12/13``; a Bundle's deployed version."""
    rollout: str = ""
    """A rule's rollout that is in progress: ``step 2/4``."""
    available: str = ""
    """The version that the registry has for a Bundle."""

    @property
    def shown(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Overview:
    """All rules and Bundles, each list with the worst first."""

    rules: Sequence[OverviewRow]
    bundles: Sequence[OverviewRow]
    desired: int
    """Copies that the rules want."""
    ready: int
    """Those of them that are as wanted."""
    certificates: Sequence[CertificateRow]
    """In copies, those that expire first."""

    @property
    def all(self) -> list[OverviewRow]:
        """Rules and Bundles in one list, the worst first, and of those rollouts."""
        return _sorted((*self.rules, *self.bundles))

    @property
    def attention(self) -> list[OverviewRow]:
        """Rules and Bundles in any state but Ready, the most severe first."""
        return [row for row in self.all if row.state is not State.READY]

    def number(self, state: State) -> int:
        """How many rules and Bundles are in a state."""
        return sum(row.state == state for row in (*self.rules, *self.bundles))


def overview(seen: Snapshot, now: datetime) -> Overview:
    """The overview of all that is seen."""
    rules = [RuleView(body, now) for body in seen.rules.values()]
    return Overview(
        rules=_sorted(map(rule_row, rules)),
        bundles=_sorted(
            bundle_row(BundleView(body, now, freezes=freezes_of(body, seen.freezes, now)))
            for body in seen.bundles.values()
        ),
        desired=sum(one.counts.desired for one in rules),
        ready=sum(one.counts.ready for one in rules),
        certificates=first_rows(rules, CERTIFICATES),
    )


def rule_row(view: RuleView) -> OverviewRow:
    """A rule's row."""
    row = _row("rules", view, numbers=view.copies)
    return replace(row, rollout=rollout_progress(view))


def bundle_row(view: BundleView) -> OverviewRow:
    """A Bundle's row."""
    status = view.summary
    row = _row("bundles", view, numbers=status.deployed.version or "-")
    return replace(
        row,
        reason=(view.awaited if row.state is State.WAITING else "") or view.reason,
        message=row.message or "; ".join(map(sentence, view.freezes)),
        available=status.available.version or "-",
    )


def _row(what: str, view: RuleView | BundleView, *, numbers: str) -> OverviewRow:
    ready, (namespace, name) = rows.ready(view.body), view.name
    return OverviewRow(
        what=what,
        namespace=namespace,
        name=name,
        state=view.state,
        reason=rows.reason_of(ready),
        since=rows.age(ready.get("lastTransitionTime"), view.now),
        message=view.trouble,
        numbers=numbers,
    )


def _sorted(found: Iterable[OverviewRow]) -> list[OverviewRow]:
    return sorted(found, key=_order)


def _order(row: OverviewRow) -> tuple[object, ...]:
    return ORDER[row.state], not row.rollout, row.what, row.namespace, row.name
