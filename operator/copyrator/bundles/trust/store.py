"""What each Bundle's signatures have to satisfy now: its spec's entries, and the operator's policy.

The policy and its keys are objects of the operator's namespace: watched, and read again only when
one of them changed, once for all Bundles. Until they are read nothing new is deployed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from copyrator.api.bundle_spec import BundleSpec, LocalObjectRef, ValuesKind
from copyrator.api.counts import count
from copyrator.api.fields import SpecError
from copyrator.api.verify import refs_of
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.context import Context
from copyrator.bundles.gates.signature import Asked
from copyrator.bundles.inputs.reader import ReferenceReader, files_of, verify_ref
from copyrator.bundles.schedule import Change
from copyrator.bundles.trust import policy as trust
from copyrator.bundles.trust.policy import (
    CONFIG_MAP,
    NO_POLICY,
    POLICY_KEY,
    REQUIRED,
    SignaturePolicy,
    policy_in,
)
from copyrator.kube.errors import ApiError, Forbidden, NotFound
from copyrator.kube.resources import CONFIGMAPS
from copyrator.kube.watch.informers import Registration, WatchSpec
from copyrator.kube.watch.seen import seen
from copyrator.signatures.model import SignatureRequirement

log = logging.getLogger(__name__)

SETTLE: Final = 0.05
"""Seconds after a change in which further ones are collected before the policy is read."""
RETRY: Final = 15.0
"""Seconds after which a policy that can't be read or watched is read again."""
UNREAD_RETRY: Final = 2.0
"""The same before it was read for the first time."""
_POLICY: Final = LocalObjectRef(ValuesKind.CONFIG_MAP, CONFIG_MAP)


_Required = dict[str, tuple[SignatureRequirement, tuple[str, ...]]]
"""The requirements of the policy's entries, by their names, with their faults."""


class TrustStore:
    """The signature policy, and what each Bundle has to satisfy."""

    def __init__(self, context: Context, references: ReferenceReader) -> None:
        self._context = context
        self._references = references
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
        return spec.verify is not None or self._policy.concerns(spec)

    async def of(self, entry: BundleEntry, spec: BundleSpec) -> Asked:
        """The requirements for a Bundle's signatures; reads keys of its spec only if they changed.

        Raises:
            ApiError: one of them can't be read.
        """
        policy = self._policy
        if not self.concerns(spec):
            return Asked()
        found = [self._required[one.name] for one in policy.matching(spec)]
        if spec.verify is not None:
            found.append(await self._references.requirement(entry, spec))
        faults = [fault for _, some in found for fault in some]
        return trust.combine_requirements((one for one, _ in found), faults, policy.blocked(spec))

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
            required = await asyncio.to_thread(_read_required, policy, home, contents)
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


def _read_required(policy: SignaturePolicy, home: str, contents: trust.Contents) -> _Required:
    return {
        entry.name: trust.read_requirement(entry.name, home, entry.any_of, contents)
        for entry in policy.entries
    }
