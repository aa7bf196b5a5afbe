"""Whose attestations are trusted. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from copyrator.signatures.model import CosignKeys


@dataclass(frozen=True, slots=True)
class Attesters:
    """The keys that are trusted for attestations. Equal ones have equal keys."""

    key: str = ""
    """Hash of everything else; empty: no attestation is required."""
    environments: tuple[CosignKeys, ...] = field(default=(), compare=False)
    """Each with its name."""
    fault: str = field(default="", compare=False)
    """Why some can't be used, so that nothing is promoted."""

    def __bool__(self) -> bool:
        return bool(self.key)


NO_ATTESTERS: Final = Attesters()
