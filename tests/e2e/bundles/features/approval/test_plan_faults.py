"""Plans against quotas, as the API server and its controllers enforce them."""

import json
from typing import Any

import pytest
from tests.e2e.bundles.conftest import Team
from tests.e2e.bundles.features.approval.test_approval import ALWAYS, plan, secrets, wait_planned
from tests.e2e.installation import apply
from tests.e2e.operator_process import until
from tests.long import long_form

from localcluster.api import ApiStatusError

pytestmark = pytest.mark.usefixtures("operator")

SOON = {"limit": 9, "backoff": "1s"}


def wait_said(team: Team, *words: str) -> dict[str, Any]:
    """The plan, once its message has these words."""
    until(
        lambda: all(word in plan(team).get("message", "") for word in words),
        lambda: f"{words}: {json.dumps(team.status('shop'))}",
    )
    return plan(team)


POD = {"containers": [{"name": "main", "image": "none"}], "restartPolicy": "Never"}
PROBES: dict[str, tuple[str, dict[str, Any]]] = {
    "count/secrets": ("secrets", {}),
    "count/jobs.batch": ("jobs", {"spec": {"template": {"spec": POD}}}),
    "pods": ("pods", {"spec": POD}),
}


def limit(team: Team, kind: str) -> None:
    """A quota that allows none, in force: admission knows of it later than its status does."""
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "quota", "namespace": team.namespace},
        "spec": {"hard": {kind: "0"}},
    }
    apply(team.api, [body])
    plural, fields = PROBES[kind]
    probe = {"metadata": {"name": "probe"}, **fields}

    def is_known() -> bool:
        try:
            team.api.create(f"{team.path(plural)}?dryRun=All", probe)
        except ApiStatusError as error:
            return "exceeded quota" in str(error)
        return False

    until(is_known, "the quota is in force")


@long_form(
    "tests/component/bundles/features/approval/test_plan_faults.py::test_a_job_that_the_api_server_refuses_is_a_failed_plan_and_is_tried_again"
)
def test_what_a_quota_forbids_a_plan_is_named_and_the_plan_made_without_it(team: Team) -> None:
    """First the copies of its values, then its Job, then its pod."""
    team.publish("1.0.0", "first")
    team.create("configmaps", "values", data={"values.yaml": "greeting: hello\n"})
    limit(team, "count/secrets")
    team.bundle("shop", values="values", approval=ALWAYS, retry=SOON, interval="1h")
    until(
        lambda: "exceeded quota: quota" in team.condition("shop").get("message", ""),
        lambda: json.dumps(team.status("shop")),
    )
    assert team.jobs("shop", "plan") == [], "no copies, no Job"

    limit(team, "count/jobs.batch")
    found = wait_said(team, "exceeded quota: quota", "count/jobs.batch=1")
    assert found["reason"] == "PlanFailed"
    until(lambda: plan(team)["number"] > found["number"], "it is tried again")
    until(lambda: "exceeded quota" in team.condition("shop", "UpdatePending")["message"])
    assert team.jobs("shop", "plan") == []

    limit(team, "pods")
    found = wait_said(team, "it has no pod; its Events may name the cause, such as a quota")
    assert found["outcome"] == "Running"
    assert team.condition("shop", "UpdatePending")["reason"] == "Planning"

    team.delete("resourcequotas", "quota")
    again = wait_planned(team, "1.0.0")
    assert (again["job"], again["number"]) == (found["job"], found["number"]), "it went on"
    assert "attempted" not in team.status("shop")  # no digest is blamed
    until(lambda: len(secrets(team)) == 1, "what failed plans left is gone")
