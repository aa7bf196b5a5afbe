"""The way of versions through Bundles, by ``spec.promoteFrom``, for pages and the report. Pure.

It has those that one is promoted from, and those that are promoted from it, each with theirs; only
those that the user may list. Where Bundles name each other in a circle, each of them is there once.
Of other clusters it has the environments whose attestations a Bundle needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from copyrator.api.attest import AttestationsStatus
from copyrator.api.bundle import parse_status
from copyrator.api.bundle_status import BundleStatus, GateState
from copyrator.api.fields import SpecError, map_in
from copyrator.api.keys import BundleKey, ObjectName
from copyrator.api.promotion import PROMOTION_GATE, PromotionSpec, PromotionStatus
from copyrator.api.schema import read
from copyrator.api.text import said
from copyrator.api.times import format_duration, format_time, parse_time, time_since, time_until
from copyrator.cli.core.objects import Body
from copyrator.cli.view import rows
from copyrator.cli.view.bundle import BundleView
from copyrator.kube.watch.store import name_of

Bodies = Mapping[ObjectName, Body]
MOST: Final = 60
"""Bundles of a path."""
BESIDE: Final = 8
"""Bundles that are promoted from the same one, or that the same one is promoted from."""


@dataclass(frozen=True, slots=True)
class Soak:
    """How much of its soak a version has that waits for it."""

    version: str
    done: float
    """From 0 to 1."""
    until: str = ""
    """When it ends; empty where it doesn't end by itself."""
    text: str = ""
    """``soaked 5h of 24h, 19h left``."""


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment of other clusters, whose evidence a Bundle needs."""

    name: str
    where: str
    """The only cluster and release that count; empty: each."""
    asked: str
    """``soak 24h, at most 168h old``."""
    state: rows.State | None
    """Whether its evidence is missing for the version that waits; None: nothing was judged."""

    @property
    def text(self) -> str:
        """All of it in a line."""
        parts = (f"environment {self.name}", self.where, self.asked, self.state or "")
        return ", ".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class Stage:
    """A Bundle of the path."""

    name: ObjectName
    state: rows.State
    reason: str
    version: str
    """What is deployed; a dash where nothing is."""
    soak: Soak | None = None
    """Of the version that waits for it."""
    indent: int = 0
    """How many of the Bundles before it, or after it, have several beside each other."""
    is_subject: bool = False
    """Whether the path is around it."""
    more: Sequence[str] = ()
    """Visible sources that aren't drawn above it."""
    environments: Sequence[Environment] = ()
    """Those of its ``spec.promoteFrom.attestations``."""
    attests: str = ""
    """What it says of the deployed version to other clusters: ``attested as staging 3h ago``."""


@dataclass(slots=True)
class PromotionPath:
    """The Bundles in the order of a version's way, and which is promoted from which."""

    stages: list[Stage] = field(default_factory=list)
    links: list[tuple[ObjectName, ObjectName]] = field(default_factory=list)
    unseen: int = 0
    """Bundles of this one's ``spec.promoteFrom`` that don't exist, or that the user may not list.
    """
    left_out: int = 0
    """Bundles that there is no room for."""


def promotes_from(body: Body) -> PromotionSpec:
    """``spec.promoteFrom`` of a Bundle; empty where that is invalid or absent."""
    found = map_in(map_in(body, "spec"), PromotionSpec.FIELD)
    try:
        return read(PromotionSpec, found, "").within(BundleKey(*name_of(body)))
    except SpecError:
        return PromotionSpec()


class PromotionGraph:
    """Which of the Bundles are promoted from which."""

    def __init__(self, bundles: Bodies, now: datetime) -> None:
        self.bodies, self._now = bundles, now
        self._stages: dict[ObjectName, Stage] = {}
        self.sources: dict[ObjectName, list[ObjectName]] = {}
        """By Bundle, those of its ``spec.promoteFrom``; `targets` is the reverse."""
        self.targets: dict[ObjectName, list[ObjectName]] = {}
        self._attested: set[ObjectName] = set()
        """Those with evidence from other clusters, or for them."""
        for name, body in bundles.items():
            wanted = promotes_from(body)
            if wanted.attestations or attested_environment(body):
                self._attested.add(name)
            for key in wanted.bundles:
                source = ObjectName(key.namespace, key.name)
                self.sources.setdefault(name, []).append(source)
                self.targets.setdefault(source, []).append(name)

    def sources_of(self, name: ObjectName) -> list[Body]:
        """The Bundles that one is promoted from."""
        named = self.sources.get(name, ())
        return [self.bodies[one] for one in named if one in self.bodies]

    def stage(self, name: ObjectName) -> Stage:
        """One of the Bundles, as it is on every path."""
        if name not in self._stages:
            view = BundleView(self.bodies[name], self._now)
            self._stages[name] = Stage(
                name,
                view.state,
                view.reason,
                said(view.summary.deployed.version),
                waiting_soak(view, self.sources_of(name)),
                environments=list(environments_of(view)) if name in self._attested else (),
                attests=describe_attestation(view) if name in self._attested else "",
            )
        return self._stages[name]

    def path(self, name: ObjectName) -> PromotionPath:
        """The path around a Bundle; without stages where it has neither sources nor targets."""
        named = self.sources, self.targets, self._attested
        if name not in self.bodies or not any(name in one for one in named):
            return PromotionPath()
        return _PathSearch(self, name).path()


