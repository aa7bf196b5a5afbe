"""The Bundles that exist, as of their last event or our own last write.

Holds only what reconciling needs: a Bundle takes a few KB, however long its manifest is. Its status
is the largest part, and is read only while the Bundle is reconciled: it is kept as compressed JSON,
and parsed at each reconcile.
"""

from __future__ import annotations

import logging
import sys
import zlib
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import msgspec

from copyrator.api import names
from copyrator.api.bundle import parse_bundle, parse_status
from copyrator.api.bundle_sizes import pack_status
from copyrator.api.bundle_spec import BundleDefaults, BundleSpec, DeletionPolicy
from copyrator.api.bundle_status import BundleReason, BundleStatus, GateState, Outcome, Trust
from copyrator.api.conditions import (
    ConditionStatus,
    ConditionType,
    conditions_by_type,
    ready_reason,
)
from copyrator.api.drift_status import DriftReason
from copyrator.api.fields import InvalidSpec
from copyrator.api.health import HealthMode
from copyrator.api.keys import BundleKey
from copyrator.api.plan_status import PlanOutcome
from copyrator.api.times import parse_time
from copyrator.bundles.policy.drift import correction as drift_correction
from copyrator.bundles.policy.drift.due import due_at
from copyrator.bundles.policy.identity import release_metadata, spec_hash
from copyrator.bundles.policy.plans import due as plan_due
from copyrator.bundles.policy.plans.preview import (
    PreviewRequest,
    requested_plan,
    requested_preview,
)
from copyrator.bundles.policy.requests import Request, pending_request
from copyrator.bundles.policy.resolution import retry_at
from copyrator.bundles.policy.takeover import is_inherited
from copyrator.settings import limits

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleEntry:
    """One Bundle at one resourceVersion."""

    key: BundleKey
    uid: str
    resource_version: str
    generation: int
    created: str
    spec: BundleSpec | InvalidSpec
    spec_hash: str
    packed_status: bytes
    """Compressed JSON; ``status`` reads it."""
    reason: str
    """Of the Ready condition; empty where there is none."""
    pending: str
    """Reason of the condition UpdatePending where it is True; else empty."""
    quarantined: bool
    """Its newest attempt failed, and isn't retried automatically."""
    is_running: bool
    """An attempt is recorded that has no outcome yet."""
    is_inherited: bool
    """The original operator deployed it, and nothing else is known."""
    observed_generation: int | None
    deployed_namespace: str | None
    """Where the release is."""
    deployed_at: str
    """The time of that deploy, RFC 3339; empty where it isn't known."""
    has_deployed: bool
    """Something was deployed, by this operator or the original."""
    attempted_namespace: str | None
    """The namespace of the newest attempt, whatever its outcome."""
    request: Request | None
    """A user's request that hasn't been handled yet."""
    retry_at: datetime | None
    """When a failed attempt is due again. With these fields a poll that finds no change parses no
    status.
    """
    judge_at: datetime | None
    """When a gate that waits is asked again."""
    is_held: bool
    """A gate holds something back."""
    is_planning: bool
    """A plan is recorded that has no outcome yet."""
    plan_id: str | None
    """The plan that a user may decide about."""
    awaits_approval_since: datetime | None
    """When the plan was made that waits for a decision."""
    is_unreviewed: bool
    """Of that plan it isn't known which permissions the deploy lacks."""
    plan_request: str | None
    """A user's request for a plan that hasn't been handled yet."""
    preview_request: PreviewRequest | None
    """The same for a plan of another version."""
    has_preview: bool
    """The status has such a plan."""
    drift_at: datetime | None
    """When what is deployed is checked for drift; None while that isn't due by its status."""
    is_checking: bool
    """A check for drift is recorded that has no outcome yet."""
    checked_at: datetime | None
    """When the last check for drift ended."""
    correctable: str | None
    """The Job that found drift that is to be corrected."""
    drifted: str
    """Reason of the condition Drifted where it is True; else empty."""
    health: str
    """Status of the condition Healthy; empty where there is none."""
    soak_hash: int
    """Changes with ``status.soak``; 0 where it is empty."""
    waits_for: tuple[str, ...]
    """The gates that keep a version from being deployed, by the status."""
    waits_since: datetime | None
    """Since when one does."""
    is_untrusted: bool
    """What is deployed isn't signed by who is trusted."""
    labels: Mapping[str, str]
    """Those that reach the release."""
    annotations: Mapping[str, str]
    """Those that reach the release, and the operator's own."""
    finalizers: tuple[str, ...]
    deleting: bool
    orphans: bool
    """``spec.deletionPolicy`` is Orphan, also where the rest of the spec isn't valid."""
    leftovers: bool
    """It still has the original operator's finalizer or kopf's annotations."""

    @property
    def status(self) -> BundleStatus:
        """The whole status. Cached only for the Bundles that were read last."""
        return _unpack(self.packed_status)

    @property
    def raw_status(self) -> dict[str, Any]:
        """The status as stored, including what can't be parsed."""
        raw = msgspec.json.decode(zlib.decompress(self.packed_status))
        return raw if isinstance(raw, dict) else {}

    @property
    def depends_on(self) -> tuple[BundleKey, ...]:
        """The Bundles that its new versions wait for."""
        return () if isinstance(self.spec, InvalidSpec) else self.spec.depends_on

    @property
    def promoted_from(self) -> tuple[BundleKey, ...]:
        """The Bundles that it is promoted from."""
        return () if isinstance(self.spec, InvalidSpec) else self.spec.promote_from.bundles

    @property
    def may_be_promoted(self) -> bool:
        """Bundles of other namespaces may be promoted from it."""
        return names.ANN_PROMOTE_TO in self.annotations

    @property
    def is_ready(self) -> bool:
        """All that its spec asks for is deployed."""
        seen = self.observed_generation == self.generation
        return seen and self.reason == BundleReason.DEPLOYED and not self.deleting

    @property
    def is_healthy(self) -> bool:
        """Its release is healthy, or isn't watched."""
        if isinstance(self.spec, InvalidSpec) or self.spec.health is HealthMode.OFF:
            return True
        return self.health == ConditionStatus.TRUE

    @property
    def is_paused(self) -> bool:
        """No requests to the registry and no updates."""
        return names.ANN_DISABLE_AUTOUPDATE in self.annotations

    @property
    def is_decided(self) -> bool:
        """Whether a user's decision about its plan is to be read."""
        decisions = (names.ANN_APPROVED_PLAN, names.ANN_REJECTED_PLAN)
        return self.plan_id is not None and any(
            self.annotations.get(name) == self.plan_id for name in decisions
        )

    def without_status(self) -> BundleEntry:
        """The Bundle as one for which nothing was done or requested yet."""
        return replace(self, packed_status=_EMPTY, is_inherited=False, request=None)

    @property
    def release(self) -> tuple[str, str] | None:
        """Namespace and name of the release; None while the spec isn't valid."""
        if isinstance(self.spec, InvalidSpec):
            return None
        return self.spec.project_namespace, self.spec.release

    @property
    def has_release(self) -> bool:
        """Something may have been installed: an attempt was made, or the original deployed."""
        return bool(self.status.attempted.attempt or self.has_deployed)

    @property
    def installed_release(self) -> tuple[str, str] | None:
        """Namespace and name of the release that it deployed successfully, by its status."""
        if not self.has_deployed:
            return None
        where = self.deployed_namespace or (self.release or (None,))[0]
        return (where, self.key.name) if where else None

    def installed_at(self, release: tuple[str, str]) -> tuple[bool, str]:
        """When it last deployed this release; a Bundle that never did sorts before one that did."""
        there = self.installed_release == release
        return there, self.deployed_at if there else ""

    @property
    def running_release(self) -> tuple[str, str] | None:
        """Namespace and name of what its running attempt deploys."""
        return self._attempted_release if self.is_running else None

    @property
    def releases(self) -> tuple[tuple[str, str], ...]:
        """The releases that it has, is deploying, or is to deploy.

        A Bundle whose release is elsewhere can't deploy what its spec names now, and one that is
        being deleted deploys nothing: neither blocks other Bundles of that release.
        """
        found = {self.running_release, self.installed_release}
        if self.deleting:
            held = {names.FINALIZER_BUNDLE, names.FINALIZER_KOPF} & set(self.finalizers)
            # Without our finalizer it is finished, however long another finalizer keeps it.
            found = found | {self._attempted_release} if held else {self.running_release}
        elif self.installed_release is None:
            found.add(self.release)
        return tuple(sorted(one for one in found if one is not None))

    @property
    def _attempted_release(self) -> tuple[str, str] | None:
        """The release of its newest attempt, whatever the outcome."""
        where = self.attempted_namespace
        return (where, self.key.name) if where else None


