"""The Jobs of gated Bundles that aren't planned, as golden files; see ``../../test_job.py``."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.bundles.job_samples import ELSEWHERE, check_golden, order
from tests.unit.bundles.test_planned_attempts import order_of

from copyrator.bundles.features.charts.feature import ChartsFeature
from copyrator.bundles.jobs.checks import checked_deploy
from copyrator.bundles.jobs.job import build_deploy_job

GOLDEN = Path(__file__).parent / "golden"
CHECKED = {
    "values": order(command=checked_deploy),
    "kubeconfig": order(command=checked_deploy, **ELSEWHERE),
}


@pytest.mark.parametrize("name", CHECKED)
def test_the_job_that_deploys_for_a_gated_bundle_without_a_plan(name: str) -> None:
    check_golden(GOLDEN, f"checked-{name}", build_deploy_job(CHECKED[name]))


@pytest.mark.parametrize(("is_plain", "is_gated"), [(True, True), (False, True), (False, False)])
def test_only_a_gated_bundle_is_checked_also_one_that_only_the_policy_gates(
    is_plain: bool, is_gated: bool
) -> None:
    context: Any = SimpleNamespace(is_gated=lambda spec: spec.is_gated)
    made = order_of(None, ChartsFeature(context), is_plain=is_plain, is_gated=is_gated)
    assert made.command == (checked_deploy if is_gated else None)