class _PathSearch:
    """Finds the Bundles around one, each once."""

    def __init__(self, graph: PromotionGraph, subject: ObjectName) -> None:
        self._graph, self._bodies, self._subject = graph, graph.bodies, subject
        self._placed = {subject}
        self._path = PromotionPath()

    def path(self) -> PromotionPath:
        sources = self._graph.sources.get(self._subject, ())
        self._path.unseen = sum(one not in self._bodies for one in sources)
        self._place_before(self._subject, 0)
        self._place(self._subject, 0)
        self._place_after(self._subject, 0)
        return self._path

    def _place_before(self, name: ObjectName, indent: int) -> None:
        found = self._chosen(self._graph.sources.get(name, ()))
        inner = indent + (len(found) > 1)
        for source in found:
            self._place_before(source, inner)
            self._place(source, inner)
            self._path.links.append((source, name))

    def _place_after(self, name: ObjectName, indent: int) -> None:
        found = self._chosen(self._graph.targets.get(name, ()))
        inner = indent + (len(found) > 1)
        for target in found:
            self._path.links.append((name, target))
            self._place(target, inner)
            self._place_after(target, inner)

    def _chosen(self, names: Sequence[ObjectName]) -> list[ObjectName]:
        """Those that aren't placed yet, as many as there is room for, the worst first."""
        new = [one for one in names if one in self._bodies and one not in self._placed]
        new.sort(key=lambda one: (rows.ready(self._bodies[one]).is_true, one))
        found = new[: min(BESIDE, max(MOST - len(self._placed), 0))]
        self._path.left_out += len(new) - len(found)
        self._placed.update(found)
        return found

    def _place(self, name: ObjectName, indent: int) -> None:
        drawn = {source for source, target in self._path.links if target == name}
        sources = self._graph.sources.get(name, ())
        stage = replace(
            self._graph.stage(name),
            indent=indent,
            is_subject=name == self._subject,
            more=[str(one) for one in sources if one in self._bodies and one not in drawn],
        )
        self._path.stages.append(stage)


def attested_environment(body: Body) -> str:
    """``spec.attest.environment`` of a Bundle; empty where there is none."""
    spec = body.get("spec")
    found = spec.get("attest") if isinstance(spec, Mapping) else None
    name = found.get("environment") if isinstance(found, Mapping) else None
    return said(name) if isinstance(name, str) and name else ""


def describe_attestation(view: BundleView) -> str:
    """What a Bundle has attested of its deployed version."""
    environment = attested_environment(view.body)
    if not environment:
        return ""
    status = _read(view.body)
    records = [
        one
        for one in status.part(AttestationsStatus).attest
        if one.digest == status.deployed.digest
    ]
    if not records:
        return f"not attested as {environment} yet"
    word = "attested" if records[-1].is_positive else "withdrawn"
    return f"{word} as {environment} {time_since(records[-1].issued_at, view.now)} ago"


def environments_of(view: BundleView) -> Iterator[Environment]:
    """The environments of other clusters that a Bundle is promoted from."""
    gate = next((one for one in view.summary.gates if one.name == PROMOTION_GATE), None)
    for wanted in promotes_from(view.body).attestations:
        state = None
        if gate is not None and gate.state == GateState.PASSED:
            state = rows.State.READY
        elif gate is not None and f"environment {wanted.environment} " in (gate.message or ""):
            state = rows.State.WAITING  # the verdict names those that object, see gates.evidence
        release = f"release {said(wanted.release)}" if wanted.release else ""
        cluster = f"cluster {said(wanted.cluster)}" if wanted.cluster else ""
        where = ", ".join(filter(None, (release, cluster)))
        soak = f"soak {format_duration(wanted.soak)}, " if wanted.soak else ""
        asked = f"{soak}at most {format_duration(wanted.max_age)} old"
        yield Environment(wanted.environment, where, asked, state)


def waiting_soak(view: BundleView, sources: Sequence[Body]) -> Soak | None:
    """The soak of the version that waits for it in a Bundle's gate; None where none does.

    Evidence of other clusters has no end that is known here.
    """
    gate = next((one for one in view.summary.gates if one.name == PROMOTION_GATE), None)
    if gate is None or gate.state != GateState.WAITING:
        return None
    spec = promotes_from(view.body)
    if not sources and spec.attestations:
        return None
    wanted = spec.soak
    statuses = [_read(one) for one in sources]
    there = view.summary.deployed.digest
    running = (one.deployed for one in statuses if one.deployed.digest not in (None, there))
    waits = next(running, None)
    rejected = (one.version for one in view.summary.available.rejected if one.reason == gate.reason)
    version = said(next(rejected, waits.version if waits else None))
    until = parse_time(gate.until)
    if until is None and waits is not None:
        known = [
            end for one in statuses if (end := _end_of_soak(one, waits.digest, wanted)) is not None
        ]
        until = max(known) if known and len(known) == len(sources) else None
    if until is None:
        return Soak(version, 0.0, text=f"{version} waits: its soak hasn't begun, or was broken off")
    left = max((until - view.now).total_seconds(), 0.0)
    done = 1.0 - min(left / wanted, 1.0) if wanted else 1.0
    passed = format_duration(int(max(wanted - left, 0.0)) // 60 * 60)
    shown = f"{version} soaked {passed} of {format_duration(wanted)}"
    ends_in = time_until(format_time(until), view.now).removeprefix("in ")
    return Soak(version, done, format_time(until), f"{shown}, {ends_in} left" if left else shown)


def _read(body: Body) -> BundleStatus:
    """What a status says of the soak, and of attestations."""
    return parse_status(body, "attest", "soak", "deployed")


def _end_of_soak(status: BundleStatus, digest: str | None, wanted: float) -> datetime | None:
    record = next((one for one in status.part(PromotionStatus).soak if one.digest == digest), None)
    since = parse_time(record.since) if record is not None else None
    if record is None or record.until is not None or since is None:
        return None
    with suppress(OverflowError):  # of a forged time
        return since + timedelta(seconds=wanted)
    return None
