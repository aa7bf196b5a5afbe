"""What is said of signatures. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

from copyrator.api.bundle_spec import Part
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import ConditionStatus
from copyrator.api.reasons.notices import About
from copyrator.api.text import Detail
from copyrator.api.verify import Trust, Verification
from copyrator.bundles.features.signatures.fields import VERIFIED, SignaturesSpec
from copyrator.bundles.words import Mark, Notice, Place, Told, View, Words

GATE: Final = "signature"


class SignaturesWords(Words):
    """Whether what is deployed is trusted."""

    gates: ClassVar[Mapping[str, type[Part]]] = {GATE: SignaturesSpec}

    def requires(self, view: View) -> Iterator[str]:
        """Its gate, where the operator's policy has judged."""
        if view.summary.condition(VERIFIED):
            yield GATE

    def marks(self, view: View) -> Iterator[Mark]:
        """That it isn't, or that it isn't known."""
        found = view.summary.condition(VERIFIED)
        if found.status in (ConditionStatus.FALSE, ConditionStatus.UNKNOWN):
            word = "Untrusted" if found.is_false else ""
            yield Mark(2, word, found.message or "", is_flaw=found.is_false)

    def rows(self, view: View, place: Place) -> Iterator[Detail]:
        """The verdict."""
        if place is Place.TRUST:
            yield from _describe(view.status)

    def polls_again(self, view: View) -> bool:
        """A signature may come later."""
        return GATE in view.status.open_gates

    def notices(self, told: Told) -> Iterator[Notice]:
        """That what is deployed isn't trusted."""
        verified = told.status.part(Verification)
        if verified.verdict == Trust.NOT_TRUSTED:
            since = told.status.condition(VERIFIED).last_transition_time or ""
            what = f"runs {told.status.deployed.version or 'a version'}, which isn't trusted"
            key = f"{verified.digest} {verified.reason}"
            message = verified.message or ""
            yield Notice(4, About.UNTRUSTED, what, since, key, message, told.why)

    def unknown(self, status: BundleStatus) -> Iterator[About]:
        """Whether it is."""
        if status.part(Verification).verdict == Trust.UNKNOWN:
            yield About.UNTRUSTED


def _describe(status: BundleStatus) -> Iterator[Detail]:
    """The verdict on what is deployed; none where no signatures are required."""
    verified = status.part(Verification)
    if verified.verdict:
        reason = "" if verified.verdict == Trust.TRUSTED else f" ({verified.reason})"
        reason += ", stays deployed" if verified.verdict == Trust.NOT_TRUSTED else ""
        yield Detail("Signatures", f"{verified.verdict}{reason}: {verified.message}")


WORDS: Final = SignaturesWords()
