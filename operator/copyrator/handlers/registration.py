"""The handlers that kopf calls: login, start and stop, and each event of a rule or Bundle."""

from __future__ import annotations

from typing import Any

import kopf

from copyrator.handlers import lifecycle
from copyrator.handlers.deduplication import EventDeduplicator
from copyrator.handlers.kopf_guard import KopfGuard
from copyrator.handlers.lifecycle import Lifecycle

Registry = kopf.OperatorRegistry


def register(
    registry: Registry, process: Lifecycle, guard: KopfGuard, *deduplicators: EventDeduplicator
) -> None:
    """Register the handlers; each event of a deduplicator's resource is passed to it."""
    lifecycle.register(registry, process)
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
    res = deduplicator.resource

    @kopf.on.event(res.group, res.version, res.plural, registry=registry, id=res.plural)
    async def take(event: kopf.RawEvent, **_: Any) -> None:
        deduplicator.event(event.get("type"), event.get("object") or {})
