"""`python -m demo` for real: it walks, says what it did, cleans up, and fails when a step does."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from demo import __main__ as walking
from demo.chart import ROOT
from demo.steps import Chapter, Step
from demo.waiting import StepFailed
from localcluster.processes import MARKER
from localcluster.state import ClusterState, Layout

STEPS = [step.title for chapter in walking.CHAPTERS for step in chapter.steps]
SECRETS = ("change-me", "rotated-by-the-demo", "changed-by-hand")

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def demo(tmp_path):
    """Starts demos whose clusters live in a directory of their own."""
    started: list[subprocess.Popen[str]] = []

    def start(**variables: str) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT / "hack"), str(ROOT / "operator"))),
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "PYTHONUNBUFFERED": "1",
            "PYTHONIOENCODING": "utf-8",
            **variables,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "demo"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(60)
        assert process.stdout is not None
        process.stdout.close()


def clusters(tmp_path: Path) -> list[str]:
    root = tmp_path / "state" / "copyrator"
    return [path.parent.name for path in root.glob("*/state.json")]


def left_running(tmp_path: Path) -> list[str]:
    """The command lines of processes that carry the mark of a cluster in this directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(tmp_path / "state").encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return [command for command in found if command.strip()]


def assert_nothing_runs(tmp_path: Path) -> None:
    deadline = time.monotonic() + 20
    while left_running(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left_running(tmp_path) == []


def test_it_walks_through_both_jobs_and_kept_it_says_how_to_play_on_and_stop(demo, tmp_path):
    process = demo(KEEP="1")
    printed, _ = process.communicate(timeout=500)
    assert process.returncode == 0, printed
    done = re.findall(r"^✓ (.*?)\s+[\d.]+ s$", printed, re.MULTILINE)
    assert [title for title in STEPS if title not in done] == []
    assert "\x1b" not in printed, "plain lines without a terminal"
    walked = printed.partition("KEEP=1")[0]
    assert [line for line in walked.splitlines() if len(line) > 80] == []
    assert [secret for secret in SECRETS if secret in printed] == []

    commands = [line for line in played_on(printed) if line and not line.startswith(" ")]
    assert len(commands) > 5
    assert "hack/run copyrator ui" in printed
    assert commands[0].startswith("eval "), "the first points kubectl at the cluster"
    shown = follow(tmp_path, "\n".join(commands))
    assert "registry-creds" in shown
    assert "copyrator_" in shown, "metrics"
    follow(tmp_path, "make cluster-down NAME=demo")
    assert clusters(tmp_path) == []
    assert_nothing_runs(tmp_path)


def played_on(printed: str) -> list[str]:
    return printed.partition("In this directory:\n")[2].splitlines()


def follow(tmp_path: Path, commands: str) -> str:
    """Run commands as they were printed, in the repository, and return what they print."""
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", commands],
        cwd=ROOT,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture
def here(monkeypatch, tmp_path):
    """The demo in this process, as if it were alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "argv", ["demo"])
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def fails(_stage):
    raise StepFailed("it isn't so")


def raises(number):
    return lambda _stage: signal.raise_signal(number)


@pytest.fixture
def slept():
    sleepers = Sleepers()
    yield sleepers
    for process in sleepers.started:
        process.kill()
        process.wait()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("last", "code", "said"),
    [
        (lambda _stage: "so it is", 0, "All 2 steps completed"),
        (fails, 1, "This step failed: the last"),
        (raises(signal.SIGINT), 130, "Interrupted"),
        (raises(signal.SIGTERM), 130, "Interrupted"),
    ],
    ids=["at its end", "after a failure", "after SIGINT", "after SIGTERM"],
)
def test_it_stops_the_cluster_and_the_operator(
    monkeypatch, tmp_path, capsys, slept, last, code, said
):
    """The processes are others, by which it shows whether they are stopped."""
    operators = []

    def start_cluster(directory):
        layout = Layout(directory)
        layout.prepare()
        ClusterState({}).save(layout.state_file)
        slept(directory)
        return SimpleNamespace(state_dir=directory, api=lambda: None, kubectl=None)

    def start_operator(stage):
        stage.operator = StandIn(slept(stage.cluster.state_dir))
        operators.append(stage.operator)

    monkeypatch.setattr(walking.Programs, "find", lambda *_: {})
    monkeypatch.setattr(walking.Cluster, "start", start_cluster)
    steps = (Step("the operator starts", start_operator), Step("the last", last))
    monkeypatch.setattr(walking, "CHAPTERS", (Chapter("all", steps),))
    assert walking.main() == code
    assert said in capsys.readouterr().out
    assert [operator.stopped for operator in operators] == [True]
    assert len(slept.started) == 2
    assert [process.pid for process in slept.started if process.poll() is None] == []
    assert clusters(tmp_path) == []


@pytest.mark.usefixtures("here")
def test_a_second_demo_is_refused_and_told_how_to_stop_the_first(tmp_path, capsys):
    first = Layout(tmp_path / "state" / "copyrator" / "demo")
    first.prepare()
    ClusterState({}).save(first.state_file)
    assert walking.main() == 1
    assert "make cluster-down NAME=demo" in capsys.readouterr().out
    assert first.state_file.exists()


class Sleepers:
    """Processes that carry a cluster's mark."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[bytes]] = []

    def __call__(self, directory: Path) -> "subprocess.Popen[bytes]":
        environment = {**os.environ, MARKER: str(directory.resolve())}
        self.started.append(subprocess.Popen(["sleep", "600"], env=environment))
        return self.started[-1]


class StandIn:
    """Takes the operator's place."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self.stopped = False

    def check_alive(self) -> None:
        assert self.process.poll() is None

    def stop(self) -> None:
        assert self.process.poll() is None, "it is stopped before the control plane"
        self.process.terminate()
        self.process.wait(60)
        self.stopped = True

    def tail(self) -> str:
        return ""