def read_entry(body: Mapping[str, Any], defaults: BundleDefaults) -> BundleEntry:
    """Read a Bundle as the API server returns it."""
    metadata = body["metadata"]
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    labels: Mapping[str, str] = metadata.get("labels") or {}
    finalizers = tuple(metadata.get("finalizers") or ())
    ours = {
        key: value[: limits.BUNDLE_REQUEST]
        for key, value in annotations.items()
        if key.startswith(names.BUNDLE_PREFIX)
    }
    raw_spec = body.get("spec")
    raw_spec = raw_spec if isinstance(raw_spec, Mapping) else {}
    spec = _read_spec(body, defaults)
    valid = not isinstance(spec, InvalidSpec)  # else it may be of any size, and deploys nothing
    packed = zlib.compress(pack_status(body.get("status")))
    status = _unpack(packed)
    attempted = status.attempted
    hashed = spec_hash(raw_spec, labels, annotations) if valid else ""
    uid = metadata.get("uid", "")
    return BundleEntry(
        key=BundleKey(metadata["namespace"], metadata["name"]),
        uid=uid,
        resource_version=metadata.get("resourceVersion", ""),
        generation=metadata.get("generation", 0),
        created=metadata.get("creationTimestamp", ""),
        spec=spec,
        spec_hash=hashed,
        packed_status=packed,
        reason=sys.intern(ready_reason(status.conditions) or ""),
        pending=_pending(status),
        quarantined=attempted.outcome == Outcome.FAILED and attempted.next_retry_at is None,
        is_running=attempted.outcome == Outcome.RUNNING,
        is_inherited=is_inherited(status),
        observed_generation=status.observed_generation,
        deployed_namespace=status.deployed.namespace,
        deployed_at=status.deployed.time or "",
        has_deployed=bool(status.deployed.digest or status.deploy.digest),
        attempted_namespace=_attempted_namespace(status, spec),
        request=pending_request(ours, status),
        retry_at=retry_at(status),
        judge_at=plan_due.next_look(status),
        is_held=any(one.state != GateState.PASSED for one in status.gates),
        is_planning=status.plan.outcome == PlanOutcome.RUNNING,
        plan_id=status.plan.id if status.plan.outcome == PlanOutcome.PLANNED else None,
        awaits_approval_since=_awaits_approval_since(status),
        is_unreviewed=_awaits_approval_since(status) is not None
        and status.plan.missing_permissions is None,
        plan_request=requested_plan(ours, status),
        preview_request=requested_preview(ours, status),
        has_preview=status.preview.outcome is not None,
        drift_at=None if isinstance(spec, InvalidSpec) else due_at(status, spec, hashed, uid),
        is_checking=status.drift.check.outcome == PlanOutcome.RUNNING,
        checked_at=parse_time(status.drift.checked_at),
        correctable=_correctable(status, spec),
        drifted=_drifted(status),
        health=_health(status, spec),
        soak_hash=hash(status.soak) if status.soak else 0,
        waits_for=_waits_for(status),
        waits_since=_waits_since(status),
        is_untrusted=status.verification.verdict == Trust.NOT_TRUSTED,
        labels=(release_metadata(labels) if valid else None) or _NONE,
        annotations=ours | (release_metadata(annotations) if valid else {}) or _NONE,
        finalizers=tuple(sys.intern(str(name)) for name in finalizers),
        deleting="deletionTimestamp" in metadata,
        orphans=raw_spec.get("deletionPolicy") == DeletionPolicy.ORPHAN,
        leftovers=names.FINALIZER_KOPF in finalizers
        or any(key.startswith(names.KOPF_PREFIX) for key in annotations),
    )


