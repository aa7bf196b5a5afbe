"""The handlers that kopf calls: login, start, stop and the events of our kinds; its settings."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import os
import signal
from typing import Any, Final, Protocol

import kopf
from kopf._core.reactor.inventory import ResourceMemories, ResourceMemory

from copyrator.api.names import RULE_PREFIX
from copyrator.handlers.deduplication import EventDeduplicator
from copyrator.handlers.kopf_guard import LONGEST_PAGE, WATCH_SECONDS, KopfGuard
from copyrator.kube.resources import Resource

log = logging.getLogger(__name__)

PREFIX = RULE_PREFIX.rstrip("/")

KOPF_VERSION: Final[str] = kopf.__version__  # type: ignore[attr-defined]

_IDENTITY = "copyrator"
"""Unused without peering, but else kopf looks the user up, and an arbitrary UID has no name."""

WATCHER = "watcher for "
"""Prefix of a watch's task name in kopf 1.45."""

COLLECTED_EVENTS: Final = 100
"""Events after which their garbage is collected: kopf leaves some 40 objects of each in cycles. By
itself Python collects it late while many objects are deleted, as what is freed counts against what
is new: 80,000 at once, which took 0.25 s."""

WATCH_ENDS_SECONDS = 3.0
"""At the end kopf gives the tasks that process events two seconds."""


class StartError(Exception):
    """The process can't start, and a retry wouldn't help; the message gives the remedy."""


class Lifecycle(Protocol):
    """What starts and stops with kopf."""

    def register(self, registry: kopf.OperatorRegistry) -> None:
        """Register the handlers with kopf."""

    async def start(self) -> None:
        """Return when kopf may open its watches.

        Raises:
            StartError: it never may.
        """

    async def stop(self) -> None:
        """Finish or abort the reconciles in progress; a second call does nothing."""


async def _end_watches() -> None:
    """Cancel the watches that kopf has left, repeatedly until none is left.

    When one watch fails, kopf drops the others, cancels them together with the task that signals a
    pause, and waits: a watch that is being opened takes the cancellation for that signal and would
    never end.
    """
    while watches := [t for t in asyncio.all_tasks() if t.get_name().startswith(WATCHER)]:
        for watch in watches:
            watch.cancel()
        await asyncio.wait(watches, timeout=WATCH_ENDS_SECONDS)


def _log_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log uncaught exceptions, except of a watch of kopf's that is stopped within an event.

    Its generator is closed only when the loop ends, which is too late.
    """
    if getattr(context.get("asyncgen"), "__name__", "") != "infinite_watch":
        loop.default_exception_handler(context)


class NoMemories(ResourceMemories):
    """Keeps none of kopf's memories of 0.8 KB per object: event handlers don't use them.

    The class is internal to kopf 1.45: pyproject.toml allows no other version.
    """

    async def recall(
        self,
        raw_body: kopf.RawBody,
        *,
        memobase: Any = None,
        noticed_by_listing: bool = False,
        ephemeral: bool = False,  # noqa: ARG002 - True is passed instead
    ) -> ResourceMemory:
        """A new one each time, as for an object that may not exist."""
        return await super().recall(
            raw_body, memobase=memobase, noticed_by_listing=noticed_by_listing, ephemeral=True
        )


def join_kopf_run(lifecycle: Lifecycle) -> None:
    """Register with kopf's default registry, which `kopf run` starts and stops."""
    os.environ.setdefault("POD_ID", _IDENTITY)
    lifecycle.register(kopf.get_default_registry())


async def run_kopf(
    lifecycle: Lifecycle,
    signalled: asyncio.Event,
    stop: asyncio.Event,
    namespaces: tuple[str, ...] = (),
) -> None:
    """Run kopf, in some namespaces or in all, until it fails or `stop` is set.

    SIGTERM and SIGINT set both events.
    """
    others = asyncio.all_tasks()
    asyncio.get_running_loop().set_exception_handler(_log_exception)
    registry = kopf.OperatorRegistry()
    lifecycle.register(registry)
    settings = kopf.OperatorSettings()
    configure(settings)
    tasks = await kopf.spawn_tasks(
        registry=registry,
        settings=settings,
        clusterwide=not namespaces,
        namespaces=namespaces,
        stop_flag=stop,
        memories=NoMemories(),
        identity=_IDENTITY,  # type: ignore[arg-type]
    )
    for task in tasks:
        # The end of any task ends all, without a wait for a signal (kopf would wait 5 s).
        task.add_done_callback(lambda _: stop.set())
    # kopf has just installed its own handlers, which fail on a second signal: replace them.
    take_signals(signalled, stop)
    try:
        await kopf.run_tasks(tasks, ignored=others)
    except Exception as error:
        log.error("The watch of rules and Bundles ended: %s", error)
    finally:
        await lifecycle.stop()  # where kopf fails, it skips its cleanup


