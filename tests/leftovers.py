"""What a test leaves behind fails that test, by name; otherwise a later one would meet it.

Looked for are child processes (also those of a child that has ended), sockets, transports, tasks
and event loops of asyncio, threads, and files in the folder for temporary ones. An object that
wasn't closed is seen while it exists; if it doesn't any more, its warning was an error. So garbage
is collected only where something is found, which it may close.

What may be left on purpose says so:
- what a fixture of a wider scope than a function makes belongs to it, and has to be gone after it;
- `@pytest.mark.leaves("reason", "thread x")` excuses what begins like one of the patterns;
- `with kept("reason", "thread x")` does so for a while, for what a fixture makes on demand;
- KEPT has what stays for the whole run.
"""

from __future__ import annotations

import asyncio
import ctypes
import functools
import gc
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import warnings
import weakref
from asyncio.base_events import BaseEventLoop
from asyncio.transports import BaseTransport
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

WAIT = 20.0
"""Seconds in which what has been told to end may do so."""

GARBAGE = 0.1
"""Seconds after which garbage is collected: it may close what is left without a warning."""

KEPT = {
    r"file copyrator-\w{8}$": "a kubeconfig's certificate, until the process ends (kube/auth.py)",
    r"process .*(/bin/cluster-|localcluster\.(node|standin))": "a cluster ends what it runs",
    r"process .*fork_server\.py": "all operators are its forks (e2e/forked.py)",
}
"""What stays as long as this process, with the reason."""

PROCESS = (
    r"process .*workqueue\.isolated import serve",
    "thread asyncio-waitpid",
    "transport _Unix",
)
"""A child process that works for several tests."""

E2E = "process"
"""What tests of a control plane answer for: its clients keep connections, and threads."""

OTHERS = tuple(Path(__file__).parent / name for name in ("node", "e2e/ui"))
"""Tests of one real node, and of a browser, whose processes become this one's children."""

_TRACKED = re.compile("garbage: (unclosed (<socket|<ssl|transport|event loop)|subprocess)")
"""What warns of a thing that is looked for; a file, say, may be of any earlier test."""

_SUBREAPER = 36
"""prctl's PR_SET_CHILD_SUBREAPER: a child of a child that has ended becomes ours."""

Thing = weakref.ref[Any] | int | Path
"""An object, a process or a file."""


@dataclass
class Watch:
    """What exists, and whose it is."""

    made: set[weakref.ref[Any]] = field(default_factory=set)
    known: set[Thing] = field(default_factory=set)
    fixtures: dict[Any, set[Thing]] = field(default_factory=dict)
    tasks: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=lambda: list(KEPT))
    folder: Path | None = None

    def track(self, kind: type, method: str = "__init__") -> None:
        """Note each object of a class that is made from now on."""
        plain = getattr(kind, method)

        @functools.wraps(plain)
        def init(one: Any, *args: Any, **kwargs: Any) -> None:
            plain(one, *args, **kwargs)
            self.made.add(weakref.ref(one, self.made.discard))

        setattr(kind, method, init)

    def now(self) -> set[Thing]:
        """All that would be left if nothing more happened."""
        there: set[Thing] = set(self._children())
        there |= {weakref.ref(one) for one in threading.enumerate()}
        if self.folder is not None:
            there |= set(self.folder.iterdir())
        for ref in list(self.made):
            one = ref()
            if one is not None and _is_open(one):
                there.add(ref)
        return there

    def _children(self) -> Iterator[int]:
        """Processes of which this one is the parent."""
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        started = {one.pid for ref in list(self.made) if isinstance(one := ref(), subprocess.Popen)}
        # To look at each of the machine's processes takes longer than most tests.
        for thread in Path("/proc/self/task").iterdir():
            children = ""
            with suppress(OSError):  # a thread that has ended
                children = (thread / "children").read_text()
            for pid in map(int, children.split()):
                with suppress(OSError):
                    if _stat(Path(f"/proc/{pid}"))[0] != "Z" or pid in started:
                        yield pid
                    else:
                        os.waitpid(pid, os.WNOHANG)  # a child's child, which ended after it

    def left(self, item: pytest.Item) -> list[str]:
        """Descriptions of what no one owns, after a while; processes among it are ended."""
        marks = [pattern for mark in item.iter_markers("leaves") for pattern in mark.args[1:]]
        begun, warned = time.monotonic(), list[str]()
        collects = True
        while True:
            there = self.now()
            new = {thing: told for thing in there - self.known if (told := _describe(thing))}
            new = {thing: told for thing, told in new.items() if not _is_one(told, self.kept)}
            excused = {thing for thing, told in new.items() if _is_one(told, marks)}
            if "e2e" in item.path.parts:
                excused |= {thing for thing, told in new.items() if not told.startswith(E2E)}
            left = {thing: told for thing, told in new.items() if thing not in excused}
            passed = time.monotonic() - begun
            if not left or passed > WAIT:
                break
            if collects and passed > GARBAGE:
                collects, warned = False, _collect()
            time.sleep(0.01)
        self.known = (self.known & there) | excused
        tasks = [told for told in self.tasks if not _is_one(told, marks)]
        self.tasks.clear()
        for thing in left:
            if isinstance(thing, int):
                with suppress(ProcessLookupError):
                    os.kill(thing, signal.SIGKILL)
        return sorted({*left.values(), *tasks, *warned})

    def forgive(self) -> None:
        """Nothing that exists now is a later test's."""
        self.known = self.now()
        self.tasks.clear()
        _collect()

    def loop_ends(self, runner: asyncio.Runner) -> None:
        """Note tasks of a test's loop that would be cancelled with it."""
        loop = runner.get_loop()
        if asyncio.all_tasks(loop):
            runner.run(_settle())
            self.tasks += [f"task {one!r}"[:300] for one in asyncio.all_tasks(loop)]


