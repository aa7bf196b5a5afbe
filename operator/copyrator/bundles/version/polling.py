"""When a registry is polled for a Bundle.

A push notification brings the next poll forward; it has no other effect.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import ABSENT, BundleStatus
from copyrator.api.keys import BundleKey
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.times import parse_time
from copyrator.api.version_range import ExactTag, VersionError, parse_version
from copyrator.bundles import ready_conditions
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.context import Context
from copyrator.bundles.engine.feature import Features
from copyrator.bundles.gates.gate import Findings, Occasion, Waiting, next_verdict_change
from copyrator.bundles.inputs.reader import Access
from copyrator.bundles.rhythm import (
    Rhythm,
    choose_rhythm,
    interval_of,
    poll_retry,
    query_of,
)
from copyrator.bundles.step import Change, Stale, Step
from copyrator.bundles.version.answer import (
    DesiredVersion,
    is_answered,
    kept_until,
    retry_at,
)
from copyrator.bundles.version.polls import RegistryPoller
from copyrator.bundles.version.resolve import (
    Judge,
    RegistryReader,
    Resolution,
    Resolver,
    no_rechecks,
)
from copyrator.oci.errors import RegistryError
from copyrator.oci.notifications import Push, canonical

SHARING: Final = 1.0
"""Seconds by which an answer may be older than a changed spec, so that Bundles that are created
together share one request.
"""

CONFIRMED: Final = 120.0
"""Seconds for which a deploy may begin by evidence that was read once more for it: longer than
reading it may take.
"""

_NONE: Final[Mapping[str | None, set[str | None]]] = {}
"""The tags of a repository that no push names; never changed."""


@dataclass(frozen=True, slots=True)
class DeployInputs:
    """What a deploy is decided by beside the registry's answer, as the steps before it found it."""

    entry: BundleEntry
    spec: BundleSpec
    access: Access
    read: Findings
    """What features have read of the objects that the spec names."""
    desired: DesiredVersion
    observed: BundleStatus | None
    """The status with what has come of features' Jobs, where that isn't written yet."""
    due: datetime | None = None
    """The earliest time at which one of the steps before is due again."""

    @property
    def is_unwritten(self) -> bool:
        """Whether that status differs from the one on record."""
        return self.observed is not None and self.observed != self.entry.status


@dataclass(frozen=True, slots=True)
class Failures:
    """Consecutive polls that failed, or found no tag."""

    count: int = 0
    last: RegistryError | None = None
    """The last answer that was an error: it is counted once, however often it is decided on."""

    def including(self, error: RegistryError) -> Failures:
        """These and this one."""
        return self if error is self.last else Failures(self.count + 1, error)


@dataclass(slots=True)
class PollMemory:
    """The polls of the registry, and what was decided by their answers."""

    answered_at: float | None = None
    """Monotonic seconds of the last successful poll; at first, of the first use."""
    desired: DesiredVersion | None = None
    """The last desired version that was handled."""
    asked_since: float | None = None
    """Monotonic seconds of the oldest answer that is accepted; None while no poll is pending."""
    decided_since: float | None = None
    """What that was when the poll was decided on."""
    asked_for: str = ""
    """The token of the user's request for which the pending poll was begun; empty: none."""
    asked_at: datetime | None = None
    """When the pending poll was begun, by the wall clock."""
    confirmed_since: float | None = None
    """Monotonic seconds of the oldest answer about evidence that is accepted, as a deploy by it was
    decided then; None: none was."""
    again: float | None = None
    """Monotonic seconds of the second poll after a push (BundleTiming.poll_after_push)."""
    next_poll: datetime | None = None
    rhythm: Rhythm | None = None
    """The Bundle's poll times; None until its first poll is scheduled."""
    failures: Failures = Failures()
    unsigned: int = 0
    """Number of consecutive polls that found a version without a trusted signature."""
    changed_at: datetime | None = None
    """When a user last edited the Bundle."""
    settled: tuple[object, ...] | None = None
    """The Bundle's version, the resolution and the values' hash for which there was nothing to do:
    with the same again no decision is needed.
    """
    judged_at: datetime | None = None
    """When the gates were evaluated last."""
    inputs: DeployInputs | None = None
    """What the pending poll was begun for; with its answer only the steps after it are taken."""


