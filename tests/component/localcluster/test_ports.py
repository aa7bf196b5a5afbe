"""Clusters side by side never get one another's ports."""

import socket
from pathlib import Path

import pytest

from localcluster import ports
from localcluster.errors import LocalClusterError


@pytest.fixture(autouse=True)
def register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def owners(tmp_path: Path) -> tuple[Path, Path]:
    directories = (tmp_path / "one", tmp_path / "two")
    for directory in directories:
        directory.mkdir()
    return directories


def test_ports_are_different_and_outside_the_ephemeral_range(owners: tuple[Path, Path]) -> None:
    chosen = ports.reserve(owners[0], ["a", "b", "c"])

    assert set(chosen) == {"a", "b", "c"}
    assert len(set(chosen.values())) == 3
    ephemeral = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    assert all(port < int(ephemeral[0]) for port in chosen.values())


def test_a_reserved_port_is_not_given_to_another_although_nobody_listens_yet(
    owners: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "_RANGE", range(31000, 31002))
    ports.reserve(owners[0], ["a", "b"])

    with pytest.raises(LocalClusterError, match=r"(?s)No free port.*status --all"):
        ports.reserve(owners[1], ["a"])


def test_released_ports_can_be_had_again(
    owners: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "_RANGE", range(31010, 31012))
    first = ports.reserve(owners[0], ["a", "b"])

    ports.release(owners[0])

    assert set(ports.reserve(owners[1], ["a", "b"]).values()) == set(first.values())


def test_ports_of_a_removed_cluster_can_be_had_again(
    owners: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "_RANGE", range(31020, 31022))
    ports.reserve(owners[0], ["a", "b"])
    owners[0].rmdir()

    assert len(ports.reserve(owners[1], ["a", "b"])) == 2


def test_a_port_in_use_is_left_alone(
    owners: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        used = server.getsockname()[1]
        monkeypatch.setattr(ports, "_RANGE", range(used, used + 1))

        assert not ports.is_free(used)
        with pytest.raises(LocalClusterError):
            ports.reserve(owners[0], ["a"])
