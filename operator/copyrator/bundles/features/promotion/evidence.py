"""What the attestations of other clusters say of a digest. Pure.

``spec.promoteFrom.attestations``: of each cluster and release of an environment the newest
statement counts, and of equally old ones the withdrawal. A withdrawal anywhere in the environment
stops the promotion until it is as old as statements may be, so that a registry which hides a newer
one can't promote what it withdraws for longer than that. It counts whatever the clock there says; a
positive statement that is dated ahead would outlive its time, so it doesn't count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from copyrator.api.reasons import Reason
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import count, first_of, format_duration, format_time
from copyrator.bundles.features.promotion.fields import AHEAD, AttestationsFrom
from copyrator.bundles.features.promotion.reasons import PromotionReason
from copyrator.signatures.model import DeployedEvidence, DeployedStatement

_NAMED: Final = 3
"""Statements and refusals that a sentence names."""


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a digest isn't promoted from one place."""

    reason: Reason
    text: str
    until: datetime | None = None
    """When it ends by itself."""
    environment: str = ""
    """Of another cluster; empty: a Bundle of this one, or its attestations can't be read."""


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
    reasons = [*_too_little(there)]
    for one in there.ahead:
        at = format_time(one.issued_at)
        ahead = f"the statement of {_place(one)} is dated ahead, {at}"
        reasons.append(f"{ahead}: correct the clock of that cluster")
    if not reasons:
        reasons = [f"attestation {why}" for why in evidence.refused]
        if evidence.others:
            other = count(evidence.others, "attestation")
            reasons.append(f"passed over: {other} of other tools or predicate types")
    why = f": {first_of(reasons, _NAMED)}" if reasons else ""
    text = f"{what} has no evidence from the environment {name} that counts{why}"
    return Objection(PromotionReason.NOT_PROMOTED, text, environment=name)


def _withdrawal(there: _Environment, what: str) -> Objection:
    sentences = [
        f"{_place(one)} withdrew it at {format_time(one.issued_at)}"
        + (f" ({one.reason})" if one.reason else "")
        for one in sorted(there.withdrawn, key=lambda one: one.issued_at, reverse=True)
    ]
    why = first_of(sentences, _NAMED)
    text = f"{what}: in the environment {there.wanted.environment} {why}"
    ends = max(map(there.end_of, there.withdrawn)) + timedelta(seconds=1)
    still_there = any(there.end_of(one) >= ends for one in there.positive)
    ends_at = ends if still_there else None
    return Objection(PromotionReason.PROMOTION_WITHDRAWN, text, ends_at, there.wanted.environment)


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


def _place(statement: DeployedStatement) -> str:
    cluster, release = statement.source
    return f"release {release} of cluster {cluster}"