class PollStates:
    """The polls of all Bundles."""

    def __init__(self, context: Context) -> None:
        self._context = context
        context.schedule.on_stale(self._make_stale)

    def of(self, key: BundleKey) -> PollMemory:
        """Of one Bundle; only the resolver uses it."""
        memory = self._context.memories.of(key, PollMemory)
        if memory.answered_at is None:
            memory.answered_at = self._context.monotonic()
        return memory

    def edited(self, key: BundleKey) -> None:
        """Record that a user has edited a Bundle."""
        self.of(key).changed_at = self._context.clock()

    def _make_stale(self, key: BundleKey, what: Stale, since: float) -> None:
        memory, entry = self.of(key), self._context.bundles.get(key)
        if what is Stale.ANSWERS:
            memory.asked_since = since
            memory.again = since + self._context.timing.poll_after_push
            memory.asked_at = self._context.clock()
        elif what is Stale.SETTLED:
            memory.settled = None
        elif entry is not None and isinstance(entry.spec, BundleSpec):
            self.decide_again(key, entry.spec.interval)

    def decide_again(self, key: BundleKey, interval: float) -> None:
        """Have the next resolution decide again, without a new request to the registry.

        Any answer of the last interval is accepted. A decision in progress doesn't count: it may
        have read its inputs before they changed. ``interval``: the Bundle's, in seconds.
        """
        memory = self.of(key)
        memory.settled = None
        if memory.asked_since is None:
            memory.asked_since = self._context.monotonic() - interval
        else:
            memory.asked_since = math.nextafter(memory.asked_since, -math.inf)

    def forget_answer(self, key: BundleKey) -> None:
        """Have the registry polled at the next resolution."""
        self.of(key).desired = None

    def cancel_poll(self, key: BundleKey) -> None:
        """The same; an answer that is pending isn't decided on."""
        memory = self.of(key)
        memory.desired = memory.asked_since = None

    def pause(self, key: BundleKey) -> None:
        """The same, and nothing is polled until the next resolution, also not after a push."""
        self.cancel_poll(key)
        self.of(key).again = None

    def keep_inputs(self, inputs: DeployInputs) -> None:
        """Keep what the pending poll was begun for; without one, nothing."""
        memory = self.of(inputs.entry.key)
        if memory.asked_since is not None:
            memory.inputs = inputs

    def take_inputs(self, key: BundleKey) -> DeployInputs | None:
        """What was kept; it isn't kept any longer."""
        memory = self.of(key)
        found, memory.inputs = memory.inputs, None
        return found

    def next_poll(self, key: BundleKey) -> datetime | None:
        """The next regular poll, or retry."""
        return self.of(key).next_poll

    def handled(self, key: BundleKey) -> DesiredVersion | None:
        """The last desired version that was handled; None after a restart."""
        return self.of(key).desired

    def settle(self, key: BundleKey, known: tuple[object, ...]) -> None:
        """Record that there is nothing to do for this input of a decision."""
        self.of(key).settled = known

    def is_settled(self, key: BundleKey, known: tuple[object, ...]) -> bool:
        """Whether there was nothing to do for this input of a decision."""
        return self.of(key).settled == known

    def failures(self, key: BundleKey) -> Failures:
        """The polls that have failed since the last one that didn't."""
        return self.of(key).failures

    def record_failures(self, key: BundleKey, failures: Failures) -> None:
        """Record how many polls have failed."""
        self.of(key).failures = failures

    def retry(self, key: BundleKey, failures: Failures, next_poll: datetime) -> None:
        """Record a failed poll, and when it is tried again."""
        memory = self.of(key)
        memory.failures, memory.next_poll = failures, next_poll

    def rhythms(self) -> Iterator[Rhythm | None]:
        """The rhythms of all Bundles; None of those whose first poll isn't scheduled yet."""
        return (one.rhythm for _, one in self._context.memories.each(PollMemory))

    def unpolled_seconds(self, key: BundleKey) -> float:
        """Seconds since the last successful poll; zero of a Bundle that wasn't reconciled yet."""
        memory, now = self._context.memories.find(key, PollMemory), self._context.monotonic()
        return now - memory.answered_at if memory and memory.answered_at is not None else 0.0


