"""Builds the parts of the running operator and ties them together."""

from __future__ import annotations

import dataclasses
import logging
from datetime import UTC, datetime

from copyrator.api.keys import Key
from copyrator.config import Settings
from copyrator.engine.limits import AdaptiveLimit
from copyrator.engine.queue import WorkQueue
from copyrator.engine.scheduler import DueScheduler
from copyrator.kube.client import KubeClient
from copyrator.kube.connection import Connection
from copyrator.kube.events import EventRecorder
from copyrator.kube.resources import Discovery
from copyrator.kube.watchpool import WatchPool
from copyrator.metrics import Metrics
from copyrator.oci.client import RegistryClient
from copyrator.reconcile.bundle import BundleController
from copyrator.reconcile.copying import CopyController
from copyrator.registry.bundles import BundleRegistry
from copyrator.registry.namespaces import Namespaces
from copyrator.registry.rules import RuleRegistry

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything that lives from start to stop. To be built inside the running loop."""

    client: KubeClient
    pool: WatchPool
    recorder: EventRecorder
    oci: RegistryClient
    queue: WorkQueue[Key]
    scheduler: DueScheduler[Key]
    limit: AdaptiveLimit
    copying: CopyController
    deploying: BundleController

    def publish(self) -> None:
        """Bring the gauges up to date that are worked out when somebody asks."""
        self.pool.publish()
        self.deploying.publish()

    async def close(self) -> None:
        """Close what holds connections, watches first."""
        await self.pool.close()
        await self.oci.close()
        await self.client.close()


def compose(settings: Settings, connection: Connection, metrics: Metrics) -> Parts:
    """Build all parts; nothing is started and nobody is asked yet."""
    limit = AdaptiveLimit()
    client = KubeClient(connection, limit=limit, metrics=metrics)
    pool = WatchPool(client, metrics=metrics)
    recorder = EventRecorder(client, metrics=metrics)
    queue: WorkQueue[Key] = WorkQueue()
    scheduler: DueScheduler[Key] = DueScheduler(queue.add)
    oci = RegistryClient(metrics=metrics)
    copying = CopyController(
        client=client,
        watch_pool=pool,
        discovery=Discovery(client),
        rules=RuleRegistry(),
        namespaces=Namespaces(),
        queue=queue,
        recorder=recorder,
        settings=settings,
        metrics=metrics,
        clock=_now,
    )
    deploying = BundleController(
        client=client,
        watch_pool=pool,
        bundles=BundleRegistry(),
        queue=queue,
        scheduler=scheduler,
        recorder=recorder,
        oci=oci,
        hasher=copying.hash_content,
        settings=settings,
        metrics=metrics,
        clock=_now,
    )
    return Parts(
        client=client,
        pool=pool,
        recorder=recorder,
        oci=oci,
        queue=queue,
        scheduler=scheduler,
        limit=limit,
        copying=copying,
        deploying=deploying,
    )


def _now() -> datetime:
    """The wall clock, for what people read."""
    return datetime.now(UTC)
