"""Rules and Bundles in one view, those with faults first. Pure, from a snapshot and the time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from copyrator.api.keys import ObjectName
from copyrator.api.reasons import BY_WORK
from copyrator.api.reasons.rules import RuleReason
from copyrator.api.text import parse_time, time_since
from copyrator.bundles.fields import bundle_reasons
from copyrator.bundles.words import Banner, Place, lines_at
from copyrator.cli.core.beside import concerning, wanted
from copyrator.cli.core.faults import hint
from copyrator.cli.core.objects import NOT_SHOWN, Body
from copyrator.cli.view import rows
from copyrator.cli.view.bundle import BundleView
from copyrator.cli.view.rows import State
from copyrator.cli.view.rule import (
    CertificateRow,
    RuleView,
    first_rows,
    rollout_progress,
    rule_kind,
)


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


@dataclass(frozen=True, slots=True)
class SeenNamespace:
    """What is kept of a Namespace."""

    resource_version: str
    beside: tuple[object, ...] = ()
    """The values of features."""
    labels: Mapping[str, str] = field(default_factory=dict)
    created: str = ""
    """creationTimestamp."""
    is_target: bool = True
    """Whether rules may copy into it at all: neither Terminating nor opted out."""


@dataclass(slots=True)
class Snapshot:
    """What is known now; its parts change until it is read again."""

    rules: Mapping[ObjectName, Body]
    bundles: Mapping[ObjectName, Body]
    copies: SeenCopies
    namespaces: Sequence[str]
    faults: Sequence[str] = ()
    """Why it may be out of date."""
    down: Sequence[str] = ()
    """That the operator is down, and since when."""
    denied: Sequence[str] = ()
    """What the user may not list."""
    beside: Sequence[object] = ()
    """The values of features that were read beside rules and Bundles; ended ones too."""
    loading: Sequence[str] = ()
    """Kinds that are still being listed: their copies aren't all known yet."""
    places: Mapping[str, SeenNamespace] = field(default_factory=dict)
    """Namespaces by name; empty where the user may not list them all."""

    @property
    def alerts(self) -> list[str]:
        """Why it is, or may be, out of date."""
        return [*self.down, *(f"This may be out of date: {one}" for one in self.faults)]

    @property
    def remarks(self) -> Iterator[str]:
        """What of it is missing."""
        if self.loading:
            yield f"Still being listed: {', '.join(self.loading)}."
        if self.denied:
            yield f"{NOT_SHOWN}: {', '.join(self.denied)}."


