"""`copyrator ui` as a process."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.e2e.cli.conftest import Stage, in_environment


@contextmanager
def serving(stage: Stage, *arguments: str) -> Iterator[str]:
    """The URL that it prints; SIGTERM ends it with success."""
    command = [sys.executable, "-m", "copyrator", "ui", *arguments]
    process = subprocess.Popen(
        command, env=in_environment(stage), stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", line)
        assert found is not None, line
        yield found[0]
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(30)
        process.stdout.close()
    assert code == 0
