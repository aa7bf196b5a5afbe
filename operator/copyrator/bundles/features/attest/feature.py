"""Derives the statements of Bundles with ``spec.attest``, has them pushed, and tells of it."""

from __future__ import annotations

import logging
from collections import Counter

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import NewConditions
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.conditions import with_conditions
from copyrator.bundles.engine.feature import Feature, Parts
from copyrator.bundles.engine.references import ReferenceReader
from copyrator.bundles.engine.step import AT_ONCE, Step
from copyrator.bundles.features.attest.attester import Attester, attest_input
from copyrator.bundles.features.attest.fields import (
    ATTESTED,
    PUSH_FAULTS,
    AttestationsStatus,
    AttestSpec,
)
from copyrator.bundles.features.attest.keys import AttestKeyReader
from copyrator.bundles.features.attest.metrics import AttestMetrics
from copyrator.bundles.features.attest.statements import (
    AttestInput,
    attested_condition,
    due_at,
    find_pending,
    record_push,
    update_statements,
)
from copyrator.bundles.features.promotion.feature import update_soak
from copyrator.bundles.features.signatures.feature import SignaturesFeature
from copyrator.bundles.fields import read_reason
from copyrator.oci.statements import StatementPusher

log = logging.getLogger(__name__)


class AttestFeature(Feature):
    """What is attested of all Bundles."""

    spec = AttestSpec
    outlasts = True  # withdrawals are pushed

    def connect(self, parts: Parts) -> None:
        """Make what pushes: it needs the keys that are trusted for signatures."""
        context = self.context
        self._attester = Attester(
            context,
            AttestKeyReader(context, parts.of(ReferenceReader)),
            parts.of(SignaturesFeature).trust,
            StatementPusher(context.oci),
        )

    async def stop(self) -> None:
        """End all pushes."""
        await self._attester.close()

    def publish(self) -> None:
        """Count the Bundles whose statements can't be pushed, by the reason."""
        found = (entry.status.condition(ATTESTED) for entry in self.context.bundles)
        faults = Counter(one.reason for one in found if one.is_false)
        gauge = self.context.metrics.of(AttestMetrics).bundles_unattested
        for fault in PUSH_FAULTS:
            gauge.labels(fault).set(faults[fault])

    def keep(self, entry: BundleEntry) -> Step:
        """Record what has changed by the time, or a statement that was pushed."""
        return Step(entry, self.derive(entry, entry.status))

    def retry(self, entry: BundleEntry) -> None:
        """Push what has failed at once."""
        self._attester.retry(entry.key)

    def tend(self, entry: BundleEntry, spec: BundleSpec) -> Step:
        """Push what the status has and the registry may lack."""
        return self._attester.attest(entry, spec)

    def conditions(self, entry: BundleEntry, status: BundleStatus) -> NewConditions:
        """Whether what is deployed is attested."""
        around = attest_input(self.context, entry)
        faults = self._attester.faults(entry.key)
        found = None if around is None else attested_condition(status, around, faults)
        return {ATTESTED: found}

    def derive(self, entry: BundleEntry, status: BundleStatus) -> BundleStatus:
        """The status that is written next, with the soak, its statements, and Attested."""
        around = attest_input(self.context, entry)
        if around is None:
            return status
        status = update_soak(self.context, entry, status)
        now, pushed = self.context.clock(), self._attester.pushed(entry.key)
        updated = update_statements(record_push(status, pushed), around, now)
        if not updated.conditions:  # of a new Bundle Ready comes first
            return updated
        found = attested_condition(updated, around, self._attester.faults(entry.key))
        return with_conditions(updated, {ATTESTED: found}, now)

    def record(self, before: BundleEntry, written: BundleEntry) -> None:
        """Emit an Event where something is attested, was withdrawn, or can't be pushed."""
        around = attest_input(self.context, written)
        if around is not None and _goes_on(before, written, around):
            # Before the other steps statements are pushed, and the date of the next one is found.
            self.context.schedule.set_due(written.key, AT_ONCE)
        self._tell(before, written)

    def _tell(self, before: BundleEntry, written: BundleEntry) -> None:
        was, found = (one.status.condition(ATTESTED) for one in (before, written))
        word, message = found.reason or "", found.message or ""
        if was.status == found.status and (found.is_true or was.reason == word):
            return
        if found.is_true or found.is_false:
            self.context.record(written, read_reason(word), message)
            level = logging.INFO if found.is_true else logging.WARNING
            log.log(level, "%s: %s: %s", written.key, word, message)


def _goes_on(before: BundleEntry, written: BundleEntry, around: AttestInput) -> bool:
    """Whether a write has added a statement to push, or the date of one where there was none."""
    was, found = (one.status.part(AttestationsStatus).attest for one in (before, written))
    if was != found and find_pending(written.status, around):
        return True
    is_due = due_at(found, written.status, around) is not None
    return is_due and due_at(was, before.status, around) is None


FEATURE = AttestFeature
