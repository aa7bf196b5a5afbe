"""The local control plane does what the other tests take for granted."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.e2e.owned_cluster import reap
from tests.long import LONG

from localcluster import Api, ApiStatusError, Cluster, LocalClusterError, Requests, ports
from localcluster.errors import ComponentFailedError
from localcluster.pins import module_of
from localcluster.processes import ProcessId, marked
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


def cluster_kubectl(
    cluster: Cluster, kubeconfig: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [cluster.bin_dir / "kubectl", f"--kubeconfig={kubeconfig}", *arguments],
        env={**os.environ, **cluster.environment()},
        capture_output=True,
        text=True,
        check=False,
    )


def test_audit_counts_requests_by_user_and_verb(
    cluster: Cluster, namespace: Callable[..., str], requests: Requests
) -> None:
    home = namespace("audit")
    kubeconfig = cluster.kubeconfig_for_user(f"auditor-{home}", ["system:masters"])
    for number in range(3):
        cluster_kubectl(
            cluster, kubeconfig, "create", "configmap", f"one-{number}", "-n", home
        ).check_returncode()
    denied = cluster.kubeconfig_for_user(f"denied-{home}")
    cluster_kubectl(cluster, denied, "get", "secret", "one", "-n", home)

    assert requests.count(user=f"auditor-{home}")["create", "configmaps"] == 3
    assert len(requests.writes(user=f"auditor-{home}", namespace=home)) == 3
    (refused,) = requests.all(user=f"denied-{home}", resource="secrets")
    assert (refused.verb, refused.name, refused.code) == ("get", "one", 403)


def test_versions_are_those_of_the_pins(cluster: Cluster, api: Api) -> None:
    version = api.get("/version")

    pinned = module_of("kube-apiserver").version
    assert version["gitVersion"] == pinned
    assert [version["major"], version["minor"]] == pinned.lstrip("v").split(".")[:2]
    assert "v3.19.0" in cluster.helm("version")
    template = cluster.helm("version", "--template", "{{.Version}}")
    assert template == "v3.19.0"


def test_a_directory_with_other_things_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")

    with pytest.raises(LocalClusterError, match=r"thesis\.txt"):
        Cluster.start(tmp_path)

    assert (tmp_path / "thesis.txt").read_text() == "years of work"


INTERRUPTED = [("etcd.log", signal.SIGTERM), ("kube-apiserver.log", signal.SIGINT)]
if LONG:
    INTERRUPTED += [("etcd.log", signal.SIGINT), ("kube-apiserver.log", signal.SIGTERM)]
    INTERRUPTED += [
        ("kube-controller-manager.log", number) for number in (signal.SIGTERM, signal.SIGINT)
    ]


@pytest.mark.parametrize(("moment", "number"), INTERRUPTED)
def test_an_interrupted_start_leaves_nothing(
    tmp_path: Path, moment: str, number: signal.Signals
) -> None:
    state = tmp_path / "interrupted"
    starter = subprocess.Popen(
        cluster_command("up", "--no-node", state=state),
        env=hack_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    log = state / "logs" / moment
    eventually(log.exists, f"{moment} to appear", 180, every_seconds=0.005)

    starter.send_signal(number)
    _, complaint = starter.communicate(timeout=120)

    assert starter.returncode != 0
    assert b"Traceback" not in complaint
    assert marked(state) == []
    assert not state.exists()


def names(api: Api) -> list[str]:
    try:
        return [item["metadata"]["name"] for item in api.get("/api/v1/namespaces")["items"]]
    except (OSError, ApiStatusError):
        return []


def test_up_starts_what_is_down_and_keeps_the_data(own_cluster: Cluster) -> None:
    own_cluster.api().create("/api/v1/namespaces", {"metadata": {"name": "kept"}})
    for component in own_cluster.status():
        if LONG or component != "kube-apiserver":  # whose start takes longest
            own_cluster.kill(component)

    again = Cluster.start(own_cluster.state_dir)

    assert set(again.status().values()) == {True}
    assert "kept" in names(again.api())


def test_what_up_advises_works_in_a_shell_of_ones_own(own_cluster: Cluster, tmp_path: Path) -> None:
    up = cluster_command("up", state=own_cluster.state_dir)
    said = subprocess.run(
        up, env=hack_environment(), check=True, capture_output=True, text=True
    ).stdout
    use = re.search(r"^Use it: +(.+)$", said, re.MULTILINE)
    stop = re.search(r"^Stop it: +(.+)$", said, re.MULTILINE)
    assert use
    assert stop
    looked = stop[1].replace(" down", " status")  # the others need the cluster still
    assert looked != stop[1]
    script = (
        f"cd {tmp_path}\ncopyrator --version\n"
        "kubectl copyrator get --help\nkubectl get namespaces -o name\necho $COPYRATOR_REGISTRY"
    )
    clean = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}

    shell = subprocess.run(
        ["/bin/sh", "-ec", f"{use[1]}\n{looked}\n{script}"],
        cwd=HACK.parent,
        env={**clean, **own_cluster_variables()},
        check=False,
        capture_output=True,
        text=True,
    )

    assert shell.returncode == 0, shell.stdout + shell.stderr
    assert "copyrator 0." in shell.stdout
    assert "Usage: kubectl copyrator get" in shell.stdout
    assert "namespace/kube-system" in shell.stdout
    assert re.search(r"^127\.0\.0\.1:\d+$", shell.stdout, re.MULTILINE)


def own_cluster_variables() -> dict[str, str]:
    """Where caches and states are."""
    names = ("COPYRATOR_CACHE", "XDG_CACHE_HOME", "XDG_STATE_HOME", "PYTHON")
    return {name: os.environ[name] for name in names if name in os.environ}


def test_a_cluster_whose_owner_was_killed_is_reaped(tmp_path: Path) -> None:
    state = tmp_path / "e2e-dead"
    script = (
        "import sys, pathlib; from tests.e2e.owned_cluster import owned_cluster\n"
        "with owned_cluster(pathlib.Path(sys.argv[1])): pass\n"
    )
    environment = hack_environment(PYTHONPATH=f"{HACK}{os.pathsep}{HACK.parent}")
    owner = subprocess.Popen([sys.executable, "-c", script, str(state)], env=environment)
    eventually((state / "logs" / "kube-apiserver.log").exists, "the API server", 180)
    owner.kill()
    owner.wait()
    left: list[ProcessId] = marked(state)

    stopped = reap(tmp_path, "e2e-")

    assert len(left) >= 2
    assert stopped == [state]
    assert marked(state) == []
    assert list(tmp_path.iterdir()) == []


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
