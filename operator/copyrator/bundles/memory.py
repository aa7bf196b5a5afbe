"""What is remembered of a Bundle between two reconciles, beside its entry in the cache.

One record for each Bundle, with a slot for each feature; created at its first use, and dropped in
one place when the Bundle was deleted. None of it is needed for correctness: a restart loses it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from copyrator.api.keys import BundleKey
from copyrator.bundles.plan.operations import RenderedObjects
from copyrator.bundles.plan.record import PlanPurpose
from copyrator.bundles.step import Change
from copyrator.bundles.version.answer import DesiredVersion
from copyrator.bundles.version.rhythm import Rhythm

if TYPE_CHECKING:
    import asyncio

    from copyrator.api.bundle_spec import BundleSpec
    from copyrator.bundles.deploy.outcome import Blocked
    from copyrator.bundles.gates.evidence import AttestFault, PushResult, StatementKey
    from copyrator.bundles.inputs.reader import Known
    from copyrator.bundles.inputs.watches import Ref
    from copyrator.bundles.plan.jobs import LogReading
    from copyrator.bundles.plan.permissions import Review
    from copyrator.bundles.version.polling import DeployInputs
    from copyrator.oci.auth import CloudIdentity, CloudLogin, Credential
    from copyrator.oci.errors import RegistryError


M = TypeVar("M")


@dataclass(slots=True)
class PollMemory:
    """The polls of the registry, and what was decided by their answers."""

    answered_at: float
    """Monotonic seconds of the last successful poll; at first, of the first reconcile."""
    desired: DesiredVersion | None = None
    """The last desired version that was handled."""
    asked_since: float | None = None
    """Monotonic seconds of the oldest answer that is accepted; None while no poll is pending."""
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
    failures: int = 0
    """Number of consecutive polls that failed, or found no tag."""
    failed_by: RegistryError | None = None
    """The last answer that was an error: it is counted once, however often it is decided on."""
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


@dataclass(slots=True)
class ReleaseRender:
    """The render of what is deployed, for an uninstall."""

    uid: str = ""
    """The Bundle's."""
    number: int = 1
    """Of its Job."""
    objects: RenderedObjects | None = None
    fault: str = ""
    """Why there are none; empty: that isn't known yet."""
    ended: datetime | None = None
    """When the fault was found."""


@dataclass(slots=True)
class DeployMemory:
    """The Job of the recorded attempt."""

    creating: int | None = None
    """The attempt whose Job this process began to create without knowing yet that it exists."""
    begun: int | None = None
    """The attempt whose Job this process has created or seen: if it doesn't exist, it is lost."""
    remove_finalizer: str | None = None
    """The uid of the Bundle whose finalizer was removed, so that it is removed once."""
    render: ReleaseRender | None = None


@dataclass(slots=True)
class PlanMemory:
    """The newest plan of one purpose."""

    begun: int | None = None
    """The plan whose Job this process has created or seen: if it doesn't exist, it is lost."""
    counted: int | None = None
    """The plan whose outcome was counted in the metrics."""
    is_tidied: bool = False
    """Whether this process has deleted Secrets that a former one may have left."""


@dataclass(slots=True)
class DeployPlanMemory(PlanMemory):
    """The plan of the next deploy."""

    values_of: str | None = None
    """The failed plan's Job whose values are deleted once its outcome is in the status."""
    readings: dict[str, LogReading] = field(default_factory=dict)
    """Reads of the results of all the Bundle's plan Jobs, by their names."""
    review: Review | None = None
    """The reviews of the plan's permissions."""
    reviewed: str | None = None
    """The Job of the last plan that isn't reviewed again: its findings were written (an older CRD
    may drop them), or its operations can't be read.
    """


@dataclass(slots=True)
class PreviewMemory(PlanMemory):
    """The plan of a version that a user names."""

    asked: str = ""
    """The token of the request for which the registry is polled."""
    since: float = 0.0
    """Monotonic seconds of the oldest answer that is accepted for it."""


@dataclass(slots=True)
class CheckMemory(PlanMemory):
    """The checks for drift."""

    correctable: str | None = None
    """The Job that found the drift whose correction was decided on."""
    missed_until: datetime | None = None
    """While a check waits in the queue: the time up to which missed checks are counted."""


@dataclass(frozen=True, slots=True)
class FailedPush:
    """A statement's last push, which failed."""

    fault: AttestFault
    count: int
    """Of consecutive ones."""
    at: datetime
    retry_at: datetime

    def is_due(self, now: datetime) -> bool:
        """Whether it is tried again: also where the clock was set back."""
        return not self.at <= now < self.retry_at


@dataclass(slots=True)
class AttestMemory:
    """The pushes of its statements to the registry."""

    task: asyncio.Task[None] | None = None
    pushed: PushResult | None = None
    """The last statement that was pushed."""
    failed: dict[StatementKey, FailedPush] = field(default_factory=dict)
    spec: BundleSpec | None = None
    """By which they have failed."""

    @property
    def faults(self) -> dict[StatementKey, AttestFault]:
        """Why the last push failed, by statement."""
        return {key: one.fault for key, one in self.failed.items()}


