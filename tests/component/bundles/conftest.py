"""The deploying half in this process, against a fake API server and a fake registry over HTTP."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.component.bundles.crashing import Stage
from tests.component.bundles.fake_cluster import GUARD, HOME, BundleCluster
from tests.component.bundles.fake_werf import Werf
from tests.component.bundles.fixture_types import TIMING, Make, Run
from tests.component.bundles.waiting import eventually
from tests.component.oci.fake_registry import FakeRegistry, registry_client
from tests.plan_jobs import Pod, in_all_shells, shell_of
from tests.settings import settings_of

from copyrator.api.seen_time import ALL_SEEN, SeenTime
from copyrator.bundles.controller import BundleController
from copyrator.bundles.engine.bundle import BundleCache
from copyrator.bundles.engine.context import BundleTiming
from copyrator.bundles.engine.gate import Gates
from copyrator.copies.targets.namespaces import NAMESPACE_WATCH
from copyrator.kube.client.client import KubeClient
from copyrator.kube.client.transport import Connection, Endpoint
from copyrator.kube.events import EventRecorder
from copyrator.kube.resources import BUNDLES
from copyrator.kube.watch.informers import InformerFactory, Registration
from copyrator.kube.watch.reflector import Timing, WatchSpec
from copyrator.metrics import Metrics
from copyrator.oci.client import RegistryClient
from copyrator.runtime.prerequisites import MissingPrerequisite, retry_until_done
from copyrator.workqueue.isolated import Isolated
from copyrator.workqueue.queue import DueScheduler, Outcome, Workers, WorkQueue


class InProcess(Isolated):
    """Judges small charts here: a child for each operator would take most of a test."""

    async def call(self, function: Callable[..., Any], group: str, *arguments: Any) -> Any:  # type: ignore[override]
        await asyncio.sleep(0)
        return function(*arguments)

    async def close(self) -> None:
        pass


class Operator:
    """A BundleController with its queue, its workers and its own eyes on Bundles."""

    def __init__(
        self,
        cluster: BundleCluster,
        *,
        gates: Gates | None = None,
        ahead: timedelta = timedelta(),
        seen_time: Callable[[], SeenTime] = lambda: ALL_SEEN,
        registry_seconds: float = 8.0,
        timing: BundleTiming = TIMING,
        isolated: Callable[[], Any] = InProcess,
        recorder: Any = None,
        prepare: Callable[[Operator], None] = lambda operator: None,
        **settings: Any,
    ) -> None:
        self.cluster = cluster
        self.ahead = ahead
        self.passed = timedelta()
        """Time that a test has let pass at once, on both clocks."""
        self.client, self.reviewer = self.make_clients()
        watches = Timing(first_delay=0.02, longest_delay=0.1, settled=0.02, tolerance=1.0)
        self.pool = InformerFactory(self.client, timing=watches)
        self.queue: WorkQueue[Any] = WorkQueue(
            group=lambda key: key.namespace, each=2, together=4, clock=self.monotonic
        )
        self.scheduler: DueScheduler[Any] = self.make_scheduler()
        self.metrics = Metrics()
        self.oci = self.make_registry_client(registry_seconds)
        self.bundles = BundleCache()
        guard = {"guard_policy": GUARD, "lease_namespace": HOME}
        settings = {"timer_interval": 600.0, "timer_idle": 0.0, **guard, **settings}
        self.controller = BundleController(
            client=self.client,
            informers=self.pool,
            bundles=self.bundles,
            queue=self.queue,
            scheduler=self.scheduler,
            recorder=EventRecorder(self.client) if recorder is None else recorder,
            oci=self.oci,
            hasher=lambda: hashlib.blake2b(key=b"key"),
            settings=settings_of(**settings),
            metrics=self.metrics,
            clock=self.now,
            monotonic=self.monotonic,
            timing=timing,
            isolated=isolated,
            gates=gates,
            seen_time=seen_time,
            reviewer=self.reviewer,
            namespaces=NAMESPACE_WATCH,
        )
        self.reconciled: list[Any] = []
        """The keys that were reconciled, in order."""
        self.workers = Workers(self.queue, self._reconcile, count=4)
        self._scheduling: asyncio.Task[None] | None = None
        prepare(self)

    def make_clients(self) -> tuple[KubeClient, KubeClient]:
        """Of the controller, and of access reviews."""
        client = KubeClient(Connection(Endpoint(host=self.cluster.url)))
        return client, KubeClient(client.connection, alone=True)

    def make_registry_client(self, seconds: float) -> RegistryClient:
        return registry_client(seconds, metrics=self.metrics)

    def make_scheduler(self) -> DueScheduler[Any]:
        return DueScheduler(self.queue.add, clock=self.monotonic)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead + self.passed

    def monotonic(self) -> float:
        return time.monotonic() + self.passed.total_seconds()

    def let_pass(self, time: timedelta) -> None:
        """Let time pass at once: what is due by then is done now."""
        self.passed += time
        self.scheduler.fire_due()
        self.scheduler._changed.set()  # it sleeps until the next date of the former time
        self.queue.serve()

    async def start(self) -> None:
        # A busy machine may take longer than a connection may; the product tries again too.
        waiting = MissingPrerequisite("")
        await retry_until_done(self.controller.start, waiting, "Bundles can't be served yet")
        bundles = self._watch_bundles()
        await eventually(lambda: bundles.synced)
        self._scheduling = asyncio.create_task(self.scheduler.run())
        self.workers.start()

    async def _reconcile(self, key: Any) -> Outcome:
        self.reconciled.append(key)
        return await self.controller.reconcile(key)

    def _watch_bundles(self) -> Registration:
        return self.pool.acquire(WatchSpec(resource=BUNDLES), self._bundle_changed)

    def _bundle_changed(self, _name: Any, old: Any, new: Any) -> None:
        self.controller.bundle_event(new or old, deleted=new is None)

    async def stop(self, deadline: float = 5.0) -> None:
        """In order, or, with a deadline of 0, as if the process died."""
        await self.workers.drain(deadline)
        if self._scheduling is not None:
            self._scheduling.cancel()
        await self.controller.stop()
        await self.pool.close()
        await self.oci.close()
        await self.reviewer.close()
        await self.client.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    in_all_shells(metafunc)


@pytest.fixture
def pod(request: pytest.FixtureRequest) -> Iterator[Pod]:
    """Where a Job's script runs, in the test's shell."""
    with tempfile.TemporaryDirectory() as directory:
        yield Pod(shell_of(request), Path(directory))


@pytest.fixture
def timing() -> BundleTiming:
    """Of the operators that `run` starts; a module may have others."""
    return TIMING


@pytest.fixture
async def cluster() -> AsyncIterator[BundleCluster]:
    fake = BundleCluster()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", fake.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    fake.prepare()
    yield fake
    await runner.cleanup()


@pytest.fixture
def werf(cluster: BundleCluster) -> Werf:
    """For Bundles whose deploys are planned."""
    return Werf(cluster)


@pytest.fixture
async def registry() -> AsyncIterator[FakeRegistry]:
    registry = FakeRegistry()
    await registry.start()
    registry.put("app", "1.0.0", "one")
    yield registry
    await registry.stop()


@pytest.fixture
async def run(cluster: BundleCluster, timing: BundleTiming) -> AsyncIterator[Callable[..., Any]]:
    """Starts operators: `operator = await run(timer_interval=1.0)`; stops what still runs."""
    started: list[Operator] = []

    async def start(**settings: Any) -> Operator:
        operator = Operator(cluster, **{"timing": timing, **settings})
        started.append(operator)
        await operator.start()
        return operator

    yield start
    for operator in started:
        with suppress(Exception):
            await operator.stop()


@pytest.fixture
def bundle(cluster: BundleCluster, registry: FakeRegistry) -> Make:
    """Makes Bundles of the repository `app`."""

    def make(name: str = "shop", **spec: Any) -> dict[str, Any]:
        metadata = spec.pop("metadata", {})
        spec = {
            "registry": registry.host,
            "repo": "app",
            "version": "1.0.0",
            "insecure": True,
            **spec,
        }
        return cluster.put_object("bundles", name, spec=spec, metadata=metadata)

    return make


@pytest.fixture
def stage(
    cluster: BundleCluster, registry: FakeRegistry, run: Run, bundle: Make, timing: BundleTiming
) -> Stage:
    """For tests in which the process dies: a Job that was just made is soon taken over."""
    soon = replace(timing, job_handover=0.5)
    return Stage(cluster, registry, partial(run, timing=soon), bundle)
