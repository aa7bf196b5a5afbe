"""A test that leaves something behind fails, by name (tests/leftovers.py)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = """
import asyncio, socket, subprocess, tempfile, threading
import pytest
from tests import leftovers

leftovers.WAIT = 0.2
held = []
sleep = ["sleep", "60"]
"""
LEAVES = {
    "process": "held.append(subprocess.Popen(sleep))",
    "process_of_a_process": "subprocess.run('sleep 60 & ', shell=True)",
    "process_that_has_ended": "held.append(subprocess.Popen(['true']))",
    "socket": "held.append(socket.socket())",
    "transport_of_a_process": "held.append(await asyncio.create_subprocess_exec(*sleep))",
    "transport_of_a_server": "held.append(await asyncio.start_server(print, '127.0.0.1', 0))",
    "thread": "threading.Thread(target=threading.Event().wait, daemon=True, name='t').start()",
    "task": "held.append(asyncio.create_task(asyncio.sleep(3600), name='t'))",
    "loop": "held.append(asyncio.new_event_loop())",
    "file": "tempfile.mkdtemp(prefix='of-a-test-')",
}
SAID = {
    "process_of_a_process": r"process \d+ \(S\) sleep 60",
    "process_that_has_ended": r"process \d+ not waited for: \['true'\]",
    "transport_of_a_process": "transport _UnixSubprocessTransport",
    "transport_of_a_server": r"socket <socket\.socket",
    "thread": "thread t$",
    "task": "task <Task pending name='t'",
    "file": "file of-a-test-",
}
ALLOWED = """
@pytest.fixture(scope="module")
def lasting():
    one = socket.socket()
    yield one
    one.close()

def test_a_fixture_has_it(lasting): pass

@pytest.mark.leaves("as an example", "socket")
def test_it_says_so(): held.append(socket.socket())

def test_it_is_kept():
    with leftovers.kept("as an example", "socket"):
        held.append(socket.socket())
        held.pop().close()

@pytest.fixture(scope="module")
def lost():
    held.append(socket.socket())

def test_z_its_fixture_leaves_it(lost): pass
"""


def test_what_a_test_leaves_behind_fails_it_by_name(tmp_path: Path) -> None:
    tests = [
        f"{'async ' if 'asyncio.' in body and name != 'loop' else ''}def test_{name}(): {body}"
        for name, body in LEAVES.items()
    ]
    file = tmp_path / "test_file.py"
    file.write_text("\n".join([SETTINGS, *tests, ALLOWED]))
    command = [sys.executable, "-m", "pytest", "-p", "tests.leftovers", "-q", "-rE", file]
    options = ["--rootdir", ROOT, "-c", ROOT / "pyproject.toml", "-p", "no:cacheprovider"]
    run = subprocess.run(
        [*command, *options, "--basetemp", tmp_path / "base"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    said = run.stdout
    for name in LEAVES:
        told = said.partition(f"ERROR at teardown of test_{name} ")[2].partition("\n____")[0]
        assert re.search(SAID.get(name, f"(?m)^{name} "), told, re.MULTILINE), (name, said)
    failed = set(re.findall(r"(?m)^ERROR .*::test_(\w+)", said))
    assert failed == {*LEAVES, "z_its_fixture_leaves_it"}, said
