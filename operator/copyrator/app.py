"""The composition root: the only place that knows every part, and the order in which they start.

`copyrator run` and `kopf run -A -m copyrator.kopf_main` do the same: both register one App with
kopf, whose start and stop kopf calls before it watches and after it has stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import itertools
import logging
import platform
import random
import time
from contextlib import AsyncExitStack
from typing import Any

import click
import kopf
from prometheus_client import ProcessCollector

from copyrator import __version__, logs, options, prerequisites, watchdog
from copyrator.api.keys import BundleKey, Key, RuleKey
from copyrator.config import Settings
from copyrator.engine.outcome import Lane, Outcome
from copyrator.engine.workers import Workers
from copyrator.handlers import bundles as bundle_handlers
from copyrator.handlers import lifecycle
from copyrator.handlers import rules as rule_handlers
from copyrator.handlers.intake import Intake
from copyrator.health import HealthServer
from copyrator.kube.auth import Connection, KubeconfigError, load_connection, register_login
from copyrator.kube.errors import ApiError
from copyrator.kube.resources import BUNDLES, RULES
from copyrator.listener import ListenError
from copyrator.metrics import Metrics
from copyrator.parts import Parts, compose
from copyrator.webhook import WebhookError, WebhookServer

log = logging.getLogger(__name__)

RESYNC_SECONDS = 600.0
"""The safety net: every rule and Bundle is looked at again, though nothing is known to have
changed. On a healthy cluster it finds nothing and writes nothing."""

RESTART_CAP_SECONDS = 30.0
"""Starts that fail one after the other are this far apart at most."""

CALM_SECONDS = 60.0
"""What has run for so long starts again at once."""

DRAIN_SECONDS = 10.0
"""What is in work gets so long to finish at the end; what isn't is safe to give up."""


def run(settings: Settings) -> int:
    """Run the operator until it is told to stop; return the exit code.

    0: stopped by a signal. 2: there is no way to the cluster. Always with one message.
    """
    logs.configure(settings.log_format, settings.log_level)
    try:
        asyncio.run(_run(settings))
    except KubeconfigError as error:
        click.echo(f"Error: {error}", err=True)
        return 2
    return 0


async def _run(settings: Settings) -> None:
    """Run until a signal comes.

    What kopf can't stand (a CRD that is deleted, an error in a watch) is answered by starting
    everything again, as the kubelet would.
    """
    connection = await load_connection(settings.kubeconfig, settings.context)
    signalled = asyncio.Event()
    delay = 0.0
    while not signalled.is_set():
        started = time.monotonic()
        registry = kopf.OperatorRegistry()
        app = App(settings, connection)
        app.register(registry)
        await lifecycle.run_kopf(registry, app, signalled)
        if signalled.is_set():
            break
        lasted = time.monotonic() - started
        delay = 1.0 if lasted > CALM_SECONDS else min(max(1.0, delay * 2), RESTART_CAP_SECONDS)
        log.warning("Starting again in %.0f s", delay)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(signalled.wait(), delay)


def install() -> None:
    """Register the operator with the registry that `kopf run` uses, settings from variables.

    Raises:
        click.UsageError: a setting is wrong; kopf's command line shows it and ends with code 2.
    """
    settings = options.from_environment()
    logs.configure(settings.log_format, settings.log_level)
    try:
        connection = asyncio.run(load_connection(settings.kubeconfig, settings.context))
    except KubeconfigError as error:
        raise click.UsageError(str(error)) from None
    App(settings, connection).register(kopf.get_default_registry())


