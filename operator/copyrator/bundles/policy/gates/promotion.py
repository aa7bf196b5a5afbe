"""The gate of ``spec.promoteFrom``: a digest must have soaked in other Bundles. Pure.

Digests are compared: those Bundles may have it from another repository, under another tag.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason, BundleStatus, GateState, SoakStatus
from copyrator.api.names import ANN_PROMOTE_TO
from copyrator.api.seen_time import SeenTime
from copyrator.api.times import format_duration, parse_time
from copyrator.bundles.policy.gates import (
    PASSED,
    Candidate,
    Facts,
    Gate,
    Occasion,
    Refused,
    Verdict,
    Waiting,
)
from copyrator.bundles.policy.soak import longest_period
from copyrator.bundles.policy.sources import Source, Sources

NAME: Final = "promotion"
_NAMED: Final = 3
"""Bundles that a message names."""
_LONG_AGO: Final = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Objection:
    """Why one Bundle doesn't let a digest pass."""

    reason: BundleReason
    text: str
    until: datetime | None = None


_ORDER: Final = (
    BundleReason.PROMOTION_NOT_ALLOWED,
    BundleReason.PROMOTION_HELD,
    BundleReason.NOT_PROMOTED,
)
"""The precedence of reasons where several Bundles object."""


def is_waiting(status: BundleStatus) -> bool:
    """Whether a version waits for this gate, by the status."""
    return any(one.name == NAME and one.state != GateState.PASSED for one in status.gates)


def passes_at(sources: Sources, soak: float, digest: str) -> datetime | None:
    """When a digest's soak ends, or ended, in all sources; None where that isn't known."""
    moments = [_passes_at(one, sources.seen, soak, digest) for one in sources.bundles]
    known = [moment for moment in moments if moment is not None]
    return max(known) if known and len(known) == len(moments) else None


def next_end(spec: BundleSpec, sources: Sources, now: datetime) -> datetime | None:
    """The first time at which the soak of any digest ends; None where none does by itself."""
    return min((end for end in _ends(spec, sources) if end > now), default=None)


def has_ended(spec: BundleSpec, sources: Sources, last: datetime, now: datetime) -> bool:
    """Whether the soak of a digest has ended since the last evaluation of the gates."""
    return any(last < end <= now for end in _ends(spec, sources))


def _ends(spec: BundleSpec, sources: Sources) -> Iterator[datetime]:
    first = sources.bundles[0].soak if sources.bundles else ()
    for record in first:
        end = passes_at(sources, spec.promote_from.soak, record.digest or "")
        if end is not None:
            yield end


def _passes_at(source: Source, seen: SeenTime, soak: float, digest: str) -> datetime | None:
    record = source.record_of(digest)
    if record is None or not source.is_allowed or _is_held(source, digest):
        return None
    return _end(record, seen, soak)


def _is_held(source: Source, digest: str) -> bool:
    return source.hold is not None and source.running == digest


def _end(record: SoakStatus, seen: SeenTime, soak: float) -> datetime | None:
    wanted, since = timedelta(seconds=soak), parse_time(record.since)
    ended = longest_period(record)
    if ended is not None and ended >= wanted:
        return _LONG_AGO
    if record.until is not None or since is None:
        return None
    return seen.reaches(since, wanted)


def _judge(spec: BundleSpec, candidate: Candidate, facts: Facts, now: datetime) -> Verdict:
    if facts.is_deployed(candidate):
        return PASSED
    found = [
        objection
        for source in facts.sources.bundles
        if (objection := _objection(spec, source, facts.sources.seen, candidate, now)) is not None
    ]
    if not found:
        return PASSED
    found.sort(key=lambda one: (_ORDER.index(one.reason), one.until is not None))
    text, reason = _joined(found), found[0].reason
    if reason is BundleReason.PROMOTION_NOT_ALLOWED:
        return Refused(reason, text, is_retried=True)
    ends = [one.until for one in found if one.until is not None]
    return Waiting(reason, text, max(ends) if len(ends) == len(found) else None)


def _joined(found: Sequence[_Objection]) -> str:
    more = len(found) - _NAMED
    text = "; ".join(one.text for one in found[:_NAMED])
    return text + (f"; and {more} more" if more > 0 else "")


def _objection(
    spec: BundleSpec, source: Source, seen: SeenTime, candidate: Candidate, now: datetime
) -> _Objection | None:
    name, soak = f"Bundle {source.name}", spec.promote_from.soak
    what = f"{candidate.version} ({candidate.digest[:19]})"
    if not source.is_allowed and source.name.startswith(f"{spec.namespace}/"):
        return _Objection(BundleReason.NOT_PROMOTED, f"{what} waits, as {name} doesn't exist")
    if not source.is_allowed:
        text = (
            f"{name} doesn't exist, or doesn't allow the namespace {spec.namespace} by the "
            f"annotation {ANN_PROMOTE_TO}"
        )
        return _Objection(BundleReason.PROMOTION_NOT_ALLOWED, text)
    if _is_held(source, candidate.digest):
        return _Objection(BundleReason.PROMOTION_HELD, f"{what}: {name} is held: {source.hold}")
    record = source.record_of(candidate.digest)
    end = None if record is None else _end(record, seen, soak)
    if end is not None and end <= now:
        return None
    required = f"spec.promoteFrom.soak requires {format_duration(soak)}"
    if record is None:
        text = f"{what} hasn't been deployed in {name}, where {required}"
        return _Objection(BundleReason.NOT_PROMOTED, text)
    return _Objection(
        BundleReason.NOT_PROMOTED,
        f"{what} {_deployed_for(record, name, seen, now)}, and {required}",
        end,
    )


def _deployed_for(record: SoakStatus, name: str, seen: SeenTime, now: datetime) -> str:
    """How long it has been deployed in a Bundle; the text doesn't change with the time alone."""
    since = parse_time(record.since)
    if record.until is None and since is not None:
        lost = format_duration(seen.unseen(since, now).total_seconds())
        text = f"has been deployed in {name} since {record.since}"
        return text + (f" ({lost} without an operator don't count)" if lost != "0s" else "")
    why = f" ({record.broken_by})" if record.broken_by else ""
    if record.longest is None:
        return f"no longer counts in {name} since {record.until}{why}"
    return f"was deployed in {name} for {record.longest} at most, until {record.until}{why}"


GATE: Final = Gate(
    name=NAME,
    concerns=lambda spec: bool(spec.promote_from),
    occasions=frozenset({Occasion.NEW_DIGEST, Occasion.REQUEST}),
    judge=_judge,
)
