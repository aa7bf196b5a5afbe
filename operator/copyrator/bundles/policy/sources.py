"""The Bundles of ``spec.promoteFrom``, as the gate judges by them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from copyrator.api.bundle_status import SoakStatus
from copyrator.api.seen_time import ALL_SEEN, SeenTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A Bundle of ``spec.promoteFrom``, as one that is promoted from it may see it."""

    name: str
    """``namespace/name``."""
    is_allowed: bool = False
    """It exists, isn't being deleted, and allows the promotion; else nothing else is known."""
    hold: str | None = None
    running: str | None = None
    """The digest that is deployed there."""
    soak: tuple[SoakStatus, ...] = ()

    def record_of(self, digest: str) -> SoakStatus | None:
        """How long a digest has been deployed there; None where that isn't known."""
        return next((one for one in self.soak if one.digest == digest), None)


@dataclass(frozen=True, slots=True)
class Sources:
    """All of them, and what time was seen."""

    bundles: tuple[Source, ...] = ()
    seen: SeenTime = ALL_SEEN

    @property
    def digests(self) -> frozenset[str]:
        """Those that are known in any of them."""
        return frozenset(record.digest or "" for one in self.bundles for record in one.soak)


NO_SOURCES: Final = Sources()
