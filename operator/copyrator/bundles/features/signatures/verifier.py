"""Whether a digest's signatures are trusted.

A digest that isn't trusted is read again at each poll, as a signature may be added at any time. It
is judged again, beside the event loop, only where something else was found than before.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Final

from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.lookup import HOLDS, DigestQuery, Lookup
from copyrator.bundles.evidence.attached import AttachedReader
from copyrator.bundles.evidence.signers import Asked
from copyrator.bundles.features.signatures.metrics import SignatureMetrics
from copyrator.signatures.model import Found, Judgement, SignatureRequirement

SIGNATURE_REFUSALS: Final = 500
"""Refusals that are kept, some 10 KB each at most, so that the same signatures aren't judged again
at each poll."""


class SignatureVerifier(Lookup[Asked, Judgement]):
    """Judges the signatures of digests."""

    def __init__(self, context: Context, attached: AttachedReader) -> None:
        self._attached = attached
        self._monotonic = context.monotonic
        self._clock = context.clock
        self._checks = context.metrics.of(SignatureMetrics).signature_checks
        self._refusals: dict[tuple[str, str], tuple[float, Judgement]] = {}
        """Verdicts that aren't trusted, with their times, by the requirements and by all that was
        found; the least recently used first."""

    async def read(self, query: DigestQuery[Asked], namespace: str) -> Judgement:
        """Read a digest's signatures, and judge them unless exactly these were refused before.

        Raises:
            RegistryError: they can't be read, or judging them exceeds the child's limits.
        """

        async def judge(found: Found) -> Judgement:
            key = query.by.key, await asyncio.to_thread(fingerprint, found)
            if (known := self._refusal(key)) is not None:
                return known
            function = partial(judge_found, asked=query.by.requirements, now=self._clock())
            what = f"the signatures of {query.digest}"
            judged = await self._attached.judge(function, found, what, namespace)
            if not judged.is_trusted:
                self._refusals[key] = self._monotonic(), judged
                while len(self._refusals) > SIGNATURE_REFUSALS:
                    del self._refusals[next(iter(self._refusals))]
            return judged

        find = partial(self._attached.finder.find, query.repository, query.digest, query.credential)
        judged = await self._attached.read(find, judge, namespace)
        self._checks.labels("Trusted" if judged.is_trusted else "NotTrusted").inc()
        return judged

    def holds(self, found: Judgement) -> bool:
        """A trusted digest is trusted until the verdict's end (a certificate's, for example)."""
        return found.is_trusted and (found.until is None or self._clock() < found.until)

    def _refusal(self, key: tuple[str, str]) -> Judgement | None:
        """The refusal of exactly these signatures, as long as no other verdict is possible."""
        at, judged = self._refusals.pop(key, (0.0, None))
        if judged is None or at < self._monotonic() - HOLDS:
            return None
        if judged.until is not None and self._clock() >= judged.until:
            return None
        self._refusals[key] = at, judged
        return judged


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
