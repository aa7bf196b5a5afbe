"""What a receiver of notifications, or who writes what they quote, can make the operator do."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.component.bundles.waiting import eventually
from tests.component.copies.fake_cluster import FakeCluster
from tests.component.notify.conftest import (
    TIMING,
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

from copyrator.notify.notifier import make_isolated

TOKEN = "token-abc-of-the-channel"
FORMS = {
    "a webhook": "http://{host}/hook/" + TOKEN,
    "a service": "mmost://{host}/" + TOKEN,
    "JSON of the library": "mmosts://{host}/" + TOKEN,
}
ONCE = replace(TIMING, retries=(3600.0,))


@pytest.fixture(autouse=True)
def _all_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


async def started(cluster: FakeCluster, one: World) -> World:
    await one.start()
    await begun(cluster)
    return one


def chat(cluster: FakeCluster, url: str) -> None:
    secret(cluster, url=url)
    configure(cluster, entry())


def shown(cluster: FakeCluster, one: World, caplog: pytest.LogCaptureFixture) -> str:
    """All that was written but the Secrets, what is logged, and the metrics."""
    written = [body for path, body in cluster.objects.items() if "/secrets/" not in path]
    samples = [str(family) for family in one.metrics.registry.collect()]
    lines = [f"{one.getMessage()} {one.exc_text}" for one in caplog.records if is_ours(one)]
    return json.dumps(written) + "\n".join((*lines, *samples))


def is_ours(record: logging.LogRecord) -> bool:
    """Whether it isn't of the servers of the test."""
    return record.name != "aiohttp.access"


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("form", ["a webhook", "a service"])
async def test_a_receivers_redirect_isnt_followed(
    cluster: FakeCluster, receiver: Receiver, world: Make, form: str, code: int
) -> None:
    """Neither on its host, nor to another one, such as one inside the cluster."""
    inside = Receiver()
    runner = await serve(inside.handle)
    host = receiver.url.removeprefix("http://")
    elsewhere = f"http://127.0.0.1:{runner.addresses[0][1]}/latest/meta-data"
    chat(cluster, FORMS[form].format(host=host))
    receiver.answers += [answering(code, Location=elsewhere)]
    one = await started(cluster, world(timing=ONCE))
    one.bundle(**failed())

    await eventually(lambda: str(code) in str(marks_of(cluster)["chat"].get("result")))

    assert inside.paths == []
    assert len(receiver.paths) == 1
    assert "redirect" in marks_of(cluster)["chat"]["result"]
    await runner.cleanup()


