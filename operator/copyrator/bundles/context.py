"""What the parts of the Bundle controller share: tools, and what is remembered between visits.

Nothing remembered here matters for correctness: a restart loses it, and everything is found again
in the Bundle's status, in the Jobs and in the registry.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from copyrator.api import names
from copyrator.api.bundle_spec import BundleDefaults, BundleSpec
from copyrator.api.fields import InvalidSpec
from copyrator.api.keys import BundleKey, Key
from copyrator.api.times import parse_time
from copyrator.bundles.cache import BundleEntry, BundleRegistry
from copyrator.bundles.policy.identity import Hash
from copyrator.bundles.policy.policy import refusal
from copyrator.bundles.policy.resolution import DesiredVersion
from copyrator.bundles.policy.schedule import interval_of, question_of
from copyrator.bundles.policy.slots import Slot, Slots
from copyrator.kube.events import ObjectRef
from copyrator.settings import limits
from copyrator.workqueue.fairness import FairLimit

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient
    from copyrator.kube.events import EventRecorder, EventType
    from copyrator.kube.watch.informers import InformerFactory
    from copyrator.metrics import Metrics
    from copyrator.oci.client import RegistryClient
    from copyrator.settings.config import Settings
    from copyrator.workqueue.queue import WorkQueue
    from copyrator.workqueue.scheduler import DueScheduler

Clock = Callable[[], datetime]
"""The wall clock, timezone-aware."""
Hasher = Callable[[], Hash]
"""Begins a keyed hash of contents that may be secret, with the key of the copies' hashes."""


@dataclass(slots=True)
class Memory:
    """What is remembered of one Bundle between two visits."""

    wish: DesiredVersion | None = None
    """The last one that was answered."""
    asked_since: float | None = None
    """Monotonic seconds: an answer must be at least so new; None while nothing is asked."""
    asked_at: datetime | None = None
    """The same by the wall clock."""
    again: float | None = None
    """Monotonic seconds: when to ask once more after a push; see bundle_pushes.SETTLED."""
    next_poll: datetime | None = None
    slot: Slot | None = None
    """The Bundle's place among all polls; None until its first one is planned."""
    poll_failures: int = 0
    changed_at: datetime | None = None
    """When a person last edited the Bundle."""
    creating: int | None = None
    """The attempt whose Job this process set out to make without knowing yet that it is there."""
    begun: int | None = None
    """The attempt whose Job this process has made or seen: if it isn't there, it is lost."""
    answered_at: float = 0.0
    """Monotonic seconds of the last good poll; at first, when the Bundle was first looked at."""
    settled: tuple[object, ...] | None = None
    """The Bundle's version, the offer and the values' hash that there was nothing to do about: the
    same again needs no second thought."""
    lacking: tuple[object, ...] | None = None
    """The same where there is nothing to do but to wait for the service account."""
    account_at: datetime | None = None
    """When to look for the service account again, where this Bundle is the one that looks."""
    remove_finalizer: str | None = None
    """The uid of the Bundle that our finalizer was taken off."""


