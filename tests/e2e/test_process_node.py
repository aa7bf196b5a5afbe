"""The process node runs pods as a kubelet does, as far as a Job, a demo or a test can see it."""

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.long import LONG

from localcluster import Api, ApiStatusError, Cluster
from localcluster.node.processes import MARK, with_variable
from localcluster.waiting import eventually

Object = dict[str, Any]
MakeNamespace = Callable[..., str]


@pytest.fixture
def place(namespace: MakeNamespace, api: Api) -> "Place":
    return Place(api, namespace("node"))


class Place:
    """A namespace to run pods in."""

    def __init__(self, api: Api, name: str) -> None:
        self.api, self.name = api, name
        self.base = f"/api/v1/namespaces/{name}"
        eventually(self._has_account, "the default service account")

    def _has_account(self) -> bool:
        accounts = self.api.get(f"{self.base}/serviceaccounts")["items"]
        return any(account["metadata"]["name"] == "default" for account in accounts)

    def run(self, *containers: Object, name: str = "p", **spec: Any) -> None:
        body = {"restartPolicy": "Never", "containers": list(containers), **spec}
        self.api.create(f"{self.base}/pods", {"metadata": {"name": name}, "spec": body})

    def pod(self, name: str = "p") -> Object:
        return dict(self.api.get(f"{self.base}/pods/{name}"))

    def state(self, container: str = "main", name: str = "p") -> Object:
        status = self.pod(name).get("status", {})
        every = status.get("initContainerStatuses", []) + status.get("containerStatuses", [])
        return next((c["state"] for c in every if c["name"] == container), {})

    def ended(self, name: str = "p") -> Object:
        def look() -> Object | None:
            pod = self.pod(name)
            return pod if pod["status"].get("phase") in ("Succeeded", "Failed") else None

        return eventually(look, f"the end of pod {name}")

    def waits(self, reason: str, container: str = "main", name: str = "p") -> str:
        def look() -> Object | None:
            waiting = self.state(container, name).get("waiting")
            return waiting if waiting and waiting["reason"] == reason else None

        return eventually(look, f"{container} waiting with {reason}").get("message", "")

    def runs(self, container: str = "main", name: str = "p") -> None:
        eventually(lambda: "running" in self.state(container, name), f"{container} running")

    def gone(self, name: str = "p", within_seconds: float = 20) -> None:
        def look() -> bool:
            try:
                self.pod(name)
            except ApiStatusError as error:
                return error.code == 404
            return False

        eventually(look, f"pod {name} gone", within_seconds)

    def config(self, name: str, data: dict[str, str]) -> None:
        body = {"metadata": {"name": name}, "data": data}
        self.api.create(f"{self.base}/configmaps", body)

    def secret(self, name: str, data: dict[str, str]) -> None:
        body = {"metadata": {"name": name}, "stringData": data}
        self.api.create(f"{self.base}/secrets", body)

    def log(self, container: str = "main", name: str = "p", **query: str) -> str:
        query["container"] = container
        return str(self.api.get(f"{self.base}/pods/{name}/log", **query))


def shell(script: str, name: str = "main", **more: Any) -> Object:
    return {"name": name, "image": "any", "command": ["sh", "-c"], "args": [script], **more}


def mounted(script: str, mounts: dict[str, str], **more: Any) -> Object:
    volume_mounts = [{"mountPath": path, "name": name} for path, name in mounts.items()]
    return shell(script, volumeMounts=volume_mounts, **more)


def terminated(pod: Object, container: str = "main") -> Object:
    status = pod["status"]
    every = status.get("initContainerStatuses", []) + status["containerStatuses"]
    return dict(next(c["state"]["terminated"] for c in every if c["name"] == container))


# Ends


def test_a_failure_has_its_exit_code(place: Place) -> None:
    # `$$` is how a manifest writes one dollar.
    scripts = {"exit 3": 3, "kill -9 $$$$": 137, "kill -15 $$$$": 143}
    place.run(*(shell(script, name=f"gives-{code}") for script, code in scripts.items()))

    pod = place.ended()

    assert pod["status"]["phase"] == "Failed"
    for code in scripts.values():
        end = terminated(pod, f"gives-{code}")
        assert (end["exitCode"], end["reason"]) == (code, "Error")


def test_a_program_that_is_not_there_fails_the_container(place: Place) -> None:
    place.run({"name": "main", "image": "any", "command": ["no-such-program"]})

    end = terminated(place.ended())

    assert (end["exitCode"], end["reason"]) == (128, "StartError")
    assert "no-such-program" in end["message"]


def test_a_termination_message_is_the_end_of_its_file(place: Place) -> None:
    script = (
        "i=0; while [ $i -lt 600 ]; do echo line-$i; i=$((i+1)); done > /tmp/report.json; exit 1"
    )
    place.run(
        shell(
            f"echo on the log; {script}",
            terminationMessagePath="/tmp/report.json",
            terminationMessagePolicy="FallbackToLogsOnError",
        )
    )

    message = terminated(place.ended())["message"]

    assert len(message) == 4096
    assert message.endswith("line-599\n")


