"""The polls of one Bundle: a state machine, their times, what an answer changes. Pure.

               begin, push, decide_again              answer
      Idle ------------------------------>         ------------>
                                           Asked                 Answered
      Settled --------------------------->         <------------
         ^                                  push, decide_again,     |
         |                                  confirm, begin          |
         +----------------------------------------------------------+
                 handle: to Settled after ``settle``, else to Idle

``forget`` leads from each state to Idle, and so does ``unsettle`` from Settled. What comes while an
answer is decided on leads back to Asked, where ``handle`` changes nothing: so the answer is decided
on once more.

Regular times are ``phase + n * interval`` in seconds of Unix time. The phase follows from a hash,
so a restart changes no time, and a ``nextPollAt`` that was written long ago stays true: that time
plus a whole number of intervals. ADR 37 has the figures of the spread.

A poll's phase belongs to its query: Bundles that share a tag are due together and share one
request. Hashes alone aren't even enough: of a thousand polls a minute the busiest second would
often have twice the mean. So a query has four phases, and takes the one with the fewest others.

Bundles of the original werf operator are taken over: its deploy is recorded, without a Job. The
original compared config digests, which for a SemVer tag don't change with the templates. So an
equal digest proves that it deployed this version, not that it deployed this exact content: such a
baseline isn't `verified` (docs/adoption.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from copyrator.api import structs
from copyrator.api.bundle_spec import BundleSpec, TargetCluster
from copyrator.api.bundle_status import (
    ENOUGH_FAILED_POLLS,
    REGISTRY_FAULTS,
    Available,
    BundleStatus,
    Deployed,
    DeployRef,
    FailedPolls,
    LastError,
    Outcome,
    VersionRef,
)
from copyrator.api.conditions import ConditionType, ready_reason
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import format_time, parse_time
from copyrator.api.version_range import ExactTag, parse_version
from copyrator.oci.errors import RegistryError

Known = tuple[object, ...]
"""What a decision is made by: the Bundle's version, the resolution and the values' hash."""


@dataclass(frozen=True, slots=True)
class Failures:
    """The polls since the last one that gave what was asked for."""

    count: int = 0
    """Number of consecutive polls that failed, or found no tag."""
    last: RegistryError | None = None
    """The last answer that was an error: it is counted once, however often it is decided on."""
    unsigned: int = 0
    """Number of consecutive polls that found a version without a trusted signature."""
    since: float | None = None
    """Monotonic seconds of the last poll that didn't fail; at first, of the first use."""

    def including(self, error: RegistryError) -> Failures:
        """These and this one."""
        return self if error is self.last else replace(self, count=self.count + 1, last=error)


@dataclass(frozen=True, slots=True)
class Poll:
    """A poll that was begun: which answers it accepts."""

    since: float
    """Monotonic seconds of the oldest answer that is accepted."""
    at: datetime
    """When it was begun, by the wall clock."""
    request: str = ""
    """The token of the user's request for which it was begun; empty: none."""
    confirmed: float | None = None
    """Monotonic seconds of the oldest answer about evidence that is accepted, as a deploy by it was
    decided then; None: none was."""


@dataclass(frozen=True, slots=True)
class Idle:
    """No poll is pending."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The same, and by the last answer there was nothing to do."""

    known: Known
    """With the same again no decision is needed."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A poll is pending."""

    poll: Poll
    known: Known | None = None
    """What was settled before it; None: nothing."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A poll is answered, and is decided on; where that fails, it is answered once more."""

    poll: Poll
    known: Known | None = None
    """What is settled; None: nothing."""


