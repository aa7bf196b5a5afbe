"""Many Bundles of many repositories at once: what they cost the registry, the API server and us."""

import itertools
import logging
import math
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.component.oci.fake_registry import FakeRegistry
from tests.e2e.bundles.bad_registry import serving
from tests.e2e.bundles.conftest import Operator, Team, make_team, operating
from tests.e2e.operator_process import until
from tests.e2e.vanishing import vanish
from tests.histories import status
from tests.long import LONG

from localcluster import Api, Cluster

log = logging.getLogger(__name__)

COUNT, INTERVAL = (1000, 60) if LONG else (20, 10)
LATE = 2.0
"""Seconds that a poll may be late, but for one in a hundred."""
BUNDLE = 15_000
"""Bytes of memory that a Bundle more may take."""
POLL = 0.004
"""Seconds of CPU that one of a thousand polls a minute may take; the aim is 0.002."""
SHARED = "shared/app"

pytestmark = pytest.mark.timeout(3600 if LONG else 900)


@dataclass
class Registry(FakeRegistry):
    """Wants tokens, and notes when each repository's tag was asked for."""

    auth: str = "bearer"
    heads: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        answer = await super()._serve(request)
        if answer.status == 200 and "/manifests/" in request.path:
            repository = request.path.removeprefix("/v2/").partition("/manifests/")[0]
            self.heads[repository].append(time.time())
        return answer

    def tokens_of(self, repository: str) -> int:
        return sum(path.startswith("/token") and f":{repository}:" in path for path in self.paths)

    @property
    def paths(self) -> list[str]:
        return [path.replace("%3A", ":").replace("%2F", "/") for _, path in self.asked]