def test_without_a_message_file_the_end_of_the_log_is_the_message(place: Place) -> None:
    script = "i=0; while [ $i -lt 200 ]; do echo line-$i; i=$((i+1)); done; exit 1"
    place.run(shell(script, terminationMessagePolicy="FallbackToLogsOnError"))

    lines = terminated(place.ended())["message"].splitlines()

    assert lines[0] == "line-120"
    assert lines[-1] == "line-199"


# Environment and files


def test_variables_come_from_everywhere_and_refer_to_each_other(place: Place) -> None:
    place.config("settings", {"COLOUR": "green", "size": "xl"})
    place.secret("login", {"password": "a$b/tmp/c"})
    names = ["PLAIN", "REFERS", "SECRET", "FIELD", "P_COLOUR", "MISSING", "LATE"]
    place.api.create(
        f"{place.base}/pods",
        {
            "metadata": {"name": "p"},
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    shell(
                        "; ".join(f'echo "{name}=${{{name}-unset}}"' for name in names)
                        + "; echo '$(PLAIN)' '$$(PLAIN)'",
                        envFrom=[
                            {"prefix": "P_", "configMapRef": {"name": "settings"}},
                            {"secretRef": {"name": "absent", "optional": True}},
                        ],
                        env=[
                            {"name": "PLAIN", "value": "one"},
                            {"name": "REFERS", "value": "$(PLAIN)-$(LATE)-$$(PLAIN)"},
                            {"name": "LATE", "value": "late"},
                            {
                                "name": "SECRET",
                                "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}},
                            },
                            {
                                "name": "FIELD",
                                "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}},
                            },
                            {
                                "name": "MISSING",
                                "valueFrom": {
                                    "configMapKeyRef": {
                                        "name": "settings",
                                        "key": "none",
                                        "optional": True,
                                    }
                                },
                            },
                        ],
                    )
                ],
            },
        },
    )

    place.ended()

    assert place.log().splitlines() == [
        "PLAIN=one",
        "REFERS=one-$(LATE)-$(PLAIN)",
        "SECRET=a$b/tmp/c",
        f"FIELD={place.name}",
        "P_COLOUR=green",
        "MISSING=unset",
        "LATE=late",
        "one $(PLAIN)",
    ]


def test_files_come_from_every_kind_of_volume(place: Place) -> None:
    place.config("settings", {"x.yaml": "a: 1", "y.yaml": "b: 2"})
    place.secret("login", {"password": "hush"})
    place.run(
        shell(
            "cat /values/x.yaml $EXTRA /all/renamed /all/name; "
            "stat -L -c %a /secret/password; ls /values; ls /nothing; test -w /work; "
            "cat /var/run/secrets/kubernetes.io/serviceaccount/namespace",
            env=[{"name": "EXTRA", "value": "/values/y.yaml"}],
            volumeMounts=[
                {"name": "values", "mountPath": "/values"},
                {"name": "secret", "mountPath": "/secret"},
                {"name": "all", "mountPath": "/all"},
                {"name": "nothing", "mountPath": "/nothing"},
                {"name": "work", "mountPath": "/work"},
            ],
        ),
        volumes=[
            {"name": "values", "configMap": {"name": "settings"}},
            {"name": "secret", "secret": {"secretName": "login", "defaultMode": 0o400}},
            {"name": "work", "emptyDir": {}},
            {"name": "nothing", "secret": {"secretName": "absent", "optional": True}},
            {
                "name": "all",
                "projected": {
                    "sources": [
                        {
                            "configMap": {
                                "name": "settings",
                                "items": [{"key": "x.yaml", "path": "renamed"}],
                            }
                        },
                        {
                            "downwardAPI": {
                                "items": [
                                    {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}
                                ]
                            }
                        },
                    ]
                },
            },
        ],
    )

    pod = place.ended()

    assert place.log() == f"a: 1b: 2a: 1p400\nx.yaml\ny.yaml\n{place.name}"
    assert pod["status"]["phase"] == "Succeeded"


# Waiting


def test_a_missing_volume_source_holds_the_pod_until_it_appears(place: Place) -> None:
    place.run(
        mounted("cat /values/x", {"/values": "values"}),
        volumes=[{"name": "values", "configMap": {"name": "settings"}}],
    )
    missing = 'configmap "settings" not found'
    eventually(lambda: missing in place.waits("ContainerCreating"), "its name")

    place.config("settings", {"x": "here"})

    assert place.ended()["status"]["phase"] == "Succeeded"
    assert place.log() == "here"


def test_a_missing_secret_of_a_variable_is_named_and_waited_for(place: Place) -> None:
    origin = {"secretKeyRef": {"name": "login", "key": "password"}}
    place.run(shell("echo $P", env=[{"name": "P", "valueFrom": origin}]))

    assert place.waits("CreateContainerConfigError") == 'secret "login" not found'
    assert place.pod()["status"]["phase"] == "Pending"
    place.secret("login", {"other": "x"})
    eventually(
        lambda: "couldn't find key password" in place.waits("CreateContainerConfigError"),
        "the missing key",
    )
    place.api.patch(f"{place.base}/secrets/login", {"stringData": {"password": "now"}})

    assert place.ended()["status"]["phase"] == "Succeeded"
    assert place.log() == "now\n"


