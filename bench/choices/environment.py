"""The environment of the libraries that are compared, which nothing else uses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.process import BenchError
from demo.chart import ROOT

LOCK = Path(__file__).parent / "requirements.lock"


def python() -> str:
    """The interpreter of the environment, which is made where it is missing.

    Raises:
        BenchError: it couldn't be made; the reason is on stderr.
    """
    command = [sys.executable, "-I", str(ROOT / "hack" / "make_venv.py"), str(LOCK)]
    made = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if made.returncode:
        raise BenchError(f"no environment of {LOCK.name}")
    return f"{made.stdout.strip()}/bin/python"
