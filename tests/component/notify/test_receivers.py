"""Receivers that hang, objects deleted while nobody led, and what commands say of entries."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner
from tests.component.bundles.waiting import eventually
from tests.component.copies.fake_cluster import FakeCluster
from tests.component.kube.fake_api import error
from tests.component.notify.conftest import (
    HOME,
    Make,
    Receiver,
    World,
    answering,
    begun,
    configure,
    entry,
    failed,
    marks_of,
    secret,
    serve,
)
from tests.kubeconfigs import write_plain

from copyrator.cli import cli
from copyrator.cli.core.installation import Installation
from copyrator.cli.core.notify import check
from copyrator.cli.doctor.check import Check
from copyrator.notify import sending
from copyrator.notify.messages import Message
from copyrator.notify.sending import Order, SendResult, send
from copyrator.settings.config import Settings
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


async def typed(cluster: FakeCluster, folder: Path, *words: str) -> tuple[int, str]:
    """What a person gets who types a command."""
    file = write_plain(folder, cluster.url)
    environment = {"COPYRATOR_OPERATOR_NAMESPACE": HOME, "COLUMNS": "300"}
    command = ["notify", "test", *words, "--kubeconfig", str(file)]
    done = await asyncio.to_thread(CliRunner().invoke, cli, command, env=environment)
    return done.exit_code, done.output


async def checked(one: World) -> Check:
    found = Installation(settings=Settings(namespace=HOME), namespace=HOME, found=True)
    return await check(one.client, found)


async def test_a_test_is_sent_by_the_operator_and_its_result_is_printed(
    cluster: FakeCluster, receiver: Receiver, world: Make, tmp_path: Path
) -> None:
    secret(cluster, url=receiver.url)
    configure(cluster, entry())
    one = world()
    await one.start()
    await begun(cluster)
    assert await typed(cluster, tmp_path, "chat") == (0, "A test message was sent to chat.\n")
    assert len(receiver.got) == 1
    for status in (403, 404):  # it was sent, and is said to be
        receiver.answers.append(answering(status))
        code, said = await typed(cluster, tmp_path, "chat")
        assert code == 1
        assert f"the test message to chat failed: the server answered {status}" in said
        assert "sent" not in said
    secret(cluster, url="https://open.feishu.cn/open-apis/bot/v2/hook/token-abc")
    code, said = await typed(cluster, tmp_path, "chat")
    assert code == 1
    assert "chat that takes no CloudEvents; write it as feishu://" in " ".join(said.split())
    assert "token-abc" not in said


async def test_what_cannot_be_tested_is_said(
    cluster: FakeCluster, world: Make, tmp_path: Path
) -> None:
    code, said = await typed(cluster, tmp_path, "chat")
    assert code == 1
    assert f"there is no ConfigMap {HOME}/copyrator-notifications" in said
    configure(cluster, entry("other"), entry("bad", about=["Nothing"]))
    code, said = await typed(cluster, tmp_path, "bad")
    assert code == 1
    assert "has no valid entry bad; valid ones: other; it has faults: " in said
    code, said = await typed(cluster, tmp_path, "other", "--timeout", "0.2")
    assert code == 1
    assert "the operator hasn't sent the test message within 0.2 s" in said


async def test_doctor_says_what_is_wrong_with_an_entry(
    cluster: FakeCluster, receiver: Receiver, world: Make
) -> None:
    one = world()
    assert (await checked(one)).good is True
    configure(cluster, entry(), entry("bad", kinds=["Pod"]))
    found = await checked(one)
    assert found.good is False
    assert "entries[1].kinds[0]" in found.said
    assert f"chat: Secret {HOME}/chat doesn't exist; create it" in found.said
    configure(cluster, entry())
    secret(cluster, other="x")
    assert "has no text in the key url" in (await checked(one)).said
    secret(cluster, url="syslog://token-abc")
    found = await checked(one)
    assert "has no scheme that is allowed (syslog isn't)" in found.said
    assert "token-abc" not in found.said
    secret(cluster, url="https://Canary.Discord.com./api/webhooks/1/token-abc")
    found = await checked(one)
    assert "write it as discord://" in found.said
    assert "token-abc" not in found.said

    secret(cluster, url=receiver.url)
    receiver.answers.append(answering(500))
    await one.start()
    await begun(cluster)
    assert (await checked(one)).said == "1 entry, all valid"
    one.bundle(**failed())
    await eventually(lambda: "500" in marks_of(cluster)["chat"]["result"] or receiver.got)
    await eventually(lambda: receiver.got)
    await eventually(lambda: marks_of(cluster)["chat"]["result"] == "sent")
    assert (await checked(one)).good is True
