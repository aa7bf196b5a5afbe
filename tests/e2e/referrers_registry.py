"""A registry with the list of referrers, go-containerregistry's; the cluster's has none."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from localcluster.build import Programs


@contextmanager
def running() -> Iterator[str]:
    """`host:port` of a new one on loopback: plain HTTP, content in memory."""
    program = Programs.default().find(["referrers"])["referrers"]
    pipe = subprocess.PIPE
    command = [program, "-follow-stdin"]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()  # with which it ends
