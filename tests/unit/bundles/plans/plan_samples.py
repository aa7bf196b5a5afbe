"""What tests of plans in the status begin with."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.replacing import replace

from copyrator.api.bundle_spec import BundleSpec, Part, Retry
from copyrator.api.bundle_status import BundleStatus, Deployed
from copyrator.api.text import format_time
from copyrator.bundles.plans.fields import (
    ApprovalMode,
    ApprovalSpec,
    OperationCounts,
    PlanOutcome,
    PlanStatus,
)
from copyrator.bundles.plans.operations import Operation, OperationType, Plan
from copyrator.bundles.plans.record import PlanResult, PlanTarget

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=2)
TARGET = PlanTarget(version="1.1", digest="sha256:b", values_hash="v", spec_hash="s", job_hash="j")
MADE_OF = {
    "version": "1.1",
    "digest": "sha256:b",
    "values_hash": "v",
    "spec_hash": "s",
    "job_hash": "j",
}
DEPLOYED = Deployed(version="1.1", digest="sha256:b", values_hash="v", spec_hash="s")
RETRY = Retry(limit=2, backoff=30)
PLANNED = PlanStatus(
    **MADE_OF,
    job="shop-plan-1",
    number=1,
    outcome=PlanOutcome.PLANNED,
    id="id-1",
    revision=2,
    seal="seal-1",
    counts=OperationCounts(create=2, apply=1),
    risky_operations=1,
    expires_at=format_time(LATER),
)


def spec(mode: ApprovalMode = ApprovalMode.ALWAYS, *parts: Part, **more: Any) -> BundleSpec:
    return BundleSpec(
        namespace="prod",
        name="shop",
        registry="r",
        repo="a",
        project_namespace="prod",
        retry=RETRY,
        parts=(ApprovalSpec(mode, 3600.0), *parts),
        **{"version": "1.*", **more},
    )


def with_plan(**changes: Any) -> BundleStatus:
    return BundleStatus().with_part(replace(PLANNED, **changes))


def operation(kind: OperationType, group: str, name: str) -> Operation:
    return Operation(kind, "", group, "ConfigMap", name)


CREATE = operation(OperationType.CREATE, "", "a")
DELETE = operation(OperationType.DELETE, "", "b")
RECREATE = operation(OperationType.RECREATE, "", "hook")


def made(*operations: Operation, **more: Any) -> PlanResult:
    return PlanResult(Plan(3, operations), more.pop("missing", None), "seal-2", **more)
