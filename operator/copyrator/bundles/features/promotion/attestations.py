"""Reads the keys of ``spec.promoteFrom.attestations``, and what they attest of a digest."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.schema import SpecError
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.feature import Registry
from copyrator.bundles.engine.lookup import DigestQuery, Lookup
from copyrator.bundles.engine.references import MissingReferenceError, ReferenceReader
from copyrator.bundles.evidence.attached import AttachedReader
from copyrator.bundles.evidence.key_files import Contents
from copyrator.bundles.evidence.keys import KeyReader
from copyrator.bundles.evidence.signers import Asked
from copyrator.bundles.features.promotion.attesters import Attesters, read_attesters
from copyrator.bundles.features.promotion.fields import PromotionSpec
from copyrator.bundles.features.promotion.metrics import PromotionMetrics
from copyrator.oci.errors import RegistryError
from copyrator.signatures.model import CosignKeys, DeployedEvidence, FoundAttestations


class AttesterReader:
    """The trusted keys of all Bundles."""

    def __init__(self, references: ReferenceReader) -> None:
        self._keys: KeyReader[Attesters] = KeyReader(references, "attesters")

    async def read(self, entry: BundleEntry, spec: BundleSpec, asked: Asked) -> Attesters:
        """The keys of a Bundle's environments; reads them only if they changed.

        Raises:
            MissingReferenceError: two environments have the same key.
            ApiError: they can't be read.
        """
        part = spec.part(PromotionSpec)
        named = part.attestations

        def make(contents: Contents) -> Attesters:
            return read_attesters(spec.namespace, named, contents, asked)

        try:
            return await self._keys.read(entry, spec, part.keys, (named, asked), make)
        except SpecError as error:
            raise MissingReferenceError(str(error), BundleReason.INVALID_SPEC) from None


class AttestationLookup(Lookup[Attesters, DeployedEvidence]):
    """Verifies the attestations of digests."""

    is_confirmed = True

    def __init__(self, context: Context, attached: AttachedReader) -> None:
        self._attached = attached
        self._checks = context.metrics.of(PromotionMetrics).evidence_checks

    async def read(self, query: DigestQuery[Attesters], namespace: str) -> DeployedEvidence:
        """Read a digest's attestations, and verify them.

        Raises:
            RegistryError: one of them can't be read, or verifying them exceeds the child's limits.
        """
        trusted = query.by.environments

        async def judge(found: FoundAttestations) -> DeployedEvidence:
            function = partial(judge_attestations, query.digest, trusted=trusted)
            what = f"the attestations of {query.digest}"
            return await self._attached.judge(function, found, what, namespace)

        find = partial(
            self._attached.finder.find_attestations,
            query.repository,
            query.digest,
            query.credential,
        )
        found = await self._attached.read(find, judge, namespace)
        result = "Verified" if found.statements and not found.refused else "Refused"
        self._checks.labels("Unavailable" if found.fault else result).inc()
        return found

    def of(self, registry: Registry, digest: str, attesters: Attesters) -> DeployedEvidence:
        """What they attest of a digest.

        Raises:
            PendingError: the registry hasn't answered yet.
        """
        if attesters.fault:
            return DeployedEvidence(fault=attesters.fault)
        found = registry.look_up(self, digest, attesters)
        return DeployedEvidence(fault=found.message) if isinstance(found, RegistryError) else found


def judge_attestations(
    digest: str, found: FoundAttestations, trusted: Sequence[CosignKeys]
) -> DeployedEvidence:
    """Verify attestations; loads cryptography (13 MB), which isn't needed without them."""
    from copyrator.signatures.attestation import judge  # noqa: PLC0415

    return judge(digest, found, trusted)
