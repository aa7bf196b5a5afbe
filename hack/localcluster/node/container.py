"""One container: starting its process, waiting for it, ending it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from . import processes
from .launch import Launch
from .status import ContainerState, Running, Terminated, now

_NOT_STARTED = 128
"""Exit code of a container whose program could not be started, as containerd gives it."""


class Container:
    """A container and its process, if it has one.

    Args:
        state: what is known of it; kept up to date here.
        pod_dir: where its output goes.
        share: the most bytes of termination message that it may take.
        changed: called whenever `state` has changed.
    """

    def __init__(
        self, state: ContainerState, pod_dir: Path, share: int, changed: Callable[[], None]
    ) -> None:
        self.state = state
        self.log = pod_dir / f"{state.name}.log"
        self._share = share
        self._changed = changed
        self._launch: Launch | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._starting: asyncio.Task[None] | None = None
        self._ended: asyncio.Task[None] | None = None

    async def run(self, launch: Launch) -> Terminated:
        """Start the process and wait until it has ended.

        When this is cancelled the process goes on: `stop` ends it.
        """
        self._starting = asyncio.create_task(self._start(launch))
        await asyncio.shield(self._starting)
        if self._ended is not None:
            await asyncio.shield(self._ended)
        assert isinstance(self.state.state, Terminated)
        return self.state.state

    async def stop(self, kill_at: Callable[[], float]) -> None:
        """Ask the process to end, and kill it and its children when its time is over.

        Only the first process is asked, as in a container; what is left when it ends is killed.

        Args:
            kill_at: the moment to kill, in the event loop's time; asked again and again, because
                a second deletion may shorten it.
        """
        if self._starting is not None:
            await self._starting
        if self._process is None or self._ended is None:
            return
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        loop = asyncio.get_running_loop()
        while not self._ended.done():
            left = kill_at() - loop.time()
            if left <= 0:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                await self._ended
                return
            await asyncio.wait({self._ended}, timeout=min(left, 0.5))

    async def _start(self, launch: Launch) -> None:
        if isinstance(self.state.state, Terminated):
            self.state.last = self.state.state
        if self.state.last is not None:
            self.state.restarts += 1
        if self.log.exists():
            self.log.replace(self.log.with_name(f"{self.state.name}.previous.log"))
        self._launch = launch
        self._ended = None
        started = now()
        with self.log.open("ab") as output:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *launch.argv,
                    env=launch.variables,
                    cwd=launch.directory,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                words = f'failed to start container process: exec: "{launch.argv[0]}": {error}'
                self.state.state = Terminated(_NOT_STARTED, "StartError", words, started, now())
                self._changed()
                return
        identity = f"process://{self._process.pid}"
        self.state.state = Running(started, identity)
        self._changed()
        self._ended = asyncio.create_task(self._watch(self._process, started, identity))

    async def _watch(
        self, process: asyncio.subprocess.Process, started: datetime, identity: str
    ) -> None:
        """Wait for the process, sweep up what it leaves behind, record how it ended."""
        code = await process.wait()
        code = 128 - code if code < 0 else code  # 128 + n after signal n
        assert self._launch is not None
        processes.kill(self._launch.mark)
        reason = "Completed" if code == 0 else "Error"
        text = message(self.state.spec, code, self._launch.view.message, self.log, self._share)
        self.state.state = Terminated(code, reason, text, started, now(), identity)
        self._changed()


MESSAGE_BYTES = 4096
"""Most bytes of a message file; of a longer one the end is taken."""
POD_MESSAGE_BYTES = 12 * 1024
"""Most bytes of the messages of one pod, shared out evenly."""
LOG_BYTES = 2048
LOG_LINES = 80


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
