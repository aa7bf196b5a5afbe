"""What can happen to deploys and Bundles in a cluster where people and nodes do as they like."""

import base64
import time
from collections.abc import Callable, Iterator

import pytest
from tests.e2e.bundles.conftest import DEPLOY, Operator, Team, deploy_operator, stays, within

from localcluster import Api, Cluster
from localcluster.api import ApiStatusError

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
UNPULLABLE = "missing.invalid/werf"


@pytest.fixture(scope="module")
def operator(
    cluster: Cluster, api: Api, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """One that allows an image that nobody can pull."""
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    operator = deploy_operator(cluster, api, log)
    allowed = f"registry.werf.io/werf/werf,{UNPULLABLE}"
    operator.settings = {"COPYRATOR_ALLOWED_IMAGES": allowed}
    operator.start()
    yield operator
    assert operator.stop() == 0
    cluster.kubectl("delete", "clusterrolebinding", f"{operator.namespace}:copyrator")
    cluster.kubectl("delete", "clusterrole", f"{operator.namespace}:copyrator")
    api.delete(f"/api/v1/namespaces/{operator.namespace}")
    assert "Traceback" not in log.read_text(), log.read_text()


def first_job(team: Team, name: str = "shop") -> str:
    within(DEPLOY, lambda: team.jobs(name), "a deploy begins")
    return str(team.jobs(name)[0]["metadata"]["name"])


def settled(team: Team, name: str = "shop") -> bool:
    return bool(team.status(name).get("attempted", {}).get("outcome") != "Running")


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

    team.delete("jobs", first_job(team), propagationPolicy="Background")

    status = team.wait_deployed("shop", digest)
    assert status["attempted"]["attempt"] == 2
    assert [entry["reason"] for entry in status["history"]] == ["Deployed", "JobLost"]


def test_an_evicted_pod_does_not_count_against_the_digest(team: Team) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop", interval="1h", retry={"limit": 0, "backoff": "1s"})
    job = first_job(team)

    def pod() -> str | None:
        selector = f"batch.kubernetes.io/job-name={job}"
        pods = team.api.get(team.path("pods"), labelSelector=selector)["items"]
        return pods[0]["metadata"]["name"] if pods else None

    name = str(within(DEPLOY, pod, "the Job has a pod"))
    team.api.create(f"{team.path('pods', name)}/eviction", {"metadata": {"name": name}})

    status = team.wait_deployed("shop", digest)
    assert status["history"][-1]["outcome"] == "Interrupted"
    assert not status["attempted"].get("failures")


def test_a_newer_digest_is_taken_when_the_running_deploy_has_ended(team: Team) -> None:
    first = team.publish("1.0.0", "first")
    team.bundle("shop")
    first_job(team)

    second = team.publish("1.0.0", "second")

    status = team.wait_deployed("shop", second)
    outcomes = [(entry["digest"], entry["outcome"]) for entry in status["history"]]
    assert outcomes == [(second, "Succeeded"), (first, "Succeeded")]


# --- quarantine ---


def test_a_quarantined_version_is_freed_by_values_and_by_a_request(team: Team) -> None:
    digest = team.publish("1.0.0", "first", template=PICKY)
    team.create("configmaps", "values", data={"a.yaml": "color: red"})
    team.bundle("shop", values="values", interval="1h", retry={"limit": 0})
    team.wait_reason("shop", "Quarantined")

    team.annotate("shop", requestedAt="again")
    within(DEPLOY, lambda: len(team.status("shop")["history"]) == 2, "it was tried again")
    team.wait_reason("shop", "Quarantined")

    team.patch("configmaps", "values", data={"a.yaml": "greeting: hello"})
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
    within(DEPLOY, lambda: team.release("shop")["greeting"] == "last", "it appeared")

    team.delete("configmaps", "last")
    within(DEPLOY, lambda: team.release("shop")["greeting"] == "secret-word", "it went")


# --- pauses ---


def test_a_force_waits_while_the_bundle_is_suspended(team: Team) -> None:
    first = team.publish("1.0.0", "first")
    team.bundle("shop")
    team.wait_deployed("shop", first)
    team.patch("bundles", "shop", spec={"suspend": True})
    team.wait_reason("shop", "Suspended")

    second = team.publish("1.0.0", "second")
    team.annotate("shop", requestedAt="now")

    within(DEPLOY, lambda: team.status("shop")["available"]["digest"] == second, "it's shown")
    stays(2, lambda: len(team.jobs("shop")) == 1, "nothing is deployed")
    assert "lastHandledRequest" not in team.status("shop")
    team.patch("bundles", "shop", spec={"suspend": False})
    team.wait_deployed("shop", second)
    assert team.status("shop")["lastHandledRequest"] == "now"


# --- deletion ---


@pytest.mark.parametrize("how", ["policy", "annotation"])
def test_a_bundle_can_be_deleted_without_its_release(
    team: Team, operator: Operator, how: str
) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop", deletionPolicy="Orphan" if how == "policy" else None)
    team.wait_deployed("shop", digest)
    if how == "annotation":
        team.annotate("shop", **{"force-delete": "true"})

    team.delete("bundles", "shop")

    team.wait_gone("bundles", "shop")
    assert team.release("shop") is not None
    assert team.jobs("shop", "uninstall") == []
    assert f"Release {team.namespace}/shop" in operator.log.read_text()


def test_a_deletion_during_a_deploy_waits_for_it_and_uninstalls(team: Team) -> None:
    team.publish("1.0.0", "first")
    team.bundle("shop", interval="1h")
    job = first_job(team)

    team.delete("bundles", "shop")

    team.wait_gone("bundles", "shop", 2 * DEPLOY)
    assert team.release("shop") is None
    found = team.get("jobs", job)
    assert found is None or found["status"].get("succeeded") == 1  # it wasn't killed


def test_a_namespace_that_is_deleted_is_not_held_up(
    team: Team, api: Api, operator: Operator
) -> None:
    digest = team.publish("1.0.0", "first")
    team.bundle("shop")
    team.wait_deployed("shop", digest)

    api.delete(f"/api/v1/namespaces/{team.namespace}")

    within(DEPLOY, lambda: is_gone(api, f"/api/v1/namespaces/{team.namespace}"), "it goes")
    assert "stays behind (namespace-terminating)" in operator.log.read_text()
    field = f"involvedObject.kind=Namespace,involvedObject.name={team.namespace}"
    within(20, lambda: events(api, field, "ReleaseOrphaned"), "an Event on the Namespace")


def events(api: Api, field: str, reason: str) -> list[str]:
    items = api.get("/api/v1/namespaces/default/events", fieldSelector=field)["items"]
    return [item["message"] for item in items if item["reason"] == reason]


def is_gone(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except ApiStatusError as error:
        return error.code == 404
    return False


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
    job = first_job(team)
    operator.stop()
    within(DEPLOY, lambda: (team.get("jobs", job) or {}).get("status", {}).get("completionTime"))
    team.delete("jobs", job, propagationPolicy="Background")  # as the TTL would
    team.wait_gone("jobs", job)

    operator.start()

    status = team.wait_deployed("shop", digest)
    assert [entry["reason"] for entry in status["history"]] == ["Deployed", "JobLost"]
    assert team.release("shop") is not None
