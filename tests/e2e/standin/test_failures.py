"""Deploys that fail, are rolled back, take too long or are interrupted."""

import os
import signal

from tests.e2e.standin.conftest import Charts, Werf, detail

from localcluster.waiting import eventually

BAD_POD = """
apiVersion: v1
kind: Pod
metadata: {name: bad}
spec: {containers: []}
"""
ENDLESS_JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: endless}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: x, command: [sleep, "1000"]}]
"""

INVALID_SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: zz-bad}
spec: {ports: [{port: 99999999}]}
"""


@detail
def test_a_deploy_that_takes_too_long_has_failed(werf: Werf, charts: Charts) -> None:
    charts.push(job=ENDLESS_JOB)

    code, _ = werf.run("bundle", "apply", WERF_TAG="1.0.0", WERF_TIMEOUT="6")

    assert code == 1
    assert werf.report["status"] == "failed"
    assert werf.report["completedOperations"] == [
        "create: ConfigMap/demo-cm",
        "create: Job/endless",
    ]
    assert "failedOperations" not in werf.report, "it was created, and isn't ready"


@detail
def test_an_interrupted_deploy_exits_by_its_signal_and_can_be_repeated(
    werf: Werf, charts: Charts
) -> None:
    charts.push(job=ENDLESS_JOB)
    process = werf.start("bundle", "apply", WERF_TAG="1.0.0")
    eventually(lambda: "demo-cm" in werf.names(), "the deploy being under way")

    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)

    assert process.returncode in (143, -signal.SIGTERM)
    charts.push("1.0.1")
    werf.apply("1.0.1")
    assert werf.object("demo-cm")["data"]["version"] == "1.0.1"


@detail
def test_a_plan_leaves_the_record_of_a_killed_deploy_to_the_next_deploy(
    werf: Werf, charts: Charts
) -> None:
    charts.push(job=ENDLESS_JOB)
    process = werf.start("bundle", "apply", WERF_TAG="1.0.0")
    eventually(lambda: "demo-cm" in werf.names(), "the deploy being under way")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=20)
    charts.push("1.0.1")

    plan = werf.plan("1.0.1")

    assert plan.operations == {"update ::ConfigMap:demo-cm", "delete :batch:Job:endless"}
    assert werf.revisions("demo") == {1: "pending-install"}
    werf.apply("1.0.1")
    assert list(werf.revisions("demo").values())[-1] == "deployed"