class VersionResolver:
    """Resolves the versions of Bundles, by polls of their registries where these are due."""

    def __init__(
        self, context: Context, polls: RegistryPoller, states: PollStates, features: Features
    ) -> None:
        self._context = context
        self._features = features
        self._polls = polls
        self._states = states

    def resolve(self, inputs: DeployInputs) -> Resolution | Step:
        """The resolution if a poll is due and answered; else when the Bundle is due.

        While the poll is pending (PollMemory.asked_since), its answer requeues the Bundle.
        """
        entry, spec, context = inputs.entry, inputs.spec, self._context
        if (due := self._begin_poll(inputs)) is not None:
            return self._wait(entry, spec, due)
        memory = self._states.of(entry.key)
        queries = RegistryReader(
            entry,
            spec,
            inputs.access,
            self._polls,
            memory.asked_since or 0.0,
            confirmed_since=memory.confirmed_since,
        )
        judge = Judge(
            queries,
            context.gates,
            context.clock(),
            findings=inputs.read.including(self._features.find(spec).values),
            ask=self._features.ask,
            recheck=self._features.recheck if inputs.read.values else no_rechecks,
            values_hash=inputs.desired.values_hash,
            awaited=self._features.awaits(entry),
            is_corrected=self._features.correct_by_themselves(spec),
        )
        resolution = Resolver(judge).resolve()
        if resolution is not None:
            memory.decided_since = memory.asked_since
            return resolution
        is_seen = entry.status.observed_generation == entry.generation
        if is_seen and kept_until(entry.status, spec) is None:
            return Step(entry)
        now = context.clock()
        asked_at = memory.asked_at or now
        patience = asked_at + timedelta(seconds=context.timing.poll_report)
        if now < patience:
            return Step(entry, due=(patience,))
        if is_seen:
            return self._wait(entry, spec, ())
        # It is a new spec: report in its status that the registry hasn't answered yet.
        verdict = ready_conditions.polling(spec.reference, spec.version)
        return Step(entry, entry.status, verdict, decided=False)

    def _wait(self, entry: BundleEntry, spec: BundleSpec, due: tuple[datetime | None, ...]) -> Step:
        """Wait for the next poll, or an answer; Ready isn't kept any longer than failures allow."""
        until = kept_until(entry.status, spec)
        if until is None or self._context.clock() < until:
            return Step(entry, due=(*due, until))
        error = entry.status.last_error
        reason = BundleReason.read(error.reason or BundleReason.REGISTRY_UNREACHABLE)
        verdict = ready_conditions.unusable(reason, error.message or "", entry.status)
        return Step(entry, entry.status, verdict, due=due)

    def mark_handled(self, entry: BundleEntry, desired: DesiredVersion) -> Step:
        """Record that what was resolved last was handled."""
        memory = self._states.of(entry.key)
        memory.desired = desired
        memory.confirmed_since = None
        if not memory.failures.count:
            memory.answered_at = self._context.monotonic()
        if memory.asked_since == memory.decided_since:  # else a push arrived since
            memory.asked_since = None
        return Step(entry, due=(self._again_at(memory),))

    def must_confirm(self, entry: BundleEntry, spec: BundleSpec, occasion: Occasion) -> bool:
        """Whether evidence has to be read once more before a new digest is deployed by it.

        Then the poll stays pending: the answer, and a withdrawal in it, is decided on again.
        """
        memory = self._states.of(entry.key)
        if not self._context.gates.confirm(spec, occasion):
            return False
        now, since = self._context.monotonic(), memory.confirmed_since
        if since is not None and now < since + CONFIRMED:
            return False
        memory.confirmed_since = now
        return True

    def poll_rhythm(self, entry: BundleEntry, spec: BundleSpec) -> Rhythm:
        """The Bundle's regular poll times, shared by all Bundles with the same query."""
        context = self._context
        memory, query, interval = self._states.of(entry.key), query_of(spec), interval_of(spec)
        held = memory.rhythm
        if held is None or (held.query, held.interval) != (query, interval):
            keyed = context.hasher()
            keyed.update(f"poll\0{query}".encode())
            known = self._states.rhythms()
            announced = parse_time(entry.status.next_poll_at) if held is None else None
            held = choose_rhythm(query, interval, keyed.hexdigest(), known, announced)
            memory.rhythm = held
        return held

    def set_next_poll(
        self, entry: BundleEntry, spec: BundleSpec, resolution: Resolution, now: datetime
    ) -> datetime:
        """Set the next poll to its regular time; sooner where a tag or signature is awaited."""
        memory, rhythm = self._states.of(entry.key), self.poll_rhythm(entry, spec)
        first = self._context.timing.poll_retry
        if resolution.unresolved is not None and resolution.unresolved.reason in ABSENT:
            failures = replace(memory.failures, count=memory.failures.count + 1)
            memory.failures = failures
            next_poll = poll_retry(rhythm, failures.count, now, first=first)
        else:
            memory.failures, next_poll = Failures(), rhythm.after(now)
            memory.unsigned = memory.unsigned + 1 if _awaits_registry(resolution) else 0
            if memory.unsigned:
                next_poll = poll_retry(rhythm, memory.unsigned, now, first=first)
        memory.next_poll = next_poll
        return next_poll

    def record_decision(
        self, entry: BundleEntry, spec: BundleSpec, resolution: Resolution, now: datetime
    ) -> datetime:
        """Record when the gates were evaluated; returns when the next poll is, as it is set."""
        self._states.of(entry.key).judged_at = now
        return self.set_next_poll(entry, spec, resolution, now)

    def _begin_poll(self, inputs: DeployInputs) -> tuple[datetime | None, ...] | None:
        """Begin a poll where one is due, or is pending; else return when the next one is due."""
        entry, spec, desired = inputs.entry, inputs.spec, inputs.desired
        now, monotonic = self._context.clock(), self._context.monotonic()
        memory = self._states.of(entry.key)
        if (
            memory.desired is None
            and is_answered(entry.status, desired)
            and self._features.have_judged(spec, entry.status, inputs.read)
        ):
            memory.desired = desired
            memory.next_poll = self.poll_rhythm(entry, spec).after(now)
        is_newer = desired.request not in ("", memory.asked_for)  # than the poll in flight
        if memory.asked_since is not None and not is_newer:
            return None
        if memory.desired != desired:
            strict = bool(desired.request)
            memory.asked_for = desired.request
            memory.asked_since = monotonic - (0.0 if strict else SHARING)
        elif memory.again is not None and monotonic >= memory.again:
            memory.asked_since, memory.again = memory.again, None
        elif (due := self._next_due(memory, entry.status, spec, now)) is not None:
            return due
        else:
            may_be = spec.interval / 2
            if memory.failures.count:
                may_be = min(may_be, self._context.timing.poll_error_sharing)
            memory.asked_since = monotonic - may_be
        memory.asked_at = now
        return None

    def _next_due(
        self, memory: PollMemory, status: BundleStatus, spec: BundleSpec, now: datetime
    ) -> tuple[datetime | None, ...] | None:
        """The times at which the next poll may be due, if nothing else changes; None: it is due."""
        judge_at, last = next_verdict_change(status.gates), memory.judged_at
        changes = self._changes(spec, status)
        if last is not None and judge_at is not None and judge_at <= last:
            judge_at = None  # the gates were evaluated since
        times = self._regular_poll(memory), retry_at(status), judge_at
        has_changed = any(one <= now and (last is None or one > last) for one in changes)
        if has_changed or any(_is_past(one, now) for one in times):
            return None
        changes_at = min((one for one in changes if one > now), default=None)
        return *times, self._again_at(memory), changes_at

    def _again_at(self, memory: PollMemory) -> datetime | None:
        """The time of the second poll after a push, by the wall clock; None where none is due."""
        if memory.again is None:
            return None
        return self._context.clock() + timedelta(seconds=memory.again - self._context.monotonic())

    def next_change(self, spec: BundleSpec, status: BundleStatus, now: datetime) -> datetime | None:
        """When the verdict of a version gate changes next by itself; None where none does."""
        return min((at for at in self._changes(spec, status) if at > now), default=None)

    def _changes(self, spec: BundleSpec, status: BundleStatus) -> tuple[datetime, ...]:
        return self._context.gates.changes(spec, status, self._features.find(spec))

    def _regular_poll(self, memory: PollMemory) -> datetime | None:
        """The time of the next regular poll; later while the Bundle is being edited."""
        if memory.next_poll is None or memory.changed_at is None:
            return memory.next_poll
        idle = timedelta(seconds=self._context.settings.timer_idle)
        return max(memory.next_poll, memory.changed_at + idle)


