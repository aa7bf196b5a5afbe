"""Objects of a release that break and heal, as real controllers report them."""

import json

import pytest
from tests.e2e.bundles.conftest import NOWHERE, Operator, Team
from tests.e2e.operator_process import until

POD = """\
    metadata: {labels: {app: LABEL}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: web, command: [sleep, "3600"]}]
"""
CHART = f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: "{{{{ .Release.Name }}}}-web"}}
spec:
  progressDeadlineSeconds: 3
  selector: {{matchLabels: {{app: web}}}}
  template:
{POD.replace("LABEL", "web")}---
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: "{{{{ .Release.Name }}}}-db"}}
spec:
  serviceName: db
  selector: {{matchLabels: {{app: db}}}}
  template:
{POD.replace("LABEL", "db")}---
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: "{{{{ .Release.Name }}}}-agent"}}
spec:
  selector: {{matchLabels: {{app: agent}}}}
  template:
{POD.replace("LABEL", "agent")}---
apiVersion: batch/v1
kind: Job
metadata: {{name: "{{{{ .Release.Name }}}}-once"}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: main, image: web, command: ["true"]}}]
---
apiVersion: batch/v1
kind: Job
metadata:
  name: "{{{{ .Release.Name }}}}-hook"
  annotations: {{helm.sh/hook: post-install, helm.sh/hook-delete-policy: before-hook-creation}}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{{name: main, image: web, command: ["true"]}}]
"""
APPS = "/apis/apps/v1/namespaces/{}/{}"
MISSING = "missing.invalid/web"


def wait_health(team: Team, name: str, status: str, reason: str) -> str:
    """The message of the condition Healthy, once it says this."""

    def fits() -> bool:
        found = team.condition(name, "Healthy")
        return (found.get("status"), found.get("reason")) == (status, reason)

    until(fits, lambda: f"{status} {reason}: {json.dumps(team.status(name))}")
    return str(team.condition(name, "Healthy")["message"])


def set_image(team: Team, plural: str, name: str, image: str) -> None:
    """As `kubectl set image` does."""
    spec = {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}
    path = f"{APPS.format(team.namespace, plural)}/{name}"
    kind = "application/strategic-merge-patch+json"
    team.api.request("PATCH", path, {"spec": spec}, content_type=kind)


def reasons(team: Team, name: str) -> list[str]:
    items = team.api.get(team.path("events"))["items"]
    return [one["reason"] for one in items if one["involvedObject"]["name"] == name]


def watches(operator: Operator) -> dict[str, float]:
    assert operator.process is not None
    _, page = operator.process.get("/metrics")
    lines = [line for line in page.splitlines() if line.startswith("copyrator_watches{")]
    return {line.split('"')[1]: float(line.split()[-1]) for line in lines}


@pytest.fixture(scope="module")
def shop(operator: Operator, lasting_team: Team) -> Team:
    """A release that is watched, and healthy."""
    team = lasting_team
    digest = team.publish("1.0.0", "good", template=CHART)
    team.bundle("shop", health="Watch")
    team.wait_deployed("shop", digest)
    return team


def test_a_release_breaks_and_heals_and_dependants_wait(operator: Operator, shop: Team):
    team = shop
    text = wait_health(team, "shop", "True", "Healthy")
    assert f"of the release is current in namespace {team.namespace}" in text
    for kind in ("deployments.apps", "statefulsets.apps", "daemonsets.apps"):
        assert watches(operator)[kind] == 1

    set_image(team, "deployments", "shop-web", MISSING)
    text = wait_health(team, "shop", "False", "Unhealthy")
    assert "Deployment/shop-web (Progress deadline exceeded)" in text
    assert "shop-db" not in text
    assert team.condition("shop")["status"] == "True", "Ready stays"
    until(lambda: "Unhealthy" in reasons(team, "shop"), "an Event")

    team.publish("1.0.0", "after", repo="after/app")
    team.bundle("after", repo="after/app", dependsOn=[{"name": "shop"}], job=NOWHERE)
    waits = team.wait_reason("after", "DependencyNotReady")
    assert "shop is Ready, but isn't Healthy" in waits["message"]
    assert team.jobs("after") == []

    set_image(team, "deployments", "shop-web", "web")
    wait_health(team, "shop", "True", "Healthy")
    team.first_job("after")
    until(lambda: "Healthy" in reasons(team, "shop"), "an Event")
    assert len(team.jobs("shop")) == 1, "it never triggers a deploy"
