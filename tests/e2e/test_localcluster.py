"""The local control plane and its node, as far as no other test would notice a fault of them."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from localcluster import Api, ApiStatusError, Cluster, ports
from localcluster.errors import ComponentFailedError
from localcluster.node.processes import MARK, with_variable
from localcluster.processes import marked
from localcluster.waiting import eventually

HACK = Path(__file__).parents[2] / "hack"


def cluster_command(*arguments: str, state: Path) -> list[str]:
    return [sys.executable, "-m", "localcluster", *arguments, "--state", str(state)]


def hack_environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(HACK), **more}


@pytest.fixture(scope="module")
def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that the tests here may break, and mend again, started as at a terminal.

    In its directory a start has failed before, after a first try whose port another had taken.
    """
    directory = tmp_path_factory.mktemp("own") / "cluster"
    with (
        pytest.MonkeyPatch.context() as patch,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        taken = [{"etcd": other.getsockname()[1]}]
        reserve = ports.reserve
        patch.setattr(
            ports, "reserve", lambda *args: reserve(*args) | (taken.pop() if taken else {})
        )
        with pytest.raises(ComponentFailedError) as caught:
            Cluster.start(directory, apiserver_flags=["--no-such-flag=1"])
    assert not taken
    assert "kube-apiserver ended with exit code 1" in str(caught.value)
    assert "unknown flag: --no-such-flag" in str(caught.value), "the end of its log is shown"
    assert marked(directory) == []
    assert (directory / "logs" / "kube-apiserver.log").exists()
    assert not (directory / "etcd").exists()

    up = cluster_command("up", state=directory)
    subprocess.run(up, env=hack_environment(), check=True, capture_output=True)
    with Cluster.attach(directory) as started:
        yield started


def names(api: Api) -> list[str]:
    try:
        return [item["metadata"]["name"] for item in api.get("/api/v1/namespaces")["items"]]
    except (OSError, ApiStatusError):
        return []


def test_up_starts_what_is_down_and_keeps_the_data(own_cluster: Cluster) -> None:
    own_cluster.api().create("/api/v1/namespaces", {"metadata": {"name": "kept"}})
    for component in own_cluster.status():
        if component != "kube-apiserver":  # whose start takes longest
            own_cluster.kill(component)

    again = Cluster.start(own_cluster.state_dir)

    assert set(again.status().values()) == {True}
    assert "kept" in names(again.api())


def test_stopping_leaves_nothing_not_even_pods(own_cluster: Cluster) -> None:
    own_cluster.kubectl("run", "sleeper", "--image=none", "--command", "--", "sleep", "600")
    pod = "/api/v1/namespaces/default/pods/sleeper"
    api = own_cluster.api()
    eventually(lambda: api.get(pod)["status"]["phase"] == "Running", "the pod to run")
    own_cluster.kill("node")
    processes = marked(own_cluster.state_dir)
    commands = [Path(f"/proc/{process.pid}/cmdline").read_bytes() for process in processes]
    sleeper = b"\0".join([b"sleep", b"600", b""])

    own_cluster.stop()

    assert sleeper in commands
    assert not any(process.alive for process in processes)
    assert marked(own_cluster.state_dir) == []
    assert not own_cluster.state_dir.exists()


class Place:
    """A namespace to run pods in."""

    def __init__(self, cluster: Cluster, api: Api, name: str) -> None:
        self.api = api
        self.pods = f"/api/v1/namespaces/{name}/pods"
        self._mark = f"{MARK}=process-node:{cluster.state_dir}/node/pods/{name}_"
        accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
        eventually(lambda: api.get(accounts)["items"], "the default service account")

    def run(self, name: str, script: str, phase: str = "Running", **spec: Any) -> None:
        """Run a shell's script, and wait for the phase of its pod."""
        container = {"name": "main", "image": "any", "command": ["sh", "-c"], "args": [script]}
        body = {"restartPolicy": "Never", "containers": [container], **spec}
        self.api.create(self.pods, {"metadata": {"name": name}, "spec": body})
        eventually(lambda: self.status(name).get("phase") == phase, f"{name} is {phase}")

    def status(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get(f"{self.pods}/{name}")["status"]
        return found

    @property
    def pids(self) -> set[int]:
        """The processes of its containers."""
        return set(with_variable(self._mark))


@pytest.fixture
def place(cluster: Cluster, api: Api, namespace: Callable[..., str]) -> Place:
    return Place(cluster, api, namespace("node"))


def test_a_deleted_pod_that_does_not_listen_is_killed_with_all_its_processes(place: Place) -> None:
    script = 'trap "" TERM; setsid sleep 1000 & sleep 1000 & while :; do sleep 0.1; done'
    place.run("deaf", script, terminationGracePeriodSeconds=1)
    eventually(lambda: len(place.pids) >= 3, "its processes")
    started = time.monotonic()
    place.api.delete(f"{place.pods}/deaf")
    eventually(lambda: not place.api.get(place.pods)["items"], "the pod is gone")
    assert time.monotonic() - started >= 0.9
    assert place.pids == set()


def test_after_a_restart_of_the_node_nothing_runs_twice(cluster: Cluster, place: Place) -> None:
    place.run("once", "sleep 1000")
    place.run("again", "sleep 1000", restartPolicy="OnFailure")
    place.run("done", "true", "Succeeded")
    before = place.pids
    cluster.signal("node", signal.SIGKILL)
    eventually(lambda: not cluster.status()["node"], "the node's end")
    cluster.restart("node")
    ended = {"phase": "Failed", "reason": "NodeRestarted"}
    for name in ("once", "again"):
        eventually(
            lambda name=name: ended.items() <= place.status(name).items(), f"{name} has ended"
        )
    assert place.status("done")["phase"] == "Succeeded"
    assert not place.pids & before