def take_signals(*flags: asyncio.Event) -> None:
    """Let the first SIGTERM or SIGINT set `flags`, and a second one end the process at once."""
    loop = asyncio.get_running_loop()

    def received(number: signal.Signals) -> None:
        if flags[0].is_set():
            log.warning("%s again: exiting at once, without finishing reconciles", number.name)
            os._exit(128 + number)
        log.info("%s: shutting down, finishing reconciles", number.name)
        for flag in flags:
            flag.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received, number)


def configure(settings: kopf.OperatorSettings) -> None:
    """Configure kopf; see docs/adr/0001-events-only.md. Durations are seconds."""
    # kopf writes nothing to an object: no handler of ours needs it. Should one ever do, it writes
    # under our own names.
    settings.persistence.finalizer = f"{PREFIX}/kopf"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=PREFIX, v1=False)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=PREFIX, v1=False)
    settings.posting.enabled = False  # our own Events are de-duplicated and bounded
    settings.peering.standalone = True  # peering isn't a lease: equal priorities pause all replicas
    # We wait for our CRDs before kopf's discovery; observing all CRDs would need a permission that
    # nothing else uses. Deleting a CRD later ends the process, which restarts and waits.
    settings.scanning.disabled = True
    # kopf keeps a page's objects as long as its watch, and each body while a task of that object
    # is idle: a thousand Bundles with their whole history took 30 MB at every start.
    settings.watching.chunk_size = LONGEST_PAGE
    # Faults and timeouts are handled by handlers.kopf_guard.
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.connect_timeout = 5
    settings.watching.reconnect_backoff = 1.0
    settings.networking.connect_timeout = 5
    settings.networking.request_timeout = None
    settings.queueing.idle_timeout = 0.1
    settings.process.ultimate_exiting_timeout = 30


class KopfWatch:
    """Detects that kopf runs but doesn't watch, by the task names of kopf 1.45.

    Two causes. The task that keeps the credentials has died, the only one whose end doesn't end the
    process: a watch that is refused once then waits for ever. Or kopf's single discovery missed a
    kind, which is then never watched. Unknown task names of another kopf are no fault.
    """

    def __init__(self, *resources: Resource, namespaces: tuple[str | None, ...] = (None,)) -> None:
        self._expected = {
            f"{WATCHER}{resource.plural}.{resource.version}.{resource.group}@{name}": resource
            for resource in resources
            for name in namespaces
        }
        self._keeper: asyncio.Task[Any] | None = None

    def fault(self) -> str | None:
        """Why rules or Bundles aren't watched: not live. To be called in the running loop."""
        tasks = {task.get_name(): task for task in asyncio.all_tasks()}
        self._keeper = self._keeper or tasks.get("credentials retriever")
        if self._keeper is not None and self._keeper.done():
            return "kopf has no credentials any more, so rules and Bundles aren't watched"
        missing = [res.key for name, res in self._expected.items() if name not in tasks]
        if missing and any(name.startswith(WATCHER) for name in tasks):
            return f"kopf doesn't watch {' and '.join(missing)}"
        return None


Registry = kopf.OperatorRegistry


def register_handlers(
    registry: Registry, process: Lifecycle, guard: KopfGuard, *deduplicators: EventDeduplicator
) -> None:
    """Register the handlers; each event of a deduplicator's resource is passed to it.

    The process starts before kopf watches, and stops after kopf has stopped watching.
    """

    @kopf.on.startup(registry=registry, id="start")
    async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
        configure(settings)
        try:
            await process.start()
        except StartError as error:
            # An exception would end kopf too, but after five seconds and with three tracebacks.
            log.critical("%s", error)
            await process.stop()
            raise SystemExit(1) from None

    @kopf.on.cleanup(registry=registry, id="stop")
    async def stop(**_: Any) -> None:
        await _end_watches()
        await process.stop()

    register_login(registry, guard)
    for deduplicator in deduplicators:
        _register_events(registry, deduplicator)


def register_login(registry: Registry, guard: KopfGuard) -> None:
    """Make kopf use the same server and credentials as our own client, through `guard`."""

    @kopf.on.login(registry=registry, id="copyrator")
    async def login(**_: Any) -> kopf.AiohttpSession:
        return kopf.AiohttpSession(server=guard.connection.host, aiohttp_session=guard.session())


def _register_events(registry: Registry, deduplicator: EventDeduplicator) -> None:
    """Created, listed at the start, changed and deleted objects all arrive as events."""
    serial = itertools.count(1)
    res = deduplicator.resource

    @kopf.on.event(res.group, res.version, res.plural, registry=registry, id=res.plural)
    async def take(event: kopf.RawEvent, **_: Any) -> None:
        deduplicator.event(event.get("type"), event.get("object") or {})
        if next(serial) % COLLECTED_EVENTS == 0:
            gc.collect(1)
