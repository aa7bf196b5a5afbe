"""What is said of promotions. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import ClassVar, Final

from copyrator.api.bundle_spec import Part
from copyrator.api.bundle_status import Outcome
from copyrator.api.names import ANN_HOLD, ANN_PROMOTE_TO
from copyrator.api.text import Detail, parse_time, said, short_digest, time_since
from copyrator.bundles.features.promotion.fields import (
    PROMOTION_GATE,
    PromotionSpec,
    PromotionStatus,
    SoakStatus,
    shown_hold,
)
from copyrator.bundles.features.promotion.path import environments_of, promotes_from, waiting_soak
from copyrator.bundles.fields import parse_status
from copyrator.bundles.words import Body, Deploy, Origins, Place, Stage, View, Words


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

    def notes(
        self,
        view: View,  # noqa: ARG002
        sources: Sequence[Body],
    ) -> Callable[[Deploy, str | None], Iterable[str]]:
        """Where it came from: one of those Bundles has a record of its digest, or deployed it."""
        promotions = _Promotions(sources)

        def of(entry: Deploy, stamp: str | None) -> Iterator[str]:
            if came := promotions.of(entry.digest, stamp):
                yield f"promoted from {said(', '.join(came))}"

        return of

    def origins(self, body: Body) -> Origins:
        """Its ``spec.promoteFrom``."""
        wanted = promotes_from(body)
        return Origins(wanted.bundles, bool(wanted.attestations))

    def stage(self, view: View, sources: Sequence[Body]) -> Stage:
        """How far the soak is, and whether evidence of other clusters counts."""
        return Stage(waiting_soak(view, sources), tuple(environments_of(view)))

    def versions(self, view: View) -> Mapping[str | None, str | None]:
        """Those that have stood there."""
        return {one.digest: one.version for one in view.status.part(PromotionStatus).soak}


class _Promotions:
    """Which of the Bundles had a digest, and since when."""

    def __init__(self, bodies: Iterable[Body]) -> None:
        self._since: dict[str, list[tuple[datetime, str]]] = {}
        for body in bodies:
            status, metadata = parse_status(body, "soak", "history", "deployed"), body["metadata"]
            records = [(one.digest, one.since) for one in status.part(PromotionStatus).soak]
            records += [
                (one.digest, one.time) for one in status.past if one.outcome == Outcome.SUCCEEDED
            ]
            name = f"{metadata['namespace']}/{metadata['name']}"
            for digest, stamp in (*records, (status.deployed.digest, status.deployed.time)):
                if digest and (since := parse_time(stamp)) is not None:
                    self._since.setdefault(digest, []).append((since, name))

    def of(self, digest: str | None, stamp: str | None) -> list[str]:
        """The Bundles that had deployed a digest before it was deployed here."""
        at = parse_time(stamp)
        found = self._since.get(digest or "", ()) if at is not None else ()
        return sorted({name for since, name in found if at is not None and since <= at})


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
