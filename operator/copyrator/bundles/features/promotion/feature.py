"""Keeps the evidence of Bundles that others are promoted from, and wakes those when it changes."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, Cause
from copyrator.api.conditions import PAUSES
from copyrator.api.keys import BundleKey
from copyrator.api.names import ANN_PROMOTE_TO
from copyrator.api.structs import replace
from copyrator.api.text import parse_time
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.deciding import Proposal
from copyrator.bundles.engine.feature import Feature, Parts, Registry
from copyrator.bundles.engine.gate import Candidate, Findings, Occasion, next_verdict_change
from copyrator.bundles.engine.links import Link, Named, edges
from copyrator.bundles.engine.references import ReferenceReader
from copyrator.bundles.engine.step import Change, Step
from copyrator.bundles.evidence.attached import AttachedReader
from copyrator.bundles.evidence.signers import NOTHING_ASKED, Asked
from copyrator.bundles.features.promotion.attestations import AttestationLookup, AttesterReader
from copyrator.bundles.features.promotion.attesters import Attesters
from copyrator.bundles.features.promotion.fields import (
    PROMOTION_GATE,
    PromotionSpec,
    PromotionStatus,
    SoakStatus,
    hold_text,
)
from copyrator.bundles.features.promotion.gates import GATES, LINK, Sources, allows, find_sources
from copyrator.bundles.features.promotion.metrics import PromotionMetrics
from copyrator.bundles.features.promotion.reasons import PromotionEvent
from copyrator.bundles.features.promotion.soak import Surroundings, update_records
from copyrator.signatures.model import DeployedEvidence

log = logging.getLogger(__name__)

ASKED = frozenset({Occasion.NEW_DIGEST, Occasion.REQUEST, Occasion.FORCE, Occasion.ROLLBACK})
"""The occasions on which versions are judged, or the gate's objections are recorded."""


@dataclass(slots=True)
class SoakMemory:
    """Whether a Bundle's evidence is up to date."""

    version: str = ""
    """The Bundle's resourceVersion at which it was."""


