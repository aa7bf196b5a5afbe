"""Runs work that can't be done in slices in a child process with limits of its own.

A thread isn't enough: C code (the compiler, a YAML parser) holds the GIL, and its allocations
count against the operator. The child is started on demand and ended when idle; work that exceeds
its limits is an IsolatedError of that work alone.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import resource
import signal
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from copyrator.workqueue.fairness import FairLimit

ISOLATED_CPU_SECONDS: Final = 10
"""Seconds of processor time of one call in the child process: ten times what the largest accepted
rule or Bundle needs."""

ISOLATED_MEMORY: Final = 512 * 1024 * 1024
"""Bytes of address space of the child process."""

P = ParamSpec("P")
T = TypeVar("T")

IDLE_SECONDS: Final = 30.0
"""Seconds without work after which the child is ended: it holds some 25 MB."""
WALL_SECONDS: Final = 120.0
"""Timeout of an answer in seconds, on a machine where the child gets little CPU time."""

_EXIT_SECONDS: Final = 1.0
"""Of a child that has closed its output."""

_HEADER: Final = struct.Struct("!Q")
_SERVE: Final = "from copyrator.workqueue.isolated import serve; serve()"


class IsolatedError(Exception):
    """The work exceeded the limits or failed; the message quotes nothing of its input."""


class InterruptedWorkError(IsolatedError):
    """The child was slow or ended for a reason that may not be the work's own."""