def _read_spec(body: Mapping[str, Any], defaults: BundleDefaults) -> BundleSpec | InvalidSpec:
    """The spec; an internal error in parsing it affects that Bundle only; its status reports it."""
    try:
        return parse_bundle(body, defaults)
    except Exception as error:
        what = type(error).__name__
        log.exception("the spec of a Bundle can't be read: %s", what)
        text = f"the operator failed to parse it ({what}); report a bug with the Bundle's spec"
        return InvalidSpec("spec", text)


def _correctable(status: BundleStatus, spec: BundleSpec | InvalidSpec) -> str | None:
    if isinstance(spec, InvalidSpec) or not drift_correction.is_asked(status, spec):
        return None
    return status.drift.found_job


def _drifted(status: BundleStatus) -> str:
    """Only reasons of ours: a status can be forged, and must not make new label values."""
    found = conditions_by_type(status.conditions).get(ConditionType.DRIFTED, {})
    is_true = found.get("status") == ConditionStatus.TRUE
    reasons = (DriftReason.DRIFTED, DriftReason.DRIFT_RECURRING)
    return next((one for one in reasons if is_true and found.get("reason") == one), "")


def _waits_for(status: BundleStatus) -> tuple[str, ...]:
    found = tuple(one.name or "" for one in status.gates if one.state != GateState.PASSED)
    return _shared(found) if found else ()


