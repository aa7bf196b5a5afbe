"""The copies of a rule by their state, as far as its status and the watches tell that. Pure.

A status has their numbers, and at most 20 samples of what fails; the watches have copies' names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from copyrator.api.reasons.rules import FailureReason
from copyrator.api.rule_spec import RuleSpec
from copyrator.api.rule_status import Failure
from copyrator.api.selectors import Globs, is_wild
from copyrator.api.text import format_time, printable
from copyrator.cli.view.lists import pages_of
from copyrator.cli.view.overview import Snapshot
from copyrator.cli.view.rule import CopyGroup, RuleView, rule_kind
from copyrator.copies.rollout.steps import TargetNamespace, in_order, share

PAGE: Final = 100
"""Copies of a page of the list."""
MANY: Final = 20_000
"""Namespaces beyond which it isn't worked out which of them are targets."""
COSTLY: Final = 3_000_000
"""Steps of matching globs with namespaces that are made at most: about 0.3 s."""


@dataclass(frozen=True, slots=True)
class CopyFilter:
    """The part of the copies that is listed."""

    place: str = ""
    """A namespace's name, a glob, or a part of names; empty: all namespaces."""
    group: CopyGroup | None = None
    page: int = 1

    def matching(self, names: Sequence[str]) -> Sequence[str]:
        """The namespaces that are listed."""
        if not self.place:
            return names
        if self.place in names:
            return [self.place]
        if is_wild(self.place):
            globs = Globs((self.place,))
            return [name for name in names if globs.matches(name)]
        return [name for name in names if self.place in name]


@dataclass(frozen=True, slots=True)
class CopyRow:
    """A copy in the list, or a namespace that lacks one."""

    namespace: str
    kind: str
    name: str
    """Empty where it can't be determined."""
    group: CopyGroup


@dataclass(frozen=True, slots=True)
class CopyTable:
    """A page of the list of copies."""

    rows: Sequence[CopyRow]
    found: int
    """On all pages."""
    page: int
    pages: int


