"""How long versions have been deployed in a Bundle: evidence for promotion from it. Pure.

A version's period begins with its successful deploy. It ends when another attempt begins, or the
release drifts, isn't healthy or is held. ``status.soak`` is derived from the rest of the status,
and written with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from copyrator.api.bundle_status import (
    MAX_SOAKS,
    BundleReason,
    BundleStatus,
    Outcome,
    SoakStatus,
)
from copyrator.api.conditions import (
    ConditionStatus,
    ConditionType,
    conditions_by_type,
    ready_reason,
)
from copyrator.api.seen_time import ALL_SEEN, SeenTime
from copyrator.api.times import format_duration, format_time, parse_duration, parse_time
from copyrator.bundles.policy.criteria import is_below
from copyrator.bundles.policy.plans.drift import is_broken_off

_LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)
_LONGEST: Final = 1e9
"""Limits for values of a forged status."""


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


def soaked(
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
    there, fault = status.deployed, _fault(status, around)
    records = [
        one if one.digest == there.digest else _left(one, status, records, around, now)
        for one in records
    ]
    if there.digest is None:
        return tuple(records)
    at = next((i for i, one in enumerate(records) if one.digest == there.digest), None)
    if fault is not None:
        if at is not None:
            records[at] = _ended(records[at], fault, around, now)
            if _moves_down(status, records):
                records[at] = replace(records[at], longest=None)
        return tuple(records)
    last = records[at] if at is not None else SoakStatus(digest=there.digest)
    if _continues(last, there.time):
        return tuple(records)
    if at is not None:
        del records[at]
    records.append(
        replace(
            last,
            version=there.version,
            since=format_time(
                max(_ceil_second(now), around.created or now, parse_time(there.time) or now)
            ),
            until=None,
            broken_by=None,
        )
    )
    return _bounded(records)


def longest_period(record: SoakStatus) -> timedelta | None:
    """The longest period that has ended; None where there is no such evidence."""
    seconds = parse_duration(record.longest) if record.longest else None
    return None if seconds is None else timedelta(seconds=min(seconds, _LONGEST))


def valid_records(known: Sequence[SoakStatus], created: datetime | None) -> tuple[SoakStatus, ...]:
    """The records that count for a Bundle that was created then."""
    return tuple(one for one in known if one.digest and not _is_older(one, created))


def _continues(record: SoakStatus, deployed_at: str | None) -> bool:
    """Whether its period began after the last deploy, which another leader may have made."""
    since, deployed = parse_time(record.since), parse_time(deployed_at)
    return record.until is None and since is not None and (deployed is None or since >= deployed)


def _is_older(record: SoakStatus, created: datetime | None) -> bool:
    since = parse_time(record.since)
    return since is None or since > _LATEST or (created is not None and since < created)


def _fault(status: BundleStatus, around: Surroundings) -> _Break | None:
    """Why the period of what is deployed ends; None where it continues."""
    return next(_faults(status, around), None)


def _faults(status: BundleStatus, around: Surroundings) -> Iterator[_Break]:
    """All causes, first those that withdraw the evidence."""
    conditions = conditions_by_type(status.conditions)
    attempted = status.attempted
    if around.hold is not None:
        yield _Break(f"it was held: {around.hold}", withdraws=True)
    if _is(conditions, ConditionType.DRIFTED, ConditionStatus.TRUE):
        yield _Break("objects of the release drifted", withdraws=True)
    if _is(conditions, ConditionType.HEALTHY, ConditionStatus.FALSE):
        yield _Break("the release wasn't healthy", withdraws=True)
    if attempted.outcome == Outcome.FAILED:
        yield _Break(f"a deploy of {attempted.version} failed", withdraws=True)
    if attempted.outcome == Outcome.RUNNING:
        yield _Break(f"a deploy of {attempted.version} began")
    if attempted.outcome == Outcome.INTERRUPTED and not is_broken_off(status):
        yield _Break(f"a deploy of {attempted.version} was interrupted")
    if around.is_deleted:
        yield _Break("the Bundle is being deleted")
    reason = ready_reason(status.conditions)
    if reason == BundleReason.RELEASE_CONFLICT:
        yield _Break("the release is another Bundle's")
    if reason == BundleReason.RELEASE_NOT_ACCEPTED:
        yield _Break("the release's namespace doesn't accept it")


def _is(
    conditions: Mapping[str, Mapping[str, Any]], kind: ConditionType, wanted: ConditionStatus
) -> bool:
    return bool(conditions.get(kind, {}).get("status") == wanted)


def _ended(record: SoakStatus, fault: _Break, around: Surroundings, now: datetime) -> SoakStatus:
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


def _left(
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
    record = _ended(record, _Break(f"{there.version} was deployed"), around, now)
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


def _bounded(records: list[SoakStatus]) -> tuple[SoakStatus, ...]:
    """At most MAX_SOAKS: those without evidence go first, then the oldest; never the last one."""
    while len(records) > MAX_SOAKS:
        vain = (i for i, one in enumerate(records[:-1]) if one.longest is None)
        del records[next(vain, 0)]
    return tuple(records)


def _ceil_second(moment: datetime) -> datetime:
    """The moment, rounded up to a whole second: the time before it doesn't count."""
    down = moment.replace(microsecond=0)
    return down if down == moment else down + timedelta(seconds=1)
