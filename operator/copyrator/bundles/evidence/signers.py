"""What is required of a Bundle's signatures: whose they have to be. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from copyrator.bundles.engine.gate import Verdict
from copyrator.signatures.model import SignatureRequirement


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
