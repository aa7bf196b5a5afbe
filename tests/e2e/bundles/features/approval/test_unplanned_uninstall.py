"""Uninstalls of releases whose plans aren't all known are held to what the deployed version has."""

import json

import pytest
from tests.e2e.bundles.conftest import HOOK, TEMPLATE, Operator, Team
from tests.e2e.bundles.features.approval.test_guarded import UNINSTALL_HOOK, approve, key_of, lists
from tests.e2e.conftest import POLICIES_ARE_BETA, skip_before_1_30
from tests.e2e.operator_process import until

from localcluster import Api

ALWAYS = {"mode": "Always"}
RECORD = "operator.werf.dev/seal=release"
"""What its plans had."""


@pytest.fixture(autouse=True)
def is_served(api: Api) -> None:
    skip_before_1_30(api, POLICIES_ARE_BETA)


@pytest.mark.parametrize("is_planned", [True, False], ids=["its record is gone", "from before"])
def test_what_is_deployed_is_rendered_and_uninstalled_under_a_list(
    operator: Operator, api: Api, team: Team, is_planned: bool
) -> None:
    """A foreground deletion may take along what the operator has kept of plans."""
    digest = team.publish("1.0.0", "first", template=f"{TEMPLATE}{HOOK}{UNINSTALL_HOOK}")
    team.create("configmaps", "values", data={"values.yaml": "a: 1"})
    values = [{"kind": "ConfigMap", "name": "values"}]
    team.bundle("shop", valuesFrom=values, **({"approval": ALWAYS} if is_planned else {}))
    if is_planned:
        approve(team)
    team.wait_deployed("shop", digest)
    team.patch("bundles", "shop", spec={"approval": ALWAYS})

    for kept in team.api.get(team.path("secrets"), labelSelector=RECORD)["items"]:
        assert is_planned
        team.delete("secrets", kept["metadata"]["name"])

    team.delete("bundles", "shop", propagationPolicy="Foreground")

    until(lambda: team.jobs("shop", "uninstall"), lambda: json.dumps(team.status("shop")))
    # The plan's own Job may be deleted with its owner by now; that of the render has none.
    owners = [one["metadata"].get("ownerReferences") for one in team.jobs("shop", "plan")]
    assert owners.count(None) == 1, "it is rendered"
    (job,) = team.jobs("shop", "uninstall")
    listed = lists(operator, api)[key_of(job)].split("\n")
    assert "D//ConfigMap//shop-app" in listed
    assert "CUD//ConfigMap//shop-goodbye" in listed
    team.wait_gone("bundles", "shop")
    assert team.release("shop") is None
    assert team.get("configmaps", "shop-goodbye") is not None, "its hook was made, and stays"
    seals = team.api.get(team.path("secrets"), labelSelector="operator.werf.dev/seal")["items"]
    left = {one["metadata"]["name"]: one["metadata"].get("ownerReferences") for one in seals}
    assert all(left.values()), f"what has no owner isn't left: {left}"
