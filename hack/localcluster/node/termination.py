"""How a container ended: exit code, reason and termination message, by the kubelet's rules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

MESSAGE_BYTES = 4096
"""Most bytes of a message file; of a longer one the end is taken."""
POD_MESSAGE_BYTES = 12 * 1024
"""Most bytes of the messages of one pod, shared out evenly."""
LOG_BYTES = 2048
LOG_LINES = 80
DEFAULT_PATH = "/dev/termination-log"


def exit_code(returncode: int) -> int:
    """A process's return code as a container's exit code: 128 + n after signal n."""
    return 128 - returncode if returncode < 0 else returncode


def reason(code: int) -> str:
    """The word that goes with an exit code."""
    return "Completed" if code == 0 else "Error"


def message(container: Mapping[str, Any], code: int, written: Path, log: Path, share: int) -> str:
    """The termination message of a container that has ended.

    Args:
        container: its spec, for the policy.
        code: its exit code.
        written: the file that stands for terminationMessagePath.
        log: the container's output.
        share: the most bytes that this container may take of POD_MESSAGE_BYTES.
    """
    text = tail(written, MESSAGE_BYTES)
    policy = container.get("terminationMessagePolicy", "File")
    if not text and code != 0 and policy == "FallbackToLogsOnError":
        lines = tail(log, LOG_BYTES).splitlines(keepends=True)
        text = "".join(lines[-LOG_LINES:])
    return text.encode()[:share].decode(errors="ignore")


def tail(path: Path, size: int) -> str:
    """The last bytes of a file as text; nothing if it can't be read."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, 2)
            file.seek(max(0, end - size))
            return file.read(size).decode(errors="replace")
    except OSError:
        return ""
