"""Deploys that a person approves: what is planned, what may be decided, and what is deployed."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.e2e.bundles.conftest import TEMPLATE, Operator, Team, operating, stays
from tests.e2e.operator_process import until

from localcluster import Cluster

pytestmark = pytest.mark.usefixtures("operator")

ALWAYS = {"mode": "Always"}
ON_RISK = {"mode": "OnRisk"}
WITH_SERVICE = f"""\
{TEMPLATE}---
apiVersion: v1
kind: Service
metadata:
  name: {{{{ .Release.Name }}}}-app
spec:
  ports: [{{port: 80}}]
"""


@pytest.fixture(scope="module")
def operator(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    with operating(cluster, log) as operator:
        yield operator


def plan(team: Team, name: str = "shop") -> dict[str, Any]:
    return team.status(name).get("plan", {})


def wait_planned(team: Team, version: str, **wanted: Any) -> dict[str, Any]:
    def fits() -> bool:
        found = plan(team)
        return (found.get("outcome"), found.get("version")) == ("Planned", version) and all(
            found.get(name) == value for name, value in wanted.items()
        )

    until(fits, lambda: f"{version} is planned: {json.dumps(team.status('shop'))}")
    return plan(team)


def approve(team: Team, found: dict[str, Any], by: str = "ann") -> None:
    team.annotate("shop", **{"approved-plan": found["id"], "approved-by": by})


def secrets(team: Team) -> list[str]:
    items = team.api.get(team.path("secrets"), labelSelector="operator.werf.dev/seal")["items"]
    return [one["metadata"]["name"] for one in items]


def test_nothing_is_deployed_until_its_plan_is_approved(team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop", approval=ALWAYS)
    found = wait_planned(team, "1.0.0")
    assert found["counts"] == {"create": 1}
    assert (found["digest"], found["operations"], found["revision"]) == (digest, 1, 1)
    condition = team.wait_reason("shop", "AwaitingApproval")
    assert condition["status"] == "Unknown"
    assert found["id"] in condition["message"]
    assert "copyrator approve bundle" in condition["message"]
    assert team.condition("shop", "UpdatePending")["reason"] == "AwaitingApproval"
    team.annotate("shop", **{"approved-plan": "0" * 32})  # an ID that isn't the plan's
    stays(5, lambda: team.release("shop") is None, "an unknown ID approves nothing")
    assert team.jobs("shop") == []

    approve(team, found)

    status = team.wait_deployed("shop", digest)
    assert status["plan"]["decision"] == "Approved"
    assert status["plan"]["by"] == "ann"
    assert status["history"][0]["plan"] == found["id"]
    assert status["history"][0]["approvedBy"] == "ann"
    assert team.release("shop") == {"text": "first", "greeting": "none"}


def test_a_risky_plan_waits_and_another_one_does_not(team: Team) -> None:
    first = team.publish("1.0.0", "first", template=WITH_SERVICE)
    team.bundle("shop", version="1.*", approval=ON_RISK)
    team.wait_deployed("shop", first)  # creates only
    second = team.publish("1.1.0", "second")  # the Service goes
    found = wait_planned(team, "1.1.0")
    assert found["risky"] == ["delete ::Service:shop-app"]
    team.wait_reason("shop", "Deployed")  # what runs is what was deployed last
    assert team.condition("shop", "UpdatePending")["reason"] == "AwaitingApproval"
    assert team.get("services", "shop-app") is not None
    approve(team, found)
    team.wait_deployed("shop", second)
    assert team.get("services", "shop-app") is None


HOOK = f"""\
{TEMPLATE}---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{{{ .Release.Name }}}}-hook
  annotations:
    helm.sh/hook: pre-install,pre-upgrade
    helm.sh/hook-delete-policy: before-hook-creation
