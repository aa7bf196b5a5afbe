"""Objects that others change: found, named, and put right, by a real plan and a real deploy."""

import json
import secrets
from typing import Any, cast

import pytest
from tests.e2e.bundles.conftest import HOOK, TEMPLATE, Operator, Team
from tests.e2e.installation import apply
from tests.e2e.operator_process import until

NEVER = "720h"
"""Between checks that nobody asks for: one of them would end the count of corrections."""
DETECT = {"mode": "Detect", "interval": NEVER}
CORRECT = {"mode": "Correct", "interval": NEVER}
CHART = f"""\
{TEMPLATE}---
apiVersion: v1
kind: Secret
metadata:
  name: {{{{ .Release.Name }}}}-secret
stringData: {{password: deployed}}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{{{ .Release.Name }}}}-web
spec:
  replicas: 0
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      containers: [{{name: web, image: web}}]
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{{{ .Release.Name }}}}-random
data: {{text: {{{{ randAlphaNum 8 | quote }}}}}}
{HOOK}"""
WEB = "/apis/apps/v1/namespaces/{}/deployments/shop-web"
AUTOSCALED = [{"kind": "Deployment", "name": "*-web"}]
EDITED = "update ::ConfigMap:shop-app"
STOLEN = "update ::Secret:shop-secret"


@pytest.fixture(scope="module")
def release(operator: Operator, lasting_team: Team) -> Team:
    """One release for all tests, with its baseline: each finds what the last one left."""
    team = lasting_team
    digest = team.publish("1.0.0", "first", template=CHART)
    team.bundle("shop", version=">=1", drift=DETECT)
    team.wait_deployed("shop", digest)
    in_sync(team)
    return team


def drift(team: Team) -> dict[str, Any]:
    return team.status("shop").get("drift", {})


def drifted(team: Team, status: str, reason: str) -> dict[str, Any]:
    """The drift in the status, once the condition Drifted says this."""

    def fits() -> bool:
        found = team.condition("shop", "Drifted")
        return (found.get("status"), found.get("reason")) == (status, reason)

    until(fits, lambda: f"{status} {reason}: {json.dumps(team.status('shop'))}")
    return drift(team)


def in_sync(team: Team) -> dict[str, Any]:
    return drifted(team, "False", "InSync")


def put_right(team: Team, after: int) -> dict[str, Any]:
    """The drift in the status, once a deploy after this one has corrected what was found."""

    def is_corrected() -> bool:
        attempted = team.status("shop")["attempted"]
        newer = attempted["attempt"] > after and attempted.get("correction")
        return newer and attempted["outcome"] == "Succeeded"

    until(is_corrected, lambda: f"it is corrected: {json.dumps(team.status('shop'))}")
    return in_sync(team)


def check(team: Team) -> None:
    """Ask for a plan of what is deployed, which is a check too, and wait until it is read."""
    value = secrets.token_hex(4)
    team.annotate("shop", **{"plan-at": value})

    def is_planned() -> bool:
        status = team.status("shop")
        done = status.get("plan", {}).get("outcome") in ("Planned", "Failed")
        return done and status.get("lastHandledPlan") == value

    until(is_planned, lambda: f"planned: {json.dumps(team.status('shop'))}")


def attempt(team: Team) -> int:
    """The number of the last deploy."""
    return int(team.status("shop")["attempted"]["attempt"])


def set_mode(team: Team, mode: dict[str, Any]) -> None:
    team.patch("bundles", "shop", spec={"drift": {"ignore": None, **mode}})


def edit(team: Team, text: str = "edited", password: str = "stolen") -> None:
    team.patch("configmaps", "shop-app", data={"text": text})
    team.patch("secrets", "shop-secret", stringData={"password": password})


def test_detect_names_what_drifted_and_changes_nothing(release: Team) -> None:
    """But for what an autoscaler does, once it is ignored by kind and name."""
    team = release
    jobs = len(team.jobs("shop"))
    set_mode(team, DETECT)
    team.api.patch(WEB.format(team.namespace), {"spec": {"replicas": 3}})
    edit(team)
    check(team)
    found = drifted(team, "True", "Drifted")
    assert found["objects"] == [EDITED, STOLEN, "update :apps:Deployment:shop-web"]
    set_mode(team, {**DETECT, "ignore": AUTOSCALED})
    until(lambda: drift(team).get("objects") == [EDITED, STOLEN], lambda: str(drift(team)))
    message = team.condition("shop", "Drifted")["message"]
    assert "stolen" not in json.dumps(team.status("shop"))
    assert f"copyrator reconcile bundle -n {team.namespace} shop --force" in message
    assert team.condition("shop")["status"] == "True"
    assert (team.release("shop") or {})["text"] == "edited"

    def events() -> list[dict[str, Any]]:
        found = team.api.get(team.path("events"), fieldSelector="reason=Drifted")
        return cast("list[dict[str, Any]]", found["items"])

    until(events, "an Event")
    assert len(events()) == 1
    assert len(team.jobs("shop")) == jobs


def test_what_others_change_is_found_and_put_right(release: Team) -> None:
    """A revision deployed by hand, a ConfigMap applied, a Secret edited; found, then corrected.

    Not what the chart does each time: its hook and its random value are in the baseline.
    """
    team = release
    set_mode(team, DETECT)
    digest, jobs = team.status("shop")["deployed"]["digest"], len(team.jobs("shop"))
    other = team.chart("by hand", CHART)
    team.cluster.helm("upgrade", "shop", str(other), "--namespace", team.namespace)
    assert (team.release("shop") or {})["text"] == "by hand"
    metadata = {"name": "shop-app", "namespace": team.namespace}
    apply(
        team.api,
        [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": "mine"}}],
    )
    team.patch("secrets", "shop-secret", stringData={"password": "stolen"})
    check(team)
    until(lambda: drift(team).get("objects") == [EDITED, STOLEN], lambda: str(drift(team)))
    assert len(team.jobs("shop")) == jobs, "so far it is only told"
    before = attempt(team)
    set_mode(team, CORRECT)
    found = put_right(team, before)
    assert (found["corrections"], found["corrected"]) == (1, [EDITED, STOLEN])
    status = team.wait_deployed("shop", digest)
    assert status["history"][0]["outcome"] == "Succeeded"
    assert status["history"][0]["correction"] is True
    assert status["history"][0]["cause"] == "Correction"
    is_served = int(team.api.get("/version")["minor"]) >= 30
    assert status["attempted"].get("guarded", False) is is_served
    assert status["deployed"]["revision"] == 3, "after the first and the one by hand"
    assert (team.release("shop") or {})["text"] == "first"
    password = (team.get("secrets", "shop-secret") or {})["data"]["password"]
    assert password == "ZGVwbG95ZWQ="
    assert len(team.jobs("shop")) == jobs + 1


def test_a_release_that_was_uninstalled_by_hand_is_installed_again(release: Team) -> None:
    team = release
    set_mode(team, CORRECT)
    in_sync(team)
    digest = team.status("shop")["deployed"]["digest"]
    before, corrections = attempt(team), drift(team).get("corrections", 0)
    team.cluster.helm("uninstall", "shop", "--namespace", team.namespace)
    assert team.release("shop") is None
    check(team)
    found = put_right(team, before)
    assert found["corrections"] == corrections + 1
    assert "create ::ConfigMap:shop-app" in found["corrected"]
    assert (team.release("shop") or {})["text"] == "first"
    assert team.wait_deployed("shop", digest)["deployed"]["revision"] == 1
