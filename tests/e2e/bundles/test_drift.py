"""Objects that others change: found, named, and put right, by a real plan and a real deploy."""

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.e2e.bundles.conftest import TEMPLATE, Operator, Team, operating
from tests.e2e.operator_process import until

from localcluster import Cluster

pytestmark = pytest.mark.usefixtures("operator")

DETECT = {"mode": "Detect"}
CORRECT = {"mode": "Correct"}
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
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{{{ .Release.Name }}}}-hook
  annotations:
    helm.sh/hook: pre-install,pre-upgrade
    helm.sh/hook-delete-policy: before-hook-creation
data: {{text: TEXT}}
"""
WEB = "/apis/apps/v1/namespaces/{}/deployments/shop-web"
EDITED = "update ::ConfigMap:shop-app"


@pytest.fixture(scope="module")
def operator(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    with operating(cluster, log) as operator:
        yield operator


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


def deployed(team: Team, mode: dict[str, Any], template: str = CHART, **spec: Any) -> str:
    """A release whose chart is deployed and whose baseline is made; its digest."""
    digest = team.publish("1.0.0", "first", template=template)
    team.bundle("shop", drift=mode, **spec)
    team.wait_deployed("shop", digest)
    in_sync(team)
    return digest


def check(team: Team, value: str = "1") -> None:
    """Ask for a plan of what is deployed, which is a check too, and wait until it is read."""
    team.annotate("shop", **{"plan-at": value})

    def is_planned() -> bool:
        status = team.status("shop")
        done = status.get("plan", {}).get("outcome") in ("Planned", "Failed")
        return done and status.get("lastHandledPlan") == value

    until(is_planned, lambda: f"planned: {json.dumps(team.status('shop'))}")


def edit(team: Team) -> None:
    team.patch("configmaps", "shop-app", data={"text": "edited"})


def apply(team: Team) -> None:
    found = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop-app"}}
    body = json.dumps({**found, "data": {"text": "applied"}})
    namespaced = ("-n", team.namespace, "--server-side", "--force-conflicts", "-f", "-")
    team.cluster.kubectl("apply", *namespaced, input=body)


def delete(team: Team) -> None:
    team.delete("configmaps", "shop-app")


def edit_secret(team: Team) -> None:
    team.patch("secrets", "shop-secret", stringData={"password": "stolen"})


CHANGES: dict[str, tuple[Callable[[Team], None], str]] = {
    "edited": (edit, EDITED),
    "applied": (apply, EDITED),
    "deleted": (delete, "create ::ConfigMap:shop-app"),
    "a Secret": (edit_secret, "update ::Secret:shop-secret"),
}


@pytest.mark.parametrize("how", CHANGES)
def test_what_others_change_is_found_and_put_right(team: Team, how: str) -> None:
    """Not what the chart does each time: its hook and its random value are in the baseline."""
    digest = deployed(team, CORRECT)
    assert drift(team)["check"]["operations"] == 2
    change, operation = CHANGES[how]
    change(team)
    check(team)
    until(
        lambda: team.status("shop")["history"][0].get("correction"),
        lambda: f"it is corrected: {json.dumps(team.status('shop'))}",
    )
    found = in_sync(team)
    assert (found["corrections"], found["corrected"]) == (1, [operation])
    status = team.wait_deployed("shop", digest)
    assert status["history"][0]["outcome"] == "Succeeded"
    assert (team.release("shop") or {})["text"] == "first"
    password = (team.get("secrets", "shop-secret") or {})["data"]["password"]
    assert password == "ZGVwbG95ZWQ="
    assert len(team.jobs("shop")) == 2


def test_detect_names_what_drifted_and_changes_nothing(team: Team) -> None:
    deployed(team, DETECT)
    edit(team)
    edit_secret(team)
    check(team)
    found = drifted(team, "True", "Drifted")
    assert found["objects"] == [EDITED, "update ::Secret:shop-secret"]
    message = team.condition("shop", "Drifted")["message"]
    assert "stolen" not in json.dumps(team.status("shop"))
    assert f"copyrator reconcile bundle -n {team.namespace} shop --force" in message
    assert team.condition("shop")["status"] == "True"
    assert (team.release("shop") or {})["text"] == "edited"
    assert len(team.jobs("shop")) == 1
    events = team.api.get(team.path("events"), fieldSelector="reason=Drifted")["items"]
    assert len(events) == 1
    team.patch("configmaps", "shop-app", data={"text": "first"})
    team.patch("secrets", "shop-secret", stringData={"password": "deployed"})
    check(team, "2")
    in_sync(team)


def test_a_release_that_was_uninstalled_by_hand_is_installed_again(team: Team) -> None:
    digest = deployed(team, CORRECT)
    team.cluster.helm("uninstall", "shop", "--namespace", team.namespace)
    assert team.release("shop") is None
    check(team)
    until(lambda: team.release("shop"), lambda: json.dumps(team.status("shop")))
    in_sync(team)
    assert team.wait_deployed("shop", digest)["deployed"]["revision"] == 1


def test_another_revision_that_was_deployed_by_hand_is_put_right(team: Team) -> None:
    digest = deployed(team, CORRECT)
    other = team.chart("by hand", CHART)
    team.cluster.helm("upgrade", "shop", str(other), "--namespace", team.namespace)
    assert (team.release("shop") or {})["text"] == "by hand"
    check(team)
    until(lambda: (team.release("shop") or {})["text"] == "first")
    in_sync(team)
    assert team.wait_deployed("shop", digest)["deployed"]["revision"] == 3


FIGHT = """\
import subprocess, sys
kubectl, namespace = sys.argv[1:]
patch = ("patch", "configmap", "shop-app", "-n", namespace, "-p", '{"data": {"text": "mine"}}')
text = "jsonpath={.data.text}{'\\\\n'}"
get = ("get", "configmap", "shop-app", "-n", namespace, "--watch", "-o", text)
watch = subprocess.Popen((kubectl, *get), stdout=subprocess.PIPE, text=True)
for line in watch.stdout:
    if line.strip() != "mine":
        subprocess.run((kubectl, *patch), check=True)
