"""The input of the promotion gate: the Bundles of ``spec.promoteFrom``. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from copyrator.api.bundle_status import SoakStatus
from copyrator.api.seen_time import ALL_SEEN, SeenTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A Bundle of ``spec.promoteFrom``, with what a Bundle promoted from it may know of it."""

    name: str
    """``namespace/name``."""
    is_allowed: bool = False
    """Whether it exists, isn't being deleted, and allows the promotion; else the rest is empty."""
    hold: str | None = None
    running: str | None = None
    """The digest that is deployed in it."""
    soak: tuple[SoakStatus, ...] = ()

    def record_of(self, digest: str) -> SoakStatus | None:
        """The record of a digest in ``status.soak``; None where there is none."""
        return next((one for one in self.soak if one.digest == digest), None)


@dataclass(frozen=True, slots=True)
class Sources:
    """All Bundles of ``spec.promoteFrom``, and the periods in which an operator ran."""

    bundles: tuple[Source, ...] = ()
    seen: SeenTime = ALL_SEEN

    @property
    def digests(self) -> frozenset[str]:
        """The digests with a record in any of them."""
        return frozenset(record.digest or "" for one in self.bundles for record in one.soak)


NO_SOURCES: Final = Sources()
