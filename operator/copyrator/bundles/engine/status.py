"""Writes Bundles: their statuses, with Events about what has changed, finalizers and annotations.

Each only as it was read; what an answer means for others is enqueued. A status is written once for
each change, and not without one. What features derive from it is written with it.
"""

from __future__ import annotations

import logging
import zlib
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from copyrator.api import names, structs
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, GateStatus
from copyrator.api.conditions import (
    NOT_SUSPENDED,
    Condition,
    ConditionStatus,
    ConditionType,
    FurtherCondition,
    Health,
    ReadyCondition,
    ready_reason,
    suspend,
    suspended_ready,
)
from copyrator.api.reasons.bundles import BundleEvent, BundleReason
from copyrator.api.schema import InvalidSpec, merge_patch
from copyrator.api.text import parse_time
from copyrator.bundles.engine import conditions as ready_conditions
from copyrator.bundles.engine.bundle import (
    BundleEntry,
    read_entry,
    record_failed_request,
    reset_patch,
)
from copyrator.bundles.engine.context import Context
from copyrator.bundles.engine.feature import Feature, Features
from copyrator.bundles.engine.poll import same_rhythm
from copyrator.bundles.fields import bundle_conditions
from copyrator.bundles.jobs.restrictions import withheld_condition
from copyrator.kube.client.client import PatchType
from copyrator.kube.errors import ConflictError, Invalid, NotFound
from copyrator.kube.events import WARNING, EventType
from copyrator.kube.resources import BUNDLES

log = logging.getLogger(__name__)


def _record_force(context: Context, entry: BundleEntry, status: BundleStatus) -> None:
    """Emit an Event where a forced deploy or rollback that ignores gates begins."""
    attempted = status.attempted
    if not attempted.passed_over or attempted.attempt == entry.status.attempted.attempt:
        return
    over = ", ".join(f"{one.text} ({one.reason})" for one in attempted.passed_over)
    is_pinned = attempted.digest == status.pin.digest
    what = "rollback to" if is_pinned else "forced deploy of"
    text = f"The {what} {attempted.version} passes over gates: {over}"
    context.record(entry, BundleEvent.GATES_PASSED_OVER, text)
    log.info("%s: %s", entry.key, text)


_NAMED_RIVALS: Final = 3


_REFUSALS: Final = (
    BundleReason.INVALID_SPEC,
    BundleReason.NAMESPACE_CHANGED,
    BundleReason.RELEASE_CONFLICT,
    BundleReason.RELEASE_NOT_ACCEPTED,
)
"""Reasons why a spec is rejected, whether it suspends the Bundle or not."""


def keep_ready(
    entry: BundleEntry, status: BundleStatus, verdict: ReadyCondition
) -> tuple[BundleStatus, ReadyCondition]:
    """The status and Ready to write: of a suspended Bundle Ready keeps its status.

    A Job that was begun before goes on: its outcome becomes what Ready was.
    """
    before, suspends = entry.status, isinstance(entry.spec, BundleSpec) and entry.spec.suspend
    by = BundleReason.SUSPENDED if suspends else None
    if names.ANN_DISABLE_AUTOUPDATE in entry.annotations:
        by = BundleReason.AUTOUPDATE_DISABLED
    if entry.deleting or (by is None and isinstance(entry.spec, BundleSpec)):
        return structs.replace(status, suspension=NOT_SUSPENDED), verdict
    if by is None or verdict.reason in _REFUSALS or status.attempted.is_running:
        return status, verdict
    kept = status.suspension
    if kept == NOT_SUSPENDED or before.attempted.is_running:
        ready = before.condition(ConditionType.READY)
        if before.attempted.is_running:
            kind, word = verdict.statuses[0].value, str(verdict.reason)
            ready = Condition(status=kind, reason=word, message=verdict.message)
        kept = suspend(
            ready,
            observed=before.observed_generation,
            generation=entry.generation,
            edits=int(suspends),
        )
    if by is BundleReason.SUSPENDED and verdict.health is Health.PAUSED:
        kept = structs.replace(kept, pending=verdict.message or None)
    is_edited = entry.generation > (kept.generation or 0) or (
        kept.reason == BundleReason.DEPLOYED and status.deployed.spec_hash != entry.spec_hash
    )
    status = structs.replace(status, suspension=kept)
    return status, suspended_ready(kept, by, is_edited=is_edited)


