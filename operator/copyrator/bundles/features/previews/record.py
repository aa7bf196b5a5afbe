"""The record of a preview in the status; neither approval nor a deploy depends on it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from copyrator.api.bundle_spec import BundleSpec, Retry
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.names import ANN_PLAN_AT, ANN_PLAN_VERSION
from copyrator.api.text import format_time, parse_time
from copyrator.api.version_range import VERSION_LENGTH
from copyrator.bundles.features.previews.fields import PreviewPlan
from copyrator.bundles.jobs.pod import Kept
from copyrator.bundles.jobs.restrictions import list_settings, restrict_spec
from copyrator.bundles.plans.fields import PlanRequests
from copyrator.bundles.plans.record import (
    NewPlan,
    PlanFault,
    PlanPurpose,
    PlanResult,
    next_number,
    record_failure,
    summarize_result,
    with_record,
)

_KEPT: Final = timedelta(days=1)
"""How long a preview, or the reason why there is none, and its Job are kept."""


class PreviewPurpose(PlanPurpose):
    """To be shown: it is a plan of a version that a user names."""

    parts = ("preview",)

    def record(self, status: BundleStatus) -> PreviewPlan:
        """``status.preview``."""
        return status.part(PreviewPlan)

    def begin(self, new: NewPlan) -> PreviewPlan:
        """Of the version that was requested."""
        requested = new.status.part(PreviewPlan).requested_version
        return PreviewPlan(**new.fields, requested_version=requested)

    def failed(
        self, status: BundleStatus, why: PlanFault, retry: Retry, now: datetime
    ) -> dict[str, Any]:
        """It is shown as long as one that was made."""
        del status, why, retry
        return {"expires_at": format_time(now + _KEPT)}


PREVIEW: Final = PreviewPurpose()


@dataclass(frozen=True, slots=True)
class PreviewRequest:
    """A user's request for the plan of a version."""

    token: str
    """The value of plan-at."""
    version: str
    """The value of plan-version."""


def requested_preview(
    annotations: Mapping[str, str], status: BundleStatus
) -> PreviewRequest | None:
    """The request for the plan of another version; None where there is none, or it is handled."""
    token, version = annotations.get(ANN_PLAN_AT), annotations.get(ANN_PLAN_VERSION)
    if token is None or version is None or token == status.part(PlanRequests).last_handled_plan:
        return None
    return PreviewRequest(token, version)


def request_preview(status: BundleStatus, request: PreviewRequest) -> BundleStatus:
    """The status with a handled request; its preview, or why there is none, is recorded next."""
    requested = request.version[:VERSION_LENGTH]
    preview = PreviewPlan(number=status.part(PreviewPlan).number, requested_version=requested)
    return status.with_part(preview).with_part(PlanRequests(last_handled_plan=request.token))


def refuse_preview(
    status: BundleStatus, why: PlanFault, retry: Retry, now: datetime
) -> BundleStatus:
    """The status where what was requested can't be planned; no Job is created."""
    number = next_number(status, PREVIEW)
    status = with_record(status, PREVIEW, number=number, started_at=format_time(now))
    return record_failure(status, PREVIEW, why, retry, now)


def record_preview_result(status: BundleStatus, what: PlanResult, now: datetime) -> BundleStatus:
    """The status with the operations that the preview's Job found.

    One render tells why the plan of a deploy would be unbound, but never that it would be bound.
    """
    _, fields = summarize_result(what)
    fields["bound"] = False if fields["unbound"] else None
    fields["exact"] = False if fields["inexact"] else None
    fields |= {"made_at": format_time(now), "expires_at": format_time(now + _KEPT)}
    return with_record(status, PREVIEW, **fields)


def remove_expired_preview(status: BundleStatus, now: datetime) -> BundleStatus:
    """The status without an expired preview; its number is kept, so that it isn't used again."""
    end = parse_time(status.part(PreviewPlan).expires_at)
    if end is None or now < end:
        return status
    return status.with_part(PreviewPlan(number=status.part(PreviewPlan).number))


def describe_left_out(spec: BundleSpec) -> str | None:
    """What a preview leaves out and the deploy has, as a sentence; None where that is nothing."""
    if spec.is_gated or not (withheld := restrict_spec(spec, signed=True).withheld):
        return None
    return f"planned without {list_settings(withheld)}, which the deploy gets"


def keep_preview(job: str, status: BundleStatus) -> Kept | None:
    """How long a preview's Job is kept after its end; None: it is another plan's."""
    if job != (preview := status.part(PreviewPlan)).job:
        return None
    seconds = int(_KEPT.total_seconds())
    return Kept(None if preview.is_running else seconds, seconds)