class PromotionFeature(Feature):
    """Which Bundles are promoted from which, and by what."""

    spec = PromotionSpec
    status = PromotionStatus
    annotation = ANN_PROMOTE_TO
    named: Named
    gates = GATES

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.named = Named(LINK)
        self.keys: set[BundleKey] = set()

    def connect(self, parts: Parts) -> None:
        """Make what reads attestations, and the keys that they are verified by."""
        self._keys = AttesterReader(parts.of(ReferenceReader))
        self._attestations = AttestationLookup(self.context, parts.of(AttachedReader))

    def publish(self) -> None:
        """Set how long the last soak takes for which a Bundle waits."""
        now, remaining = self.context.clock(), 0.0
        for entry in self.context.bundles:
            status = entry.status
            if PROMOTION_GATE not in status.open_gates or status.ready_reason in PAUSES:
                continue
            if (judge_at := next_verdict_change(status.gates)) is not None:
                remaining = max(remaining, (judge_at - now).total_seconds())
        self.context.metrics.of(PromotionMetrics).soak_remaining_seconds.set(remaining)

    def wakes(
        self, before: BundleEntry | None, after: BundleEntry | None
    ) -> Iterator[tuple[BundleKey, Change]]:
        """Those promoted from the changed one, and those that it is promoted from now."""
        self.named.update(before, after)
        entry = after or before
        if entry is None:
            return
        named, was_named = ({*LINK.of(one)} for one in (after, before))
        self._keep(entry.key, *(named ^ was_named))
        if promoted := self.named.by(entry.key):
            links = self.context.gates.links
            differs = _shown(before, links) != _shown(after, links)
            for key in promoted:
                was, may = (allows(one, key.namespace) for one in (before, after))
                if was != may or (differs and may):
                    yield key, Change.GATE
        for key in named - was_named:
            if key.namespace == entry.key.namespace and self.context.bundles.get(key) is not None:
                yield key, Change.WATCHED  # its soak is recorded from now on

    def _keep(self, *changed: BundleKey) -> None:
        """Find out of which of them the evidence is kept, as others may be promoted by it.

        That is where it has a soak already, allows the promotion to other namespaces, or is named
        by a Bundle of its own namespace.
        """
        for key in changed:
            entry = self.context.bundles.get(key)
            if entry is not None and (
                bool(entry.status.part(PromotionStatus).soak)
                or ANN_PROMOTE_TO in entry.annotations
                or any(other.namespace == key.namespace for other in self.named.by(key))
            ):
                self.keys.add(key)
            else:
                self.keys.discard(key)

    # --- a Bundle that is promoted from others ----------------------------------------------------

    def find(self, spec: BundleSpec) -> Sources:
        """The Bundles that it is promoted from."""
        return find_sources(self.context.bundles, spec, self.context.seen)

    async def read(self, entry: BundleEntry, spec: BundleSpec, found: Findings) -> Attesters | None:
        """The keys that are trusted for attestations; not those that are for signatures."""
        if not spec.part(PromotionSpec).attestations:
            return None
        return await self._keys.read(entry, spec, found.of(Asked) or NOTHING_ASKED)

    def ask(
        self, registry: Registry, candidate: Candidate, occasion: Occasion, found: Findings
    ) -> DeployedEvidence | None:
        """What is attested of a version; nothing is asked about what is deployed."""
        attesters, there = found.of(Attesters), registry.entry.status.deployed.digest
        if not attesters or occasion not in ASKED or candidate.digest == there:
            return None
        return self._attestations.of(registry, candidate.digest, attesters)

    # --- a Bundle that others are promoted from ---------------------------------------------------

    def begun(self, proposal: Proposal, *, is_correction: bool) -> BundleStatus:
        """A new version was promoted, where the spec says from what."""
        status, is_new = proposal.status, proposal.status.attempted.cause == Cause.NEW_VERSION
        if is_correction or not (is_new and proposal.spec.uses(PromotionSpec)):
            return status
        return replace(status, attempted=replace(status.attempted, cause=Cause.PROMOTION))

    def keep(self, entry: BundleEntry) -> Step:
        """Record what has changed by something outside the status, such as a hold."""
        memory = self.context.memories.of(entry.key, SoakMemory)
        if memory.version == entry.resource_version:
            return Step(entry)

        async def remember(written: BundleEntry) -> Step:
            memory.version = written.resource_version
            return Step(written)

        return Step(entry, self.derive(entry, entry.status), effect=remember)

    def derive(self, entry: BundleEntry, status: BundleStatus) -> BundleStatus:
        """The status that is written next, with ``soak`` brought up to date."""
        return update_soak(self.context, entry, status)

    def record(self, before: BundleEntry, written: BundleEntry) -> None:
        """Emit an Event for each version whose evidence doesn't count any more."""
        known, soak = (one.status.part(PromotionStatus).soak for one in (before, written))
        if not soak or soak == known:
            return
        counted = {one.digest for one in known if _counts(one)}
        for one in soak:
            if one.digest in counted and not _counts(one):
                text = (
                    f"{one.version} ({(one.digest or '')[:19]}) is no longer promoted from "
                    f"this Bundle: {one.broken_by}"
                )
                self.context.record(written, PromotionEvent.SOAK_BROKEN, text)
                log.warning("%s: %s", written.key, text)


def update_soak(context: Context, entry: BundleEntry, status: BundleStatus) -> BundleStatus:
    """The status that is written next, with ``soak`` brought up to date."""
    around = Surroundings(
        hold=hold_text(entry.annotations),
        created=parse_time(entry.created),
        is_deleted=entry.deleting,
        seen=context.seen(),
    )
    soak = update_records(entry.status.part(PromotionStatus).soak, status, around, context.clock())
    is_same = soak == status.part(PromotionStatus).soak
    return status if is_same else status.with_part(PromotionStatus(soak=soak))


def _counts(record: SoakStatus) -> bool:
    return record.until is None or record.longest is not None


def _shown(entry: BundleEntry | None, links: tuple[Link, ...]) -> tuple[object, ...]:
    """What those promoted from a Bundle see of it."""
    if entry is None:
        return ()
    soak, hold = entry.status.part(PromotionStatus).soak, hold_text(entry.annotations)
    return entry.uid, hash(soak), hold, edges(links, entry), entry.deleting


FEATURE = PromotionFeature
