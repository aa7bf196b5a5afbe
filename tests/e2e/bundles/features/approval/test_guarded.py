"""Deploys that the API server holds to what was approved, with the chart's own policy."""

import json
from typing import Any

import pytest
from tests.e2e.bundles.conftest import HOOK, TEMPLATE, Operator, Team
from tests.e2e.conftest import POLICIES_ARE_BETA, skip_before_1_30
from tests.e2e.operator_process import until

from copyrator.api.names import LABEL_GUARD
from localcluster import Api

pytestmark = pytest.mark.usefixtures("operator")

UNSEEN = """\
{{- if lookup "v1" "ConfigMap" .Release.Namespace "werf-synchronization" }}
---
apiVersion: v1
kind: Secret
metadata:
  name: {{ .Release.Name }}-unseen
{{- end }}
"""
"""werf makes its lock when it applies, and in no plan."""
WHILE_APPLYING = """\
{{- $lock := lookup "v1" "ConfigMap" .Release.Namespace "werf-synchronization" }}
{{- if and $lock $lock.metadata.annotations }}
"""
"""werf holds its lock when it applies, and for no plan."""
HIDDEN_HOOK = f"""\
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{{{ .Release.Name }}}}-hook
  annotations:
    {WHILE_APPLYING.replace(chr(10), chr(10) + "    ").rstrip()}
    helm.sh/hook: pre-delete
    {{{{- end }}}}
    a: b
"""
"""It is an object like others in the plan; werf stores a hook."""
OLD = TEMPLATE.replace("-app", "-old")
UNINSTALL_HOOK = """\
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-goodbye
  annotations:
    helm.sh/hook: pre-delete
data: {text: TEXT}
"""


@pytest.fixture(autouse=True)
def is_served(api: Api) -> None:
    skip_before_1_30(api, POLICIES_ARE_BETA)


def lists(operator: Operator, api: Api) -> dict[str, str]:
    """The lists that are there, by NAMESPACE.JOB."""
    path = f"/api/v1/namespaces/{operator.namespace}/configmaps"
    found = api.get(path, labelSelector=LABEL_GUARD)["items"]
    return {key: text for one in found for key, text in one.get("data", {}).items()}


def key_of(job: dict[str, Any]) -> str:
    return f"{job['metadata']['namespace']}.{job['metadata']['name']}"


def plan(team: Team) -> dict[str, Any]:
    found: dict[str, Any] = team.status("shop").get("plan", {})
    return found


def approve(team: Team) -> None:
    until(lambda: plan(team).get("outcome") == "Planned", lambda: json.dumps(team.status("shop")))
    team.annotate("shop", **{"approved-plan": plan(team)["id"], "approved-by": "ann"})


def test_what_is_approved_is_deployed_updated_and_uninstalled_under_a_list(
    operator: Operator, api: Api, team: Team
) -> None:
    first = team.publish("1.0.0", "first", template=f"{TEMPLATE}{HOOK}{UNINSTALL_HOOK}")
    team.bundle("shop", version="1.*", approval={"mode": "Always"})
    approve(team)
    status = team.wait_deployed("shop", first)

    assert (status["plan"]["enforced"], status["attempted"]["guarded"]) == (True, True)
    there = lists(operator, api)[f"{team.namespace}.{status['attempted']['job']}"]
    assert there.startswith(f"system:serviceaccount:{team.namespace}:werf\n")

    second = team.publish("1.1.0", "second", template=f"{TEMPLATE}{HOOK}{UNINSTALL_HOOK}")
    until(lambda: plan(team).get("version") == "1.1.0", lambda: json.dumps(plan(team)))
    approve(team)
    team.wait_deployed("shop", second)
    assert (team.release("shop") or {})["text"] == "second"

    team.delete("bundles", "shop")
    until(lambda: team.jobs("shop", "uninstall"), "it is uninstalled")
    (job,) = team.jobs("shop", "uninstall")
    assert key_of(job) in lists(operator, api)
    team.wait_gone("bundles", "shop")
    assert team.release("shop") is None
    assert team.get("configmaps", "shop-goodbye") is not None, "its hook was made, and stays"


def ended(team: Team) -> dict[str, Any]:
    """The attempt, once it has an outcome."""

    def attempted() -> dict[str, Any]:
        found: dict[str, Any] = team.status("shop").get("attempted", {})
        return found

    outcomes = ("Failed", "Interrupted", "Succeeded")
    until(lambda: attempted().get("outcome") in outcomes, lambda: json.dumps(attempted()))
    return attempted()


def test_what_wasnt_approved_is_refused_and_quarantines_the_version(
    operator: Operator, team: Team
) -> None:
    """The chart has an object that no plan shows, nor the deploy's own check."""
    team.publish("1.0.0", "first", template=f"{TEMPLATE}{UNSEEN}")
    team.bundle("shop", approval={"mode": "Always"})
    approve(team)

    attempted = ended(team)
    assert (attempted["outcome"], attempted["reason"]) == ("Failed", "ExceedsApproval"), attempted
    assert "CREATE of Secret shop-unseen" in attempted["message"]
    assert "nextRetryAt" not in attempted, "it is quarantined"
    assert team.get("secrets", "shop-unseen") is None

    def told() -> list[str]:
        field = "reason=Quarantined"
        return [
            one["message"]
            for one in team.api.get(team.path("events"), fieldSelector=field)["items"]
        ]

    until(told, "an Event")
    assert "failed: the API server refused the CREATE of Secret shop-unseen" in told()[0]


def test_what_a_chart_drops_at_last_is_not_deleted(team: Team) -> None:
    dropped = f"{WHILE_APPLYING}{{{{- else }}}}\n---\n{OLD}{{{{- end }}}}\n"
    first = team.publish("1.0.0", "first", template=f"{TEMPLATE}---\n{OLD}")
    team.bundle("shop", version="1.*", approval={"mode": "Always"})
    approve(team)
    team.wait_deployed("shop", first)

    team.publish("1.1.0", "first", template=f"{TEMPLATE}{dropped}")
    until(lambda: plan(team).get("version") == "1.1.0", lambda: json.dumps(plan(team)))
    approve(team)

    until(lambda: team.status("shop")["attempted"]["attempt"] == 2, "it is tried")
    attempted = ended(team)
    assert attempted["reason"] == "ExceedsApproval", attempted
    assert "DELETE of ConfigMap shop-old" in attempted["message"]
    assert team.get("configmaps", "shop-old")


def test_a_hook_that_no_plan_showed_runs_at_no_uninstall(team: Team) -> None:
    """The stored release has it; the Bundle can be deleted all the same."""
    team.publish("1.0.0", "first", template=f"{TEMPLATE}{HIDDEN_HOOK}")
    team.bundle("shop", approval={"mode": "Always"})
    approve(team)
    assert ended(team)["reason"] == "DeployedDifferently"

    team.delete("bundles", "shop")

    message = team.wait_reason("shop", "UninstallFailed")["message"]
    assert f"not approved: CREATE//ConfigMap/{team.namespace}/shop-hook. Next attempt" in message
    assert team.get("configmaps", "shop-hook") is None
    assert team.release("shop"), "nothing was deleted"
    team.annotate("shop", **{"force-delete": "true"})
    team.wait_gone("bundles", "shop")
