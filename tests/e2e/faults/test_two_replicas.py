"""Two replicas and one Lease: who works, how soon another does, and that nothing is done twice.

One replica runs by `copyrator run`, the other by `kopf run`. Each test finds both running, with a
rule whose copies are made and a Bundle that is deployed, and starts again what it has taken down.
"""

import re
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.e2e.bundles.conftest import Shop, Team
from tests.e2e.bundles.conftest import lasting_team as bundle_team
from tests.e2e.copies.conftest import User
from tests.e2e.faults import hasty
from tests.e2e.faults.replicas import ACCOUNTS, Installation, Replica, installed
from tests.e2e.operator_process import HANG, until
from tests.e2e.vanishing import vanish
from tests.long import LONG

from copyrator.api.text import parse_time
from localcluster import Api, Cluster, Requests

pytestmark = pytest.mark.timeout(240)

COPIES = 4


@dataclass
class Pair:
    """A leader and a standby."""

    home: Installation
    leader: Replica
    standby: Replica

    @property
    def both(self) -> tuple[Replica, Replica]:
        return self.leader, self.standby

    def complete(self) -> None:
        """Start who has ended, and see who leads now."""
        for name in ("leader", "standby"):
            if getattr(self, name).code is not None:
                setattr(self, name, self.home.start(getattr(self, name).name))
        for replica in self.both:
            replica.wait_ready()
        until(lambda: self.leader.leads != self.standby.leads, "one of them leads")
        if self.standby.leads:
            self.leader, self.standby = self.standby, self.leader

    def let_lead(self, name: str) -> None:
        """Hand over, unless that one leads already."""
        if self.leader.name != name:
            assert self.leader.stop() == 0
            self.standby.wait_leads()
            self.complete()


