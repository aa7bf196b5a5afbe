"""A side as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.process import BenchError, Measured
from bench.rig import Rig
from demo.chart import ROOT

_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")


class Child(Measured):
    """One side that runs until it is stopped: ``python -m bench.choices.MODULE ARGUMENTS``."""

    def __init__(self, module: str, arguments: Sequence[str], log: Path) -> None:
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", f"bench.choices.{module}", *arguments],
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        super().__init__(process, log)


def run_child(
    rig: Rig, module: str, arguments: Sequence[str], *, python: str = sys.executable
) -> dict[str, float]:
    """Run one side to its end; its standard output is its figures as JSON.

    Raises:
        BenchError: it failed; what it said is the text.
    """
    log = rig.cluster.layout.logs / f"{module}.log"
    with log.open("ab") as output:
        done = subprocess.run(
            [python, "-m", f"bench.choices.{module}", *arguments],
            check=False,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
        )
    if done.returncode:
        tail = "\n".join(log.read_text().splitlines()[-10:])
        raise BenchError(f"{module} {arguments[0]} failed:\n{tail}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    paths = (ROOT, ROOT / "operator", ROOT / "hack")
    return kept | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
