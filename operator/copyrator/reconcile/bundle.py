"""The deploying half of the operator: what the composition root builds, starts, feeds and stops.

Handlers call ``bundle_event``; workers call ``reconcile``; Jobs and values come from our own
watches, due polls from the scheduler. The controller holds nothing that it couldn't rebuild from
the API server and the registries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from copyrator.api.keys import BundleKey, Key

if TYPE_CHECKING:
    from copyrator.config import Settings
    from copyrator.engine.queue import Outcome, WorkQueue
    from copyrator.engine.scheduler import DueScheduler
    from copyrator.kube.client import KubeClient
    from copyrator.kube.events import EventRecorder
    from copyrator.kube.reflector import WatchPool
    from copyrator.metrics import Metrics
    from copyrator.oci.client import RegistryClient
    from copyrator.registry.bundles import BundleRegistry

Clock = Callable[[], datetime]
"""The wall clock, timezone-aware."""
Hasher = Callable[[bytes], str]
"""Keyed hash of contents that may be secret: the same key as the copies' content hash."""


class BundleController:
    """Keeps the releases of all Bundles as they should be.

    Everything is keyword-only. ``bundles`` is an empty store that the controller fills; it is
    passed in so that others (status pages, ``why``) can read it. ``scheduler`` calls
    ``queue.add(key)`` when a key is due. ``hasher`` may raise until the operator's hash key is
    read, so ``start`` of the copying half comes first.
    """

    def __init__(
        self,
        *,
        client: KubeClient,
        watch_pool: WatchPool,
        bundles: BundleRegistry,
        queue: WorkQueue[Key],
        scheduler: DueScheduler[Key],
        recorder: EventRecorder,
        oci: RegistryClient,
        hasher: Hasher,
        settings: Settings,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        raise NotImplementedError

    async def start(self) -> None:
        """Begin to watch our Jobs. To be awaited before the queue's workers start."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Let go of the watches. Work in hand is the workers' to finish."""
        raise NotImplementedError

    def bundle_event(self, body: Mapping[str, Any], *, deleted: bool) -> None:
        """Take in a Bundle as its handler saw it; cheap, never raises."""
        raise NotImplementedError

    async def reconcile(self, key: BundleKey) -> Outcome:
        """Do what the Bundle needs next; the workers' handler for Bundle keys."""
        raise NotImplementedError
