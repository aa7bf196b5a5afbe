"""Writes the status and the finalizer of a Bundle.

A status is written once for each change, and not without one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason, BundleStatus, Verification
from copyrator.api.conditions import (
    ConditionType,
    FurtherCondition,
    ReadyCondition,
    build_conditions,
    unmanaged_conditions,
    with_further,
)
from copyrator.api.fields import InvalidSpec
from copyrator.api.merge_patch import merge_patch
from copyrator.api.times import parse_time
from copyrator.bundles import promotions, soaks, status_events
from copyrator.bundles.context import Context
from copyrator.bundles.entry import BundleEntry, read_entry
from copyrator.bundles.health import Health as ReleaseHealth
from copyrator.bundles.policy import ready_conditions
from copyrator.bundles.policy.gated import settings_withheld
from copyrator.bundles.policy.gates import signature
from copyrator.bundles.policy.plans import correction
from copyrator.bundles.policy.requests import failed, reset_patch
from copyrator.bundles.policy.schedule import same_rhythm
from copyrator.kube.client.client import PatchType
from copyrator.kube.errors import ConflictError, Invalid, NotFound
from copyrator.kube.resources import BUNDLES

_NAMED_RIVALS: Final = 3


class StaleError(Exception):
    """The Bundle changed concurrently; the cache has its new state: reconcile it again."""


class StatusWriter:
    """Writes status, finalizers and annotations of Bundles."""

    def __init__(self, context: Context, health: ReleaseHealth) -> None:
        self._context = context
        self._health = health

    async def write(
        self,
        entry: BundleEntry,
        status: BundleStatus,
        verdict: ReadyCondition,
        *,
        decided: bool = True,
    ) -> BundleEntry:
        """Write a status, if it changed; returns the Bundle as it is then.

        Args:
            entry: the Bundle that the status was decided on.
            status: all of it but conditions, observedGeneration and failed requests.
            verdict: becomes the conditions.
            decided: whether the present spec was evaluated; the outcome of an older spec's Job
                doesn't set its observedGeneration.

        Raises:
            StaleError: another client changed the Bundle since ``entry``; nothing was written.
        """
        now = self._context.clock()
        verdict = self._naming_rivals(entry, verdict)
        observed = entry.status.observed_generation
        generation = entry.generation if decided else observed
        spec = entry.spec
        gates = self._context.gates
        gated = isinstance(spec, BundleSpec) and gates.any_of(spec)
        kept = gates.kept(spec, status.gates) if isinstance(spec, BundleSpec) else ()
        status = replace(status, gates=kept)
        if not gated:
            status, gated = replace(status, verification=Verification()), bool(kept)
        conditions = build_conditions(
            entry.status.conditions,
            verdict,
            generation=generation or 0,
            now=now,
            further=self._further(status, spec, gated=gated)
            | {ConditionType.HEALTHY: self._health.before(entry, entry.status)},
        ) + unmanaged_conditions(entry.status.conditions)
        status = replace(status, conditions=tuple(conditions), observed_generation=generation)
        if decided and entry.request is not None and verdict.is_failure:
            status = failed(status, entry.request)
        if not _has_changed(entry, status):
            return entry
        status = self._with_health(entry, status)
        written = await self._replace(entry, status)
        if status.plan != entry.status.plan:
            self._context.schedule.repeat(entry.key)  # for its Job's TTL and its Secrets
        status_events.record_ready(self._context, entry, verdict)
        status_events.record_drift(self._context, entry, written)
        self._health_written(entry, written)
        if gated:
            status_events.record_update(self._context, entry, status, verdict)
        return written

    async def record(self, entry: BundleEntry, status: BundleStatus) -> BundleEntry:
        """Write a part of the status that no condition depends on; returns the Bundle then.

        The Bundle is requeued, as Jobs or Secrets may not be needed any more.

        Raises:
            StaleError: as ``write``.
        """
        if status == entry.status:
            return entry
        written = await self._replace(entry, status)
        self._context.schedule.repeat(entry.key)
        return written

    async def conclude(self, entry: BundleEntry, status: BundleStatus) -> BundleEntry:
        """Write the result of a check for drift, if it changed, and the condition Drifted.

        Raises:
            StaleError: as ``write``.
        """
        if status == entry.status or not isinstance(entry.spec, BundleSpec):
            return entry
        conditions = with_further(
            status.conditions,
            ConditionType.DRIFTED,
            correction.drifted_condition(status, entry.spec),
            generation=status.observed_generation or 0,
            now=self._context.clock(),
        )
        written = await self._replace(entry, replace(status, conditions=tuple(conditions)))
        status_events.record_drift(self._context, entry, written)
        return written

    async def note_health(self, entry: BundleEntry) -> BundleEntry:
        """Write the condition Healthy, if it has changed and the last write isn't too new.

        Raises:
            StaleError: as ``write``.
        """
        if self._health.due(entry) is None:
            return entry
        written = await self._replace(entry, self._with_health(entry, entry.status))
        self._health_written(entry, written)
        return written

    def _further(
        self, status: BundleStatus, spec: BundleSpec | InvalidSpec, *, gated: bool
    ) -> dict[ConditionType, FurtherCondition | None]:
        """The further conditions but Healthy; None for those that the Bundle doesn't have."""
        found: dict[ConditionType, FurtherCondition | None] = {}
        if gated:
            found[ConditionType.UPDATE_PENDING] = ready_conditions.update_pending(status)
            found[ConditionType.VERIFIED] = signature.verified_condition(status)
        if isinstance(spec, BundleSpec):
            found[ConditionType.DRIFTED] = correction.drifted_condition(status, spec)
            withheld = settings_withheld(self._context.effective(spec))
            found[ConditionType.SETTINGS_WITHHELD] = withheld
        return found

    def _with_health(self, entry: BundleEntry, status: BundleStatus) -> BundleStatus:
        """The status with the condition Healthy as it is now, which is written next."""
        conditions = with_further(
            status.conditions,
            ConditionType.HEALTHY,
            self._health.condition(entry, status),
            generation=status.observed_generation or 0,
            now=self._context.clock(),
        )
        return replace(status, conditions=tuple(conditions))

    def _health_written(self, entry: BundleEntry, written: BundleEntry) -> None:
        self._health.wrote(entry, written)
        status_events.record_health(self._context, entry, written)

    async def _replace(self, entry: BundleEntry, status: BundleStatus) -> BundleEntry:
        """Write the whole status by a merge patch.

        Not by server-side apply, which doesn't remove fields that another manager wrote: after a
        restored backup the same change would be written at every poll.
        """
        status = soaks.with_soak(self._context, entry, status)
        patch = merge_patch(entry.raw_status, status.to_dict())
        body = _guarded(entry, {}) | {"status": patch}
        written = await self._patch(entry, body, PatchType.MERGE, subresource="status")
        soaks.record_breaks(self._context, entry, status.soak)
        return written

    async def keep_soak(self, entry: BundleEntry) -> BundleEntry:
        """Write ``status.soak`` where it changed by something outside the status, such as a hold.

        Raises:
            StaleError: as ``write``.
        """
        memory = self._context.memory(entry.key)
        if not promotions.is_kept(self._context.bundles, entry):
            return entry
        if memory.soak == entry.resource_version:
            return entry
        status = soaks.with_soak(self._context, entry, entry.status)
        if status.soak != entry.status.soak:
            entry = await self._replace(entry, status)
        memory.soak = entry.resource_version
        return entry

    async def ensure_finalizer(self, entry: BundleEntry) -> BundleEntry:
        """Add our finalizer, and remove the original operator's finalizer and annotations."""
        if names.FINALIZER_BUNDLE in entry.finalizers and not entry.leftovers:
            return entry
        kept = [name for name in entry.finalizers if name != names.FINALIZER_KOPF]
        if names.FINALIZER_BUNDLE not in kept:
            kept.append(names.FINALIZER_BUNDLE)
        metadata: dict[str, Any] = {"finalizers": kept}
        if entry.leftovers:
            metadata["annotations"] = await self._kopf_annotations(entry)
        return await self._patch(entry, _guarded(entry, metadata), PatchType.MERGE)

    async def remove_finalizer(self, entry: BundleEntry) -> None:
        """Remove our finalizer (and the original's), so that the deletion completes."""
        ours = {names.FINALIZER_BUNDLE, names.FINALIZER_KOPF}
        kept = [name for name in entry.finalizers if name not in ours]
        if len(kept) == len(entry.finalizers):
            return
        try:
            await self._patch(entry, _guarded(entry, {"finalizers": kept}), PatchType.MERGE)
        except NotFound:
            return

    async def reset_force(self, entry: BundleEntry) -> BundleEntry:
        """Reset ``forceUpdate`` to 0, unless another client changed it; returns the Bundle then."""
        uid = {"op": "test", "path": "/metadata/uid", "value": entry.uid}
        patch = [uid, *reset_patch(entry.status)]
        try:
            answer = await self._context.client.patch(
                BUNDLES,
                entry.key.namespace,
                entry.key.name,
                patch,
                kind=PatchType.JSON,
                subresource="status",
            )
        except Invalid:
            return entry  # the patch's test failed: it isn't 1 any more
        return self._take(answer)

    async def refresh(self, entry: BundleEntry) -> None:
        """Read the Bundle with GET, and store it in the cache."""
        key = entry.key
        try:
            body = await self._context.client.get(BUNDLES, key.namespace, key.name)
        except NotFound:
            before = self._context.bundles.get(key)
            if self._context.bundles.remove(key, entry.uid):
                self._context.schedule.changed_with(before, None)
            return
        self._take(body)

    async def _patch(
        self,
        entry: BundleEntry,
        body: dict[str, Any],
        kind: PatchType,
        *,
        subresource: str | None = None,
    ) -> BundleEntry:
        key = entry.key
        try:
            answer = await self._context.client.patch(
                BUNDLES,
                key.namespace,
                key.name,
                body,
                kind=kind,
                subresource=subresource,
            )
        except ConflictError:
            await self.refresh(entry)
            raise StaleError from None
        return self._take(answer)

    def _naming_rivals(self, entry: BundleEntry, verdict: ReadyCondition) -> ReadyCondition:
        """The condition of a release's owner, with the other Bundles that claim the release."""
        bundles = self._context.bundles.bundles_of(entry.release)
        if entry.deleting or len(bundles) < 2 or bundles[0].key != entry.key:
            return verdict
        rivals = [f"{one.key.namespace}/{one.key.name}" for one in bundles[1:] if not one.deleting]
        if not rivals or verdict.reason == BundleReason.RELEASE_CONFLICT:
            return verdict
        named = ", ".join(rivals[:_NAMED_RIVALS])
        more = f" and {len(rivals) - _NAMED_RIVALS} more" if len(rivals) > _NAMED_RIVALS else ""
        text = f"{verdict.message.rstrip('. ')}. The same release is named by Bundle {named}{more}"
        return replace(verdict, message=text + ", which deploys nothing")

    def _take(self, body: dict[str, Any]) -> BundleEntry:
        written = read_entry(body, self._context.defaults)
        before = self._context.bundles.get(written.key)
        if self._context.bundles.take(written):
            self._context.schedule.changed_with(before, written)
        return written

    async def _kopf_annotations(self, entry: BundleEntry) -> dict[str, None]:
        body = await self._context.client.get(BUNDLES, entry.key.namespace, entry.key.name)
        found = body["metadata"].get("annotations") or {}
        return {name: None for name in found if name.startswith(names.KOPF_PREFIX)}


def _guarded(entry: BundleEntry, metadata: dict[str, Any]) -> dict[str, Any]:
    guard = {"uid": entry.uid, "resourceVersion": entry.resource_version}
    return {"metadata": metadata | guard}


def _has_changed(entry: BundleEntry, status: BundleStatus) -> bool:
    """Whether a status differs from the stored one.

    A nextPollAt that is later by whole intervals is no change.
    """
    old = entry.status
    if replace(status, next_poll_at=None, force_update=None) != replace(
        old, next_poll_at=None, force_update=None
    ):
        return True
    before, after = parse_time(old.next_poll_at), parse_time(status.next_poll_at)
    if before is None or after is None or not isinstance(entry.spec, BundleSpec):
        return before != after
    return not same_rhythm(entry.spec, before, after)