async def cut(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


FAULTS: dict[str, Any] = {
    "it answers 404": answering(404),
    "it answers 500": answering(500),
    "it redirects": answering(302, Location=f"/elsewhere/{TOKEN}"),
    "it hangs up": cut,
}


@pytest.mark.parametrize("fault", [*FAULTS, "it isn't there", "it is sent"])
@pytest.mark.parametrize("form", FORMS)
async def test_urls_are_never_logged_nor_shown(
    cluster: FakeCluster,
    receiver: Receiver,
    world: Make,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    form: str,
    fault: str,
) -> None:
    host = receiver.url.removeprefix("http://")
    if fault == "it isn't there":
        host = "127.0.0.1:9"
    chat(cluster, FORMS[form].format(host=host))
    receiver.answers += [FAULTS[fault]] if fault in FAULTS else []
    one = await started(cluster, world(timing=ONCE, isolated=make_isolated))
    one.bundle(**failed())

    await eventually(lambda: marks_of(cluster)["chat"].get("result"))

    await one.stop()  # and with it the process that sends, whose lines are here
    assert capfd.readouterr() == ("", "")
    said = shown(cluster, one, caplog)
    assert TOKEN not in said
    assert "secret text of the server" not in said


INVALID = {
    "of an unknown scheme": f"file://host/{TOKEN}",
    "with a user": f"https://user:{TOKEN}@host/",
    "with blanks": f"https://host/ {TOKEN}",
    "without a host": f"https:///{TOKEN}",
    "that is incomplete": f"mmost://?token={TOKEN}",
    "that is no URL": f"https://[{TOKEN}",
}


@pytest.mark.parametrize("what", INVALID)
async def test_an_url_that_cant_be_used_isnt_quoted(
    cluster: FakeCluster, world: Make, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    chat(cluster, INVALID[what])
    one = world(timing=ONCE)
    await one.start()
    one.bundle(**failed())

    await eventually(lambda: one.failing == 1.0 or "entry chat" in caplog.text)

    assert TOKEN not in shown(cluster, one, caplog)


PARAMETERS = ("template={file}", "filename={file}", "attach={file}", "%74emplate={file}")


@pytest.mark.parametrize("parameter", PARAMETERS)
async def test_templates_and_files_of_the_library_arent_read(
    cluster: FakeCluster, receiver: Receiver, world: Make, tmp_path: Path, parameter: str
) -> None:
    file = tmp_path / "secret.json"
    file.write_text('{"text": "contents of a file"}')
    host = receiver.url.removeprefix("http://")
    chat(cluster, f"mmost://{host}/{TOKEN}?{parameter.format(file=file)}")
    one = world(timing=ONCE)
    await one.start()
    one.bundle(**failed())

    await eventually(lambda: one.failing == 1.0)

    assert receiver.paths == []


@pytest.mark.parametrize("form", ["a webhook", "a service"])
async def test_what_looks_like_a_template_is_sent_as_it_is(
    cluster: FakeCluster, receiver: Receiver, world: Make, form: str
) -> None:
    host = receiver.url.removeprefix("http://")
    chat(cluster, FORMS[form].format(host=host))
    one = await started(cluster, world())
    one.bundle(**failed(version="${HOME}{{app_id}}"))

    await eventually(lambda: receiver.got)

    body = json.loads(receiver.got[0][1])
    text = body["data"]["text"] if form == "a webhook" else body["text"]
    assert "HOME" in text
    assert "app_id" in text
    assert "Copyrator" not in text.replace("Copyrator: ", "")
    assert str(Path.home()) not in text


@pytest.mark.parametrize("seconds", [2, 1800])
async def test_a_retry_after_holds_back_that_receiver_only_and_for_that_long(
    cluster: FakeCluster, receiver: Receiver, world: Make, seconds: int
) -> None:
    busy = Receiver(answers=[answering(429, Retry_After=str(seconds))])
    times: list[float] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        times.append(asyncio.get_running_loop().time())
        return await busy.handle(request)

    runner = await serve(handle)
    secret(cluster, "busy", url=f"http://127.0.0.1:{runner.addresses[0][1]}/")
    secret(cluster, "chat", url=receiver.url)
    configure(cluster, entry("busy"), entry("chat"))
    one = world(timing=replace(TIMING, retries=(0.1,)))
    await one.start()
    await begun(cluster)
    await begun(cluster, "busy")
    one.bundle(**failed())
    await eventually(lambda: len(receiver.got) == 1 and times)

    for attempt in (2, 3):
        one.bundle(**failed(attempt))
        await eventually(lambda attempt=attempt: len(receiver.got) == attempt)

    if seconds == 2:
        await eventually(lambda: busy.got, "it is told after its pause")
        assert times[1] - times[0] > 1.5
    assert len(times) == (2 if seconds == 2 else 1)
    await runner.cleanup()


HIDDEN = {
    "HTTPS_PROXY": "http://user:hidden-of-the-operator@proxy:3128",
    "SOME_PASSWORD": "hidden-of-the-operator",
    "AWS_SECRET_ACCESS_KEY": "hidden-of-the-operator",
    "KUBECONFIG": "/hidden-of-the-operator",
}
NEEDED = {"PYTHONPATH", "PYTHONIOENCODING"}


async def test_the_helper_process_gets_only_the_variables_that_it_needs(
    cluster: FakeCluster, receiver: Receiver, world: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = children_of_this()
    chat(cluster, f"{receiver.url}/{TOKEN}")
    one = await started(cluster, world(isolated=make_isolated))
    for name, value in HIDDEN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    one.bundle(**failed())
    await eventually(lambda: receiver.got)

    (pid,) = children_of_this() - before

    assert names_of(pid) == NEEDED


def children_of_this() -> set[int]:
    """Processes that this one has started."""
    found: set[int] = set()
    for file in Path("/proc/self/task").glob("*/children"):
        found |= set(map(int, file.read_text().split()))
    return found


def names_of(pid: int) -> set[str]:
    """The variables that a process was started with."""
    raw = Path(f"/proc/{pid}/environ").read_bytes().decode()
    return {one.partition("=")[0] for one in raw.split("\0") if one}


@pytest.mark.parametrize("since", ["the start", "a moment"])
async def test_the_standby_writes_nothing_not_even_marks(
    cluster: FakeCluster, receiver: Receiver, world: Make, since: str
) -> None:
    leads = [since == "a moment"]
    chat(cluster, f"{receiver.url}/{TOKEN}")
    one = world(timing=replace(TIMING, retries=(0.05,)), leads=lambda: leads[0])
    await one.start()
    if since == "a moment":
        await begun(cluster)
        leads[0] = False
    before = len(cluster.seen)
    one.bundle(**failed())
    secret(cluster, "more", url=f"{receiver.url}/{TOKEN}")
    configure(cluster, entry(), entry("more"))
    one.bundle("other", **failed())

    await eventually(lambda: set(one.notifier._lanes) == {"chat", "more"}, "it has read them")
    if since == "a moment":
        await eventually(lambda: one.failing == 1.0 or receiver.paths, "it has tried")
    for _ in range(20):
        await asyncio.sleep(0.02)  # what a leader writes by then

    assert [
        seen for seen in cluster.seen[before:] if seen.verb not in ("get", "list", "watch")
    ] == []
    assert receiver.paths == []
