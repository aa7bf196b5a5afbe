"""POST /hooks/registry: registries say that something was pushed, so that nobody waits for a poll.

Off unless it has a port of its own and a secret. A call only brings polls forward: what is
deployed is still what the registry answers to the operator's own question, so whoever forges a
call, or has stolen the secret, can make it ask sooner and nothing else. Every replica listens, and
one that doesn't lead passes what it hears on (relay.py).
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from aiohttp import web

from copyrator import relay
from copyrator.listener import Listener
from copyrator.metrics import Metrics
from copyrator.oci.notifications import Push, UnreadableNotificationError, parse_notification

log = logging.getLogger(__name__)

PATH: Final = "/hooks/registry"
MAX_BODY: Final = 1024 * 1024
"""Bytes; the longest payloads (GitHub's) are some 50 KB."""
MAX_CALLS: Final = 16
"""Calls that are read at a time, so that bodies take 16 MB at most."""
BODY_SECONDS: Final = 10.0
"""A caller gets so long to send its body."""

_UNKNOWN: Final = "unknown"

Pushed = Callable[[Sequence[Push]], int]
"""Takes what was pushed and returns how many Bundles care."""


class WebhookError(Exception):
    """The secret can't be read; the message says why and what to do."""


class _Refusal(Exception):  # noqa: N818 - an answer, not an error
    """A call that isn't taken, and what its sender reads."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class WebhookServer:
    """Takes notifications, or passes them on to the ``leader``, whose URL may be known."""

    def __init__(
        self,
        *,
        metrics: Metrics,
        address: str,
        port: int,
        secret_file: Path,
        leader: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.pushed: Pushed | None = None
        """Is told what a call names; None while this replica doesn't work."""
        self._listener = Listener(address=address, port=port, what=PATH, option="--webhook-port")
        self._leader = leader
        self._metrics = metrics
        self._secret_file = secret_file
        self._calls = 0

    @property
    def port(self) -> int:
        """The real one once it has started."""
        return self._listener.port

    async def start(self) -> None:
        """Listen.

        Raises:
            WebhookError: there is no secret.
            ListenError: the port can't be had.
        """
        self._secret()
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_post(PATH, self._call)
        await self._listener.start(app)
        log.info("Webhook on %s%s", self._listener.url, PATH)

    async def stop(self) -> None:
        """Stop listening; safe to call twice."""
        await self._listener.stop()

    async def _call(self, request: web.Request) -> web.Response:
        self._calls += 1
        sender = _UNKNOWN
        try:
            if self._calls > MAX_CALLS:
                raise _Refusal(503, "too many calls at a time; try again")
            body = await _body(request)
            secret = self._checked(request.headers, body)
            if self.pushed is None and relay.HOPPED not in request.headers:
                # What becomes of it is counted where it is taken.
                status, text = await relay.pass_on(self._leader(), body, secret)
                return web.Response(status=status, text=text)
            sender, count = self._take(body)
            status, text = 202, f"{count} Bundles are looked at now"
        except _Refusal as refusal:
            status, text = refusal.status, refusal.text
        finally:
            self._calls -= 1
        self._metrics.webhook_calls.labels(sender, str(status)).inc()
        return web.Response(status=status, text=f"{text}\n")

    def _checked(self, headers: Mapping[str, str], body: bytes) -> bytes:
        """The secret, which the caller was found to know."""
        try:
            secret = self._secret()
        except WebhookError as error:
            log.error("%s", error)
            raise _Refusal(503, "the operator has no secret to check this with") from None
        if not is_authentic(headers, body, secret):
            raise _Refusal(
                401, "Authorization: Bearer … or a signature in X-Hub-Signature-256 is needed"
            )
        return secret

    def _take(self, body: bytes) -> tuple[str, int]:
        """Pass on what an honest caller says; returns who speaks, and how many Bundles care."""
        if self.pushed is None:
            raise _Refusal(503, "this replica doesn't lead (any more); try again")
        try:
            notification = parse_notification(body)
        except UnreadableNotificationError as error:
            raise _Refusal(400, str(error)) from None
        count = self.pushed(notification.pushes)
        self._metrics.webhook_polls.inc(count)
        return notification.sender, count

    def _secret(self) -> bytes:
        """The secret as it stands there now: a rotated one counts from the next call on."""
        try:
            secret = self._secret_file.read_bytes().strip()
        except OSError as error:
            raise WebhookError(
                f"The webhook's secret can't be read from {self._secret_file} "
                f"({os.strerror(error.errno or 0)}): check --webhook-secret-file."
            ) from None
        if not secret:
            raise WebhookError(f"{self._secret_file} is empty: it must hold the webhook's secret.")
        return secret


async def _body(request: web.Request) -> bytes:
    """The body, bounded in size and time."""
    too_long = _Refusal(413, f"at most {MAX_BODY} bytes")
    if (request.content_length or 0) > MAX_BODY:
        raise too_long
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise too_long from None
    except TimeoutError:
        raise _Refusal(408, f"the body took more than {BODY_SECONDS:.0f} s") from None


def is_authentic(headers: Mapping[str, str], body: bytes, secret: bytes) -> bool:
    """Tell whether the caller knows the secret; a near miss takes as long as any other.

    Either it signed the body with it (HMAC-SHA256, as GitHub does), or it sends it as it is.
    """
    signature = headers.get("X-Hub-Signature-256")
    if signature is not None:
        return hmac.compare_digest(_bytes(signature), relay.sign(body, secret).encode())
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(_bytes(token.strip()), secret)


def _bytes(text: str) -> bytes:
    """What was sent, also where it is no text."""
    return text.encode(errors="surrogateescape")