@pytest.fixture(scope="module")
def home(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installed(cluster, tmp_path_factory.mktemp("replicas")) as home:
        yield home


@pytest.fixture(scope="module")
def running(home: Installation) -> Iterator[Pair]:
    pair = Pair(home, *(home.start(name) for name in ACCOUNTS))
    yield pair
    for replica in (pair.standby, pair.leader):
        if replica.code is None:
            assert replica.stop() == 0
        assert "Traceback" not in replica.log


@pytest.fixture
def pair(running: Pair) -> Pair:
    running.complete()
    return running


lasting_team = bundle_team


@pytest.fixture(scope="module")
def user(api: Api) -> User:
    return User(api)


@dataclass
class Fleet:
    """A rule, its source and its copies."""

    user: User
    home: str
    name: str
    source: str
    targets: list[str]

    def change(self) -> str:
        """Give the source another value."""
        value = secrets.token_hex(4)
        self.user.patch("configmaps", self.source, self.name, data={"key": value})
        return value

    def holds(self, value: str) -> bool:
        look = self.user.data
        return all(look("configmaps", one, self.name) == {"key": value} for one in self.targets)

    def wait(self, value: str, seconds: float = HANG) -> None:
        until(lambda: self.holds(value), f"all copies hold {value}", seconds)


@pytest.fixture(scope="module")
def fleet(running: Pair, user: User) -> Iterator[Fleet]:
    home, name = running.home, f"t{secrets.token_hex(3)}"
    source, *targets = (f"{name}-{number}" for number in range(COPIES + 1))
    for namespace in (source, *targets):
        user.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    user.create("configmaps", source, name, data={"key": "first"})
    copied = {"kind": "ConfigMap", "namespace": source, "name": name}
    user.rule(home.namespace, name, {"source": copied, "targets": {"namespaces": targets}})
    fleet = Fleet(user, home.namespace, name, source, targets)
    fleet.wait("first")
    yield fleet
    user.delete("copyrators", home.namespace, name)
    # A replica that stood still may have been faster, at its end.
    user.api.remove_finalizers(user.path("copyrators", home.namespace, name))
    vanish(home.cluster, [source, *targets])


@pytest.fixture(scope="module")
def deployed(running: Pair, lasting_team: Team) -> Team:
    """The namespace of a Bundle `shop`, deployed."""
    digest = lasting_team.publish("1.0.0", "first")
    lasting_team.bundle("shop")
    lasting_team.wait_deployed("shop", digest)
    return lasting_team


@pytest.fixture
def shop(pair: Pair, deployed: Team) -> Shop:
    return Shop(deployed)


def elapsed(since: float) -> float:
    return time.monotonic() - since


def wait_quiet(pair: Pair, seconds: float = 4.0) -> None:
    """Wait until nothing but the Lease has been written for so long.

    The Event about a burst of writes is up to 3.5 s late.
    """
    since, at = pair.home.cluster.requests(), time.monotonic()
    while elapsed(at) < seconds:
        if any(replica.writes(since) for replica in pair.both):
            since, at = pair.home.cluster.requests(), time.monotonic()
        time.sleep(0.1)


def request(shop: Shop) -> None:
    """Ask for a deploy."""
    shop.team.annotate("shop", requestedAt=secrets.token_hex(4))


def test_a_standby_passes_on_what_it_is_told_and_writes_nothing_and_an_idle_pair_but_renewals(
    pair: Pair, fleet: Fleet, shop: Shop, requests: Requests
) -> None:
    """A Service knows both; the next poll is ten minutes away."""
    digest = shop.push("told to the standby")
    assert pair.standby.call({"repository": shop.team.repo, "tag": "1.0.0"}) == 202
    fleet.wait(fleet.change())
    shop.team.wait_deployed("shop", digest)
    assert shop.jobs == 1
    assert pair.standby.get("/readyz") == (200, "ok\n")
    assert pair.standby.get("/healthz") == (200, "ok\n")
    assert [pair.leader.leads, pair.standby.leads] == [True, False]
    assert f"On standby: {pair.leader.name} leads" in pair.standby.log
    assert pair.standby.writes(requests, lease=True) == []

    wait_quiet(pair)
    idle, began = pair.home.cluster.requests(), time.monotonic()
    time.sleep(6)  # a rate is measured over a time, which may be longer
    # Bundles of other tests may be on their way out.
    ours = {pair.home.namespace, shop.team.namespace, fleet.source, *fleet.targets}
    renewals = [one for one in pair.leader.writes(idle, lease=True) if one.namespace in ours]
    assert {(event.verb, event.resource, event.code) for event in renewals} == {
        ("update", "leases", 200)
    }
    assert 1 <= len(renewals) <= elapsed(began) / 2 + 1
    assert pair.standby.writes(idle, lease=True) == []


def wait_both_jobs(fleet: Fleet, value: str, shop: Shop) -> None:
    """However busy the machine is; `make bench BENCH=take-over` measures how long it takes."""
    until(lambda: fleet.holds(value) and shop.jobs == 1, "both jobs are done")


def test_after_sigterm_the_standby_copies_and_deploys_also_what_it_is_told_at_once(
    pair: Pair, fleet: Fleet, shop: Shop, record_property: Callable[[str, object], None]
) -> None:
    pair.leader.send(signal.SIGTERM)
    told = time.monotonic()
    until(lambda: "Released the Lease" in pair.leader.log, "it has let go")
    value = fleet.change()
    digest = shop.push("told to the new leader")
    pushed = {"repository": shop.team.repo, "tag": "1.0.0"}
    until(lambda: pair.standby.call(pushed) == 202, "the new leader works")
    wait_both_jobs(fleet, value, shop)
    taken = elapsed(told)
    record_property("taken over after", f"{taken:.1f} s")

    shop.team.wait_deployed("shop", digest)
    assert shop.jobs == 1
    assert pair.leader.wait() == 0


def test_after_sigkill_it_does_so_too_and_sees_a_running_deploy_to_its_end(
    pair: Pair, fleet: Fleet, shop: Shop, record_property: Callable[[str, object], None]
) -> None:
    team = shop.team
    team.bundle("running")
    until(lambda: team.jobs("running"), "a deploy runs")

    pair.leader.kill()
    killed = time.monotonic()
    value = fleet.change()
    request(shop)
    wait_both_jobs(fleet, value, shop)
    taken = elapsed(killed)
    record_property("taken over after", f"{taken:.1f} s")

    status = team.wait_deployed("running", shop.digest)
    assert status["attempted"]["attempt"] == 1
    team.wait_deployed("shop", shop.digest)
    assert len(team.jobs("running")) == shop.jobs == 1


def test_a_leader_that_stood_still_does_no_harm_and_steps_down(
    pair: Pair, fleet: Fleet, shop: Shop
) -> None:
    pair.let_lead("copyrator")  # by `copyrator run`
    paused, other = pair.both

    value = fleet.change()  # it is at work when it is stopped
    paused.send(signal.SIGSTOP)
    try:
        other.wait_leads(30)
        fleet.wait(value)
        value = fleet.change()
        request(shop)
        fleet.wait(value)
        until(lambda: shop.jobs == 1, "the request is deployed")
        since = pair.home.cluster.requests()
    finally:
        paused.send(signal.SIGCONT)

    until(lambda: f"Leadership lost: {other.name} holds the Lease" in paused.log, "it steps down")
    assert "wasn't renewed for 7 s (the process was suspended)" in paused.log
    until(lambda: paused.get("/readyz")[0] == 200 and not paused.leads, "it stands by again")
    shop.team.wait_deployed("shop", shop.digest)
    written = [event for event in paused.writes(since, lease=True) if event.code < 300]
    # An Event that was recorded before may follow; it changes nothing.
    assert [event for event in written if event.resource != "events"] == []
    assert fleet.holds(value)
    assert shop.jobs == 1
    assert other.leads


FURTHER = {
    "approved": {"approval": {"mode": "Always"}},
    "watched": {"health": "Watch", "drift": {"mode": "Detect"}},
    "dependent": {"dependsOn": [{"name": "shop"}], "minAge": "1h"},
}
"""Bundles with features that watch, plan and judge."""


def test_one_that_stood_still_and_leads_on_writes_only_what_changed_and_once_it_knows_that_it_leads(
    pair: Pair, fleet: Fleet, shop: Shop
) -> None:
    for replica in pair.both[::-1]:
        assert replica.stop() == 0
    with pair.home.start("copyrator", program=Path(hasty.__file__)) as still:
        still.wait_leads()
        for name, spec in FURTHER.items():
            shop.team.bundle(name, **spec)
        shop.team.wait_reason("approved", "AwaitingApproval")
        shop.team.wait_condition("watched", "Drifted", "InSync")
        shop.team.wait_deployed("dependent", shop.digest)
        until(lambda: is_quiet(pair.home, (still,)), "nothing is left to do")

        since = pair.home.cluster.requests()
        stand_still(still)
        until(lambda: "Leading again" in still.log, "it leads on")
        late = time.time() + 4  # the Event about a burst of writes is 3.5 s late
        until(lambda: has_renewed_after(late, still, since), "it goes on to lead")
        assert still.writes(since) == []

        since = pair.home.cluster.requests()
        value, resumed = stand_still(still, fleet.change)
        fleet.wait(value)
        written = [one for one in still.writes(since, lease=True) if one.ended > resumed]
        renewed = min(one.ended for one in written if one.resource == "leases")
        assert [one for one in written if one.began < renewed and one.resource != "leases"] == []
        assert still.stop() == 0
        assert "Traceback" not in still.log


def has_renewed_after(moment: float, replica: Replica, requests: Requests) -> bool:
    """Whether it has renewed its Lease later than that, by the audit log's time."""
    written = replica.writes(requests, lease=True)
    return any(one.resource == "leases" and one.began > moment for one in written)


def stand_still(replica: Replica, change: Callable[[], str] = str) -> tuple[str, float]:
    """Suspend it, and change something meanwhile; returns what, and when it went on."""

    def is_out_of_date() -> bool:
        renewed = parse_time(replica.home.lease()["spec"]["renewTime"])
        assert renewed is not None
        return time.time() - renewed.timestamp() > hasty.STILL + hasty.TERMS["renew"]

    replica.send(signal.SIGSTOP)
    try:
        changed = change()
        until(is_out_of_date, "it has been suspended for longer than its Lease and watches last")
    finally:
        resumed = time.time()
        replica.send(signal.SIGCONT)
    return changed, resumed


def test_who_loses_the_lease_under_kopf_run_ends_in_order(pair: Pair) -> None:
    pair.let_lead("second")  # by `kopf run`
    lease = pair.home.lease()
    lease["spec"]["holderIdentity"] = ""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{pair.home.namespace}/leases/copyrator"
    pair.home.api.replace(path, lease)
    assert pair.leader.wait() == 0
    assert re.search("Leadership lost: (no replica|copyrator) holds the Lease", pair.leader.log)
    pair.standby.wait_leads()


def is_quiet(home: Installation, replicas: tuple[Replica, ...]) -> bool:
    """Whether none of them writes within 4 s: the Event about a burst of writes is 3.5 s late."""
    since = home.cluster.requests()
    time.sleep(4)
    return not any(replica.writes(since) for replica in replicas)


def test_two_that_both_lead_make_one_job_a_deploy_and_do_not_fight(
    pair: Pair, fleet: Fleet, shop: Shop
) -> None:
    team = shop.team
    for replica in pair.both[::-1]:
        assert replica.stop() == 0
    one, two = (pair.home.start(account, election=False) for account in ACCOUNTS)
    with one, two:
        both = (one, two)
        for replica in both:
            replica.wait_ready()
            assert replica.leads
        newer = team.publish("2.0.0", "second")
        value = fleet.change()
        team.patch("bundles", "shop", spec={"version": "2.0.0"})
        team.wait_deployed("shop", newer)
        fleet.wait(value)
        assert shop.jobs == 1

        if LONG:
            value = fleet.change()
            request(shop)
            until(lambda: shop.jobs == 2, "the request is deployed")
            team.wait_reason("shop", "Deployed")
            fleet.wait(value)
        until(
            lambda: is_quiet(pair.home, both), "who came too late for the outcome has been told so"
        )
        since = pair.home.cluster.requests()
        time.sleep(4)  # whoever fights, fights on
        assert [event for replica in both for event in replica.writes(since)] == []
        for replica in both:
            assert replica.stop() == 0
            assert "Traceback" not in replica.log
        assert shop.jobs == (2 if LONG else 1)
