"""The gate of ``spec.dependsOn``: a new version waits until other Bundles are Ready. Pure.

Ready means that all that the spec of those Bundles requests is deployed. A newer version of them
may not have been found yet, so their versions have to be pushed first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason
from copyrator.api.keys import BundleKey
from copyrator.bundles.gates.gate import PASSED, Candidate, Facts, Gate, Occasion, Verdict, Waiting

MAX_SEARCHED: Final = 500
"""Bundles that a search for a cycle visits at most."""
_NAMED: Final = 3
"""Bundles that a message names."""


class TooManyError(Exception):
    """A search for a cycle would visit more than MAX_SEARCHED Bundles."""


def find_cycle(
    start: BundleKey, depends_on: Callable[[BundleKey], Iterable[BundleKey]]
) -> tuple[BundleKey, ...]:
    """The shortest cycle through a Bundle, with it at both ends; empty where there is none.

    Raises:
        TooManyError: it depends on more than MAX_SEARCHED Bundles, directly or not.
    """
    came_from: dict[BundleKey, BundleKey] = {}
    line = [start]
    for one in line:
        for other in depends_on(one):
            if other == start:
                return (*_path(came_from, start, one), start)
            if other not in came_from:
                if len(came_from) >= MAX_SEARCHED:
                    raise TooManyError
                came_from[other] = one
                line.append(other)
    return ()


def cycle_fault(
    start: BundleKey, leads_to: Callable[[BundleKey], Iterable[BundleKey]]
) -> str | None:
    """The end of a sentence about a field by which a Bundle depends on itself; None without one."""
    try:
        cycle = find_cycle(start, leads_to)
    except TooManyError:
        return f"leads to more than {MAX_SEARCHED} Bundles; reduce it"
    if not cycle:
        return None
    shown = " -> ".join(f"{key.namespace}/{key.name}" for key in cycle)
    return f"is a cycle, {shown}; remove one of these"


def _path(
    came_from: dict[BundleKey, BundleKey], start: BundleKey, end: BundleKey
) -> tuple[BundleKey, ...]:
    path = [end]
    while path[-1] != start:
        path.append(came_from[path[-1]])
    return tuple(reversed(path))


def _judge(_spec: BundleSpec, _candidate: Candidate, facts: Facts, _now: datetime) -> Verdict:
    if not facts.unready:
        return PASSED
    more = len(facts.unready) - _NAMED
    text = "; ".join(facts.unready[:_NAMED]) + (f"; and {more} more" if more > 0 else "")
    return Waiting(BundleReason.DEPENDENCY_NOT_READY, text)


GATE: Final = Gate(
    name="dependsOn",
    concerns=lambda spec: bool(spec.depends_on),
    occasions=frozenset({Occasion.NEW_DIGEST, Occasion.REQUEST}),
    judge=_judge,
)
