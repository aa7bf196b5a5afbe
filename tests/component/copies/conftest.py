"""The copying half in this process, against a fake API server over real HTTP."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar

import pytest
from aiohttp import web
from tests.component.copies.fake_cluster import FakeCluster, path_of
from tests.component.kube.fake_api import turns, until
from tests.targets import EVERYWHERE

from copyrator.api.reasons import AnyReason
from copyrator.copies.context import CopyContext
from copyrator.copies.controller import CopyController
from copyrator.copies.rules.rules import RuleCache
from copyrator.copies.targets.namespaces import Namespaces
from copyrator.copies.timing import DEFAULT_TIMING, CopyTiming
from copyrator.kube.client.client import KubeClient
from copyrator.kube.client.transport import WATCH_CONNECTIONS, Connection, Endpoint
from copyrator.kube.events import NO_ANNOTATIONS, EventRecorder, EventType, ObjectRef, event_type
from copyrator.kube.resources import RULES, Discovery
from copyrator.kube.watch.informers import InformerFactory
from copyrator.kube.watch.reflector import Timing, WatchSpec
from copyrator.metrics import Metrics
from copyrator.runtime.prerequisites import MissingPrerequisite, retry_until_done
from copyrator.settings.config import Settings
from copyrator.workqueue.queue import Priority, Workers, WorkQueue

HOME = "home"
"""The namespace of rules and, unless a test says otherwise, of sources."""
WORKERS = 8
SECOND = 1.0
"""What failed the first time is tried again within this time."""


class Told(EventRecorder):
    """Keeps what it is given: the object, and the Event's type, reason and message; the annotations
    of the last one.
    """

    def __init__(self, client: KubeClient) -> None:
        super().__init__(client)
        self.told: list[tuple[ObjectRef, str, str, str]] = []
        self.annotations: Mapping[str, str] = {}

    def record(
        self,
        regarding: ObjectRef,
        reason: AnyReason,
        message: str,
        annotations: Mapping[str, str] = NO_ANNOTATIONS,
        *,
        type_: EventType | None = None,
    ) -> None:
        self.told.append((regarding, type_ or event_type(reason), reason, message))
        self.annotations = annotations
        super().record(regarding, reason, message, annotations, type_=type_)


class Operator:
    """A CopyController with its queue, its workers and its own eyes on rules.

    One that a failed test left running is stopped with its cluster.
    """

    left: ClassVar[set["Operator"]] = set()

    def __init__(
        self,
        cluster: FakeCluster,
        *,
        timing: CopyTiming = DEFAULT_TIMING,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        monotonic: Callable[[], float] = time.monotonic,
        watches: int = WATCH_CONNECTIONS,
        jitter: Callable[[], float] = lambda: 1.0,
        queue_clock: Callable[[], float] = time.monotonic,
        **settings: Any,
    ) -> None:
        self.left.add(self)
        self.cluster = cluster
        connection = Connection(Endpoint(host=cluster.url))
        self.client = KubeClient(connection, watch_connections=watches)
        quick = Timing(first_delay=0.02, longest_delay=0.1, settled=0.02, tolerance=1.0)
        self.pool = InformerFactory(self.client, timing=quick)
        self.queue: WorkQueue[Any] = WorkQueue(
            group=lambda key: self.controller.tenant_of(key),  # noqa: PLW0108 - made later
            each=2,
            together=6,
            jitter=jitter,
            clock=queue_clock,
        )
        self.metrics = Metrics()
        self.rules = RuleCache()
        self.namespaces = Namespaces()
        self.recorder = Told(self.client)
        self.controller = CopyController(
            CopyContext(
                client=self.client,
                informers=self.pool,
                discovery=Discovery(self.client),
                rules=self.rules,
                namespaces=self.namespaces,
                queue=self.queue,
                recorder=self.recorder,
                settings=Settings(
                    **{"namespace": HOME, "kinds": ("ConfigMap", "Secret"), **settings}
                ),
                metrics=self.metrics,
                clock=clock,
                monotonic=monotonic,
                timing=timing,
            )
        )
        self.controller._rules.remotes.timing = replace(quick, settled=0.5)
        self.workers = Workers(self.queue, self.controller.reconcile, count=WORKERS)

    async def start(self) -> None:
        # A busy machine may take longer than a connection may; the product tries again too.
        waiting = MissingPrerequisite("")
        await retry_until_done(self.controller.start, waiting, "copy rules can't be served yet")
        rules = self.pool.acquire(WatchSpec(resource=RULES), self._rule_changed)
        await until(lambda: rules.synced)
        self.workers.start()

    def _rule_changed(self, _name: Any, old: Any, new: Any) -> None:
        self.controller.rule_event(new or old, deleted=new is None)

    async def stop(self) -> None:
        self.left.discard(self)
        await self.workers.drain(5)
        await self.controller.stop()
        await self.pool.close()
        await self.client.close()

    def requeue_rules(self) -> None:
        """Let it reconcile all its rules again, as it does when something is due."""
        for rule in self.rules:
            self.queue.add(rule.key, Priority.RESYNC)

    async def sees(self, *namespaces: str) -> None:
        """Wait until these namespaces are known; a rule that is made then is right at once."""
        await until(lambda: all(map(self.namespaces.get, namespaces)), "the namespaces are known")

    async def idle(self) -> None:
        """Wait until nothing is in work, and nothing but what waits on purpose is to come."""
        await until(lambda: not len(self.queue) and not self.queue.working, "the queue is idle")

    async def settled(self, seconds: float | None = None) -> None:
        """Wait until the operator has written nothing for a while: `seconds`, else a second.

        Where no key of the queue is at work or due within that second, a third of it is enough:
        for events that are on their way. Rounds are counted: by the clock, a process that had to
        wait for a core may have had none.
        """
        count, quiet, pause = -1, 0.0, 0.04
        while quiet < (seconds or SECOND):
            if seconds is None and quiet > SECOND / 3 and not self._has_work():
                return
            writes = [s for s in self.cluster.seen if s.verb not in ("get", "list", "watch")]
            if len(writes) != count:
                count, quiet = len(writes), 0.0
            await asyncio.sleep(pause)
            await turns()
            quiet += pause

    def _has_work(self) -> bool:
        """Whether a key of the queue is ready, at work, or due within a second."""
        soon = time.monotonic() + SECOND
        due = (moment < soon for moment, _ in self.queue._due.values())
        return bool(len(self.queue) or self.queue.working or any(due))


def rule_body(name: str, spec: dict[str, Any] | None = None, **old: Any) -> dict[str, Any]:
    return {
        "apiVersion": "flant.com/v1",
        "kind": "CopyratorRule",
        "metadata": {"name": name, "namespace": HOME},
        **({"spec": {"targets": EVERYWHERE, **spec}} if spec is not None else old),
    }


def by_name(name: str, kind: str = "ConfigMap", **more: Any) -> dict[str, Any]:
    """A spec that copies one object of HOME into every other namespace."""
    return {"source": {"kind": kind, "name": name}, "targets": EVERYWHERE, **more}


@asynccontextmanager
async def serving(fake: FakeCluster) -> AsyncIterator[FakeCluster]:
    """A cluster that answers, with the namespace HOME."""
    app = web.Application(client_max_size=8 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", fake.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    fake.namespace(HOME)
    yield fake
    for operator in [each for each in Operator.left if each.cluster is fake]:
        with suppress(Exception):
            await operator.stop()
    await runner.cleanup()


@pytest.fixture
async def cluster() -> AsyncIterator[FakeCluster]:
    async with serving(FakeCluster()) as fake:
        yield fake


@pytest.fixture
def timing() -> CopyTiming:
    """The durations of `operator`; a test may parametrize them."""
    return DEFAULT_TIMING


@pytest.fixture
async def operator(cluster: FakeCluster, timing: CopyTiming) -> Operator:
    """A running operator; a test may stop it."""
    running = Operator(cluster, timing=timing)
    await running.start()
    return running


def status_of(cluster: FakeCluster, name: str = "rule", namespace: str = HOME) -> dict[str, Any]:
    rule = cluster.found("copyrators", namespace, name) or {}
    found: dict[str, Any] = rule.get("status") or {}
    return found


def ready_of(cluster: FakeCluster, name: str = "rule", namespace: str = HOME) -> dict[str, Any]:
    """A rule's Ready condition, which is its first."""
    found: dict[str, Any] = next(
        iter(status_of(cluster, name, namespace).get("conditions", ())), {}
    )
    return found


