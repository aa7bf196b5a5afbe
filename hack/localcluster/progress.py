"""Progress of long work: a line that is rewritten on a terminal, a line now and then elsewhere."""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

# A CI log should show life without being filled by it.
_LINE_EVERY_SECONDS = 15.0
_TERMINAL_EVERY_SECONDS = 0.5


@dataclass(slots=True)
class Progress:
    """Writes progress to a stream.

    Attributes:
        stream: where to.
        terminal: whether the last line may be rewritten.
    """

    stream: TextIO
    terminal: bool
    _last: float = field(default=float("-inf"), init=False)

    @classmethod
    def on_stderr(cls) -> "Progress":
        """Progress on stderr, so that stdout stays for output that is piped."""
        return cls(sys.stderr, sys.stderr.isatty())

    def line(self, text: str) -> None:
        """Write a line that stays."""
        self.stream.write(f"\r\x1b[K{text}\n" if self.terminal else f"{text}\n")
        self.stream.flush()

    def tick(self, text: str, elapsed: float) -> None:
        """Say that `text` has been going on for `elapsed` seconds, if it is time to say so."""
        every = _TERMINAL_EVERY_SECONDS if self.terminal else _LINE_EVERY_SECONDS
        now = time.monotonic()
        if now - self._last < every:
            return
        self._last = now
        line = f"[{duration(elapsed)}] {text}"
        # A line that wraps can't be rewritten.
        self.stream.write(f"\r\x1b[K{line[:78]}" if self.terminal else f"{line}\n")
        self.stream.flush()

    def wait(self, text: str, process: subprocess.Popen[bytes], detail: Callable[[], str]) -> int:
        """Wait for a process to end, showing the time and a detail; its exit code."""
        started = time.monotonic()
        while True:
            try:
                code = process.wait(timeout=0.25)
            except subprocess.TimeoutExpired:
                self.tick(f"{text}: {detail()}", time.monotonic() - started)
                continue
            outcome = "done" if code == 0 else "failed"
            self.line(f"[{duration(time.monotonic() - started)}] {text}: {outcome}")
            return code


def duration(seconds: float) -> str:
    """Seconds as `m:ss`."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
