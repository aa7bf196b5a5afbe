"""Whoever writes in one namespace can neither stop nor slow down the operator for others.

Objects of every kind that are as bad as the API server lets them be are written into two
namespaces, with a registry that is as bad, while a trusted rule serves a new namespace each second.

COPYRATOR_HOSTILE=templates,registry chooses categories (hostile.categories.CATEGORIES),
COPYRATOR_HOSTILE_SEED=1 what is random about them, and COPYRATOR_HOSTILE_SECONDS=5,20 for how long
nothing and something bad is written.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.e2e.hostile.stage import Waits, stage
from tests.e2e.operator_process import OperatorProcess, until
from tests.long import LONG

from hostile.categories import CATEGORIES
from hostile.neighbours import Done, neighbours
from hostile.newcomers import percentile
from hostile.registry import STRAYED
from localcluster import Cluster

QUIET, HOSTILE = (60.0, 300.0) if LONG else (5.0, 6.0)
"""Seconds without and with hostile neighbours."""
if chosen := os.environ.get("COPYRATOR_HOSTILE_SECONDS"):
    QUIET, HOSTILE = map(float, chosen.split(","))
TIMES = 3.0
"""How many times as long a namespace may wait for its copies among hostile neighbours."""
FLOOR = 0.3 if LONG else 1.0
"""Seconds: a shorter wait without them is taken for this, and for that of a bare client beside the
operator, because the API server is slower, too, while it takes in their objects."""
SHARES = (0.5, 0.9) if LONG else (0.5,)
"""Of the waits that are compared: among other tests, one in ten says more of those than of this.
`make bench BENCH=hostile` measures the longest ones."""
MEMORY = 300e6
TURNS = 300.0
"""Seconds more within which each sort of object has had its turn, on a machine that is busy."""
PROBE = 2.0
"""Seconds between two liveness probes."""
more = pytest.mark.skipif(not LONG, reason="make test-long: with tenant rules there is more to do")
CHOSEN = tuple(filter(None, os.environ.get("COPYRATOR_HOSTILE", "").split(",")))


@dataclass(slots=True)
class Observed:
    """What is seen of the process, from outside."""

    peak: int = 0
    """Bytes of memory (RSS) at most."""
    unanswered: list[float] = field(default_factory=list)
    """When the liveness probe had no good answer, in seconds since the start."""


@contextmanager
def observing(process: OperatorProcess) -> Iterator[Observed]:
    """Ask the liveness probe every now and then, and look at the memory."""
    seen, over = Observed(), threading.Event()
    began = time.monotonic()

    def watch() -> None:
        while not over.wait(PROBE) and process.code is None:
            seen.peak = max(seen.peak, peak_of(process.pid))
            if process.get("/healthz")[0] != 200:
                seen.unanswered.append(round(time.monotonic() - began, 1))

    thread = threading.Thread(target=watch, name="probes")
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def peak_of(pid: int) -> int:
    """Bytes of memory that a process has held at most."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) * 1024 if found else 0


@pytest.mark.timeout(2 * (QUIET + HOSTILE) + 700)
@pytest.mark.parametrize(
    "tenants",
    [pytest.param(False, id="default", marks=more), pytest.param(True, id="tenant-rules")],
)
def test_they_neither_stop_nor_slow_down_a_trusted_rule(
    cluster: Cluster, tmp_path: Path, tenants: bool
) -> None:
    seed = int(os.environ.get("COPYRATOR_HOSTILE_SEED", secrets.randbelow(10**6)))
    names = set(CHOSEN or CATEGORIES)
    say(f"seed {seed}: COPYRATOR_HOSTILE_SEED={seed} makes the same objects again")
    with stage(cluster) as scene:
        first, second = tmp_path / "first.log", tmp_path / "second.log"
        with scene.operator(first, tenants=tenants) as process:
            process.wait_ready()
            scene.serve(process, 1)
            quiet = scene.serve(process, QUIET)
            with neighbours(scene.plan(seed, CHOSEN)) as running:
                with observing(process) as seen:
                    hostile = scene.serve(process, HOSTILE)
                    until(lambda: names <= set(running.turns), "all sorts had a turn", TURNS)
                assert process.stop() == 0
                with scene.operator(second, tenants=tenants) as again:
                    again.wait_ready()
                    scene.serve(again, 1)
        assert running.done is not None
        tell(quiet, hostile, seen, running.done)
    assert running.done.accepted, "the API server took some"
    assert not running.done.asked[STRAYED], "credentials are for the registry's own challenges"
    for log in (first, second):
        assert complaints(log.read_text(errors="replace")) == []
    assert first.read_text(errors="replace").count("Started:") == 1
    assert seen.unanswered == []
    assert seen.peak < MEMORY
    for share in SHARES:
        before, beside = percentile(quiet.copies, share), percentile(hostile.bare, share)
        most = TIMES * max(before, beside, FLOOR)
        assert percentile(hostile.copies, share) <= most, f"{share:.0%} of the waits"


def complaints(log: str) -> list[str]:
    """What an operator's log says of its own faults."""
    return [line[:1_000] for line in re.findall(r".*Traceback[\s\S]{0,3000}", log)]


def tell(quiet: Waits, hostile: Waits, seen: Observed, done: Done) -> None:
    halves = (("quiet", quiet), ("hostile", hostile))
    for name, waited in [(f"{n} {of}", getattr(w, of)) for n, w in halves for of in w.__slots__]:
        shares = ", ".join(f"{share:.0%} {percentile(waited, share):.3f} s" for share in (0.5, 0.9))
        say(f"{name}: {shares}, all {max(waited):.3f} s")
    say(f"memory at most {seen.peak / 1e6:.0f} MB; probes unanswered at {seen.unanswered}")
    say(f"{done.megabytes:.0f} MB of objects")
    for what in ("accepted", "refused", "milliseconds", "asked"):
        say(f"{what}: {dict(getattr(done, what))}")


def say(what: str) -> None:
    print(what)  # noqa: T201 - shown where the test fails
