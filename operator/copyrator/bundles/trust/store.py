"""What each Bundle's signatures have to satisfy now, and whether a digest's do.

The operator's policy and its keys are objects of its namespace: watched, and read again only when
one of them changed, once for all Bundles. Until they are read nothing new is deployed.

A digest that isn't trusted is read again at each poll, as a signature may be added at any time. It
is judged again, beside the event loop, only where something else was found than before.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.fields import SpecError
from copyrator.api.object_refs import LocalObjectRef
from copyrator.api.text import count
from copyrator.api.verify import refs_of
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.context import Context
from copyrator.bundles.gates.evidence import Attesters
from copyrator.bundles.inputs.reader import ReferenceReader
from copyrator.bundles.inputs.watches import verify_ref
from copyrator.bundles.schedule import Clock
from copyrator.bundles.step import Change
from copyrator.bundles.trust import policy as trust
from copyrator.bundles.trust.keys import KeyReader, files_of
from copyrator.bundles.trust.policy import (
    CONFIG_MAP,
    NO_POLICY,
    POLICY_KEY,
    REQUIRED,
    SignaturePolicy,
    policy_in,
)
from copyrator.bundles.trust.verdicts import Asked
from copyrator.kube.errors import ApiError, Forbidden, NotFound
from copyrator.kube.resources import CONFIGMAPS
from copyrator.kube.watch.informers import Registration, WatchSpec
from copyrator.kube.watch.store import seen
from copyrator.oci.auth import Credential
from copyrator.oci.errors import RegistryUnreachable
from copyrator.oci.reference import Repository
from copyrator.oci.signatures import SignatureFinder
from copyrator.signatures.model import (
    CosignKeys,
    DeployedEvidence,
    Found,
    FoundAttestations,
    Judgement,
    SignatureRequirement,
)
from copyrator.workqueue.fairness import FairLimit
from copyrator.workqueue.isolated import Isolated, IsolatedError

if TYPE_CHECKING:
    from copyrator.oci.client import RegistryClient

log = logging.getLogger(__name__)

SIGNATURES_INLINE: Final = 64 * 1024
"""Bytes of the signatures of one digest that are judged in a thread; more are judged in the child
process: parsers hold up the other threads."""

SIGNATURE_REFUSALS: Final = 500
"""Refusals that are kept, some 10 KB each at most, so that the same signatures aren't judged again
at each poll."""

TENANT_SIGNATURES: Final = 4
"""Digests whose signatures are read at a time for the Bundles of one namespace; each may hold
SIGNATURES_BYTES."""

TENANTS_SIGNATURES: Final = 32
"""The same of all namespaces together."""

SIGNATURE_CHECKS: Final = 2
"""Digests whose signatures are checked at a time, each in a thread, fair between namespaces."""

KEEP_VERDICTS: Final = 24 * 3600.0
"""Seconds before a digest is judged again, trusted or not."""


@dataclass(frozen=True, slots=True)
class SignatureQuery:
    """Whether this digest's signatures satisfy the requirements; read with this credential."""

    repository: Repository
    digest: str
    asked: Asked
    credential: Credential | None = None


@dataclass(frozen=True, slots=True)
class AttestationQuery:
    """What trusted keys attest of this digest; read with this credential."""

    repository: Repository
    digest: str
    attesters: Attesters
    credential: Credential | None = None


