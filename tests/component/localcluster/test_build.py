"""Programs are built once, by whatever Go there is, and what goes wrong comes with a remedy.

A script plays the Go compiler: it says a version, notes that it ran, and writes its outputs.
"""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from localcluster.build import Programs
from localcluster.processes import marked
from localcluster.progress import Progress
from localcluster.waiting import eventually

HACK = Path(__file__).parents[3] / "hack"

FAKE_GO = """#!/bin/sh
if [ "$1" = env ]; then echo "${FAKE_GO_VERSION:-go1.26.8}"; exit; fi
if [ "$1" = list ]; then
  echo "go: downloading k8s.io/some v1.0.0" >&2
  echo "$GOMAXPROCS" > "$FAKE_GO_RUNS.list"; echo k8s.io/some/package; echo k8s.io/other/package
  exit
fi
echo "$*" >> "$FAKE_GO_RUNS"
while [ "$1" != -o ]; do shift; done
target=$2; shift 2
echo k8s.io/some/package >&2
[ -z "$FAKE_GO_SLEEP" ] || sleep "$FAKE_GO_SLEEP"
if [ -n "$FAKE_GO_ERROR" ]; then echo "$FAKE_GO_ERROR" >&2; exit 1; fi
for package in "$@"; do
  file=$target$(basename "${package%/v3}")
  echo "built" > "$file"; chmod +x "$file"
done
"""


@pytest.fixture(autouse=True)
def fake_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = tmp_path / "path"
    directory.mkdir()
    (directory / "go").write_text(FAKE_GO)
    (directory / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE_GO_RUNS", str(tmp_path / "runs"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)


@pytest.fixture
def output() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def programs(tmp_path: Path, output: io.StringIO) -> Programs:
    return Programs(tmp_path / "cache", Progress(output, terminal=False))


def runs(tmp_path: Path) -> list[str]:
    file = tmp_path / "runs"
    return file.read_text().splitlines() if file.exists() else []


def test_a_program_is_built_once(programs: Programs, tmp_path: Path, output: io.StringIO) -> None:
    first = programs.find(["etcd", "actionlint"])
    again = programs.find(["etcd", "actionlint"])

    assert first == again
    assert first["etcd"].name == "etcd"
    assert os.access(first["etcd"], os.X_OK)
    assert len(runs(tmp_path)) == 2
    assert "[0:00] building etcd v3.6.7: done" in output.getvalue()


def test_builds_are_pinned_verified_and_without_c(programs: Programs, tmp_path: Path) -> None:
    go = Path(os.environ["PATH"].split(":")[0]) / "go"
    go.write_text(FAKE_GO.replace('"$*"', '"$CGO_ENABLED $GOTOOLCHAIN $GOARCH $PWD $*"'))

    programs.find(["etcd"])

    (run,) = runs(tmp_path)
    assert run.startswith("0 local ")
    assert "localcluster/go/cluster build" in run
    assert "-trimpath" in run
    assert "-mod=readonly" in run


def build_elsewhere(tmp_path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "localcluster", "build", "etcd"],
        env={
            **os.environ,
            "PYTHONPATH": str(HACK),
            "COPYRATOR_CACHE": str(tmp_path / "cache"),
            "COPYRATOR_CLUSTER_STATE": str(tmp_path / "mark"),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_parallel_runs_build_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_GO_SLEEP", "1")
    with build_elsewhere(tmp_path) as one, build_elsewhere(tmp_path) as two:
        answers = {one.communicate(timeout=60)[0], two.communicate(timeout=60)[0]}

    assert (one.returncode, two.returncode) == (0, 0)
    assert len(answers) == 1
    assert len(runs(tmp_path)) == 1


def test_an_interrupted_build_leaves_nothing_half_made_and_can_be_started_again(
    tmp_path: Path, programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_GO_SLEEP", "2")
    with build_elsewhere(tmp_path) as builder:
        eventually(lambda: runs(tmp_path), "the compiler")
        builder.send_signal(signal.SIGTERM)
        _, complaint = builder.communicate(timeout=30)
    eventually(lambda: not marked(tmp_path / "mark"), "the compiler's end")
    assert not list((tmp_path / "cache" / "bin").glob(".build-*"))
    assert builder.returncode != 0
    assert "Traceback" not in complaint
    assert not list((tmp_path / "cache" / "bin").glob("*/etcd"))
    monkeypatch.delenv("FAKE_GO_SLEEP")

    assert programs.find(["etcd"])["etcd"].exists()
