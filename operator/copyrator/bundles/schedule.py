"""When a registry is asked next, and when a failed deploy is tried again. Pure.

Polls are locked to slots: a Bundle's repository and tag give it an offset within its interval.
So first polls after a restart are spread over the interval without anything being remembered,
Bundles that share a tag come due together and share one request, and a ``nextPollAt`` that was
written long ago stays true: that moment plus a whole number of intervals.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.version_range import ExactTag, parse_version

MAX_RETRY_DELAY: Final = 900.0
FIRST_POLL_RETRY: Final = 15.0


def slot_offset(spec: BundleSpec) -> float:
    """Where in its interval a Bundle polls, in seconds, the same for ever.

    All ranges of a repository come due together: one tag list answers them all.
    """
    text = spec.reference
    if isinstance(version := parse_version(spec.version), ExactTag):
        text += f":{version.tag}"
    fraction = int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") / 2**32
    return fraction * _interval(spec)


def next_slot(spec: BundleSpec, now: datetime) -> datetime:
    """The first slot after ``now``, in whole seconds (as a status holds it)."""
    interval, offset = _interval(spec), slot_offset(spec)
    number = (now.timestamp() - offset) // interval
    while True:
        moment = datetime.fromtimestamp(int(number * interval + offset), UTC)
        if moment > now:
            return moment
        number += 1


def _interval(spec: BundleSpec) -> float:
    """Seconds; dates are whole seconds, so slots can't be closer than that."""
    return max(spec.interval, 1.0)


def poll_retry(
    spec: BundleSpec, failures: int, now: datetime, retry_after: float | None = None
) -> datetime:
    """When to ask again after ``failures`` failed polls in a row: soon, then at the slots."""
    slot = next_slot(spec, now)
    delay = FIRST_POLL_RETRY * 2 ** min(max(failures, 1) - 1, 20)
    again = now + timedelta(seconds=delay)
    if retry_after is not None:
        return max(now + timedelta(seconds=retry_after), min(again, slot))
    return min(again, slot)


def same_rhythm(spec: BundleSpec, before: datetime, after: datetime) -> bool:
    """Tell whether ``after`` is what anybody expects who reads ``before`` in the status."""
    gap = (after - before).total_seconds()
    rest = gap % _interval(spec)
    return gap >= 0 and min(rest, _interval(spec) - rest) <= 1.0


def retry_delay(backoff: float, count: int) -> float:
    """Seconds until a deploy is tried again after ``count`` failures: doubling, bounded."""
    return min(backoff * 2.0 ** min(max(count, 1) - 1, 30), max(MAX_RETRY_DELAY, backoff))