def _collect() -> list[str]:
    """Collect garbage; returns what warned of having been left open."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gc.collect()
    said = [f"garbage: {one.message}"[:300] for one in caught]
    return [one for one in said if _TRACKED.match(one)]


async def _settle() -> None:
    if others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others, timeout=WAIT)


def _is_open(one: Any) -> bool:
    match one:
        case socket.socket():
            return one.fileno() != -1
        case subprocess.Popen():
            return getattr(one, "_child_created", False) and one.returncode is None
        case BaseEventLoop():
            return not one.is_closed()
    # What its own __del__ would warn of: one that is being closed still has its socket or pipe.
    for attribute in ("_sock", "_pipe"):
        if hasattr(one, attribute):
            return getattr(one, attribute) is not None
    return not getattr(one, "_closed", True)


def _stat(process: Path) -> list[str]:
    """State, parent and so on of a process."""
    return (process / "stat").read_text().rpartition(")")[2].split()


def _describe(thing: Thing) -> str:
    """Kind and name; the kind is the first word."""
    if isinstance(thing, Path):
        return f"file {thing.name}"
    if isinstance(thing, int):
        command, state = b"", "gone"
        with suppress(OSError):
            command = Path(f"/proc/{thing}/cmdline").read_bytes().replace(b"\0", b" ")[:200]
            state = _stat(Path(f"/proc/{thing}"))[0]
        return f"process {thing} ({state}) {command.decode(errors='replace').strip()}"
    one = thing()
    match one:
        case threading.Thread():
            return f"thread {one.name}"
        case socket.socket():
            return f"socket {one!r}"
        case subprocess.Popen():
            return f"process {one.pid} not waited for: {one.args!r}"[:300]
        case BaseEventLoop():
            return f"loop {one!r}"
        case BaseTransport():
            return f"transport {type(one).__name__} {getattr(one, '_extra', '')!r}"[:300]
    return ""


def _is_one(told: str, patterns: list[str]) -> bool:
    return any(re.match(pattern, told) for pattern in patterns)


@contextmanager
def kept(reason: str, *patterns: str) -> Iterator[None]:
    """Let things stay that begin like one of some patterns; they have to be gone afterwards."""
    _watch.kept += patterns
    yield
    for pattern in patterns:
        _watch.kept.remove(pattern)


_FAILED = pytest.StashKey[bool]()


_watch = Watch()


def pytest_configure() -> None:
    """Note what is made from now on."""
    for kind in (socket.socket, subprocess.Popen, BaseEventLoop, BaseTransport):
        _watch.track(kind)
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


@pytest.fixture(scope="session", autouse=True)
def temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder for this process and its children, where others make nothing."""
    tmp_path_factory.getbasetemp()  # is not in it
    with pytest.MonkeyPatch.context() as patch:
        folder = Path(tempfile.mkdtemp(prefix="t-"))
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", str(folder))
        _watch.folder = folder
        yield
        _watch.folder = None
    shutil.rmtree(folder, ignore_errors=True)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
    """What a fixture of a wider scope makes is its own."""
    if fixturedef.scope == "function":
        made = yield
    else:
        before = _watch.now()
        made = yield
        new = _watch.now() - before
        _watch.fixtures[fixturedef] = new
        _watch.known |= new
    if isinstance(made, asyncio.Runner):
        fixturedef.addfinalizer(functools.partial(_watch.loop_ends, made))
    return made


def pytest_fixture_post_finalizer(fixturedef: pytest.FixtureDef[Any]) -> None:
    """What it has left is the last test's."""
    _watch.known -= _watch.fixtures.pop(fixturedef, set())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Whether it has failed anyway."""
    report = yield
    if report.failed:
        item.stash[_FAILED] = True
    return report


def pytest_collection_finish() -> None:
    """What modules made while they were imported is no test's."""
    _watch.known = _watch.now()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a test that has left something."""
    result = yield
    if isinstance(item, pytest.Function):
        item.funcargs.clear()  # fixtures that are closed when nobody has them any more
    if item.stash.get(_FAILED, False) or any(map(item.path.is_relative_to, OTHERS)):
        _watch.forgive()
    elif left := _watch.left(item):
        _watch.forgive()
        pytest.fail("the test left behind:\n" + "\n".join(left), pytrace=False)
    return result
