"""The record of a preview in the status: the plan of a version that a user names. Pure.

It is separate from ``status.plan``, on which approval and the deploy depend.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from copyrator.api.bundle_status import BundleStatus
from copyrator.api.names import ANN_PLAN_AT, ANN_PLAN_VERSION
from copyrator.api.plan_status import PlanOutcome, PreviewPlan
from copyrator.api.times import format_time, parse_time
from copyrator.bundles.policy.gates import Candidate
from copyrator.bundles.policy.plans.record import Made, found_by
from copyrator.settings.limits import VERSION_LENGTH

KEPT: Final = 24 * 3600
"""Seconds that a preview, or the reason why there is none, and its Job are kept."""


@dataclass(frozen=True, slots=True)
class PreviewRequest:
    """A user's request for the plan of a version."""

    token: str
    """The value of plan-at."""
    version: str
    """The value of plan-version."""


def requested_plan(annotations: Mapping[str, str], status: BundleStatus) -> str | None:
    """The value of plan-at, where a plan of the next deploy is requested; None once handled."""
    token = annotations.get(ANN_PLAN_AT)
    is_new = token != status.last_handled_plan and ANN_PLAN_VERSION not in annotations
    return token if is_new else None


def requested_preview(
    annotations: Mapping[str, str], status: BundleStatus
) -> PreviewRequest | None:
    """The request for the plan of another version; None where there is none, or it is handled."""
    token, version = annotations.get(ANN_PLAN_AT), annotations.get(ANN_PLAN_VERSION)
    if token is None or version is None or token == status.last_handled_plan:
        return None
    return PreviewRequest(token, version)


def next_number(status: BundleStatus) -> int:
    """The number of the next preview."""
    return (status.preview.number or 0) + 1


def begun(
    status: BundleStatus,
    request: PreviewRequest,
    found: Candidate,
    *,
    values_hash: str | None,
    job: str,
    now: datetime,
) -> BundleStatus:
    """The status with a preview recorded; its Job is created afterwards."""
    preview = PreviewPlan(
        number=next_number(status),
        job=job,
        outcome=PlanOutcome.RUNNING,
        requested_version=request.version[:VERSION_LENGTH],
        version=found.version,
        digest=found.digest,
        values_hash=values_hash,
        started_at=format_time(now),
    )
    return replace(status, preview=preview, last_handled_plan=request.token)


def refused(
    status: BundleStatus, request: PreviewRequest, reason: str, message: str, now: datetime
) -> BundleStatus:
    """The status where what was requested can't be planned; no Job is created."""
    preview = PreviewPlan(
        number=next_number(status),
        requested_version=request.version[:VERSION_LENGTH],
        started_at=format_time(now),
    )
    status = replace(status, preview=preview, last_handled_plan=request.token)
    return failed(status, reason, message, now)


def failed(status: BundleStatus, reason: str, message: str, now: datetime) -> BundleStatus:
    """The status where the preview couldn't be made. It isn't retried automatically."""
    preview = replace(
        status.preview,
        outcome=PlanOutcome.FAILED,
        reason=reason,
        message=message,
        expires_at=_end(now),
    )
    return replace(status, preview=preview)


def made(status: BundleStatus, what: Made, now: datetime) -> BundleStatus:
    """The status with the operations that the preview's Job found.

    One render tells why the plan of a deploy would be unbound, but never that it would be bound.
    """
    _, fields = found_by(what)
    fields["bound"] = False if fields["unbound"] else None
    preview = replace(status.preview, **fields, made_at=format_time(now), expires_at=_end(now))
    return replace(status, preview=preview)


def _end(now: datetime) -> str:
    return format_time(now + timedelta(seconds=KEPT))


def with_message(status: BundleStatus, message: str | None) -> BundleStatus:
    """The status with the message why the preview isn't made yet; None removes it."""
    if message == status.preview.message:
        return status
    return replace(status, preview=replace(status.preview, message=message))


def expired(status: BundleStatus, now: datetime) -> BundleStatus:
    """The status without an expired preview; its number is kept, so that it isn't used again."""
    end = parse_time(status.preview.expires_at)
    if end is None or now < end:
        return status
    return replace(status, preview=PreviewPlan(number=status.preview.number))
