"""Processes that we started: begun detached, recognised later, ended by id and never by name.

A process id alone is no identity: the kernel hands it out again. The start time from /proc and
the boot id make it one.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from localcluster.node.processes import MARK as CONTAINER_MARK
from localcluster.node.processes import with_variable

NODE_NAME = "process-node"

# Put into the environment of every process of a cluster, and inherited by what these start, so
# that processes whose parent is gone are still found.
MARKER = "COPYRATOR_CLUSTER_STATE"

_POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class ProcessId:
    """One process, not to be confused with a later one of the same number.

    Attributes:
        pid: the kernel's number.
        started: the start time in clock ticks since boot.
        boot: the boot that both belong to.
    """

    pid: int
    started: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> "ProcessId | None":
        """The process that has this number now; None when there is none."""
        started = _start_time(pid)
        return None if started is None else cls(pid, started, _boot_id())

    @property
    def alive(self) -> bool:
        """Whether this very process runs; a zombie doesn't."""
        return self.boot == _boot_id() and _start_time(self.pid) == self.started

    def send(self, number: signal.Signals) -> None:
        """Send a signal to this very process; nothing happens when it is gone."""
        try:
            # The descriptor stays bound to one process: checked first, it can't be recycled.
            descriptor = os.pidfd_open(self.pid)
        except OSError:
            return
        try:
            if self.alive:
                signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            pass
        finally:
            os.close(descriptor)


def spawn(command: Sequence[str], environment: Mapping[str, str], log: Path) -> ProcessId:
    """Start a process in a session of its own, so that a terminal's Ctrl-C doesn't reach it.

    Args:
        command: the program's path and its arguments.
        environment: all of its environment.
        log: the file that its output is added to.

    Raises:
        OSError: the program can't be run.
    """
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        command[0],
        list(command),
        dict(environment),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), append, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGPIPE],
    )
    process = ProcessId.of(pid)
    # Our own child keeps its number, as a zombie at least, until we reap it.
    return process or ProcessId(pid, -1, _boot_id())


@contextlib.contextmanager
def unbroken() -> Iterator[None]:
    """Let SIGINT and SIGTERM wait until what is begun here is done.

    A process that is started has to be recorded: in its first instant it doesn't show the
    environment yet by which `marked` would find it.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def exit_code(process: ProcessId) -> int | None:
    """The exit code of a child of ours that ended (128+n for a signal); None if unknown."""
    with contextlib.suppress(ChildProcessError):
        pid, status = os.waitpid(process.pid, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
    return None


def end(processes: Iterable[ProcessId], grace_seconds: float) -> None:
    """Ask processes to end, all at once, and kill those that don't within the grace."""
    waiting = [process for process in processes if process.alive]
    for process in waiting:
        process.send(signal.SIGTERM)
    for process in wait_gone(waiting, grace_seconds):
        process.send(signal.SIGKILL)
    # The kernel needs a moment for a large process; it is certain to come to an end.
    wait_gone(waiting, 10.0)


def wait_gone(processes: Iterable[ProcessId], seconds: float) -> list[ProcessId]:
    """Wait until processes are gone; those that are still there after `seconds`."""
    deadline = time.monotonic() + seconds
    left = [process for process in processes if _still_runs(process)]
    while left and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        left = [process for process in left if _still_runs(process)]
    return left


def marked(state_dir: Path) -> list[ProcessId]:
    """Every process that carries the marker of a cluster in its environment.

    Containers have an environment of their own; the process node marks them by their pod's
    directory, which is under the cluster's.
    """
    ours = f"{MARKER}={state_dir}\0"
    container = f"{CONTAINER_MARK}={NODE_NAME}:{state_dir}/"
    return [process for pid in with_variable(ours, container) if (process := ProcessId.of(pid))]


def _still_runs(process: ProcessId) -> bool:
    exit_code(process)  # reaps it if it is our child
    return process.alive


def _start_time(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is the name in brackets, which may itself hold blanks and brackets.
    fields = stat[stat.rindex(")") + 2 :].split()
    state, threads, started = fields[0], int(fields[17]), int(fields[19])
    # With threads left, only the first one has ended: the others may still write files.
    ended = state in {"Z", "X"} and threads <= 1
    return None if ended else started


@cache
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
