"""Copyrator's command line, as a user types it on the demo's cluster."""

import os
import subprocess
import sys
from pathlib import Path

from demo.chart import ROOT
from demo.screen import WIDTH
from demo.stage import Stage
from demo.waiting import StepFailed


def shown(stage: Stage, command: str, directory: Path) -> str:
    """What a command shows on a terminal, whatever its exit code."""
    return _run(stage, command, directory, {"FORCE_COLOR": "1", "TERM": "xterm-256color"}).stdout


def typed(stage: Stage, command: str) -> str:
    """Run a command; what it printed.

    Raises:
        StepFailed: its exit code isn't 0.
    """
    done = _run(stage, command, Path.cwd(), {})
    if done.returncode != 0:
        msg = f"copyrator {command}: exit code {done.returncode}\n{done.stdout}"
        raise StepFailed(msg)
    return done.stdout


def _run(
    stage: Stage, command: str, directory: Path, more: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "copyrator", *command.split()],
        env={
            **os.environ,
            "KUBECONFIG": str(stage.cluster.admin_kubeconfig),
            "PYTHONPATH": str(ROOT / "operator"),
            "COLUMNS": str(WIDTH),
            **more,
        },
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
