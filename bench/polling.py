"""Bundles: what polling costs, and how long a push waits."""

from __future__ import annotations

import itertools
import json
import random
import re
import statistics
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from bench.process import BenchError, Operator
from bench.rig import BUNDLES, Rig, free_port, until, writes
from bench.scenario import Figures, Goal, Run, scenario
from demo.chart import ROOT
from localcluster.bundle import junk_tags, push

CHART = ROOT / "examples" / "charts" / "hello"
INTERVAL = 60.0
_ANSWERED = re.compile(r'\[(?P<time>[^\]]+)\] "HEAD (?P<url>\S+/manifests/\S+) HTTP/1\.1" 200 ')
"""Of the registry's access log, which tells whole seconds: it logs no HEAD anywhere else."""
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@scenario(
    "repositories",
    "{size} Bundles of {size} repositories, polled every minute, for three minutes",
    size=1000,
    runs=1,
    goals={
        "cpu_a_minute": Goal("CPU time per minute", "s", 2.0),
        "writes": Goal("writes, without the Lease's", "", 0.0),
        "heads_a_minute": Goal("HEAD requests per minute", ""),
        "heads_a_poll": Goal("requests per poll", "", 1.0),
        "busiest": Goal("busiest second, against the mean", "times", 1.5),
        "late_p99": Goal("lateness of a poll, 99th percentile", "s", 2.0),
        "rss_mb": Goal("memory", "MB", 200.0),
    },
    warm_up=False,
)
def repositories(rig: Rig, size: int) -> Iterator[Run]:
    """A Bundle in each of many repositories; their deploys are suspended: nothing has to run."""
    rig.tell(f"{size} repositories are filled")
    repos = [f"many/app-{number:04}" for number in range(size)]
    for repo in repos:
        push(CHART, rig.cluster.registry, repo, "1.0.0")
    yield from _polled(rig, [("1.0.0", repo) for repo in repos], "many")


@scenario(
    "one-repository",
    "{size} Bundles of one repository, polled every minute, for three minutes",
    size=1000,
    runs=1,
    goals={
        "cpu_a_minute": Goal("CPU time per minute", "s"),
        "writes": Goal("writes, without the Lease's", "", 0.0),
        "heads_a_minute": Goal("requests per minute", "", 1.0),
        "rss_mb": Goal("memory", "MB", 200.0),
    },
    warm_up=False,
)
def one_repository(rig: Rig, size: int) -> Iterator[Run]:
    """One poll is enough for all."""
    push(CHART, rig.cluster.registry, "one/app", "1.0.0")
    yield from _polled(rig, [("1.0.0", "one/app")] * size, "one")


def _polled(rig: Rig, wanted: list[tuple[str, str]], word: str) -> Iterator[Run]:
    names = [f"{word}-{number:04}" for number in range(len(wanted))]
    rig.tell(f"{len(names)} Bundles are made")
    for name, (version, repo) in zip(names, wanted, strict=True):
        rig.bundle(name, repo, version, suspend=True, interval="60s")
    log = rig.cluster.layout.logs / "registry.log"
    with rig.operator() as operator:
        until(lambda: _all_seen(operator, len(names)), "all Bundles have been polled", 300)
        time.sleep(INTERVAL)

        def run() -> Figures:
            cpu, since, at = operator.cpu, rig.cluster.audit_offset(), log.stat().st_size
            time.sleep(3 * INTERVAL)
            times = _heads(log, at)
            if not times:
                raise BenchError(f"no poll stands in the registry's log: {log}")
            seen = rig.asked(since)
            figures = {
                "cpu_a_minute": (operator.cpu - cpu) / 3,
                "writes": float(writes(seen)),
                "heads_a_minute": sum(map(len, times.values())) / 3,
                "rss_mb": operator.rss,
            }
            if len(times) > 1:
                gaps = [b - a for found in times.values() for a, b in itertools.pairwise(found)]
                late = [max(gap - INTERVAL, 0.0) for gap in gaps]
                seconds = Counter(int(moment) for found in times.values() for moment in found)
                # What comes within half an interval belongs to the same poll.
                polls = len(times) + sum(gap > INTERVAL / 2 for gap in gaps)
                figures |= {
                    "heads_a_poll": sum(map(len, times.values())) / polls,
                    "busiest": max(seconds.values()) / (polls / (3 * INTERVAL)),
                    "late_p99": statistics.quantiles(late, n=100)[98],
                }
            return figures

        yield run


def _all_seen(operator: Operator, count: int) -> bool:
    return operator.metric("copyrator_bundles") >= count