def _awaits_registry(resolution: Resolution) -> bool:
    """Whether a version waits for its signatures, or its chart or attestations can't be read."""
    held = resolution.held
    return held is not None and any(
        (one.awaits and one.objects) or (isinstance(one.verdict, Waiting) and one.verdict.is_unread)
        for one in held.results
    )


def _is_past(moment: datetime | None, now: datetime) -> bool:
    return moment is not None and now >= moment


def bring_forward(context: Context, pushes: Sequence[Push]) -> int:
    """Poll at once for every Bundle that a push may concern; returns their number.

    Answers to earlier requests aren't accepted. It takes one pass over all Bundles, however many
    pushes a payload has.
    """
    pushed: dict[str, dict[str | None, set[str | None]]] = {}
    for push in pushes:
        pushed.setdefault(push.repository, {}).setdefault(push.registry, set()).add(push.tag)
    count, now = 0, context.monotonic()  # one time for all, so that they share their queries
    for entry in context.bundles if pushed else ():
        spec = entry.spec
        if not isinstance(spec, BundleSpec) or entry.is_paused or entry.deleting:
            continue
        registries = pushed.get(spec.repo.lower(), _NONE)
        tags = registries.get(None, set()) | registries.get(canonical(spec.registry), set())
        if tags and (context.gates.judge_versions(spec) or _may_concern(tags, spec)):
            context.schedule.changed(entry.key, Change.PUSH, since=now)
            count += 1
    return count


def _may_concern(tags: set[str | None], spec: BundleSpec) -> bool:
    """Whether one of the tags may match the Bundle's spec; None is any tag."""
    if None in tags:
        return True
    try:
        version = parse_version(spec.version)
    except VersionError:
        return False
    return not isinstance(version, ExactTag) or version.tag in tags
