"""A run whose worker waits for a test that never comes ends, and names both (tests/idle.py)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOSES = """
from tests import idle

idle.LIMIT = 3.0

def pytest_collection_finish(session):
    for plugin in session.config.pluginmanager.get_plugins():
        if getattr(plugin, "workerid", "") == "gw1":
            lose(plugin)

def lose(worker):
    handle, commands = worker.handle_command, []

    def handle_all_but_one(command):
        commands.append(command)
        if len(commands) != {lost}:
            handle(command)

    worker.handle_command = handle_all_but_one
"""


@pytest.mark.parametrize("lost", [1, 3], ids=["its first tests", "later ones"])
def test_a_run_that_waits_for_nothing_ends_and_names_the_worker_and_the_test(
    tmp_path: Path, lost: int
) -> None:
    (tmp_path / "conftest.py").write_text(LOSES.format(lost=lost))
    for number in range(20):
        file = tmp_path / f"test_{number:02}.py"
        file.write_text("def test_1(): pass\n\ndef test_2(): pass\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.idle", "-n", "2", "--dist", "loadfile"]
    options = ["-c", ROOT / "pyproject.toml", "-p", "no:cacheprovider", tmp_path]
    done = subprocess.run(
        [*command, *options, "--rootdir", tmp_path, "--basetemp", tmp_path / "base"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert "worker 'gw1' crashed while running 'test_" in said
    assert "Timeout (0:00:03)!" in done.stderr
    assert "in run_one_test" in done.stderr or "in pytest_runtestloop" in done.stderr
    assert "worker gw1 crashed and worker restarting disabled" in said
