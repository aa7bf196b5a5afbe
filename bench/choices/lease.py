"""The operator's leader election against the one of kubernetes.aio."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from aiohttp import web
from tests.e2e.faults.proxy import Exchange, FaultProxy, delays, only

from bench.choices.child import Child
from bench.choices.lease_child import SIDES
from bench.choices.sides import Sides
from bench.process import BenchError
from bench.rig import HOME, Rig, until
from bench.scenario import Figures, Run, scenario

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{HOME}/leases"

STEADY = 30.0
HANGS = 30.0
"""Seconds that no answer comes; far more than the deadline of 7."""
BREAKS = 3.0
"""Seconds that every connection breaks; less than the deadline."""


@scenario(
    "choices-lease",
    "Leader election, {size} candidates",
    size=2,
    runs=1,
    goals={},
    warm_up=False,
    group="choices",
)
def lease(rig: Rig, _size: int) -> Iterator[Run]:
    """A Lease of 10 s, renewed every 2 s, for 7 s at most without an answer."""

    def run() -> Figures:
        sides = Sides()
        with FaultProxy(rig.cluster) as broken:
            kubeconfig = rig.cluster.layout.config / "choices-lease"
            broken.kubeconfig(rig.bare_kubeconfig, kubeconfig)
            for number, side in enumerate(SIDES):
                sides.add(side, _tried(rig, broken, side, kubeconfig, f"choices-{number}"))
        return sides.figures

    yield run


class Candidate(Child):
    """A candidate, and what it said."""

    def __init__(self, side: str, kubeconfig: Path, lease_: str, identity: str, log: Path) -> None:
        log.write_text("")
        super().__init__("lease_child", [side, str(kubeconfig), lease_, identity], log)

    def said(self, word: str, since: float = 0.0) -> float | None:
        """When it first said a word, after a moment."""
        for line in self.log.read_text().splitlines():
            with suppress(ValueError):
                at, what = line.split()
                if what == word and float(at) >= since:
                    return float(at)
        return None


def _tried(
    rig: Rig, broken: FaultProxy, side: str, kubeconfig: Path, name: str
) -> dict[str, float]:
    logs = rig.cluster.layout.logs
    first = Candidate(side, kubeconfig, name, "first", logs / f"{name}-first.log")
    try:
        until(lambda: first.said("leads") or first.ended, f"{side} leads")
        creates = not first.ended
        if not creates:
            rig.tell(f"{side} ends:\n{first.tail()}")
            rig.api.create(LEASES, {"metadata": {"name": name}, "spec": {}})
            first = Candidate(side, kubeconfig, name, "first", logs / f"{name}-first.log")
            until(lambda: first.said("leads"), f"{side} leads with a Lease that is there")
        figures = {"makes its Lease": float(creates)} | _steady(rig, first)
        with broken.fault(_breaks, only(of=("leases",))):
            time.sleep(BREAKS)
        time.sleep(4.0)
        figures["connections break for 3 s: still runs"] = float(not first.ended)
        if first.ended:
            first = Candidate(side, kubeconfig, name, "first", logs / f"{name}-again.log")
            until(lambda: first.said("leads"), f"{side} leads again")
        second = Candidate(side, kubeconfig, name, "second", logs / f"{name}-second.log")
        try:
            time.sleep(4.0)
            began = time.monotonic()
            first.send(signal.SIGTERM)
            until(lambda: second.said("leads", began), "the second leads", pause=0.1)
            figures["SIGTERM: seconds until another leads"] = _since(second, "leads", began)
            figures |= _hang(broken, second)
        finally:
            second.stop()
    finally:
        first.stop()
    return figures


def _steady(rig: Rig, candidate: Candidate) -> dict[str, float]:
    time.sleep(2.0)
    cpu, since = candidate.cpu, rig.cluster.audit_offset()
    time.sleep(STEADY)
    asked = [event for event in rig.seen(since, rig.bare_user) if event.resource == "leases"]
    return {
        "requests a minute": len(asked) * 60 / STEADY,
        "CPU a minute, ms": 1000 * (candidate.cpu - cpu) * 60 / STEADY,
        "memory, MB": candidate.rss,
    }


def _hang(broken: FaultProxy, candidate: Candidate) -> dict[str, float]:
    """No answer comes any more: whoever leads has to stop by itself."""
    time.sleep(4.0)
    began = time.monotonic()
    with broken.fault(delays(600), only(of=("leases",))):
        with suppress(BenchError):
            until(lambda: candidate.said("lost", began), "it stops leading", HANGS, pause=0.1)
        return {
            f"no answer: seconds until it stops leading (at most {HANGS:.0f} are waited for)": (
                _since(candidate, "lost", began)
            )
        }


def _since(candidate: Candidate, word: str, began: float) -> float:
    return (candidate.said(word, began) or time.monotonic()) - began


async def _breaks(exchange: Exchange) -> web.StreamResponse:
    """The connection breaks before an answer."""
    exchange.abort()
    return web.Response(status=502)
