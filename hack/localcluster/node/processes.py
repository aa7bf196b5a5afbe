"""Processes of containers: found by a mark in their environment, whatever they did since."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MARK = "LOCALCLUSTER_CONTAINER"
"""The variable that marks a container's processes: ``<node>:<pod directory>/<container>``."""


def mark(node: str, pod_dir: Path, container: str) -> str:
    """The mark of one container."""
    return f"{node}:{pod_dir}/{container}"


def with_variable(*beginnings: str) -> Iterator[int]:
    """The ids of all processes but this one with a variable that begins with one of these.

    Each is ``NAME=VALUE``; a NUL at its end stands for the end of the value.
    """
    needles = [f"\0{each}".encode() for each in beginnings]
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        # Processes of other users, and those that end meanwhile.
        with suppress(OSError):
            variables = b"\0" + Path(entry.path, "environ").read_bytes()
            if any(needle in variables for needle in needles):
                yield int(entry.name)


def kill(prefix: str) -> int:
    """Kill every process whose mark starts with a prefix, and say how many there were.

    A container ends with its first process, and takes with it what that one left behind, in
    whatever process group or session. A process that forks meanwhile is found in the next round.
    """
    killed: set[int] = set()
    for _ in range(10):
        found = set(with_variable(f"{MARK}={prefix}")) - killed
        if not found:
            break
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        killed |= found
    return len(killed)
