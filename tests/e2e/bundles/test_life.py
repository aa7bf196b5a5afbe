"""What can happen to deploys and Bundles in a cluster where people and nodes do as they like."""

import threading

import pytest
from tests.e2e.bundles.conftest import (
    INTERVAL,
    TEMPLATE,
    UNPULLABLE,
    Operator,
    Team,
    is_gone,
    stays,
)
from tests.e2e.bundles.private_registry import front
from tests.e2e.operator_process import until

from localcluster import Api, AuditEvent, Requests

pytestmark = pytest.mark.usefixtures("operator")

HALF_GOOD = f"""\
{TEMPLATE}---
apiVersion: v1
kind: Service
metadata:
  name: {{{{ .Release.Name }}}}-app
spec:
  ports: [{{port: 99999999}}]
"""
"""Changes the ConfigMap, and then fails."""
NEVER_READY = f"""\
{TEMPLATE}---
apiVersion: batch/v1
kind: Job
metadata:
  name: {{{{ .Release.Name }}}}-endless
spec:
  template:
    spec:
      restartPolicy: Never
      nodeSelector: {{copyrator.test/nowhere: "true"}}
      containers: [{{name: main, image: x, command: [sleep, "1000"]}}]
"""
"""Changes the ConfigMap, and then waits for ever."""


