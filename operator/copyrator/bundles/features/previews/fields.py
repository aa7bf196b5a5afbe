"""``status.preview``: the plan of a version that a user named."""

from __future__ import annotations

from typing import ClassVar, Final

from copyrator.bundles.plans.fields import PlanRequests, PlanSummary


class PreviewPlan(PlanSummary, frozen=True):
    """A plan of a version that a user named. It is only shown: nothing is deployed by it."""

    FIELD: ClassVar[str] = "preview"
    """The plan of a version that a user named (copyrator plan bundle --version), for a day. It is
    only shown; nothing is deployed by it."""

    requested_version: str | None = None
    """The tag or range that was named."""


STATUS: Final = (PlanRequests, PreviewPlan)
