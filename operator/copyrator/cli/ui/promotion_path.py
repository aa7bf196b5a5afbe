"""The way of versions through Bundles, by ``spec.promoteFrom``, for pages and the report. Pure.

It has those that one is promoted from, and those that are promoted from it, each with theirs; only
those that the user may list. Where Bundles name each other in a circle, each of them is there once.
Of other clusters it has the environments whose attestations a Bundle needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from copyrator.api.keys import ObjectName
from copyrator.api.text import said
from copyrator.bundles.words import Environment, Soak, Stage, load_words
from copyrator.cli.core.objects import Body
from copyrator.cli.view import rows
from copyrator.cli.view.bundle import BundleView

Bodies = Mapping[ObjectName, Body]
MOST: Final = 60
"""Bundles of a path."""
BESIDE: Final = 8
"""Bundles that are promoted from the same one, or that the same one is promoted from."""


@dataclass(frozen=True, slots=True)
class PlacedStage:
    """A Bundle of the path."""

    name: ObjectName
    state: rows.State
    reason: str
    version: str
    """What is deployed; a dash where nothing is."""
    facts: Sequence[Stage] = ()
    """By features."""
    indent: int = 0
    """How many of the Bundles before it, or after it, have several beside each other."""
    is_subject: bool = False
    """Whether the path is around it."""
    more: Sequence[str] = ()
    """Visible sources that aren't drawn above it."""

    @property
    def soak(self) -> Soak | None:
        """That of the version that waits for it."""
        return next((one.soak for one in self.facts if one.soak is not None), None)

    @property
    def environments(self) -> Sequence[Environment]:
        """Those of other clusters that it comes from."""
        return [each for one in self.facts for each in one.environments]

    @property
    def attests(self) -> str:
        """What it says of the deployed version to other clusters."""
        return next((one.attests for one in self.facts if one.attests), "")


@dataclass(slots=True)
class PromotionPath:
    """The Bundles in the order of a version's way, and which is promoted from which."""

    stages: list[PlacedStage] = field(default_factory=list)
    links: list[tuple[ObjectName, ObjectName]] = field(default_factory=list)
    unseen: int = 0
    """Bundles of this one's ``spec.promoteFrom`` that don't exist, or that the user may not list.
    """
    left_out: int = 0
    """Bundles that there is no room for."""


class PromotionGraph:
    """Which of the Bundles are promoted from which."""

    def __init__(self, bundles: Bodies, now: datetime) -> None:
        self.bodies, self._now = bundles, now
        self._stages: dict[ObjectName, PlacedStage] = {}
        self.sources: dict[ObjectName, list[ObjectName]] = {}
        """By Bundle, those of its ``spec.promoteFrom``; `targets` is the reverse."""
        self.targets: dict[ObjectName, list[ObjectName]] = {}
        self._drawn: set[ObjectName] = set()
        """Those that are drawn without others, too."""
        words = load_words()
        for name, body in bundles.items():
            for origins in filter(None, (one.origins(body) for one in words)):
                if origins.is_drawn:
                    self._drawn.add(name)
                for key in origins.bundles:
                    source = ObjectName(key.namespace, key.name)
                    self.sources.setdefault(name, []).append(source)
                    self.targets.setdefault(source, []).append(name)

    def sources_of(self, name: ObjectName) -> list[Body]:
        """The Bundles that one is promoted from."""
        named = self.sources.get(name, ())
        return [self.bodies[one] for one in named if one in self.bodies]

    def stage(self, name: ObjectName) -> PlacedStage:
        """One of the Bundles, as it is on every path."""
        if name not in self._stages:
            view = BundleView(self.bodies[name], self._now)
            sources = self.sources_of(name)
            facts = (one.stage(view, sources) for one in load_words())
            self._stages[name] = PlacedStage(
                name,
                view.state,
                view.reason,
                said(view.summary.deployed.version),
                list(filter(None, facts)),
            )
        return self._stages[name]

    def path(self, name: ObjectName) -> PromotionPath:
        """The path around a Bundle; without stages where it has neither sources nor targets."""
        named = self.sources, self.targets, self._drawn
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
