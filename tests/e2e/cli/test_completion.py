"""Tab completes commands, words, files and the names of objects, in every shell there is a
script for: each script is loaded by the shell itself.
"""

import os
import secrets
import shutil
import subprocess
import sys

import pytest
import yaml
from click.testing import CliRunner
from tests.e2e.cli.conftest import ROOT, rule
from tests.e2e.cli.terminal import PATIENCE, Terminal
from tests.e2e.installation import apply, serves
from tests.e2e.operator_process import until
from tests.e2e.vanishing import vanish
from tests.long import LONG

from copyrator.cli import cli
from localcluster.build import Programs

CASES = {
    "a command": ("desc", "describe"),
    "a namespace": ("get rules -n comple", "{home}"),
    "an object with its namespace": ("describe rule {home}/compl", "{home}/completed"),
    "a file": ("validate -f manif", "manifest.yaml"),
}
if LONG:
    CASES |= {
        "a word": ("get bun", "bundles"),
        "an object": ("describe rule -n {home} compl", "completed"),
    }


@pytest.fixture(scope="module")
def home(cluster):
    """A namespace with a rule in it, which no operator serves."""
    name = f"completion-{secrets.token_hex(3)}"
    crds = [yaml.safe_load(path.read_text()) for path in (ROOT / "crds").glob("*.yaml")]
    apply(cluster.api(), crds)
    until(lambda: serves(cluster.api()), "the API server serves rules")
    cluster.api().create("/api/v1/namespaces", {"metadata": {"name": name}})
    path = f"/apis/flant.com/v1/namespaces/{name}/copyrators"
    cluster.api().create(path, rule(name, "completed", source={"kind": "Secret", "name": "none"}))
    yield name
    vanish(cluster, [name])


@pytest.fixture
def environment(cluster, tmp_path):
    """Variables for a shell that has `copyrator`, and its plug-in for kubectl, on its PATH."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("copyrator", "kubectl-copyrator"):
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} -m copyrator "$@"\n')
    (programs / "kubectl_complete-copyrator").write_text(script("kubectl"))
    for program in programs.iterdir():
        program.chmod(0o755)
    (tmp_path / "manifest.yaml").touch()
    kubectl = Programs.default().find(["kubectl"])["kubectl"]
    return {
        **os.environ,
        "KUBECONFIG": str(cluster.admin_kubeconfig),
        "PYTHONPATH": str(ROOT / "operator"),
        "PATH": f"{programs}:{kubectl.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TERM": "dumb",
        "PS1": "% ",
    }


def script(shell):
    done = CliRunner().invoke(cli, ["completion", shell])
    assert done.exit_code == 0, done.output
    return done.stdout


def installed(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} isn't installed, so its script isn't tried: apt-get install {shell}")


def cases(*but):
    chosen = {name: case for name, case in CASES.items() if name not in but}
    return pytest.mark.parametrize(("typed", "meant"), chosen.values(), ids=chosen.keys())


SITTING = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], ""),
    "zsh": (["zsh", "-f", "-i"], "autoload -U compinit && compinit -u -D; "),
}


@pytest.mark.parametrize("shell", SITTING)
@cases()
def test_tab_completes(shell, home, environment, tmp_path, typed, meant):
    installed(shell)
    command, before = SITTING[shell]
    (tmp_path / "script").write_text(script(shell))
    terminal = Terminal()
    process = subprocess.Popen(
        command, env=environment, cwd=tmp_path,
        stdin=terminal.theirs, stdout=terminal.theirs, stderr=terminal.theirs,
        start_new_session=True,
    )  # fmt: skip
    try:
        # What is entered in the end is shown, not run; completing runs the program all the same.
        terminal.type(f"{before}source ./script; copyrator() {{ echo \"<$*>\"; }}; echo re''ady\n")
        terminal.read_until("ready")
        terminal.type(f"copyrator {typed.format(home=home)}\t\n")
        whole = f"{typed.rpartition(' ')[0]} {meant}".strip().format(home=home)
        terminal.read_until(f"<{whole}>")
    finally:
        process.kill()
        process.wait()
        terminal.close()


@cases()
def test_fish_completes(home, environment, tmp_path, typed, meant):
    installed("fish")
    (tmp_path / "script").write_text(script("fish"))
    asked = f"source ./script; complete -C 'copyrator {typed.format(home=home)}'"
    done = subprocess.run(
        ["fish", "--no-config", "-c", asked],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=PATIENCE,
    )  # fmt: skip
    found = dict(line.partition("\t")[::2] for line in done.stdout.splitlines())
    assert meant.format(home=home) in found
    if meant == "describe":
        assert found[meant].startswith("Show details of a rule or Bundle"), found


@cases("a file", *["a command"] * (not LONG))
def test_kubectl_completes(home, environment, tmp_path, typed, meant):
    """A machine that is busy may answer later than a person waits: then nothing is completed."""
    expected = [meant.format(home=home), ":4"]
    until(
        lambda: answer_of_kubectl(environment, typed.format(home=home)) == expected,
        lambda: f"{expected}; {answer_of_kubectl(environment, typed.format(home=home))}",
    )


def test_kubectl_leaves_files_to_the_shell(environment):
    assert answer_of_kubectl(environment, "validate -f manif") == [":0"]


def answer_of_kubectl(environment, typed):
    done = subprocess.run(
        ["kubectl", "__complete", "copyrator", *typed.split()],
        env=environment, capture_output=True, text=True, check=True, timeout=PATIENCE,
    )  # fmt: skip
    return done.stdout.splitlines()
