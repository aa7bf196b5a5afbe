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

import click
import kopf.cli

import copyrator.cli.core.run
import copyrator.runtime.supervisor  # noqa: F401 - what takes the time
from copyrator.cli import cli, main
from forks import follow

PROGRAMS = {"copyrator": main, "kopf": kopf.cli.main}
"""What `python -m` with these names calls."""


def start(command: list[str], environment: dict[str, str], log: str) -> int:
    """Fork; the fork's id here, and 0 in the fork, which is what a process of its own would be."""
    if PROGRAMS[command[0]] is main and len(command) > 1:
        cli.get_command(click.Context(cli), command[1])  # imports it, for later ones, too
    # Opened here: a terminal that nobody has open yet would end its other side's reading.
    output = os.open(log, os.O_RDWR | os.O_APPEND | os.O_NOCTTY)
    pid = os.fork()
    if pid:
        os.close(output)
        return pid
    os.setsid()
    source = os.dup(output) if os.isatty(output) else os.open(os.devnull, os.O_RDONLY)
    for descriptor, number in ((source, 0), (output, 1), (output, 2)):
        os.dup2(descriptor, number)
    os.close(source)
    os.close(output)
    os.environ.clear()
    os.environ.update(environment)
    follow(environment["PYTHONPATH"])
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = command
    return 0


def serve() -> bool:
    """Answer until there are no more requests; true in a fork."""
    ended: dict[int, int] = {}
    for line in sys.stdin:
        request: dict[str, Any] = json.loads(line)
        answer: int | None
        if "start" in request:
            answer = start(**request["start"])
            if answer == 0:
                return True
            ended.pop(answer, None)  # another process had this id
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