class SignatureVerifier:
    """Judges digests, a few at a time, fair between namespaces."""

    def __init__(
        self,
        client: RegistryClient,
        isolated: Isolated,
        monotonic: Callable[[], float],
        clock: Clock,
    ) -> None:
        self._finder = SignatureFinder(client)
        self._isolated = isolated
        self._monotonic = monotonic
        self._clock = clock
        self._finds = FairLimit(each=TENANT_SIGNATURES, together=TENANTS_SIGNATURES)
        self._checks = FairLimit(each=1, together=SIGNATURE_CHECKS)
        self._refusals: dict[tuple[str, str], tuple[float, Judgement]] = {}
        """Verdicts that aren't trusted, with their times, by the requirements and by all that was
        found; the least recently used first."""

    async def judge(self, query: SignatureQuery, namespace: str) -> Judgement:
        """Read a digest's signatures, and judge them unless exactly these were refused before.

        Raises:
            RegistryError: they can't be read, or judging them exceeds the child's limits.
        """
        async with self._finds.slot(namespace):
            found = await self._finder.find(query.repository, query.digest, query.credential)
            async with self._checks.slot(namespace):
                key = query.asked.key, await asyncio.to_thread(fingerprint, found)
                if (known := self._refusal(key)) is not None:
                    return known
                judged = await self._judge(found, query.asked.requirements, namespace)
        if not judged.is_trusted:
            self._refusals[key] = self._monotonic(), judged
            while len(self._refusals) > SIGNATURE_REFUSALS:
                del self._refusals[next(iter(self._refusals))]
        return judged

    async def read_evidence(self, query: AttestationQuery, namespace: str) -> DeployedEvidence:
        """Read a digest's attestations, and verify them.

        Raises:
            RegistryError: one of them can't be read, or verifying them exceeds the child's limits.
        """
        digest, trusted = query.digest, query.attesters.environments
        async with self._finds.slot(namespace):
            found = await self._finder.find_attestations(query.repository, digest, query.credential)
            async with self._checks.slot(namespace):
                if sum(len(one.blob) for one in found.signatures) <= SIGNATURES_INLINE:
                    return await asyncio.to_thread(judge_attestations, digest, found, trusted)
                try:
                    return await self._isolated.call(
                        judge_attestations, namespace, digest, found, trusted
                    )
                except IsolatedError as error:
                    text = f"the attestations of {digest} can't be judged: {error}"
                    raise RegistryUnreachable(text) from None

    async def _judge(
        self, found: Found, asked: Sequence[SignatureRequirement], namespace: str
    ) -> Judgement:
        """Judge in a thread, or in the limited child process where there is much to parse."""
        if sum(len(one.blob) for one in found.signatures) <= SIGNATURES_INLINE:
            return await asyncio.to_thread(judge_found, found, asked, self._clock())
        try:
            return await self._isolated.call(judge_found, namespace, found, asked, self._clock())
        except IsolatedError as error:
            text = f"the signatures of {found.artifact.digest} can't be judged: {error}"
            raise RegistryUnreachable(text) from None

    def _refusal(self, key: tuple[str, str]) -> Judgement | None:
        """The refusal of exactly these signatures, as long as no other verdict is possible."""
        at, judged = self._refusals.pop(key, (0.0, None))
        if judged is None or at < self._monotonic() - KEEP_VERDICTS:
            return None
        if judged.until is not None and self._clock() >= judged.until:
            return None
        self._refusals[key] = at, judged
        return judged


def fingerprint(found: Found) -> str:
    """A hash of everything that a verdict depends on, except the requirements and the time."""
    parts = [repr((found.artifact, found.skipped))]
    for one in found.signatures:
        content = hashlib.sha256(one.blob).hexdigest()
        parts.append(repr((one.format, one.digest, content, sorted(one.annotations.items()))))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def judge_found(found: Found, asked: Sequence[SignatureRequirement], now: datetime) -> Judgement:
    """Judge signatures; loads cryptography (13 MB), which isn't needed without signatures."""
    from copyrator.signatures.judge import judge  # noqa: PLC0415

    return judge(found, asked, now)


def judge_attestations(
    digest: str, found: FoundAttestations, trusted: Sequence[CosignKeys]
) -> DeployedEvidence:
    """Verify attestations; loads cryptography, as ``judge_found``."""
    from copyrator.signatures.attestation import judge  # noqa: PLC0415

    return judge(digest, found, trusted)


SETTLE: Final = 0.05
"""Seconds after a change in which further ones are collected before the policy is read."""
RETRY: Final = 15.0
"""Seconds after which a policy that can't be read or watched is read again."""
UNREAD_RETRY: Final = 2.0
"""The same before it was read for the first time."""
_POLICY: Final = LocalObjectRef(CONFIG_MAP)


_Required = dict[str, tuple[SignatureRequirement, tuple[str, ...]]]
"""The requirements of the policy's entries, by their names, with their faults."""


