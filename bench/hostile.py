"""A trusted rule among hostile neighbours: how long new namespaces wait, and a restart."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.objects import secret, secret_path
from bench.rig import Rig, until
from bench.scenario import Figures, Goal, Run, scenario
from hostile.bad import Places
from hostile.neighbours import Plan, neighbours
from hostile.newcomers import Newcomers, bare_client, percentile, waits, whoami

QUIET_SECONDS = 60.0
WORD = "newcomer"
ONE = {"secrets": 1}
PLACES = Places(("evil-0", "evil-1"), (f"{WORD}-forged-0",), "victim", "copyrator/hostile", "")


@scenario(
    "hostile",
    "A new namespace each second for {size} s, with malformed objects and a misbehaving registry",
    size=300,
    runs=1,
    goals={
        "p99_seconds": Goal("namespace to copy, 99th percentile", "s", 1.0),
        "p50_seconds": Goal("namespace to copy, median", "s"),
        "bare_p99_seconds": Goal("bare client at the same time, 99th percentile", "s"),
        "quiet_p99_seconds": Goal("without malformed objects, 99th percentile", "s"),
        "quiet_p50_seconds": Goal("without malformed objects, median", "s"),
        "ready_seconds": Goal("ready after a restart with them present", "s", 5.0),
        "first_seconds": Goal("the next new namespace after it", "s"),
        "peak_mb": Goal("memory, peak", "MB", 300.0),
        "bad_mb": Goal("malformed objects written", "MB"),
    },
    warm_up=False,
)
def hostile(rig: Rig, size: int) -> Iterator[Run]:
    """Others do their worst, and it doesn't matter."""
    rig.namespaces("hostile-source", *PLACES.evil, *PLACES.forged, PLACES.victim)
    for name in PLACES.evil:
        account = {"metadata": {"name": "werf"}}
        rig.api.create(f"/api/v1/namespaces/{name}/serviceaccounts", account)
    rig.api.create(secret_path("hostile-source"), secret("hostile"))
    source = {"kind": "Secret", "namespace": "hostile-source", "name": "hostile"}
    rig.rule("hostile", {"source": source, "targets": {"namespaces": [f"{WORD}-*"]}})
    newcomers = Newcomers(rig.api, WORD)
    plan = Plan(str(rig.cluster.state_dir), PLACES, seed=7)

    def run() -> Figures:
        operator = rig.start()
        try:
            time.sleep(5)
            quiet, _ = _waits(rig, newcomers, QUIET_SECONDS)
            operator.forget_peak()
            with neighbours(plan) as running:  # they go on during the restart
                bad, bare = _waits(rig, newcomers, size)
                peak = operator.peak
                operator.stop()
                operator = rig.start()
                first, _ = _waits(rig, newcomers, 1)
                peak = max(peak, operator.peak)
        finally:
            operator.stop()
        assert running.done is not None
        return {
            "p99_seconds": percentile(bad, 0.99),
            "p50_seconds": percentile(bad, 0.5),
            "bare_p99_seconds": percentile(bare, 0.99),
            "quiet_p99_seconds": percentile(quiet, 0.99),
            "quiet_p50_seconds": percentile(quiet, 0.5),
            "ready_seconds": operator.ready_after,
            "first_seconds": first[0],
            "peak_mb": peak,
            "bad_mb": running.done.megabytes,
        }

    yield run


def _waits(rig: Rig, newcomers: Newcomers, seconds: float) -> tuple[list[float], list[float]]:
    """How long each new namespace waited for the operator, and for a bare client beside it."""
    since, ourselves = rig.cluster.audit_offset(), whoami(rig.api)
    found: tuple[dict[str, float], dict[str, float]] = {}, {}
    with bare_client(rig.api, WORD):
        names = newcomers.come(seconds)

        def served() -> bool:
            nonlocal found
            events = rig.cluster.audit_events(since)
            ours, theirs = (waits(events, names, who, ONE) for who in (rig.user, ourselves))
            found = ours, theirs
            return len(ours) == len(theirs) == len(names)

        until(served, "all new namespaces have their copy", 120)
    return list(found[0].values()), list(found[1].values())