@lru_cache(maxsize=64)
def _shared(found: tuple[str, ...]) -> tuple[str, ...]:
    """One tuple for all Bundles that wait for the same."""
    return found


def _waits_since(status: BundleStatus) -> datetime | None:
    found = conditions_by_type(status.conditions).get(ConditionType.UPDATE_PENDING, {})
    is_true = found.get("status") == ConditionStatus.TRUE
    return parse_time(found.get("lastTransitionTime")) if is_true else None


def _pending(status: BundleStatus) -> str:
    """Only reasons of ours, as of ``_drifted``."""
    found = conditions_by_type(status.conditions).get(ConditionType.UPDATE_PENDING, {})
    reason = str(found.get("reason"))
    is_true = found.get("status") == ConditionStatus.TRUE
    return sys.intern(reason) if is_true and reason in _REASONS else ""


_REASONS: Final = frozenset(reason.value for reason in BundleReason)


def _health(status: BundleStatus, spec: BundleSpec | InvalidSpec) -> str:
    """Likewise only the values that a condition may have, and only where it is asked for."""
    if isinstance(spec, InvalidSpec) or spec.health is HealthMode.OFF:
        return ""
    found = conditions_by_type(status.conditions).get(ConditionType.HEALTHY, {}).get("status")
    return next((one for one in ConditionStatus if found == one), "")


def _awaits_approval_since(status: BundleStatus) -> datetime | None:
    waits = any(one.reason == BundleReason.AWAITING_APPROVAL for one in status.gates)
    return parse_time(status.plan.made_at) if waits else None


def _attempted_namespace(status: BundleStatus, spec: BundleSpec | InvalidSpec) -> str | None:
    if not status.attempted.attempt:
        return None
    known = None if isinstance(spec, InvalidSpec) else spec.project_namespace
    return status.attempted.namespace or known


_NONE: Final[Mapping[str, str]] = {}
"""Shared by all entries without relevant labels or annotations; never changed."""


_EMPTY: Final = zlib.compress(b"{}")
"""A status without anything."""


@lru_cache(maxsize=32)
def _unpack(packed: bytes) -> BundleStatus:
    return parse_status({"status": msgspec.json.decode(zlib.decompress(packed))})


