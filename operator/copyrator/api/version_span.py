"""Spans of versions: the parts of a constraint such as ``>=1.2`` or ``1.2.*``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from copyrator.api.semver_key import LOWEST, Base, Key, base_of, is_prerelease

Cut = tuple[Key, bool]
"""A position between versions: just before a key (False) or just after it (True)."""


class Fit(Enum):
    """Whether a version is in a range."""

    IN_RANGE = auto()
    PRE_RELEASE = auto()
    """Between the bounds, but pre-releases aren't included."""
    OUT_OF_RANGE = auto()


@dataclass(frozen=True, slots=True)
class Span:
    """All versions between two cuts; without an ``end`` there is no highest."""

    start: Cut = (LOWEST, False)
    end: Cut | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no version can be in it."""
        return self.end is not None and self.end <= self.start

    def holds(self, key: Key) -> bool:
        """Whether a version is in it."""
        return self.start <= (key, False) and (self.end is None or (key, False) < self.end)

    def common(self, other: Span) -> Span:
        """The intersection."""
        ends = [end for end in (self.end, other.end) if end is not None]
        return Span(max(self.start, other.start), min(ends) if ends else None)


EVERYTHING: Final = Span()
NOTHING: Final = Span(end=EVERYTHING.start)


@dataclass(frozen=True, slots=True)
class Alternative:
    """Constraints that must all hold: one side of ``||``."""

    span: Span = EVERYTHING
    holes: tuple[Span, ...] = ()
    """From ``!=``."""
    named: frozenset[Base] = frozenset()
    """Versions of which a pre-release is named."""
    any_prerelease: bool = False
    """It has a lower bound that ends in ``-0``."""

    @property
    def is_empty(self) -> bool:
        """Whether no version can be in it."""
        return self.span.is_empty

    def within(self, span: Span, named: frozenset[Base], *, any_prerelease: bool) -> Alternative:
        """The same with one more constraint."""
        return replace(
            self,
            span=self.span.common(span),
            named=self.named | named,
            any_prerelease=self.any_prerelease or any_prerelease,
        )

    def without(self, hole: Span) -> Alternative:
        """The same without those versions."""
        return replace(self, holes=(*self.holes, hole))

    def fit(self, key: Key, *, prerelease: bool) -> Fit:
        """Whether a version is in it.

        A pre-release is in range where all are included (``prerelease``), where the constraints
        name a pre-release of this same version (npm's rule: ``>=1.3.0-rc.1`` takes 1.3.0-rc.2 but
        not 1.4.0-alpha), or where a lower bound ends in ``-0`` (how Helm and Flux include all:
        ``>=1.2.0-0``).
        """
        if not self.span.holds(key) or any(hole.holds(key) for hole in self.holes):
            return Fit.OUT_OF_RANGE
        if not is_prerelease(key) or prerelease or self.any_prerelease:
            return Fit.IN_RANGE
        return Fit.IN_RANGE if base_of(key) in self.named else Fit.PRE_RELEASE
