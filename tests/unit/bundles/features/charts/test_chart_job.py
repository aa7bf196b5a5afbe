"""The Jobs of gated Bundles that aren't planned, as golden files; see ``../../test_job.py``."""

from pathlib import Path

import pytest
from tests.unit.bundles.job_samples import ELSEWHERE, check_golden, order

from copyrator.bundles.features.charts.script import checked_deploy
from copyrator.bundles.jobs.job import build_deploy_job

GOLDEN = Path(__file__).parent / "golden"
CHECKED = {
    "values": order(command=checked_deploy),
    "kubeconfig": order(command=checked_deploy, **ELSEWHERE),
}


@pytest.mark.parametrize("name", CHECKED)
def test_the_job_that_deploys_for_a_gated_bundle_without_a_plan(name: str) -> None:
    check_golden(GOLDEN, f"checked-{name}", build_deploy_job(CHECKED[name]))
