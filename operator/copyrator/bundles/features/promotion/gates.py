"""The gate of ``spec.promoteFrom``: a digest must have soaked elsewhere. Pure.

In other Bundles of this cluster, by their status (``soak.py``); in environments of others, by
attestations (``evidence.py``). Digests are compared: those Bundles may have it from another
repository, under another tag.

A Bundle of another namespace that doesn't allow the promotion is treated as one that doesn't exist:
it influences neither the status nor the deploys of Bundles that name it, and the search for cycles
doesn't continue at it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.keys import BundleKey
from copyrator.api.names import ANN_PROMOTE_TO
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.seen_time import ALL_SEEN, SeenTime
from copyrator.api.text import first_of, format_duration, parse_time
from copyrator.bundles.engine.bundle import BundleCache, BundleEntry
from copyrator.bundles.engine.gate import (
    PASSED,
    Candidate,
    Facts,
    Findings,
    Gate,
    Gates,
    Occasion,
    Refused,
    Verdict,
    Waiting,
    uses,
)
from copyrator.bundles.engine.links import Link
from copyrator.bundles.features.promotion.evidence import Objection, find_objections
from copyrator.bundles.features.promotion.fields import (
    PROMOTION_GATE,
    PromotionSpec,
    PromotionStatus,
    SoakStatus,
    allows_promotion,
    hold_text,
)
from copyrator.bundles.features.promotion.reasons import PromotionReason
from copyrator.bundles.features.promotion.soak import valid_records
from copyrator.signatures.model import DeployedEvidence

_NAMED: Final = 3
"""Bundles that a sentence names."""
_LONG_AGO: Final = datetime(1, 1, 1, tzinfo=UTC)
_ORDER: Final = (
    PromotionReason.PROMOTION_NOT_ALLOWED,
    PromotionReason.PROMOTION_WITHDRAWN,
    PromotionReason.PROMOTION_HELD,
    BundleReason.VERIFICATION_UNAVAILABLE,
    PromotionReason.NOT_PROMOTED,
)
"""The precedence of reasons where several Bundles or environments object."""
ASKED: Final = frozenset({Occasion.NEW_DIGEST, Occasion.REQUEST, Occasion.FORCE, Occasion.ROLLBACK})
"""The occasions on which it is judged, or its objections are recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionSource:
    """A Bundle of ``spec.promoteFrom``, with what a Bundle promoted from it may know of it."""

    name: str
    """``namespace/name``."""
    is_allowed: bool = False
    """Whether it exists, isn't being deleted, and allows the promotion; else the rest is empty."""
    hold: str | None = None
    running: str | None = None
    """The digest that is deployed in it."""
    soak: tuple[SoakStatus, ...] = ()

    def record_of(self, digest: str) -> SoakStatus | None:
        """The record of a digest in ``status.soak``; None where there is none."""
        return next((one for one in self.soak if one.digest == digest), None)


@dataclass(frozen=True, slots=True)
class Sources:
    """All Bundles of ``spec.promoteFrom``."""

    bundles: tuple[PromotionSource, ...] = ()
    seen: SeenTime = field(default=ALL_SEEN, compare=False)
    """The periods in which an operator ran; the present one doesn't end, so nothing is compared."""


NO_SOURCES: Final = Sources()


def allows(entry: BundleEntry | None, namespace: str) -> bool:
    """Whether Bundles of this namespace may be promoted from that one."""
    return (
        entry is not None
        and not entry.deleting
        and allows_promotion(entry.annotations, entry.key.namespace, namespace)
    )


def find_sources(bundles: BundleCache, spec: BundleSpec, seen: Callable[[], SeenTime]) -> Sources:
    """The Bundles that this one is promoted from.

    ``seen`` returns the periods in which an operator ran.
    """
    named = spec.part(PromotionSpec).bundles
    return Sources(tuple(_source(bundles, key, spec.namespace) for key in named), seen())


def _source(bundles: BundleCache, key: BundleKey, namespace: str) -> PromotionSource:
    name, entry = f"{key.namespace}/{key.name}", bundles.get(key)
    if entry is None or not allows(entry, namespace):
        return PromotionSource(name=name)
    status = entry.status
    return PromotionSource(
        name=name,
        is_allowed=True,
        hold=hold_text(entry.annotations),
        running=status.deployed.digest,
        soak=valid_records(status.part(PromotionStatus).soak, parse_time(entry.created)),
    )


def _sources_in(findings: Findings) -> Sources:
    return findings.of(Sources) or NO_SOURCES


def _digests(findings: Findings) -> frozenset[str]:
    """The digests with a record in any source."""
    every = _sources_in(findings).bundles
    return frozenset(record.digest or "" for one in every for record in one.soak)


def _changes(spec: BundleSpec, status: BundleStatus, findings: Findings) -> Iterator[datetime]:
    """Of all recorded soaks, while a version waits.

    A moment long ago: each process judges once, as time without an operator doesn't count.
    """
    if PROMOTION_GATE not in status.open_gates or not spec.part(PromotionSpec).bundles:
        return
    yield _LONG_AGO
    sources = _sources_in(findings)
    soak, every = spec.part(PromotionSpec).soak, sources.bundles
    for digest in (one.digest or "" for one in every[0].soak) if every else ():
        ends = [
            _end(record, sources.seen, soak)
            for one in every
            if one.is_allowed and not _is_held(one, digest) and (record := one.record_of(digest))
        ]
        known = [end for end in ends if end is not None]
        if known and len(known) == len(every):  # in each of them it ends
            yield max(known)


