"""What the approved plans of a release had, for its uninstall.

An uninstall may delete what they named, and make only their hooks. That is never read from the
stored release, which a chart may have drawn. It is kept in a Secret, owned by the Bundle, until the
Bundle is gone; as whoever may write Secrets there could add objects, it has a signature by the
operator's hash key. One of two names is free, so that the next one is there before the former one
is deleted.
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from copyrator.api.bundle_status import BundleStatus
from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.features.approval.operations import (
    NO_OBJECTS,
    PLAN_BYTES,
    Operation,
    OperationType,
    Plan,
    RenderedObjects,
    read_objects,
    read_operation,
)
from copyrator.bundles.features.approval.secrets import keyed_hash, release_secret
from copyrator.bundles.jobs.seal import SealKind, SealLabels
from copyrator.kube.errors import Forbidden, NotFound
from copyrator.kube.resources import SECRETS

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

_MOST_PLANS: Final = 20
"""Plans that are recorded by name while what was deployed before isn't known."""
_RECORD: Final = "record"
_SIGNATURE: Final = "signature"
_PURPOSE: Final = "release objects"


@dataclass(frozen=True, slots=True)
class ReleaseInventory:
    """The union of the approved plans that were attempted since the release began."""

    objects: RenderedObjects = NO_OBJECTS
    is_whole: bool = False
    """Whether it has all plans of what is deployed, or was attempted after that."""
    plans: tuple[str, ...] = ()
    """Without that, the Jobs of the plans that it has: one of them may be deployed."""

    def with_plan(
        self, job: str, objects: RenderedObjects, status: BundleStatus
    ) -> ReleaseInventory:
        """Also of a plan whose attempt begins.

        Args:
            job: that made the plan.
            objects: of the plan.
            status: of the Bundle, with the new attempt.
        """
        union = self._add(objects)
        is_first = not status.has_deployed and (status.attempted.attempt or 1) <= 1
        if is_first or self.is_complete(status):
            return ReleaseInventory(union, is_whole=True)
        plans = tuple(one for one in self.plans if one != job)
        return ReleaseInventory(union, plans=(*plans[1 - _MOST_PLANS :], job))

    def complete_with(self, objects: RenderedObjects) -> ReleaseInventory:
        """Also of what is deployed, as it was rendered."""
        return ReleaseInventory(self._add(objects), is_whole=True)

    def _add(self, objects: RenderedObjects) -> RenderedObjects:
        before = self.objects
        return RenderedObjects(
            before.inventory | objects.inventory,
            before.hooks | objects.hooks,
            (),
            tuple(sorted({*before.uninstall_hooks, *objects.uninstall_hooks}, key=str)),
            before.as_account | objects.as_account,
        )

    def is_complete(self, status: BundleStatus) -> bool:
        """Whether it has what is deployed."""
        return self.is_whole or (
            status.deployed.plan_job is not None and status.deployed.plan_job in self.plans
        )

    def to_text(self) -> str:
        """The record, as ``read_release`` reads it."""
        record = {"objects": self.objects.lines(), "whole": self.is_whole, "plans": self.plans}
        return json.dumps(record)

    @property
    def deletions(self) -> tuple[Operation, ...]:
        """What an uninstall may delete."""
        found = (read_operation(f"{OperationType.DELETE} {one}") for one in self.objects.inventory)
        return tuple(sorted((one for one in found if one is not None), key=str))

    @property
    def hooks_as_account(self) -> frozenset[Operation]:
        """The hooks of an uninstall that run as the deploying account."""
        hooks, ours = self.objects.uninstall_hooks, self.objects.as_account
        return frozenset(one for one in hooks if one.object in ours)


def read_release(text: str) -> ReleaseInventory | None:
    """Parse ``ReleaseInventory.to_text``; only records with a valid signature are parsed."""
    raw = json.loads(text)
    objects = read_objects(raw["objects"])
    if objects is None:
        return None
    return ReleaseInventory(objects, is_whole=raw["whole"], plans=tuple(raw["plans"]))


class Seals(Protocol):
    """What writes Secrets and derives keys."""

    def derive(self, entry: BundleEntry, job: str, purpose: str) -> str:
        """32 hexadecimal digits that can't be known without the operator's hash key."""
        ...

    async def replace(
        self, entry: BundleEntry, name: str, labels: SealLabels, data: Mapping[str, str]
    ) -> None:
        """Store texts in a Secret of the Bundle, in place of one that is there already."""
        ...


class InventoryStore:
    """The Secrets with the objects of all releases that are deployed by approved plans."""

    def __init__(self, client: KubeClient, seals: Seals) -> None:
        self._client = client
        self._seals = seals

    async def add(self, entry: BundleEntry, job: str, plan: Plan) -> None:
        """Add the objects of a plan, before the Job of its attempt is created.

        It writes only where something is added. What no longer fits into a Secret begins anew, and
        is whole once this plan is deployed.

        Raises:
            ApiError: it can't be read or written.
        """
        try:
            known, slot = await self._newest(entry)
        except Forbidden:
            return  # with bundles.allowedSecrets: it would be lost
        after = (known or ReleaseInventory()).with_plan(job, plan.objects, entry.status)
        if after == known:
            return
        if len(text := after.to_text()) > PLAN_BYTES:
            text = replace(after, objects=plan.objects, is_whole=False, plans=(job,)).to_text()
        data = {_RECORD: text, _SIGNATURE: self._signature(entry, text)}
        bundle = entry.key.name
        labels = SealLabels(bundle, bundle, SealKind.RELEASE)
        await self._seals.replace(entry, release_secret(bundle, 1 - slot), labels, data)
        with suppress(NotFound):
            former = release_secret(bundle, slot)
            await self._client.delete(SECRETS, entry.key.namespace, former)

    async def find(self, entry: BundleEntry) -> ReleaseInventory:
        """What is known of the Bundle's release; of an edited Secret nothing is.

        Raises:
            ApiError: it can't be read now.
        """
        try:
            known, _ = await self._newest(entry)
        except Forbidden:
            known = None
        return known or ReleaseInventory()

    async def _newest(self, entry: BundleEntry) -> tuple[ReleaseInventory | None, int]:
        """The newest record and its slot; without one the first slot is free."""
        slots = [(await self._read(entry, slot), slot) for slot in (0, 1)]
        found = [(one, slot) for one, slot in slots if one is not None]
        return max(found, key=lambda pair: _size(pair[0]), default=(None, 1))

    async def _read(self, entry: BundleEntry, slot: int) -> ReleaseInventory | None:
        name = release_secret(entry.key.name, slot)
        try:
            body = await self._client.get(SECRETS, entry.key.namespace, name)
            data = {key: base64.b64decode(one) for key, one in (body.get("data") or {}).items()}
            text, signature = data[_RECORD].decode(), data[_SIGNATURE]
        except (NotFound, KeyError, ValueError):
            return None
        if not hmac.compare_digest(signature, self._signature(entry, text).encode()):
            return None
        return read_release(text)

    def _signature(self, entry: BundleEntry, text: str) -> str:
        key = self._seals.derive(entry, "", _PURPOSE).encode()
        return keyed_hash(key, text.encode())


def _size(one: ReleaseInventory) -> tuple[int, bool, int]:
    """Of two records the larger one is the newer one: after a crash both are there."""
    return len(one.objects.lines()), one.is_whole, len(one.plans)
