"""Clusters side by side: only our own processes are ended, and nobody gets another's ports."""

import os
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from localcluster import ports, processes
from localcluster.errors import LocalClusterError
from localcluster.processes import MARKER, ProcessId
from localcluster.waiting import eventually

SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[ProcessId]:
    process = processes.spawn(SLEEP, {**os.environ, MARKER: str(tmp_path)}, tmp_path / "log")
    yield process
    processes.end([process], 0)


@pytest.mark.parametrize("change", ["started", "boot"])
def test_a_recycled_number_is_another_process_and_gets_no_signal(
    sleeper: ProcessId, change: str
) -> None:
    earlier = replace(sleeper, started=1) if change == "started" else replace(sleeper, boot="x")

    earlier.send(signal.SIGKILL)
    processes.end([earlier], 0)

    assert not earlier.alive
    assert sleeper.alive


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
def test_a_signal_waits_until_a_start_is_recorded(number: signal.Signals) -> None:
    done = []
    before = signal.signal(number, lambda *_: done.append("signal"))
    try:
        with processes.unbroken():
            signal.raise_signal(number)
            done.append("recorded")
    finally:
        signal.signal(number, before)

    assert done == ["recorded", "signal"]


def test_marked_processes_are_found_and_those_of_a_neighbour_are_not(
    sleeper: ProcessId, tmp_path: Path
) -> None:
    # A directory whose name begins like the other's is another cluster.
    neighbour = Path(f"{tmp_path}-2")

    eventually(lambda: processes.marked(tmp_path) == [sleeper], "the mark to show")
    assert processes.marked(neighbour) == []


@pytest.fixture
def owners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.setenv("COPYRATOR_CACHE", str(tmp_path / "cache"))
    directories = (tmp_path / "one", tmp_path / "two")
    for directory in directories:
        directory.mkdir()
    return directories


def test_a_reserved_port_is_not_given_to_another_although_nobody_listens_yet(
    owners: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "_RANGE", range(31000, 31002))
    ports.reserve(owners[0], ["a", "b"])

    with pytest.raises(LocalClusterError, match=r"(?s)No free port.*make cluster-down"):
        ports.reserve(owners[1], ["a"])


def test_a_port_in_use_is_left_alone(
    owners: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        used = server.getsockname()[1]
        monkeypatch.setattr(ports, "_RANGE", range(used, used + 1))

        assert not ports.is_free(used)
        with pytest.raises(LocalClusterError):
            ports.reserve(owners[0], ["a"])
