"""When a registry is polled for a Bundle (poll.py has the states), and what is asked."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import ABSENT, BundleStatus
from copyrator.api.keys import BundleKey
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import parse_time
from copyrator.bundles.engine import conditions as ready_conditions
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.feature import Feature, Features
from copyrator.bundles.engine.gate import Findings, Occasion, Waiting, next_verdict_change
from copyrator.bundles.engine.poll import (
    DesiredVersion,
    Failures,
    Polling,
    Rhythm,
    choose_rhythm,
    interval_of,
    is_answered,
    kept_until,
    poll_retry,
    query_of,
    retry_at,
)
from copyrator.bundles.engine.references import Access
from copyrator.bundles.engine.registry import RegistryPoller
from copyrator.bundles.engine.resolve import (
    Judge,
    RegistryReader,
    Resolution,
    Resolver,
    no_rechecks,
)
from copyrator.bundles.engine.step import Stale, Step

SHARING: Final = 1.0
"""Seconds by which an answer may be older than a changed spec, so that Bundles that are created
together share one request.
"""

CONFIRMED: Final = 120.0
"""Seconds for which a deploy may begin by evidence that was read once more for it: longer than
reading it may take.
"""


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


@dataclass(slots=True)
class PollMemory:
    """A Bundle's polls, and by what else it is decided when it is polled."""

    polling: Polling = field(default_factory=Polling)
    inputs: DeployInputs | None = None
    """What the pending poll was begun for; with its answer only the steps after it are taken."""
    judged_at: datetime | None = None
    """When the gates were evaluated last."""
    idle_at: datetime | None = None
    """The earliest time of a regular poll, as a user has edited the Bundle."""


class PollStates:
    """The polls of all Bundles."""

    def __init__(self, context: Context) -> None:
        self._context = context
        context.schedule.on_stale(self._make_stale)

    def of(self, key: BundleKey) -> Polling:
        """The polls of one Bundle."""
        return self.memory(key).polling

    def memory(self, key: BundleKey) -> PollMemory:
        """What is remembered of one Bundle; only the resolver uses it."""
        memory = self._context.memories.of(key, PollMemory)
        if memory.polling.failures.since is None:
            memory.polling.failures = Failures(since=self._context.monotonic())
        return memory

    def edited(self, key: BundleKey) -> None:
        """Record that a user has edited a Bundle: its regular polls wait until nobody does."""
        idle = timedelta(seconds=self._context.settings.timer_idle)
        self.memory(key).idle_at = self._context.clock() + idle

    def _make_stale(self, key: BundleKey, what: Stale, since: float) -> None:
        polling, entry = self.of(key), self._context.bundles.get(key)
        if what is Stale.ANSWERS:
            again = since + self._context.timing.poll_after_push
            polling.push(since, again, self._context.clock())
        elif what is Stale.SETTLED:
            polling.unsettle()
        elif entry is not None and isinstance(entry.spec, BundleSpec):
            self.decide_again(key, entry.spec.interval)

    def decide_again(self, key: BundleKey, interval: float) -> None:
        """Have the next resolution decide again, without a new request to the registry.

        Any answer of the last interval is accepted. A decision in progress doesn't count: it may
        have read its inputs before they changed. ``interval``: the Bundle's, in seconds.
        """
        since = self._context.monotonic() - interval
        self.of(key).decide_again(since, self._context.clock())

    def unpolled_seconds(self, key: BundleKey) -> float:
        """Seconds since the last successful poll; at first, since the Bundle's first event."""
        since = self.of(key).failures.since
        return 0.0 if since is None else self._context.monotonic() - since


