"""Many Bundles in as many namespaces, each with values of its own: edits act at once."""

import base64
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.component.oci.fake_registry import FakeRegistry
from tests.e2e.bundles.bad_registry import serving
from tests.e2e.bundles.conftest import Operator, operating
from tests.e2e.operator_process import until
from tests.e2e.vanishing import sweep
from tests.long import LONG

from localcluster import Api, Cluster
from localcluster.audit import AuditEvent

log = logging.getLogger(__name__)

COUNT = 1000 if LONG else 72
"""More than KIND_REFERENCE_WATCHES, above which one watch covers all namespaces."""
FIRST = COUNT // 5
CONNECTIONS = 200
"""That the operator may have at any moment, by the issue's promise."""
BUNDLE = 10_000
"""Bytes of memory that a Bundle more may take, with its values."""
DAY = "86400"
VALUES, SECRET = "values", "creds"

pytestmark = pytest.mark.timeout(3600 if LONG else 900)


@dataclass
class Crowd:
    """Suspended Bundles of one repository: what counts is who looks at their values, and when."""

    api: Api
    cluster: Cluster
    operator: Operator
    registry: FakeRegistry
    prefix: str
    spaces: list[str] = field(default_factory=list)
    edits: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def grow(self, count: int) -> None:
        """Add namespaces with a Bundle each, and wait until the operator has looked at all."""
        first = len(self.spaces)
        fresh = [f"{self.prefix}-{number:04}" for number in range(first, first + count)]
        at_once(self._make, fresh)
        self.spaces += fresh
        until(self._are_polled, "all Bundles are polled", 900)

    def _make(self, namespace: str) -> None:
        self.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        self.api.create(
            path_of(namespace, "configmaps"),
            {"metadata": {"name": VALUES}, "data": {"values.yaml": "edit: 0"}},
        )
        self.api.create(
            path_of(namespace, "secrets"),
            {"metadata": {"name": SECRET}, "data": {"secret.yaml": encoded("edit: 0")}},
        )
        self.bundle(namespace, values=VALUES, valuesFrom=[{"kind": "Secret", "name": SECRET}])

    def bundle(self, namespace: str, **values: Any) -> None:
        """Create a Bundle that names these values."""
        spec = {
            "registry": self.registry.host,
            "repo": "shared/app",
            "version": "1.0.0",
            "insecure": True,
            "suspend": True,
            **values,
        }
        body = {
            "apiVersion": "operator.werf.dev/v1",
            "kind": "Bundle",
            "metadata": {"name": "app"},
            "spec": spec,
        }
        self.api.create(bundles(namespace), body)

    def _are_polled(self) -> bool:
        time.sleep(1)  # to look costs more than anything else here
        items = self.api.get("/apis/operator.werf.dev/v1/bundles")["items"]
        ours = [one for one in items if one["metadata"]["namespace"].startswith(self.prefix)]
        polled = [one for one in ours if one.get("status", {}).get("nextPollAt")]
        return len(polled) == len(self.spaces)

    def edit(self, plural: str, spaces: Iterable[str]) -> None:
        """Give a kind of values another content."""
        text = f"edit: {next(self.edits)}"
        data = {"values.yaml": text} if plural == "configmaps" else {"secret.yaml": encoded(text)}
        name = VALUES if plural == "configmaps" else SECRET

        def write(namespace: str) -> None:
            self.api.patch(f"{path_of(namespace, plural)}/{name}", {"data": data})

        at_once(write, spaces)

    @property
    def pid(self) -> int:
        return self.operator.process.pid

    def resident(self) -> int:
        """Bytes."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def sockets(self) -> int:
        """Of the operator's process, whatever they are for."""
        found = 0
        for descriptor in Path(f"/proc/{self.pid}/fd").iterdir():
            try:
                found += str(descriptor.readlink()).startswith("socket:")
            except FileNotFoundError:  # closed meanwhile
                continue
        return found

    @contextmanager
    def most_sockets(self) -> Iterator[list[int]]:
        """The largest number of sockets that the process had inside."""
        most, stop = [0], threading.Event()

        def look() -> None:
            while not stop.wait(0.02):
                most[0] = max(most[0], self.sockets())

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield most
        finally:
            stop.set()
            thread.join()

    def reads(self, events: Iterable[AuditEvent], plural: str) -> dict[str, list[float]]:
        """When the operator has read values of this kind, by namespace."""
        found: dict[str, list[float]] = {}
        for event in events:
            mine = event.user == self.operator.user and event.verb == "get"
            if mine and event.resource == plural and event.namespace.startswith(self.prefix):
                found.setdefault(event.namespace, []).append(event.began)
        return found

    def have_read_all(self, events: Iterable[AuditEvent]) -> bool:
        """Whether every Bundle's values were read: both kinds, whichever was edited."""
        kinds = ("configmaps", "secrets")
        return all(len(self.reads(events, plural)) == len(self.spaces) for plural in kinds)


