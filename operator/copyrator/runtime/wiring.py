"""Builds the parts of the running operator and connects them."""

from __future__ import annotations

import dataclasses
import logging
import time
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.keys import BundleKey, Key
from copyrator.api.seen_time import SeenTime
from copyrator.bundles.bundle import BundleCache
from copyrator.bundles.controller import BundleController
from copyrator.bundles.deploy.pod import proxies_with_password, variables_for_jobs
from copyrator.clouds.logins import SharedLogins
from copyrator.copies.controller import CopyController
from copyrator.copies.rules.rules import RuleCache
from copyrator.copies.targets.namespaces import NAMESPACE_WATCH, Namespaces
from copyrator.kube.client.client import KubeClient
from copyrator.kube.client.connection import Connection
from copyrator.kube.events import EventRecorder
from copyrator.kube.leader import Elector, default_identity
from copyrator.kube.permissions import MissingPermissions
from copyrator.kube.resources import Discovery
from copyrator.kube.watch.informers import InformerFactory
from copyrator.metrics import Metrics
from copyrator.notify.notifier import Notifier
from copyrator.oci.client import RegistryClient
from copyrator.settings.config import Settings
from copyrator.workqueue.limits import AdaptiveLimit
from copyrator.workqueue.queue import DueScheduler, WorkQueue

TENANT_WORKERS: Final = 8  # limit: fairness between namespaces
"""Keys (rules, copies, Bundles) of one namespace that are reconciled at a time: a few namespaces
whose requests hang can't occupy all workers."""

TENANTS_WORKERS: Final = 48  # limit: fairness between namespaces
"""The same of all tenants together: 16 of the 64 workers are left to trusted rules."""

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """All parts that exist from start to stop. To be built in the running loop."""

    client: KubeClient
    reviewer: KubeClient
    """Sends access reviews of others, and requests of notifications: nothing waits for them."""
    permissions: MissingPermissions
    elector: Elector | None
    """None without leader election."""
    informers: InformerFactory
    recorder: EventRecorder
    oci: RegistryClient
    bundles: BundleCache
    queue: WorkQueue[Key]
    scheduler: DueScheduler[Key]
    limit: AdaptiveLimit
    copying: CopyController
    deploying: BundleController
    notifier: Notifier

    def publish(self) -> None:
        """Update the gauges that are computed at a scrape."""
        self.informers.publish()
        self.copying.publish()
        self.deploying.publish()
        specs = (entry.spec for entry in self.bundles)
        self.oci.keep_registries(
            {(spec.registry, spec.insecure) for spec in specs if isinstance(spec, BundleSpec)}
        )

    async def close(self) -> None:
        """Close all connections, watches first."""
        await self.informers.close()
        await self.oci.close()
        await self.reviewer.close()
        await self.client.close()


def compose(settings: Settings, connection: Connection, metrics: Metrics) -> Parts:
    """Build all parts; nothing is started and no request is sent yet."""
    limit = AdaptiveLimit()
    permissions = MissingPermissions()
    elector = _elector(settings, connection, metrics, permissions)
    fence = (lambda: elector.leads) if elector else None
    client = KubeClient(
        connection,
        limit=limit,
        fence=(lambda: elector.leads) if elector else None,
        metrics=metrics,
        on_refused=permissions.refused,
    )
    reviewer = KubeClient(connection, fence=fence, metrics=metrics, alone=True)
    informers = InformerFactory(client, settings.watch_namespaces, metrics=metrics)
    recorder = EventRecorder(client, metrics=metrics, serves=settings.serves)
    tenants = _Tenants()
    queue: WorkQueue[Key] = WorkQueue(group=tenants, each=TENANT_WORKERS, together=TENANTS_WORKERS)
    scheduler: DueScheduler[Key] = DueScheduler(queue.add, wall=time.time)
    oci = RegistryClient(metrics=metrics, allowed=settings.allow_registry_addresses)
    oci.use_logins(lambda transport: SharedLogins(transport, client, metrics))
    bundles, rules = BundleCache(), RuleCache()
    copying = CopyController(
        client=client,
        informers=informers,
        discovery=Discovery(client),
        rules=rules,
        namespaces=Namespaces(),
        queue=queue,
        recorder=recorder,
        settings=settings,
        metrics=metrics,
        clock=_now,
    )
    tenants.copying = copying
    deploying = BundleController(
        client=client,
        informers=informers,
        bundles=bundles,
        queue=queue,
        scheduler=scheduler,
        recorder=recorder,
        oci=oci,
        hasher=copying.new_hash,
        settings=settings,
        metrics=metrics,
        clock=_now,
        proxies=_proxies(),
        reviewer=reviewer,
        namespaces=NAMESPACE_WATCH,
        seen_time=_seen_time(elector),
    )
    notifier = Notifier(
        client=reviewer,
        informers=informers,
        bundles=bundles,
        rules=rules,
        recorder=recorder,
        metrics=metrics,
        namespace=settings.namespace,
        clock=_now,
        leads=fence or (lambda: True),
    )
    return Parts(
        client=client,
        reviewer=reviewer,
        permissions=permissions,
        elector=elector,
        informers=informers,
        recorder=recorder,
        oci=oci,
        bundles=bundles,
        queue=queue,
        scheduler=scheduler,
        limit=limit,
        copying=copying,
        deploying=deploying,
        notifier=notifier,
    )


class _Tenants:
    """Returns a key's tenant to the queue."""

    copying: CopyController

    def __call__(self, key: Key) -> str | None:
        if isinstance(key, BundleKey):
            return key.namespace
        return self.copying.tenant_of(key)


def _proxies() -> dict[str, str]:
    """The proxy settings of the operator's environment that Jobs get: those without a password."""
    found = urllib.request.getproxies_environment()
    for name in proxies_with_password(found):
        log.warning(
            "%s contains a password, so it isn't passed to Jobs; if werf needs it, set it in "
            "spec.env "
            "of the Bundles",
            name,
        )
    return variables_for_jobs(found)


def _seen_time(elector: Elector | None) -> Callable[[], SeenTime]:
    """The observed time: by the Lease, or since the process's start without election."""
    begun, started = _now(), time.monotonic()

    def by_lease() -> SeenTime:
        found = elector.lease.seen_time if elector else None
        return found or SeenTime(since=_now())

    def by_clock() -> SeenTime:
        return SeenTime(begun, (), begun + timedelta(seconds=time.monotonic() - started))

    return by_lease if elector else by_clock


def _elector(
    settings: Settings, connection: Connection, metrics: Metrics, permissions: MissingPermissions
) -> Elector | None:
    if not settings.leader_election:
        return None
    return Elector(
        KubeClient(connection, metrics=metrics, on_refused=permissions.refused, alone=True),
        namespace=settings.lease_namespace or settings.namespace,
        name=settings.lease_name,
        identity=settings.identity or default_identity(),
    )


def _now() -> datetime:
    """The wall clock, for timestamps in statuses."""
    return datetime.now(UTC)
