"""The composition root's own work: events reach their half, the resync is a safety net."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from copyrator.api.keys import BundleKey, CopyKey, Key, RuleKey
from copyrator.handlers import deduplication
from copyrator.kube.client.answers import Page
from copyrator.kube.client.transport import Connection, Endpoint
from copyrator.kube.errors import Unreachable
from copyrator.kube.resources import BUNDLES, RULES, Resource
from copyrator.runtime import logs
from copyrator.runtime.app import App, Parts
from copyrator.settings.config import Settings
from copyrator.workqueue.queue import Done, Outcome, WorkQueue


class Half:
    """A controller that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[str, bool]] = []
        self.keys: list[Key] = []
        self.fields: list[dict[str, str]] = []

    def rule_event(self, body: Any, *, deleted: bool) -> None:
        self.events.append((body["metadata"]["name"], deleted))

    bundle_event = rule_event

    async def reconcile(self, key: Key) -> Outcome:
        self.keys.append(key)
        logging.getLogger("copyrator").warning("looking")
        return Done()


class Server:
    """Answers lists of rules and Bundles, or doesn't."""

    def __init__(self) -> None:
        self.names: dict[Resource, list[str]] = {RULES: ["main"], BUNDLES: ["shop"]}
        self.faults = 0
        self.lists = 0

    async def list_pages(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        field_selector: str | None = None,
        limit: int,
    ) -> AsyncIterator[Page]:
        self.lists += 1
        if self.faults:
            self.faults -= 1
            raise Unreachable("away")
        items = [
            {"metadata": {"namespace": "default", "name": name, "resourceVersion": "1"}}
            for name in self.names[res]
        ]
        yield Page(items, "1")


@pytest.fixture
async def app() -> App:
    app = App(Settings(), Connection(Endpoint(host="https://nowhere")), step_down=lambda: None)
    parts = SimpleNamespace(
        client=Server(), queue=WorkQueue[Key](), copying=Half(), deploying=Half()
    )
    app._parts = cast("Parts", parts)
    return app


def parts_of(app: App) -> Any:
    return app._parts


async def test_an_event_reaches_its_half(app: App) -> None:
    body = {"metadata": {"namespace": "default", "name": "one", "resourceVersion": "1"}}
    app._rules.event("ADDED", body)
    app._bundles.event("ADDED", body)
    app._bundles.event("DELETED", body)
    assert parts_of(app).copying.events == [("one", False)]
    assert parts_of(app).deploying.events == [("one", False), ("one", True)]


@pytest.mark.parametrize(
    ("key", "half", "fields"),
    [
        (RuleKey("default", "main"), "copying", {"rule": "default/main"}),
        (BundleKey("shop", "app"), "deploying", {"bundle": "shop/app"}),
        (CopyKey("secrets", "team", "tls"), "copying", {"namespace": "team", "name": "tls"}),
    ],
)
async def test_a_key_is_reconciled_by_its_half_under_its_name_in_the_log(
    app: App, key: Key, half: str, fields: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.handler.addFilter(logs.add_context)
    await app._reconcile(key)
    assert getattr(parts_of(app), half).keys == [key]
    (record,) = caplog.records
    assert record.__dict__["fields"] == {**fields, "reconcile": "1"}


async def test_the_resync_looks_at_everything_again_and_outlives_a_fault(app: App) -> None:
    parts = parts_of(app)
    parts.client.faults = 2
    net = asyncio.create_task(
        deduplication.resync_for_ever(parts.client, app._rules, app._bundles, parts.queue, 0.005)
    )
    async with asyncio.timeout(60):
        keys = {await parts.queue.get(), await parts.queue.get()}
    net.cancel()
    await asyncio.gather(net, return_exceptions=True)
    assert keys == {RuleKey("default", "main"), BundleKey("default", "shop")}
    assert parts.client.lists >= 4
    assert parts.copying.events == [("main", False)]


async def test_stopping_what_never_started_does_no_harm(app: App) -> None:
    await app.stop()
    await app.stop()
