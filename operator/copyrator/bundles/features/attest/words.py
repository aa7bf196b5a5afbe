"""What is said of attestations. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from copyrator.api.attest import AttestationsStatus, AttestSpec, AttestStatus
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.conditions import ConditionType
from copyrator.api.text import Detail, said, short_digest
from copyrator.api.times import time_since
from copyrator.bundles.engine.words import MESSAGE, Place, View, Words


class AttestWords(Words):
    """What it attests of its versions in the registry."""

    def rows(self, view: View, place: Place) -> Iterator[Detail]:
        """The statements."""
        records = view.status.part(AttestationsStatus).attest
        if place is Place.HISTORY and records:
            yield Detail(
                "Attested",
                below=[
                    f"{said(one.version):<12} {short_digest(one.digest)}  {_state(one, view.now)}"
                    for one in reversed(records)
                ],
            )

    def lines(self, view: View, place: Place) -> Iterator[str]:
        """Whether what is deployed is attested; nothing where nothing is."""
        spec = view.spec
        attest = spec.find(AttestSpec) if isinstance(spec, BundleSpec) else None
        found = view.status.condition(ConditionType.ATTESTED)
        if place is Place.HISTORY and attest is not None and found:
            text = said(found.message, MESSAGE).rstrip(".")
            name = said(attest.environment)
            yield f"Attested as {name}: {said(found.status)}, {said(found.reason)}: {text}."


def _state(record: AttestStatus, now: datetime) -> str:
    why = f" ({said(record.reason)})" if record.reason else ""
    age = time_since(record.issued_at, now)
    return f"{said(record.state)} as {said(record.environment)}, {age} ago{why}"


WORDS: Final = AttestWords()
