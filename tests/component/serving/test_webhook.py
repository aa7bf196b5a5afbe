"""The webhook answers over real HTTP; only who knows the secret is heard."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import io
import json
import logging
import os
import re
import socket
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_network
from itertools import islice
from pathlib import Path
from urllib.parse import urlencode

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from tests.junk import LIVING, complaints
from tests.recorded_notifications import RECORDED, REFUSED, Recorded
from yarl import URL

from copyrator.metrics import Metrics
from copyrator.oci.notifications import Push
from copyrator.serving.listener import CONNECTIONS_PER_PEER, ListenError
from copyrator.serving.webhook import (
    DEFAULT_TIMING,
    MAX_RELAY_ANSWER,
    PATH,
    WEBHOOK_BEARER_CALLS,
    WEBHOOK_BODY_BYTES,
    WebhookError,
    WebhookServer,
    WebhookTiming,
    webhook_url,
)
from demo.chart import ROOT
from hostile.mangled import JSON, TEXTS, mangled

SECRET = "correct horse"
BODY = json.dumps({"registry": "r.example.com", "repository": "shop/app", "tag": "1"}).encode()
BEARER = {"Authorization": f"Bearer {SECRET}"}


@dataclass
class Hook:
    """A running webhook and what it was told."""

    secret_file: Path
    metrics: Metrics = field(default_factory=Metrics)
    told: list[Push] = field(default_factory=list)
    server: WebhookServer | None = None
    proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    timing: WebhookTiming = DEFAULT_TIMING

    def pushed(self, pushes: Sequence[Push]) -> int:
        self.told.extend(pushes)
        return len(pushes)

    def make(self, port: int = 0, leader: str | None = None) -> WebhookServer:
        return WebhookServer(
            metrics=self.metrics,
            address="127.0.0.1",
            port=port,
            secret_file=self.secret_file,
            trusted_proxies=self.proxies,
            leader=lambda: leader,
            timing=self.timing,
        )

    @property
    def url(self) -> str:
        assert self.server is not None
        return f"http://127.0.0.1:{self.server.port}{PATH}"

    async def call(
        self,
        body: bytes | io.BytesIO = BODY,
        headers: dict[str, str] | None = None,
        method: str = "POST",
        query: str = "",
    ) -> tuple[int, str]:
        url = URL(self.url + query, encoded=True)
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, url, data=body, headers=headers) as response,
        ):
            return response.status, await response.text()

    def metric(self, line: str) -> bool:
        return line in generate_latest(self.metrics.registry).decode()


@pytest.fixture
def timing() -> WebhookTiming:
    """The timeouts of `hook`; a test may parametrize them."""
    return DEFAULT_TIMING


@pytest.fixture
async def hook(tmp_path: Path, timing: WebhookTiming) -> AsyncIterator[Hook]:
    secret_file = tmp_path / "secret"
    secret_file.write_text(f"{SECRET}\n")
    hook = Hook(secret_file, timing=timing)
    hook.server = hook.make()
    hook.server.pushed = hook.pushed
    await hook.server.start()
    yield hook
    await hook.server.stop()


@pytest.fixture
async def standby(hook: Hook) -> AsyncIterator[Hook]:
    """Another replica, which knows the leader's address."""
    standby = Hook(hook.secret_file)
    standby.server = standby.make(leader=hook.url)
    await standby.server.start()
    yield standby
    await standby.server.stop()


def signed(body: bytes, secret: str = SECRET) -> dict[str, str]:
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {"X-Hub-Signature-256": f"sha256={digest}"}


def basic(text: str) -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(text.encode()).decode()}"}


def hmac_of(body: bytes, algorithm: str = "sha256", secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, algorithm).hexdigest()