def test_an_image_that_cannot_be_pulled_keeps_the_pod_waiting(place: Place) -> None:
    place.run(shell("true", image="missing.invalid/werf:1"))

    assert "missing.invalid/werf:1" in place.waits("ImagePullBackOff")
    assert place.pod()["status"]["phase"] == "Pending"


def test_a_container_without_a_command_is_refused_with_a_reason(place: Place) -> None:
    place.run({"name": "main", "image": "any"})

    assert "set `command`" in place.waits("CreateContainerError")


# Being ended


def pids(cluster: Cluster, place: Place) -> set[int]:
    """The processes of a namespace's containers."""
    prefix = f"process-node:{cluster.state_dir}/node/pods/{place.name}_"
    return set(with_variable(f"{MARK}={prefix}"))


def test_a_deleted_pod_may_end_in_its_own_way(place: Place, cluster: Cluster) -> None:
    place.run(shell('trap "echo bye; exit 0" TERM; echo up; while :; do sleep 0.1; done'))
    place.runs()
    eventually(lambda: place.log() == "up\n", "the container's first words")
    directory = next((cluster.state_dir / "node" / "pods").glob(f"{place.name}_p_*"))

    place.api.delete(f"{place.base}/pods/p")
    place.gone()

    assert (directory / "main.log").read_text() == "up\nbye\n"
    assert not (directory / "volumes").exists()
    assert pids(cluster, place) == set()


def test_a_deleted_pod_that_does_not_listen_is_killed_with_all_its_processes(
    place: Place, cluster: Cluster
) -> None:
    place.run(
        shell('trap "" TERM; setsid sleep 1000 & sleep 1000 & while :; do sleep 0.1; done'),
        terminationGracePeriodSeconds=1,
    )
    place.runs()
    eventually(lambda: len(pids(cluster, place)) >= 3, "its processes")
    started = time.monotonic()

    place.api.delete(f"{place.base}/pods/p")
    place.gone()

    assert time.monotonic() - started >= 0.9
    assert pids(cluster, place) == set()


def job(place: Place, container: Object, **spec: Any) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    body = {"metadata": {"name": "j"}, "spec": {"backoffLimit": 0, "template": template, **spec}}
    place.api.create(f"/apis/batch/v1/namespaces/{place.name}/jobs", body)


def job_condition(place: Place, kind: str) -> Object | None:
    status = place.api.get(f"/apis/batch/v1/namespaces/{place.name}/jobs/j").get("status", {})
    return next((c for c in status.get("conditions", []) if c["type"] == kind), None)


def test_a_job_past_its_deadline_takes_its_processes_along(place: Place, cluster: Cluster) -> None:
    job(place, shell("sleep 1000"), activeDeadlineSeconds=1)

    failed = eventually(lambda: job_condition(place, "Failed"), "the Job's failure")

    assert failed["reason"] == "DeadlineExceeded"
    eventually(lambda: not pids(cluster, place), "the end of its processes")


def test_nothing_of_the_nodes_own_environment_reaches_a_container(place: Place) -> None:
    place.run(shell("env"))

    place.ended()

    names = {line.partition("=")[0] for line in place.log().splitlines()}
    assert not names & {"HELM", "KUBECACHEDIR", "PYTHONPATH", "USER", "COPYRATOR_CLUSTER_STATE"}


# Logs and readiness


def test_logs_can_be_read_through_the_api_server(place: Place, cluster: Cluster) -> None:
    place.run(shell("echo one; echo two; echo three"))
    place.ended()

    assert place.log() == "one\ntwo\nthree\n"
    assert place.log(tailLines="2") == "two\nthree\n"
    assert place.log(tailLines="0") == ""
    assert place.log(limitBytes="5") == "one\nt"
    assert cluster.kubectl("logs", "-n", place.name, "p") == "one\ntwo\nthree\n"


# The node's own life: on a cluster whose node the tests may end; each starts it again


@pytest.mark.parametrize("number", [signal.SIGKILL, *[signal.SIGTERM] * LONG])
def test_after_a_restart_of_the_node_nothing_runs_twice(
    cluster: Cluster, place: Place, number: signal.Signals
) -> None:
    place.run(shell("sleep 1000"), name="once")
    place.run(shell("sleep 1000"), name="again", restartPolicy="OnFailure")
    place.run(shell("true"), name="done")
    place.runs(name="once")
    place.runs(name="again")
    place.ended("done")
    before = pids(cluster, place)

    cluster.signal("node", number)
    eventually(lambda: not cluster.status()["node"], "the node's end")
    if number == signal.SIGTERM:
        assert pids(cluster, place) == set()
    cluster.restart("node")

    for name in ("once", "again"):
        failed = place.ended(name)["status"]
        assert (failed["phase"], failed["reason"]) == ("Failed", "NodeRestarted")
    assert place.pod("done")["status"]["phase"] == "Succeeded"
    assert not pids(cluster, place) & before