@dataclass(slots=True)
class Polling:
    """The state of a Bundle's polls, and what is known in each state."""

    state: Idle | Asked | Answered | Settled = Idle()
    handled: DesiredVersion | None = None
    """The last desired version that was handled; None after a restart, and when it is polled for
    again."""
    again: float | None = None
    """Monotonic seconds of the second poll after a push (BundleTiming.poll_after_push)."""
    next_poll: datetime | None = None
    """The next regular poll, or retry."""
    rhythm: Rhythm | None = None
    """The regular times; None until the first poll is scheduled."""
    failures: Failures = Failures()

    @property
    def poll(self) -> Poll | None:
        """The poll that is pending or decided on."""
        return self.state.poll if isinstance(self.state, Asked | Answered) else None

    @property
    def _known(self) -> Known | None:
        return None if isinstance(self.state, Idle) else self.state.known

    def begin(self, since: float, now: datetime, request: str = "") -> None:
        """Begin a poll that accepts answers from ``since`` on, in place of a pending one.

        If that isn't before ``again``, it is the second poll after a push, too.
        """
        if self.again is not None and since >= self.again:
            self.again = None
        confirmed = self.poll.confirmed if self.poll else None
        self.state = Asked(Poll(since, now, request, confirmed), self._known)

    def begin_second(self, monotonic: float, now: datetime) -> bool:
        """Begin the second poll after a push; False: it isn't due, or another poll is pending."""
        if self.poll is not None or self.again is None or monotonic < self.again:
            return False
        self.begin(self.again, now)
        return True

    def push(self, since: float, again: float, now: datetime) -> None:
        """Accept no answer from before a push, and poll once more at ``again``."""
        self.begin(since, now, self.poll.request if self.poll else "")
        self.again = again

    def decide_again(self, since: float, now: datetime) -> None:
        """Decide again, by any answer from ``since`` on, or those that a pending poll accepts."""
        self.state = Asked(self.poll or Poll(since, now))

    def is_for(self, request: str) -> bool:
        """Whether a poll is pending, and a user's request needs no other one.

        It needs none if it is empty, if the poll was begun for it, or if it was handled before.
        """
        handled = self.handled and self.handled.request
        return self.poll is not None and request in ("", self.poll.request, handled)

    def answer(self) -> None:
        """All that was asked for is there; it is decided on."""
        if self.poll is not None:
            self.state = Answered(self.poll, self._known)

    def confirm(self, since: float) -> None:
        """Ask for evidence again, before a deploy that was decided by it at ``since``."""
        if self.poll is not None:
            self.state = Asked(replace(self.poll, confirmed=since), self._known)

    def is_settled(self, known: Known) -> bool:
        """Whether there was nothing to do for the same before."""
        return self._known == known

    def settle(self, known: Known) -> None:
        """Record that there is nothing to do, unless something has changed since the answer."""
        if isinstance(self.state, Answered):
            self.state = Answered(self.state.poll, known)

    def unsettle(self) -> None:
        """Have the next answer decided on, also if it is the same."""
        state = self.state
        self.state = replace(state, known=None) if isinstance(state, Asked | Answered) else Idle()

    def handle(self, desired: DesiredVersion, now: float) -> None:
        """Record that what the answer requires is done; ``now`` is in monotonic seconds."""
        self.handled = desired
        if not self.failures.count:
            self.failures = replace(self.failures, since=now)
        state = self.state
        if isinstance(state, Answered):
            self.state = Idle() if state.known is None else Settled(state.known)
        elif isinstance(state, Asked):
            self.state = replace(state, poll=replace(state.poll, confirmed=None))

    def forget(self) -> None:
        """Have the registry polled at the next resolution; no pending answer is decided on."""
        self.handled, self.state = None, Idle()


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


def config_digest(manifest: Mapping[str, Any]) -> str | None:
    """The digest by which the original identified a manifest; an index has none."""
    config = manifest.get("config")
    digest = config.get("digest") if isinstance(config, Mapping) else None
    return digest if isinstance(digest, str) else None


def take_over(
    status: BundleStatus, spec: BundleSpec, desired: DesiredVersion, digest: str, now: datetime
) -> BundleStatus:
    """The status with the original's deploy in our fields.

    ``desired`` is by the present spec and values: former ones aren't known. Without a digest, as
    the tag was deleted or has another manifest, only its version is known: that prevents
    downgrades, but a deploy is made.
    """
    version = status.deploy.version
    where = Deployed(version=version, namespace=spec.project_namespace, verified=False)
    if not digest:
        return structs.replace(status, deployed=where)
    deployed = structs.replace(
        where,
        digest=digest,
        reference=spec.reference,
        values_hash=desired.values_hash,
        spec_hash=desired.spec_hash,
        generation=desired.generation,
        time=format_time(now),
    )
    target = VersionRef(digest=digest, version=version)
    deploy = DeployRef(digest=digest, version=version)
    return structs.replace(status, deployed=deployed, deploy=deploy, target=target)


@dataclass(frozen=True, slots=True)
class DesiredVersion:
    """The inputs of a resolution whose change requires a poll at once, not at its regular time."""

    generation: int
    spec_hash: str
    values_hash: str | None
    request: str
    """Token of a request that hasn't been handled yet."""
    login: str
    """Fingerprint of the credential, in memory only."""
    read: str = ""
    """What features have read of the objects that the spec names."""
    cluster: TargetCluster | None = None
    """The cluster that spec.kubeConfig stands for."""
    further: tuple[object, ...] = ()
    """What features choose by; only compared."""


def is_answered(status: BundleStatus, desired: DesiredVersion) -> bool:
    """After a restart: whether the desired version has been resolved and handled.

    Then the Bundle waits for its regular time like any other, so that a restart doesn't poll
    everything at once.
    """
    if status.failed_polls.count:
        return False
    if ready_reason(status.conditions) == BundleReason.DEPLOYED and not status.available.version:
        return False  # deployed by its digest, as the registry had no match: there may be one now
    settled = {
        BundleReason.DEPLOYED,
        BundleReason.QUARANTINED,
        BundleReason.WOULD_DOWNGRADE,
        BundleReason.NO_MATCHING_VERSION,
        status.attempted.reason,
    }
    return (
        ready_reason(status.conditions) in settled
        and not desired.request
        and is_resolved(status, desired)
    )


