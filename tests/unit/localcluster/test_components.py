"""The command lines of the components keep to loopback, to RBAC and to the cluster's directory."""

import os
import re
from pathlib import Path

import pytest

from localcluster.bringup import link_werf
from localcluster.components import Plan, environment, listeners
from localcluster.errors import LocalClusterError
from localcluster.pins import CLUSTER_PROGRAMS
from localcluster.processes import MARKER
from localcluster.state import ClusterState, Layout


def plan(*, registry: bool = True, process_node: bool = True, flags: tuple[str, ...] = ()) -> Plan:
    ports = {name: 20000 + n for n, name in enumerate(listeners(registry=registry))}
    state = ClusterState(ports, process_node, registry, list(flags))
    programs = {name: Path("/programs") / name for name in CLUSTER_PROGRAMS}
    return Plan(Layout(Path("/clusters/one")), state, programs)


def test_every_address_is_on_loopback() -> None:
    for name in plan().names():
        words = " ".join(plan().component(name).command)
        hosts = re.findall(r"(?:address=|https?://)([\w.]+)", words)
        assert set(hosts) <= {"127.0.0.1", "kubernetes.default.svc.cluster.local"}, name


def test_every_server_is_told_its_address() -> None:
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        assert "--bind-address=127.0.0.1" in plan().component(name).command


def test_all_that_is_written_goes_under_the_directory() -> None:
    for name in plan().names():
        for word in plan().component(name).command[1:]:
            path = word.partition("=")[2]
            if path.startswith("/"):
                assert path.startswith("/clusters/one/"), f"{name}: {word}"


def test_rights_are_checked_and_requests_are_logged() -> None:
    command = plan().component("kube-apiserver").command

    assert "--authorization-mode=RBAC,Node" in command
    assert "--audit-log-path=/clusters/one/logs/audit.log" in command


def test_the_user_has_the_last_word() -> None:
    flag = "--authorization-mode=AlwaysAllow"

    assert plan(flags=(flag,)).component("kube-apiserver").command[-1] == flag


@pytest.mark.parametrize("left_out", ["registry", "node"])
def test_what_is_left_out_is_not_started(left_out: str) -> None:
    chosen = plan(registry=left_out != "registry", process_node=left_out != "node")

    assert left_out not in chosen.names()
    assert len(chosen.names()) == 5


def test_components_come_after_what_they_need() -> None:
    names = plan().names()

    assert names.index("etcd") < names.index("kube-apiserver")
    assert names[names.index("kube-apiserver") + 1 :] == [
        "kube-controller-manager",
        "kube-scheduler",
        "node",
    ]


def test_every_process_carries_the_cluster_s_mark() -> None:
    layout = plan().layout

    for name in plan().names():
        assert environment(layout, plan().component(name))[MARKER] == "/clusters/one"


def test_pods_find_the_user_s_werf_before_the_stand_in() -> None:
    path = plan().component("node").environment["PATH"].split(os.pathsep)

    assert path[0] == "/clusters/one/pod-bin"
    assert path[1].endswith("/localcluster/standin")
    assert path[2] == "/clusters/one/bin"


def test_the_user_s_werf_is_linked_and_taken_away_again(tmp_path: Path) -> None:
    link_werf(tmp_path, "/bin/sh")
    assert (tmp_path / "werf").resolve() == Path("/bin/sh").resolve()

    link_werf(tmp_path, None)
    assert not (tmp_path / "werf").exists()


@pytest.mark.parametrize("chosen", ["/nowhere/werf", "/etc/passwd", "/tmp"])
def test_a_werf_that_is_no_program_is_refused(tmp_path: Path, chosen: str) -> None:
    with pytest.raises(LocalClusterError, match=f"WERF={chosen}"):
        link_werf(tmp_path, chosen)
