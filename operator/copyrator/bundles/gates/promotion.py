"""The gate of ``spec.promoteFrom``: a digest must have soaked elsewhere. Pure.

In other Bundles of this cluster, by their status; in environments of others, by attestations
(``evidence.py``).

Digests are compared: those Bundles may have it from another repository, under another tag.

A version's period in a Bundle begins with its successful deploy. It ends when another attempt
begins, or the release drifts, isn't healthy or is held. ``status.soak``, the evidence, is derived
from the rest of the status, and written with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from copyrator.api.approval import AsApprovedStatus
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, Outcome
from copyrator.api.conditions import (
    ConditionType,
    ready_reason,
)
from copyrator.api.names import ANN_PROMOTE_TO
from copyrator.api.promotion import MAX_SOAKS, PromotionSpec, SoakStatus, allows_promotion
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.seen_time import ALL_SEEN, SeenTime
from copyrator.api.structs import replace
from copyrator.api.text import first_of
from copyrator.api.times import format_duration, format_time, parse_time
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.candidates import is_below
from copyrator.bundles.gates.evidence import Objection, find_objections, longest_period
from copyrator.bundles.gates.gate import (
    PASSED,
    Candidate,
    Facts,
    Gate,
    Occasion,
    PromotionSource,
    Refused,
    Sources,
    Verdict,
    Waiting,
    ceil_second,
    uses,
)
from copyrator.bundles.gates.links import Link
from copyrator.signatures.model import DeployedEvidence

_LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""Limit for a value of a forged status."""


