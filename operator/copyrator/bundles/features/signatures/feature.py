"""What of a Bundle's versions is signed by whom, as the operator's policy and its spec require."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import NewConditions
from copyrator.api.verify import Trust, Verification
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.feature import Feature, Parts, Rechecked, Registry, is_used_in
from copyrator.bundles.engine.gate import PASSED, Candidate, Findings, Gates, Occasion, Verdict
from copyrator.bundles.engine.references import ReferenceReader
from copyrator.bundles.evidence.attached import AttachedReader
from copyrator.bundles.evidence.signers import Asked
from copyrator.bundles.features.signatures.fields import VERIFIED, SignaturesSpec
from copyrator.bundles.features.signatures.gates import (
    GATE,
    Signed,
    Verifications,
    verification,
    verified_condition,
)
from copyrator.bundles.features.signatures.metrics import SignatureMetrics
from copyrator.bundles.features.signatures.store import TrustStore
from copyrator.bundles.features.signatures.verdicts import unavailable, verdict
from copyrator.bundles.features.signatures.verifier import SignatureVerifier
from copyrator.kube.events import NORMAL, WARNING, EventType
from copyrator.oci.errors import RegistryError


class SignaturesFeature(Feature):
    """Of Bundles with ``spec.verify``, and of those that the operator's policy concerns."""

    spec = SignaturesSpec
    status = Verification
    outlasts = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.gates = Gates(version=(replace(GATE, concerns=partial(is_used_in, self)),))

    def connect(self, parts: Parts) -> None:
        """Make what reads keys, and what judges signatures by them."""
        self.trust = TrustStore(self.context, parts.of(ReferenceReader), self._follow_policy)
        self._verifier = SignatureVerifier(self.context, parts.of(AttachedReader))

    def _follow_policy(self) -> None:
        self._is_ready = self.trust.ready
        self.uses = self.trust.concerns if self.trust.has_policy else None

    def start(self) -> None:
        """Watch the policy."""
        self.trust.start()

    async def stop(self) -> None:
        """End that."""
        await self.trust.stop()

    precedes_deletions = True  # attestations are withdrawn then, by the policy
    _is_ready = False

    def publish(self) -> None:
        """Count the Bundles that aren't trusted."""
        found = (one.status.part(Verification).verdict for one in self.context.bundles)
        untrusted = sum(verdict == Trust.NOT_TRUSTED for verdict in found)
        self.context.metrics.of(SignatureMetrics).bundles_untrusted.set(untrusted)

    async def read(self, entry: BundleEntry, spec: BundleSpec, found: Findings) -> Asked | None:
        """What is required; None: nothing."""
        return await self.trust.of(entry, spec) or None

    def ask(
        self, registry: Registry, candidate: Candidate, occasion: Occasion, found: Findings
    ) -> Signed | None:
        """The verdict on a version's signatures."""
        asked = found.of(Asked)
        return Signed(self._judge(registry, candidate.digest, asked)) if asked else None

    def recheck(
        self, registry: Registry, digest: str, awaited: str, found: Findings
    ) -> Rechecked | None:
        """The verdicts on the three versions, by the present requirements."""
        if (asked := found.of(Asked)) is None:
            return None
        there = registry.entry.status.deployed
        verdicts = {
            one: self._judge(registry, one, asked) for one in (there.digest, digest, awaited) if one
        }
        if there.digest and there.reference != registry.spec.reference:
            verdicts[there.digest] = unavailable(
                f"it was deployed from {there.reference}, which the spec no longer names"
            )
        records = {one: verification(asked, one, verdict) for one, verdict in verdicts.items()}
        judged = Verifications(records.get(there.digest or ""), records.get(digest))
        return Rechecked(GATE.name, verdicts.get(awaited, PASSED), judged)

    def _judge(self, registry: Registry, digest: str, asked: Asked) -> Verdict:
        if asked.blocked is not None:
            return asked.blocked
        found = registry.look_up(self._verifier, digest, asked)
        if isinstance(found, RegistryError):
            return unavailable(found.message)
        return verdict(asked, digest, found)

    def judged(self, status: BundleStatus, findings: Findings, *, begins: bool) -> BundleStatus:
        """The status with the record of what is deployed, or will be."""
        found = findings.of(Verifications)
        record = None if found is None else found.chosen if begins else found.deployed
        return status.with_part(record or Verification())

    def is_judged(self, status: BundleStatus, read: Findings) -> bool:
        """Whether the record is by the same requirements."""
        asked = read.of(Asked)
        return (status.part(Verification).policy or "") == (asked.key if asked else "")

    def conditions(self, entry: BundleEntry, status: BundleStatus) -> NewConditions:
        """The condition Verified."""
        return {VERIFIED: verified_condition(status)}

    def record(self, before: BundleEntry, written: BundleEntry) -> None:
        """Emit an Event where what is deployed is no longer trusted, or is trusted again."""
        was, now = (one.status.part(Verification).verdict for one in (before, written))
        if now == was or now not in (Trust.TRUSTED, Trust.NOT_TRUSTED):
            return
        if now == Trust.TRUSTED and was != Trust.NOT_TRUSTED:
            return
        found = verified_condition(written.status)
        assert found is not None
        type_: EventType = NORMAL if now == Trust.TRUSTED else WARNING
        self.context.emit(written, found.reason, found.message, type_)


FEATURE = SignaturesFeature
