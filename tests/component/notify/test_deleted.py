"""The end of a fault whose object was deleted while no operator ran."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from aiohttp import web
from tests.component.bundles.waiting import eventually
from tests.component.copies.fake_cluster import FakeCluster
from tests.component.kube.fake_api import error
from tests.component.notify.conftest import (
    HOME,
    Make,
    Receiver,
    begun,
    configure,
    entry,
    failed,
    marks_of,
    secret,
)

NOT_READY = {
    "conditions": [
        {
            "type": "Ready",
            "status": "False",
            "reason": "InvalidSpec",
            "lastTransitionTime": "2099-01-01T00:00:00Z",
        }
    ]
}


@pytest.fixture
async def told(cluster: FakeCluster, receiver: Receiver, world: Make) -> None:
    """A Bundle and a rule have faults that were told; then the operator ended."""
    secret(cluster, url=receiver.url)
    configure(cluster, entry(about=["DeployFailed", "NotReady"]))
    one = world()
    await one.start()
    await begun(cluster)
    one.bundle(**failed())
    one.rule(**NOT_READY)
    await eventually(lambda: str(marks_of(cluster)).count("'!'") == 2)
    await one.stop()
    receiver.got.clear()


def lists(cluster: FakeCluster, answer: Callable[[web.Request], object], part: str) -> None:
    """Have lists whose path ends with this answered so."""

    async def answered(request: web.Request) -> web.StreamResponse:
        chosen = answer if request.path.endswith(part) else cluster.serve
        return await chosen(request)

    cluster.always("list", answered)


async def test_it_is_told_once_though_there_is_a_second_restart(
    cluster: FakeCluster, receiver: Receiver, world: Make, told: None
) -> None:
    one = world()
    await one.start()
    await eventually(lambda: sum(event["data"]["count"] for event in receiver.events) == 2)
    text = "\n".join(receiver.texts)
    assert "Bundle shop in prod: DeployFailed is resolved, it was deleted" in text
    assert "CopyratorRule creds in ops: NotReady is resolved, it was deleted" in text
    await eventually(lambda: "!" not in str(marks_of(cluster)["chat"]["slots"]))
    await one.stop()

    other = world()
    await other.start()
    other.bundle("next", **failed())
    await eventually(lambda: "next" in receiver.texts[-1])
    assert sum(event["data"]["count"] for event in receiver.events) == 3


async def test_a_successor_of_the_same_name_has_other_faults(
    cluster: FakeCluster, receiver: Receiver, world: Make, told: None
) -> None:
    one = world()
    one.bundle(uid="another", **failed())
    one.rule(**NOT_READY)
    await one.start()
    await eventually(lambda: sum(event["data"]["count"] for event in receiver.events) == 2)
    text = "\n".join(receiver.texts)
    assert "Bundle shop in prod: DeployFailed is resolved, it was deleted" in text
    assert "Bundle shop in prod couldn't be deployed" in text
    assert "creds" not in text


async def test_what_is_not_watched_any_more_is_not_taken_for_deleted(
    cluster: FakeCluster, receiver: Receiver, world: Make, told: None
) -> None:
    """The rule exists, and isn't cached; whether the Bundle does can't be known."""
    cluster.make_uid = lambda _: "uid-creds"
    cluster.object("copyrators", HOME, "creds")
    lists(cluster, error(403, "Forbidden"), "/bundles")
    one = world()
    await one.start()
    await eventually(lambda: one.notifier._search and one.notifier._search.done())
    one.bundle("next", **failed())
    await eventually(lambda: receiver.got)
    assert "deleted" not in "".join(receiver.texts)
    assert str(marks_of(cluster)).count("'!'") >= 2


async def test_an_api_server_that_fails_is_asked_again(
    cluster: FakeCluster, receiver: Receiver, world: Make, told: None
) -> None:
    lists(cluster, error(500, "InternalError"), "/copyrators")
    one = world()
    one.bundle(**failed())
    await one.start()
    asked = [True for seen in cluster.seen if seen.path.endswith("/copyrators")]
    await eventually(
        lambda: sum(seen.path.endswith("/copyrators") for seen in cluster.seen) >= len(asked) + 2
    )
    assert receiver.got == []
    cluster.behave()
    await eventually(lambda: receiver.got)
    assert "CopyratorRule creds in ops: NotReady is resolved, it was deleted" in receiver.texts[0]


async def test_it_is_told_once_the_entry_has_no_fault_any_more(
    cluster: FakeCluster, receiver: Receiver, world: Make, told: None
) -> None:
    broken = {"notifications.yaml": "["}
    cluster.object("configmaps", HOME, "copyrator-notifications", data=broken)
    one = world()
    one.bundle(**failed())
    await one.start()
    await asyncio.sleep(0)
    configure(cluster, entry(about=["DeployFailed", "NotReady"]))
    await eventually(lambda: receiver.got)
    assert receiver.events[0]["data"]["count"] == 1
    assert "creds" in receiver.texts[0]