def allows(entry: BundleEntry | None, namespace: str) -> bool:
    """Whether Bundles of this namespace may be promoted from that one."""
    return (
        entry is not None
        and not entry.deleting
        and allows_promotion(entry.annotations, entry.key.namespace, namespace)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The input of a Bundle's soak beside its status."""

    hold: str | None = None
    """Why it is held."""
    created: datetime | None = None
    """When the Bundle was created: what is older is another Bundle's, from a backup."""
    is_deleted: bool = False
    seen: SeenTime = ALL_SEEN


@dataclass(frozen=True, slots=True)
class _Break:
    """Why the period of what is deployed ends."""

    text: str
    withdraws: bool = False
    """Whether earlier periods of the version don't count either."""


def update_records(
    known: Sequence[SoakStatus], status: BundleStatus, around: Surroundings, now: datetime
) -> tuple[SoakStatus, ...]:
    """``status.soak`` for the rest of a status; equal input gives equal records.

    Args:
        known: the present records.
        status: the status that is written next.
        around: the rest of the Bundle.
        now: used as the beginning or end of a period only.
    """
    records = list(valid_records(known, around.created))
    there, fault = status.deployed, next(_faults(status, around), None)
    records = [
        one if one.digest == there.digest else _end_replaced(one, status, records, around, now)
        for one in records
    ]
    if there.digest is None:
        return tuple(records)
    at = next((i for i, one in enumerate(records) if one.digest == there.digest), None)
    if fault is not None:
        if at is not None:
            records[at] = _end_period(records[at], fault, around, now)
            if _moves_down(status, records):
                records[at] = replace(records[at], longest=None)
        return tuple(records)
    last = records[at] if at is not None else SoakStatus(digest=there.digest)
    since, deployed = parse_time(last.since), parse_time(there.time)
    if last.until is None and since is not None and (deployed is None or since >= deployed):
        return tuple(records)  # else another leader may have deployed it again
    if at is not None:
        del records[at]
    begun = format_time(max(ceil_second(now), around.created or now, deployed or now))
    records.append(replace(last, version=there.version, since=begun, until=None, broken_by=None))
    return _drop_excess(records)


def valid_records(known: Sequence[SoakStatus], created: datetime | None) -> tuple[SoakStatus, ...]:
    """The records that count for a Bundle that was created then."""
    return tuple(one for one in known if one.digest and not _is_older(one, created))


def _is_older(record: SoakStatus, created: datetime | None) -> bool:
    since = parse_time(record.since)
    return since is None or since > _LATEST or (created is not None and since < created)


def _faults(status: BundleStatus, around: Surroundings) -> Iterator[_Break]:
    """Why the period of what is deployed ends, first what withdraws the evidence; else nothing."""
    yield from _withdrawals(status, around)
    attempted = status.attempted
    if attempted.outcome == Outcome.RUNNING:
        yield _Break(f"a deploy of {attempted.version} began")
    if attempted.outcome == Outcome.INTERRUPTED and not status.attempted.is_broken_off:
        yield _Break(f"a deploy of {attempted.version} was interrupted")
    if around.is_deleted:
        yield _Break("the Bundle is being deleted")
    for one in (BundleReason.RELEASE_CONFLICT, BundleReason.RELEASE_NOT_ACCEPTED):
        if ready_reason(status.conditions) == one:
            yield _Break(one.meaning)


def _withdrawals(status: BundleStatus, around: Surroundings) -> Iterator[_Break]:
    if _is_rolled_back(status):
        yield _Break(f"it is rolled back to {status.pin.version}", withdraws=True)
    if around.hold is not None:
        yield _Break(f"it was held: {around.hold}", withdraws=True)
    if status.part(AsApprovedStatus).is_different:
        yield _Break(
            f"{status.part(AsApprovedStatus).version} wasn't deployed as approved", withdraws=True
        )
    if status.condition(ConditionType.DRIFTED).is_true:
        yield _Break("objects of the release drifted", withdraws=True)
    if status.condition(ConditionType.HEALTHY).is_false:
        yield _Break("the release wasn't healthy", withdraws=True)
    if status.attempted.outcome == Outcome.FAILED:
        yield _Break(f"a deploy of {status.attempted.version} failed", withdraws=True)


def _is_rolled_back(status: BundleStatus) -> bool:
    """Whether another version is pinned than the deployed one, and not a higher one."""
    pin, there = status.pin, status.deployed
    is_left = pin.digest is not None and pin.digest != there.digest
    return is_left and not is_below(there.version or "", pin.version or "")


def _end_period(
    record: SoakStatus, fault: _Break, around: Surroundings, now: datetime
) -> SoakStatus:
    """The record with its period ended now, where it hasn't ended yet."""
    since = parse_time(record.since)
    if record.until is None and since is not None:
        longest = max(around.seen.seen(since, now), longest_period(record) or timedelta())
        record = replace(
            record,
            until=format_time(now),
            longest=format_duration(int(longest.total_seconds())),
            broken_by=fault.text,
        )
    if fault.withdraws and record.longest is not None:
        record = replace(record, longest=None, broken_by=fault.text)
    return record


def _end_replaced(
    record: SoakStatus,
    status: BundleStatus,
    records: Sequence[SoakStatus],
    around: Surroundings,
    now: datetime,
) -> SoakStatus:
    """The record of a version that isn't deployed (any more)."""
    there = status.deployed
    if record.until is not None or there.digest is None:
        return record
    record = _end_period(record, _Break(f"{there.version} was deployed"), around, now)
    if _is_down(there.version, there.digest, record, records):
        record = replace(record, longest=None)
    return record


def _moves_down(status: BundleStatus, records: Sequence[SoakStatus]) -> bool:
    """Whether the running attempt is of a lower version than what is deployed."""
    attempted, there = status.attempted, status.deployed
    if attempted.outcome != Outcome.RUNNING or attempted.digest in (None, there.digest):
        return False
    record = SoakStatus(version=there.version, digest=there.digest)
    same = attempted.reference == there.reference  # tags of two repositories don't compare
    version = attempted.version if same else None
    return _is_down(version, attempted.digest, record, records)


def _is_down(
    version: str | None,
    digest: str | None,
    record: SoakStatus,
    records: Sequence[SoakStatus],
) -> bool:
    """Whether a version is lower than the record's, or, of equal ones, was deployed before it."""
    if version and record.version and version != record.version:
        if is_below(version, record.version):
            return True
        if is_below(record.version, version):
            return False
    order = [one.digest for one in records]
    if digest not in order or record.digest not in order:
        return False
    return order.index(digest) < order.index(record.digest)


def _drop_excess(records: list[SoakStatus]) -> tuple[SoakStatus, ...]:
    """At most MAX_SOAKS: those without evidence go first, then the oldest; never the last one."""
    while len(records) > MAX_SOAKS:
        vain = (i for i, one in enumerate(records[:-1]) if one.longest is None)
        del records[next(vain, 0)]
    return tuple(records)


NAME: Final = "promotion"
_NAMED: Final = 3
"""Bundles that a sentence names."""
_LONG_AGO: Final = datetime(1, 1, 1, tzinfo=UTC)
_ORDER: Final = (
    BundleReason.PROMOTION_NOT_ALLOWED,
    BundleReason.PROMOTION_WITHDRAWN,
    BundleReason.PROMOTION_HELD,
    BundleReason.VERIFICATION_UNAVAILABLE,
    BundleReason.NOT_PROMOTED,
)
"""The precedence of reasons where several Bundles or environments object."""
ASKED: Final = frozenset({Occasion.NEW_DIGEST, Occasion.REQUEST, Occasion.FORCE, Occasion.ROLLBACK})
"""The occasions on which it is judged, or its objections are recorded."""


def _changes(spec: BundleSpec, status: BundleStatus, sources: Sources) -> Iterator[datetime]:
    """Of all recorded soaks, while a version waits.

    A moment long ago: each process judges once, as time without an operator doesn't count.
    """
    if NAME not in status.open_gates or not spec.part(PromotionSpec).bundles:
        return
    yield _LONG_AGO
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
    if attested := spec.part(PromotionSpec).attestations:
        evidence = facts.evidence or DeployedEvidence(
            fault="its attestations haven't been read yet"
        )
        found += find_objections(attested, evidence, _describe(candidate), now)
    if not found:
        return PASSED
    found.sort(key=lambda one: (_ORDER.index(one.reason), one.until is not None))
    text, reason = first_of([one.text for one in found], _NAMED), found[0].reason
    if reason is BundleReason.PROMOTION_NOT_ALLOWED:
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
        return Objection(BundleReason.NOT_PROMOTED, f"{what} waits, as {name} doesn't exist")
    if not source.is_allowed:
        text = (
            f"{name} doesn't exist, or doesn't allow the namespace {spec.namespace} by the "
            f"annotation {ANN_PROMOTE_TO}"
        )
        return Objection(BundleReason.PROMOTION_NOT_ALLOWED, text)
    if _is_held(source, candidate.digest):
        return Objection(BundleReason.PROMOTION_HELD, f"{what}: {name} is held: {source.hold}")
    record = source.record_of(candidate.digest)
    end = None if record is None else _end(record, seen, soak)
    if end is not None and end <= now:
        return None
    required = f"spec.promoteFrom.soak requires {format_duration(soak)}"
    if record is None:
        text = f"{what} hasn't been deployed in {name}, where {required}"
        return Objection(BundleReason.NOT_PROMOTED, text)
    return Objection(
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
    name=NAME,
    concerns=uses(PromotionSpec),
    occasions=frozenset({Occasion.NEW_DIGEST, Occasion.REQUEST}),
    judge=_judge,
    changes=_changes,
    remembers=True,
    ends=_describe_end,
    link=LINK,
)