def is_resolved(status: BundleStatus, desired: DesiredVersion) -> bool:
    """Whether, by the status, the desired version was resolved before, whatever was requested."""
    last = status.attempted if status.attempted.attempt else status.deployed
    pin, pending = status.pin, status.condition(ConditionType.UPDATE_PENDING)
    if pin.digest is None:
        is_pin_handled = pending.reason != BundleReason.PINNED
    else:
        is_pin_handled = last.digest == pin.digest
    return (
        is_pin_handled
        and status.observed_generation == desired.generation
        and last.values_hash == desired.values_hash
        and last.spec_hash == desired.spec_hash
        and last.server == (desired.cluster.server if desired.cluster else None)
    )


_OTHER_CAUSES: Final = (
    BundleReason.POLLING,
    BundleReason.DEPLOYING,
    BundleReason.AUTOUPDATE_DISABLED,
)
"""Reasons of Ready that no answer of a registry gave."""


def is_lenient(
    status: BundleStatus, desired: DesiredVersion, handled: DesiredVersion | None
) -> bool:
    """Whether a poll that failed for a passing reason leaves Ready as it is, for some time.

    Not a first poll, nor one that is made for an edit of the spec, the values, the credentials or
    what has to be signed by whom: Ready says nothing about those yet.

    Args:
        status: the Bundle's, before the poll.
        desired: what was polled for.
        handled: what was handled last; None after a restart, where the status tells it.
    """
    if status.is_unready or status.ready_reason in ("", *_OTHER_CAUSES):
        return False
    if handled is None:
        return is_resolved(status, desired)
    is_seen = status.observed_generation == desired.generation
    return is_seen and replace(handled, request="") == replace(desired, request="")


def count_failure(status: BundleStatus, now: datetime) -> BundleStatus:
    """The status with one more failed poll; a clock that was set back begins a new row."""
    known = status.failed_polls
    since = parse_time(known.since)
    if not known.count or since is None or since > now:
        return structs.replace(status, failed_polls=FailedPolls(count=1, since=format_time(now)))
    count = min(known.count + 1, ENOUGH_FAILED_POLLS)
    return structs.replace(status, failed_polls=structs.replace(known, count=count))


def kept_until(status: BundleStatus, spec: BundleSpec) -> datetime | None:
    """Until when Ready is kept although polls fail; None where none has failed, or it is False."""
    failed = status.failed_polls
    since = parse_time(failed.since)
    if not failed.count or since is None or status.is_unready:
        return None
    try:
        return unready_at(since, failed.count, interval_of(spec))
    except OverflowError:  # it was forged
        return None


def record_available(
    status: BundleStatus, available: Available, next_poll: datetime, now: datetime
) -> BundleStatus:
    """The status with the registry's resolution; an unchanged one keeps its time.

    ``available`` has a tag and its digest, or neither where there is nothing for the Bundle: then
    the target stays. Its time is ignored.
    """
    known, ref = status.available, VersionRef(digest=available.digest, version=available.version)
    same = (available.version, available.digest) == (known.version, known.digest)
    time = known.time if same and known.time else format_time(now)
    return structs.replace(
        end_failures(status),
        ready=1,
        available=structs.replace(available, time=time),
        target=ref if available.digest else status.target,
        next_poll_at=format_time(next_poll),
    )


def end_failures(status: BundleStatus) -> BundleStatus:
    """The status without failed polls, and without the error of the last one."""
    if not status.failed_polls.count:
        return status
    is_poll = status.last_error.reason in REGISTRY_FAULTS
    error = LastError() if is_poll else status.last_error
    return structs.replace(status, failed_polls=FailedPolls(), last_error=error)


def record_error(status: BundleStatus, reason: str, message: str, now: datetime) -> BundleStatus:
    """The status with an error; an equal one keeps its first time: no change at every poll."""
    known = status.last_error
    if (known.reason, known.message) == (reason, message):
        return status
    error = LastError(reason=reason, message=message, time=format_time(now))
    return structs.replace(status, last_error=error)


def retry_at(status: BundleStatus) -> datetime | None:
    """When the failed attempt is retried; None where none failed or none follows."""
    failed = status.attempted.outcome in (Outcome.FAILED, Outcome.INTERRUPTED)
    failed = failed and not status.attempted.is_broken_off
    return parse_time(status.attempted.next_retry_at) if failed else None


def kept_ready(status: BundleStatus) -> int:
    """The value of ``ready`` where the credentials weren't checked."""
    return 1 if status.ready is None else status.ready
