"""Relays the webhook's calls from a standby to the leader.

A Service selects all ready replicas, and a standby is ready; the leader's URL is an annotation of
the Lease. The body is signed again: the secret itself is never sent to an address from an
annotation.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

import aiohttp

from copyrator.oci.notifications import EVENT_TYPE

RELAYED: Final = "X-Copyrator-Relayed"
"""Marks a relayed call, which is never relayed again."""
SECONDS: Final = 5.0
"""Timeout of the leader's answer: registries wait about as long for theirs."""
MAX_ANSWER: Final = 4096
"""Bytes of the leader's answer that are returned."""

_AGAIN: Final = "try again, or wait for the next poll\n"


def url_of(host: str, port: int, path: str) -> str:
    """This replica's URL for the other replicas; an IPv6 address is put in brackets."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"


def sign(body: bytes, secret: bytes) -> str:
    """The signature of the body, as in GitHub's X-Hub-Signature-256."""
    return "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()


async def send_to_leader(
    leader: str | None, body: bytes, event_type: str | None, secret: bytes
) -> tuple[int, str]:
    """Send the body to the leader; return the status and text for the caller."""
    if leader is None:
        return 503, f"no leading replica can be reached: {_AGAIN}"
    headers = {"X-Hub-Signature-256": sign(body, secret), RELAYED: "1"}
    if event_type is not None:
        headers[EVENT_TYPE] = event_type
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(leader, data=body, headers=headers, allow_redirects=False) as answer,
        ):
            text = await answer.content.read(MAX_ANSWER)
            return answer.status, text.decode(errors="replace")
    except (TimeoutError, aiohttp.ClientError, OSError, ValueError):
        return 503, f"the leading replica can't be reached: {_AGAIN}"
