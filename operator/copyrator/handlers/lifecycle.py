"""Start and end of the process as kopf calls them, and how kopf itself is set up."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
from collections.abc import Iterator
from typing import Any, Protocol

import kopf

from copyrator.api.names import RULE_PREFIX

log = logging.getLogger(__name__)

PREFIX = RULE_PREFIX.rstrip("/")


class StartError(Exception):
    """The process can't work and waiting won't help; the message says what to do."""


class Lifecycle(Protocol):
    """What starts and stops with kopf."""

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
            raise kopf.PermanentError(str(error)) from None

    @kopf.on.cleanup(registry=registry, id="stop")
    async def stop(**_: Any) -> None:
        await lifecycle.stop()


async def run_kopf(registry: kopf.OperatorRegistry, lifecycle: Lifecycle) -> int:
    """Run kopf until SIGTERM or SIGINT; return the process's exit code."""
    try:
        return await _run_kopf(registry)
    finally:
        await lifecycle.stop()  # where kopf fails, it leaves its cleanup out


async def _run_kopf(registry: kopf.OperatorRegistry) -> int:
    others = asyncio.all_tasks()
    stop = asyncio.Event()
    settings = kopf.OperatorSettings()
    configure(settings)
    tasks = await kopf.spawn_tasks(
        registry=registry, settings=settings, clusterwide=True, stop_flag=stop
    )
    take_signals(stop)  # from kopf, which took them just now: its handlers fail on a second one
    try:
        await kopf.run_tasks(tasks, ignored=others)
    except Exception as error:
        # Already logged by kopf where it happened; what is still unknown is that it was the end.
        log.critical("The watch of rules and Bundles ended: %s", error)
        return 1
    if not stop.is_set():
        log.critical("The watch of rules and Bundles ended by itself")
        return 1
    return 0


def take_signals(stop: asyncio.Event) -> None:
    """Let the first SIGTERM or SIGINT set `stop`, and a second one end the process at once."""
    loop = asyncio.get_running_loop()

    def received(number: signal.Signals) -> None:
        if stop.is_set():
            log.warning("%s again: leaving at once, work in hand is given up", number.name)
            os._exit(128 + number)
        log.info("%s: finishing the work in hand", number.name)
        stop.set()

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
    settings.watching.chunk_size = 500
    settings.watching.server_timeout = 290
    settings.watching.connect_timeout = 5
    settings.watching.reconnect_backoff = 1.0
    settings.networking.connect_timeout = 5
    settings.networking.request_timeout = 60
    settings.networking.error_backoffs = EndlessBackoff()
    settings.queueing.idle_timeout = 0.5  # an idle object holds a task of kopf's for so long
    settings.process.ultimate_exiting_timeout = 30


class LoginWatch:
    """Finds out when kopf's keeper of credentials has died.

    It is the one task of kopf's whose end isn't the end of the process (kopf 1.45.2), and without
    it a watch whose credentials were refused once waits for ever.
    """

    def __init__(self) -> None:
        self._keeper: asyncio.Task[Any] | None = None

    def fault(self) -> str | None:
        """Not live: kopf can't log in any more. To be asked inside the running loop."""
        if self._keeper is None:
            names = {task.get_name(): task for task in asyncio.all_tasks()}
            self._keeper = names.get("credentials retriever")
        if self._keeper is not None and self._keeper.done():
            return "kopf keeps no credentials any more, so rules and Bundles can't be watched"
        return None


class EndlessBackoff:
    """1 s doubling to 30 s, with jitter, for ever: kopf's own gives up after a minute and exits.

    Without a length, which is how kopf sees that there is no last try.
    """

    def __init__(self, first: float = 1.0, longest: float = 30.0) -> None:
        self._first = first
        self._longest = longest

    def __iter__(self) -> Iterator[float]:
        delay = self._first
        while True:
            yield delay * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
            delay = min(delay * 2, self._longest)
