"""What attestations say about a digest's promotion: ``spec.promoteFrom.attestations``. Pure.

Of each cluster and release of an environment the newest statement counts, and of equally old ones
the withdrawal. A withdrawal anywhere in the environment stops the promotion until it is as old as
statements may be, so that a registry which hides a newer one can't promote what it withdraws for
longer than that. It counts whatever the clock there says; a positive statement that is dated ahead
would outlive its time, so it doesn't count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import AttestationsFrom
from copyrator.api.bundle_status import BundleReason
from copyrator.api.times import format_duration, format_time
from copyrator.signatures.model import CosignKeys, DeployedEvidence, DeployedStatement

AHEAD: Final = timedelta(minutes=10)
"""By how much the clocks of two clusters may differ."""
_NAMED: Final = 3
"""Statements and refusals that a sentence names."""


@dataclass(frozen=True, slots=True)
class Attesters:
    """The keys that are trusted for attestations. Equal ones have equal keys."""

    key: str = ""
    """Hash of everything else; empty: no attestation is required."""
    environments: tuple[CosignKeys, ...] = field(default=(), compare=False)
    """Each with its name."""
    fault: str = field(default="", compare=False)
    """Why some can't be used, so that nothing is promoted."""

    def __bool__(self) -> bool:
        return bool(self.key)


NO_ATTESTERS: Final = Attesters()


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a digest isn't promoted from one place."""

    reason: BundleReason
    text: str
    until: datetime | None = None
    """When it ends by itself."""


@dataclass(frozen=True, slots=True)
class _Environment:
    """The statements that count in one environment."""

    wanted: AttestationsFrom
    now: datetime
    newest: tuple[DeployedStatement, ...]
    """Of each cluster and release."""
    ahead: tuple[DeployedStatement, ...]
    """Positive ones that are dated ahead."""

    @property
    def withdrawn(self) -> list[DeployedStatement]:
        return [one for one in self.newest if one.withdrawn and self._is_young(one)]

    @property
    def positive(self) -> list[DeployedStatement]:
        return [
            one
            for one in self.newest
            if not one.withdrawn and self._is_young(one) and one.seconds >= self.wanted.soak
        ]

    def end_of(self, statement: DeployedStatement) -> datetime:
        """The last moment at which a statement counts."""
        return statement.issued_at + timedelta(seconds=self.wanted.max_age)

    def _is_young(self, statement: DeployedStatement) -> bool:
        return self.now <= self.end_of(statement)


def find_objections(
    wanted: Sequence[AttestationsFrom], evidence: DeployedEvidence, what: str, now: datetime
) -> list[Objection]:
    """Why a digest isn't promoted, for each environment that has no evidence for it.

    Args:
        wanted: of ``spec.promoteFrom``.
        evidence: all statements about the digest.
        what: names the version in messages.
        now: with a time zone.
    """
    if evidence.fault:
        text = f"{what} can't be promoted: {evidence.fault}; it is tried again"
        return [Objection(BundleReason.VERIFICATION_UNAVAILABLE, text)]
    found = (_objection(_read(one, evidence, now), evidence, what) for one in wanted)
    return [objection for objection in found if objection is not None]


def _read(wanted: AttestationsFrom, evidence: DeployedEvidence, now: datetime) -> _Environment:
    newest: dict[tuple[str, str], DeployedStatement] = {}
    ahead: list[DeployedStatement] = []
    for one in evidence.statements:
        if not _concerns(wanted, one):
            continue
        if not one.withdrawn and one.issued_at > now + AHEAD:
            ahead.append(one)
            continue
        known = newest.get(one.source)
        if known is None or _order(one) > _order(known):
            newest[one.source] = one
    return _Environment(wanted, now, tuple(newest.values()), tuple(ahead))


def _concerns(wanted: AttestationsFrom, statement: DeployedStatement) -> bool:
    cluster, release = statement.source
    return (
        statement.environment == wanted.environment
        and wanted.cluster in (None, cluster)
        and wanted.release in (None, release)
    )


def _order(statement: DeployedStatement) -> tuple[datetime, bool, int, int]:
    """Of equally old positive ones that with the fewest seconds counts, whatever their order."""
    return statement.issued_at, statement.withdrawn, -statement.seconds, statement.revision


def _objection(there: _Environment, evidence: DeployedEvidence, what: str) -> Objection | None:
    name = there.wanted.environment
    if there.withdrawn:
        return _withdrawal(there, what)
    if there.positive:
        return None
    reasons = [*_too_little(there), *(_dated_ahead(one) for one in there.ahead)]
    if not reasons:
        reasons = [f"attestation {why}" for why in evidence.refused]
    why = f": {_join(reasons)}" if reasons else ""
    text = f"{what} has no evidence from the environment {name} that counts{why}"
    return Objection(BundleReason.NOT_PROMOTED, text)


def _withdrawal(there: _Environment, what: str) -> Objection:
    sentences = (
        f"{_place(one)} withdrew it at {format_time(one.issued_at)}"
        + (f" ({one.reason})" if one.reason else "")
        for one in sorted(there.withdrawn, key=lambda one: one.issued_at, reverse=True)
    )
    text = f"{what}: in the environment {there.wanted.environment} {_join(list(sentences))}"
    ends = max(map(there.end_of, there.withdrawn)) + timedelta(seconds=1)
    still_there = any(there.end_of(one) >= ends for one in there.positive)
    return Objection(BundleReason.PROMOTION_WITHDRAWN, text, ends if still_there else None)


def _too_little(there: _Environment) -> Iterable[str]:
    """Why positive statements don't count."""
    soak, max_age = (format_duration(one) for one in (there.wanted.soak, there.wanted.max_age))
    for one in there.newest:
        if one.withdrawn:
            yield f"{_place(one)} withdrew it at {format_time(one.issued_at)}"
        elif there.now > there.end_of(one):
            yield (
                f"the newest statement of {_place(one)} is of {format_time(one.issued_at)}, which "
                f"is more than maxAge ({max_age}) ago"
            )
        else:
            yield (
                f"it stood in {_place(one)} for {format_duration(one.seconds)}, and soak is {soak}"
            )


def _dated_ahead(statement: DeployedStatement) -> str:
    at = format_time(statement.issued_at)
    return (
        f"the statement of {_place(statement)} is dated ahead, {at}: correct the clock of that "
        "cluster"
    )


def _place(statement: DeployedStatement) -> str:
    cluster, release = statement.source
    return f"release {release} of cluster {cluster}"


def _join(sentences: Sequence[str]) -> str:
    more = len(sentences) - _NAMED
    return "; ".join(sentences[:_NAMED]) + (f"; and {more} more" if more > 0 else "")
