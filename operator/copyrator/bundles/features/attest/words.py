"""What is said of attestations. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import ConditionStatus
from copyrator.api.reasons.notices import About
from copyrator.api.text import Detail, said, short_digest, time_since
from copyrator.bundles.features.attest.fields import (
    ATTESTED,
    AttestationsStatus,
    AttestSpec,
    AttestStatus,
)
from copyrator.bundles.features.attest.reasons import AttestReason
from copyrator.bundles.fields import parse_status
from copyrator.bundles.words import (
    MESSAGE,
    Body,
    Notice,
    Origins,
    Place,
    Stage,
    Told,
    View,
    Words,
)


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

    def origins(self, body: Body) -> Origins:
        """Other clusters may be promoted from it."""
        return Origins(is_drawn=bool(_environment(body)))

    def stage(self, view: View, sources: Sequence[Body]) -> Stage:  # noqa: ARG002
        """What it has attested of its deployed version."""
        return Stage(attests=_describe(view))

    def lines(self, view: View, place: Place) -> Iterator[str]:
        """Whether what is deployed is attested; nothing where nothing is."""
        if place is not Place.HISTORY or not isinstance(view.spec, BundleSpec):
            return
        attest, found = view.spec.find(AttestSpec), view.status.condition(ATTESTED)
        if attest is not None and found:
            text = said(found.message, MESSAGE).rstrip(".")
            name = said(attest.environment)
            yield f"Attested as {name}: {said(found.status)}, {said(found.reason)}: {text}."

    def notices(self, told: Told) -> Iterator[Notice]:
        """Whether what is deployed is attested; a statement that is renewed is no news."""
        found = told.status.condition(ATTESTED)
        since, why = found.last_transition_time or "", found.message or ""
        if found.is_true:
            yield Notice(6, About.ATTESTED, "is attested", since, since, why, told.why)
        elif found.is_false:
            withdrawn = found.reason == AttestReason.ATTESTATION_WITHDRAWN
            what = "isn't attested any more" if withdrawn else f"can't be attested: {found.reason}"
            key = f"{since} {found.reason}"
            yield Notice(6, About.NOT_ATTESTED, what, since, key, why, told.why)

    def unknown(self, status: BundleStatus) -> Iterator[About]:
        """Whether it is; also without conditions, as after a backup was restored."""
        found = status.condition(ATTESTED)
        if found.status == ConditionStatus.UNKNOWN or not status.conditions:
            yield About.NOT_ATTESTED


def _environment(body: Body) -> str:
    """``spec.attest.environment`` of a Bundle; empty where there is none."""
    spec = body.get("spec")
    found = spec.get("attest") if isinstance(spec, Mapping) else None
    name = found.get("environment") if isinstance(found, Mapping) else None
    return said(name) if isinstance(name, str) and name else ""


def _describe(view: View) -> str:
    """What a Bundle has attested of its deployed version."""
    environment = _environment(view.body)
    if not environment:
        return ""
    status = parse_status(view.body, "attest", "deployed")
    records = [
        one
        for one in status.part(AttestationsStatus).attest
        if one.digest == status.deployed.digest
    ]
    if not records:
        return f"not attested as {environment} yet"
    word = "attested" if records[-1].is_positive else "withdrawn"
    return f"{word} as {environment} {time_since(records[-1].issued_at, view.now)} ago"


def _state(record: AttestStatus, now: datetime) -> str:
    why = f" ({said(record.reason)})" if record.reason else ""
    age = time_since(record.issued_at, now)
    return f"{said(record.state)} as {said(record.environment)}, {age} ago{why}"


WORDS: Final = AttestWords()
