"""Start and end of the process as kopf calls them, and how kopf itself is set up."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from typing import Any, Protocol

import kopf
from kopf._core.reactor.inventory import ResourceMemories, ResourceMemory

from copyrator.api.names import RULE_PREFIX
from copyrator.handlers.kopf_guard import WATCH_SECONDS
from copyrator.handlers.kopf_watch import LONGEST_PAGE
from copyrator.kube.resources import Resource

log = logging.getLogger(__name__)

PREFIX = RULE_PREFIX.rstrip("/")

WATCHER = "watcher for "
"""How kopf 1.45 begins the name of a watch's task."""

WATCH_ENDS_SECONDS = 3.0
"""kopf gives the work on events two seconds at the end."""


class StartError(Exception):
    """The process can't work and waiting won't help; the message says what to do."""


class Lifecycle(Protocol):
    """What starts and stops with kopf."""

    def register(self, registry: kopf.OperatorRegistry) -> None:
        """Tell kopf what to call."""
        ...

    async def start(self) -> None:
        """Return when kopf may begin to watch.

        Raises:
            StartError: it never may.
        """
        ...

    async def stop(self) -> None:
        """Finish or give up the work in hand; called a second time, do nothing."""
        ...


def register(registry: kopf.OperatorRegistry, lifecycle: Lifecycle) -> None:
    """Start `lifecycle` before kopf watches and stop it after kopf has stopped watching."""

    @kopf.on.startup(registry=registry, id="start")
    async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
        configure(settings)
        try:
            await lifecycle.start()
        except StartError as error:
            # An exception would end kopf too, after five seconds and with three tracebacks.
            log.critical("%s", error)
            await lifecycle.stop()
            raise SystemExit(1) from None

    @kopf.on.cleanup(registry=registry, id="stop")
    async def stop(**_: Any) -> None:
        await _end_watches()
        await lifecycle.stop()


async def _end_watches() -> None:
    """Cancel the watches that kopf has left, again and again until none is left.

    When one watch fails, kopf forgets the others, cancels them together with what tells them of a
    pause, and waits: one that is being opened takes that for the pause, and would go on for ever.
    """
    while watches := [t for t in asyncio.all_tasks() if t.get_name().startswith(WATCHER)]:
        for watch in watches:
            watch.cancel()
        await asyncio.wait(watches, timeout=WATCH_ENDS_SECONDS)


def _complain(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Tell what nobody catches, but for a watch of kopf's that is stopped within an event.

    Its generator is closed only when the loop ends, too late for it to be closed well.
    """
    if getattr(context.get("asyncgen"), "__name__", "") != "infinite_watch":
        loop.default_exception_handler(context)


class NoMemories(ResourceMemories):
    """None of what kopf keeps for each object, 0.8 KB: handlers of single events don't need it.

    The class is kopf 1.45's own, not public: pyproject.toml lets no other kopf in.
    """

    async def recall(
        self,
        raw_body: kopf.RawBody,
        *,
        memobase: Any = None,
        noticed_by_listing: bool = False,
        ephemeral: bool = False,  # noqa: ARG002 - what is passed on instead
    ) -> ResourceMemory:
        """A new one each time, as for an object that may never exist."""
        return await super().recall(
            raw_body, memobase=memobase, noticed_by_listing=noticed_by_listing, ephemeral=True
        )


def join_kopf_run(lifecycle: Lifecycle) -> None:
    """Have `kopf run` start and stop it."""
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
    asyncio.get_running_loop().set_exception_handler(_complain)
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
        # Unused without peering, but kopf would look the user up, and an arbitrary id has no name.
        identity="copyrator",  # type: ignore[arg-type]
    )
    for task in tasks:
        # Whatever ends, all ends, and nobody goes on waiting for a signal (kopf would, for 5 s).
        task.add_done_callback(lambda _: stop.set())
    # From kopf, which took them just now: its handlers fail on a second signal.
    take_signals(signalled, stop)
    try:
        await kopf.run_tasks(tasks, ignored=others)
    except Exception as error:
        log.error("The watch of rules and Bundles ended: %s", error)
    finally:
        await lifecycle.stop()  # where kopf fails, it leaves its cleanup out


def take_signals(*flags: asyncio.Event) -> None:
    """Let the first SIGTERM or SIGINT set `flags`, and a second one end the process at once."""
    loop = asyncio.get_running_loop()

    def received(number: signal.Signals) -> None:
        if flags[0].is_set():
            log.warning("%s again: leaving at once, work in hand is given up", number.name)
            os._exit(128 + number)
        log.info("%s: finishing the work in hand", number.name)
        for flag in flags:
            flag.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, received, number)


def configure(settings: kopf.OperatorSettings) -> None:
    """Set kopf up; see docs/adr/0001-events-only.md. Durations are seconds."""
    # Nothing of kopf's is written to an object: no handler of ours needs it. Should one ever do,
    # it does so under our own names.
    settings.persistence.finalizer = f"{PREFIX}/kopf"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=PREFIX, v1=False)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=PREFIX, v1=False)
    settings.posting.enabled = False  # our own Events are de-duplicated and bounded
    settings.peering.standalone = True  # peering isn't a lease: equal priorities pause everybody
    # We wait for our CRDs before kopf looks; observing all CRDs would need a right we have no use
    # for. A CRD that is deleted later ends the process, which starts again and waits.
    settings.scanning.disabled = True
    # kopf keeps a page's objects as long as its watch, and each body while a task of that object's
    # is idle: a thousand Bundles with all their history were 30 MB at every start.
    settings.watching.chunk_size = LONGEST_PAGE
    # What goes wrong on the way, and how long anything may take, is kube.kopf_guard's business.
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.connect_timeout = 5
    settings.watching.reconnect_backoff = 1.0
    settings.networking.connect_timeout = 5
    settings.networking.request_timeout = None
    settings.queueing.idle_timeout = 0.1
    settings.process.ultimate_exiting_timeout = 30


class KopfWatch:
    """Finds out when kopf lives and watches nothing, by the names that kopf 1.45 gives its tasks.

    Two ways lead there. Its keeper of credentials dies, the one task whose end isn't the end of the
    process: a watch that is refused once waits for ever. Or its single look at what the API server
    serves missed a kind: that is never watched. Names that another kopf may have are no fault.
    """

    def __init__(self, *resources: Resource, namespaces: tuple[str | None, ...] = (None,)) -> None:
        self._expected = {
            f"{WATCHER}{resource.plural}.{resource.version}.{resource.group}@{name}": resource
            for resource in resources
            for name in namespaces
        }
        self._keeper: asyncio.Task[Any] | None = None

    def fault(self) -> str | None:
        """Not live: rules or Bundles aren't watched. To be asked inside the running loop."""
        tasks = {task.get_name(): task for task in asyncio.all_tasks()}
        self._keeper = self._keeper or tasks.get("credentials retriever")
        if self._keeper is not None and self._keeper.done():
            return "kopf keeps no credentials any more, so rules and Bundles aren't watched"
        missing = [res.key for name, res in self._expected.items() if name not in tasks]
        if missing and any(name.startswith(WATCHER) for name in tasks):
            return f"kopf doesn't watch {' and '.join(missing)}"
        return None
