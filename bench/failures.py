"""What goes wrong, and how soon all is right again."""

from __future__ import annotations

import base64
import itertools
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.e2e.faults.catalogue import FAULTS
from tests.e2e.faults.proxy import (
    Chosen,
    Fault,
    FaultProxy,
    answers,
    everything,
    only,
    silent,
)

from bench.process import BenchError, Operator
from bench.rig import HOME, Rig, until
from bench.scenario import Figures, Goal, Run, scenario
from localcluster import Cluster

AWAY = 5.0
"""Seconds for which the control plane is gone."""
FAULT = 10.0
"""Seconds for which a fault lasts."""


class _Copies:
    """A source, its rule and its copies; `change` gives the source a value that none had."""

    def __init__(self, rig: Rig, word: str, count: int) -> None:
        self.rig = rig
        self.targets = [f"{word}-{number:03}" for number in range(count)]
        self._path = f"/api/v1/namespaces/{HOME}/secrets/{word}"
        self._serial = itertools.count()
        self._value = ""
        rig.namespaces(*self.targets)
        body = {"metadata": {"name": word}, "stringData": {"step": ""}}
        rig.api.create(f"/api/v1/namespaces/{HOME}/secrets", body)
        source = {"kind": "Secret", "name": word}
        rig.rule(word, {"source": source, "targets": {"namespaces": [f"{word}-*"]}})
        self.word = word

    def change(self) -> None:
        """Edit the source."""
        self._value = base64.b64encode(f"step {next(self._serial)}".encode()).decode()
        self.rig.api.patch(self._path, {"data": {"step": self._value}})

    def right(self) -> bool:
        """Whether all copies hold the value."""
        found = (
            self.rig.found(f"/api/v1/namespaces/{name}/secrets/{self.word}")
            for name in self.targets
        )
        return all(one and one["data"].get("step") == self._value for one in found)

    def seconds(self, since: float) -> float:
        """Wait until all are right; seconds since a moment (time.monotonic)."""
        until(self.right, "all copies are right", 120, pause=0.05)
        return time.monotonic() - since


@scenario(
    "take-over",
    "{size} copies; the leader of two replicas is terminated while their source changes",
    size=20,
    runs=3,
    goals={
        "sigterm_seconds": Goal("all copies in sync after SIGTERM", "s", 3.0),
        "sigkill_seconds": Goal("all copies in sync after SIGKILL", "s", 15.0),
    },
    warm_up=False,
)
def take_over(rig: Rig, size: int) -> Iterator[Run]:
    """Until the other replica has done the work, not only until it leads."""
    copies = _Copies(rig, "over", size)

    def ended(number: signal.Signals) -> float:
        leader = _replica(rig, "copyrator-a")
        copies.change()
        copies.seconds(0.0)
        standby = _replica(rig, "copyrator-b")
        try:
            leader.send(number)
            began = time.monotonic()
            copies.change()
            return copies.seconds(began)
        finally:
            leader.stop()
            standby.stop()

    def run() -> Figures:
        return {
            "sigterm_seconds": ended(signal.SIGTERM),
            "sigkill_seconds": ended(signal.SIGKILL),
        }

    yield run


def _replica(rig: Rig, name: str) -> Operator:
    return rig.start(name=name, log=f"{name}.log")


@scenario(
    "outage",
    "{size} copies; API server and etcd are killed and start again after 5 s",
    size=20,
    runs=3,
    goals={"right_seconds": Goal("all copies in sync after their return", "s", 60.0)},
    warm_up=False,
)
def outage(rig: Rig, size: int) -> Iterator[Run]:
    """Counted from when the API server is ready; its own start isn't ours."""
    copies = _Copies(rig, "outage", size)
    with rig.operator():

        def run() -> Figures:
            copies.change()
            copies.seconds(0.0)
            for component in ("kube-apiserver", "etcd"):
                rig.cluster.kill(component)
            time.sleep(AWAY)
            for component in ("etcd", "kube-apiserver"):
                rig.cluster.restart(component)
            began = time.monotonic()
            copies.change()
            return {"right_seconds": copies.seconds(began)}

        yield run


@scenario(
    "faults",
    "{size} copies; a proxy before the API server misbehaves in various ways, for 10 s each",
    size=20,
    runs=1,
    goals={
        "worst_seconds": Goal("all copies in sync after the end of a fault, at worst", "s", 30.0),
        **{name: Goal(f"… {name}", "s", detail=True) for name in FAULTS},
    },
    warm_up=False,
)
def faults(rig: Rig, size: int) -> Iterator[Run]:
    """The source is edited when a fault begins, in its midst, and when it ends."""
    copies = _Copies(rig, "faults", size)
    with FaultProxy(rig.cluster) as proxy, tempfile.TemporaryDirectory() as home:
        through = proxy.kubeconfig(rig.operator_kubeconfig, Path(home) / "config")
        with rig.operator(kubeconfig=through) as operator:

            def after(name: str) -> float:
                copies.change()
                copies.seconds(0.0)
                with ExitStack() as lasting:
                    for fault, chosen in FAULTS[name]:
                        lasting.enter_context(proxy.fault(fault, chosen))
                    copies.change()
                    time.sleep(FAULT / 2)
                    copies.change()
                    time.sleep(FAULT / 2)
                began = time.monotonic()
                copies.change()
                took = copies.seconds(began)
                if operator.ended:
                    raise BenchError(f"the operator has ended: {operator.tail()}")
                return took

            def run() -> Figures:
                took = {name: after(name) for name in FAULTS}
                return {"worst_seconds": max(took.values()), **took}

            yield run


@scenario(
    "blind",
    "An idle operator whose watches all go silent, or whose credentials are refused",
    size=1,
    runs=1,
    goals={
        "silent_seconds": Goal("until /readyz fails: watches", "s", 60.0),
        "refused_seconds": Goal("until /readyz fails: credentials", "s", 60.0),
    },
    warm_up=False,
)
def blind(rig: Rig, _size: int) -> Iterator[Run]:
    """An operator and a proxy for each fault."""

    def seconds(fault: Fault, chosen: Chosen, *, cut: bool) -> float:
        with FaultProxy(rig.cluster) as proxy, tempfile.TemporaryDirectory() as home:
            through = proxy.kubeconfig(rig.operator_kubeconfig, Path(home) / "config")
            with rig.operator(kubeconfig=through) as operator:

                def red() -> bool:
                    return bool(operator.page("/healthz")) and not operator.page("/readyz")

                began = time.monotonic()
                with proxy.fault(fault, chosen, cut=cut):
                    until(red, "/readyz fails", 180, pause=0.1)
                    return time.monotonic() - began

    def run() -> Figures:
        return {
            "silent_seconds": seconds(silent, only("watch"), cut=True),
            "refused_seconds": seconds(answers(401, "Unauthorized"), everything, cut=False),
        }

    yield run


@scenario(
    "control-plane",
    "The local control plane starts",
    size=1,
    runs=3,
    goals={"seconds": Goal("until it is ready", "s", 10.0)},
    warm_up=False,
)
def control_plane(rig: Rig, _size: int) -> Iterator[Run]:
    """What every developer waits for."""
    rig.tell("another control plane is started, and another")

    def run() -> Figures:
        with tempfile.TemporaryDirectory() as home:
            began = time.monotonic()
            with Cluster.start(Path(home) / "timed"):
                return {"seconds": time.monotonic() - began}

    yield run