class App:
    """The operator's life: start, events, stop. Satisfies handlers.lifecycle.Lifecycle."""

    def __init__(self, settings: Settings, connection: Connection) -> None:
        self.settings = settings
        self.connection = connection
        self.metrics = Metrics()
        self.health = HealthServer(
            self.metrics.registry, address=settings.health_address, port=settings.health_port
        )
        self.waiting = prerequisites.Waiting("starting")
        self._parts: Parts | None = None
        self._started = False
        self._stack = AsyncExitStack()
        self._serial = itertools.count(1)
        self._rules = Intake(RULES, self._rule)
        self._bundles = Intake(BUNDLES, self._bundle)

    def register(self, registry: kopf.OperatorRegistry) -> None:
        """Tell kopf what to call."""
        lifecycle.register(registry, self)
        register_login(registry, self.connection)
        rule_handlers.register(registry, self._rules)
        bundle_handlers.register(registry, self._bundles)

    async def start(self) -> None:
        """Health first, so that whoever waits is live; then what work needs; workers last.

        Raises:
            StartError: a port can't be had, or the webhook has no secret.
        """
        self._started = True
        log.info(
            "Copyrator %s for %s (%s)", __version__, self.connection.host, self.connection.origin
        )
        self.health.ready.add("startup", lambda: self.waiting.reason)
        self._stack.push_async_callback(self.health.stop)
        try:
            await self.health.start()
            await self._start()
        except (ListenError, WebhookError) as error:
            raise lifecycle.StartError(str(error)) from None
        except asyncio.CancelledError:
            await self.stop()  # kopf calls no cleanup for a start that didn't come to its end
            raise

    async def _start(self) -> None:
        parts = self._parts = compose(self.settings, self.connection, self.metrics)
        self._stack.push_async_callback(parts.close)
        client, waiting = parts.client, self.waiting
        waiting("no answer from the API server yet", quiet=True)
        await prerequisites.wait_for_crds(client, waiting)
        background = watchdog.Background()
        self._stack.push_async_callback(background.stop)
        background.start(parts.recorder.run(), "the writer of Events")
        self._stack.push_async_callback(parts.recorder.flush, 2.0)
        for controller, what in ((parts.copying, "copying"), (parts.deploying, "deploying")):
            self._stack.push_async_callback(controller.stop)
            await prerequisites.patiently(controller.start, waiting, f"{what} can't start")
        for intake in (self._rules, self._bundles):
            await prerequisites.patiently(
                lambda intake=intake: intake.resync(client),  # type: ignore[misc]
                waiting,
                f"{intake.resource.key} can't be listed",
            )
        workers = Workers(parts.queue, self._reconcile, metrics=self.metrics)
        self._stack.push_async_callback(workers.drain, DRAIN_SECONDS)
        workers.start()
        background.start(parts.scheduler.run(), "the scheduler of polls")
        background.start(self._resync_for_ever(parts), "the resync")
        await self._start_webhook(parts)
        self._observe(parts, workers, background)
        waiting(None)
        log.info("Started: %d rules, %d Bundles", len(self._rules), len(self._bundles))

    async def _start_webhook(self, parts: Parts) -> None:
        settings = self.settings
        if settings.webhook_port is None or settings.webhook_secret_file is None:
            return
        webhook = WebhookServer(
            parts.deploying.pushed,
            metrics=self.metrics,
            address=settings.health_address,
            port=settings.webhook_port,
            secret_file=settings.webhook_secret_file,
        )
        self._stack.push_async_callback(webhook.stop)
        await webhook.start()

    async def stop(self) -> None:
        """Finish or give up what is in work, then let go of everything; twice does no harm."""
        self.waiting("stopping", quiet=True)
        running = self._started
        self._started = False
        try:
            await self._stack.aclose()
        except Exception:
            log.exception("Not everything could be stopped in order")
        self._parts = None
        if running:
            log.info("Stopped")

    def _rule(self, body: Any, deleted: bool) -> None:
        if self._parts is not None:
            self._parts.copying.rule_event(body, deleted=deleted)

    def _bundle(self, body: Any, deleted: bool) -> None:
        if self._parts is not None:
            self._parts.deploying.bundle_event(body, deleted=deleted)

    async def _reconcile(self, key: Key) -> Outcome:
        """Hand a key to its half; every line logged meanwhile says which key and which look."""
        parts = self._parts
        assert parts is not None
        look = f"{next(self._serial):x}"
        match key:
            case BundleKey(namespace, name):
                with logs.bound(bundle=f"{namespace}/{name}", reconcile=look):
                    return await parts.deploying.reconcile(key)
            case RuleKey(namespace, name):
                with logs.bound(rule=f"{namespace}/{name}", reconcile=look):
                    return await parts.copying.reconcile(key)
            case _:
                with logs.bound(namespace=key.namespace, name=key.name, reconcile=look):
                    return await parts.copying.reconcile(key)

    async def _resync_for_ever(self, parts: Parts) -> None:
        while True:
            await asyncio.sleep(RESYNC_SECONDS * random.uniform(0.9, 1.1))  # noqa: S311 - no secret
            try:
                await self._rules.resync(parts.client)
                await self._bundles.resync(parts.client)
            except ApiError as error:
                log.warning("The resync is left out this time: %s", error)
                continue
            add = parts.queue.add
            for rule in self._rules.names():
                add(RuleKey(rule.namespace, rule.name), Lane.RESYNC, respect_backoff=True)
            for bundle in self._bundles.names():
                add(BundleKey(bundle.namespace, bundle.name), Lane.RESYNC, respect_backoff=True)

    def _observe(
        self, parts: Parts, workers: Workers[Key], background: watchdog.Background
    ) -> None:
        """Show the running parts in the health checks and the metrics."""
        live, ready, metrics = self.health.live, self.health.ready, self.metrics
        queue, limit = parts.queue, parts.limit
        live.add("workers", lambda: None if workers.alive else "none is alive")
        live.add("reconcile", lambda: watchdog.stuck_worker(queue))
        live.add("background", background.dead)
        live.add("kopf", lifecycle.KopfWatch(RULES, BUNDLES).fault)
        ready.add("queue", lambda: watchdog.stale_queue(queue))
        ready.add("watches", lambda: watchdog.failing_watches(parts.pool.statuses()))
        ProcessCollector(registry=metrics.registry)
        kopf_version = importlib.metadata.version("kopf")
        metrics.build_info.labels(__version__, platform.python_version(), kopf_version).set(1)
        metrics.queue_depth.set_function(lambda: len(queue))
        metrics.queue_oldest_seconds.set_function(queue.oldest_age)
        metrics.workers_busy.set_function(lambda: queue.working)
        metrics.write_limit.set_function(lambda: limit.limit)
        metrics.writes_in_flight.set_function(lambda: limit.in_flight)
        self.health.before_scrape = parts.publish