TOKEN = hmac_of(b"/hooks/registry")
"""What docs/webhook.md computes for URLs."""
NO_SIGNATURES = {
    "X-Hub-Signature": "sha1=",
    "X-Hub-Signature-256": "sha256=",
    "X-Gitea-Signature": "",
    "X-Gogs-Signature": "",
}
"""What Gitea sends where no secret is set."""
BY_GITEA = {
    "X-Hub-Signature": f"sha1={hmac_of(BODY, 'sha1')}",
    "X-Hub-Signature-256": f"sha256={hmac_of(BODY)}",
    "X-Gitea-Signature": hmac_of(BODY),
    "X-Gogs-Signature": hmac_of(BODY),
}


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        (BEARER, ""),
        ({"Authorization": f"bearer {SECRET}"}, ""),
        (basic(f"copyrator:{SECRET}"), ""),  # EventBridge, Azure, zot
        (basic(f":{SECRET}"), ""),
        (signed(BODY), ""),  # GitHub
        (BY_GITEA, ""),
        ({"X-Gitea-Signature": hmac_of(BODY)}, ""),
        ({"X-Forgejo-Signature": hmac_of(BODY), **BY_GITEA}, ""),
        ({**NO_SIGNATURES, **BEARER}, ""),
        ({"X-JFrog-Event-Auth": hmac_of(BODY)}, ""),
        ({"X-JFrog-Event-Auth": f"sha256={hmac_of(BODY)}"}, ""),
        ({"X-JFrog-Event-Auth": SECRET}, ""),
        ({"X-Nexus-Webhook-Signature": hmac_of(BODY, "sha1")}, ""),
        ({"X-Gitlab-Token": SECRET}, ""),
        ({}, f"?token={TOKEN}"),  # Docker Hub, Quay, Alibaba
        ({"Authorization": "Bearer eyJhbGciOiJSUzI1NiJ9.e30.x"}, f"?a=b&token={TOKEN}"),  # Pub/Sub
    ],
)
async def test_who_knows_the_secret_is_heard(
    hook: Hook, headers: dict[str, str], query: str
) -> None:
    assert await hook.call(headers=headers, query=query) == (202, "1 Bundle is polled now\n")
    assert hook.told == [Push("shop/app", "r.example.com", "1")]
    assert hook.metric('copyrator_webhook_calls_total{code="202",sender="generic"} 1.0')
    assert hook.metric("copyrator_webhook_polls_total 1.0")


@pytest.mark.parametrize(
    ("headers", "query"),
    [
        ({}, ""),
        ({"Authorization": "Bearer "}, ""),
        ({"Authorization": "Bearer wrong"}, ""),
        ({"Authorization": f"Bearer {SECRET}x"}, ""),
        ({"Authorization": f"Bearer {TOKEN}"}, ""),  # out of a log: only for URLs
        ({"Authorization": f"Basic {SECRET}"}, ""),
        ({"Authorization": SECRET}, ""),
        ({"Authorization": "Bearer é"}, ""),
        (basic(SECRET), ""),
        (basic(f"{SECRET}:"), ""),
        (basic("copyrator:wrong"), ""),
        (basic(f"copyrator:{SECRET}x"), ""),
        ({"Authorization": "Basic !!!!"}, ""),
        ({"Authorization": "Basic /////w=="}, ""),
        (signed(BODY, "wrong"), ""),
        (signed(BODY + b" "), ""),
        ({"X-Hub-Signature-256": f"sha1={hmac_of(BODY, 'sha1')}"}, ""),
        ({"X-Hub-Signature-256": hmac_of(BODY, "sha1")}, ""),
        ({"X-Hub-Signature-256": SECRET}, ""),
        ({"X-Hub-Signature": f"sha1={hmac_of(BODY, 'sha1')}"}, ""),
        # A signature that is there must be good.
        ({**signed(BODY, "wrong"), **BEARER}, f"?token={TOKEN}"),
        ({**signed(BODY, "wrong"), "X-Gitea-Signature": hmac_of(BODY)}, ""),
        ({"X-Hub-Signature-256": "nonsense", **BEARER}, ""),
        (NO_SIGNATURES, ""),
        ({"X-Gitea-Signature": hmac_of(BODY, secret="")}, ""),
        ({"X-Forgejo-Signature": hmac_of(BODY + b" ")}, ""),
        ({"X-JFrog-Event-Auth": "wrong"}, ""),
        ({"X-JFrog-Event-Auth": hmac_of(BODY, secret="wrong")}, ""),
        ({"X-Nexus-Webhook-Signature": hmac_of(BODY, "sha1", "wrong")}, ""),
        ({"X-Nexus-Webhook-Signature": hmac_of(BODY)}, ""),
        ({"X-Gitlab-Token": "wrong"}, ""),
        ({"X-Gitlab-Token": ""}, ""),
        ({"X-Gitlab-Token": TOKEN}, ""),
        ({}, f"?token={SECRET.replace(' ', '%20')}"),  # the secret is never in a URL
        ({}, "?token="),
        ({}, "?token=%ff%ed%a0%80"),
        ({}, f"?token={TOKEN}0"),
        ({}, f"?token={TOKEN.upper()}"),
        ({}, f"?Token={TOKEN}"),
        ({}, f"?token={hmac_of(b'/hooks/registry', secret='wrong')}"),
    ],
)
async def test_nobody_else_is_heard(hook: Hook, headers: dict[str, str], query: str) -> None:
    status, text = await hook.call(headers=headers, query=query)
    assert status == 401
    assert SECRET not in text
    assert hook.told == []
    assert hook.metric('copyrator_webhook_calls_total{code="401",sender="unknown"} 1.0')