@dataclass
class Fleet:
    """Bundles with long histories. They are suspended: it is polls that count here, not Jobs."""

    team: Team
    operator: Operator
    registry: Registry
    count: int = 0

    def grow(self, count: int, repository: Callable[[int], str]) -> None:
        """Add Bundles, and wait until the operator has nothing to say about them any more."""
        numbers = range(self.count, self.count + count)
        for number in numbers:
            self.registry.put(repository(number), "1.0.0", "app")
        with ThreadPoolExecutor(4) as makers:
            list(makers.map(lambda number: self._make(number, repository(number)), numbers))
        self.count += count
        until(self._is_settled, "all Bundles are polled", 900)

    def wait_polls(self) -> None:
        """Wait until each repository is polled again: then the last of them has its rhythm."""
        began, repositories = time.time(), list(self.registry.heads)

        def all_are_polled() -> bool:
            return all(self.registry.heads[one][-1] > began for one in repositories)

        until(all_are_polled, "all repositories are polled again", 3 * INTERVAL)

    def _is_settled(self) -> bool:
        time.sleep(1)  # to look costs more than anything else here
        return all(map(_is_polled, self.bundles()))

    def _make(self, number: int, repository: str) -> None:
        name = f"app-{number}"
        spec = {"version": "1.0.0", "suspend": True, "interval": f"{INTERVAL}s"}
        body = self.team.bundle(name, registry=self.registry.host, repo=repository, **spec)
        history = status(number)
        for field_ in ("nextPollAt", "lastHandledRequest", "observedGeneration", "conditions"):
            del history[field_]
        history["deployed"]["namespace"] = self.team.namespace
        path = self.team.path("bundles", name) + "/status"
        self.team.api.patch(path, {"status": history})
        assert body["metadata"]["generation"] == 1

    def bundles(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self.team.api.get(self.team.path("bundles"))["items"]
        return items

    @property
    def pid(self) -> int:
        return self.operator.process.pid

    def resident(self) -> int:
        """Bytes."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu(self) -> float:
        """Seconds so far."""
        used = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(used[11]) + int(used[12])) / os.sysconf("SC_CLK_TCK")


def _is_polled(bundle: dict[str, Any]) -> bool:
    found = bundle.get("status", {})
    return bool(found.get("nextPollAt") and found.get("observedGeneration") and found["conditions"])


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    registry = Registry()
    with serving(registry):
        yield registry


@pytest.fixture(scope="module")
def fleet(
    cluster: Cluster, api: Api, registry: Registry, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Fleet]:
    """A settled operator with COUNT Bundles of as many repositories, and half as many of one."""
    directory = tmp_path_factory.mktemp("fleet")
    settings = {"WERF_OPERATOR_TIMER_INTERVAL": str(INTERVAL)}
    namespace = f"fleet-{os.getpid()}"
    api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    team = make_team(cluster, api, namespace, directory)
    with operating(cluster, directory / "operator.log", settings) as operator:
        fleet = Fleet(team, operator, registry)
        fleet.grow(COUNT, lambda number: f"team-{number}/app")
        fleet.grow(COUNT // 2, lambda _: SHARED)
        yield fleet
    vanish(cluster, [namespace])


def test_an_uneventful_poll_is_one_head_and_polls_are_spread_evenly(fleet: Fleet) -> None:
    registry, operator = fleet.registry, fleet.operator
    fleet.wait_polls()
    announced = {
        bundle["spec"]["repo"]: datetime.fromisoformat(bundle["status"]["nextPollAt"]).timestamp()
        for bundle in fleet.bundles()
    }
    requests, asked = fleet.team.cluster.requests(), len(registry.asked)
    started, used = time.time(), fleet.cpu()
    time.sleep(2 * INTERVAL + 3)
    ended, used = time.time(), fleet.cpu() - used

    heads = {
        name: [at for at in moments if started < at <= started + 2 * INTERVAL + 3]
        for name, moments in registry.heads.items()
    }
    polls = sorted(itertools.chain.from_iterable(heads.values()))
    late = sorted(
        (at - announced[name]) % INTERVAL for name, moments in heads.items() for at in moments
    )
    seconds = [
        sum(second <= at < second + 1 for at in polls)
        for second in range(math.ceil(started), int(ended))
    ]
    p99 = late[int(len(late) * 0.99)]
    figures = (
        f"{len(polls)} polls in {ended - started:.0f} s, busiest second {max(seconds)}, lateness "
        f"p99 {p99:.2f} s, {used / len(polls) * 1000:.2f} ms CPU each"
    )
    log.info(figures)

    assert len(heads) == COUNT + 1  # the shared one is asked for as often as any other
    fewest = 2 if LONG else 1  # a busy machine may be late, by which a poll is outside
    assert all(fewest <= len(moments) <= 3 for moments in heads.values()), figures
    places = Counter(int(at) % INTERVAL for at in announced.values())
    mean = COUNT / INTERVAL
    assert max(places.values()) <= math.ceil(max(1.5 * mean, mean + 2)), figures
    others = [one for one in registry.asked[asked:] if one[0] != "HEAD"]
    assert others == [] or LONG  # tokens live for 300 s
    assert requests.writes(user=operator.user, resource="bundles") == []
    if LONG:  # by the clock, as `make bench BENCH=repositories`; a few polls drown in all else
        gaps = [b - a for moments in heads.values() for a, b in itertools.pairwise(moments)]
        assert min(gaps) > INTERVAL - LATE - 1, figures
        assert max(seconds) <= math.ceil(1.5 * COUNT / INTERVAL), figures
        assert p99 < LATE, figures
        assert used / len(polls) < POLL, figures


def test_a_token_is_fetched_once_in_its_life(fleet: Fleet) -> None:
    registry = fleet.registry
    for number in range(0, COUNT, COUNT // 3):
        moments = registry.heads[f"team-{number}/app"]
        assert registry.tokens_of(f"team-{number}/app") <= 1 + (moments[-1] - moments[0]) // 290


@pytest.mark.skipif(not LONG, reason="few don't show in a process's pages; allocations are counted")
def test_a_bundle_more_takes_little_memory(fleet: Fleet) -> None:
    before, count = fleet.resident(), fleet.count

    fleet.grow(COUNT, lambda number: f"team-{number}/app")
    fleet.wait_polls()

    more, added = fleet.resident() - before, fleet.count - count
    figures = f"{before / 1e6:.1f} MB, and {more / added / 1000:.1f} KB a Bundle more"
    log.info(figures)
    assert more <= added * BUNDLE, figures