"""


@contextlib.contextmanager
def fighting(team: Team) -> Iterator[None]:
    """A controller that changes the ConfigMap as often as it is put right."""
    kubectl = str(team.cluster.bin_dir / "kubectl")
    command = (sys.executable, "-c", FIGHT, kubectl, team.namespace)
    process = subprocess.Popen(command, env=team.cluster.environment(), start_new_session=True)
    try:
        until(lambda: (team.release("shop") or {}).get("text") == "mine")
        yield
        assert process.poll() is None, "it goes on to the end"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_controller_that_changes_it_each_time_is_told_and_not_fought(team: Team) -> None:
    deployed(team, CORRECT)
    with fighting(team):
        check(team)
        found = drifted(team, "True", "DriftRecurring")
        assert found["corrections"] == 2
        assert found["objects"] == [EDITED]
        jobs = len(team.jobs("shop"))
        check(team, "2")
        assert len(team.jobs("shop")) == jobs == 3
    assert "spec.drift.ignore" in team.condition("shop", "Drifted")["message"]
    assert team.condition("shop")["status"] == "True"


def test_what_an_autoscaler_does_is_ignored_by_kind_and_name(team: Team) -> None:
    ignore = [{"kind": "Deployment", "name": "*-web"}]
    deployed(team, {**CORRECT, "ignore": ignore})
    team.api.patch(WEB.format(team.namespace), {"spec": {"replicas": 3}})
    check(team)
    in_sync(team)
    assert len(team.jobs("shop")) == 1
    team.patch("bundles", "shop", spec={"drift": {**DETECT, "ignore": None}})
    check(team, "2")
    found = drifted(team, "True", "Drifted")
    assert found["objects"] == ["update :apps:Deployment:shop-web"]


def test_permissions_that_were_taken_away_tell_nothing(team: Team) -> None:
    deployed(team, CORRECT, template=TEMPLATE)
    rules = [{"apiGroups": [""], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{team.namespace}"
    team.api.create(f"{roles}/roles", {"metadata": {"name": "reads"}, "rules": rules})
    account = {"kind": "ServiceAccount", "name": "werf", "namespace": team.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reads"}
    binding = {"metadata": {"name": "reads"}, "roleRef": role, "subjects": [account]}
    team.api.create(f"{roles}/rolebindings", binding)
    team.api.delete(f"{roles}/rolebindings/werf")
    check(team)
    found = drifted(team, "Unknown", "BlindApply")
    assert "apply ::ConfigMap:shop-app can't be compared" in found["message"]
    assert len(team.jobs("shop")) == 1
    assert team.condition("shop")["status"] == "True"


def test_nothing_is_asked_while_nothing_is_due(team: Team, operator: Operator) -> None:
    """Polls go on, and see nothing new: the operator's own requests are counted."""
    deployed(team, {**DETECT, "interval": "720h"}, interval="10s")
    until(lambda: not _unsettled(team), "what was needed for the check is gone")
    requests = team.cluster.requests()
    polled = team.status("shop")["nextPollAt"]
    until(lambda: _polls(operator) > 0)
    before = _polls(operator)
    until(lambda: _polls(operator) >= before + 3, "it polls on")
    made = requests.all(namespace=team.namespace, user=operator.user)
    assert [f"{one.verb} {one.uri}" for one in made if one.verb != "watch"] == []
    assert team.status("shop")["nextPollAt"] == polled


def _unsettled(team: Team) -> list[str]:
    """Jobs whose TTL is still to be cut; a plan Job has none until its outcome is read."""
    jobs = [*team.jobs("shop"), *team.jobs("shop", "drift")]
    return [
        one["metadata"]["name"]
        for one in jobs
        if one["spec"].get("ttlSecondsAfterFinished", math.inf) > 600
    ]


def _polls(operator: Operator) -> float:
    _, text = operator.process.get("/metrics")
    found = [line for line in text.splitlines() if line.startswith("copyrator_polls_total")]
    return sum(float(line.split()[-1]) for line in found)