def at_once(work: Callable[[str], object], names: Iterable[str]) -> None:
    with ThreadPoolExecutor(8) as hands:
        list(hands.map(work, names))


def path_of(namespace: str, plural: str) -> str:
    return f"/api/v1/namespaces/{namespace}/{plural}"


def bundles(namespace: str) -> str:
    return f"/apis/operator.werf.dev/v1/namespaces/{namespace}/bundles"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.fixture(scope="module")
def registry() -> Iterator[FakeRegistry]:
    registry = FakeRegistry()
    with serving(registry):
        registry.put("shared/app", "1.0.0", "app")
        yield registry


@dataclass
class Grown:
    """What the growth cost."""

    sockets: int
    memory: int
    """Bytes, of the Bundles after the first ones."""


@pytest.fixture(scope="module")
def crowd(
    cluster: Cluster, api: Api, registry: FakeRegistry, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Crowd]:
    directory = tmp_path_factory.mktemp("crowd")
    settings = {"WERF_OPERATOR_TIMER_INTERVAL": DAY}
    with operating(cluster, directory / "operator.log", settings) as operator:
        crowd = Crowd(api, cluster, operator, registry, f"crowd-{os.getpid()}")
        yield crowd
    sweep(cluster, crowd.prefix)


@pytest.fixture(scope="module")
def grown(crowd: Crowd) -> Grown:
    """The crowd with all its Bundles."""
    with crowd.most_sockets() as most:
        crowd.grow(FIRST)
        before = crowd.resident()
        crowd.grow(COUNT - FIRST)
        memory = crowd.resident() - before
    return Grown(most[0], memory)


def test_a_thousand_take_few_connections_and_little_memory(crowd: Crowd, grown: Grown) -> None:
    each = grown.memory / (COUNT - FIRST)
    now = crowd.sockets()
    figures = (
        f"{COUNT} Bundles: {grown.sockets} sockets at most, then {now}; {each / 1000:.1f} KB each"
    )
    log.info(figures)
    assert grown.sockets <= CONNECTIONS, figures
    assert now <= min(CONNECTIONS, COUNT), figures  # there are twice as many objects
    assert each <= BUNDLE or not LONG, figures  # few don't show in a process's pages


@pytest.mark.usefixtures("grown")
@pytest.mark.parametrize("plural", ["configmaps", "secrets"] if LONG else ["secrets"])
def test_an_edit_of_any_is_seen_without_a_poll(crowd: Crowd, plural: str) -> None:
    requests = crowd.cluster.requests()
    with crowd.most_sockets() as most:
        crowd.edit(plural, crowd.spaces)
        until(lambda: crowd.have_read_all(requests.all()), "all are read", 300)

    events = requests.all()
    edits = {
        event.namespace: event.ended
        for event in events
        if event.verb == "patch" and event.resource == plural
    }
    reads = crowd.reads(events, plural)
    waits = sorted(min(reads[namespace]) - edits[namespace] for namespace in edits)
    figures = (
        f"{COUNT} edits of {plural}: read after {waits[len(waits) // 2]:.3f} s in the median, "
        f"{waits[-1]:.3f} s at worst; {sum(map(len, reads.values()))} reads; {most[0]} sockets"
    )
    log.info(figures)
    assert sum(map(len, reads.values())) <= 1.1 * COUNT, figures
    assert most[0] <= CONNECTIONS, figures
    lists = [event for event in events if event.verb == "list" and event.resource == plural]
    assert not [event for event in lists if event.user == crowd.operator.user], figures