_NOBODY: Final[Mapping[BundleKey, None]] = {}
_REMEMBERED: Final = 1024
"""Deleted Bundles for which late events may still arrive."""


class BundleCache:
    """Every Bundle by its key, and by its release."""

    def __init__(self) -> None:
        self._entries: dict[BundleKey, BundleEntry] = {}
        self._by_release: dict[tuple[str, str], tuple[BundleKey, ...]] = {}
        self._dependants: dict[BundleKey, tuple[BundleKey, ...]] = {}
        self._promoted: dict[BundleKey, dict[BundleKey, None]] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[BundleEntry]:
        return iter(list(self._entries.values()))

    def get(self, key: BundleKey) -> BundleEntry | None:
        """The Bundle as last stored."""
        return self._entries.get(key)

    def take(self, entry: BundleEntry) -> bool:
        """Store a Bundle; False where it is deleted, or stored in this version or a later one.

        An event may arrive after the response to a later write of ours, and such a response after
        the event of the deletion. Versions are compared as numbers (KEP-5504).
        """
        if entry.uid in self._gone:
            return False
        held = self._entries.get(entry.key)
        if (
            held is not None
            and held.uid == entry.uid
            and _number(entry.resource_version) <= _number(held.resource_version)
        ):
            return False
        if held is not None:
            self._unlink(held)
        self._entries[entry.key] = entry
        for source in entry.promoted_from:
            self._promoted.setdefault(source, {})[entry.key] = None
        for release in entry.releases:
            keys = self._by_release.get(release, ())
            self._by_release[release] = (*keys, entry.key)
        for other in entry.depends_on:
            self._dependants[other] = (*self._dependants.get(other, ()), entry.key)
        return True

    def remove(self, key: BundleKey, uid: str) -> bool:
        """Remove a deleted Bundle, unless another of its name is stored already."""
        self._gone[uid] = None
        if len(self._gone) > _REMEMBERED:
            self._gone.popitem(last=False)
        held = self._entries.get(key)
        if held is None or (uid and held.uid != uid):
            return False
        self._unlink(held)
        del self._entries[key]
        return True

    def bundles_of(self, release: tuple[str, str] | None) -> list[BundleEntry]:
        """All Bundles that claim a release, its owner first.

        While a Job runs its Bundle owns the release, so that two never work on it together. Else
        the owner is the Bundle that deployed it successfully last, by its status, which only the
        operator writes; else the Bundle in the release's own namespace; else the oldest one. Times
        are whole seconds, so of two that were created together the uid decides, always the same
        way.
        """
        found = [self._entries[key] for key in self._by_release.get(release, ())] if release else []
        if release is None or len(found) < 2:
            return found
        found.sort(key=lambda one: (one.key.namespace != release[0], one.created, one.uid))
        found.sort(key=lambda one: one.deleting)
        found.sort(key=lambda one: one.installed_at(release), reverse=True)
        found.sort(key=lambda one: one.running_release != release)
        return found

    def owner(self, release: tuple[str, str] | None) -> BundleEntry | None:
        """The owner of a release; None while no Bundle names it."""
        return next(iter(self.bundles_of(release)), None)

    def dependants_of(self, key: BundleKey) -> tuple[BundleKey, ...]:
        """The Bundles whose new versions wait for this one, which needn't exist."""
        return self._dependants.get(key, ())

    def promoted_of(self, key: BundleKey) -> Collection[BundleKey]:
        """The Bundles that are to be promoted from this one, which needn't exist or allow it."""
        return self._promoted.get(key, _NOBODY)

    def _unlink(self, entry: BundleEntry) -> None:
        for source in entry.promoted_from:
            keys_of = self._promoted[source]
            keys_of.pop(entry.key, None)
            if not keys_of:
                del self._promoted[source]
        for other in entry.depends_on:
            keys = self._dependants.pop(other, ())
            if left := tuple(key for key in keys if key != entry.key):
                self._dependants[other] = left
        for release in entry.releases:
            keys = self._by_release.pop(release, ())
            if others := tuple(key for key in keys if key != entry.key):
                self._by_release[release] = others


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else -1
