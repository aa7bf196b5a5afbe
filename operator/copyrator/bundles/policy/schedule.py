"""When a registry is polled next, and when a failed deploy is retried. Pure.

Polls are bound to slots (slots.py), one for each query: Bundles that share a tag are due
together and share one request, and a ``nextPollAt`` that was written long ago stays true: that time
plus a whole number of intervals.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.version_range import ExactTag, parse_version
from copyrator.bundles.policy.slots import Slot

MAX_RETRY_DELAY: Final = 900.0


def query_of(spec: BundleSpec) -> str:
    """The part of a Bundle's query to the registry that determines its slot.

    All ranges of a repository have one slot, as one tag list answers them all.
    """
    if isinstance(version := parse_version(spec.version), ExactTag):
        return f"{spec.reference}:{version.tag}"
    return spec.reference


def interval_of(spec: BundleSpec) -> float:
    """Seconds between two polls; a status holds whole seconds, so they can't be closer."""
    return max(spec.interval, 1.0)


def poll_retry(
    slot: Slot, failures: int, now: datetime, retry_after: float | None = None, *, first: float
) -> datetime:
    """When to poll again after ``failures`` failed polls in a row: soon, then at the slots.

    ``first``: seconds before the first retry, doubling.

    Bundles with a Retry-After resume one after the other, not all at once.
    """
    delay = first * 2 ** min(max(failures, 1) - 1, 20)
    again = min(now + timedelta(seconds=delay), slot.after(now))
    if retry_after is not None:
        jitter = slot.phase / slot.interval * min(slot.interval, retry_after / 2)
        return max(now + timedelta(seconds=retry_after + jitter), again)
    return again


def same_rhythm(spec: BundleSpec, before: datetime, after: datetime) -> bool:
    """Whether ``after`` is ``before`` plus whole intervals, so that it needn't be written."""
    gap = (after - before).total_seconds()
    rest = gap % interval_of(spec)
    return gap >= 0 and min(rest, interval_of(spec) - rest) <= 1.0


def retry_delay(backoff: float, count: int) -> float:
    """Seconds before a deploy is retried after ``count`` failures: doubling, bounded."""
    return min(backoff * 2.0 ** min(max(count, 1) - 1, 30), max(MAX_RETRY_DELAY, backoff))
