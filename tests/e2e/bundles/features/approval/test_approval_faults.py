"""Plans and approvals on bad input and faults: what only real Jobs and a real API server show."""

import base64
import json
from typing import Any

import pytest
from tests.e2e.bundles.conftest import TEMPLATE, Team
from tests.e2e.bundles.features.approval.test_approval import (
    ALWAYS,
    ON_RISK,
    approve,
    plan,
    secrets,
    wait_planned,
)
from tests.e2e.operator_process import until
from tests.long import LONG, long_form

from localcluster import Api

pytestmark = pytest.mark.usefixtures("operator")

SOON = {"limit": 5, "backoff": "1s"}
UNREADABLE = f"""\
{TEMPLATE}---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{{{ .Values.name | toJson }}}}
rules: []
"""


def wait_plan(team: Team, **wanted: Any) -> dict[str, Any]:
    until(
        lambda: all(plan(team).get(name) == value for name, value in wanted.items()),
        lambda: f"{wanted}: {json.dumps(team.status('shop'))}",
    )
    return plan(team)


NAMES = {
    "forged end": 'a" [  weight=1 ];\n}\n\nstrict digraph {\n',
    "quote": 'a"b',
    "newline": "a\nb",
}


@long_form("tests/e2e/standin/test_plan_scripts.py::test_a_name_with_quotes_is_a_failure")
@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_would_forge_the_graph_is_a_failed_plan(team: Team, name: str) -> None:
    team.publish("1.0.0", "first", template=UNREADABLE)
    values = json.dumps({"name": NAMES[name]})
    team.create("configmaps", "values", data={"values.yaml": values})
    team.bundle("shop", values="values", approval=ALWAYS, retry={"limit": 0})
    found = wait_plan(team, outcome="Failed")
    assert found["reason"] == "PlanFailed"
    assert "the graph of werf's plan has" in found["message"]
    assert "\n" not in found["message"]
    assert team.jobs("shop") == []
    assert "id" not in found


@long_form(
    "tests/component/bundles/features/approval/test_approved_deploys.py::test_a_first_install_into_a_missing_namespace_creates_it_as_approved"
)
def test_a_first_install_into_a_namespace_that_is_not_there_names_it(team: Team, api: Api) -> None:
    there = f"{team.namespace}-new"
    account = {"kind": "ServiceAccount", "name": "werf", "namespace": team.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"metadata": {"name": there}, "roleRef": role, "subjects": [account]}
    api.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
    try:
        digest = team.publish("1.0.0", "first")
        team.bundle("shop", approval=ON_RISK, project_namespace=there, deletionPolicy="Orphan")
        found = wait_planned(team, "1.0.0")
        assert found["risky"] == [f"create ::Namespace:{there}"]
        assert found["counts"] == {"create": 2}
        team.wait_reason("shop", "AwaitingApproval")
        namespaces = [one["metadata"]["name"] for one in api.get("/api/v1/namespaces")["items"]]
        assert there not in namespaces
        approve(team, found)
        team.wait_deployed("shop", digest)
        made = api.get(f"/api/v1/namespaces/{there}/configmaps/shop-app")
        assert made["data"]["text"] == "first"
    finally:
        api.delete(f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{there}")


@pytest.mark.skipif(not LONG, reason="make test-long: script and status have tests of their own")
def test_a_replaced_secret_of_ours_ends_the_deploy_before_anything_is_applied(team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop", approval=ALWAYS, retry=SOON)
    found = wait_planned(team, "1.0.0")
    (name,) = secrets(team)
    secret = team.get("secrets", name) or {}
    assert secret["immutable"] is True
    forged = base64.b64decode(secret["data"]["operations"]) + b"delete ::Namespace:team\n"
    data = secret["data"] | {"operations": base64.b64encode(forged).decode()}
    team.delete("secrets", name)
    team.create("secrets", name, data=data, metadata={"labels": secret["metadata"]["labels"]})
    approve(team, found)
    until(lambda: team.status("shop").get("history"), lambda: json.dumps(team.status("shop")))
    entry = team.status("shop")["history"][-1]
    assert (entry["outcome"], entry["reason"]) == ("Interrupted", "PlanChanged")
    assert team.release("shop") is None
    again = wait_planned(team, "1.0.0", number=2)
    if "decision" not in again:
        approve(team, again, "cleo")
    team.wait_deployed("shop", digest)
