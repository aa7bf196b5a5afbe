"""What is known of the polls of each Bundle, and what others find out that changes it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.keys import BundleKey
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.context import Context
from copyrator.bundles.gates.gate import Findings
from copyrator.bundles.gates.signature import Asked
from copyrator.bundles.inputs.reader import Access
from copyrator.bundles.rhythm import Rhythm
from copyrator.bundles.step import Stale
from copyrator.bundles.version.answer import DesiredVersion
from copyrator.oci.errors import RegistryError


@dataclass(frozen=True, slots=True)
class DeployInputs:
    """What a deploy is decided by beside the registry's answer, as the steps before it found it."""

    entry: BundleEntry
    spec: BundleSpec
    access: Access
    asked: Asked
    """The requirements for signatures."""
    read: Findings
    """What features have read of the objects that the spec names."""
    desired: DesiredVersion
    observed: BundleStatus | None
    """The status with the progress of the plan, where that has changed and isn't written yet."""
    is_drift_due: bool = False
    """A check for drift is due once that status is written."""
    due: datetime | None = None
    """The earliest time at which one of the steps before is due again."""


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
            memory.settled = None
            self.decide_again(key, entry.spec.interval)

    def decide_again(self, key: BundleKey, interval: float) -> None:
        """Have the next resolution decide again, without a new request to the registry.

        Any answer of the last interval is accepted. A decision in progress doesn't count: it may
        have read its inputs before they changed. ``interval``: the Bundle's, in seconds.
        """
        memory = self.of(key)
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
