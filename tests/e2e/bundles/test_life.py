"""What can happen to deploys and Bundles in a cluster where people and nodes do as they like."""

import base64
import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from tests.e2e.bundles.conftest import TEMPLATE, Operator, Team, operating, stays
from tests.e2e.bundles.private_registry import front
from tests.e2e.operator_process import until

from localcluster import Api, Cluster

pytestmark = pytest.mark.usefixtures("operator")

PICKY = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-app
data:
  text: TEXT
  greeting: {{ required "a greeting is needed" .Values.greeting | quote }}
"""
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
UNPULLABLE = "missing.invalid/werf"
HELD = {"copyrator.test/held": "false"}


@pytest.fixture(scope="module")
def operator(
    cluster: Cluster, api: Api, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """One that allows an image that nobody can pull."""
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    allowed = f"registry.werf.io/werf/werf,{UNPULLABLE}"
    with operating(cluster, log, {"COPYRATOR_ALLOWED_IMAGES": allowed}) as operator:
        yield operator


# --- a Job that doesn't get on ---


@pytest.mark.parametrize(
    ("spec", "reason", "repaired"),
    [
        ({"werf": {"image": UNPULLABLE}}, "ImagePullFailed", {"werf": None}),
        ({"job": {"nodeSelector": {"no": "where"}}}, "JobUnschedulable", {"job": None}),
    ],
)
def test_a_job_that_cannot_start_says_why_and_gives_way_to_a_repaired_spec(
    team: Team, spec: dict[str, object], reason: str, repaired: dict[str, None]
) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop", interval="1h", **spec)

    condition = team.wait_reason("shop", reason)
    assert condition["status"] == "False"
    team.patch("bundles", "shop", spec=repaired)

    status = team.wait_deployed("shop", digest)
    assert not status["attempted"].get("failures")
    assert [entry["outcome"] for entry in status["history"]] == ["Succeeded", "Interrupted"]
    assert status["history"][1]["reason"] == "JobLost"  # and no word of a timeout


def test_a_job_deleted_by_hand_is_made_anew(team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop", interval="1h")

    team.delete("jobs", team.first_job(), propagationPolicy="Background")

    status = team.wait_deployed("shop", digest)
    assert status["attempted"]["attempt"] == 2
    assert [entry["reason"] for entry in status["history"]] == ["Deployed", "JobLost"]


def test_an_evicted_pod_does_not_count_against_the_digest(team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop", interval="1h", retry={"limit": 0, "backoff": "1s"})
    job = team.first_job()

    def pod() -> str | None:
        selector = f"batch.kubernetes.io/job-name={job}"
        pods = team.api.get(team.path("pods"), labelSelector=selector)["items"]
        return pods[0]["metadata"]["name"] if pods else None

    name = str(until(pod, "the Job has a pod"))
    team.api.create(f"{team.path('pods', name)}/eviction", {"metadata": {"name": name}})

    status = team.wait_deployed("shop", digest)
    assert status["history"][-1]["outcome"] == "Interrupted"
    assert not status["attempted"].get("failures")


def test_a_newer_digest_is_taken_when_the_running_deploy_has_ended(team: Team) -> None:
    first = team.publish("1.0.0", "first")
    team.bundle("shop")
    team.first_job()

    second = team.publish("1.0.0", "second")

    status = team.wait_deployed("shop", second)
    outcomes = [(entry["digest"], entry["outcome"]) for entry in status["history"]]
    assert outcomes == [(second, "Succeeded"), (first, "Succeeded")]


def test_a_job_that_hangs_beyond_its_timeout_is_ended_and_made_anew(team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    stalling = threading.Event()
    stalling.set()
    with front(team.cluster.registry, stalling=stalling) as host:
        team.bundle("shop", registry=host, timeout="10s", retry={"limit": 0, "backoff": "1s"})
        job = team.first_job()
        until(lambda: team.get("jobs", job)["status"].get("ready"), "its pod runs")

        team.patch("jobs", job, spec={"activeDeadlineSeconds": 2})  # what is left after 5 minutes
        until(lambda: team.status("shop").get("history"), "it is ended")
        stalling.clear()

        status = team.wait_deployed("shop", digest)
    assert [entry["reason"] for entry in status["history"]][-2:] == ["Deployed", "TimedOut"]
    assert not status["attempted"].get("failures")


# --- a release that fails ---


def test_a_failed_upgrade_is_rolled_back_where_the_spec_says_so(team: Team) -> None:
    first = team.publish("1.0.0", "first")
    rollback = {"autoRollback": True, "timeout": "8s", "retry": {"limit": 0}}
    team.bundle("shop", **rollback)
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


def test_a_rollback_that_fails_too_is_told(team: Team) -> None:
    first = team.publish("1.0.0", "first")
    team.bundle("shop", autoRollback=True, retry={"limit": 0})
    team.wait_deployed("shop", first)

    second = team.publish("1.0.0", "second", template=HALF_GOOD)

    condition = team.wait_reason("shop", "Quarantined")
    assert team.release("shop")["text"] == "second"
    assert "The rollback failed too: parts of 1.0.0 may be in place" in condition["message"]
    status = team.status("shop")
    assert status["deployed"]["digest"] == first
    assert (status["attempted"]["digest"], status["attempted"]["rollback"]) == (second, "Failed")
    assert "Service" in status["lastError"]["logTail"]


def test_a_quarantined_version_is_freed_by_a_request_values_and_a_spec(team: Team) -> None:
    digest = team.publish("1.0.0", "first", template=PICKY)
    team.create("configmaps", "values", data={"a.yaml": "color: red"})
    team.bundle("shop", values="values", interval="1h", retry={"limit": 0})
    team.wait_reason("shop", "Quarantined")

    def is_tried_again(times: int) -> None:
        until(lambda: len(team.status("shop")["history"]) == times, "it was tried again")
        team.wait_reason("shop", "Quarantined")

    team.annotate("shop", requestedAt="again")
    is_tried_again(2)
    team.patch("configmaps", "values", data={"a.yaml": "color: blue"})
    is_tried_again(3)

    team.patch("bundles", "shop", spec={"env": {"WERF_SET_GREETING": "greeting=hello"}})
    team.wait_deployed("shop", digest)
    assert team.release("shop")["greeting"] == "hello"


# --- values ---


def test_values_come_from_several_sources_and_a_later_one_wins(team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    team.create("configmaps", "base", data={"a.yaml": "greeting: base"})
    secret = base64.b64encode(b"greeting: secret-word").decode()
    team.create("secrets", "over", data={"a.yaml": secret})
    sources = [
        {"kind": "Secret", "name": "over"},
        {"kind": "ConfigMap", "name": "last", "optional": True},
    ]
    team.bundle("shop", values="base", valuesFrom=sources, interval="1h")
    team.wait_deployed("shop", digest)
    assert team.release("shop")["greeting"] == "secret-word"

    team.create("configmaps", "last", data={"a.yaml": "greeting: last"})
    until(lambda: team.release("shop")["greeting"] == "last", "it appeared")

    team.delete("configmaps", "last")
    until(lambda: team.release("shop")["greeting"] == "secret-word", "it went")


def test_values_that_vanish_before_the_pod_starts_are_waited_for(team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    team.create("configmaps", "values", data={"a.yaml": "greeting: hello"})
    team.bundle("shop", values="values", interval="1h", job={"nodeSelector": HELD})
    team.wait_reason("shop", "JobUnschedulable")

    team.delete("configmaps", "values")
    with node_labels(team.api, HELD):
        pods = team.path("pods")
        until(lambda: team.api.get(pods)["items"][0]["spec"].get("nodeName"))
        team.patch("bundles", "shop", metadata={"labels": {"look": "now"}})
        condition = team.wait_reason("shop", "ValuesMissing")
        assert f"ConfigMap {team.namespace}/values" in condition["message"]
        team.create("configmaps", "values", data={"a.yaml": "greeting: salut"})

        team.wait_deployed("shop", digest)
    assert team.release("shop")["greeting"] == "salut"


@contextlib.contextmanager
def node_labels(api: Api, labels: dict[str, str]) -> Iterator[None]:
    """Labels on all nodes, for as long as it is entered."""
    paths = [
        f"/api/v1/nodes/{node['metadata']['name']}" for node in api.get("/api/v1/nodes")["items"]
    ]
    for path in paths:
        api.patch(path, {"metadata": {"labels": labels}})
    yield
    for path in paths:
        api.patch(path, {"metadata": {"labels": dict.fromkeys(labels)}})


# --- pauses ---


def test_a_force_waits_while_the_bundle_is_suspended(team: Team) -> None:
    first = team.publish("1.0.0", "first")
    team.bundle("shop")
    team.wait_deployed("shop", first)
    team.patch("bundles", "shop", spec={"suspend": True})
    team.wait_reason("shop", "Suspended")

    second = team.publish("1.0.0", "second")
    team.annotate("shop", requestedAt="now")

    until(lambda: team.status("shop")["available"]["digest"] == second, "it's shown")
    stays(2, lambda: len(team.jobs("shop")) == 1, "nothing is deployed")
    assert "lastHandledRequest" not in team.status("shop")
    team.patch("bundles", "shop", spec={"suspend": False})
    team.wait_deployed("shop", second)
    assert team.status("shop")["lastHandledRequest"] == "now"


# --- one release, one Bundle; one namespace ---


def test_a_second_bundle_of_a_release_conflicts_and_uninstalls_nothing(
    team: Team, namespace: Callable[..., str], api: Api
) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop")
    team.wait_deployed("shop", digest)
    other = Team(api, team.cluster, namespace("other"), team.charts)
    time.sleep(1.1)  # the older one is the owner, and creation times are whole seconds
    other.bundle("shop", project_namespace=team.namespace, repo=team.repo)

    condition = other.wait_reason("shop", "ReleaseConflict")
    assert team.namespace in condition["message"]
    assert other.condition("shop", "Stalled")["status"] == "True"
    other.delete("bundles", "shop")

    other.wait_gone("bundles", "shop")
    assert team.release("shop") is not None
    assert team.jobs("shop", "uninstall") == []


def test_a_changed_project_namespace_stalls_a_live_bundle(team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop")
    team.wait_deployed("shop", digest)

    team.patch("bundles", "shop", spec={"project_namespace": "elsewhere"})
    condition = team.wait_reason("shop", "NamespaceChanged")
    assert team.namespace in condition["message"]
    assert team.condition("shop", "Stalled")["status"] == "True"

    team.patch("bundles", "shop", spec={"project_namespace": None})
    team.wait_deployed("shop", digest)
    assert len(team.jobs("shop")) == 1


# --- restarts ---


def test_the_operator_may_be_down_longer_than_its_jobs_are_kept(
    team: Team, operator: Operator
) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop", interval="1h")
    job = team.first_job()
    operator.stop()
    until(lambda: (team.get("jobs", job) or {}).get("status", {}).get("completionTime"))
    team.delete("jobs", job, propagationPolicy="Background")  # as the TTL would
    team.wait_gone("jobs", job)

    operator.start()

    status = team.wait_deployed("shop", digest)
    assert [entry["reason"] for entry in status["history"]] == ["Deployed", "JobLost"]
    assert team.release("shop") is not None
