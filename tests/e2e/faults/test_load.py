"""Many copies under constant change and failing requests: right, in time, in flat memory."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import secrets
import signal
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import mean

import pytest
from tests.e2e.faults.load import Load, Pace, load
from tests.e2e.faults.proxy import FaultProxy, fails_somehow
from tests.e2e.installation import install, uninstall
from tests.e2e.operator_process import OperatorProcess
from tests.e2e.vanishing import sweep
from tests.long import LONG

from localcluster import Cluster


@dataclass(frozen=True)
class Size:
    namespaces: int
    sources: int
    seconds: float
    pace: Pace
    settled: float
    """Seconds within which all copies are made, and all is right after the last change."""


SMALL = Size(15, 6, 9, Pace(sources=1.0, namespaces=1.0, copies=0.5), settled=120)
LARGE = Size(2000, 50, 600, Pace(sources=10.0, namespaces=1.0, copies=0.5), settled=900)
if chosen := os.environ.get("COPYRATOR_LOAD"):
    """`namespaces,sources,seconds`, for a machine that has less time."""
    LARGE = dataclasses.replace(
        LARGE,
        **dict(zip(("namespaces", "sources", "seconds"), map(int, chosen.split(",")), strict=True)),
    )
SIZE = LARGE if LONG else SMALL
OLDEST = 60.0
GROWTH = 1.10
ONE_IN = 20
"""Of so many of the operator's requests one fails while things change."""


@dataclass(frozen=True)
class Sample:
    """The operator at one moment."""

    resident: int
    """Bytes."""
    oldest: float
    """Seconds that the key which is due longest has waited."""
    writes: float


def one_in(count: int, random: Random) -> Iterator[bool]:
    """True once in each so many."""
    while True:
        chosen = random.randrange(count)
        yield from (number == chosen for number in range(count))


async def watch(process: OperatorProcess, samples: list[Sample]) -> None:
    while True:
        await asyncio.sleep(1)
        _, page = await asyncio.to_thread(process.get, "/metrics")
        lines = (line.rsplit(" ", 1) for line in page.splitlines() if line[0] != "#")
        metrics = {name.removeprefix("copyrator_"): float(value) for name, value in lines}
        samples.append(
            Sample(
                resident=process.resident,
                oldest=metrics["queue_oldest_seconds"],
                writes=sum(metrics[name] for name in metrics if name.startswith("copy_writes")),
            )
        )


async def settled(work: Load, seconds: float) -> float:
    """Wait until the rules say that all is right and it is; returns the seconds that it took.

    Both, because the statuses know nothing yet of what was changed a moment ago.
    """
    began = time.monotonic()
    while (left := await work.unsettled()) or (left := await work.faults()):
        assert time.monotonic() - began < seconds, left
        await asyncio.sleep(1)
    return time.monotonic() - began


@pytest.mark.timeout(4 * SIZE.settled + SIZE.seconds)
async def test_keeps_up(cluster: Cluster, tmp_path: Path) -> None:
    home = f"op-{secrets.token_hex(3)}"
    kubeconfig = install(cluster, home)
    word = f"l{secrets.token_hex(3)}"
    settings = {"NAMESPACE": home, "COPYRATOR_KINDS": "Secret", "POD_NAME": "copyrator-0"}
    random = Random(secrets.randbelow(10**9))
    async with AsyncExitStack() as stack:
        stack.callback(uninstall, cluster, home)
        stack.callback(sweep, cluster, word)
        proxy = stack.enter_context(FaultProxy(cluster))
        led = proxy.kubeconfig(kubeconfig, tmp_path / "kubeconfig")
        process = stack.enter_context(
            OperatorProcess(led, tmp_path / "operator.log", settings=settings)
        )
        await asyncio.to_thread(process.wait_ready)
        async with load(cluster.api(), home, word, random) as work:
            began = time.monotonic()
            await work.begin(SIZE.namespaces, SIZE.sources)
            await settled(work, SIZE.settled)
            say(f"{work.wanted} copies made in {time.monotonic() - began:.0f} s")
            samples: list[Sample] = []
            watching = asyncio.create_task(watch(process, samples))
            since = time.monotonic()
            turns = one_in(ONE_IN, random)
            failing = proxy.fault(fails_somehow(random), lambda _: next(turns), cut=False)
            with failing:
                await work.go_on(SIZE.seconds, SIZE.pace)
            asked, failed = len(proxy.since(since)), len(proxy.met(since))
            took = await settled(work, SIZE.settled)
            watching.cancel()
            third = len(samples) // 3
            memory = [mean(s.resident for s in samples[n * third :][:third]) for n in range(3)]
            oldest = max(sample.oldest for sample in samples)
            say(f"{work.changes} changes, {samples[-1].writes - samples[0].writes:.0f} writes")
            say(f"{failed} of {asked} requests failed")
            say(f"right {took:.1f} s after the last, oldest key {oldest:.1f} s")
            say("memory by thirds " + ", ".join(f"{part / 1e6:.1f} MB" for part in memory))
            assert await work.faults() == []
            assert failed > asked / ONE_IN / 2
            assert oldest < OLDEST
            assert memory[2] < memory[1] * GROWTH
        assert process.stop(signal.SIGTERM) == 0
        assert "Traceback" not in process.log


def say(what: str) -> None:
    print(what)  # noqa: T201 - the figures of docs/reliability.md