@dataclass(slots=True)
class InputsMemory:
    """What was read of the objects that the spec names."""

    values: Known | None = None
    access: Known | None = None
    signers: Known | None = None
    attesters: Known | None = None
    attest_key: Known | None = None
    """Of ``spec.attest``: only which versions of the Secrets were read."""
    cluster: Known | None = None
    refs: frozenset[Ref] = frozenset()
    """The objects that are watched."""


@dataclass(slots=True)
class AccountMemory:
    """The missing service account of its Jobs."""

    settled: tuple[object, ...] | None = None
    """As ``PollMemory.settled``, where only the service account is missing."""
    check_at: datetime | None = None
    """When it is requested again; None where another Bundle does so, or it isn't missing."""


@dataclass(slots=True)
class WrittenLogin:
    """A Job's login of a cloud."""

    expires: datetime
    renew_at: datetime
    """When it is renewed, if the Job's pod hasn't started by then."""
    identity: CloudIdentity
    """Whose."""
    is_whole: bool = False
    """Whether this process wrote the first one, so that all are in ``contents``."""
    contents: tuple[bytes, ...] = field(default=(), repr=False)
    """What this process has written into its Secret, or has tried to, the last one at the end."""
    present: Credential | None = None
    """What it has written last; None: that isn't known."""
    failures: int = 0
    """How often in a row its Secret couldn't be written."""
    fault: Blocked | None = None
    """Why there is no other although it has expired, or its Secret can't be written."""


@dataclass(slots=True)
class LoginMemory:
    """The logins of a cloud that its Jobs have."""

    task: asyncio.Task[CloudLogin] | None = None
    """Asks for the present one, or has got it."""
    identity: CloudIdentity | None = None
    """Whose."""
    ended_at: float = 0.0
    """Monotonic seconds when a task that was waited for has ended."""
    written: dict[str, WrittenLogin] = field(default_factory=dict)
    """By the Job's name."""


@dataclass(slots=True)
class BundleMemory:
    """What is remembered of one Bundle."""

    poll: PollMemory
    deploy: DeployMemory = field(default_factory=DeployMemory)
    plan: DeployPlanMemory = field(default_factory=DeployPlanMemory)
    preview: PreviewMemory = field(default_factory=PreviewMemory)
    check: CheckMemory = field(default_factory=CheckMemory)
    inputs: InputsMemory = field(default_factory=InputsMemory)
    account: AccountMemory = field(default_factory=AccountMemory)
    attest: AttestMemory = field(default_factory=AttestMemory)
    login: LoginMemory = field(default_factory=LoginMemory)
    parts: dict[type[Any], Any] = field(default_factory=dict)
    """What features remember, by type."""
    operations: dict[str, bytes] = field(default_factory=dict)
    """Compressed texts of the last plans that were stored, by their Jobs' names."""
    consent: tuple[str | None, ...] = ()
    """What was last written to ``status.consent``: the resourceVersion then, state and by."""
    soak: str = ""
    """The Bundle's resourceVersion at which ``status.soak`` was up to date."""
    changes: frozenset[Change] = frozenset()
    """What has changed since its last reconcile began."""

    def plan_of(self, purpose: PlanPurpose) -> PlanMemory:
        """The slot of the plans of this purpose."""
        if purpose is PlanPurpose.CHECK:
            return self.check
        return self.preview if purpose is PlanPurpose.PREVIEW else self.plan


class Memories(dict[BundleKey, BundleMemory]):
    """What is remembered of all Bundles; created at the first use, except by ``get``."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._releases: list[Callable[[BundleKey, BundleMemory], None]] = []

    def __missing__(self, key: BundleKey) -> BundleMemory:
        memory = self[key] = BundleMemory(PollMemory(self._monotonic()))
        return memory

    def of(self, key: BundleKey, kind: type[M]) -> M:
        """A part of a Bundle's record; made at the first use."""
        found: M = self[key].parts.setdefault(kind, kind())
        return found

    def find(self, key: BundleKey, kind: type[M]) -> M | None:
        """The same; None where there is none."""
        record = self.get(key)
        return None if record is None else record.parts.get(kind)

    def forget(self, key: BundleKey, kind: type[Any]) -> None:
        """Drop a part, if there is one."""
        if (record := self.get(key)) is not None:
            record.parts.pop(kind, None)

    def decide_again(self, key: BundleKey, interval: float) -> None:
        """Have the next resolution decide again, without a new request to the registry.

        Any answer of the last interval is accepted. A decision in progress doesn't count: it may
        have read its inputs before they changed. ``interval``: the Bundle's, in seconds.
        """
        poll = self[key].poll
        if poll.asked_since is None:
            poll.asked_since = self._monotonic() - interval
        else:
            poll.asked_since = math.nextafter(poll.asked_since, -math.inf)

    def on_drop(self, release: Callable[[BundleKey, BundleMemory], None]) -> None:
        """Have what a feature holds for a Bundle released when its record is dropped.

        Such as watches, tasks, places in queues, and its key in tables of other things.
        """
        self._releases.append(release)

    def drop(self, key: BundleKey) -> None:
        """Release all that is held for a deleted Bundle, and drop its record."""
        memory = self[key]
        for release in self._releases:
            release(key, memory)
        del self[key]
