"""Starts operators as forks of a process that has imported them: 0.1 s of processor time, not 0.8.

A program of its own, because pytest's process has threads. It reads a request a line, as JSON:
`{"start": {"command", "environment", "log"}}` is answered with a process id, `{"poll": pid}` with
its exit code, as `subprocess` gives it, or null while it runs.
"""

import json
import os
import signal
import sys
import time
from typing import Any

import kopf.cli

import copyrator.cli.run
import copyrator.runtime.supervisor  # noqa: F401 - what takes the time
from copyrator.cli import main

PROGRAMS = {"copyrator": main, "kopf": kopf.cli.main}
"""What `python -m` with these names calls."""


def become(command: list[str], environment: dict[str, str], log: str) -> None:
    """Make a fork what a process of its own would be."""
    os.setsid()
    null, output = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_APPEND)
    for descriptor, number in ((null, 0), (output, 1), (output, 2)):
        os.dup2(descriptor, number)
    os.close(null)
    os.close(output)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = command


def serve() -> bool:
    """Answer until there are no more requests; true in a fork."""
    ended: dict[int, int] = {}
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        answer: int | None
        if "start" in request:
            answer = os.fork()
            if answer == 0:
                become(**request["start"])
                return True
        else:
            answer = poll(request["poll"], ended)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    return False


def poll(pid: int, ended: dict[int, int]) -> int | None:
    if pid not in ended:
        found, status = os.waitpid(pid, os.WNOHANG)
        if not found:
            return None
        ended[pid] = os.waitstatus_to_exitcode(status)
    return ended[pid]


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what interrupts the tests isn't meant for it
    if serve():
        PROGRAMS[sys.argv[0]]()
