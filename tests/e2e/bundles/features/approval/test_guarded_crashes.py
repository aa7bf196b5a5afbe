"""Lists of guarded Jobs while operators die and change, and while pods come and go.

The tests are the life of two Bundles, `one` and `two`, one after the other. The operator has the
chart's `watchNamespaces`: the guard is as wide as without. An attacker has the token of each Job's
pod, and may write ConfigMaps by its roles, also in a namespace that isn't watched.
"""

import json
import secrets
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha3_224
from typing import Any

import pytest
from tests.e2e.bundles.conftest import (
    GUARDED,
    TEMPLATE,
    Operator,
    Team,
    approve,
    make_team,
    operating,
)
from tests.e2e.bundles.features.approval.test_guarded import lists
from tests.e2e.bundles.features.approval.test_guarded_life import ALWAYS, GATE
from tests.e2e.conftest import POLICIES_ARE_BETA, skip_before_1_30
from tests.e2e.guard.conftest import config, token_client
from tests.e2e.installation import PLACEHOLDER
from tests.e2e.mutating_webhook import Patch, mutating
from tests.e2e.operator_process import OperatorProcess, until
from tests.e2e.person import Person, RefusedError
from tests.e2e.vanishing import vanish

from copyrator.api.names import LABEL_GUARD, LABEL_JOB_KIND
from localcluster import Cluster

NODES = "/api/v1/nodes"
SOON = {"limit": 9, "backoff": "1s"}
REFUSED: Patch = [{"op": "remove", "path": "/no/such"}]
"""The API server can't apply it, so what it is asked for isn't written."""
LOCK = f"lockgate.io/{sha3_224(b'release/far').hexdigest()}"
"""werf has this annotation while it applies the release `far`."""
FAR = f"""\
{{{{- $found := lookup "v1" "ConfigMap" .Release.Namespace "werf-synchronization" }}}}
{{{{- if and $found (hasKey ($found.metadata.annotations | default dict) "{LOCK}") }}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: far, namespace: OUTSIDE}}
{{{{- end }}}}
"""


@dataclass
class Scene:
    """An operator of two namespaces, its own and a team's."""

    operator: Operator
    team: Team
    outside: str
    """A namespace that isn't watched, where the team's account may write too."""
    node: str = field(default_factory=lambda: f"lost-{secrets.token_hex(3)}")
    """A node that no kubelet serves."""
    people: dict[str, Person] = field(default_factory=dict)
    """Who has the token of the running Job of a Bundle."""

    @property
    def lists(self) -> set[str]:
        return {key.partition(".")[2] for key in lists(self.operator, self.team.api)}

    def attempted(self, bundle: str) -> dict[str, Any]:
        found: dict[str, Any] = self.team.status(bundle).get("attempted") or {}
        return found

    def pod(self, bundle: str) -> dict[str, Any]:
        """The pod of the Bundle's running Job, once there is one."""
        job = until(lambda: self.attempted(bundle).get("job"), f"an attempt of {bundle} begins")
        selector = f"batch.kubernetes.io/job-name={job}"

        def look() -> Any:
            return self.team.api.get(self.team.path("pods"), labelSelector=selector)["items"]

        (found,) = until(look, f"{job} has a pod")
        return dict(found)

    def steal(self, bundle: str) -> Person:
        """Take a token of the pod of the Bundle's running Job."""
        pod = {key: self.pod(bundle)["metadata"][key] for key in ("name", "uid")}
        bound = {"apiVersion": "v1", "kind": "Pod", **pod}
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600, "boundObjectRef": bound},
        }
        path = f"{self.team.path('serviceaccounts', 'werf')}/token"
        token = self.team.api.create(path, body)["status"]["token"]
        self.people[bundle] = Person(token_client(self.team.cluster, token), bundle)
        return self.people[bundle]

    def is_held(self, bundle: str) -> bool:
        """Whether the running Job of the Bundle can write nothing but what was approved."""
        person, space = self.people[bundle], self.team.namespace
        other = "two-app" if bundle == "one" else "one-app"
        denied = [
            "denied request: not approved: " in refusal(person, config(name, where))
            for name, where in ((other, space), ("evil", space), ("evil", self.outside))
        ]
        return all(denied) and refusal(person, config(f"{bundle}-app", space)) == ""

    def wait_at_gate(self, bundle: str) -> None:
        until(
            lambda: self.team.get("jobs", f"{bundle}-gate"),
            lambda: json.dumps(self.team.status(bundle)),
        )


