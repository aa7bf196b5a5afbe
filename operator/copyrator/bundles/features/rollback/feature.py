"""Takes the annotation pin into the status, and tells what was pinned."""

from __future__ import annotations

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, Cause
from copyrator.api.conditions import ConditionType
from copyrator.api.reasons import AnyReason
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.structs import replace
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.conditions import pinned
from copyrator.bundles.engine.deciding import Proposal
from copyrator.bundles.engine.feature import Feature
from copyrator.bundles.engine.step import Step
from copyrator.bundles.features.rollback.fields import PinStatus, RollbackSpec
from copyrator.bundles.features.rollback.gates import GATES
from copyrator.bundles.features.rollback.pin import take_pin
from copyrator.bundles.features.rollback.reasons import RollbackEvent


class RollbackFeature(Feature):
    """What users rolled back to, and what they never want to have deployed."""

    spec = RollbackSpec
    status = PinStatus
    annotation = names.ANN_PIN
    gates = GATES

    def begin(self, entry: BundleEntry, spec: BundleSpec) -> Step:
        """Take a new value of the annotation, or end a pin by an edit."""
        now = self.context.clock()
        return Step(entry, take_pin(entry.annotations, spec, entry.status, now))

    def wants(self, entry: BundleEntry, spec: BundleSpec) -> object:
        """The pin, and the digests that aren't chosen."""
        return entry.status.part(PinStatus), spec.part(RollbackSpec)

    def begun(self, proposal: Proposal, *, is_correction: bool) -> BundleStatus:
        """A version that wasn't deployed before it was pinned is deployed by the pin."""
        status, before = proposal.status, proposal.entry.status
        last = before.attempted.digest or before.deployed.digest
        if is_correction or not status.attempted.digest == status.pin.digest != last:
            return status
        by = proposal.entry.managers.writer(names.ANN_PIN)
        attempted = replace(status.attempted, cause=Cause.ROLLBACK, by=by)
        return replace(status, attempted=attempted)

    def is_told(
        self,
        condition: ConditionType,
        reason: AnyReason,
        before: BundleStatus,
        status: BundleStatus,
    ) -> bool:
        """By the Event when the annotation was seen."""
        return reason in (BundleReason.PINNED, BundleReason.PIN_REFUSED)

    def record(self, before: BundleEntry, written: BundleEntry) -> None:
        """Emit an Event where a version was pinned or unpinned, or the annotation is refused."""
        old, pin = before.status.part(PinStatus), written.status.part(PinStatus)
        if pin.refused and (pin.refused, pin.requested) != (old.refused, old.requested):
            self.context.emit(before, BundleReason.PIN_REFUSED, pin.refusal)
        if pin.digest is not None and (pin.digest, pin.at) != (old.digest, old.at):
            key, text = before.key, pinned(written.status)
            text += f"; to end that: copyrator unpin bundle -n {key.namespace} {key.name}"
            self.context.emit(before, BundleReason.PINNED, text)
        elif pin.digest is None and old.digest is not None:
            why = f"the annotation {names.ANN_PIN} is {names.NO_PIN}"
            if pin.requested != names.NO_PIN:
                why = "the version, tagFilter, prerelease, registry or repo of its spec was edited"
            text = f"{old.version} ({old.digest[:19]}) isn't pinned any more: {why}"
            self.context.emit(before, RollbackEvent.UNPINNED, text)


FEATURE = RollbackFeature