class TrustStore:
    """The signature policy, and what each Bundle has to satisfy.

    Attributes:
        keys: those that specs name.
    """

    def __init__(self, context: Context, references: ReferenceReader) -> None:
        self._context = context
        self.keys = KeyReader(context, references)
        self._policy = NO_POLICY
        self.ready = False
        """Whether the policy was read; until then nothing may be decided."""
        self._required: _Required = {}
        self._watches: dict[LocalObjectRef, Registration] = {}
        self._read_well = False
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Open the watches and read the policy."""
        self._follow({_POLICY})
        self._task = asyncio.create_task(self._keep_reading(), name="signature policy")

    async def stop(self) -> None:
        """End the watches."""
        self._follow(set())
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def concerns(self, spec: BundleSpec) -> bool:
        """Whether a Bundle's spec or the policy requires signatures."""
        if spec.signers:
            return True
        return self._policy is not NO_POLICY and self._policy.concerns(spec)

    async def of(self, entry: BundleEntry, spec: BundleSpec) -> Asked:
        """The requirements for a Bundle's signatures; reads keys of its spec only if they changed.

        Raises:
            ApiError: one of them can't be read.
        """
        policy = self._policy
        if not self.concerns(spec):
            return Asked()
        found = [self._required[one.name] for one in policy.matching(spec)]
        if spec.signers:
            found.append(await self.keys.requirement(entry, spec))
        faults = [fault for _, some in found for fault in some]
        return trust.combine_requirements((one for one, _ in found), faults, policy.blocked(spec))

    async def signers(self, entry: BundleEntry, spec: BundleSpec) -> list[SignatureRequirement]:
        """All that is trusted for signatures by the policy, also elsewhere, or by a Bundle's spec.

        Raises:
            ApiError: keys of its spec can't be read.
        """
        found = [one for one, _ in self._required.values()]
        if spec.signers:
            found.append((await self.keys.requirement(entry, spec))[0])
        return found

    # --- the policy -------------------------------------------------------------------------------

    async def _keep_reading(self) -> None:
        while True:
            await self._wait_for_change()
            self._changed.clear()
            try:
                await self._read()
            except Exception as error:  # an outdated policy may accept too much
                log.exception("the signature policy can't be read: %s", type(error).__name__)
                self._take(SignaturePolicy(fault=f"internal error ({type(error).__name__})"), {})

    async def _wait_for_change(self) -> None:
        """Wait until the policy or its keys may have changed, or a retry is due."""
        watches = self._watches.values()
        watched = self.ready and self._read_well and all(one.synced for one in watches)
        with suppress(TimeoutError):
            async with asyncio.timeout(None if watched else RETRY if self.ready else UNREAD_RETRY):
                await self._changed.wait()
        await asyncio.sleep(SETTLE)

    async def _read(self) -> None:
        """Read the ConfigMap and the objects that it names."""
        required: _Required = {}
        self._read_well = False
        home = self._context.settings.namespace
        try:
            policy = await self._read_policy()
            refs = {ref for entry in policy.entries for ref in refs_of(entry.any_of)}
            self._follow({_POLICY, *refs})
            contents = {ref: await self._read_object(ref) for ref in sorted(refs, key=str)}
            required = await asyncio.to_thread(
                lambda: {
                    one.name: trust.read_requirement(one.name, home, one.any_of, contents)
                    for one in policy.entries
                }
            )
        except Forbidden as error:
            policy = SignaturePolicy(fault=error.message)
        except ApiError as error:
            log.warning("the signature policy can't be read and isn't updated: %s", error.message)
            return
        except SpecError as error:
            policy = SignaturePolicy(fault=f"ConfigMap {home}/{CONFIG_MAP}: {error}")
        self._read_well = True
        self._take(policy, required)

    async def _read_policy(self) -> SignaturePolicy:
        home = self._context.settings.namespace
        watch = self._watches[_POLICY]
        try:
            if watch.synced and not watch.store:
                raise NotFound
            body = await self._context.client.get(CONFIGMAPS, home, CONFIG_MAP)
        except NotFound:
            if self._context.settings.require_signature_policy:
                raise SpecError(POLICY_KEY, REQUIRED) from None
            return NO_POLICY
        return await asyncio.to_thread(policy_in, body)

    async def _read_object(self, ref: LocalObjectRef) -> Mapping[str, bytes] | None:
        there = verify_ref(self._context.settings.namespace, ref)
        try:
            body = await self._context.client.get(there.resource, there.namespace, there.name)
        except NotFound:
            return None
        return files_of(ref, body)

    def _take(self, policy: SignaturePolicy, required: _Required) -> None:
        """Put a policy in force; requeue the Bundles that it or the former one concerns."""
        same = (policy, required) == (self._policy, self._required)
        if same and self.ready:
            return
        first, self.ready = not self.ready, True
        if policy.fault is not None:
            log.error("nothing new is deployed: the signature policy: %s", policy.fault)
        elif policy != self._policy:
            found = f"{count(len(policy.entries), 'entry', 'entries')}, default {policy.default}"
            log.info("the signature policy is in force: %s", found)
        before, self._policy, self._required = self._policy, policy, required
        for entry in self._context.bundles:
            spec = entry.spec
            if isinstance(spec, BundleSpec) and (
                first or before.concerns(spec) or policy.concerns(spec)
            ):
                self._context.schedule.changed(entry.key, Change.TRUST)

    def _follow(self, refs: set[LocalObjectRef]) -> None:
        for ref in self._watches.keys() - refs:
            self._watches.pop(ref).release()
        for ref in refs - self._watches.keys():
            there = verify_ref(self._context.settings.namespace, ref)
            spec = WatchSpec(
                resource=there.resource,
                namespace=there.namespace,
                name=there.name,
                metadata_only=True,
                decode=seen,
                reserved=True,
            )
            self._watches[ref] = self._context.informers.acquire(
                spec, lambda *_: self._changed.set(), on_synced=self._changed.set
            )