def refusal(person: Person, manifest: dict[str, Any]) -> str:
    """Why an apply is refused; empty: it isn't."""
    try:
        person.apply(manifest, force="true")
    except RefusedError as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def scene(
    cluster: Cluster,
    tmp_path_factory: pytest.TempPathFactory,
    ending_before_the_cluster: None,
) -> Iterator[Scene]:
    api = cluster.api()
    skip_before_1_30(api, POLICIES_ARE_BETA)
    mark = secrets.token_hex(3)
    space, outside = f"team-{mark}", f"outside-{mark}"
    for name in (space, outside):
        api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    team = make_team(cluster, api, space, tmp_path_factory.mktemp("charts"))
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"}
    subject = {"kind": "ServiceAccount", "name": "werf", "namespace": space}
    binding = {"metadata": {"name": "werf"}, "roleRef": reference, "subjects": [subject]}
    api.create(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{outside}/rolebindings", binding)
    values = GUARDED | {"watchNamespaces": [PLACEHOLDER, space]}
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    with operating(cluster, log, values=values, policy=True) as operator:
        yield Scene(operator, team, outside)
    vanish(cluster, [space, outside])


@contextmanager
def dying(scene: Scene, namespace: str, resource: str, label: str) -> Iterator[None]:
    """The operator is killed when it writes an object with this label, which isn't written."""
    process, cluster = scene.operator.process, scene.team.cluster
    assert process is not None

    def kill(body: dict[str, Any]) -> Patch:
        if body["metadata"]["name"] == "probe":
            return []
        if process.code is None:
            process.kill()
        return REFUSED

    selector, labels = {"matchExpressions": [{"key": label, "operator": "Exists"}]}, {label: "x"}
    writes = ("CREATE", "UPDATE") if resource == "configmaps" else ("CREATE",)
    with mutating(
        cluster, namespace, resource, kill, selector=selector, labels=labels, operations=writes
    ):
        yield
        until(lambda: process.code is not None, "it is killed")
    scene.operator.start()


def test_what_dies_before_a_list_or_before_its_job_makes_the_attempt_anew(scene: Scene) -> None:
    team = scene.team
    gate = GATE.replace("name: open", "name: {{ .Release.Name }}-open")
    team.publish("1.0.0", "first", template=f"{TEMPLATE}{gate}")
    for name in ("one", "two"):
        team.bundle(name, approval=ALWAYS, retry=SOON)

    with dying(scene, scene.operator.namespace, "configmaps", LABEL_GUARD):
        approve(team, "one")
    assert not scene.lists
    with dying(scene, team.namespace, "jobs.batch", LABEL_JOB_KIND):
        approve(team, "two")
    left = scene.attempted("two")["job"]
    assert scene.lists == {left}

    for name in ("one", "two"):
        scene.wait_at_gate(name)
        history = team.status(name)["history"]
        assert [one["reason"] for one in history] == ["JobLost"], history
        assert scene.attempted(name)["guarded"]
        scene.steal(name)


def test_an_operator_of_some_namespaces_holds_its_jobs_everywhere(scene: Scene) -> None:
    team = scene.team
    repo, template = f"{team.namespace}/far", f"{TEMPLATE}{FAR.replace('OUTSIDE', scene.outside)}"
    team.publish("1.0.0", "first", repo=repo, template=template)
    team.bundle("far", repo=repo, approval=ALWAYS)
    approve(team, "far")
    until(
        lambda: scene.attempted("far").get("outcome") in ("Failed", "Succeeded"),
        lambda: json.dumps(team.status("far")),
    )
    found = scene.attempted("far")
    assert (found["reason"], found["guarded"]) == ("ExceedsApproval", True)
    assert f"CREATE of ConfigMap far in {scene.outside}" in found["message"]
    assert refusal(Person(team.api, "admin"), config("far", scene.outside)) == "", "it wasn't there"


def test_two_jobs_can_each_write_their_own_also_while_the_operator_is_killed_and_starts_again(
    scene: Scene,
) -> None:
    def are_held() -> bool:
        return scene.is_held("one") and scene.is_held("two")

    assert are_held()
    scene.operator.stop(signal.SIGKILL)
    assert are_held()
    scene.operator.start()
    assert are_held()


def test_a_list_stands_while_a_pod_of_its_job_is_terminating(scene: Scene) -> None:
    """Its node doesn't answer, so it may run for any time."""
    team = scene.team
    team.api.create(NODES, {"metadata": {"name": scene.node}})
    bound: Patch = [{"op": "add", "path": "/spec/nodeName", "value": scene.node}]
    labels = {LABEL_JOB_KIND: "deploy"}
    team.bundle("lost", approval=ALWAYS)
    with mutating(
        team.cluster,
        team.namespace,
        "pods",
        lambda _: bound,
        selector={"matchLabels": labels},
        labels=labels,
    ):
        approve(team, "lost")
        pod = scene.pod("lost")["metadata"]["name"]
    scene.steal("lost")
    team.api.patch(f"{team.path('pods', pod)}/status", {"status": {"phase": "Running"}})
    team.patch("bundles", "lost", spec={"suspend": True})
    team.delete("jobs", scene.attempted("lost")["job"], propagationPolicy="Background")
    until(
        lambda: "deletionTimestamp" in (team.get("pods", pod) or {})["metadata"],
        "its pod is Terminating",
    )
    assert scene.is_held("lost")


def test_another_leader_takes_over_the_jobs_with_their_lists(scene: Scene) -> None:
    operator, team = scene.operator, scene.team
    settings = {"NAMESPACE": operator.namespace, **operator.settings, "POD_NAME": "copyrator-1"}
    first = operator.process
    assert first is not None
    second = OperatorProcess(operator.kubeconfig, operator.log, settings=settings)
    until(lambda: "On standby" in second.log, lambda: second.log)
    assert operator.stop() == 0
    operator.process = second
    second.wait_started()

    assert scene.is_held("one")
    assert scene.is_held("two")
    job = scene.attempted("one")["job"]
    team.create("configmaps", "one-open")
    digest = team.status("one")["target"]["digest"]
    assert team.wait_deployed("one", digest)["attempted"]["attempt"] == 2
    assert {job, scene.attempted("two")["job"]} <= scene.lists
    assert scene.is_held("two")


def test_a_list_goes_once_no_pod_of_its_job_can_write(scene: Scene) -> None:
    """What a crash left goes too. The token of a deleted pod works for another ten seconds."""
    team, lost, two = scene.team, *(scene.attempted(name)["job"] for name in ("lost", "two"))
    until(lambda: scene.lists <= {lost, two}, lambda: f"of {scene.lists} stay {lost} and {two}")
    assert lost in scene.lists, "its Job is gone for longer than the others"
    scene.steal("lost")  # the API server has just seen that its pod is there
    assert scene.is_held("lost")

    team.delete("pods", scene.pod("lost")["metadata"]["name"], gracePeriodSeconds=0)
    answers, evil = [], config("evil", scene.outside)

    def has_ended() -> bool:
        answers.append(refusal(scene.people["lost"], evil))
        return "Unauthorized" in answers[-1]

    until(has_ended, "the token has ended")
    *held, _ = answers
    assert held
    assert all("not approved: CREATE" in said for said in held), held
    assert lost in scene.lists
    team.api.delete(f"{NODES}/{scene.node}")
