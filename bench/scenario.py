"""What a benchmark is: a set-up, runs that give figures, and the goals that they are held to."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from bench.rig import Rig

Figures = Mapping[str, float]
Run = Callable[[], Figures]
SetUp = Callable[[Rig, int], Iterator[Run]]


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure, its unit, and the most that it may be; None: told, but held to nothing.

    A `detail` is printed by a run, and isn't in the docs.
    """

    text: str
    unit: str = ""
    most: float | None = None
    detail: bool = False


@dataclass(frozen=True, slots=True)
class Scenario:
    """One benchmark.

    Attributes:
        name: by which it is asked for.
        title: what happens, ``{size}`` filled in.
        size: how much of it, where nobody says otherwise.
        runs: how many are made; the first one more is for warming up where `warm_up`.
        goals: by the name of the figure.
        set_up: prepares, yields what makes one run, and tidies up.
    """

    name: str
    title: str
    size: int
    runs: int
    goals: Mapping[str, Goal]
    set_up: Callable[[Rig, int], AbstractContextManager[Run]]
    warm_up: bool = True


@dataclass(slots=True)
class Figure:
    """One figure of all runs of a scenario."""

    name: str
    goal: Goal
    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.values)

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached; None where there is none."""
        return None if self.goal.most is None else self.median <= self.goal.most


@dataclass(slots=True)
class Result:
    """What the runs of one scenario gave, and on which commit.

    Attributes:
        date: the day of the runs, in UTC, as in 2026-11-27.
        requests: the operator's in each run by verb, without those of its Lease.
    """

    scenario: str
    title: str
    size: int
    tree: str
    commit: str = ""
    date: str = ""
    figures: dict[str, Figure] = field(default_factory=dict)
    requests: list[dict[str, int]] = field(default_factory=list)

    def add(
        self, goals: Mapping[str, Goal], figures: Figures, requests: Mapping[str, int] | None = None
    ) -> None:
        """Take in one run's figures and requests."""
        if requests:
            self.requests.append(dict(requests))
        for name, value in figures.items():
            goal = goals.get(name, Goal(name.replace("_", " ")))
            self.figures.setdefault(name, Figure(name, goal)).values.append(value)


REGISTRY: dict[str, Scenario] = {}
"""All scenarios by name, in the order in which they are defined."""


def chosen(names: Iterable[str]) -> list[Scenario]:
    """The scenarios of these names; without any name all.

    Raises:
        KeyError: there is none of a name; the names are in its first argument.
    """
    wanted = list(names)
    if unknown := sorted(set(wanted) - set(REGISTRY)):
        raise KeyError(", ".join(unknown))
    return [REGISTRY[name] for name in wanted or REGISTRY]


def scenario(
    name: str,
    title: str,
    *,
    size: int,
    runs: int,
    goals: Mapping[str, Goal],
    warm_up: bool = True,
) -> Callable[[SetUp], SetUp]:
    """Make a generator function that yields a run a scenario."""

    def register(set_up: SetUp) -> SetUp:
        managed = contextmanager(set_up)
        REGISTRY[name] = Scenario(name, title, size, runs, goals, managed, warm_up)
        return set_up

    return register
