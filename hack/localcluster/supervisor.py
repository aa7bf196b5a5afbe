"""Starts, watches and stops the processes of one cluster, and records each as it is started."""

import os
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL, Signals
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, ProxyHandler, build_opener

from localcluster import processes
from localcluster.components import Component, Plan
from localcluster.errors import ComponentFailedError, PortTakenError
from localcluster.processes import MARKER, ProcessId
from localcluster.state import Layout

READY_SECONDS = 120.0
_GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.03
_LOG_LINES = 15


@dataclass(frozen=True, slots=True)
class Supervisor:
    """The processes of one cluster.

    Attributes:
        plan: paths, ports and programs.
    """

    plan: Plan

    def start(self, name: str) -> None:
        """Start a component that doesn't run, without waiting for it to become ready.

        Raises:
            ComponentFailedError: the program can't be run.
        """
        if self.process(name):
            return
        component = self.plan.component(name)
        layout = self.plan.layout
        environment = {**os.environ, **component.environment, MARKER: str(layout.root)}
        with processes.unbroken():
            try:
                process = processes.spawn(component.command, environment, self.log(name))
            except OSError as error:
                raise ComponentFailedError(
                    f"{name} can't be started: {error}.",
                    "Remove the cached program and start again: it is then built anew.",
                ) from error
            self.plan.state.processes[name] = process
            self.plan.state.save(layout.state_file)

    def wait_ready(self, name: str, is_ready: Callable[[], bool] | None = None) -> None:
        """Wait until a component answers.

        Args:
            name: the component.
            is_ready: asked instead of the component's own URL.

        Raises:
            ComponentFailedError: it ended or took too long; carries the end of its log.
        """
        component = self.plan.component(name)
        check = is_ready or (lambda: answers(component.ready))
        deadline = time.monotonic() + READY_SECONDS
        while not check():
            if not self.process(name):
                raise self._failed(component, "ended")
            if time.monotonic() > deadline:
                raise self._failed(component, f"wasn't ready within {READY_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)

    def process(self, name: str) -> ProcessId | None:
        """The process of a component while it runs."""
        recorded = self.plan.state.processes.get(name)
        return recorded if recorded and recorded.alive else None

    def signal(self, name: str, number: Signals) -> None:
        """Send a signal to a component."""
        if process := self.process(name):
            process.send(number)

    def kill(self, name: str) -> None:
        """End a component at once, as a crash would, and wait until it is gone."""
        if process := self.process(name):
            process.send(SIGKILL)
            processes.wait_gone([process], 10.0)

    def stop(self, name: str) -> None:
        """End a component in its own way, by force if that takes too long."""
        if process := self.process(name):
            processes.end([process], _GRACE_SECONDS)

    def log(self, name: str) -> Path:
        """The log of a component."""
        return self.plan.layout.logs / f"{name}.log"

    def _failed(self, component: Component, what: str) -> ComponentFailedError:
        recorded = self.plan.state.processes.get(component.name)
        code = processes.exit_code(recorded) if recorded else None
        with_code = f" with exit code {code}" if code is not None else ""
        log = self.log(component.name)
        end = tail(log)
        kind = PortTakenError if "address already in use" in end else ComponentFailedError
        return kind(
            f"{component.name} {what}{with_code}. The end of {log}:\n{end}",
            "Look for the first error in that log.",
        )


def stop_all(layout: Layout, recorded: dict[str, ProcessId]) -> None:
    """Stop every process of a cluster; nothing but those is touched.

    The node goes first, so that it can end its pods; what it leaves, and what was started in the
    instant before it could be recorded, is found by the marker in its environment.
    """
    if node := recorded.get("node"):
        processes.end([node], _GRACE_SECONDS)
    # kube-apiserver waits for its watchers, and etcd for kube-apiserver: together they'd take
    # the whole grace. Their data isn't needed any more.
    rest = [process for name, process in recorded.items() if name != "node"]
    processes.end([*rest, *processes.marked(layout.root)], 0.5)


def answers(url: str) -> bool:
    """Whether a health URL answers 200."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Schedulers and controller managers sign their own health endpoint's certificate, and only
    # "does it answer on loopback" is asked here.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    # No handler for proxies: what HTTP_PROXY names has no way to our loopback.
    opener = build_opener(ProxyHandler({}), HTTPSHandler(context=context))
    try:
        with opener.open(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (HTTPError, OSError):
        return False


def tail(log: Path, lines: int = _LOG_LINES) -> str:
    """The last lines of a log."""
    if not log.exists():
        return "  (no log)"
    content = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(f"  {line}" for line in content[-lines:]) or "  (empty)"
