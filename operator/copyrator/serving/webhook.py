"""POST /hooks/registry: push notifications of registries, which start a poll at once.

Off unless a port and a secret are configured. A call only makes polls due at once: the version to
deploy is still read from the registry by the operator itself, so a forged call, or a stolen secret,
can only cause an earlier poll. Every replica listens, and a standby relays its calls to the leader.

A Service selects all ready replicas, and a standby is ready; the leader's URL is an annotation of
the Lease. The body is signed again: the secret itself is never sent to an address from an
annotation.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import os
import re
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Final

import aiohttp
from aiohttp import web

from copyrator.api.text import count
from copyrator.metrics import Metrics
from copyrator.oci.notifications import (
    EVENT_TYPE,
    Push,
    UnreadableNotificationError,
    parse_notification,
    unwrap_form,
)
from copyrator.serving.listener import CALLERS_FAULTS, HEADER_SECONDS, Listener, Peers
from copyrator.workqueue.fairness import FairLimit

WEBHOOK_BODY_BYTES: Final = 128 * 1024
"""Bytes of a call; the longest payloads (GitHub's) are some 50 KB, and decoding 1 MB of brackets
takes 0.2 s."""

WEBHOOK_BEARER_CALLS: Final = 16
"""Calls with the secret as a bearer token that are read at a time: 2 MiB."""

WEBHOOK_BEARER_SECONDS: Final = 10.0
"""Seconds that such a call has for its body."""

WEBHOOK_SIGNED_CALLS: Final = 16
"""Calls with a signature that are read at a time, fair between peers: the caller is authenticated
only after the body was read."""

WEBHOOK_SIGNED_CALLS_PER_PEER: Final = 2
"""Of those, from one peer (an IPv4 address or an IPv6 /64)."""

WEBHOOK_SIGNED_SECONDS: Final = 5.0
"""Seconds that a signed call waits for its slot and has for its body: registries wait no longer
for an answer."""

log = logging.getLogger(__name__)

PATH: Final = "/hooks/registry"

_SIGNATURES: Final = {
    "X-Hub-Signature-256": "sha256",
    "X-Forgejo-Signature": "sha256",
    "X-Gitea-Signature": "sha256",
    "X-JFrog-Event-Auth": "sha256",
    "X-Nexus-Webhook-Signature": "sha1",
}
"""Headers with an HMAC of the body, of which the first in this order counts, and its hash."""

_HMAC: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

_TOKENS: Final = ("X-Gitlab-Token", "X-JFrog-Event-Auth")
"""Headers with the secret itself, beside Authorization."""

_UNKNOWN: Final = "unknown"

Pushed = Callable[[Sequence[Push]], int]
"""Called with the pushes; returns the number of Bundles that are affected."""


class WebhookError(Exception):
    """The secret can't be read; the message gives the cause and the remedy."""


class _RefusedCall(Exception):  # noqa: N818 - an answer, not an error
    """A refused call, and the answer to its sender."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTiming:
    """Timeouts in seconds; only tests use others than the defaults."""

    header: float = HEADER_SECONDS
    bearer: float = WEBHOOK_BEARER_SECONDS
    signed: float = WEBHOOK_SIGNED_SECONDS


DEFAULT_TIMING: Final = WebhookTiming()


class WebhookServer:
    """Accepts notifications, or relays them to the ``leader``, a function that returns its URL."""

    def __init__(
        self,
        *,
        metrics: Metrics,
        address: str,
        port: int,
        secret_file: Path,
        trusted_proxies: Sequence[IPv4Network | IPv6Network] = (),
        leader: Callable[[], str | None] = lambda: None,
        timing: WebhookTiming = DEFAULT_TIMING,
    ) -> None:
        self.pushed: Pushed | None = None
        """Called with a call's pushes; None while this replica doesn't lead."""
        self._peers = Peers(trusted_proxies)
        self._listener = Listener(
            address=address,
            port=port,
            what=PATH,
            option="--webhook-port",
            peers=self._peers,
            header_seconds=timing.header,
        )
        self._leader = leader
        self._timing = timing
        self._metrics = metrics
        self._secret_file = secret_file
        self._bearers = 0
        self._signed = FairLimit(each=WEBHOOK_SIGNED_CALLS_PER_PEER, together=WEBHOOK_SIGNED_CALLS)

    @property
    def port(self) -> int:
        """The actual port after the start."""
        return self._listener.port

    async def start(self) -> None:
        """Listen.

        Raises:
            WebhookError: there is no secret.
            ListenError: the port can't be opened.
        """
        self._secret()
        app = web.Application(client_max_size=WEBHOOK_BODY_BYTES)
        app.router.add_post(PATH, self._call)
        await self._listener.start(app)
        log.info("Webhook on %s%s", self._listener.url, PATH)

    async def stop(self) -> None:
        """Stop listening; idempotent."""
        await self._listener.stop()

    async def _call(self, request: web.Request) -> web.Response:
        sender = _UNKNOWN
        try:
            secret = self._known_secret()
            body = await self._authentic_body(request, secret)
            if self.pushed is None and RELAYED not in request.headers:
                # The leader counts it.
                event_type = request.headers.get(EVENT_TYPE)
                status, text = await send_to_leader(self._leader(), body, event_type, secret)
                return web.Response(status=status, text=text)
            sender, found = self._take(body, request.headers.get(EVENT_TYPE))
            status, text = 202, f"{count(found, 'Bundle is', 'Bundles are')} polled now"
        except _RefusedCall as refusal:
            status, text = refusal.status, refusal.text
        self._metrics.webhook_calls.labels(sender, str(status)).inc()
        response = web.Response(status=status, text=f"{text}\n")
        if status != 202:
            response.force_close()  # the rest of its body isn't read
        return response

    def _known_secret(self) -> bytes:
        try:
            return self._secret()
        except WebhookError as error:
            log.error("%s", error)
            raise _RefusedCall(
                503, "the webhook's secret can't be read; see the operator's log"
            ) from None

    async def _authentic_body(self, request: web.Request, secret: bytes) -> bytes:
        """Return the body of an authenticated caller.

        A secret is checked before the body is read. A signature is over the body, so that the
        body of any caller is read: few at a time, few for each peer, and with a short timeout.
        """
        signature = sent_signature(request.headers, secret)
        if signature is None:
            if not knows_secret(request, secret):
                raise _unknown()
            return await self._body_of_bearer(request)
        algorithm, sent = signature
        if not _HMAC.fullmatch(sent):
            raise _unknown()
        peer = self._peers.caller(request.remote, request.headers.getall("X-Forwarded-For", ()))
        try:
            async with asyncio.timeout(self._timing.signed), self._signed.slot(peer):
                body = await _body(request)
        except TimeoutError:
            raise _too_slow(self._timing.signed) from None
        # Of a form GitHub signs the body, and Gitea the JSON in it.
        if not any(
            hmac.compare_digest(sent, hmac.new(secret, text, algorithm).hexdigest())
            for text in (body, unwrap_form(body))
        ):
            raise _unknown()
        return body

    async def _body_of_bearer(self, request: web.Request) -> bytes:
        if self._bearers >= WEBHOOK_BEARER_CALLS:
            raise _RefusedCall(503, "too many calls at a time; try again")
        self._bearers += 1
        try:
            async with asyncio.timeout(self._timing.bearer):
                return await _body(request)
        except TimeoutError:
            raise _too_slow(self._timing.bearer) from None
        finally:
            self._bearers -= 1

    def _take(self, body: bytes, event_type: str | None) -> tuple[str, int]:
        """Process an authenticated body; return the sender and the number of affected Bundles."""
        if self.pushed is None:
            raise _RefusedCall(503, "this replica isn't the leader; try again")
        try:
            notification = parse_notification(body, event_type)
        except UnreadableNotificationError as error:
            raise _RefusedCall(400, str(error)) from None
        count = self.pushed(notification.pushes)
        self._metrics.webhook_polls.inc(count)
        return notification.sender, count

    def _secret(self) -> bytes:
        """Read the secret from its file: a rotated one is valid from the next call on."""
        try:
            secret = self._secret_file.read_bytes().strip()
        except OSError as error:
            raise WebhookError(
                f"The webhook's secret can't be read from {self._secret_file} "
                f"({os.strerror(error.errno or 0)}): check --webhook-secret-file."
            ) from None
        if not secret:
            raise WebhookError(
                f"{self._secret_file} is empty: it must contain the webhook's secret."
            )
        return secret


async def _body(request: web.Request) -> bytes:
    """Read the body, bounded in size."""
    too_long = _RefusedCall(413, f"at most {WEBHOOK_BODY_BYTES} bytes")
    if (request.content_length or 0) > WEBHOOK_BODY_BYTES:
        raise too_long
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise too_long from None
    except CALLERS_FAULTS:
        raise _RefusedCall(400, "the body is incomplete") from None


def _unknown() -> _RefusedCall:
    return _RefusedCall(
        401,
        "the secret is needed (Authorization: Bearer …), a signature by it "
        "(X-Hub-Signature-256), or its token in the URL; see docs/webhook.md",
    )


def _too_slow(seconds: float) -> _RefusedCall:
    return _RefusedCall(408, f"the body took more than {seconds:.0f} s")


def sent_signature(headers: Mapping[str, str], secret: bytes) -> tuple[str, str] | None:
    """The hash of a call's signature, and its value; None: the call has none.

    Gitea sends empty ones where it has no secret. Artifactory's header has either a signature or
    the secret itself.
    """
    for name, algorithm in _SIGNATURES.items():
        value = headers.get(name, "").strip().removeprefix("sha256=")
        if value and not _is_same(value, secret):
            return algorithm, value
    return None


def knows_secret(request: web.BaseRequest, secret: bytes) -> bool:
    """Whether the caller sent the secret, or the token of its URL; compared in constant time."""
    scheme, _, sent = request.headers.get("Authorization", "").partition(" ")
    tokens = [request.headers.get(name, "") for name in _TOKENS]
    if scheme.lower() == "bearer":
        tokens.append(sent)
    elif scheme.lower() == "basic":
        tokens.append(_password(sent))
    if any(_is_same(token.strip(), secret) for token in tokens):
        return True
    return _is_same(request.query.get("token", ""), url_token(secret).encode())


def url_token(secret: bytes) -> str:
    """The token for URLs, for senders that can set no header: logs of proxies contain URLs.

    The secret can't be computed from it.
    """
    return hmac.new(secret, PATH.encode(), "sha256").hexdigest()


def _password(credentials: str) -> str:
    """The password of Basic authentication."""
    try:
        decoded = b64decode(credentials.strip(), validate=True)
    except ValueError:
        return ""
    return decoded.partition(b":")[2].decode(errors="surrogateescape")


def _is_same(text: str, secret: bytes) -> bool:
    return hmac.compare_digest(text.encode(errors="surrogateescape"), secret)


RELAYED: Final = "X-Copyrator-Relayed"
"""Marks a relayed call, which is never relayed again."""
RELAY_SECONDS: Final = 5.0
"""Timeout of the leader's answer: registries wait about as long for theirs."""
MAX_RELAY_ANSWER: Final = 4096
"""Bytes of the leader's answer that are returned."""

_AGAIN: Final = "try again, or wait for the next poll\n"


def webhook_url(host: str, port: int, path: str) -> str:
    """This replica's URL for the other replicas; an IPv6 address is put in brackets."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"


def sign_body(body: bytes, secret: bytes) -> str:
    """The signature of the body, as in GitHub's X-Hub-Signature-256."""
    return "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()


async def send_to_leader(
    leader: str | None, body: bytes, event_type: str | None, secret: bytes
) -> tuple[int, str]:
    """Send the body to the leader; return the status and text for the caller."""
    if leader is None:
        return 503, f"no leading replica can be reached: {_AGAIN}"
    headers = {"X-Hub-Signature-256": sign_body(body, secret), RELAYED: "1"}
    if event_type is not None:
        headers[EVENT_TYPE] = event_type
    timeout = aiohttp.ClientTimeout(total=RELAY_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(leader, data=body, headers=headers, allow_redirects=False) as answer,
        ):
            text = await answer.content.read(MAX_RELAY_ANSWER)
            return answer.status, text.decode(errors="replace")
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
        return 503, f"the leading replica can't be reached: {_AGAIN}"
