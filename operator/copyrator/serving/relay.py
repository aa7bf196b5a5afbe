"""What reaches the webhook of a replica that doesn't lead is passed on to the one that does.

A Service knows all ready replicas, and a standby is ready; the leader's address is an annotation of
the Lease. The body goes there signed anew: the secret itself is never sent to an address that was
read somewhere.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

import aiohttp

HOPPED: Final = "X-Copyrator-Relayed"
"""Marks what was passed on once: it is never passed on again."""
SECONDS: Final = 5.0
"""For the leader's answer: registries wait about so long for theirs."""
MAX_ANSWER: Final = 4096
"""Bytes of the leader's answer that are passed back."""

_AGAIN: Final = "try again, or wait for the next poll\n"


def url_of(host: str, port: int, path: str) -> str:
    """How other replicas reach this one; an IPv6 address is put in brackets."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"


def sign(body: bytes, secret: bytes) -> str:
    """A signature of the body, as GitHub sends it in X-Hub-Signature-256."""
    return "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()


async def pass_on(leader: str | None, body: bytes, secret: bytes) -> tuple[int, str]:
    """Send it to the leader; returns the status and text that its caller shall read."""
    if leader is None:
        return 503, f"no replica leads that could be reached: {_AGAIN}"
    headers = {"X-Hub-Signature-256": sign(body, secret), HOPPED: "1"}
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(leader, data=body, headers=headers, allow_redirects=False) as answer,
        ):
            text = await answer.content.read(MAX_ANSWER)
            return answer.status, text.decode(errors="replace")
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
        return 503, f"the replica that leads can't be reached: {_AGAIN}"
