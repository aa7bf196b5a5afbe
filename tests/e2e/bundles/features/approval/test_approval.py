"""Deploys that a person approves: what is planned, what may be decided, and what is deployed.

Most tests are the life of one Bundle, one after the other: each goes on where the last one ended.
"""

import base64
import json
from typing import Any

import pytest
from tests.e2e.bundles.conftest import HOOK, SERVICE, TEMPLATE, Operator, Team
from tests.e2e.conftest import skip_before_1_30
from tests.e2e.operator_process import until
from tests.long import LONG

pytestmark = pytest.mark.usefixtures("operator")

ALWAYS = {"mode": "Always"}
ON_RISK = {"mode": "OnRisk"}
RANDOM = """\
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-random
data: {word: {{ randAlphaNum 12 | quote }}}
"""
CHART = f"{TEMPLATE}{SERVICE}{RANDOM}"
"""Each of its plans has other contents, so contents can't be bound; operations are."""


@pytest.fixture(scope="module")
def shop(operator: Operator, lasting_team: Team) -> Team:
    """A Bundle with values whose first version is planned and waits."""
    team = lasting_team
    team.publish("1.0.0", "first", template=CHART)
    team.create("configmaps", "values", data={"values.yaml": "greeting: hello\n"})
    hidden = base64.b64encode(b"other: hunter2\n").decode()
    team.create("secrets", "hidden", data={"b.yaml": hidden})
    team.bundle(
        "shop",
        version="1.*",
        values="values",
        valuesFrom=[{"kind": "Secret", "name": "hidden"}],
        approval=ALWAYS,
        retry={"limit": 2, "backoff": "1s"},
    )
    wait_planned(team, "1.0.0")
    return team


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


OPERATIONS = "operator.werf.dev/seal,operator.werf.dev/seal notin (inputs,release)"


def secrets(team: Team) -> list[str]:
    items = team.api.get(team.path("secrets"), labelSelector=OPERATIONS)["items"]
    return [one["metadata"]["name"] for one in items]


def test_nothing_is_deployed_until_its_plan_is_approved(shop: Team) -> None:
    """What waits is deployed as it was planned, though a newer version is there meanwhile."""
    team = shop
    found = plan(team)
    assert found["counts"] == {"create": 3}
    assert (found["operations"], found["revision"]) == (3, 1)
    assert secrets(team) == [f"{found['job']}-operations"]
    condition = team.wait_reason("shop", "AwaitingApproval")
    assert condition["status"] == "Unknown"
    assert found["id"] in condition["message"]
    assert "copyrator approve bundle" in condition["message"]
    assert team.condition("shop", "UpdatePending")["reason"] == "AwaitingApproval"
    team.annotate("shop", **{"approved-plan": "0" * 32})  # an ID that isn't the plan's
    team.publish("1.1.0", "second", template=CHART)
    later = wait_planned(team, "1.0.0", newer="1.1.0")
    assert (later["id"], later["job"]) == (found["id"], found["job"]), "it isn't replaced"
    assert team.release("shop") is None, "an unknown ID approves nothing"
    assert team.jobs("shop") == []

    approve(team, found)
    until(lambda: is_begun(team), "the decision is seen")
    # An approval counts although its annotations go before the deploy.
    team.annotate("shop", **{"approved-plan": None, "approved-by": None})

    until(
        lambda: team.status("shop").get("deploy", {}).get("digest") == found["digest"],
        lambda: json.dumps(team.status("shop")),
    )
    assert team.release("shop") == {"text": "first", "greeting": "hello"}
    (done,) = team.status("shop")["history"]
    assert (done["plan"], done["approvedBy"]) == (found["id"], "ann")
    done_plan = team.status("shop")["deployed"]["planJob"]
    assert done_plan == found["job"]
    assert "hunter2" not in json.dumps([team.get("bundles", "shop"), team.jobs("shop", "plan")])
    found = wait_planned(team, "1.1.0")
    assert (found["counts"], found.get("risky")) == ({"update": 2}, None)
    wanted = sorted(f"{job}-operations" for job in (found["job"], done_plan))
    until(lambda: secrets(team) == wanted, "what was kept of the deployed plan and this one")


def is_begun(team: Team) -> bool:
    """Whether the approved deploy has begun, or ended."""
    status = team.status("shop")
    return status.get("plan", {}).get("decision") == "Approved" or bool(status.get("history"))


def test_an_edit_of_the_values_is_planned_and_waits(shop: Team) -> None:
    team = shop
    before, newest = team.release("shop"), team.status("shop")["available"]["version"]
    jobs, old = len(team.jobs("shop")), plan(team)["id"]
    team.patch("configmaps", "values", data={"values.yaml": "greeting: ciao\n"})
    until(lambda: plan(team).get("id") not in (None, old), lambda: json.dumps(team.status("shop")))
    wait_planned(team, newest, counts={"update": 2})
    team.wait_reason("shop", "AwaitingApproval")
    assert team.release("shop") == before
    assert len(team.jobs("shop")) == jobs


def test_a_risky_plan_waits_and_another_one_does_not(team: Team) -> None:
    """What a chart does every time isn't risky: its hook is in the baseline."""
    skip_before_1_30(team.api, "no plan is enforced, so each is risky")
    first = team.publish("1.0.0", "first", template=f"{TEMPLATE}{HOOK}{SERVICE}")
    team.bundle("shop", version="1.*", approval=ON_RISK)
    team.wait_deployed("shop", first)  # creates only
    until(
        lambda: team.status("shop").get("baseline", {}).get("digest") == first,
        lambda: f"what is deployed is planned once: {json.dumps(team.status('shop'))}",
    )
    base = team.status("shop")["baseline"]
    check = team.status("shop")["drift"]["check"]
    assert (check["job"], check["operations"]) == (base["job"], 1)
    assert team.condition("shop")["reason"] == "Deployed"
    second = team.publish("1.1.0", "second", template=f"{TEMPLATE}{HOOK}")  # the Service goes
    found = wait_planned(team, "1.1.0")
    assert found["risky"] == ["delete ::Service:shop-app"]
    assert found["counts"]["recreate"] == 1, "the hook"
    team.wait_reason("shop", "Deployed")  # what runs is what was deployed last
    assert team.condition("shop", "UpdatePending")["reason"] == "AwaitingApproval"
    assert team.get("services", "shop-app") is not None
    if not LONG:  # The rest is in tests/component/bundles/features/drift/test_drift.py, too:
        return  # test_each_content_has_a_baseline_and_a_forced_deploy_of_the_same_has_none
    approve(team, found)
    team.wait_deployed("shop", second)
    assert team.get("services", "shop-app") is None
    until(
        lambda: team.status("shop")["baseline"]["digest"] == second,
        "the new version has a baseline of its own",
    )
    kept = (plan(team)["job"], team.status("shop")["baseline"]["job"])
    wanted = sorted(f"{job}-operations" for job in kept)
    until(lambda: secrets(team) == wanted, "the former baseline's values are deleted")
