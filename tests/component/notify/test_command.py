"""`copyrator notify test` and doctor's check, against an operator's notifier."""

from __future__ import annotations

import asyncio
from pathlib import Path

from click.testing import CliRunner
from tests.component.bundles.waiting import eventually
from tests.component.copies.fake_cluster import FakeCluster
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
)
from tests.kubeconfigs import write_plain

from copyrator.cli import cli
from copyrator.cli.core.installation import Installation
from copyrator.cli.core.notify import check
from copyrator.cli.doctor.check import Check
from copyrator.settings.config import Settings


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
