"""Values of the chart that refuse every Bundle, each with an operator of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.bundles.conftest import UNPULLABLE, Team, stays
from tests.e2e.bundles.test_chart_protections import ADDRESSES, installation
from tests.e2e.operator_process import until

from localcluster import Cluster

pytestmark = pytest.mark.promise

WHOLE: dict[str, tuple[dict[str, Any], str]] = {
    "signaturePolicy.required": (
        {"bundles.allowRegistryAddresses": ADDRESSES, "signaturePolicy.required": True},
        "VerificationUnavailable",
    ),
    "signaturePolicy.default": (
        {"bundles.allowRegistryAddresses": ADDRESSES, "signaturePolicy.default": "Deny"},
        "NotInPolicy",
    ),
    "bundles.allowRegistryAddresses": (
        {"bundles.allowRegistryAddresses": ["192.0.2.0/24"]},
        "RegistryUnreachable",
    ),
}


@pytest.mark.parametrize("value", WHOLE)
def test_a_value_for_all_bundles_refuses_each(
    cluster: Cluster, teams: Callable[[str], Team], tmp_path: Path, value: str
) -> None:
    values, reason = WHOLE[value]
    team = teams("team")
    team.publish("1.0.0", "one")
    with installation(cluster, tmp_path, values):
        team.bundle("shop")
        found = team.wait_reason("shop", reason)
        stays(3, lambda: team.jobs("shop") == [], json.dumps(found))
        team.delete("bundles", "shop")
        team.wait_gone("bundles", "shop")


def test_no_more_plans_are_made_at_a_time_than_the_chart_allows(
    cluster: Cluster, teams: Callable[[str], Team], tmp_path: Path
) -> None:
    """`bundles.maxPlanJobs`; a Job that can't start keeps its slot for a minute."""
    values = {
        "bundles.allowRegistryAddresses": ADDRESSES,
        "bundles.requireApproval": {"*": "Always"},
        "bundles.allowedImages": [UNPULLABLE],
        "bundles.maxPlanJobs": 1,
    }
    two = [teams("first"), teams("second")]
    for team in two:
        team.publish("1.0.0", "one")
    with installation(cluster, tmp_path, values):
        for team in two:
            team.bundle("shop", werf={"image": UNPULLABLE})
        until(lambda: any(team.jobs("shop", "plan") for team in two), "a plan")
        for team in two:
            team.wait_reason("shop", "Planning")
        said = json.dumps([team.status("shop") for team in two])
        stays(3, lambda: sum(len(team.jobs("shop", "plan")) for team in two) == 1, said)
        for team in two:
            team.delete("bundles", "shop")
            team.wait_gone("bundles", "shop")
