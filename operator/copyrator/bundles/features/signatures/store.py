"""What each Bundle's signatures have to satisfy now.

The operator's policy and its keys are objects of its namespace: watched, and read again only when
one of them changed, once for all Bundles. Until they are read nothing new is deployed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.object_refs import LocalObjectRef
from copyrator.api.schema import SpecError
from copyrator.api.text import count
from copyrator.api.verify import refs_of
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.references import ReferenceReader, local_ref
from copyrator.bundles.engine.step import Change
from copyrator.bundles.evidence.key_files import Contents, files_of
from copyrator.bundles.evidence.keys import KeyReader
from copyrator.bundles.evidence.signers import Asked
from copyrator.bundles.features.signatures import policy as trust
from copyrator.bundles.features.signatures.fields import SignaturesSpec
from copyrator.bundles.features.signatures.policy import (
    CONFIG_MAP,
    NO_POLICY,
    POLICY_KEY,
    REQUIRED,
    SignaturePolicy,
    policy_in,
)
from copyrator.bundles.features.signatures.settings import SignaturesSettings
from copyrator.kube.errors import ApiError, Forbidden, NotFound
from copyrator.kube.resources import CONFIGMAPS
from copyrator.kube.watch.informers import Registration
from copyrator.kube.watch.reflector import WatchSpec, seen
from copyrator.signatures.model import SignatureRequirement

log = logging.getLogger(__name__)

SETTLE: Final = 0.05
"""Seconds after a change in which further ones are collected before the policy is read."""
RETRY: Final = 15.0
"""Seconds after which a policy that can't be read or watched is read again."""
UNREAD_RETRY: Final = 2.0
"""The same before it was read for the first time."""
NAMED_REPOSITORIES: Final = 10_000
"""Repositories of which it is kept whether the policy concerns them."""
_POLICY: Final = LocalObjectRef(CONFIG_MAP)


Requirement = tuple[SignatureRequirement, tuple[str, ...]]
"""What has to be satisfied, and the faults of its entries."""
_Required = dict[str, Requirement]
"""The requirements of the policy's entries, by their names."""


class TrustStore:
    """The signature policy, and what each Bundle has to satisfy.

    Args:
        context: the controller's.
        references: reads keys that specs name.
        on_policy: is called when another policy is in force, before any Bundle is requeued.
    """

    def __init__(
        self, context: Context, references: ReferenceReader, on_policy: Callable[[], None]
    ) -> None:
        self._context = context
        self._keys: KeyReader[Requirement] = KeyReader(references, "signers")
        self._on_policy = on_policy
        self._policy = NO_POLICY
        self._named: dict[tuple[str, str], bool] = {}
        """Whether it concerns a registry's repository."""
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
        return spec.uses(SignaturesSpec) or self._names(spec)

    def _names(self, spec: BundleSpec) -> bool:
        """Whether the policy concerns a Bundle's repository: matching all globs takes long."""
        where = spec.registry, spec.repo
        if (found := self._named.get(where)) is None:
            if len(self._named) >= NAMED_REPOSITORIES:
                self._named.clear()
            found = self._named[where] = self._policy.concerns(spec)
        return found

    @property
    def has_policy(self) -> bool:
        """Whether a policy is in force."""
        return self._policy is not NO_POLICY

    async def of(self, entry: BundleEntry, spec: BundleSpec) -> Asked:
        """The requirements for a Bundle's signatures; reads keys of its spec only if they changed.

        Raises:
            ApiError: one of them can't be read.
        """
        policy = self._policy
        found = [self._required[one.name] for one in policy.matching(spec)]
        if (wanted := spec.find(SignaturesSpec)) is not None:
            found.append(await self._requirement(entry, spec, wanted))
        faults = [fault for _, some in found for fault in some]
        return trust.combine_requirements((one for one, _ in found), faults, policy.blocked(spec))

    async def signers(self, entry: BundleEntry, spec: BundleSpec) -> list[SignatureRequirement]:
        """All that is trusted for signatures by the policy, also elsewhere, or by a Bundle's spec.

        Raises:
            ApiError: keys of its spec can't be read.
        """
        found = [one for one, _ in self._required.values()]
        if (wanted := spec.find(SignaturesSpec)) is not None:
            found.append((await self._requirement(entry, spec, wanted))[0])
        return found

    async def _requirement(
        self, entry: BundleEntry, spec: BundleSpec, wanted: SignaturesSpec
    ) -> Requirement:
        """The requirement of ``spec.verify`` and its faults; reads keys only if they changed."""

        def make(contents: Contents) -> Requirement:
            return trust.read_requirement(trust.SPEC, spec.namespace, wanted.any_of, contents)

        return await self._keys.read(entry, spec, refs_of(wanted.any_of), wanted, make)

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
            if self._context.settings.of(SignaturesSettings).require_signature_policy:
                raise SpecError(POLICY_KEY, REQUIRED) from None
            return NO_POLICY
        return await asyncio.to_thread(policy_in, body)

    async def _read_object(self, ref: LocalObjectRef) -> Mapping[str, bytes] | None:
        there = local_ref(self._context.settings.namespace, ref)
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
        self._named.clear()
        self._on_policy()
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
            there = local_ref(self._context.settings.namespace, ref)
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
