"""What copying costs the API server, counted in its own audit log.

200 copies, 10,000 with COPYRATOR_LONG=1: half of them ConfigMaps, half Secrets. The tests follow
one another over one fleet, each leaving it as right as it was.
"""

import re
import secrets
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from tests.e2e.copies.conftest import DATA, Operator, User, condition_of, deploy, encoded
from tests.e2e.operator_process import until
from tests.e2e.vanishing import vanish
from tests.long import LONG

from localcluster import Api
from localcluster.audit import WRITE_VERBS

pytestmark = pytest.mark.timeout(900)

SOURCES = 50 if LONG else 10
"""Of each kind."""
TARGETS = 100 if LONG else 10
COPIES = 2 * SOURCES * TARGETS
PATIENCE = 60 + COPIES / 20
KINDS = ("configmaps", "secrets")


@dataclass
class Fleet:
    operator: Operator
    user: User
    api: Api
    word: str
    source: str
    since: int = 0
    seconds: float = 0.0

    def namespace(self, number: str) -> str:
        name = f"{self.word}-{number}"
        self.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        return name

    def ready(self, each: int) -> bool:
        """Both rules say that so many copies are right."""
        for plural in KINDS:
            rule = self.user.get("copyrators", self.operator.namespace, plural)
            status = (rule or {}).get("status", {})
            if status.get("copies", {}).get("ready") != each:
                return False
            if condition_of(rule or {}).get("status") != "True":
                return False
        return True

    def wait_ready(self, targets: int) -> None:
        until(lambda: self.ready(SOURCES * targets), f"{targets} targets are right", PATIENCE)

    def events(self, since: int):
        """The operator's requests, but for those for Bundles that other tests left."""
        return [
            event
            for event in self.operator.cluster.audit_events(since)
            if event.user == self.operator.user
            and (
                event.namespace in ("", self.operator.namespace)
                or event.namespace.startswith(self.word)
            )
        ]

    def writes(self, since: int) -> Counter:
        """Writes of copies by verb."""
        return Counter(e.verb for e in self._of_copies(since) if e.verb in WRITE_VERBS)

    def reads(self, since: int):
        """Gets of single objects."""
        return [e for e in self._of_copies(since) if e.verb == "get"]

    def _of_copies(self, since: int):
        """Of sources and copies, not of the operator's own Secret."""
        ours = [e for e in self.events(since) if e.namespace.startswith(self.word)]
        return [e for e in ours if e.resource in KINDS]

    def kopf_watches(self, since: int) -> set[str]:
        """What kopf watches: the last thing that a start does."""
        theirs = {"copyrators", "bundles"}
        return {e.resource for e in self.events(since) if e.verb == "watch"} & theirs

    def statuses(self, since: int) -> int:
        found = [(event.resource, event.subresource) for event in self.events(since)]
        return found.count(("copyrators", "status"))

    def fence(self) -> int:
        """A namespace comes and is served whole: whatever came before has been looked at.

        Returns how many copies that made.
        """
        place = self.namespace(f"fence-{secrets.token_hex(2)}")
        self.wait_ready(TARGETS + 1)
        self.api.delete(f"/api/v1/namespaces/{place}")
        self.wait_ready(TARGETS)
        return 2 * SOURCES


@pytest.fixture(scope="module")
def fleet(cluster, api, user, tmp_path_factory):
    log = tmp_path_factory.mktemp("fleet") / "operator.log"
    with deploy(cluster, log, DATA) as operator:
        word = f"f{secrets.token_hex(3)}"
        fleet = Fleet(operator, user, api, word, f"{word}s")
        api.create("/api/v1/namespaces", {"metadata": {"name": fleet.source}})
        with ThreadPoolExecutor(8) as pool:
            names = list(pool.map(fleet.namespace, (f"{number:03}" for number in range(TARGETS))))
            list(pool.map(lambda number: make_sources(fleet, number), range(SOURCES)))
        operator.start()
        fleet.since, began = cluster.audit_offset(), time.monotonic()
        for plural, kind in zip(KINDS, ("ConfigMap", "Secret"), strict=True):
            spec = {
                "source": {
                    "kind": kind,
                    "namespace": fleet.source,
                    "selector": {"matchLabels": {"app": word}},
                },
                "targets": {"namespaces": [f"{word}-*"]},
            }
            user.rule(operator.namespace, plural, spec)
        fleet.wait_ready(TARGETS)
        fleet.seconds = time.monotonic() - began
        yield fleet
    vanish(cluster, [*names, fleet.source])


def make_sources(fleet, number):
    labels = {"labels": {"app": fleet.word}}
    text = f"value {number}"
    name = f"source-{number:03}"
    fleet.user.create("configmaps", fleet.source, name, metadata=labels, data={"key": text})
    fleet.user.create("secrets", fleet.source, name, metadata=labels, data=encoded(key=text))


def test_a_first_fan_out_is_one_write_a_copy_and_no_read(fleet):
    assert fleet.writes(fleet.since) == {"create": COPIES}
    assert fleet.reads(fleet.since) == []


def test_a_status_is_written_at_most_once_a_second_for_each_rule(fleet):
    assert 2 <= fleet.statuses(fleet.since) <= 2 * (fleet.seconds + 2)


def test_events_that_change_nothing_for_copies_cost_no_write(fleet):
    since = fleet.operator.cluster.audit_offset()
    stripped = {"kopf.zalando.org/touched": "yes"}
    user, word = fleet.user, fleet.word
    user.patch("configmaps", fleet.source, "source-001", metadata={"annotations": stripped})
    fleet.api.patch(f"/api/v1/namespaces/{word}-000", {"metadata": {"labels": {"a": "b"}}})
    rule = {"metadata": {"annotations": {"a": "b"}}}
    user.patch("copyrators", fleet.operator.namespace, "secrets", **rule)
    theirs = {"labels": {"theirs": "yes"}}
    user.patch("configmaps", f"{word}-000", "source-002", metadata=theirs)
    served = fleet.fence()
    assert fleet.writes(since) == {"create": served}
    # A version of a copy that isn't ours is read, whatever its metadata say.
    read = [(event.verb, event.namespace, event.name) for event in fleet.reads(since)]
    assert read == [("get", f"{word}-000", "source-002")]


def test_a_restart_over_right_copies_writes_nothing_and_reads_only_pages(fleet):
    operator = fleet.operator
    assert operator.stop() == 0
    since = operator.cluster.audit_offset()
    operator.start()
    until(lambda: fleet.kopf_watches(since) == {"copyrators", "bundles"}, "it watches", PATIENCE)
    asked = [event for event in fleet.events(since) if event.resource != "leases"]
    assert len(asked) <= 60, Counter((e.verb, e.resource) for e in asked)
    assert all("Selector=" in e.uri for e in asked if e.verb != "get" and e.resource in KINDS)
    served = fleet.fence()
    assert fleet.writes(since) == {"create": served}
    assert fleet.reads(since) == []
    lists = [e for e in fleet.events(since) if e.verb == "list" and e.resource in KINDS]
    assert all(re.search(r"[?&]limit=\d+", event.uri) for event in lists)
    pages = Counter(event.resource for event in lists if "managed-by" in event.uri)
    for plural in KINDS:
        assert 1 <= pages[plural] <= 1 + SOURCES * (TARGETS + 1) // 500
