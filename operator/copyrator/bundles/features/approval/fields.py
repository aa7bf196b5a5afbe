"""Its parts of a Bundle."""

from __future__ import annotations

from typing import Final

from copyrator.api.approval import ApprovalSpec, AsApprovedStatus, PlanStatus
from copyrator.api.plan_status import Baseline, PlanOutcome, PlanRequests, PreviewPlan

SPEC: Final = (ApprovalSpec,)
STATUS: Final = (AsApprovedStatus, Baseline, PlanRequests, PlanStatus, PreviewPlan)
TEXTS: Final = (PlanOutcome,)