class Isolated:
    """One child process; calls run one after the other, in turns between groups.

    Args:
        cpu_seconds: processor time of one call.
        memory: bytes of address space of the child.
        wall_seconds: timeout of one call.
    """

    def __init__(
        self,
        *,
        cpu_seconds: int = ISOLATED_CPU_SECONDS,
        memory: int = ISOLATED_MEMORY,
        wall_seconds: float = WALL_SECONDS,
    ) -> None:
        self._wall_seconds = wall_seconds
        self._cpu_seconds = cpu_seconds
        self._memory = memory
        self._child: asyncio.subprocess.Process | None = None
        self._killed: asyncio.subprocess.Process | None = None
        """The last one that was ended, which may not be gone yet."""
        self._turns = FairLimit(each=1, together=1)
        self._idle: asyncio.TimerHandle | None = None

    async def call(
        self, function: Callable[P, T], group: str, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run a module's own function in the child; arguments and result are pickled.

        The group is the owner of the call, a namespace.

        Raises:
            IsolatedError: it took too long or too much memory, or raised.
        """
        async with self._turns.slot(group):
            if self._idle is not None:
                self._idle.cancel()
            try:
                async with asyncio.timeout(self._wall_seconds):
                    done, result = await self._exchange((function, args, kwargs))
            except TimeoutError:  # it is an OSError, too
                await self.close()
                text = f"it isn't done after {self._wall_seconds:.0f} s"
                raise InterruptedWorkError(text) from None
            except (asyncio.IncompleteReadError, OSError):
                if await self._is_killed():
                    text = "its process was killed, as where the container is short of memory"
                    raise InterruptedWorkError(text) from None
                raise IsolatedError(
                    f"it takes more than {self._cpu_seconds} s of processor time or "
                    f"{self._memory // 2**20} MB of memory"
                ) from None
            except BaseException:
                await self.close()  # a late answer must not be taken for the next call's
                raise
            loop = asyncio.get_running_loop()
            self._idle = loop.call_later(IDLE_SECONDS, self._kill)
        if not done:
            raise IsolatedError(str(result))
        return result  # type: ignore[no-any-return] # as the function returned it

    async def _is_killed(self) -> bool:
        """End the child; whether another process had killed it, or it couldn't begin."""
        child = self._child
        if child is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_EXIT_SECONDS):
                    await child.wait()
        code = child.returncode if child is not None else None
        await self.close()
        return code in (None, -signal.SIGKILL)

    async def close(self) -> None:
        """End the child."""
        if self._idle is not None:
            self._idle.cancel()
        self._kill()
        if self._killed is not None:
            await self._killed.wait()

    async def _exchange(self, work: tuple[Any, ...]) -> tuple[bool, Any]:
        child = await self._running()
        assert child.stdin is not None
        assert child.stdout is not None
        request = pickle.dumps(work, pickle.HIGHEST_PROTOCOL)
        child.stdin.write(_HEADER.pack(len(request)) + request)
        await child.stdin.drain()
        (size,) = _HEADER.unpack(await child.stdout.readexactly(_HEADER.size))
        answer: tuple[bool, Any] = pickle.loads(  # noqa: S301 - of our own child
            await child.stdout.readexactly(size)
        )
        return answer

    async def _running(self) -> asyncio.subprocess.Process:
        if self._child is None or self._child.returncode is not None:
            paths = os.pathsep.join(path for path in sys.path if path)
            self._child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                _SERVE,
                str(self._cpu_seconds),
                str(self._memory),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                # Not the operator's environment, which has proxies' passwords, for example.
                env={"PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8"},
                start_new_session=True,  # a Ctrl-C in the terminal is for the operator only
            )
        return self._child

    def _kill(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            # It kills, and closes the pipes: what nobody reads any more would keep them open.
            child._transport.close()  # type: ignore[attr-defined]
            self._killed = child


class IsolatedPool:
    """Child processes, so that calls which take long delay others by seconds only.

    A further child works only where another one has been busy for `patience`: mostly there is one.
    A call that takes `long` goes on, and another child takes its place. Both are in seconds. `size`
    bounds the calls at a time without those that take long, `most` the children.
    """

    def __init__(
        self, make: Callable[[], Isolated], size: int, most: int, *, patience: float, long: float
    ) -> None:
        self.children = [make() for _ in range(most)]
        """The last one of those that are free is used next: it is running, or was last."""
        self._free = list(self.children)
        self._size = size
        self._patience = patience
        self._long = long
        self._quick = 0
        """Calls that haven't taken long yet."""
        self._changed = asyncio.Condition()

    async def call(
        self, function: Callable[P, T], group: str, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """As `Isolated.call`.

        Raises:
            IsolatedError: as there.
        """
        async with self._changed:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience):
                    await self._changed.wait_for(lambda: self._free and not self._quick)
            await self._changed.wait_for(lambda: self._free and self._quick < self._size)
            child = self._free.pop()
            self._quick += 1
        work = asyncio.create_task(child.call(function, group, *args, **kwargs))
        try:
            try:
                await asyncio.wait({work}, timeout=self._long)
            finally:
                self._quick -= 1
            if not work.done():
                await self._notify()
            return await work
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            self._free.append(child)
            await self._notify()

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def close(self) -> None:
        """End all children."""
        for child in self.children:
            await child.close()


def serve() -> None:
    """Main loop of the child: serve calls until the parent is gone."""
    cpu_seconds, memory = (int(argument) for argument in sys.argv[1:3])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        # Where the container runs out of memory, this process is killed and not the operator.
        Path("/proc/self/oom_score_adj").write_text("1000")
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # printed text must not get between the answers
    while header := requests.read(_HEADER.size):
        (size,) = _HEADER.unpack(header)
        answer = _answer(requests.read(size), cpu_seconds)
        try:
            answers.write(_HEADER.pack(len(answer)) + answer)
            answers.flush()
        except BrokenPipeError:
            os._exit(0)  # the parent is gone; an ordinary exit would flush again


def _answer(request: bytes, cpu_seconds: int) -> bytes:
    """Run one call. The kernel ends the process when its processor time is used up."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    until = int(used.ru_utime + used.ru_stime) + cpu_seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (until, resource.RLIM_INFINITY))
    try:
        function, args, kwargs = pickle.loads(request)  # noqa: S301 - of our own parent
        return pickle.dumps((True, function(*args, **kwargs)), pickle.HIGHEST_PROTOCOL)
    except MemoryError:
        return pickle.dumps((False, "it takes too much memory"))
    except Exception as error:
        return pickle.dumps((False, f"it fails with {type(error).__name__}"))