def _heads(log: Path, since: int) -> dict[str, list[float]]:
    """When each manifest was asked for, by its URL, from the registry's own log."""
    found: dict[str, list[float]] = {}
    with log.open("rb") as lines:
        lines.seek(since)
        for raw in lines:
            moment, url = _request(raw.decode(errors="replace"))
            if url:
                found.setdefault(url, []).append(moment)
    return found


def _request(line: str) -> tuple[float, str]:
    """When a HEAD of a manifest was answered (whole seconds), and its URL; else empty."""
    said = _ANSWERED.search(line)
    if said is None:
        return 0.0, ""
    moment = datetime.strptime(said["time"], "%d/%b/%Y:%H:%M:%S %z")
    return moment.timestamp(), said["url"]


@scenario(
    "tags",
    "A range in a repository of {size} tags",
    size=20_000,
    runs=1,
    goals={"more_mb": Goal("memory above idle, at its peak", "MB", 30.0)},
    warm_up=False,
)
def tags(rig: Rig, size: int) -> Iterator[Run]:
    """What werf's stages storage leaves in a repository, and a few versions."""
    rig.tell(f"{size} tags are set")
    push(CHART, rig.cluster.registry, "big/app", "1.2.3")
    junk_tags(size - 1, rig.cluster.registry, "big/app", "1.2.3")
    with rig.operator() as operator:

        def run() -> Figures:
            time.sleep(10)
            idle = operator.rss
            operator.forget_peak()
            rig.bundle("tags", "big/app", ">=1.0 <2", suspend=True, interval="10s")
            until(lambda: _available(rig, "tags") == "1.2.3", "the range is resolved", 120)
            time.sleep(25)
            peak = operator.peak
            rig.end_bundle("tags")
            return {"more_mb": peak - idle}

        yield run


def _available(rig: Rig, name: str) -> str:
    status = (rig.found(f"{BUNDLES}/{name}") or {}).get("status") or {}
    return str((status.get("available") or {}).get("version", ""))


@scenario(
    "push",
    "{size} pushes, each until its Job exists: with polling every 10 s, and with the webhook",
    size=10,
    runs=1,
    goals={
        "polled_seconds": Goal("with polling, median", "s", 6.0),
        "webhook_seconds": Goal("with the webhook, median", "s", 1.0),
    },
    warm_up=False,
)
def pushes(rig: Rig, size: int) -> Iterator[Run]:
    """How long what was pushed waits."""
    token = "a-secret-of-the-benchmark"  # noqa: S105 - of a throw-away cluster
    secret = rig.cluster.layout.config / "webhook-secret"
    secret.write_text(token)

    def run() -> Figures:
        with rig.operator("--timer-idle", "0"):
            polled = _push_many(rig, "polled", "10s", size)
        port = free_port()
        hook = ("--webhook-port", str(port), "--webhook-secret-file", str(secret))
        with rig.operator(*hook, "--timer-idle", "0"):
            called = _push_many(rig, "hooked", "10m", size, hook=(port, token))
        return {
            "polled_seconds": statistics.median(polled),
            "webhook_seconds": statistics.median(called),
        }

    yield run


def _push_many(
    rig: Rig,
    name: str,
    interval: str,
    count: int,
    *,
    hook: tuple[int, str] | None = None,
) -> list[float]:
    """Seconds from the end of each push until the API server made the Job."""
    repo, chosen = f"pushed/{name}", random.Random(7)  # noqa: S311 - not for secrets
    push(CHART, rig.cluster.registry, repo, "1.0.0")
    rig.bundle(name, repo, "1.0.*", interval=interval)
    until(lambda: _deployed(rig, name) == "1.0.0", "the first deploy", 120)
    seconds = []
    for number in range(1, count + 1):
        time.sleep(chosen.uniform(0, 10))
        since = rig.cluster.audit_offset()
        tag = f"1.0.{number}"
        push(CHART, rig.cluster.registry, repo, tag)
        pushed = time.time()
        if hook:
            _call(hook, rig.cluster.registry, repo, tag)
        until(lambda tag=tag: _deployed(rig, name) == tag, f"{tag} is deployed", 120)  # type: ignore[misc]
        jobs = [e for e in rig.seen(since, rig.user) if (e.verb, e.resource) == ("create", "jobs")]
        seconds.append(jobs[0].ended - pushed)
    rig.end_bundle(name)
    return seconds


def _call(hook: tuple[int, str], registry: str, repo: str, tag: str) -> None:
    port, token = hook
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/hooks/registry",
        json.dumps({"registry": registry, "repository": repo, "tag": tag}).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    _DIRECT.open(request, timeout=5).close()


def _deployed(rig: Rig, name: str) -> str:
    status = (rig.found(f"{BUNDLES}/{name}") or {}).get("status") or {}
    return str((status.get("deploy") or {}).get("version", ""))