@dataclass(eq=False)
class StatusWriter:
    """Writes the statuses of Bundles."""

    context: Context
    patches: BundlePatcher
    features: Features

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
        found = verdict
        status, verdict = keep_ready(entry, status, found)
        verdict = self._naming_rivals(entry, verdict)
        generation = entry.generation if decided else entry.status.observed_generation
        status = structs.replace(status, deploy=status.deploy.shortened())
        status, further = self._further(entry, status, found)
        if not self._is_plain(entry):
            for feature in self.features.of(entry, Feature.conditions):
                further |= feature.conditions(entry, status)
        status = structs.replace(
            status, conditions=entry.status.conditions, observed_generation=generation
        )
        changed = dict.fromkeys(bundle_conditions()) | verdict.conditions | further
        status = ready_conditions.with_conditions(status, changed, self.context.clock())
        if decided and found.is_failure and (request := entry.request) is not None:
            status = record_failed_request(status, request)
        if not _has_changed(entry.spec, entry.status, status):
            return entry
        if not self._is_plain(entry):
            for feature in self.features.of(entry, Feature.refresh):
                status = feature.refresh(entry, status)
        written = await self._replace(entry, status)
        if verdict.health is Health.PAUSED and entry.status.attempted.is_running:
            self._record_ready(entry, status, found)  # the outcome of the last attempt
        self._record_ready(entry, status, verdict)
        self._record_features(entry, written)
        if ConditionType.UPDATE_PENDING in further:
            self._record_update(entry, status, verdict)
        return written

    async def write_part(self, entry: BundleEntry, status: BundleStatus) -> BundleEntry:
        """Write a part of the status, if it changed; returns the Bundle as it is then.

        Its conditions are part of ``status``.

        Raises:
            StaleError: as ``write``.
        """
        if status == entry.status:
            return entry
        written = await self._replace(entry, status)
        self._record_features(entry, written)
        return written

    def _is_plain(self, entry: BundleEntry) -> bool:
        """Whether no feature concerns a Bundle."""
        return entry.is_plain and not self.features.reach_others

    def _record_features(self, before: BundleEntry, written: BundleEntry) -> None:
        """Have features tell what has changed of theirs."""
        if not (self._is_plain(before) and written.is_plain):
            self.features.record(before, written)

    def _record_ready(
        self, entry: BundleEntry, status: BundleStatus, verdict: ReadyCondition
    ) -> None:
        """Emit an Event where the reason of Ready changed."""
        if ready_reason(entry.status.conditions) == verdict.reason:
            return
        kind, reason = ConditionType.READY, verdict.reason
        if self._is_plain(entry) or not self.features.has_told(entry, kind, reason, status):
            type_: EventType | None = WARNING if verdict.is_failure else None
            self.context.emit(entry, verdict.reason, verdict.message, type_)

    def _record_update(
        self, entry: BundleEntry, status: BundleStatus, verdict: ReadyCondition
    ) -> None:
        """Emit an Event where the reason of UpdatePending changed."""
        before, update = entry.status, ready_conditions.update_pending(status)
        kind, reported = ConditionType.UPDATE_PENDING, ready_conditions.update_pending(before)
        is_told = update.reason in {reported.reason, verdict.reason}
        is_told = is_told or self.features.has_told(entry, kind, update.reason, status)
        if update.status == ConditionStatus.TRUE and not is_told:
            self.context.emit(entry, update.reason, update.message)
        _record_force(self.context, entry, status)

    def _further(
        self, entry: BundleEntry, status: BundleStatus, ready: ReadyCondition
    ) -> tuple[BundleStatus, dict[str, FurtherCondition | None]]:
        """The status with the verdicts of the gates that the Bundle has, and further conditions.

        Without features'; one is None that the Bundle doesn't have.
        """
        spec, gates, gated = entry.spec, self.context.gates, False
        kept: tuple[GateStatus, ...] = ()
        found: dict[str, FurtherCondition | None] = {}
        if isinstance(spec, BundleSpec):
            kept, gated = gates.kept(spec, status.gates), gates.any_of(spec)
            withheld = withheld_condition(self.context.effective(spec))
            found[ConditionType.SETTINGS_WITHHELD] = withheld
        status = structs.replace(status, gates=kept)
        if not gated:
            for record in filter(None, (gate.record for gate in gates)):
                status = status.with_part(record())
            gated = bool(kept) or status.pin.digest is not None or bool(status.pin.refusal)
        if gated:
            found[ConditionType.UPDATE_PENDING] = ready_conditions.update_pending(status, ready)
        return status, found

    async def _replace(self, entry: BundleEntry, status: BundleStatus) -> BundleEntry:
        """Write the whole status by a merge patch.

        Not by server-side apply, which doesn't remove fields that another manager wrote: after a
        restored backup the same change would be written at every poll.
        """
        if not self._is_plain(entry):
            for feature in self.features.of(entry, Feature.derive):
                status = feature.derive(entry, status)
        patch = merge_patch(stored_status(entry), status.to_dict())
        return await self.patches.patch(entry, {"status": patch}, subresource="status")

    def _naming_rivals(self, entry: BundleEntry, verdict: ReadyCondition) -> ReadyCondition:
        """The condition of a release's owner, with the other Bundles that claim the release."""
        release, is_told = entry.release, verdict.reason == BundleReason.RELEASE_CONFLICT
        is_told = is_told or verdict.health is Health.PAUSED  # then it says what Ready was
        if release is None or entry.deleting or is_told:
            return verdict
        bundles = self.context.bundles.bundles_of(release)
        rivals = [f"{one.key.namespace}/{one.key.name}" for one in bundles[1:] if not one.deleting]
        if not rivals or bundles[0].key != entry.key or not entry.holds(release):
            return verdict
        named = ", ".join(rivals[:_NAMED_RIVALS])
        more = f" and {len(rivals) - _NAMED_RIVALS} more" if len(rivals) > _NAMED_RIVALS else ""
        text = f"{verdict.message.rstrip('. ')}. The same release is named by Bundle {named}{more}"
        return replace(verdict, message=text + ", which deploys nothing")


