"""What is said of rollbacks. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Final

from copyrator.api.bundle_spec import BundleSpec, Part
from copyrator.api.conditions import ConditionType
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import Detail, said, short_digest, time_since
from copyrator.bundles.features.rollback.fields import PinStatus, RollbackSpec
from copyrator.bundles.features.rollback.reasons import RollbackReason
from copyrator.bundles.words import (
    MESSAGE,
    DeployStep,
    Mark,
    Place,
    StepState,
    Tone,
    VersionEvent,
    View,
    Words,
)

_LISTED: Final = 20
"""Digests of the annotation skip-digests that are shown."""


class RollbackWords(Words):
    """What a user rolled back to, and what is never deployed."""

    gates: ClassVar[Mapping[str, type[Part]]] = {"skip-digests": RollbackSpec}
    listed = ("pin",)

    def marks(self, view: View) -> Iterator[Mark]:
        """That a version is pinned."""
        if view.summary.part(PinStatus).digest is not None:
            yield Mark(1, "Pinned")

    def lines(self, view: View, place: Place) -> Iterator[str]:
        """The annotation has to be corrected."""
        pending = view.summary.condition(ConditionType.UPDATE_PENDING)
        if place is Place.AWAITS and pending.reason == BundleReason.PIN_REFUSED:
            yield str(BundleReason.PIN_REFUSED)

    def rows(self, view: View, place: Place) -> Iterator[Detail]:
        """The pin, and why another one was refused."""
        if place is not Place.VERSIONS:
            return
        pin = view.status.part(PinStatus)
        if pin.digest is not None:
            yield Detail("Pinned", f"{_describe(view)}; {view.hint('unpin')}")
        if pin.refused is not None:
            yield Detail("Pin refused", said(pin.refused, MESSAGE))

    def steps(self, view: View, spec: BundleSpec, place: Place) -> Iterator[DeployStep]:  # noqa: ARG002
        """The same."""
        if place is not Place.VERSIONS:
            return
        pin = view.status.part(PinStatus)
        if pin.digest is not None:
            text = f"only {_describe(view)}, is deployed"
            yield DeployStep("pin", StepState.PASSED, text, command=view.hint("unpin"))
        if pin.refused is not None:
            text = said(pin.refused, 1000)
            yield DeployStep("pin", StepState.REFUSED, text, reason=BundleReason.PIN_REFUSED)

    def events(
        self, view: View, versions: Mapping[str | None, str | None]
    ) -> Iterator[VersionEvent]:
        """The pin, and digests that the annotation names, with the versions that are known."""
        pin = view.status.part(PinStatus)
        if pin.digest is not None:
            yield VersionEvent(
                "Pinned",
                said(pin.version),
                pin.digest,
                pin.at or "",
                ["no other version is deployed"],
                command=view.hint("unpin"),
                tone=Tone.SUSPENDED,
            )
        spec, status = view.spec, view.status
        if not isinstance(spec, BundleSpec):
            return
        skipped, known = spec.part(RollbackSpec).skip_digests, dict(versions)
        rejected = status.available.rejected
        tags = [one.version for one in rejected if one.reason == RollbackReason.SKIPPED]
        nameless = [one for one in skipped if one not in known]
        if len(tags) == len(nameless) == 1:
            known[nameless[0]] = tags[0]
        for digest in skipped[:_LISTED]:
            yield VersionEvent(
                "Skipped",
                said(known.get(digest)),
                digest,
                notes=["it is never deployed"],
                command=view.hint("unskip", known.get(digest) or digest),
                tone=Tone.SUSPENDED,
            )


def _describe(view: View) -> str:
    """The pinned version, and since when."""
    pin = view.status.part(PinStatus)
    return f"{said(pin.version)} ({short_digest(pin.digest)}), for {time_since(pin.at, view.now)}"


WORDS: Final = RollbackWords()
