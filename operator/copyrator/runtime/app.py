"""The composition root: builds all parts, connects them, and defines the order in which they start.

kopf calls an App's start before it watches, and its stop after it has stopped (supervisor.py).
"""

from __future__ import annotations

import asyncio
import asyncio.sslproto
import gc
import itertools
import logging
import platform
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from prometheus_client import ProcessCollector

from copyrator import __version__
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.keys import BundleKey, Key, ObjectName, RuleKey
from copyrator.api.seen_time import SeenTime
from copyrator.bundles.controller import BundleController
from copyrator.bundles.engine.bundle import BundleCache
from copyrator.bundles.jobs.pod import proxies_with_password, variables_for_jobs
from copyrator.clouds.logins import SharedLogins
from copyrator.copies.context import CopyContext
from copyrator.copies.controller import CopyController
from copyrator.copies.rules.rules import RuleCache
from copyrator.copies.targets.namespaces import NAMESPACE_WATCH, Namespaces
from copyrator.handlers import lifecycle
from copyrator.handlers.deduplication import (
    EventDeduplicator,
    confirm_missed,
    enqueue_all,
    resync_for_ever,
)
from copyrator.handlers.kopf_guard import KopfGuard
from copyrator.kube.client.client import KubeClient
from copyrator.kube.client.transport import Connection
from copyrator.kube.events import EventRecorder
from copyrator.kube.leader import Elector, default_identity
from copyrator.kube.permissions import MissingPermissions
from copyrator.kube.resources import BUNDLES, RULES, Discovery
from copyrator.kube.watch.informers import InformerFactory, WatchStatus
from copyrator.kube.watch.reflector import WatchSpec
from copyrator.metrics import Metrics
from copyrator.notify.notifier import Notifier
from copyrator.oci.client import RegistryClient
from copyrator.runtime import logs, prerequisites, watchdog
from copyrator.runtime.watchdog import StallMeter
from copyrator.serving.health import HealthServer
from copyrator.serving.listener import ListenError
from copyrator.serving.webhook import PATH, WebhookError, WebhookServer, webhook_url
from copyrator.settings.config import Settings
from copyrator.workqueue.limits import AdaptiveLimit
from copyrator.workqueue.queue import DueScheduler, Outcome, Workers, WorkQueue

TENANT_WORKERS: Final = 8
"""Keys (rules, copies, Bundles) of one namespace that are reconciled at a time: a few namespaces
whose requests hang can't occupy all workers."""

TENANTS_WORKERS: Final = 48
"""The same of all tenants together: 16 of the 64 workers are left to trusted rules."""


class Parts:
    """All parts that exist from start to stop. To be built in the running loop.

    Nothing is started, and no request is sent yet.

    Attributes:
        reviewer: sends access reviews of others, and requests of notifications: nothing waits for
            them.
        elector: None without leader election.
    """

    def __init__(self, settings: Settings, connection: Connection, metrics: Metrics) -> None:
        self.limit = AdaptiveLimit()
        self.permissions = MissingPermissions()
        elector = self.elector = _elector(settings, connection, metrics, self.permissions)
        fence = (lambda: elector.leads) if elector else None
        self.client = KubeClient(
            connection,
            limit=self.limit,
            fence=fence,
            metrics=metrics,
            on_refused=self.permissions.refused,
        )
        self.reviewer = KubeClient(connection, fence=fence, metrics=metrics, alone=True)
        self.informers = InformerFactory(self.client, settings.watch_namespaces, metrics=metrics)
        self.recorder = EventRecorder(self.client, metrics=metrics, serves=settings.serves)
        self.queue: WorkQueue[Key] = WorkQueue(
            group=self._tenant_of, each=TENANT_WORKERS, together=TENANTS_WORKERS
        )
        self.scheduler: DueScheduler[Key] = DueScheduler(self.queue.add, wall=time.time)
        self.oci = RegistryClient(metrics=metrics, allowed=settings.allow_registry_addresses)
        self.oci.use_logins(lambda transport: SharedLogins(transport, self.client, metrics))
        self.bundles, rules = BundleCache(), RuleCache()
        self.copying = CopyController(
            CopyContext(
                client=self.client,
                informers=self.informers,
                discovery=Discovery(self.client),
                rules=rules,
                namespaces=Namespaces(),
                queue=self.queue,
                recorder=self.recorder,
                settings=settings,
                metrics=metrics,
                clock=_now,
            )
        )
        self.deploying = BundleController(
            client=self.client,
            informers=self.informers,
            bundles=self.bundles,
            queue=self.queue,
            scheduler=self.scheduler,
            recorder=self.recorder,
            oci=self.oci,
            hasher=self.copying.new_hash,
            settings=settings,
            metrics=metrics,
            clock=_now,
            proxies=_proxies(),
            reviewer=self.reviewer,
            namespaces=NAMESPACE_WATCH,
            seen_time=_seen_time(elector),
        )
        self.notifier = Notifier(
            client=self.reviewer,
            informers=self.informers,
            bundles=self.bundles,
            rules=rules,
            recorder=self.recorder,
            metrics=metrics,
            namespace=settings.namespace,
            clock=_now,
            leads=fence or (lambda: True),
        )

    def _tenant_of(self, key: Key) -> str | None:
        return key.namespace if isinstance(key, BundleKey) else self.copying.tenant_of(key)

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


