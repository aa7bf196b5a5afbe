"""What the components of the Bundle controller share: clients, and state between reconciles.

None of this state is needed for correctness: a restart loses it, and it is rebuilt from the
Bundles' status, the Jobs and the registry.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from copyrator.api import names
from copyrator.api.bundle_spec import ApprovalMode, BundleDefaults, BundleSpec
from copyrator.api.fields import InvalidSpec
from copyrator.api.globs import Globs
from copyrator.api.keys import BundleKey, Key
from copyrator.api.seen_time import ALL_SEEN, SeenTime
from copyrator.api.times import parse_time
from copyrator.bundles import promotions
from copyrator.bundles.cache import BundleCache
from copyrator.bundles.dependencies import readiness
from copyrator.bundles.entry import BundleEntry
from copyrator.bundles.memory import Memory
from copyrator.bundles.policy.gated import restricted
from copyrator.bundles.policy.gates import Gates, signature
from copyrator.bundles.policy.identity import Hash
from copyrator.bundles.policy.restrictions import refusal
from copyrator.bundles.policy.schedule import interval_of, query_of
from copyrator.bundles.policy.slots import Slot, Slots
from copyrator.bundles.timing import BundleTiming
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
"""Returns a new keyed hash for contents that may be secret; the key is that of the copies."""


@dataclass(slots=True, kw_only=True)
class Context:
    """The controller's shared clients, caches and settings."""

    client: KubeClient
    informers: InformerFactory
    bundles: BundleCache
    queue: WorkQueue[Key]
    scheduler: DueScheduler[Key]
    recorder: EventRecorder
    oci: RegistryClient
    hasher: Hasher
    settings: Settings
    metrics: Metrics
    clock: Clock
    monotonic: Callable[[], float] = time.monotonic
    timing: BundleTiming = field(default_factory=BundleTiming)
    proxies: Mapping[str, str] = field(default_factory=dict)
    """Proxy variables for Jobs."""
    gates: Gates = field(default_factory=Gates)
    seen_time: Callable[[], SeenTime] = lambda: ALL_SEEN
    """Returns the periods in which an operator ran, as of its last record."""
    memories: dict[BundleKey, Memory] = field(default_factory=dict)
    readers: FairLimit = field(
        default_factory=lambda: FairLimit(each=1, together=limits.BUNDLE_VALUES_READERS)
    )
    """Permits for reading values; each allows one object in memory."""
    slots: Slots = field(default_factory=lambda: Slots(random.random()))  # noqa: S311 - no secret

    @property
    def defaults(self) -> BundleDefaults:
        """The settings' defaults for fields that a Bundle doesn't set."""
        return BundleDefaults(
            interval=self.settings.timer_interval,
            werf_version=self.settings.werf_tag,
            jobs_ttl=self.settings.jobs_ttl,
            proxies=self.proxies,
            require_approval=_floors(self.settings.require_approval),
            allowed_pod_metadata=self.settings.allowed_pod_metadata,
            require_bound_plans=_globs(self.settings.require_bound_plans),
        )

    def seen(self) -> SeenTime:
        """The periods in which an operator ran, up to now."""
        return self.seen_time().as_of(self.clock())

    def record(self, entry: BundleEntry, kind: EventType, reason: str, message: str) -> None:
        """Write an Event about a Bundle."""
        key = entry.key
        bundle = ObjectRef(
            names.BUNDLE_API_VERSION, names.BUNDLE_KIND, key.namespace, key.name, entry.uid
        )
        self.recorder.record(bundle, kind, reason, message)

    def refusal(self, spec: BundleSpec) -> InvalidSpec | None:
        """The field of a valid spec that the settings forbid, with a message; else None."""
        settings = self.settings
        allowed = settings.allowed_service_accounts, settings.allowed_images
        return refusal(spec, *allowed, settings.allowed_secrets)

    def effective(self, spec: BundleSpec) -> BundleSpec:
        """The spec that a Bundle's Jobs are made of: of a gated one, what it may set."""
        asked = (gate for gate in self.gates.version if gate.name == signature.NAME)
        spec = restricted(spec, signed=any(gate.concerns(spec) for gate in asked))
        if (secret := spec.env.get(names.SECRET_KEY_ENV)) is None:
            return spec
        keyed = self.hasher()
        keyed.update(f"{spec.namespace}/{spec.name}\0{secret}".encode())
        return replace(spec, secret_key_hash=keyed.hexdigest()[:32])

    def default_spec(self, key: BundleKey) -> BundleSpec:
        """A spec with the settings' defaults only, to be used where the Bundle's isn't valid."""
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
        """The state of a Bundle between reconciles; created at its first use."""
        memory = self.memories.get(key)
        if memory is None:
            memory = self.memories[key] = Memory(answered_at=self.monotonic())
        return memory

    def slot(self, entry: BundleEntry, spec: BundleSpec) -> Slot:
        """The Bundle's regular poll times, shared by all Bundles with the same query."""
        memory = self.memory(entry.key)
        announced = parse_time(entry.status.next_poll_at) if memory.slot is None else None
        memory.slot = self.slots.take(
            memory.slot,
            query_of(spec),
            interval_of(spec),
            announced=announced,
            bundles=len(self.bundles),
        )
        return memory.slot

    def again_at(self, key: BundleKey) -> datetime | None:
        """The time of the second poll after a push, by the wall clock; None where none is due."""
        again = self.memory(key).again
        if again is None:
            return None
        return self.clock() + timedelta(seconds=again - self.monotonic())

    def reevaluate(self, key: BundleKey, spec: BundleSpec) -> None:
        """Have the next reconcile decide again, without a new request to the registry.

        Any answer of the last interval is accepted. A decision in progress doesn't count: it may
        have read its inputs before they changed.
        """
        memory = self.memory(key)
        if memory.asked_since is None:
            memory.asked_since = self.monotonic() - spec.interval
        else:
            memory.asked_since = math.nextafter(memory.asked_since, -math.inf)

    def reevaluate_now(self, key: BundleKey, spec: BundleSpec) -> None:
        """As ``reevaluate``, with a reconcile at once, also for a Bundle that was up to date."""
        if memory := self.memories.get(key):
            memory.settled = None
        self.reevaluate(key, spec)
        self.queue.add(key)

    def reconcile_at(self, key: BundleKey, moment: datetime) -> None:
        """Reconcile the Bundle at this time too, in addition to the times of ``requeue_at``."""
        memory = self.memory(key)
        memory.recheck_at = min(memory.recheck_at or moment, moment)

    def take(self, entry: BundleEntry) -> bool:
        """Store a Bundle; False where nothing changed (BundleCache.take)."""
        before = self.bundles.get(entry.key)
        changed = self.bundles.take(entry)
        if changed:
            self._requeue_rivals(before, entry)
            self._requeue_dependants(before, entry)
            self._requeue_promoted(before, entry)
            self._requeue_sources(before, entry)
        return changed

    def remove(self, key: BundleKey, uid: str) -> bool:
        """Remove a deleted Bundle; False where nothing changed."""
        before = self.bundles.get(key)
        changed = self.bundles.remove(key, uid)
        if changed:
            self._requeue_rivals(before, None)
            self._requeue_dependants(before, None)
            self._requeue_promoted(before, None)
        return changed

    def _requeue_rivals(self, before: BundleEntry | None, after: BundleEntry | None) -> None:
        """Requeue the other Bundles of a release whose owner may have changed."""
        if _ownership_inputs(before) == _ownership_inputs(after):
            return
        releases = {one for entry in (before, after) if entry is not None for one in entry.releases}
        changed = {entry.key for entry in (before, after) if entry is not None}
        for release in releases:
            for rival in self.bundles.bundles_of(release):
                if rival.key in changed:
                    continue
                if memory := self.memories.get(rival.key):
                    memory.settled = None  # its conflict message may have changed
                self.queue.add(rival.key)

    def _requeue_dependants(self, before: BundleEntry | None, after: BundleEntry | None) -> None:
        """Requeue the Bundles that depend on one whose readiness or dependencies changed."""
        entry = after or before
        if entry is None or readiness(before) == readiness(after):
            return
        for key in self.bundles.dependants_of(entry.key):
            self._reevaluate_gates(key)

    def _requeue_promoted(self, before: BundleEntry | None, after: BundleEntry | None) -> None:
        """Requeue the Bundles that are promoted from one whose evidence or consent changed."""
        entry = after or before
        promoted = self.bundles.promoted_of(entry.key) if entry else ()
        if not promoted:
            return
        shown = promotions.evidence(before) != promotions.evidence(after)
        for key in promoted:
            was, may = (promotions.allows(one, key.namespace) for one in (before, after))
            if was != may or (shown and may):
                self._reevaluate_gates(key)

    def _requeue_sources(self, before: BundleEntry | None, after: BundleEntry) -> None:
        """Requeue the Bundles that are named as sources now: their soak is recorded from now on."""
        new = set(after.promoted_from) - set(before.promoted_from if before else ())
        for key in new:
            source = self.bundles.get(key)
            if source is not None and key.namespace == after.key.namespace:
                self.queue.add(key)

    def _reevaluate_gates(self, key: BundleKey) -> None:
        """Evaluate a Bundle's gates again, as their input has changed; no registry is polled."""
        found = self.bundles.get(key)
        if found is None:
            return
        if isinstance(found.spec, BundleSpec):
            self.reevaluate_now(key, found.spec)
        else:
            self.queue.add(key)

    def forget(self, key: BundleKey) -> None:
        """Drop the state of a deleted Bundle."""
        memory = self.memories.pop(key, None)
        if memory is not None and memory.slot is not None:
            self.slots.give_back(memory.slot)
        self.scheduler.remove(key)

    def requeue_at(self, key: BundleKey, *moments: datetime | None) -> None:
        """Requeue the Bundle at the earliest of these times and those of ``reconcile_at``.

        None is no time; without any time it isn't requeued.
        """
        known = [moment for moment in moments if moment is not None]
        memory = self.memory(key)
        now, account_at = self.clock(), memory.account_at if known else None
        known += [at for at in (account_at, memory.recheck_at) if at is not None and at > now]
        if not known:
            self.scheduler.remove(key)
            return
        delay = max((min(known) - now).total_seconds(), 0.0)
        self.scheduler.set(key, self.monotonic() + delay)


@lru_cache(maxsize=4)
def _floors(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[Globs, ApprovalMode], ...]:
    return tuple((Globs((glob,)), ApprovalMode(mode)) for glob, mode in pairs)


_globs = lru_cache(maxsize=4)(Globs)


def _ownership_inputs(entry: BundleEntry | None) -> tuple[object, ...]:
    """The fields of a Bundle by which the owner of a release is determined."""
    if entry is None:
        return ()
    running, deployed_at = entry.running_release, entry.deployed_at
    return entry.uid, entry.releases, running, deployed_at, entry.deleting, entry.consent


async def cancel_all(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
