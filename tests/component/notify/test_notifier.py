"""One message a transition, whatever dies, hangs or bursts."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import sys
from dataclasses import replace

import pytest
from aiohttp import web
from tests.component.bundles.waiting import eventually
from tests.component.copies.fake_cluster import FakeCluster
from tests.component.kube.fake_api import error
from tests.component.notify.conftest import (
    HOME,
    TIMING,
    Mailbox,
    Make,
    Receiver,
    World,
    answering,
    begun,
    configure,
    deployed,
    entry,
    failed,
    marks_of,
    now,
    secret,
)
from tests.steps import STEP_SECONDS, measured_steps

from copyrator.api.keys import BundleKey
from copyrator.api.names import ANN_NOTIFY_TEST
from copyrator.notify.marks import CONFIG_MAP as MARKS
from copyrator.notify.marks import NOTIFICATION_MARKS


def chat(cluster: FakeCluster, receiver: Receiver, **fields: object) -> None:
    secret(cluster, url=f"{receiver.url}/hook/token-abc", hmac="key")
    configure(cluster, entry(**fields))


async def started(cluster: FakeCluster, one: World) -> World:
    """It has read its entries, and tells what happens from now on."""
    await one.start()
    await begun(cluster)
    return one


@pytest.fixture
async def leader(cluster: FakeCluster, receiver: Receiver, world: Make) -> World:
    """It tells one receiver of everything."""
    chat(cluster, receiver)
    return await started(cluster, world())


async def test_without_the_config_map_there_is_one_watch_and_no_other_request(
    cluster: FakeCluster, world: Make
) -> None:
    one = world()
    await one.start()
    one.bundle(**failed())
    await asyncio.sleep(0.1)
    assert {(seen.verb, seen.params.get("fieldSelector")) for seen in cluster.seen} <= {
        ("list", "metadata.name=copyrator-notifications"),
        ("watch", "metadata.name=copyrator-notifications"),
    }
    assert one.bundles.observer is None
    assert one.rules.observer is None
    assert "apprise" not in sys.modules


async def test_a_failure_and_its_end_are_two_signed_cloud_events(
    cluster: FakeCluster, receiver: Receiver, world: Make
) -> None:
    secret(cluster, url=receiver.url + "/hook", hmac="key")
    configure(
        cluster,
        entry(about=["DeployFailed"], signWith={"secretName": "chat", "key": "hmac"}),
        link="https://ui.example.com/{namespace}/{name}",
    )
    one = await started(cluster, world())
    one.bundle(**failed(message="<!channel> boom"))
    await eventually(lambda: receiver.got, "the failure is told")
    one.bundle(**deployed())
    await eventually(lambda: len(receiver.got) == 2, "its end is told")

    headers, body = receiver.got[0]
    signature = hmac.new(b"key", body, hashlib.sha256).hexdigest()
    assert headers["X-Signature"] == f"sha256={signature}"
    assert headers["Content-Type"] == "application/cloudevents+json"
    first, second = receiver.events
    assert first["specversion"] == "1.0"
    assert first["type"] == "io.copyrator.notification"
    assert first["source"] == "/copyrator/ops"
    assert first["subject"] == "Bundle/prod/shop"
    assert first["data"]["severity"] == "failure"
    assert "Bundle shop in prod couldn't be deployed as 1.9.0" in first["data"]["text"]
    assert "copyrator logs bundle -n prod shop" in first["data"]["text"]
    assert "https://ui.example.com/prod/shop" in first["data"]["text"]
    assert "<!channel>" not in str(first)
    assert second["data"]["text"].startswith("Bundle shop in prod: DeployFailed is resolved")
    assert first["id"] != second["id"]
    assert "apprise" not in sys.modules, "it is the child process that sends"


async def test_a_restart_with_nothing_new_tells_and_writes_nothing(
    cluster: FakeCluster, receiver: Receiver, world: Make, leader: World
) -> None:
    leader.bundle(**failed())
    await eventually(lambda: marks_of(cluster)["chat"]["slots"])
    await leader.stop()
    writes = len(cluster.writes("configmaps"))

    other = world()
    other.bundle(**failed())
    await other.start()
    other.bundle("next", **failed(2))
    await eventually(lambda: len(receiver.got) == 2)
    assert "shop" not in receiver.texts[1]
    await eventually(lambda: len(cluster.writes("configmaps")) == writes + 1, "one for the new one")


async def test_what_happened_while_nobody_led_is_told_by_the_next_leader(
    cluster: FakeCluster, receiver: Receiver, world: Make
) -> None:
    chat(cluster, receiver)
    one = await started(cluster, world(timing=replace(TIMING, settle=3600.0)))
    one.bundle(**failed())
    await asyncio.sleep(0.1)
    await one.stop()  # between the transition and its message
    assert receiver.got == []

    other = world()
    other.bundle(**failed())
    await other.start()
    await eventually(lambda: receiver.got)
    other.bundle("next", **failed(2))
    await eventually(lambda: len(receiver.got) == 2)
    assert "next" in receiver.texts[1], "the former one is told once"


async def test_no_step_takes_long_with_ten_thousand_bundles_and_five_entries(
    cluster: FakeCluster, receiver: Receiver, world: Make
) -> None:
    names = [f"chat-{number}" for number in range(5)]
    secret(cluster, "urls", url=receiver.url)
    url = {"secretName": "urls", "key": "url"}
    entries = [entry(name, urlFrom=url) for name in names]
    configure(cluster, *entries)
    one = world()
    await one.start()
    await begun(cluster, names[-1])
    configure(cluster)  # no entries: nothing is looked at while the Bundles are made
    await eventually(lambda: one.bundles.observer is None)
    for i in range(10_000):
        one.bundle(f"shop-{i}", **failed())

    def told() -> int:
        return sum(event["data"]["count"] for event in receiver.events)

    def marked() -> int:
        return sum(len(one["slots"]) for one in marks_of(cluster).values())

    with measured_steps() as steps:
        configure(cluster, *entries)
        await eventually(lambda: told() == 5 * 10_000, "each is told, and once")
        await eventually(lambda: sum(one.count(name, "sent") for name in names) >= 5)
    assert steps.longest < STEP_SECONDS, steps.where
    assert len(receiver.got) < 500
    await eventually(lambda: marked() == NOTIFICATION_MARKS)
    one.bundle("last", **failed())
    await eventually(lambda: told() == 5 * 10_001)
    assert "last" in receiver.texts[-1]


async def test_a_server_that_fails_is_asked_again_and_nothing_is_lost(
    cluster: FakeCluster, receiver: Receiver, world: Make
) -> None:
    chat(cluster, receiver)
    receiver.answers += [answering(500), answering(429, Retry_After="1")]
    one = await started(cluster, world())
    one.bundle(**failed())
    await eventually(lambda: one.failing == 1.0)
    assert marks_of(cluster)["chat"]["slots"] == {}
    await eventually(lambda: receiver.got)
    await eventually(lambda: one.failing == 0.0)
    assert one.count("chat", "failed") == 2
    assert one.count("chat", "sent") == 1
    await eventually(lambda: marks_of(cluster)["chat"]["result"] == "sent")


async def test_a_rotated_secret_is_used_without_a_restart(
    cluster: FakeCluster, receiver: Receiver, leader: World
) -> None:
    leader.bundle(**failed())
    await eventually(lambda: receiver.got)
    secret(cluster, url=f"{receiver.url}/rotated")
    leader.bundle(**failed(2))
    await eventually(lambda: "/rotated" in receiver.paths)


async def test_a_missing_secret_and_a_forbidden_scheme_are_faults_of_their_entry(
    cluster: FakeCluster, receiver: Receiver, world: Make
) -> None:
    chat(cluster, receiver)
    secret(cluster, "local", url="syslog://token-abc")
    secret(cluster, "teams", url="https://prod-1.westus.logic.azure.com/workflows/a?sig=token-abc")
    configure(cluster, entry("gone"), entry("local"), entry("teams"), entry("chat"))
    one = await started(cluster, world())
    one.bundle(**failed())
    await eventually(lambda: receiver.got)
    await eventually(lambda: "NotFound" in marks_of(cluster)["gone"]["result"])
    await eventually(lambda: "(syslog isn't)" in marks_of(cluster)["local"]["result"])
    await eventually(lambda: "write it as workflow://" in marks_of(cluster)["teams"]["result"])
    assert one.count("teams", "sent") == 0
    assert "token-abc" not in str(marks_of(cluster))


async def test_a_broken_config_map_is_said_and_nothing_is_lost_meanwhile(
    cluster: FakeCluster, receiver: Receiver, leader: World
) -> None:
    cluster.object("configmaps", HOME, "copyrator-notifications", data={"notifications.yaml": "["})

    def faults() -> float | None:
        return leader.metrics.registry.get_sample_value("copyrator_notification_faults")

    await eventually(lambda: faults() == 1.0)
    leader.bundle(**failed())
    assert "chat" in marks_of(cluster)
    chat(cluster, receiver)
    await eventually(lambda: receiver.got, "what happened meanwhile is told")
    assert faults() == 0.0


async def test_a_removed_entry_is_told_nothing_and_leaves_no_marks(
    cluster: FakeCluster, leader: World
) -> None:
    cluster.gone("configmaps", HOME, "copyrator-notifications")
    await eventually(lambda: marks_of(cluster) == {})
    leader.bundle(**failed())
    assert leader.bundles.observer is None
    assert leader.failing is None


async def test_a_rule_is_told_too_and_entries_choose(
    cluster: FakeCluster, receiver: Receiver, world: Make
) -> None:
    secret(cluster, url=receiver.url)
    configure(cluster, entry(kinds=["CopyratorRule"], namespaces=["o*"]))
    one = await started(cluster, world())
    one.bundle(**failed())
    ends = {"type": "CertificateExpiring", "status": "True", "reason": "CertificateExpiring"}
    ends |= {"lastTransitionTime": "2099-01-01T00:00:00Z", "message": "api ends on Monday"}
    one.rule(conditions=[ends])
    await eventually(lambda: receiver.got)
    (text,) = receiver.texts
    assert text == (
        "CopyratorRule creds in ops copies a certificate that ends soon: api ends on Monday\n"
        "copyrator describe rule -n ops creds"
    )


async def test_a_replica_that_does_not_lead_sends_nothing(
    cluster: FakeCluster, receiver: Receiver, world: Make
) -> None:
    chat(cluster, receiver)
    leads = [True]
    one = await started(cluster, world(leads=lambda: leads[0]))
    leads[0] = False
    one.bundle(**failed())
    await eventually(lambda: one.failing == 1.0 or receiver.paths)
    assert (one.failing, receiver.paths) == (1.0, [])


async def test_a_test_is_sent_once_and_its_result_is_stored(
    cluster: FakeCluster, receiver: Receiver, world: Make, leader: World
) -> None:
    request = f"chat {now()}"
    body = cluster.found("configmaps", HOME, "copyrator-notifications")
    assert body is not None
    metadata = {"annotations": {ANN_NOTIFY_TEST: request}}
    cluster.object(
        "configmaps", HOME, "copyrator-notifications", data=body["data"], metadata=metadata
    )
    await eventually(lambda: marks_of(cluster)["chat"].get("tested") == request)
    await eventually(lambda: marks_of(cluster)["chat"].get("test_result") == "sent")
    (text,) = receiver.texts
    assert text.startswith("This is a test of the entry chat")
    await leader.stop()

    other = world()
    await other.start()
    other.bundle(**failed())
    await eventually(lambda: len(receiver.got) == 2)
    assert "test" not in receiver.texts[1], "a restart doesn't send it again"


async def test_the_deletion_of_what_has_a_fault_is_told_and_its_successor_has_none(
    cluster: FakeCluster, receiver: Receiver, leader: World
) -> None:
    leader.bundle(**failed())
    await eventually(lambda: receiver.got)
    leader.bundles.remove(BundleKey("prod", "shop"), "uid-prod-shop")
    await eventually(lambda: len(receiver.got) == 2)
    said = "Bundle shop in prod: DeployFailed is resolved, it was deleted"
    assert receiver.texts[1].startswith(said)
    await eventually(lambda: "!" not in str(marks_of(cluster)["chat"]["slots"]))


@pytest.mark.parametrize("anew", [False, True], ids=["", "and made anew"])
async def test_what_is_deleted_before_its_fault_is_told_is_told_as_both(
    receiver: Receiver, anew: bool, leader: World
) -> None:
    leader.bundle(**failed())
    await asyncio.sleep(0)
    leader.bundles.remove(BundleKey("prod", "shop"), "uid-prod-shop")
    if anew:
        leader.bundle(uid="another")
    await eventually(lambda: len(receiver.got) == 2)
    assert "couldn't be deployed" in receiver.texts[0]
    assert "it was deleted" in receiver.texts[1]


async def test_a_mail_server_that_refuses_a_text_for_good_is_not_sent_it_again(
    cluster: FakeCluster, receiver: Receiver, world: Make
) -> None:
    mailbox = Mailbox(refuses=b"etc/passwd")
    async with mailbox.serving() as host:
        secret(cluster, url=f"mailto://{host}?from=a@example.com&to=b@example.com&format=text")
        configure(cluster, entry(about=["DeployFailed"]))
        one = await started(cluster, world())
        one.bundle(**failed(message="etc/passwd"))
        await eventually(lambda: mailbox.mails)
        assert mailbox.texts[0].startswith("1 Bundle: DeployFailed: prod/shop")
        assert mailbox.refused == 1

        mailbox.refuses = b"shop"
        one.bundle(**failed(2))
        await eventually(lambda: "554" in marks_of(cluster)["chat"]["result"])
        await eventually(lambda: mailbox.refused == 3, "the whole text, and the brief one")
        await asyncio.sleep(3 * TIMING.retries[0])
        assert mailbox.refused == 3
        assert one.failing == 1.0
        mailbox.refuses = b"nothing"
        one.bundle("other", **failed())
        await eventually(lambda: len(mailbox.mails) == 2)
        assert "prod/shop, prod/other" in mailbox.texts[1]


async def test_marks_of_nonsense_begin_anew_and_tell_nothing_old(
    cluster: FakeCluster, receiver: Receiver, world: Make
) -> None:
    cluster.object("configmaps", HOME, MARKS, data={"marks.json": "nonsense"})
    chat(cluster, receiver)
    one = world()
    one.bundle("old", **failed(at="2026-01-01T00:00:00Z"))
    await one.start()
    await eventually(lambda: "nonsense" not in str(cluster.found("configmaps", HOME, MARKS)))
    one.bundle("new", **failed())
    await eventually(lambda: receiver.got)
    assert "old" not in receiver.texts[0]


async def test_a_status_of_a_hostile_tenant_is_one_message_and_no_more(
    receiver: Receiver, leader: World
) -> None:
    leader.bundle(**failed(message="@channel " + "x" * 1_000_000, version="<script>" * 1000))
    await eventually(lambda: receiver.got)
    assert len(receiver.got[0][1]) < 8_000
    assert "@channel" not in receiver.texts[0]


async def test_a_text_that_a_receiver_refuses_holds_up_no_others(
    cluster: FakeCluster, receiver: Receiver, world: Make
) -> None:
    async def filtered(request: web.Request) -> web.StreamResponse:
        refused = b"etc/passwd" in await request.read()
        if not refused:
            receiver.got.append((dict(request.headers), await request.read()))
        return web.Response(status=403 if refused else 204)

    chat(cluster, receiver, about=["DeployFailed"])
    receiver.answers += [filtered] * 10
    one = await started(cluster, world())
    one.bundle(**failed(message="../../etc/passwd"))
    one.bundle("other", **failed())
    await eventually(lambda: receiver.got)
    assert receiver.texts[0].startswith("2 Bundles: DeployFailed: prod/shop, prod/other")
    await eventually(lambda: len(marks_of(cluster)["chat"]["slots"]) == 2)
    assert one.count("chat", "failed") == 2


async def test_an_unexpected_error_ends_no_entry(
    cluster: FakeCluster, receiver: Receiver, leader: World
) -> None:
    call = leader.notifier._quick.call

    async def broken(*_: object) -> None:
        leader.notifier._quick.call = call
        raise RuntimeError("https://example.com/token-abc")

    leader.notifier._quick.call = broken
    leader.bundle(**failed())
    await eventually(lambda: "RuntimeError" in marks_of(cluster)["chat"]["result"])
    assert "token-abc" not in str(marks_of(cluster))
    await eventually(lambda: receiver.got)


async def test_a_correction_of_an_entry_is_tried_at_once(
    cluster: FakeCluster, receiver: Receiver, world: Make
) -> None:
    secret(cluster, url=receiver.url)
    configure(cluster, {"name": "chat", "urlFrom": {"secretName": "chat", "key": "typo"}})
    one = await started(cluster, world(timing=replace(TIMING, retries=(3600.0,))))
    one.bundle(**failed())
    await eventually(lambda: "has no key typo" in marks_of(cluster)["chat"]["result"])
    configure(cluster, entry(minInterval="720h"))
    await eventually(lambda: receiver.got)
    for name in ("next", "and-another"):
        one.bundle(name, **failed())
    await asyncio.sleep(0.5)
    assert len(receiver.got) == 1, "minInterval makes one message of many"
    configure(cluster, entry(minInterval="1s"))
    await eventually(lambda: len(receiver.got) == 2)
    assert receiver.events[1]["data"]["count"] == 2


async def test_marks_that_cannot_be_written_are_an_alert_until_they_can(
    cluster: FakeCluster, receiver: Receiver, caplog, leader: World
) -> None:
    cluster.always("patch", error(403, "Forbidden"))
    leader.bundle(**failed())
    await eventually(lambda: leader.failing == 1.0)
    await eventually(lambda: sum(seen.verb == "patch" for seen in cluster.seen) >= 4, "tried again")
    assert caplog.text.count("the marks can't be written") == 1
    cluster.behave()
    await eventually(lambda: leader.failing == 0.0)
    assert len(receiver.got) == 1


async def test_the_result_of_an_earlier_test_is_not_taken_for_that_of_a_new_one(
    cluster: FakeCluster, receiver: Receiver, leader: World
) -> None:
    body = cluster.found("configmaps", HOME, "copyrator-notifications")
    assert body is not None

    def ask(request: str) -> None:
        metadata = {"annotations": {ANN_NOTIFY_TEST: request}}
        home = "copyrator-notifications"
        cluster.object("configmaps", HOME, home, data=body["data"], metadata=metadata)

    ask("chat first")
    await eventually(lambda: marks_of(cluster)["chat"].get("test_result") == "sent")
    hangs = asyncio.Event()

    async def hang(_: web.Request) -> web.StreamResponse:
        await hangs.wait()
        return web.Response(status=500)

    receiver.answers.append(hang)
    ask("chat second")
    await eventually(lambda: not receiver.answers)
    await leader.notifier._save()  # as another entry's message does
    stored = marks_of(cluster)["chat"]
    assert stored["tested"] == "chat second"
    assert stored.get("test_result", "") == ""
    hangs.set()
    await eventually(lambda: "500" in marks_of(cluster)["chat"]["test_result"])
