"""What approval makes of a written status."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.replacing import replace
from tests.unit.bundles.plans.plan_samples import with_plan

from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import ConditionType
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.engine.bundle import read_entry
from copyrator.bundles.engine.step import Change
from copyrator.bundles.features.age.reasons import AgeReason
from copyrator.bundles.features.approval.feature import ApprovalFeature
from copyrator.bundles.fields import BundleDefaults

BODY = {
    "metadata": {"namespace": "team", "name": "shop"},
    "spec": {"registry": "r.example", "repo": "app"},
}
SHOP = read_entry(BODY, BundleDefaults())


def test_a_plan_that_changed_is_followed_by_a_reconcile() -> None:
    requeued: list[Any] = []
    schedule = SimpleNamespace(changed=lambda *why: requeued.append(why))
    feature = ApprovalFeature(cast("Any", SimpleNamespace(schedule=schedule)))
    planned = replace(SHOP, status=with_plan())
    feature.record(SHOP, planned)
    assert requeued == [(SHOP.key, Change.STEP)]
    feature.record(planned, planned)
    assert len(requeued) == 1


@pytest.mark.parametrize(
    ("condition", "reason", "is_told"),
    [
        (ConditionType.READY, BundleReason.PLANNING, False),
        (ConditionType.READY, BundleReason.PLAN_REJECTED, False),
        (ConditionType.UPDATE_PENDING, BundleReason.PLAN_REJECTED, True),
        (ConditionType.UPDATE_PENDING, BundleReason.PLANNING, True),
        (ConditionType.UPDATE_PENDING, AgeReason.TOO_YOUNG, False),
    ],
)
def test_a_plan_that_was_not_begun_has_no_event(
    condition: ConditionType, reason: BundleReason, *, is_told: bool
) -> None:
    feature = ApprovalFeature(cast("Any", None))
    assert feature.is_told(condition, reason, BundleStatus(), BundleStatus()) is is_told