@dataclass(frozen=True)
class RuleCopies:
    """The copies of a rule."""

    view: RuleView
    seen: Snapshot

    @cached_property
    def found(self) -> Mapping[str, AbstractSet[tuple[str, str]]]:
        """Kind and name of those that exist, by namespace."""
        return self.seen.copies.of(str(self.view.name))

    @cached_property
    def later(self) -> AbstractSet[str]:
        """Namespaces with copies whose step of the rollout hasn't begun, where these are known."""
        spec, state = self.view.spec, self.view.rollout
        if state is None or state.started_at is None or not isinstance(spec, RuleSpec):
            return frozenset()
        rollout, targets = spec.rollout, self._targets
        if rollout is None or targets is None or state.step > len(rollout.steps):
            return frozenset()
        begun = share(rollout, state.step, in_order(rollout, targets, state.started_at))
        since = format_time(state.started_at)
        old = {one.name for one in targets if one.created < since}
        return (self.found.keys() & old).difference(begun, self.samples)

    @cached_property
    def missing(self) -> AbstractSet[str]:
        """Target namespaces that have no copy yet, where these are known."""
        if not self.view.counts.pending or self.seen.loading or self._targets is None:
            return frozenset()
        return {one.name for one in self._targets}.difference(self.found, self.samples)

    @cached_property
    def samples(self) -> Mapping[str, Sequence[Failure]]:
        """The failures that the status names, by namespace."""
        found: dict[str, list[Failure]] = {}
        for one in self.view.failures:
            found.setdefault(one.namespace, []).append(one)
        return found

    @cached_property
    def numbers(self) -> Mapping[CopyGroup, int]:
        """How many copies are in each state, by the status."""
        counts = self.view.counts
        later = min(self._number_later, counts.pending)
        return {
            CopyGroup.FAILED: counts.failed,
            CopyGroup.CONFLICT: counts.conflicts,
            CopyGroup.LATER: later,
            CopyGroup.PENDING: counts.pending - later,
            CopyGroup.SYNC: counts.ready,
        }

    def namespaces(self, group: CopyGroup) -> AbstractSet[str]:
        """Namespaces with copies in a state, as far as they are known."""
        if group in (CopyGroup.FAILED, CopyGroup.CONFLICT):
            return {one.namespace for one in self.view.failures if group_of(one) is group}
        if group is CopyGroup.LATER:
            return self.later
        if group is CopyGroup.PENDING:
            return self.missing
        is_known = group is self._others
        return self.found.keys() - self.samples.keys() - self.later if is_known else frozenset()

    @property
    def listed(self) -> list[tuple[CopyGroup, int]]:
        """How many rows of each state the list has; states without any are left out."""
        found = dict.fromkeys(CopyGroup, 0)
        for name in (*self.samples, *self.missing):
            for row in self._rows_in(name):
                found[row.group] += 1
        later = self._number_later
        sampled = sum(len(self.found.get(name, ())) for name in self.samples)
        found[CopyGroup.LATER] += later
        found[self._others] += sum(map(len, self.found.values())) - later - sampled
        return [(group, number) for group, number in found.items() if number]

    def table(self, wanted: CopyFilter) -> CopyTable:
        """A page of the list, those with failures first; the last page for pages beyond it."""
        places = wanted.matching(self._names)
        numbers = [self._number_in(place, wanted.group) for place in places]
        total = sum(numbers)
        pages = pages_of(total, PAGE)
        page = min(max(wanted.page, 1), pages)
        skipped = (page - 1) * PAGE
        rows: list[CopyRow] = []
        for place, number in zip(places, numbers, strict=True):
            if skipped >= number:
                skipped -= number
                continue
            mine = [row for row in self._rows_in(place) if wanted.group in (None, row.group)]
            rows += mine[skipped : skipped + PAGE - len(rows)]
            skipped = 0
            if len(rows) == PAGE:
                break
        return CopyTable(rows, total, page, pages)

    @property
    def name(self) -> str:
        """The name of all copies, where the spec has it, or of one of them; else empty."""
        spec = self.view.spec
        source = spec.source if isinstance(spec, RuleSpec) and not spec.transform.name else None
        if source is not None and source.name:
            return source.name
        first = next(iter(self.found.values()), ())
        return min((name for _, name in first), default="")

    @cached_property
    def _targets(self) -> Sequence[TargetNamespace] | None:
        """The namespaces that get copies; None where the watches don't tell that exactly.

        The number of copies tells it, too: tenants' rules and annotations of sources exclude some.
        A source isn't copied into its own namespace.
        """
        spec, places = self.view.spec, self.seen.places
        if not isinstance(spec, RuleSpec) or not places or "Namespace" in self.seen.loading:
            return None
        targets = spec.targets
        costs = (one.cost(places) for one in (targets.namespaces, targets.exclude))
        if len(places) > MANY or sum(costs) > COSTLY:
            return None
        matched = [
            TargetNamespace(name, place.labels, place.created)
            for name, place in places.items()
            if place.is_target and targets.matches(name, place.labels)
        ]
        source = spec.source
        homes = set(source.namespaces) if source is not None and not source.kubeconfig else set()
        home = homes if len(homes) == 1 else ()
        found = [one for one in matched if one.name not in home]
        is_exact = len(matched) == self.view.status.targets
        is_exact &= len(found) * self._each == self.view.counts.desired
        return found if is_exact else None

    @property
    def _each(self) -> int:
        """Copies in each target namespace."""
        spec = self.view.spec
        is_copied = isinstance(spec, RuleSpec) and spec.source is not None
        return max(self.view.status.sources, 1) if is_copied else 1

    @cached_property
    def _number_later(self) -> int:
        return sum(len(self.found[name]) for name in self.later)

    @cached_property
    def _others(self) -> CopyGroup:
        """The state of copies of which only their existence is known."""
        counts, condition = self.view.counts, self.view.ready
        due = self.numbers[CopyGroup.PENDING] - len(self.missing) * self._each
        named = len(self.view.failures)
        is_known = counts.failed + counts.conflicts <= named and due <= 0 and bool(condition)
        return CopyGroup.SYNC if is_known else CopyGroup.UNKNOWN

    @cached_property
    def _names(self) -> list[str]:
        samples = self.samples.keys()
        return [*sorted(samples), *sorted((self.found.keys() | self.missing) - samples)]

    def _group_in(self, place: str) -> CopyGroup:
        """The state of copies that aren't among the samples."""
        return CopyGroup.LATER if place in self.later else self._others

    def _number_in(self, place: str, group: CopyGroup | None) -> int:
        if place in self.samples or place in self.missing:
            return sum(group in (None, row.group) for row in self._rows_in(place))
        return len(self.found[place]) if group in (None, self._group_in(place)) else 0

    def _rows_in(self, place: str) -> list[CopyRow]:
        """The copies in a namespace, and those that it lacks."""
        if place in self.missing:
            return [CopyRow(place, rule_kind(self.view.body), self.name, CopyGroup.PENDING)]
        samples, others = self.samples.get(place, ()), self._group_in(place)
        failed = {one.name: group_of(one) for one in samples}
        every = failed.get("")
        there = sorted(self.found.get(place, ()))
        rows = [
            CopyRow(place, kind, name, failed.get(name) or every or others) for kind, name in there
        ]
        known = {name for _, name in there}
        return [*rows, *(self.row_of(one) for one in samples if one.name not in known)]

    def row_of(self, one: Failure) -> CopyRow:
        """A failure as a row."""
        kind = rule_kind(self.view.body)
        return CopyRow(printable(one.namespace), kind, printable(one.name), group_of(one))


def group_of(one: Failure) -> CopyGroup:
    """The state of a copy that fails."""
    conflicts = (FailureReason.CONFLICT, FailureReason.CONFLICT_PERSISTS)
    return CopyGroup.CONFLICT if one.reason in conflicts else CopyGroup.FAILED
