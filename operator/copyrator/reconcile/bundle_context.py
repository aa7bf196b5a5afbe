"""What the parts of the Bundle controller share: tools, and what is remembered between visits.

Nothing remembered here matters for correctness: a restart loses it, and everything is found again
in the Bundle's status, in the Jobs and in the registry.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from copyrator.api.bundle_spec import BundleDefaults
from copyrator.api.keys import BundleKey, Key
from copyrator.bundles.resolution import Wish
from copyrator.registry.bundles import BundleRegistry

if TYPE_CHECKING:
    from copyrator.config import Settings
    from copyrator.engine.queue import WorkQueue
    from copyrator.engine.scheduler import DueScheduler
    from copyrator.kube.client import KubeClient
    from copyrator.kube.events import EventRecorder
    from copyrator.kube.watchpool import WatchPool
    from copyrator.metrics import Metrics
    from copyrator.oci.client import RegistryClient

Clock = Callable[[], datetime]
"""The wall clock, timezone-aware."""
Hasher = Callable[[bytes], str]
"""Keyed hash of contents that may be secret: the same key as the copies' content hash."""


@dataclass(slots=True)
class Memory:
    """What is remembered of one Bundle between two visits."""

    wish: Wish | None = None
    """The last one that was answered."""
    asked_since: float | None = None
    """Monotonic seconds: an answer must be at least so new; None while nothing is asked."""
    asked_at: datetime | None = None
    """The same by the wall clock."""
    next_poll: datetime | None = None
    poll_failures: int = 0
    changed_at: datetime | None = None
    """When a person last edited the Bundle."""
    creating: int | None = None
    """The attempt whose Job this process set out to make without knowing yet that it is there."""
    answered_at: float = 0.0
    """Monotonic seconds of the last good poll; at first, when the Bundle was first looked at."""
    reset_for: int | None = None
    """The attempt for which forceUpdate was set back."""


@dataclass(slots=True, kw_only=True)
class Context:
    """The controller's tools."""

    client: KubeClient
    watch_pool: WatchPool
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
    memories: dict[BundleKey, Memory] = field(default_factory=dict)

    @property
    def defaults(self) -> BundleDefaults:
        """What the settings say where a Bundle says nothing."""
        return BundleDefaults(
            interval=self.settings.timer_interval,
            werf_version=self.settings.werf_tag,
            jobs_ttl=self.settings.jobs_ttl,
        )

    def memory(self, key: BundleKey) -> Memory:
        """What is remembered of a Bundle; empty at first."""
        memory = self.memories.get(key)
        if memory is None:
            memory = self.memories[key] = Memory(answered_at=self.monotonic())
        return memory

    def wake_at(self, key: BundleKey, *moments: datetime | None) -> None:
        """Visit the Bundle again at the earliest of these moments."""
        known = [moment for moment in moments if moment is not None]
        if not known:
            self.scheduler.remove(key)
            return
        delay = max((min(known) - self.clock()).total_seconds(), 0.0)
        self.scheduler.set(key, self.monotonic() + delay)


async def cancel_all(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait until they are gone."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
