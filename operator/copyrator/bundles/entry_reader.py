"""Reads a Bundle as the API server returns it into the cache's entry."""

from __future__ import annotations

import logging
import sys
import zlib
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from copyrator.api import names
from copyrator.api.bundle import parse_bundle
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
from copyrator.bundles.entry import BundleEntry, unpack_status
from copyrator.bundles.policy.identity import release_metadata, spec_hash
from copyrator.bundles.policy.plans import correction
from copyrator.bundles.policy.plans import decision as plan_decision
from copyrator.bundles.policy.plans import record as plan_record
from copyrator.bundles.policy.plans.drift import due_at
from copyrator.bundles.policy.plans.record import requested_plan, requested_preview
from copyrator.bundles.policy.requests import pending_request
from copyrator.bundles.policy.resolution import retry_at
from copyrator.bundles.policy.takeover import is_inherited
from copyrator.settings import limits

log = logging.getLogger(__name__)


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
    valid = not isinstance(spec, InvalidSpec)  # else of any size, and not deployed
    packed = zlib.compress(pack_status(body.get("status")))
    status = unpack_status(packed)
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
        judge_at=plan_record.next_check(status),
        is_held=any(one.state != GateState.PASSED for one in status.gates),
        is_planning=status.plan.outcome == PlanOutcome.RUNNING,
        plan_jobs=_plan_jobs(status),
        is_decided=plan_decision.has_new_decision(status, ours),
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
        consent=status.consent if status.consent.state else None,
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


def _plan_jobs(status: BundleStatus) -> tuple[str, ...]:
    plans = status.plan, status.preview, status.drift.check
    return tuple(one.job for one in plans if one.outcome == PlanOutcome.RUNNING and one.job)


def _read_spec(body: Mapping[str, Any], defaults: BundleDefaults) -> BundleSpec | InvalidSpec:
    """The spec; on an internal error an InvalidSpec, so that only this Bundle is affected."""
    try:
        return parse_bundle(body, defaults)
    except Exception as error:
        what = type(error).__name__
        log.exception("the spec of a Bundle can't be read: %s", what)
        text = f"the operator failed to parse it ({what}); report a bug with the Bundle's spec"
        return InvalidSpec("spec", text)


def _correctable(status: BundleStatus, spec: BundleSpec | InvalidSpec) -> str | None:
    if isinstance(spec, InvalidSpec) or not correction.is_correction_due(status, spec):
        return None
    return status.drift.found_job


def _drifted(status: BundleStatus) -> str:
    """The reason of Drifted, if it is one of ours: a forged status must not add label values."""
    found = conditions_by_type(status.conditions).get(ConditionType.DRIFTED, {})
    is_true = found.get("status") == ConditionStatus.TRUE
    reasons = (DriftReason.DRIFTED, DriftReason.DRIFT_RECURRING)
    return next((one for one in reasons if is_true and found.get("reason") == one), "")


def _waits_for(status: BundleStatus) -> tuple[str, ...]:
    found = tuple(one.name or "" for one in status.gates if one.state != GateState.PASSED)
    return _shared(found) if found else ()


@lru_cache(maxsize=64)
def _shared(found: tuple[str, ...]) -> tuple[str, ...]:
    """One tuple for all Bundles that wait for the same gates, to save memory."""
    return found


def _waits_since(status: BundleStatus) -> datetime | None:
    found = conditions_by_type(status.conditions).get(ConditionType.UPDATE_PENDING, {})
    is_true = found.get("status") == ConditionStatus.TRUE
    return parse_time(found.get("lastTransitionTime")) if is_true else None


def _pending(status: BundleStatus) -> str:
    """The reason of UpdatePending, if it is one of ours, as in ``_drifted``."""
    found = conditions_by_type(status.conditions).get(ConditionType.UPDATE_PENDING, {})
    reason = str(found.get("reason"))
    is_true = found.get("status") == ConditionStatus.TRUE
    return sys.intern(reason) if is_true and reason in _REASONS else ""


_REASONS: Final = frozenset(reason.value for reason in BundleReason)


def _health(status: BundleStatus, spec: BundleSpec | InvalidSpec) -> str:
    """The status of Healthy, if it is a valid one, and the spec has ``health``."""
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
