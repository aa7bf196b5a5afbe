"""When registries are polled, releases checked for drift, and failures retried. Pure.

Regular times are ``phase + n * interval`` in seconds of Unix time. The phase follows from a hash,
so a restart changes no time, and a ``nextPollAt`` that was written long ago stays true: that time
plus a whole number of intervals. ADR 37 has the figures of the spread.

A poll's phase belongs to its query: Bundles that share a tag are due together and share one
request. Hashes alone aren't even enough: of a thousand polls a minute the busiest second would
often have twice the mean. So a query has four phases, and takes the one with the fewest others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import ENOUGH_FAILED_POLLS
from copyrator.api.version_range import ExactTag, parse_version

_PARTS: Final = 1000
"""Polls are spread within a second too, by milliseconds."""
_ROUNDING: Final = 1e-4
"""Seconds by which Unix times may be wrong as floats."""

LAST: Final = datetime.max.replace(tzinfo=UTC)
"""The last moment that there is."""

MAX_RETRY_DELAY: Final = 900.0
LONGEST_LENIENCY: Final = timedelta(minutes=30)
"""After so long failed polls make Ready False."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The times ``phase + n * interval``, in seconds of Unix time."""

    interval: float
    phase: float
    query: str = ""
    """The query that is sent then; empty: it is no poll."""

    def after(self, now: datetime) -> datetime:
        """The first such time after ``now``, which may be what a status says; else ``LAST``."""
        number = (now.timestamp() - self.phase) // self.interval
        while True:
            try:
                moment = datetime.fromtimestamp(number * self.interval + self.phase, UTC)
            except ValueError:  # beyond the year 9999
                return LAST
            if moment > now:
                return moment
            number += 1

    def count(self, after: datetime, until: datetime) -> int:
        """The number of such times after ``after``, up to ``until``."""
        first, last = ((at.timestamp() - self.phase) // self.interval for at in (after, until))
        return max(int(last - first), 0)

    def includes(self, announced: datetime) -> bool:
        """Whether a status that says ``announced``, in whole seconds, means one of these times."""
        late = self.phase - announced.timestamp()
        return (late + _ROUNDING) % self.interval < 1.0


def choose_rhythm(
    query: str,
    interval: float,
    digest: str,
    known: Iterable[Rhythm | None],
    announced: datetime | None,
) -> Rhythm:
    """The rhythm of a query, which is the same for all Bundles that have it at this interval.

    Args:
        query: the query's identity.
        interval: seconds.
        digest: a hash of it, at least 64 hexadecimal digits, which differs between clusters: else
            the operators of all clusters would poll a registry at the same second.
        known: the rhythms of all Bundles, as far as they have one.
        announced: the next poll by the Bundle's status, which tells the phase that was taken before
            a restart.
    """
    parts = max(int(interval * _PARTS), 1)
    choices = [
        Rhythm(interval, int(part, 16) % parts / _PARTS, query)
        for part in (digest[i : i + 16] for i in range(0, 64, 16))
    ]
    queries: dict[int, set[str]] = {int(one.phase): set() for one in choices}
    for other in known:
        if other is None or other.interval != interval:
            continue
        if other.query == query:
            return other
        if (second := int(other.phase)) in queries:
            queries[second].add(other.query)
    if announced is not None:
        for one in choices:
            if one.includes(announced):
                return one
    return min(choices, key=lambda one: len(queries[int(one.phase)]))


def query_of(spec: BundleSpec) -> str:
    """The part of a Bundle's query to the registry that determines its rhythm.

    All ranges of a repository have one rhythm, as one tag list answers them all.
    """
    if isinstance(version := parse_version(spec.version), ExactTag):
        return f"{spec.reference}:{version.tag}"
    return spec.reference


def interval_of(spec: BundleSpec) -> float:
    """Seconds between two polls; a status holds whole seconds, so they can't be closer."""
    return max(spec.interval, 1.0)


def poll_retry(
    rhythm: Rhythm,
    failures: int,
    now: datetime,
    retry_after: float | None = None,
    *,
    first: float,
) -> datetime:
    """When to poll again after ``failures`` failed polls in a row: soon, then at the regular times.

    ``first``: seconds before the first retry, doubling.

    Bundles with a Retry-After resume one after the other, not all at once.
    """
    delay = first * 2 ** min(max(failures, 1) - 1, 20)
    again = min(now + timedelta(seconds=delay), rhythm.after(now))
    if retry_after is not None:
        jitter = rhythm.phase / rhythm.interval * min(rhythm.interval, retry_after / 2)
        return max(now + timedelta(seconds=retry_after + jitter), again)
    return again


def unready_at(since: datetime, failures: int, interval: float) -> datetime:
    """When Ready becomes False if polls have failed since then, so often and up to now.

    That is after two intervals (in seconds) and with the third failure, but at the latest after
    LONGEST_LENIENCY, also where the registry requests a longer pause.
    """
    latest = since + LONGEST_LENIENCY
    if failures < ENOUGH_FAILED_POLLS:
        return latest
    return min(latest, since + timedelta(seconds=2 * interval))


def same_rhythm(spec: BundleSpec, before: datetime, after: datetime) -> bool:
    """Whether ``after`` is ``before`` plus whole intervals, so that it needn't be written."""
    gap = (after - before).total_seconds()
    rest = gap % interval_of(spec)
    return gap >= 0 and min(rest, interval_of(spec) - rest) <= 1.0


def retry_delay(backoff: float, count: int) -> float:
    """Seconds before a deploy is retried after ``count`` failures: doubling, bounded."""
    return min(backoff * 2.0 ** min(max(count, 1) - 1, 30), max(MAX_RETRY_DELAY, backoff))