def reason(cluster: FakeCluster, name: str = "rule") -> str:
    """The reason of a rule's Ready condition."""
    return str(ready_of(cluster, name).get("reason"))


def is_failing(cluster: FakeCluster, name: str = "rule") -> bool:
    """Some or all of a rule's copies fail."""
    return reason(cluster, name) in ("PartialFailure", "AllFailed")


def counts(cluster: FakeCluster, name: str = "rule") -> dict[str, int]:
    found: dict[str, int] = status_of(cluster, name).get("copies", {})
    return found


def make_rule(cluster: FakeCluster, name: str, spec: dict[str, Any] | None = None, **old: Any):
    return cluster.write(path_of("copyrators", HOME, name), rule_body(name, spec, **old))


def edit_rule(cluster: FakeCluster, name: str = "rule", /, **spec: Any) -> None:
    """Change fields of its spec, as `kubectl patch` does."""
    path = path_of("copyrators", HOME, name)
    rule = cluster.objects[path]
    cluster.write(path, {**rule, "spec": {**rule["spec"], **spec}})


def annotate_rule(cluster: FakeCluster, annotations: dict[str, str], name: str = "rule") -> None:
    path = path_of("copyrators", HOME, name)
    rule = cluster.objects[path]
    kept = rule["metadata"].get("annotations", {})
    metadata = {**rule["metadata"], "annotations": {**kept, **annotations}}
    cluster.write(path, {**rule, "metadata": metadata})


def copy_app(cluster: FakeCluster, *spaces: str, **spec: Any) -> None:
    """Namespaces, the ConfigMap `app` of HOME, and a rule `rule` that copies it."""
    for name in spaces:
        cluster.namespace(name)
    cluster.object("configmaps", HOME, "app", data={"key": "value"})
    make_rule(cluster, "rule", by_name("app", **spec))


async def synced(cluster: FakeCluster, *spaces: str, **spec: Any) -> None:
    """The same, and wait until the copies are right."""
    copy_app(cluster, *spaces, **spec)
    await until(lambda: reason(cluster) == "Synced", "the rule is Synced")
