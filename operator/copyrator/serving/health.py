"""/healthz, /readyz and /metrics on one port, started first so that a standby is live.

A check returns None, or a message with the cause of the fault. The body lists every message, one a
line, so that `kubectl describe` and curl show the cause.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from copyrator.serving.listener import Listener

log = logging.getLogger(__name__)

Check = Callable[[], str | None]


class Checks:
    """Named checks of one kind, in the order in which they were added."""

    def __init__(self) -> None:
        self._checks: dict[str, Check] = {}

    def add(self, name: str, check: Check) -> None:
        """Add a check, or replace the one of that name."""
        self._checks[name] = check

    def failures(self) -> list[str]:
        """Return `name: message` of each failing check; a check that raises has failed."""
        failures = []
        for name, check in list(self._checks.items()):
            try:
                reason = check()
            except Exception as error:
                log.exception("The health check %s raised an exception", name)
                reason = f"the check raised an exception ({type(error).__name__})"
            if reason is not None:
                failures.append(f"{name}: {reason}")
        return failures


class HealthServer:
    """Serves the checks and the metrics; an answer also proves that the event loop runs."""

    def __init__(self, registry: CollectorRegistry, *, address: str, port: int) -> None:
        self.live = Checks()
        self.ready = Checks()
        self.before_scrape: Callable[[], None] = lambda: None
        self._registry = registry
        self._listener = Listener(
            address=address,
            port=port,
            what="/healthz, /readyz and /metrics",
            option="--health-port",
        )

    @property
    def port(self) -> int:
        """The actual port after the start."""
        return self._listener.port

    async def start(self) -> None:
        """Listen.

        Raises:
            ListenError: the port can't be opened.
        """
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        await self._listener.start(app)
        log.info("Health and metrics on %s", self._listener.url)

    async def stop(self) -> None:
        """Stop listening; idempotent."""
        await self._listener.stop()

    async def _healthz(self, _request: web.Request) -> web.Response:
        return _answer(self.live.failures())

    async def _readyz(self, _request: web.Request) -> web.Response:
        return _answer(self.live.failures() + self.ready.failures())

    async def _metrics(self, request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        self.before_scrape()
        # In the loop, not in a thread: gauges read live structures of the queue and the watches.
        body = encode(self._registry)
        return web.Response(body=body, headers={"Content-Type": content_type})


def _answer(failures: list[str]) -> web.Response:
    if failures:
        return web.Response(status=503, text="\n".join(failures) + "\n")
    return web.Response(text="ok\n")