class VersionResolver:
    """Resolves the versions of Bundles, by polls of their registries where these are due."""

    def __init__(
        self, context: Context, polls: RegistryPoller, states: PollStates, features: Features
    ) -> None:
        self._context = context
        self._features = features
        self._polls = polls
        self._states = states

    def resolve(self, inputs: DeployInputs, found: Findings) -> Resolution | Step:
        """The resolution if a poll is due and answered; else when the Bundle is due.

        While a poll is pending, its answer requeues the Bundle. ``found``: what features have found
        for their gates.
        """
        entry, spec, context = inputs.entry, inputs.spec, self._context
        due = self._begin_poll(inputs)
        polling = self._states.of(entry.key)
        if (poll := polling.poll) is None:
            return self._wait(entry, spec, due)
        queries = RegistryReader(
            entry, spec, inputs.access, self._polls, poll.since, confirmed_since=poll.confirmed
        )
        awaiting = () if entry.is_plain else self._features.of(entry, Feature.awaits)
        awaited = (one.awaits(entry.status) for one in awaiting)
        correcting = self._features.used_in(spec, Feature.corrects)
        judge = Judge(
            queries,
            context.gates,
            context.clock(),
            findings=inputs.read.including(found.values),
            ask=self._features.ask,
            recheck=self._features.recheck if inputs.read.values else no_rechecks,
            values_hash=inputs.desired.values_hash,
            awaited=next(filter(None, awaited), None),
            is_corrected=any(one.corrects(spec) for one in correcting),
        )
        resolution = Resolver(judge).resolve()
        if resolution is not None:
            polling.answer()
            return resolution
        is_seen = entry.status.observed_generation == entry.generation
        if is_seen and kept_until(entry.status, spec) is None:
            return Step(entry)
        patience = poll.at + timedelta(seconds=context.timing.poll_report)
        if context.clock() < patience:
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

    def _begin_poll(self, inputs: DeployInputs) -> tuple[datetime | None, ...]:
        """Begin a poll where one is due and none is pending; else return when one is due."""
        entry, spec, desired = inputs.entry, inputs.spec, inputs.desired
        now, monotonic = self._context.clock(), self._context.monotonic()
        polling = self._states.of(entry.key)
        if (
            polling.handled is None
            and is_answered(entry.status, desired)
            and self._features.have_judged(spec, entry.status, inputs.read)
        ):
            polling.handled = desired
            polling.next_poll = self.poll_rhythm(entry, spec).after(now)
        if polling.is_for(desired.request):
            return ()
        if polling.handled != desired:
            sharing = 0.0 if desired.request else SHARING
            polling.begin(monotonic - sharing, now, desired.request)
        elif polling.again is not None and monotonic >= polling.again:
            polling.begin(polling.again, now)
        elif (due := self._next_due(entry, spec, now)) is not None:
            return due
        else:
            may_be = spec.interval / 2
            if polling.failures.count:
                may_be = min(may_be, self._context.timing.poll_error_sharing)
            polling.begin(monotonic - may_be, now)
        return ()

    def _next_due(
        self, entry: BundleEntry, spec: BundleSpec, now: datetime
    ) -> tuple[datetime | None, ...] | None:
        """The times at which the next poll may be due, if nothing else changes; None: it is due."""
        status, memory = entry.status, self._states.memory(entry.key)
        judge_at, last = next_verdict_change(status.gates), memory.judged_at
        changes = self._changes(spec, status)
        if last is not None and judge_at is not None and judge_at <= last:
            judge_at = None  # the gates were evaluated since
        regular = memory.polling.next_poll
        regular = regular and max(regular, memory.idle_at or regular)
        times = regular, retry_at(status), judge_at
        if any(one <= now and (last is None or one > last) for one in changes):
            return None
        if any(one is not None and one <= now for one in times):
            return None
        changes_at = min((one for one in changes if one > now), default=None)
        return *times, self._again_at(memory.polling), changes_at

    def _again_at(self, polling: Polling) -> datetime | None:
        """The time of the second poll after a push, by the wall clock; None where none is due."""
        if polling.again is None:
            return None
        return self._context.clock() + timedelta(seconds=polling.again - self._context.monotonic())

    def next_change(self, spec: BundleSpec, status: BundleStatus, now: datetime) -> datetime | None:
        """When the verdict of a version gate changes next by itself; None where none does."""
        return min((at for at in self._changes(spec, status) if at > now), default=None)

    def _changes(self, spec: BundleSpec, status: BundleStatus) -> tuple[datetime, ...]:
        return self._context.gates.changes(spec, status, self._features.find(spec))

    def poll_rhythm(self, entry: BundleEntry, spec: BundleSpec) -> Rhythm:
        """The Bundle's regular poll times, shared by all Bundles with the same query."""
        context = self._context
        polling, query, interval = self._states.of(entry.key), query_of(spec), interval_of(spec)
        held = polling.rhythm
        if held is None or (held.query, held.interval) != (query, interval):
            keyed = context.hasher()
            keyed.update(f"poll\0{query}".encode())
            known = (one.polling.rhythm for _, one in context.memories.each(PollMemory))
            announced = parse_time(entry.status.next_poll_at) if held is None else None
            held = choose_rhythm(query, interval, keyed.hexdigest(), known, announced)
            polling.rhythm = held
        return held

    def set_next_poll(
        self, entry: BundleEntry, spec: BundleSpec, resolution: Resolution, now: datetime
    ) -> datetime:
        """Set the next poll to its regular time; sooner where a tag or signature is awaited."""
        polling, rhythm = self._states.of(entry.key), self.poll_rhythm(entry, spec)
        failures, unresolved = polling.failures, resolution.unresolved
        if unresolved is not None and unresolved.reason in ABSENT:
            tries = failures.count + 1
            failures = replace(failures, count=tries)
        else:
            tries = failures.unsigned + 1 if _awaits_registry(resolution) else 0
            failures = Failures(unsigned=tries, since=failures.since)
        next_poll = rhythm.after(now)
        if tries:
            next_poll = poll_retry(rhythm, tries, now, first=self._context.timing.poll_retry)
        polling.failures, polling.next_poll = failures, next_poll
        return next_poll

    def record_decision(
        self, entry: BundleEntry, spec: BundleSpec, resolution: Resolution, now: datetime
    ) -> datetime:
        """Record when the gates were evaluated; returns when the next poll is, as it is set."""
        memory = self._states.memory(entry.key)
        memory.polling.unsettle()
        memory.judged_at = now
        return self.set_next_poll(entry, spec, resolution, now)

    def mark_handled(self, entry: BundleEntry, desired: DesiredVersion) -> Step:
        """Record that what was resolved last was handled."""
        polling = self._states.of(entry.key)
        polling.handle(desired, self._context.monotonic())
        return Step(entry, due=(self._again_at(polling),))

    def must_confirm(self, entry: BundleEntry, spec: BundleSpec, occasion: Occasion) -> bool:
        """Whether evidence has to be read once more before a new digest is deployed by it.

        Then the poll stays pending: the answer, and a withdrawal in it, is decided on again.
        """
        if not self._context.gates.confirm(spec, occasion):
            return False
        now, polling = self._context.monotonic(), self._states.of(entry.key)
        since = polling.poll.confirmed if polling.poll is not None else None
        if since is not None and now < since + CONFIRMED:
            return False
        polling.confirm(now)
        return True

    def keep_inputs(self, inputs: DeployInputs) -> None:
        """Keep what the pending poll was begun for; without one, nothing."""
        memory = self._states.memory(inputs.entry.key)
        if memory.polling.poll is not None:
            memory.inputs = inputs

    def take_inputs(self, key: BundleKey) -> DeployInputs | None:
        """What was kept; it isn't kept any longer."""
        memory = self._states.memory(key)
        found, memory.inputs = memory.inputs, None
        return found


def _awaits_registry(resolution: Resolution) -> bool:
    """Whether a version waits for its signatures, or its chart or attestations can't be read."""
    held = resolution.held
    return held is not None and any(
        (one.awaits and one.objects) or (isinstance(one.verdict, Waiting) and one.verdict.is_unread)
        for one in held.results
    )
