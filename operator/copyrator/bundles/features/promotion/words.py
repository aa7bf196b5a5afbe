"""What is said of promotions. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import ClassVar, Final

from copyrator.api.bundle_spec import Part
from copyrator.api.names import ANN_HOLD, ANN_PROMOTE_TO
from copyrator.api.promotion import (
    PROMOTION_GATE,
    PromotionSpec,
    PromotionStatus,
    SoakStatus,
    shown_hold,
)
from copyrator.api.text import Detail, said, short_digest
from copyrator.api.times import time_since
from copyrator.bundles.engine.words import Place, View, Words


class PromotionWords(Words):
    """What other Bundles are promoted by."""

    gates: ClassVar[Mapping[str, type[Part]]] = {PROMOTION_GATE: PromotionSpec}

    def rows(self, view: View, place: Place) -> Iterator[Detail]:
        """Who may be promoted from it, why that is held, and how long it had which version."""
        if place is not Place.HISTORY:
            return
        if ANN_PROMOTE_TO in view.annotations:
            yield Detail("Promoted to", said(view.annotations[ANN_PROMOTE_TO]))
        if ANN_HOLD in view.annotations:
            text = said(shown_hold(str(view.annotations[ANN_HOLD])))
            yield Detail("Held", f"{text}; {view.hint('unhold')}")
        if soak := view.status.part(PromotionStatus).soak:
            yield Detail(
                "Soak",
                below=[
                    f"{said(one.version):<12} {short_digest(one.digest)}  {_stood(one, view.now)}"
                    for one in reversed(soak)
                ],
            )


def _stood(record: SoakStatus, now: datetime) -> str:
    """How long a version has been deployed."""
    longest = f"; {said(record.longest)} before" if record.longest else ""
    if record.until is None:
        since = said(record.since)
        return f"has been deployed since {since}, for {time_since(record.since, now)}{longest}"
    why = f" ({said(record.broken_by)})" if record.broken_by else ""
    if record.longest is None:
        return f"doesn't count since {said(record.until)}{why}"
    return f"was deployed for {said(record.longest)} at most, until {said(record.until)}{why}"


WORDS: Final = PromotionWords()