CERTIFICATES: Final = 10
"""Certificates of the overview."""
DEPLOYS: Final = 8
"""Bundles that were deployed last, of the overview."""
_REASONS: Final = (*bundle_reasons().values(), *RuleReason)
_MOVING: Final = frozenset(one for one in _REASONS if one.ends is BY_WORK)
"""Reasons of Ready while the operator works, and nobody else has to do anything."""


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
    kind: str = ""
    """What a rule copies or renders."""
    changed: datetime | None = None
    """Since when it has the reason."""
    deployed: datetime | None = None
    """When a Bundle was deployed last."""
    deployed_ago: str = ""
    """How long ago: ``5m``; a dash where it never was."""
    desired: int = 0
    """Copies that a rule wants."""
    in_sync: int = 0
    """Those of them that are as wanted."""
    done: float | None = None
    """The part of a rollout's steps that is done, from 0 to 1."""
    certificate_only: bool = False
    """Whether nothing but a certificate in its copies is its trouble."""

    @property
    def shown(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_moving(self) -> bool:
        """Whether the operator works on it, and nobody else has to do anything."""
        reason = self.reason.partition(",")[0]
        moves = self.state is State.WAITING and reason in _MOVING
        return moves or (bool(self.rollout) and self.state in (State.WAITING, State.READY))


@dataclass(frozen=True, slots=True)
class Overview:
    """All rules and Bundles, each list with the worst first."""

    rules: Sequence[OverviewRow]
    bundles: Sequence[OverviewRow]
    certificates: Sequence[CertificateRow]
    """In copies, those that expire first."""
    banners: Sequence[Banner] = ()
    kinds: Sequence[str] = ()
    """What rules copy, also those that aren't wanted."""

    @property
    def desired(self) -> int:
        """Copies that the rules want."""
        return sum(row.desired for row in self.rules)

    @property
    def ready(self) -> int:
        """Those of them that are as wanted."""
        return sum(row.in_sync for row in self.rules)

    @property
    def all(self) -> list[OverviewRow]:
        """Rules and Bundles in one list, the worst first, and of those rollouts."""
        return sorted((*self.rules, *self.bundles), key=order)

    @property
    def attention(self) -> list[OverviewRow]:
        """Rules and Bundles of which somebody has to know, the most severe first.

        Neither those that the operator works on, nor rules of which only a certificate is to be
        said that is among `certificates`.
        """
        listed = {(one.namespace, one.name) for one in self.certificates}
        return [
            row
            for row in self.all
            if row.state is not State.READY
            and not row.is_moving
            and not (row.certificate_only and (row.namespace, row.name) in listed)
        ]

    @property
    def moving(self) -> list[OverviewRow]:
        """Rules and Bundles that the operator works on, rollouts first."""
        return [row for row in self.all if row.is_moving]

    @property
    def deploys(self) -> list[OverviewRow]:
        """Bundles that were deployed last, the newest first; none that is listed elsewhere."""
        calm = (
            row for row in self.bundles if row.deployed is not None and row.state is State.READY
        )
        return heapq.nlargest(
            DEPLOYS, calm, key=lambda row: row.deployed.timestamp() if row.deployed else 0.0
        )

    def number(self, state: State) -> int:
        """How many rules and Bundles are in a state."""
        return sum(row.state == state for row in (*self.rules, *self.bundles))


def overview(
    seen: Snapshot, now: datetime, wanted: Callable[[OverviewRow], bool] | None = None
) -> Overview:
    """The overview of what is seen: of all, or of the rules and Bundles that are wanted."""
    views = [RuleView(body, now) for body in seen.rules.values()]
    rules = [(rule_row(view), view) for view in views]
    bundles, kinds = bundle_rows(seen, now), kinds_of(row for row, _ in rules)
    if wanted is not None:
        rules = [(row, view) for row, view in rules if wanted(row)]
        bundles = [row for row in bundles if wanted(row)]
    return Overview(
        rules=sorted((row for row, _ in rules), key=order),
        bundles=sorted(bundles, key=order),
        certificates=first_rows((view for _, view in rules), CERTIFICATES),
        banners=list_banners(seen, now),
        kinds=kinds,
    )


def list_banners(seen: Snapshot, now: datetime) -> list[Banner]:
    """What holds for several Bundles."""
    return [banner for one in wanted() for banner in one.banners(seen.beside, now, hint)]


def rule_rows(seen: Snapshot, now: datetime) -> list[OverviewRow]:
    """The rows of all rules, in no order."""
    return [rule_row(RuleView(body, now)) for body in seen.rules.values()]


def bundle_rows(seen: Snapshot, now: datetime) -> list[OverviewRow]:
    """The rows of all Bundles, in no order."""
    near = concerning(seen.beside, now)
    return [bundle_row(BundleView(body, now, beside=near(body))) for body in seen.bundles.values()]


def kinds_of(found: Iterable[OverviewRow]) -> list[str]:
    """What rules copy."""
    return sorted({row.kind for row in found} - {"", "-"})


def rule_row(view: RuleView) -> OverviewRow:
    """A rule's row."""
    counts, state = view.counts, view.rollout
    is_known = state is not None and state.step <= state.steps
    return replace(
        _row("rules", view, numbers=view.copies),
        rollout=rollout_progress(view),
        kind=rule_kind(view.body),
        desired=counts.desired,
        in_sync=counts.ready,
        done=(state.step - 1) / state.steps if state and is_known else None,
        certificate_only=not rows.fault_of(view.ready),
    )


def bundle_row(view: BundleView) -> OverviewRow:
    """A Bundle's row."""
    status = view.summary
    row = _row("bundles", view, numbers=status.deployed.version or "-")
    return replace(
        row,
        message=row.message or "; ".join(lines_at(view, Place.NEWS)),
        available=status.available.version or "-",
        deployed=parse_time(status.deployed.time),
        deployed_ago=time_since(status.deployed.time, view.now),
    )


def _row(what: str, view: RuleView | BundleView, *, numbers: str) -> OverviewRow:
    namespace, name = view.name
    return OverviewRow(
        what=what,
        namespace=namespace,
        name=name,
        state=view.state,
        reason=view.reason,
        since=time_since(view.since, view.now),
        changed=parse_time(view.since),
        message=view.trouble,
        numbers=numbers,
    )


def order(row: OverviewRow) -> tuple[object, ...]:
    """For sorting: the worst first, and of those rollouts."""
    return ORDER[row.state], not row.rollout, row.what, row.namespace, row.name
