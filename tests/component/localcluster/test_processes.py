"""A process is known by more than its number, and only ours are ended."""

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from localcluster import processes
from localcluster.node.processes import MARK as CONTAINER_MARK
from localcluster.processes import MARKER, ProcessId
from localcluster.waiting import eventually

SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")
STUBBORN_SCRIPT = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(60)
"""


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[ProcessId]:
    process = processes.spawn(SLEEP, {**os.environ, MARKER: str(tmp_path)}, tmp_path / "log")
    yield process
    processes.end([process], 0)


def test_a_running_process_is_alive_and_an_ended_one_is_not(sleeper: ProcessId) -> None:
    assert sleeper.alive

    processes.end([sleeper], 5)

    assert not sleeper.alive


def test_a_zombie_is_not_alive(sleeper: ProcessId) -> None:
    os.kill(sleeper.pid, signal.SIGKILL)

    eventually(lambda: not sleeper.alive, "the process to be a zombie")

    assert processes.exit_code(sleeper) == 128 + signal.SIGKILL


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


def test_a_process_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = processes.spawn((sys.executable, "-c", STUBBORN_SCRIPT), os.environ, log)
    eventually(lambda: log.exists() and log.read_text() == "up\n", "the process")

    processes.end([process], 0.2)

    assert not process.alive


def test_output_is_added_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for word in ("one", "two"):
        script = f"import sys; print('{word}', file=sys.stderr)"
        process = processes.spawn((sys.executable, "-c", script), os.environ, log)
        assert processes.wait_gone([process], 10) == []

    assert log.read_text() == "one\ntwo\n"


def test_a_process_has_a_session_of_its_own(sleeper: ProcessId) -> None:
    assert os.getsid(sleeper.pid) == sleeper.pid
    assert os.getsid(sleeper.pid) != os.getsid(0)


def test_marked_processes_are_found_and_those_of_a_neighbour_are_not(
    sleeper: ProcessId, tmp_path: Path
) -> None:
    # A directory whose name begins like the other's is another cluster.
    neighbour = Path(f"{tmp_path}-2")

    eventually(lambda: processes.marked(tmp_path) == [sleeper], "the mark to show")
    assert processes.marked(neighbour) == []


def test_a_container_is_found_by_the_directory_of_its_pod(tmp_path: Path) -> None:
    mark = f"{processes.NODE_NAME}:{tmp_path}/node/pods/a_b_c/main"
    environment = {**os.environ, CONTAINER_MARK: mark}
    process = processes.spawn(SLEEP, environment, tmp_path / "log")

    eventually(lambda: processes.marked(tmp_path) == [process], "the container")
    processes.end([process], 0)


def test_there_is_no_identity_for_a_number_that_is_not_in_use() -> None:
    assert ProcessId.of(2**22 + 1) is None
