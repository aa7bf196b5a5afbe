"""The verdict on the signatures of a digest. Pure.

The verdict is of what ``signatures.judge`` has found; see docs/signatures.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import first_of
from copyrator.bundles.engine.gate import Passed, Refused, Verdict, Waiting
from copyrator.bundles.evidence.signers import Asked

if TYPE_CHECKING:
    from copyrator.signatures.model import Judgement

_NAMED: Final = 3
"""Failures and skipped signatures that a message names."""


def verdict(asked: Asked, digest: str, judged: Judgement) -> Verdict:
    """The verdict on a digest whose signatures were read."""
    if judged.is_trusted:
        signed = (f"{one.requirement}: signed by {one.entry}" for one in judged.holds)
        return Passed("; ".join(signed))
    where, is_one = " and ".join(judged.failed), len(judged.failed) == 1
    if asked.faults:
        which = f"{where} can't" if is_one else f"not all of {where} can"
        text = f"{which} be judged: {'; '.join(asked.faults)}"
        return Waiting(BundleReason.VERIFICATION_UNAVAILABLE, text)
    skipped = "".join(f"; not read: {why}" for why in judged.skipped[:_NAMED])
    if not judged.signatures:
        asks = f"{where} requires one" if is_one else f"{where} require one"
        text = f"{digest} has no signature, and {asks}; sign this digest{skipped}"
        return Refused(BundleReason.UNSIGNED, text, is_retried=True)
    found = list(dict.fromkeys(f"{one.entry}: {one.reason}" for one in judged.failures))
    failures = first_of(found, _NAMED)
    text = f"no signature of {digest} satisfies {where}: {failures}{skipped}"
    return Refused(BundleReason.SIGNATURE_INVALID, text, is_retried=True)


def unavailable(message: str) -> Waiting:
    """The verdict where signatures can't be read now."""
    return Waiting(BundleReason.VERIFICATION_UNAVAILABLE, f"{message}; it is tried again")