data: {{text: TEXT}}
"""


def test_what_a_chart_does_every_time_is_not_risky(team: Team) -> None:
    first = team.publish("1.0.0", "first", template=HOOK)
    team.bundle("shop", version="1.*", approval=ON_RISK)
    team.wait_deployed("shop", first)
    until(
        lambda: team.status("shop").get("baseline", {}).get("digest") == first,
        lambda: f"what is deployed is planned once: {json.dumps(team.status('shop'))}",
    )
    base = team.status("shop")["baseline"]
    check = team.status("shop")["drift"]["check"]
    assert (check["job"], check["operations"]) == (base["job"], 1)
    assert team.condition("shop")["reason"] == "Deployed"
    second = team.publish("1.1.0", "second", template=HOOK)
    team.wait_deployed("shop", second)  # recreates the hook again, which isn't risky
    until(
        lambda: team.status("shop")["baseline"]["digest"] == second,
        "the new version has a baseline of its own",
    )
    kept = (plan(team)["job"], team.status("shop")["baseline"]["job"])
    wanted = sorted(f"{job}-operations" for job in kept)
    until(lambda: secrets(team) == wanted, "the former baseline's values are deleted")


def test_a_rejected_plan_is_not_deployed_and_the_next_version_is_planned(team: Team) -> None:
    first = team.publish("1.0.0", "first")
    team.bundle("shop", version="1.*", approval=ALWAYS)
    approve(team, wait_planned(team, "1.0.0"))
    team.wait_deployed("shop", first)
    team.publish("1.1.0", "second")
    found = wait_planned(team, "1.1.0")
    team.annotate("shop", **{"rejected-plan": found["id"], "approved-by": "ben"})
    until(
        lambda: team.condition("shop", "UpdatePending").get("reason") == "PlanRejected",
        lambda: json.dumps(team.status("shop")),
    )
    assert "by ben" in team.condition("shop", "UpdatePending")["message"]
    third = team.publish("1.2.0", "third")
    approve(team, wait_planned(team, "1.2.0"))
    team.wait_deployed("shop", third)


def test_a_newer_version_does_not_replace_the_plan_that_waits(team: Team) -> None:
    first = team.publish("1.0.0", "first")
    team.bundle("shop", version="1.*", approval=ALWAYS)
    found = wait_planned(team, "1.0.0")
    team.publish("1.1.0", "second")
    later = wait_planned(team, "1.0.0", newer="1.1.0")
    assert (later["id"], later["job"]) == (found["id"], found["job"])
    approve(team, found)
    until(
        lambda: team.status("shop").get("deploy", {}).get("digest") == first,
        "what was approved is deployed",
    )
    assert team.release("shop") == {"text": "first", "greeting": "none"}
    wait_planned(team, "1.1.0")

    team.publish("1.2.0", "third")
    wait_planned(team, "1.1.0", newer="1.2.0")
    team.annotate("shop", **{"plan-at": "now"})
    wait_planned(team, "1.2.0")
    assert team.status("shop")["lastHandledPlan"] == "now"
    assert "newer" not in plan(team)


def test_an_approval_counts_although_its_annotations_go_before_the_deploy(team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop", approval=ALWAYS)
    found = wait_planned(team, "1.0.0")
    approve(team, found)
    until(lambda: plan(team).get("decision") == "Approved", "the decision is seen")
    team.annotate("shop", **{"approved-plan": None, "approved-by": None})
    team.wait_deployed("shop", digest)


def test_values_are_planned_and_deployed_as_they_were(team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    team.create("configmaps", "values", data={"values.yaml": "greeting: hello\n"})
    hidden = base64.b64encode(b"other: hunter2\n").decode()
    team.create("secrets", "hidden", data={"b.yaml": hidden})
    team.bundle(
        "shop",
        values="values",
        valuesFrom=[{"kind": "Secret", "name": "hidden"}],
        approval=ALWAYS,
    )
    found = wait_planned(team, "1.0.0")
    approve(team, found)
    team.wait_deployed("shop", digest)
    assert team.release("shop") == {"text": "first", "greeting": "hello"}
    assert "hunter2" not in json.dumps([team.get("bundles", "shop"), team.jobs("shop", "plan")])
    # An edit of the values is planned, and waits, too.
    team.patch("configmaps", "values", data={"values.yaml": "greeting: bye\n"})
    found = wait_planned(team, "1.0.0", counts={"update": 1})
    team.wait_reason("shop", "AwaitingApproval")
    assert team.release("shop") == {"text": "first", "greeting": "hello"}
    # What was planned before another edit can't be deployed any more.
    team.patch("configmaps", "values", data={"values.yaml": "greeting: ciao\n"})
    approve(team, found)
    until(
        lambda: plan(team).get("id") not in (None, found["id"]),
        lambda: json.dumps(team.status("shop")),
    )
    assert team.release("shop") == {"text": "first", "greeting": "hello"}
    approve(team, wait_planned(team, "1.0.0"))
    until(lambda: (team.release("shop") or {}).get("greeting") == "ciao", "deployed")


def test_what_is_no_longer_what_was_approved_is_not_applied(team: Team) -> None:
    first = team.publish("1.0.0", "first", template=WITH_SERVICE)
    team.bundle("shop", version="1.*", approval=ALWAYS, retry={"limit": 2, "backoff": "1s"})
    approve(team, wait_planned(team, "1.0.0"))
    team.wait_deployed("shop", first)
    second = team.publish("1.1.0", "second", template=WITH_SERVICE)
    found = wait_planned(team, "1.1.0", counts={"update": 1})
    team.delete("services", "shop-app")  # the deploy would create it again
    approve(team, found)
    until(
        lambda: any(
            one.get("reason") == "PlanChanged" for one in team.status("shop").get("history", [])
        ),
        lambda: json.dumps(team.status("shop")),
    )
    assert team.release("shop") == {"text": "first", "greeting": "none"}
    again = wait_planned(team, "1.1.0", counts={"create": 1, "update": 1})
    assert again["id"] != found["id"]
    assert "decision" not in again
    approve(team, again, "cleo")
    team.wait_deployed("shop", second)
    assert team.get("services", "shop-app") is not None


def test_what_was_kept_for_a_plan_goes_with_it(team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    team.create("configmaps", "values", data={"values.yaml": "greeting: hello\n"})
    team.bundle("shop", values="values", approval=ALWAYS)
    found = wait_planned(team, "1.0.0")
    assert secrets(team) == [f"{found['job']}-operations"]
    approve(team, found)
    team.wait_deployed("shop", digest)
    until(lambda: secrets(team) == [f"{found['job']}-operations"], "values are deleted")
