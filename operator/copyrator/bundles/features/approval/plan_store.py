"""The operations that plans found, in Secrets."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass, field
from typing import Final

from copyrator.bundles.engine.bundle import BundleEntry
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.sealed import SealStore
from copyrator.bundles.features.approval.fields import ApprovedPlan
from copyrator.bundles.features.approval.operations import Operation, Plan, read_plan
from copyrator.bundles.features.approval.plans import Baseline
from copyrator.bundles.features.approval.secrets import (
    OPERATIONS,
    PlanSecret,
    operations_secret,
)
from copyrator.bundles.jobs.seal import SALT, seal_of
from copyrator.kube.errors import Forbidden, NotFound
from copyrator.kube.resources import SECRETS

_REMEMBERED: Final = 2
"""Plans of a Bundle that are kept in memory: of the deploy, and of the check for drift."""
_REMEMBERED_BYTES: Final = 16 * 1024
"""Bytes of one that is kept, compressed: some thousand operations."""


@dataclass(frozen=True, slots=True)
class RollbackHooks:
    """The hooks that a rollback to what is deployed makes, as approved for that."""

    operations: tuple[Operation, ...] = ()
    unknown: str = ""
    """Why they aren't known, as a sentence without a full stop; empty: they are."""


@dataclass(slots=True)
class StoredPlans:
    """The last plans of a Bundle that were stored."""

    texts: dict[str, bytes] = field(default_factory=dict)
    """Compressed, by their Jobs' names."""


class PlanStore:
    """The operations that plans found, in Secrets."""

    def __init__(self, context: Context, seals: SealStore) -> None:
        self._context = context
        self._seals = seals

    async def store(self, entry: BundleEntry, job: str, text: str) -> str:
        """Store the operations that a plan Job found; returns the seal that a deploy checks."""
        salt, name = self._seals.derive(entry, job, "salt"), operations_secret(job)
        data = {SALT: salt, OPERATIONS: text}
        await self._seals.store(entry, name, job, PlanSecret.OPERATIONS, data)
        self._remember(entry, job, text)
        return seal_of(salt, text.encode())

    def _remember(self, entry: BundleEntry, job: str, text: str) -> None:
        """Keep a plan that is small, so that its deploy reads no Secret."""
        kept = self._context.memories.of(entry.key, StoredPlans).texts
        compressed = zlib.compress(text.encode())
        if len(compressed) <= _REMEMBERED_BYTES:
            kept[job] = compressed
        while len(kept) > _REMEMBERED:
            del kept[next(iter(kept))]

    def is_sealed(self, entry: BundleEntry, kept: ApprovedPlan | Baseline, content: bytes) -> bool:
        """Whether it is the text of the plan that was stored."""
        salt = self._seals.derive(entry, kept.job or "", "salt")
        return seal_of(salt, content) == kept.seal

    async def find(self, entry: BundleEntry, kept: ApprovedPlan | Baseline) -> Plan | None:
        """The stored plan; None where there is none, it was changed, or it can't be read."""
        try:
            return await self.read(entry, kept)
        except Forbidden:
            return None

    async def read(self, entry: BundleEntry, kept: ApprovedPlan | Baseline) -> Plan | None:
        """The stored plan; None where there is none, or it was changed.

        Raises:
            ApiError: it can't be read.
        """
        if kept.job is None:
            return None
        name = operations_secret(kept.job)
        try:
            body = await self._context.client.get(SECRETS, entry.key.namespace, name)
            content = base64.b64decode((body.get("data") or {}).get(OPERATIONS) or "")
        except (NotFound, ValueError):
            return None
        return read_plan(content.decode()) if self.is_sealed(entry, kept, content) else None

    async def recall(self, entry: BundleEntry, kept: ApprovedPlan | Baseline) -> Plan | None:
        """The stored plan as ``read`` finds it, without a request where this process stored it.

        Raises:
            ApiError: it can't be read.
        """
        memory = self._context.memories.find(entry.key, StoredPlans)
        known = memory.texts.get(kept.job or "") if memory is not None else None
        if known is None:
            return await self.read(entry, kept)
        content = zlib.decompress(known)
        return read_plan(content.decode()) if self.is_sealed(entry, kept, content) else None

    async def find_rollback_hooks(self, entry: BundleEntry) -> RollbackHooks:
        """The hooks of a rollback to the deployed version.

        Raises:
            ApiError: its plan can't be read now.
        """
        there = entry.status.deployed
        if there.digest is None:
            return RollbackHooks()  # nothing to roll back to
        hooks = f"the hooks for a rollback to {there.version} aren't known"
        if there.plan_job is None:
            return RollbackHooks(unknown=f"{hooks}, as it was deployed without a plan")
        kept = ApprovedPlan(job=there.plan_job, seal=there.plan_seal)
        try:
            stored = await self.recall(entry, kept)
        except Forbidden as error:
            return RollbackHooks(unknown=f"{hooks}, as its plan can't be read: {error.message}")
        if stored is None:
            return RollbackHooks(unknown=f"{hooks}, as its plan was deleted or changed")
        return RollbackHooks(stored.objects.rollback_hooks)
