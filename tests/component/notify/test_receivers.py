"""Receivers that hang, or do what they can to hold the operator up."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from tests.component.bundles.waiting import eventually
from tests.component.copies.fake_cluster import FakeCluster
from tests.component.notify.conftest import (
    Make,
    Receiver,
    World,
    begun,
    configure,
    entry,
    failed,
    marks_of,
    secret,
    serve,
)

from copyrator.notify import sending
from copyrator.notify.messages import Message
from copyrator.notify.sending import Order, SendResult, send
from copyrator.workqueue.isolated import Isolated


async def started(cluster: FakeCluster, one: World) -> World:
    """It has read its entries, and tells what happens from now on."""
    await one.start()
    await begun(cluster)
    return one


def send_patiently(order: Order, message: Message) -> SendResult:
    """Wait for an answer for as long as the test takes."""
    sending.SEND_SECONDS = 600.0  # type: ignore[misc] # in the child process
    return send(order, message)


class Patient(Isolated):
    """A child process that waits for an answer for as long as the test takes."""

    async def call(self, _function: Any, group: str, *args: Any, **kwargs: Any) -> Any:
        return await super().call(send_patiently, group, *args, **kwargs)


async def test_one_receiver_that_hangs_keeps_no_other_from_being_told(
    cluster: FakeCluster, receiver: Receiver, world: Make
) -> None:
    async def hang(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    slow = Receiver(answers=[hang] * 100)
    runner = await serve(slow.handle)
    secret(cluster, "slow", url=f"http://127.0.0.1:{runner.addresses[0][1]}/")
    secret(cluster, "chat", url=receiver.url)
    configure(cluster, entry("slow"), entry("chat"))
    one = await started(cluster, world(isolated=lambda: Isolated(wall_seconds=5.0)))
    one.bundle(**failed())
    await eventually(lambda: one.count("slow", "failed") >= 1, "it has a time limit")
    await eventually(lambda: "isn't done after 5 s" in marks_of(cluster)["slow"]["result"])
    await eventually(lambda: receiver.got, "the other one is told")
    waited = one.count("slow", "failed")
    for attempt in (2, 3):
        one.bundle(**failed(attempt))
        await eventually(lambda attempt=attempt: len(receiver.got) == attempt)
    assert one.count("slow", "failed") <= waited + 2, "and is told while the slow one hangs"
    await runner.cleanup()


async def test_three_receivers_that_begin_to_hang_at_once_keep_no_other_from_being_told(
    cluster: FakeCluster, receiver: Receiver, world: Make
) -> None:
    """Nor is what they are sent given up before its own time."""
    hang, slow = asyncio.Event(), Receiver()

    async def waits(_: web.Request) -> web.StreamResponse:
        await hang.wait()
        return web.Response()

    slow.answers = [waits] * 3
    runner = await serve(slow.handle)
    secret(cluster, "slow", url=f"http://127.0.0.1:{runner.addresses[0][1]}/")
    secret(cluster, "chat", url=receiver.url)
    url = {"secretName": "slow", "key": "url"}
    names = ["slow-0", "slow-1", "slow-2"]
    configure(cluster, *(entry(name, urlFrom=url) for name in names), entry("chat"))
    one = await started(cluster, world(isolated=lambda: Patient(wall_seconds=600.0)))
    one.bundle(**failed())
    await eventually(lambda: not slow.answers, "all three hang")
    one.bundle("next", **failed())
    await eventually(lambda: "next" in "".join(receiver.texts), "the other one is told")
    assert [one.count(name, "failed") + one.count(name, "sent") for name in names] == [0, 0, 0]
    hang.set()
    await eventually(lambda: all(one.count(name, "sent") for name in names))
    assert [one.count(name, "failed") for name in names] == [0, 0, 0]
    await runner.cleanup()
