"""`make test-node` where it can't run: loud everywhere, and red in CI."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.long import LONG

ROOT = Path(__file__).resolve().parents[2]
AS_NOBODY = """
import os, sys, pytest
os.geteuid = lambda: 65534
sys.exit(pytest.main(["-p", "no:cacheprovider", "-q", "tests/node/test_image.py"]))
"""


def run(ci: str | None) -> subprocess.CompletedProcess[str]:
    """The tests of the real node, by somebody who isn't root."""
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    environment = {k: v for k, v in environment.items() if not k.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-c", AS_NOBODY],
        cwd=ROOT,
        env=environment | ({"CI": ci} if ci is not None else {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


CASES = [(None, 0), ("true", 1), ("false", 0)]


@pytest.mark.parametrize(("ci", "code"), CASES if LONG else CASES[:2])
def test_a_run_that_skips_everything_is_red_in_ci_and_says_so_everywhere(ci, code):
    done = run(ci)
    assert done.returncode == code, done.stdout + done.stderr
    assert "SKIPPED, 0 run" in done.stdout
    assert (
        "skipped: Containers need root here, and this isn't. What to do: Run as root."
        in done.stdout
    )
    assert "NOTHING was tested on a real node." in done.stdout
