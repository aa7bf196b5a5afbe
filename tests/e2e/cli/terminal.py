"""A terminal, at which a person reads and types."""

import os
import pty
import select
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.e2e.cli.conftest import Stage, in_environment
from tests.e2e.forked import Forked

PATIENCE = 180.0
"""Seconds until a text is shown on a loaded machine."""


class Terminal:
    """What a person sees, and types at."""

    def __init__(self) -> None:
        self._ours, self.theirs = pty.openpty()
        self.output = ""
        self._before = termios.tcgetattr(self.theirs)

    @property
    def is_as_before(self) -> bool:
        """Whether nothing is left of what a program has set."""
        return termios.tcgetattr(self.theirs) == self._before

    @property
    def path(self) -> Path:
        return Path(os.ttyname(self.theirs))

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def read_until(self, text: str) -> None:
        """Read what is printed until it has a text."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.output:
            left = deadline - time.monotonic()
            assert left > 0, f"no {text!r} in:\n{self.output}"
            self._read(left)

    def read_to_the_end(self, process: Forked) -> int:
        """Read until a process has ended; return its exit code."""
        while process.poll() is None:
            self._read(0.1)
        while self._read(0.0):
            pass
        return process.wait()

    def _read(self, seconds: float) -> bool:
        if not select.select([self._ours], [], [], seconds)[0]:
            return False
        with suppress(OSError):  # EIO: nobody is on the other side
            self.output += os.read(self._ours, 65536).decode(errors="replace").replace("\r\n", "\n")
            return True
        return False

    def close(self) -> None:
        os.close(self._ours)
        os.close(self.theirs)


@contextmanager
def typed(stage: Stage, command: str, **variables: str) -> Iterator[tuple[Terminal, Forked]]:
    """A command that is typed at a terminal of its own, of 80 columns unless variables say more."""
    terminal = Terminal()
    environment: Mapping[str, str] = {"COLUMNS": "80", "TERM": "xterm"} | variables
    words = ("copyrator", *command.split())
    process = Forked(words, in_environment(stage) | environment, terminal.path)
    try:
        yield terminal, process
    finally:
        process.kill()
        process.wait()
        terminal.close()