@dataclass(slots=True, kw_only=True)
class Context:
    """The controller's tools."""

    client: KubeClient
    watch_pool: InformerFactory
    bundles: BundleRegistry
    queue: WorkQueue[Key]
    scheduler: DueScheduler[Key]
    recorder: EventRecorder
    oci: RegistryClient
    hasher: Hasher
    settings: Settings
    metrics: Metrics
    clock: Clock
    monotonic: Callable[[], float] = time.monotonic
    proxies: Mapping[str, str] = field(default_factory=dict)
    """Proxy variables for Jobs."""
    memories: dict[BundleKey, Memory] = field(default_factory=dict)
    readers: FairLimit = field(
        default_factory=lambda: FairLimit(each=1, together=limits.BUNDLE_VALUES_READERS)
    )
    """Places for reading values; who has one holds one object."""
    slots: Slots = field(default_factory=lambda: Slots(random.random()))  # noqa: S311 - no secret

    @property
    def defaults(self) -> BundleDefaults:
        """What the settings say where a Bundle says nothing."""
        return BundleDefaults(
            interval=self.settings.timer_interval,
            werf_version=self.settings.werf_tag,
            jobs_ttl=self.settings.jobs_ttl,
            proxies=self.proxies,
        )

    def record(self, entry: BundleEntry, kind: EventType, reason: str, message: str) -> None:
        """Write an Event about a Bundle."""
        key = entry.key
        bundle = ObjectRef(
            names.BUNDLE_API_VERSION, names.BUNDLE_KIND, key.namespace, key.name, entry.uid
        )
        self.recorder.record(bundle, kind, reason, message)

    def refusal(self, spec: BundleSpec) -> InvalidSpec | None:
        """What in a valid spec the settings forbid, or None."""
        settings = self.settings
        allowed = settings.allowed_service_accounts, settings.allowed_images
        return refusal(spec, *allowed, settings.allowed_secrets)

    def stand_in(self, key: BundleKey) -> BundleSpec:
        """What the settings say alone, in place of a spec that isn't valid."""
        defaults = self.defaults
        return BundleSpec(
            namespace=key.namespace,
            name=key.name,
            registry="",
            repo="",
            project_namespace=key.namespace,
            service_account=defaults.service_account,
            werf_image=f"{defaults.werf_image}:{defaults.werf_version}",
        )

    def memory(self, key: BundleKey) -> Memory:
        """What is remembered of a Bundle; empty at first."""
        memory = self.memories.get(key)
        if memory is None:
            memory = self.memories[key] = Memory(answered_at=self.monotonic())
        return memory

    def slot(self, entry: BundleEntry, spec: BundleSpec) -> Slot:
        """When the registry is asked for a Bundle: the same for all who ask the same."""
        memory = self.memory(entry.key)
        announced = parse_time(entry.status.next_poll_at) if memory.slot is None else None
        memory.slot = self.slots.take(
            memory.slot,
            question_of(spec),
            interval_of(spec),
            announced=announced,
            bundles=len(self.bundles),
        )
        return memory.slot

    def again_at(self, key: BundleKey) -> datetime | None:
        """When to ask once more after a push, by the wall clock."""
        again = self.memory(key).again
        if again is None:
            return None
        return self.clock() + timedelta(seconds=again - self.monotonic())

    def take(self, entry: BundleEntry) -> bool:
        """Hold a Bundle as it is now; False where that is no news (BundleRegistry.take)."""
        before = self.bundles.get(entry.key)
        news = self.bundles.take(entry)
        if news:
            self._tell_rivals(before, entry)
        return news

    def remove(self, key: BundleKey, uid: str) -> bool:
        """Drop a Bundle that is gone; False where that is no news."""
        before = self.bundles.get(key)
        news = self.bundles.remove(key, uid)
        if news:
            self._tell_rivals(before, None)
        return news

    def _tell_rivals(self, before: BundleEntry | None, after: BundleEntry | None) -> None:
        """Look at the other Bundles of a release where it may be theirs now, or no longer."""
        if _stake(before) == _stake(after):
            return
        releases = {one for entry in (before, after) if entry is not None for one in entry.claims}
        changed = {entry.key for entry in (before, after) if entry is not None}
        for release in releases:
            for rival in self.bundles.claiming(release):
                if rival.key in changed:
                    continue
                if memory := self.memories.get(rival.key):
                    memory.settled = None  # what its status says of others may have changed
                self.queue.add(rival.key)

    def forget(self, key: BundleKey) -> None:
        """The Bundle is gone."""
        memory = self.memories.pop(key, None)
        if memory is not None and memory.slot is not None:
            self.slots.give_back(memory.slot)
        self.scheduler.remove(key)

    def wake_at(self, key: BundleKey, *moments: datetime | None) -> None:
        """Visit the Bundle again at the earliest of these moments, or to look for its account."""
        known = [moment for moment in moments if moment is not None]
        account_at = self.memory(key).account_at if known else None
        if account_at is not None and account_at > self.clock():
            known.append(account_at)
        if not known:
            self.scheduler.remove(key)
            return
        delay = max((min(known) - self.clock()).total_seconds(), 0.0)
        self.scheduler.set(key, self.monotonic() + delay)


def _stake(entry: BundleEntry | None) -> tuple[object, ...]:
    """What decides whose a release is, as far as one Bundle does."""
    if entry is None:
        return ()
    return entry.uid, entry.claims, entry.running_release, entry.deployed_at, entry.deleting


async def cancel_all(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait until they are gone."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
