"""``status.soak``: how long versions have been deployed, the evidence of promotions. Pure.

A version's period in a Bundle begins with its successful deploy. It ends when another attempt
begins, or the release drifts, isn't healthy or is held. It is derived from the rest of the status,
and written with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from copyrator.api.bundle_status import BundleStatus, Outcome
from copyrator.api.conditions import ready_reason
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.seen_time import ALL_SEEN, SeenTime
from copyrator.api.structs import replace
from copyrator.api.text import format_duration, format_time, parse_time
from copyrator.bundles.engine.gate import ceil_second
from copyrator.bundles.features import listed
from copyrator.bundles.features.promotion.fields import MAX_SOAKS, SoakStatus
from copyrator.bundles.tags import is_below

_LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""Limit for a value of a forged status."""


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
    for one in listed("fields", "CONDITIONS"):
        if one.withdraws and status.condition(one.name).status == one.withdraws[0]:
            text = one.withdraws[1].format(version=status.attempted.version)
            yield _Break(text, withdraws=True)
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
        longest = max(around.seen.seen(since, now), record.longest_period or timedelta())
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