def test_a_job_that_cannot_start_says_why_and_gives_way_to_a_repaired_spec(team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop", interval="1h", werf={"image": UNPULLABLE})

    condition = team.wait_reason("shop", "ImagePullFailed")
    assert condition["status"] == "False"
    team.patch("bundles", "shop", spec={"werf": None, "job": {"nodeSelector": {"no": "where"}}})
    until(
        lambda: "can't be scheduled" in team.condition("shop")["message"],
        lambda: f"the next Job's pod can't be scheduled: {team.condition('shop')}",
    )
    condition = team.condition("shop")
    assert (condition["status"], condition["reason"]) == ("False", "JobUnschedulable")
    team.patch("bundles", "shop", spec={"job": None})

    status = team.wait_deployed("shop", digest)
    assert not status["attempted"].get("failures")
    assert status["attempted"]["attempt"] == 3
    newest, *others = ((entry["outcome"], entry["reason"]) for entry in status["history"])
    assert newest == ("Succeeded", "Deployed")
    assert set(others) == {("Interrupted", "JobLost")}  # and no word of a timeout


def test_a_job_that_is_deleted_evicted_or_ended_is_made_anew_and_counts_as_no_failure(
    team: Team,
) -> None:
    digest = team.publish("1.0.0", "first")
    stalling = threading.Event()
    stalling.set()

    def running(attempt: int) -> str:
        """The pod of this attempt's Job."""
        until(lambda: len(team.jobs("shop")) == attempt, f"Job {attempt} is made")
        job = next(one for one in team.jobs("shop") if one["metadata"]["name"] not in gone)
        name = job["metadata"]["name"]
        until(lambda: team.get("jobs", name)["status"].get("ready"), "its pod runs")
        selector = f"batch.kubernetes.io/job-name={name}"
        (pod,) = team.api.get(team.path("pods"), labelSelector=selector)["items"]
        gone.append(name)
        return str(pod["metadata"]["name"])

    gone: list[str] = []
    with front(team.cluster.registry, stalling=stalling) as host:
        spec = {"interval": "1h", "timeout": "10s", "retry": {"limit": 0, "backoff": "1s"}}
        team.bundle("shop", registry=host, **spec)

        pod = running(1)
        team.api.create(f"{team.path('pods', pod)}/eviction", {"metadata": {"name": pod}})
        running(2)
        # What is left of the time after 5 minutes.
        team.patch("jobs", gone[-1], spec={"activeDeadlineSeconds": 2})
        running(3)
        team.delete("jobs", gone[-1], propagationPolicy="Background")
        stalling.clear()

        status = team.wait_deployed("shop", digest)
    found = [(entry["outcome"], entry["reason"]) for entry in status["history"]]
    assert found[0] == ("Succeeded", "Deployed")
    assert found[1][1] == "JobLost"
    assert found[2][1] == "TimedOut"
    assert [outcome for outcome, _ in found[1:]] == ["Interrupted"] * 3, found
    assert status["attempted"]["attempt"] == 4
    assert not status["attempted"].get("failures")


def test_a_failed_upgrade_is_rolled_back_where_the_spec_says_so_and_a_failed_rollback_is_told(
    team: Team,
) -> None:
    first = team.publish("1.0.0", "first")
    team.bundle("shop", autoRollback=True, timeout="8s", retry={"limit": 0})
    team.wait_deployed("shop", first)

    second = team.publish("1.0.0", "second", template=NEVER_READY)

    condition = team.wait_reason("shop", "Quarantined")
    assert team.release("shop")["text"] == "first"
    assert f"Rolled back: 1.0.0 ({first[:19]}) runs, as revision 3" in condition["message"]
    status = team.status("shop")
    assert status["deploy"]["digest"] == status["deployed"]["digest"] == first
    assert status["deployed"]["revision"] == 3
    attempted = status["attempted"]
    assert (attempted["digest"], attempted["failures"]) == (second, 1)
    assert attempted["rollback"] == "Succeeded"

    third = team.publish("1.0.0", "third", template=HALF_GOOD)

    until(lambda: team.status("shop")["attempted"].get("rollback") == "Failed", "it fails too")
    condition = team.wait_reason("shop", "Quarantined")
    assert team.release("shop")["text"] == "third"
    assert "The rollback failed too: parts of 1.0.0 may be in place" in condition["message"]
    status = team.status("shop")
    assert status["deployed"]["digest"] == first
    assert status["attempted"]["digest"] == third
    assert "Service" in status["lastError"]["logTail"]


# --- Deleted Bundles: uninstalled, or let go with a word about what stays behind


def test_a_namespace_that_is_deleted_is_not_held_up(
    team: Team, api: Api, operator: Operator
) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop")
    team.wait_deployed("shop", digest)

    api.delete(f"/api/v1/namespaces/{team.namespace}")

    until(lambda: is_gone(api, f"/api/v1/namespaces/{team.namespace}"), "it goes")
    assert "is orphaned (namespace-terminating)" in operator.log.read_text()
    field = f"involvedObject.kind=Namespace,involvedObject.name={team.namespace}"
    until(lambda: events(api, field, "ReleaseOrphaned"), "an Event on the Namespace")


def events(api: Api, field: str, reason: str) -> list[str]:
    items = api.get("/api/v1/namespaces/default/events", fieldSelector=field)["items"]
    return [item["message"] for item in items if item["reason"] == reason]


# --- The status on a real API server: what others wrote there, and what it costs to mend that


def test_a_status_that_somebody_else_wrote_is_mended_by_one_write(
    team: Team, operator: Operator
) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop")
    team.wait_deployed("shop", digest)
    body = team.get("bundles", "shop")
    assert body
    status = body["status"]
    status["lastError"] = {"reason": "RegistryUnreachable", "message": "as a backup had it"}
    status["available"]["rejected"] = [{"version": "2.0.0-rc", "reason": "PreRelease"}]
    unmanaged = {"type": "Audited", "status": "True", "reason": "Seen", "message": ""}
    status["conditions"].append({**unmanaged, "lastTransitionTime": "2026-01-01T00:00:00Z"})
    status["forceUpdate"] = 0
    # All fields are this client's now, as after a restore: server-side apply would leave them.
    since = team.cluster.requests()
    team.api.replace(team.path("bundles", "shop") + "/status", body)

    until(lambda: "lastError" not in team.status("shop"), "the error is taken away")
    assert "rejected" not in team.status("shop")["available"]
    assert team.status("shop")["forceUpdate"] == 0
    assert team.condition("shop", "Audited")["status"] == "True"
    stays(2 * INTERVAL + 1, lambda: len(_writes(since, operator, team)) == 1, "one write mends it")
    assert len(team.jobs("shop")) == 1


def _writes(since: Requests, operator: Operator, team: Team) -> list[AuditEvent]:
    return since.writes(user=operator.user, resource="bundles", namespace=team.namespace)
