"""Life with many copies: restarts, idleness, drift, and a cluster full of others' Secrets."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager

from bench.objects import from_labelled, namespace, secret, secret_path, to_labelled
from bench.rig import RULES, Rig, until, writes
from bench.scenario import Figures, Goal, Run, scenario

SOURCES = 100
IDLE_SECONDS = 300.0
STRANGER_SPACES = 50


@contextmanager
def fleet(rig: Rig, copies: int, *, each: bool = False) -> Iterator[list[str]]:
    """100 sources in so many namespaces that there are so many copies; yields the namespaces.

    One rule copies them all, or ``each`` has a rule of its own.
    """
    label = f"fleet-{copies}"
    spaces = [f"{label}-{number:05}" for number in range(max(copies // SOURCES, 1))]
    source = f"{label}-source"
    names = [f"source-{number:03}" for number in range(SOURCES)]
    sources = {label: from_labelled(source, label)}
    if each:
        kind = {"kind": "Secret", "namespace": source}
        sources = {f"{label}-{name}": {**kind, "name": name} for name in names}
    if rig.found(f"/api/v1/namespaces/{source}") is None:
        rig.tell(f"{copies} copies are made")
        rig.namespaces(source)
        labels = {label: "yes"}
        rig.bare("POST", [(secret_path(source), secret(name, labels=labels)) for name in names])
        rig.bare("POST", [namespace(space, labels) for space in spaces])
    for rule, chosen in sources.items():
        rig.rule(rule, {"source": chosen, "targets": to_labelled(label)})
    with rig.operator():
        count = len(spaces) * SOURCES
        until(lambda: rig.all_copies() == count, f"{count} copies", 60 + count / 50)
    try:
        yield spaces
    finally:
        with rig.operator():
            for rule in sources:
                rig.api.delete(f"{RULES}/{rule}")
            until(lambda: not rig.api.get(RULES)["items"], "the rules are gone", 600)


RESTART = {
    "writes": Goal("writes", "", 0.0),
    "ready_seconds": Goal("ready after", "s", 3.0),
    "requests": Goal("requests in the first 15 s", "", 60.0),
    "cpu_seconds": Goal("CPU time in the first 15 s", "s"),
    "rss_mb": Goal("memory afterwards", "MB"),
    "peak_mb": Goal("memory, peak", "MB", 400.0),
}


@scenario(
    "restart",
    "A restart with {size} copies in sync",
    size=10_000,
    runs=5,
    goals=RESTART,
    warm_up=False,
)
def restart(rig: Rig, size: int) -> Iterator[Run]:
    """The operator is replaced, and nobody notices."""
    return _restarts(rig, size, settle=15)


@scenario(
    "large-restart",
    "A restart with {size} copies in sync",
    size=100_000,
    runs=3,
    goals={
        **RESTART,
        "ready_seconds": Goal("ready after", "s", 30.0),
        "requests": Goal("requests in the first 60 s", ""),
        "cpu_seconds": Goal("CPU time in the first 60 s", "s"),
    },
    warm_up=False,
)
def large_restart(rig: Rig, size: int) -> Iterator[Run]:
    """The same with ten times as many."""
    return _restarts(rig, size, settle=60)


def _restarts(rig: Rig, size: int, *, settle: float) -> Iterator[Run]:
    with fleet(rig, size):

        def run() -> Figures:
            since = rig.cluster.audit_offset()
            with rig.operator() as operator:
                time.sleep(settle)
                seen = rig.asked(since)
                return {
                    "writes": writes(seen),
                    "ready_seconds": operator.ready_after,
                    "requests": len(seen),
                    "cpu_seconds": operator.cpu,
                    "rss_mb": operator.rss,
                    "peak_mb": operator.peak,
                }

        yield run


@scenario(
    "idle",
    "Five minutes with {size} copies and no changes",
    size=10_000,
    runs=1,
    goals={
        "writes": Goal("writes, without the Lease's", "", 0.0),
        "cpu_percent": Goal("share of a core", "%", 1.0),
        "requests_a_minute": Goal("requests per minute, without the Lease's", ""),
        "rss_mb": Goal("memory", "MB"),
    },
    warm_up=False,
)
def idle(rig: Rig, size: int) -> Iterator[Run]:
    """What it costs to have it."""
    with fleet(rig, size), rig.operator() as operator:

        def run() -> Figures:
            time.sleep(15)
            cpu, since = operator.cpu, rig.cluster.audit_offset()
            time.sleep(IDLE_SECONDS)
            seen = rig.asked(since)
            return {
                "writes": writes(seen),
                "cpu_percent": 100 * (operator.cpu - cpu) / IDLE_SECONDS,
                "requests_a_minute": 60 * len(seen) / IDLE_SECONDS,
                "rss_mb": operator.rss,
            }

        yield run


@scenario(
    "drift",
    "{size} copies, up to 200 of which are edited and restored",
    size=10_000,
    runs=1,
    goals={
        "p50_ms": Goal("edit to restored, median", "ms"),
        "p99_ms": Goal("edit to restored, 99th percentile", "ms", 500.0),
        "writes_an_edit": Goal("writes per edit", "", 1.0),
    },
    warm_up=False,
)
def drift(rig: Rig, size: int) -> Iterator[Run]:
    """Somebody edits what the rule keeps."""
    with fleet(rig, size) as spaces, rig.operator():
        chosen = random.Random(7)  # noqa: S311 - not for secrets

        def run() -> Figures:
            places = [
                (chosen.choice(spaces), f"source-{chosen.randrange(SOURCES):03}")
                for _ in range(200)
            ]
            places = list(dict.fromkeys(places))
            since = rig.cluster.audit_offset()
            for space, name in places:
                rig.api.patch(secret_path(space, name), {"data": {"turn": "ZWRpdGVk"}})
                time.sleep(0.05)
            until(lambda: len(rig.written(since, rig.user)) >= len(places), "all edits are healed")
            time.sleep(2)
            events = [e for e in rig.cluster.audit_events(since) if e.resource == "secrets"]
            edited = {(e.namespace, e.name): e.ended for e in events if e.verb == "patch"}
            healed = rig.written(since, rig.user)
            times = [1000 * (e.ended - edited[e.namespace, e.name]) for e in healed]
            return {
                "p50_ms": statistics.median(times),
                "p99_ms": statistics.quantiles(times, n=100)[98],
                "writes_an_edit": len(healed) / len(places),
            }

        yield run


@scenario(
    "strangers",
    "{size} unmanaged Secrets of 2 KB",
    size=50_000,
    runs=3,
    goals={
        "more_mb": Goal("additional memory", "MB", 5.0),
        "lists": Goal("lists of all Secrets", "", 0.0),
        "rss_mb": Goal("memory", "MB"),
    },
    warm_up=False,
)
def strangers(rig: Rig, size: int) -> Iterator[Run]:
    """The cluster is full, and it doesn't matter."""
    rig.namespaces("strangers-source")
    rig.api.create(secret_path("strangers-source"), secret("one"))
    spaces = [f"strangers-{number:03}" for number in range(STRANGER_SPACES)]
    rig.bare("POST", [namespace(space, {}) for space in spaces])
    rig.rule(
        "strangers",
        {
            "source": {"kind": "Secret", "namespace": "strangers-source", "name": "one"},
            "targets": to_labelled("strangers-target"),
        },
    )
    without = min(_settled(rig)[0] for _ in range(3))
    rig.tell(f"{size} unrelated Secrets are made")
    names = [f"stranger-{number:05}" for number in range(size // STRANGER_SPACES)]
    for space in spaces:
        rig.bare("POST", [(secret_path(space), secret(name)) for name in names])

    def run() -> Figures:
        rss, lists = _settled(rig)
        return {"more_mb": rss - without, "lists": lists, "rss_mb": rss}

    yield run
    for space in spaces:
        rig.api.delete(f"/api/v1/namespaces/{space}")


def _settled(rig: Rig) -> tuple[float, int]:
    """Memory after a start, and how many lists of Secrets weren't filtered by the server."""
    since = rig.cluster.audit_offset()
    with rig.operator() as operator:
        time.sleep(10)
        lists = [
            event
            for event in rig.seen(since, rig.user)
            if event.verb in ("list", "watch")
            and event.resource == "secrets"
            and "Selector=" not in event.uri
        ]
        return operator.rss, len(lists)


POD = {
    "pss_mb": Goal("memory (PSS)", "MB", 58.0),
    "rss_mb": Goal("memory (RSS)", "MB"),
    "peak_mb": Goal("memory (RSS), peak", "MB"),
}


@scenario(
    "pod",
    "The operator in a pod, without rules and Bundles, 60 s after it is ready",
    size=1,
    runs=5,
    goals=POD,
    warm_up=False,
)
def pod(rig: Rig, size: int) -> Iterator[Run]:  # noqa: ARG001 - it is empty
    """What it costs to have it installed."""
    yield lambda: _rest_in_a_pod(rig)


@scenario(
    "pod-copies",
    "The operator in a pod, with {size} copies of 100 rules in sync, 60 s after it is ready",
    size=10_000,
    runs=5,
    goals={**POD, "pss_mb": Goal("memory (PSS)", "MB", 70.0)},
    warm_up=False,
)
def pod_copies(rig: Rig, size: int) -> Iterator[Run]:
    """And with what a large cluster has."""
    with fleet(rig, size, each=True):
        yield lambda: _rest_in_a_pod(rig)


def _rest_in_a_pod(rig: Rig) -> Figures:
    """Without a kubeconfig, the operator doesn't load the Kubernetes client."""
    with rig.operator(pod=True) as operator:
        time.sleep(60)
        return {"pss_mb": operator.pss, "rss_mb": operator.rss, "peak_mb": operator.peak}


@scenario(
    "base",
    "The operator with {size} rule and {size} Bundle",
    size=1,
    runs=5,
    goals={
        "ready_seconds": Goal("start to ready", "s", 2.0),
        "rss_mb": Goal("memory", "MB", 90.0),
        "peak_mb": Goal("memory, peak", "MB"),
    },
    warm_up=False,
)
def base(rig: Rig, size: int) -> Iterator[Run]:
    """What it costs to begin."""
    label = "base"
    rig.namespaces("base-source", "base-target", labels={label: "yes"})
    for number in range(size):
        rig.api.create(secret_path("base-source"), secret(f"base-{number}"))
        source = {"kind": "Secret", "namespace": "base-source", "name": f"base-{number}"}
        rig.rule(f"base-{number}", {"source": source, "targets": {"namespaces": ["base-target"]}})
        rig.bundle(f"base-{number}", "bench/base", "1.0.0", suspend=True)

    def run() -> Figures:
        with rig.operator() as operator:
            time.sleep(10)
            return {
                "ready_seconds": operator.ready_after,
                "rss_mb": operator.rss,
                "peak_mb": operator.peak,
            }

    yield run
    with rig.operator():
        for number in range(size):
            rig.end_rule(f"base-{number}")
            rig.end_bundle(f"base-{number}")
            rig.api.delete(secret_path("base-source", f"base-{number}"))