def test_the_document_computes_the_token_of_urls() -> None:
    text = (ROOT / "docs" / "webhook.md").read_text()
    (command,) = re.findall(r"^ +(printf .* openssl .*)$", text, re.MULTILINE)
    env = {"PATH": os.environ["PATH"], "SECRET": SECRET}
    found = subprocess.run(["sh", "-c", command], env=env, capture_output=True, check=True)
    assert found.stdout.decode().strip() == TOKEN


async def test_a_secret_that_looks_like_a_signature_is_a_secret(hook: Hook) -> None:
    """`openssl rand -hex 32` makes one; Artifactory sends it, or a signature by it."""
    secret = "0123456789abcdef" * 4
    hook.secret_file.write_text(secret)
    for sent in (secret, hmac_of(BODY, secret=secret)):
        assert (await hook.call(headers={"X-JFrog-Event-Auth": sent}))[0] == 202
    wrong = hmac_of(BODY, secret="wrong")
    assert (await hook.call(headers={"X-JFrog-Event-Auth": wrong}))[0] == 401


FORM = urlencode({"payload": BODY}).encode()


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (FORM, signed(FORM), 202),  # GitHub
        (FORM, {"X-Gitea-Signature": hmac_of(BODY)}, 202),  # Gitea signs the JSON
        (FORM, BEARER, 202),
        (BODY, {"Content-Type": "application/x-www-form-urlencoded", **BEARER}, 202),  # curl -d
        (BODY, {"Content-Type": "text/plain; charset=UTF-8", **BEARER}, 202),
        (BODY, {"Content-Type": "application/vnd.docker.distribution.events.v1+json", **BEARER},
         202),
        (FORM + b"0", signed(FORM), 401),
        (FORM, signed(BODY + b" "), 401),
        (b"payload=", BEARER, 400),
        (b"payload=%00", BEARER, 400),
        (b"other=1", BEARER, 400),
    ],
)  # fmt: skip
async def test_a_form_is_read_and_other_types_of_content_are_json(
    hook: Hook, body: bytes, headers: dict[str, str], status: int
) -> None:
    assert (await hook.call(body, headers))[0] == status
    assert hook.told == ([Push("shop/app", "r.example.com", "1")] if status == 202 else [])


@pytest.mark.parametrize("row", RECORDED, ids=str)
async def test_each_senders_event_is_heard_through_a_standby_too(
    hook: Hook, standby: Hook, row: Recorded
) -> None:
    headers = {**BEARER, **({"Ce-Type": row.event_type} if row.event_type else {})}
    assert (await standby.call(row.body, headers))[0] == 202
    assert tuple(hook.told) == row.pushes
    assert hook.metric(f'copyrator_webhook_calls_total{{code="202",sender="{row.sender}"}} 1.0')


@pytest.mark.parametrize("row", REFUSED, ids=str)
async def test_what_tells_of_no_push_is_refused(hook: Hook, row: Recorded) -> None:
    assert (await hook.call(row.body, BEARER))[0] == 400
    assert hook.told == []