def _is_held(source: PromotionSource, digest: str) -> bool:
    return source.hold is not None and source.running == digest


def _end(record: SoakStatus, seen: SeenTime, soak: float) -> datetime | None:
    wanted, since = timedelta(seconds=soak), parse_time(record.since)
    ended = record.longest_period
    if ended is not None and ended >= wanted:
        return _LONG_AGO
    if record.until is not None or since is None:
        return None
    return seen.reaches(since, wanted)


def _judge(spec: BundleSpec, candidate: Candidate, facts: Facts, now: datetime) -> Verdict:
    if facts.is_deployed(candidate):
        return PASSED
    sources = _sources_in(facts.findings)
    found = [
        objection
        for source in sources.bundles
        if (objection := _objection(spec, source, sources.seen, candidate, now)) is not None
    ]
    if attested := spec.part(PromotionSpec).attestations:
        evidence = facts.findings.of(DeployedEvidence) or DeployedEvidence(
            fault="its attestations haven't been read yet"
        )
        found += find_objections(attested, evidence, _describe(candidate), now)
    if not found:
        return PASSED
    found.sort(key=lambda one: (_ORDER.index(one.reason), one.until is not None))
    text, reason = first_of([one.text for one in found], _NAMED), found[0].reason
    if reason is PromotionReason.PROMOTION_NOT_ALLOWED:
        return Refused(reason, text, is_retried=True)
    ends = [one.until for one in found if one.until is not None]
    environments = tuple(one.environment for one in found if one.environment)
    return Waiting(reason, text, max(ends) if len(ends) == len(found) else None, environments)


def _describe(candidate: Candidate) -> str:
    return f"{candidate.version} ({candidate.digest[:19]})"


def _objection(
    spec: BundleSpec, source: PromotionSource, seen: SeenTime, candidate: Candidate, now: datetime
) -> Objection | None:
    name, soak = f"Bundle {source.name}", spec.part(PromotionSpec).soak
    what = _describe(candidate)
    if not source.is_allowed and source.name.startswith(f"{spec.namespace}/"):
        return Objection(PromotionReason.NOT_PROMOTED, f"{what} waits, as {name} doesn't exist")
    if not source.is_allowed:
        text = (
            f"{name} doesn't exist, or doesn't allow the namespace {spec.namespace} by the "
            f"annotation {ANN_PROMOTE_TO}"
        )
        return Objection(PromotionReason.PROMOTION_NOT_ALLOWED, text)
    if _is_held(source, candidate.digest):
        return Objection(PromotionReason.PROMOTION_HELD, f"{what}: {name} is held: {source.hold}")
    record = source.record_of(candidate.digest)
    end = None if record is None else _end(record, seen, soak)
    if end is not None and end <= now:
        return None
    required = f"spec.promoteFrom.soak requires {format_duration(soak)}"
    if record is None:
        text = f"{what} hasn't been deployed in {name}, where {required}"
        return Objection(PromotionReason.NOT_PROMOTED, text)
    return Objection(
        PromotionReason.NOT_PROMOTED,
        f"{what} {_deployed_for(record, name, seen, now)}, and {required}",
        end,
    )


def _deployed_for(record: SoakStatus, name: str, seen: SeenTime, now: datetime) -> str:
    """How long it has been deployed in a Bundle; the text doesn't change with the time alone."""
    since = parse_time(record.since)
    if record.until is None and since is not None:
        lost = format_duration(math.ceil(seen.unseen(since, now).total_seconds()))
        text = f"has been deployed in {name} since {record.since}"
        return text + (f" ({lost} without an operator don't count)" if lost != "0s" else "")
    why = f" ({record.broken_by})" if record.broken_by else ""
    if record.longest is None:
        return f"no longer counts in {name} since {record.until}{why}"
    return f"was deployed in {name} for {record.longest} at most, until {record.until}{why}"


def _describe_end(spec: BundleSpec) -> str:
    if not spec.part(PromotionSpec).bundles:
        return "its withdrawal is too old to count"
    named = [f"{one.namespace}/{one.name}" for one in spec.part(PromotionSpec).bundles]
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    where = ", ".join(named[:_NAMED]) + more
    return f"its soak of {format_duration(spec.part(PromotionSpec).soak)} in {where} ends"


LINK: Final = Link(
    field="spec.promoteFrom.bundles",
    verb="is promoted from",
    part=PromotionSpec,
    named=lambda part: part.bundles,
    allows=allows,
)
GATE: Final = Gate(
    name=PROMOTION_GATE,
    concerns=uses(PromotionSpec),
    occasions=frozenset({Occasion.NEW_DIGEST, Occasion.REQUEST}),
    judge=_judge,
    changes=_changes,
    remembers=True,
    prefers=_digests,
    judges_awaited=True,
    confirms=lambda spec: bool(spec.part(PromotionSpec).attestations),
    ends=_describe_end,
    link=LINK,
    find=find_sources,
)

GATES: Final = Gates(version=(GATE,))
