"""Reads the signatures of digests, and has them judged beside the event loop, once.

A digest that isn't trusted is read again at each poll, as a signature may be added at any time. It
is judged again only where something else was found than before.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from copyrator.bundles.gates.signature import Asked
from copyrator.bundles.schedule import Clock
from copyrator.oci.auth import Credential
from copyrator.oci.errors import RegistryUnreachable
from copyrator.oci.reference import Repository
from copyrator.oci.signatures import SignatureFinder
from copyrator.settings import limits
from copyrator.signatures.model import Found, Judgement, SignatureRequirement
from copyrator.workqueue.fairness import FairLimit
from copyrator.workqueue.isolated import Isolated, IsolatedError

if TYPE_CHECKING:
    from copyrator.oci.client import RegistryClient

KEEP_VERDICTS: Final = 24 * 3600.0
"""Seconds before a digest is judged again, trusted or not."""


@dataclass(frozen=True, slots=True)
class SignatureQuery:
    """Whether this digest's signatures satisfy the requirements; read with this credential."""

    repository: Repository
    digest: str
    asked: Asked
    credential: Credential | None = None


class SignatureVerifier:
    """Judges digests, a few at a time, fair between namespaces."""

    def __init__(
        self,
        client: RegistryClient,
        isolated: Isolated,
        monotonic: Callable[[], float],
        clock: Clock,
    ) -> None:
        self._finder = SignatureFinder(client)
        self._isolated = isolated
        self._monotonic = monotonic
        self._clock = clock
        self._finds = FairLimit(each=limits.TENANT_SIGNATURES, together=limits.TENANTS_SIGNATURES)
        self._checks = FairLimit(each=1, together=limits.SIGNATURE_CHECKS)
        self._refusals: dict[tuple[str, str], tuple[float, Judgement]] = {}
        """Verdicts that aren't trusted, with their times, by the requirements and by all that was
        found; the least recently used first."""

    async def judge(self, query: SignatureQuery, namespace: str) -> Judgement:
        """Read a digest's signatures, and judge them unless exactly these were refused before.

        Raises:
            RegistryError: they can't be read, or judging them exceeds the child's limits.
        """
        async with self._finds.slot(namespace):
            found = await self._finder.find(query.repository, query.digest, query.credential)
            async with self._checks.slot(namespace):
                key = query.asked.key, await asyncio.to_thread(fingerprint, found)
                judged = self._refusal(key)
                if judged is None:
                    judged = await self._judge(found, query.asked.requirements, namespace)
                    self._keep_refusal(key, judged)
        return judged

    async def _judge(
        self, found: Found, asked: Sequence[SignatureRequirement], namespace: str
    ) -> Judgement:
        """Judge in a thread, or in the limited child process where there is much to parse."""
        if sum(len(one.blob) for one in found.signatures) <= limits.SIGNATURES_INLINE:
            return await asyncio.to_thread(judge_found, found, asked, self._clock())
        try:
            return await self._isolated.call(judge_found, namespace, found, asked, self._clock())
        except IsolatedError as error:
            digest = found.artifact.digest
            raise RegistryUnreachable(
                f"the signatures of {digest} can't be judged: {error}"
            ) from None

    def _refusal(self, key: tuple[str, str]) -> Judgement | None:
        """The refusal of exactly these signatures, as long as no other verdict is possible."""
        at, judged = self._refusals.pop(key, (0.0, None))
        if judged is None or at < self._monotonic() - KEEP_VERDICTS:
            return None
        if judged.until is not None and self._clock() >= judged.until:
            return None
        self._refusals[key] = at, judged
        return judged

    def _keep_refusal(self, key: tuple[str, str], judged: Judgement) -> None:
        if judged.is_trusted:
            return
        self._refusals[key] = self._monotonic(), judged
        while len(self._refusals) > limits.SIGNATURE_REFUSALS:
            del self._refusals[next(iter(self._refusals))]


def fingerprint(found: Found) -> str:
    """A hash of everything that a verdict depends on, except the requirements and the time."""
    parts = [repr((found.artifact, found.skipped))]
    for one in found.signatures:
        content = hashlib.sha256(one.blob).hexdigest()
        parts.append(repr((one.format, one.digest, content, sorted(one.annotations.items()))))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def judge_found(found: Found, asked: Sequence[SignatureRequirement], now: datetime) -> Judgement:
    """Judge signatures; loads cryptography (13 MB), which isn't needed without signatures."""
    from copyrator.signatures.judge import judge  # noqa: PLC0415

    return judge(found, asked, now)