async def test_a_body_that_is_too_long_is_refused(hook: Hook) -> None:
    long = io.BytesIO(b" " * (WEBHOOK_BODY_BYTES + 1))
    assert (await hook.call(long, BEARER))[0] == 413
    assert hook.metric('copyrator_webhook_calls_total{code="413",sender="unknown"} 1.0')


async def test_a_long_body_without_a_length_is_refused_as_well(hook: Hook) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b" " * (WEBHOOK_BODY_BYTES // 2)

    async with (
        aiohttp.ClientSession() as session,
        session.post(hook.url, data=chunks(), headers=BEARER) as response,
    ):
        assert response.status == 413


@pytest.mark.parametrize("timing", [WebhookTiming(bearer=0.05)], ids=["short"])
async def test_a_body_that_never_ends_is_given_up(hook: Hook) -> None:
    assert hook.server is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", hook.server.port)
    writer.write(
        f"POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {SECRET}\r\n"
        "Content-Length: 10\r\n\r\nabc".encode()
    )
    answer = await asyncio.wait_for(reader.readline(), 60)
    writer.close()
    assert b" 408 " in answer


async def test_too_many_calls_at_a_time_are_put_off(hook: Hook) -> None:
    async with slow_calls(hook, WEBHOOK_BEARER_CALLS, f"Authorization: Bearer {SECRET}"):
        async with asyncio.timeout(8):  # less than slow calls may take
            while (await hook.call(headers=BEARER))[0] != 503:
                await asyncio.sleep(0.01)


def request_head(*headers: str, length: int = 10) -> bytes:
    lines = [f"POST {PATH} HTTP/1.1", "Host: x", f"Content-Length: {length}", *headers]
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n"


@asynccontextmanager
async def slow_calls(
    hook: Hook, number: int, *headers: str
) -> AsyncIterator[list[asyncio.StreamReader]]:
    """Calls that send some of their body and then nothing."""
    assert hook.server is not None
    streams = [await asyncio.open_connection("127.0.0.1", hook.server.port) for _ in range(number)]
    for _, writer in streams:
        writer.write(request_head(*headers) + b"abc")
        await writer.drain()
    try:
        yield [reader for reader, _ in streams]
    finally:
        for _, writer in streams:
            writer.close()


SOME_SIGNATURE = "X-Hub-Signature-256: sha256=" + "0" * 64


@pytest.mark.parametrize("header", ["X-Nothing: 1", "Authorization: Bearer wrong", SOME_SIGNATURE])
async def test_slow_bodies_of_strangers_keep_nobody_out(hook: Hook, header: str) -> None:
    async with slow_calls(hook, 40, header):
        assert await hook.call(headers=BEARER) == (202, "1 Bundle is polled now\n")


@pytest.mark.parametrize(
    "header",
    [
        "X-Nothing: 1",
        "Authorization: Basic Og==",
        "X-JFrog-Event-Auth: wrong",
    ],
)
async def test_a_stranger_is_refused_before_its_body_and_sent_away(hook: Hook, header: str) -> None:
    async with slow_calls(hook, 1, header) as (reader,):
        async with asyncio.timeout(8):
            answer = await reader.read()  # to the end: the connection is closed
    assert b" 401 " in answer.partition(b"\r\n")[0]
    assert b"Connection: close" in answer


async def test_a_peer_has_few_signed_calls_and_others_are_heard_meanwhile(tmp_path: Path) -> None:
    """Both come through one proxy, which says who they are."""
    secret_file = tmp_path / "secret"
    secret_file.write_text(SECRET)
    hook = Hook(secret_file, proxies=(ip_network("127.0.0.0/8"),))
    hook.server = hook.make()
    hook.server.pushed = hook.pushed
    await hook.server.start()
    slow = ("X-Forwarded-For: 203.0.113.1, 198.51.100.1", SOME_SIGNATURE)
    async with slow_calls(hook, 40, *slow):
        good = {**signed(BODY), "X-Forwarded-For": "198.51.100.1, 198.51.100.2"}
        assert (await hook.call(headers=good))[0] == 202
        assert len(hook.server._signed) == 1  # nothing is remembered of who isn't there
    await hook.server.stop()


@pytest.mark.parametrize(
    "sent",
    [
        request_head(f"Authorization: Bearer {SECRET}") + b"abc",
        f"POST {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {SECRET}\r\n"
        "Transfer-Encoding: chunked\r\n\r\nzz\r\n".encode(),
        f"POST {PATH} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".encode(),
        b"\x16\x03\x01\x00\xa5",
        b"POST / HTTP/1.1\r\nX: " + b"a" * 10_000 + b"\r\n\r\n",
        b"POST",
    ],
)
async def test_who_hangs_up_or_speaks_nonsense_leaves_no_line(
    hook: Hook, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    assert hook.server is not None
    for _ in range(3):
        _, writer = await asyncio.open_connection("127.0.0.1", hook.server.port)
        writer.write(sent)
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.transport.abort()
        await asyncio.sleep(0.05)
    assert (await hook.call(headers=BEARER))[0] == 202
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == []


async def test_a_peer_has_a_bounded_number_of_connections(hook: Hook) -> None:
    assert hook.server is not None
    port, most = hook.server.port, CONNECTIONS_PER_PEER + 3
    streams = [await asyncio.open_connection("127.0.0.1", port) for _ in range(most)]
    ended = [asyncio.create_task(reader.read()) for reader, _ in streams]

    for task in islice(asyncio.as_completed(ended, timeout=10), 3):
        await task
    await asyncio.sleep(0.1)

    assert sum(task.done() for task in ended) == 3
    for _, writer in streams:
        writer.transport.abort()
    await asyncio.gather(*ended, return_exceptions=True)


async def test_a_rotated_secret_counts_from_the_next_call_on(hook: Hook) -> None:
    hook.secret_file.write_text("new secret")
    assert (await hook.call(headers=BEARER))[0] == 401
    assert (await hook.call(headers={"Authorization": "Bearer new secret"}))[0] == 202


async def test_without_its_secret_it_hears_nobody(hook: Hook) -> None:
    hook.secret_file.unlink()
    assert (await hook.call(headers=BEARER))[0] == 503
    hook.secret_file.write_text("\n")
    assert (await hook.call(headers={"Authorization": "Bearer "}))[0] == 503


@pytest.mark.parametrize("text", [None, "", " \n"])
async def test_it_does_not_start_without_a_secret(tmp_path: Path, text: str | None) -> None:
    secret_file = tmp_path / "secret"
    if text is not None:
        secret_file.write_text(text)
    with pytest.raises(WebhookError, match=str(secret_file)):
        await Hook(secret_file).make().start()


@pytest.mark.parametrize(
    ("body", "headers", "query"),
    [
        (BODY, BEARER, ""),
        (BODY, signed(BODY), ""),
        (BODY, {}, f"?token={TOKEN}"),
        (FORM, signed(FORM), ""),
    ],
)
async def test_what_reaches_a_standby_is_heard_by_the_leader(
    hook: Hook, standby: Hook, body: bytes, headers: dict[str, str], query: str
) -> None:
    answer = await standby.call(body, headers, query=query)
    assert answer == (202, "1 Bundle is polled now\n")
    assert hook.told == [Push("shop/app", "r.example.com", "1")]
    assert hook.metric('copyrator_webhook_calls_total{code="202",sender="generic"} 1.0')
    assert not standby.metric("copyrator_webhook_calls_total{"), "it is counted once"


async def test_a_standby_passes_on_nobody_who_does_not_know_the_secret(
    hook: Hook, standby: Hook
) -> None:
    assert (await standby.call(headers={"Authorization": "Bearer wrong"}))[0] == 401
    assert hook.metric("copyrator_webhook_calls_total{") is False


async def test_the_secret_itself_is_never_passed_on(hook: Hook) -> None:
    """The address comes out of the Lease: whoever wrote another there learns nothing."""
    heard: list[str] = []

    async def thief(request: web.Request) -> web.Response:
        heard.append(f"{request.headers} {await request.read()!r}")
        headers = {"Location": "/elsewhere"}
        return web.Response(status=302, headers=headers, text="x" * 1_000_000)

    app = web.Application()
    app.router.add_post("/{path:.*}", thief)
    async with TestServer(app) as server:
        standby = hook.make(leader=str(server.make_url("/")))
        await standby.start()
        hook.server, leader = standby, hook.server
        status, text = await hook.call(headers=BEARER)
        assert (status, len(text) <= MAX_RELAY_ANSWER) == (302, True)
        hook.server = leader
        await standby.stop()
    assert len(heard) == 1, "no redirect is followed"
    assert SECRET not in heard[0]


@pytest.mark.parametrize("address", [None, "http://127.0.0.1:1/hooks/registry", "nonsense"])
async def test_without_a_leader_that_can_be_reached_the_caller_shall_try_again(
    hook: Hook, address: str | None
) -> None:
    leader, hook.server = hook.server, hook.make(leader=address)
    await hook.server.start()
    status, text = await hook.call(headers=BEARER)
    await hook.server.stop()
    hook.server = leader
    assert (status, "try again" in text) == (503, True)


async def test_what_was_passed_on_once_is_not_passed_on_again(hook: Hook, standby: Hook) -> None:
    """Two replicas that each take the other for the leader."""
    assert hook.server is not None
    hook.server.pushed = None
    status, text = await standby.call(headers=BEARER)
    assert (status, "isn't the leader" in text) == (503, True)


async def test_a_port_that_is_taken_is_said(hook: Hook) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=rf"127.0.0.1:{port}.*--webhook-port"):
            await hook.make(port).start()


HEADERS = st.dictionaries(
    st.sampled_from(
        [
            "Authorization",
            "X-Hub-Signature-256",
            "X-Gitea-Signature",
            "X-JFrog-Event-Auth",
            "X-Nexus-Webhook-Signature",
            "X-Gitlab-Token",
            "X-GitHub-Event",
            "Content-Type",
            "Ce-Type",
        ]
    ),
    (
        TEXTS
        | st.sampled_from(
            [f"Bearer {SECRET}", "Bearer", "Basic", "Basic Og==", "sha256=", "0" * 40]
        )
    ).filter(lambda text: text.isprintable() and text.isascii()),
)
PAYLOAD = {
    "type": "PUSH_ARTIFACT",
    "events": [{"action": "push", "target": {"repository": "shop/app", "tag": "1"}}],
    "event_data": {
        "resources": [{"resource_url": "r.example.com/shop/app:1", "tag": "1"}],
        "repository": {"name": "app", "namespace": "shop", "repo_full_name": "shop/app"},
    },
    "registry": "r.example.com",
    "repository": {"repo_name": "shop/app", "name": "app", "namespace": "shop"},
    "push_data": {"tag": "1"},
    "registry_package": {"name": "app", "package_type": "container", "namespace": "shop"},
}


@LIVING
@given(
    body=st.binary(max_size=64)
    | (mangled(PAYLOAD) | JSON).map(lambda one: json.dumps(one).encode()),
    headers=HEADERS,
    knows=st.booleans(),
)
async def test_whatever_is_sent_is_answered_and_the_next_call_heard(
    hook: Hook, caplog: pytest.LogCaptureFixture, body: bytes, headers: dict[str, str], knows: bool
) -> None:
    status, _ = await hook.call(body, headers | BEARER if knows else headers)
    assert status in (202, 400, 401)
    hook.told.clear()

    assert await hook.call(BODY, BEARER) == (202, "1 Bundle is polled now\n")
    assert hook.told == [Push("shop/app", "r.example.com", "1")]
    assert complaints(caplog) == []


@pytest.mark.parametrize("timing", [WebhookTiming(signed=0.05)], ids=["short"])
async def test_a_signed_call_without_its_body_is_given_up(hook: Hook) -> None:
    async with slow_calls(hook, 3, SOME_SIGNATURE) as readers:
        for reader in readers:
            assert b" 408 " in await asyncio.wait_for(reader.readline(), 60)


def test_an_address_of_ipv6_is_put_in_brackets() -> None:
    assert webhook_url("fd00::1", 80, PATH) == "http://[fd00::1]:80/hooks/registry"
    assert webhook_url("10.0.0.1", 80, PATH) == "http://10.0.0.1:80/hooks/registry"
