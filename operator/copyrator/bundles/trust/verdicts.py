"""What is required of signatures, and the verdict on those of a digest. Pure.

The verdict is of what ``signatures.judge`` has found; see docs/signatures.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import first_of
from copyrator.bundles.gates.gate import Passed, Refused, Verdict, Waiting

if TYPE_CHECKING:
    from copyrator.signatures.model import Judgement, SignatureRequirement

VERIFIED: Final = "Verified"
"""Reason of the condition Verified where it is True."""
_NAMED: Final = 3
"""Failures and skipped signatures that a message names."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The requirements for a Bundle's signatures. Equal ones have equal keys."""

    key: str = ""
    """Hash of everything else; empty: no signature is required."""
    requirements: tuple[SignatureRequirement, ...] = field(default=(), compare=False)
    """Each has to hold."""
    faults: tuple[str, ...] = field(default=(), compare=False)
    """Of entries that can't be used, as sentences."""
    blocked: Verdict | None = field(default=None, compare=False)
    """The verdict on everything: the signature policy can't be read, or denies the repository."""

    def __bool__(self) -> bool:
        return bool(self.key)


NOTHING_ASKED: Final = Asked()


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