def _proxies() -> dict[str, str]:
    """The proxy settings of the operator's environment that Jobs get: those without a password."""
    found = urllib.request.getproxies_environment()
    for name in proxies_with_password(found):
        log.warning(
            "%s contains a password, so it isn't passed to Jobs; if werf needs it, set it in "
            "spec.env of the Bundles",
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


TLS_BUFFER: Final = 16 * 1024
"""Bytes per read from a TLS connection; its records have up to 16 KB."""


NEW_OBJECTS: Final = 5_000
"""Objects that are new since the last garbage collection, after which there is the next one. With
Python's 700, collections took 35 to 40 ms while 1,000 copies were written, with 5,000 2 to 4 ms."""


OLDER: Final = (5, 1)
"""Collections after which there is one of older objects, and of these one of all: a full one after
60,000 new objects at the latest."""

LONG_COLLECTION: Final = 0.01
"""Seconds of processor time; a full collection visits some 50,000 objects in it."""


@contextmanager
def freeze_survivors() -> Iterator[None]:
    """Exclude inside what a full collection has left over from later ones, if it took long.

    With 10,000 rules a full collection took 0.2 to 0.5 s, during which nothing else ran. What is
    excluded is freed as usual, unless it becomes a part of a cycle that nothing else refers to: so
    what lives long has no cycles.
    """
    begun = 0.0

    def collected(phase: str, info: Mapping[str, int]) -> None:
        nonlocal begun
        if info["generation"] != 2:
            return
        if phase == "start":
            begun = time.thread_time()
        elif time.thread_time() - begun > LONG_COLLECTION:
            gc.freeze()

    gc.callbacks.append(collected)
    try:
        yield
    finally:
        gc.callbacks.remove(collected)


def reduce_memory() -> None:
    """Apply the settings. To be called before the first connection, after all imports.

    asyncio gives each TLS connection a buffer of 256 KB: 24 MB for the hundred that a burst of
    requests or many watches open. Its size is not a public setting: a test checks the effect.

    Objects that live as long as the process are excluded from garbage collection: the modules
    alone are a quarter of a million. A full collection visits all others (freeze_survivors).
    """
    asyncio.sslproto.SSLProtocol.max_size = TLS_BUFFER
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *OLDER)


log = logging.getLogger(__name__)

DRAIN_SECONDS = 10.0
"""Time for the reconciles in progress to finish at the end; queued keys can be dropped safely."""


