"""Removes the values of Secrets from a Job's texts, or withholds the texts.

Secrets are read one at a time. Small ones are processed here, larger ones in a child process:
neither can block the event loop or fill the operator's memory. After a failure the texts are
withheld; the outcome is recorded anyway.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Sequence
from typing import Any

from copyrator.bundles.policy.redaction import hidden, quoted
from copyrator.kube.client.client import KubeClient
from copyrator.kube.errors import ApiError
from copyrator.kube.resources import SECRETS
from copyrator.settings import limits
from copyrator.workqueue.fairness import FairLimit
from copyrator.workqueue.isolated import Isolated, IsolatedError


class WithheldError(Exception):
    """The texts can't be shown; the message has the reason and quotes nothing."""

    def in_place_of_log(self, namespace: str, job: str) -> str:
        """The text in place of a Job's log: the reason, and the command to read the log."""
        return f"<withheld: {self}; to read the pod's log: kubectl -n {namespace} logs job/{job}>"


class Redaction:
    """Redacts the texts of all Bundles' Jobs.

    Args:
        client: reads the Secrets.
        isolated: the child process.
    """

    def __init__(self, client: KubeClient, isolated: Isolated | None = None) -> None:
        self._client = client
        self._slots = FairLimit(each=1, together=limits.BUNDLE_REDACTIONS)
        self._isolated = isolated or Isolated()

    async def close(self) -> None:
        """End the child process."""
        await self._isolated.close()

    async def redacted(
        self, namespace: str, secrets: Sequence[str], texts: Sequence[str]
    ) -> list[str]:
        """The texts without the values of these Secrets.

        Raises:
            WithheldError: it can't be determined what to remove.
        """
        if len(secrets) > limits.BUNDLE_SECRETS:
            raise WithheldError(f"its pod names more than {limits.BUNDLE_SECRETS} Secrets")
        quotes: set[str] = set()
        size = 0
        for name in secrets:
            async with self._slots.slot(namespace):
                contents = await self._contents(namespace, name)
                size += sum(map(len, contents))
                if size > limits.BUNDLE_REDACTION_BYTES:
                    raise WithheldError(
                        "the Secrets that the log may contain have more than "
                        f"{limits.BUNDLE_REDACTION_BYTES // 2**20} MiB"
                    )
                quotes |= await self._quoted(namespace, name, contents, texts)
        return [hidden(text, quotes) for text in texts]

    async def _contents(self, namespace: str, name: str) -> list[bytes]:
        try:
            body = await self._client.get(SECRETS, namespace, name)
            data: dict[str, Any] = body.get("data") or {}
            if len(data) > limits.BUNDLE_VALUES_FILES:
                raise WithheldError(
                    f"Secret {name}, which the log may contain, has {len(data)} keys"
                )
            return [base64.b64decode(text) for text in data.values()]
        except (ApiError, binascii.Error):
            raise WithheldError(
                f"Secret {name}, which the log may contain, can't be read"
            ) from None

    async def _quoted(
        self, namespace: str, name: str, contents: list[bytes], texts: Sequence[str]
    ) -> set[str]:
        if _is_small(contents):
            await asyncio.sleep(0)  # so that dozens of small ones don't block the event loop
            return quoted(contents, texts)
        try:
            return await self._isolated.call(quoted, namespace, contents, list(texts))
        except IsolatedError as error:
            raise WithheldError(f"the search for values of Secret {name} failed: {error}") from None


def _is_small(contents: Sequence[bytes]) -> bool:
    return (
        sum(map(len, contents)) <= limits.BUNDLE_REDACTION_INLINE_BYTES
        and sum(one.count(b"[") + one.count(b"{") for one in contents)
        <= limits.BUNDLE_REDACTION_INLINE_BRACKETS
    )
