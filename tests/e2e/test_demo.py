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
from tests.e2e.documents import blocks, commands_of
from tests.e2e.documents import commands as commands_in

from demo import __main__ as walking
from demo.chart import ROOT
from demo.steps import Chapter, Step
from demo.waiting import StepFailed
from localcluster.cluster import discard
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
    for state in (tmp_path / "state" / "copyrator").glob("*/state.json"):  # kept, and it failed
        discard(state.parent)


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
    process = demo(KEEP="1", CLUSTERS="2")
    printed, _ = process.communicate(timeout=1500)
    assert process.returncode == 0, printed
    done = re.findall(r"^✓ (.*?)\s+[\d.]+ s$", printed, re.MULTILINE)
    assert [title for title in STEPS if title not in done] == []
    assert "\x1b" not in printed, "plain lines without a terminal"
    walked = printed.partition("KEEP=1")[0]
    assert [line for line in walked.splitlines() if len(line) > 80] == []
    assert [secret for secret in SECRETS if secret in printed] == []

    silent = {
        title
        for title, shown in shown_by(walked).items()
        if "    $ " not in shown and "    staging $ " not in shown
    }
    assert silent == WITHOUT_A_COMMAND
    assert re.search(r"^ +team-a, team-b, team-c, team-d +[0-9a-f]{8} ", walked, re.MULTILINE)
    assert walked.count("The same 5 objects as above.") == 2

    commands = played_on(printed)
    assert "hack/run copyrator ui" in printed
    assert commands.startswith("eval "), "the first points kubectl at the cluster"
    shown = follow(tmp_path, f"{commands}\n{READY}")
    assert "registry-creds" in shown
    assert "copyrator_" in shown, "metrics"
    assert "\nbundle apps/shop reconciled; status Deployed" in shown
    assert re.search(r"^\d+s +1\.2\.1 ", shown, re.MULTILINE), "what was pushed is deployed"
    documents = ("docs/rules.md", "docs/bundles.md", FIRST_BUNDLE, QUICK_START)
    outputs = {each: follow(tmp_path, "\n".join(typed(each))) for each in documents}
    deployed = r'{"greeting":"\w+","version":"[\d.]+"}'
    said = re.findall(f"^    ({deployed})$", (ROOT / FIRST_BUNDLE).read_text(), re.MULTILINE)
    assert len(said) == 4
    assert re.findall(deployed, outputs[FIRST_BUNDLE]) == said
    stop = "make cluster-down NAME=demo && make cluster-down NAME=demo-staging"
    assert f"To stop it, including the operator: {stop}" in " ".join(printed.split())
    follow(tmp_path, stop)
    assert clusters(tmp_path) == []
    assert_nothing_runs(tmp_path)


WITHOUT_A_COMMAND = {
    "etcd, kube-apiserver, controllers, registry and a node are up",
    "A second cluster, staging, is up",
    "The operator runs under the chart's service account, and is ready",
    "The audit log: no request of the operator was forbidden",
}
QUICK_START = "docs/quick-start.md"
FIRST_BUNDLE = "docs/first-bundle.md"
USE, _, APPLY_BUNDLE = commands_in(QUICK_START, "Without a cluster")
PUBLISH = re.compile(r"werf bundle publish --dir (\S+) --repo (\S+) --tag (\S+)")
PUSH = r"hack/run python -m localcluster push \1/.helm \2:\3"
"""What takes the place of `werf bundle publish`, which the stand-in hasn't, without WERF=FILE."""
COMMITTER = {
    f"GIT_{who}": "reader"
    for who in ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL")
}
READY = "kubectl wait copyrators,bndl --all -A --for=condition=Ready --timeout=100s"
"""All rules and Bundles are Ready, of the generation that is stored."""


def typed(document: str) -> list[str]:
    """What a reader of a document types on the demo's cluster, as the quick start says."""
    if document == QUICK_START:
        left_out = commands_in(document, "Install")
        found = [one for one in commands_in(document) if one not in left_out]
        done = ("kubectl create namespace ", "helm upgrade ")
        found = [one for one in found if not one.startswith(done)]
    else:
        found = [USE]
        for block in blocks(document):
            found += commands_of(block)
            if block.file and not block.file.endswith("/another-cluster.yaml"):  # the reader's
                found += [f"kubectl apply -f {block.file}", READY]
    if document == "docs/bundles.md":  # names a namespace of the reader, and freezes at last
        found.insert(1, "kubectl create namespace shop")
        found += ["copyrator thaw -n apps", "copyrator thaw --all"]
    if document == FIRST_BUNDLE and "WERF" in os.environ:
        found.insert(0, 'werf() { "$WERF" "$@"; }')
    elif document == FIRST_BUNDLE:
        found = [PUBLISH.sub(PUSH, one) for one in found]
    hello = "examples/bundles/hello.yaml"
    applies = re.compile(r"kubectl apply -f (examples/bundles/\S+)")
    return [
        APPLY_BUNDLE.replace(hello, applied[1]) if (applied := applies.fullmatch(one)) else one
        for one in found
    ]


def shown_by(walked: str) -> dict[str, str]:
    """What is printed below each step, by its title."""
    parts = re.split(r"^✓ (.*?)\s+[\d.]+ s$", walked, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def played_on(printed: str) -> str:
    """The commands that are printed at the end."""
    return printed.partition("In this directory:\n")[2].partition("\n    To look at")[0].strip()


def follow(tmp_path: Path, commands: str) -> str:
    """Run commands as they were printed, in the repository, and return what they print."""
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", commands],
        cwd=ROOT,
        env={
            **os.environ,
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "TMPDIR": str(tmp_path),
            **COMMITTER,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1500,
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