class App:
    """The operator's start, events and stop. Implements handlers.lifecycle.Lifecycle.

    ``step_down`` is called when another replica leads, and has to cause `stop`.
    """

    def __init__(
        self, settings: Settings, connection: Connection, *, step_down: Callable[[], None]
    ) -> None:
        self.settings = settings
        self.connection = connection
        self.metrics = Metrics()
        self.health = HealthServer(
            self.metrics.registry, address=settings.health_address, port=settings.health_port
        )
        self.waiting = prerequisites.MissingPrerequisite("starting")
        self.kopf_guard = KopfGuard(connection, RULES, BUNDLES)
        self._step_down = step_down
        self._parts: Parts | None = None
        self._started = False
        self._webhook: WebhookServer | None = None
        self._stack = AsyncExitStack()
        self._serial = itertools.count(1)
        self._rules = EventDeduplicator(RULES, self._rule, namespaces=settings.scopes)
        self._bundles = EventDeduplicator(BUNDLES, self._bundle, namespaces=settings.scopes)
        self._missed = asyncio.Event()
        self.kopf_guard.on_listed = self._listed

    def register(self, registry: lifecycle.Registry) -> None:
        """Register the handlers with kopf."""
        lifecycle.register_handlers(registry, self, self.kopf_guard, self._rules, self._bundles)

    async def start(self) -> None:
        """Start the health checks, so that a waiting process is live; then caches and workers.

        A standby has done everything that needs no write before it waits for leadership.

        Raises:
            StartError: a port can't be opened, or the webhook has no secret.
        """
        self._started = True
        log.info(
            "Copyrator %s for %s (%s)", __version__, self.connection.host, self.connection.origin
        )
        self.health.ready.add("startup", lambda: self.waiting.reason)
        self._stack.push_async_callback(self.health.stop)
        try:
            await self.health.start()
            parts, background = await self._prepare()
            await self._wait_for_leadership(parts)
            await self._work(parts, background)
        except (ListenError, WebhookError) as error:
            raise lifecycle.StartError(str(error)) from None
        except asyncio.CancelledError:
            await self.stop()  # kopf calls no cleanup for an incomplete start
            raise

    async def _prepare(self) -> tuple[Parts, watchdog.Background]:
        """Start the watches; nothing is written yet."""
        reduce_memory()
        self._stack.enter_context(freeze_survivors())
        parts = self._parts = Parts(self.settings, self.connection, self.metrics)
        meter = StallMeter(self.metrics.event_loop_stall_seconds.observe, in_work=logs.in_work)
        self._stack.callback(meter.uninstall)
        meter.install()
        self._stack.push_async_callback(parts.close)
        if parts.elector:
            self._stack.push_async_callback(parts.elector.close)
        client, waiting = parts.client, self.waiting
        waiting("no response from the API server yet", quiet=True)
        background = watchdog.Background()
        self._stack.push_async_callback(background.stop)
        parts.permissions.on_granted = self._retry_refused
        self.kopf_guard.on_refused = parts.permissions.refused
        self.kopf_guard.on_silent = parts.informers.suspect
        parts.copying.set_rules_known(self._rules.knows)
        background.start(
            parts.permissions.review_for_ever(client), "the review of missing permissions"
        )
        self.health.ready.add("permissions", parts.permissions.sentence)
        for name, check in parts.deploying.checks.items():
            self.health.ready.add(name, check)
        readable = not self.settings.watch_namespaces
        await prerequisites.wait_for_crds(client, waiting, readable=readable)
        background.start(parts.recorder.run(), "the writer of Events")
        self._stack.push_async_callback(parts.recorder.flush, 2.0)
        self._observe_watches(parts, background)
        for controller in (parts.copying, parts.deploying):
            self._stack.push_async_callback(controller.stop)
        await prerequisites.retry_until_done(
            parts.copying.prepare, waiting, "copy rules can't be served yet"
        )
        await prerequisites.retry_until_done(
            parts.deploying.start, waiting, "Bundles can't be served yet"
        )
        await self._start_webhook(parts)
        return parts, background

    async def _wait_for_leadership(self, parts: Parts) -> None:
        """Return when this replica leads. A standby is ready: it could take over at once."""
        elector, queue = parts.elector, parts.queue
        if elector is None:
            self.metrics.leader.set(1)
            return
        self.metrics.leader.set_function(lambda: elector.leads)
        self.health.ready.add("lead", lambda: elector.fault)
        await prerequisites.wait_for_leadership(elector, self.waiting, lambda: self._list(parts))
        elector.keep(lambda leads: queue.serve() if leads else queue.pause(), self._step_down)

    async def _list(self, parts: Parts) -> None:
        """List all rules and Bundles."""
        for deduplicator in (self._rules, self._bundles):
            await prerequisites.retry_until_done(
                lambda deduplicator=deduplicator: deduplicator.resync(parts.client),  # type: ignore[misc]
                self.waiting,
                f"{deduplicator.resource.key} can't be listed",
            )

    async def _work(self, parts: Parts, background: watchdog.Background) -> None:
        """List everything again, then start the workers."""
        waiting = self.waiting
        await prerequisites.retry_until_done(
            parts.copying.start, waiting, "copy rules can't be served yet"
        )
        await self._list(parts)
        self._stack.push_async_callback(parts.notifier.stop)
        await parts.notifier.start()
        workers = Workers(parts.queue, self._reconcile, metrics=self.metrics)
        self._stack.push_async_callback(self._drain, parts, workers)
        workers.start()
        background.start(parts.scheduler.run(), "the scheduler of polls")
        resync = resync_for_ever(parts.client, self._rules, self._bundles, parts.queue)
        background.start(resync, "the resync")
        missed = confirm_missed(parts.client, (self._rules, self._bundles), self._missed)
        background.start(missed, "the check for missed deletions")
        background.start(watchdog.probe_api_server(parts.client), "the probe of the API server")
        if self._webhook:
            self._webhook.pushed = parts.deploying.pushed
            self._stack.callback(setattr, self._webhook, "pushed", None)
        self._observe_work(parts, workers)
        waiting(None)
        log.info("Started: %d rules, %d Bundles", len(self._rules), len(self._bundles))

    async def _drain(self, parts: Parts, workers: Workers[Key]) -> None:
        """Finish the reconciles in progress; a former leader aborts them, as it may not write."""
        leads = parts.elector is None or parts.elector.leads
        await workers.drain(DRAIN_SECONDS if leads else 0.0)

    async def _start_webhook(self, parts: Parts) -> None:
        """Start the webhook, on a standby too: a Service doesn't select the leader."""
        settings, elector = self.settings, parts.elector
        if settings.webhook_port is None or settings.webhook_secret_file is None:
            return
        webhook = self._webhook = WebhookServer(
            metrics=self.metrics,
            address=settings.health_address,
            port=settings.webhook_port,
            secret_file=settings.webhook_secret_file,
            trusted_proxies=settings.webhook_trusted_proxies,
            leader=lambda: elector.lease.holders_webhook if elector else None,
        )
        self._stack.push_async_callback(webhook.stop)
        await webhook.start()
        if elector and (host := settings.webhook_host or settings.health_address):
            elector.lease.webhook = webhook_url(host, webhook.port, PATH)

    async def stop(self) -> None:
        """Finish or abort the reconciles in progress, then close everything; idempotent."""
        self.waiting("stopping", quiet=True)
        running = self._started
        self._started = False
        try:
            await self._stack.aclose()
        except Exception:
            log.exception("The shutdown is incomplete")
        self._parts = None
        if running:
            log.info("Stopped")

    def _listed(self, spec: WatchSpec, names: set[ObjectName]) -> None:
        """Handle a list of kopf's: for objects that were deleted before it there is no event."""
        deduplicator = self._rules if spec.resource == RULES else self._bundles
        if deduplicator.listed(spec.namespace, names):
            self._missed.set()

    def _rule(self, body: Any, deleted: bool) -> None:
        if self._parts is not None:
            self._parts.copying.rule_event(body, deleted=deleted)

    def _bundle(self, body: Any, deleted: bool) -> None:
        if self._parts is not None:
            self._parts.deploying.bundle_event(body, deleted=deleted)

    async def _reconcile(self, key: Key) -> Outcome:
        """Dispatch a key to its controller; bind the key and a reconcile ID to the logs."""
        parts = self._parts
        assert parts is not None
        reconcile_id = f"{next(self._serial):x}"
        match key:
            case BundleKey(namespace, name):
                with logs.bound(bundle=f"{namespace}/{name}", reconcile=reconcile_id):
                    return await parts.deploying.reconcile(key)
            case RuleKey(namespace, name):
                with logs.bound(rule=f"{namespace}/{name}", reconcile=reconcile_id):
                    return await parts.copying.reconcile(key)
            case _:
                with logs.bound(namespace=key.namespace, name=key.name, reconcile=reconcile_id):
                    return await parts.copying.reconcile(key)

    def _retry_refused(self) -> None:
        """A permission was granted: retry everything that may have been refused."""
        if self._parts is not None:
            self._parts.copying.retry_forbidden()
            enqueue_all(self._rules, self._bundles, self._parts.queue)

    def _watches(self, parts: Parts) -> list[WatchStatus]:
        return [*self.kopf_guard.statuses(), *parts.informers.statuses()]

    def _observe_watches(self, parts: Parts, background: watchdog.Background) -> None:
        """Add the health checks and metrics that a standby has too."""
        live, ready, metrics = self.health.live, self.health.ready, self.metrics
        live.add("background", background.dead)
        live.add("watches", lambda: watchdog.dead_watches(parts.informers.dead()))
        ready.add("API server", lambda: watchdog.outage(parts.client))
        ready.add("watches", lambda: watchdog.failing_watches(self._watches(parts)))
        ProcessCollector(registry=metrics.registry)
        versions = (__version__, platform.python_version(), lifecycle.KOPF_VERSION)
        metrics.build_info.labels(*versions).set(1)
        self.health.before_scrape = parts.informers.publish

    def _observe_work(self, parts: Parts, workers: Workers[Key]) -> None:
        """Add those that only the leader has, and end back-offs when the API server is back."""
        live, metrics = self.health.live, self.metrics
        queue, limit, requests = parts.queue, parts.limit, self.connection.requests
        requests.on_close = queue.end_backoffs
        live.add("workers", lambda: None if workers.alive else "no worker is running")
        live.add("reconcile", lambda: watchdog.stuck_worker(queue))
        live.add("kopf", lifecycle.KopfWatch(RULES, BUNDLES, namespaces=self.settings.scopes).fault)
        self.health.ready.add(
            "queue", lambda: watchdog.stale_queue(queue, failing=requests.outage is not None)
        )
        metrics.queue_depth.set_function(lambda: len(queue))
        metrics.queue_oldest_seconds.set_function(queue.oldest_age)
        metrics.workers_busy.set_function(lambda: queue.working)
        metrics.write_limit.set_function(lambda: limit.limit)
        metrics.writes_in_flight.set_function(lambda: limit.in_flight)
        self.health.before_scrape = parts.publish