def stored_status(entry: BundleEntry) -> dict[str, Any]:
    """The status as stored, including what can't be parsed, but for ``forceUpdate``."""
    if not entry.unread:
        return entry.status.to_dict()
    found: dict[str, Any] = msgspec.json.decode(zlib.decompress(entry.unread))
    return found


def _has_changed(spec: BundleSpec | InvalidSpec, old: BundleStatus, status: BundleStatus) -> bool:
    """Whether a status differs from the stored one.

    A nextPollAt that is later by whole intervals is no change.
    """
    if structs.replace(status, next_poll_at=None, force_update=None) != structs.replace(
        old, next_poll_at=None, force_update=None
    ):
        return True
    before, after = parse_time(old.next_poll_at), parse_time(status.next_poll_at)
    if before is None or after is None or not isinstance(spec, BundleSpec):
        return before != after
    return not same_rhythm(spec, before, after)


class StaleError(Exception):
    """The Bundle changed concurrently; the cache has its new state: reconcile it again."""


class BundlePatcher:
    """Changes finalizers, annotations and statuses of Bundles."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def patch(
        self,
        entry: BundleEntry,
        body: dict[str, Any],
        *,
        subresource: str | None = None,
    ) -> BundleEntry:
        """Change a Bundle, or its subresource; returns the Bundle as it is then.

        Raises:
            StaleError: another client changed it since ``entry``; nothing was written.
        """
        guard = {"uid": entry.uid, "resourceVersion": entry.resource_version}
        body = {**body, "metadata": {**body.get("metadata", {}), **guard}}
        try:
            answer = await self._patch(entry, body, PatchType.MERGE, subresource)
        except ConflictError:
            await self.refresh(entry)
            raise StaleError from None
        return self._take(answer)

    async def ensure_finalizer(self, entry: BundleEntry) -> BundleEntry:
        """Add our finalizer, and remove the original operator's finalizer and annotations."""
        if names.FINALIZER_BUNDLE in entry.finalizers and not entry.leftovers:
            return entry
        kept = [name for name in entry.finalizers if name != names.FINALIZER_KOPF]
        if names.FINALIZER_BUNDLE not in kept:
            kept.append(names.FINALIZER_BUNDLE)
        metadata: dict[str, Any] = {"finalizers": kept}
        if entry.leftovers:
            body = await self._context.client.get(BUNDLES, entry.key.namespace, entry.key.name)
            found = body["metadata"].get("annotations") or {}
            ended = (name for name in found if name.startswith(names.KOPF_PREFIX))
            metadata["annotations"] = dict.fromkeys(ended)
        return await self.patch(entry, {"metadata": metadata})

    async def remove_finalizer(self, entry: BundleEntry) -> None:
        """Remove our finalizer (and the original's), so that the deletion completes."""
        ours = {names.FINALIZER_BUNDLE, names.FINALIZER_KOPF}
        kept = [name for name in entry.finalizers if name not in ours]
        if len(kept) == len(entry.finalizers):
            return
        try:
            await self.patch(entry, {"metadata": {"finalizers": kept}})
        except NotFound:
            return

    async def reset_force(self, entry: BundleEntry) -> BundleEntry:
        """Reset ``forceUpdate`` to 0, unless another client changed it; returns the Bundle then."""
        uid = {"op": "test", "path": "/metadata/uid", "value": entry.uid}
        patch = [uid, *reset_patch(entry.status)]
        try:
            answer = await self._patch(entry, patch, PatchType.JSON, "status")
        except Invalid:
            return entry  # the patch's test failed: it isn't 1 any more
        return self._take(answer)

    async def refresh(self, entry: BundleEntry) -> None:
        """Read the Bundle with GET, and store it in the cache."""
        key = entry.key
        try:
            body = await self._context.client.get(BUNDLES, key.namespace, key.name)
        except NotFound:
            self._context.bundles.remove(key, entry.uid)
            return
        self._take(body)

    def _take(self, body: dict[str, Any]) -> BundleEntry:
        written = read_entry(body, self._context.defaults)
        self._context.bundles.take(written)
        return written

    async def _patch(
        self, entry: BundleEntry, body: Any, kind: PatchType, subresource: str | None
    ) -> dict[str, Any]:
        namespace, name = entry.key.namespace, entry.key.name
        return await self._context.client.patch(
            BUNDLES, namespace, name, body, kind=kind, subresource=subresource
        )
