"""The election over real HTTP. The electors' clock stands still unless a test moves it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from time import monotonic
from typing import Any

import pytest
from aiohttp import web
from tests.component.kube.fake_api import Answer, FakeApi, error, hang, until

from copyrator.kube.client.client import KubeClient
from copyrator.kube.client.transport import DEFAULT_PAUSES, Connection, Endpoint, Pauses
from copyrator.kube.errors import Forbidden, NotFound, ServerError
from copyrator.kube.leader import Elector, Terms

TERMS = Terms(renew=0.01, retry=0.01, look=0.02, answer=1.0)
PATH = "/apis/coordination.k8s.io/v1/namespaces/ops/leases/copyrator"


class Time:
    """Seconds, moved by the test."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Replica:
    """An elector, and what it was told of its lead."""

    def __init__(
        self,
        api: FakeApi,
        time: Callable[[], float],
        name: str,
        pauses: Pauses = DEFAULT_PAUSES,
        terms: Terms = TERMS,
    ) -> None:
        self.elector = Elector(
            KubeClient(Connection(Endpoint(host=api.url), pauses=pauses), alone=True),
            namespace="ops",
            name="copyrator",
            identity=name,
            terms=terms,
            clock=time,
        )
        self.lost = 0
        self.changes: list[bool] = []

    def keep(self) -> None:
        self.elector.keep(self.changes.append, self._lost)

    def die(self) -> None:
        """Renew no more, without a word."""
        assert self.elector._keeper
        self.elector._keeper.cancel()

    def _lost(self) -> None:
        self.lost += 1

    @property
    def leads(self) -> bool:
        return self.elector.leads


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
async def first(api: FakeApi, time: Time) -> AsyncIterator[Replica]:
    replica = Replica(api, time, "first")
    yield replica
    await replica.elector.close()


@pytest.fixture
async def second(api: FakeApi, time: Time) -> AsyncIterator[Replica]:
    replica = Replica(api, time, "second")
    yield replica
    await replica.elector.close()


def holder(api: FakeApi) -> str:
    found: str = api.objects[PATH]["spec"]["holderIdentity"]
    return found


def take(api: FakeApi, name: str) -> None:
    """Write another holder into the Lease, whoever has it."""
    spec = {**api.objects[PATH]["spec"], "holderIdentity": name}
    taken: dict[str, Any] = {**api.objects[PATH], "spec": spec}
    api._store("MODIFIED", PATH, taken)


async def renewals(api: FakeApi, count: int = 3) -> None:
    """Wait for so many more writes to arrive."""
    before = api.count("update")
    await until(lambda: api.count("update") >= before + count)


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_another_waits_while_it_is_renewed_and_takes_over_when_it_is_not(
    first: Replica, second: Replica, api: FakeApi, time: Time
) -> None:
    await first.elector.attempt()
    first.keep()
    for _ in range(5):
        assert not await second.elector.attempt()
        time.now += 5
        await renewals(api)
    first.die()
    assert not await second.elector.attempt()  # it has seen the last renewal
    for seconds in (5, 4.9):
        time.now += seconds
        assert not await second.elector.attempt()
    time.now += 0.1
    assert await second.elector.attempt()
    assert holder(api) == "second"


async def test_one_that_is_given_back_is_taken_at_the_next_look(
    first: Replica, second: Replica, api: FakeApi
) -> None:
    await first.elector.attempt()
    first.keep()
    assert not await second.elector.attempt()
    await first.elector.close()
    assert not first.leads
    assert holder(api) == ""
    assert await second.elector.attempt()
    assert not first.lost


async def test_of_two_that_want_it_in_the_same_moment_one_gets_it(
    first: Replica, second: Replica, api: FakeApi
) -> None:
    api.always("get", error(404, details={"name": "copyrator"}))
    got = await asyncio.gather(first.elector.attempt(), second.elector.attempt())
    assert sorted(got) == [False, True]
    assert [first.leads, second.leads] == got


BROKEN: dict[str, Answer] = {
    "500": error(500, "InternalError"),
    "429": error(429, "TooManyRequests", headers={"Retry-After": "300"}),
    "no answer": hang(),
}


@pytest.mark.parametrize("answer", BROKEN.values(), ids=BROKEN)
async def test_who_cannot_renew_leads_for_its_deadline_and_then_when_it_can_again(
    first: Replica,
    api: FakeApi,
    time: Time,
    caplog: pytest.LogCaptureFixture,
    answer: Answer,
) -> None:
    await first.elector.attempt()
    first.keep()
    await renewals(api)
    api.always("update", answer)
    await renewals(api, 2)  # the one that may have been on its way, and the first that fails
    time.now += 6.9
    await renewals(api, 2)
    assert first.leads
    assert first.changes == []
    time.now += 0.2
    assert not first.leads
    await until(lambda: first.changes == [False])
    await renewals(api, 3)
    assert (first.elector.fault or "").startswith("the Lease ops/copyrator wasn't renewed for 7 s")
    api.behave()
    await until(lambda: first.changes == [False, True])
    assert first.leads
    assert first.elector.fault is None
    (said,) = complaints(caplog)
    assert said.startswith("Leadership suspended, nothing is written: the Lease ops/copyrator ")


async def test_a_renewal_that_is_answered_after_the_deadline_does_not_count(
    first: Replica, api: FakeApi, time: Time
) -> None:
    async def late(request: web.Request) -> web.StreamResponse:
        time.now += 8
        return await api.serve(request)

    await first.elector.attempt()
    api.script("update", late, hang())
    first.keep()
    await until(lambda: first.changes == [False])
    assert not first.leads
    assert holder(api) == "first"


async def test_a_renewal_without_an_answer_delays_no_suspension(api: FakeApi) -> None:
    """The last request before the deadline ends with it, not after its own timeout."""
    replica = Replica(api, monotonic, "first", terms=Terms(deadline=0.3, renew=0.1, answer=60.0))
    await replica.elector.attempt()
    api.always("update", hang())
    replica.keep()
    await until(lambda: replica.changes == [False])
    api.behave()
    await replica.elector.close()


async def test_who_stood_still_goes_on_if_nobody_had_the_lease_meanwhile(
    first: Replica, api: FakeApi, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    await first.elector.attempt()
    first.keep()
    await renewals(api)
    time.now += 60
    assert not first.leads
    await until(lambda: first.changes == [False, True])
    (said,) = complaints(caplog)
    assert said.endswith("wasn't renewed for 7 s (the process was suspended)")


async def test_a_lease_that_somebody_labels_or_deletes_stays_ours(
    first: Replica, second: Replica, api: FakeApi
) -> None:
    await first.elector.attempt()
    first.keep()
    await renewals(api)
    labelled = {**api.objects[PATH]}
    labelled["metadata"] = {**labelled["metadata"], "labels": {"theirs": "kept"}}
    api._store("MODIFIED", PATH, labelled)
    await renewals(api)
    assert api.objects[PATH]["metadata"]["labels"] == {"theirs": "kept"}
    assert not await second.elector.attempt()
    api._store("DELETED", PATH, api.objects[PATH])
    await until(lambda: PATH in api.objects)
    await renewals(api)
    assert holder(api) == "first"
    assert first.leads
    assert not first.lost


async def test_who_has_lost_writes_nothing_at_its_end(first: Replica, api: FakeApi) -> None:
    await first.elector.attempt()
    first.keep()
    take(api, "thief")
    await until(lambda: first.lost)
    writes = api.count("update")
    await first.elector.close()
    assert api.count("update") == writes
    assert first.lost == 1
    assert holder(api) == "thief"


@pytest.mark.promise
async def test_who_gives_the_lease_back_writes_nothing_from_before_it_does(
    first: Replica, api: FakeApi
) -> None:
    """Another replica may lead, and write, as soon as the API server has it."""
    led: list[bool] = []

    async def given_back(request: web.Request) -> web.StreamResponse:
        led.append(first.leads)
        return await api.serve(request)

    assert await first.elector.attempt()
    api.script("update", given_back)
    await first.elector.close()
    assert holder(api) == ""
    assert led == [False]


async def test_whose_lease_is_over_does_not_give_it_back(
    first: Replica, api: FakeApi, time: Time
) -> None:
    await first.elector.attempt()
    first.keep()
    api.always("update", error(500))
    time.now += 8
    await until(lambda: first.changes == [False])
    first.die()
    api.behave()
    await first.elector.close()
    assert holder(api) == "first"


async def test_an_outage_is_no_reason_to_change_places(
    first: Replica, second: Replica, api: FakeApi, time: Time
) -> None:
    await first.elector.attempt()
    first.keep()
    assert not await second.elector.attempt()
    for verb in ("get", "update"):
        api.always(verb, error(503))
    for _ in range(6):
        time.now += 5
        with pytest.raises(ServerError):
            await second.elector.attempt()
    await until(lambda: first.changes == [False])
    api.behave()
    assert not await second.elector.attempt()
    await until(lambda: first.changes == [False, True])
    assert not await second.elector.attempt()
    first.die()  # an outage is no reason to wait for ever either
    for _ in range(6):  # its last renewal may have come after the first of these
        time.now += 4
        if got := await second.elector.attempt():
            break
    assert got


async def test_a_lease_that_cannot_be_given_back_holds_nobody_up(
    first: Replica, api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    await first.elector.attempt()
    first.keep()
    api.always("update", hang())
    async with asyncio.timeout(60):
        await first.elector.close()
    (said,) = complaints(caplog)
    assert said.startswith("The Lease ops/copyrator can't be released: ")


async def test_missing_rights_and_a_missing_namespace_are_errors(
    first: Replica, api: FakeApi
) -> None:
    api.script("get", error(403, "Forbidden", "no get on leases"))
    with pytest.raises(Forbidden, match="no get on leases"):
        await first.elector.attempt()
    api.script("create", error(403, "Forbidden", "no create on leases"))
    with pytest.raises(Forbidden, match="no create on leases"):
        await first.elector.attempt()
    missing = {"name": "ops", "kind": "namespaces"}
    api.script("create", error(404, "NotFound", 'namespaces "ops" not found', details=missing))
    with pytest.raises(NotFound, match="ops"):
        await first.elector.attempt()
    assert not first.leads


async def test_an_outage_that_others_met_does_not_hold_it_up(api: FakeApi, time: Time) -> None:
    alone = Replica(api, time, "alone", Pauses(first=3600.0))
    api.script("get", *[error(500)] * 20)
    async with asyncio.timeout(60):
        for _ in range(20):
            with pytest.raises(ServerError, match="500"):
                await alone.elector.attempt()
        assert await alone.elector.attempt()
    await alone.elector.close()


async def test_a_look_is_due_when_the_lease_expires_at_the_latest(
    first: Replica, second: Replica, time: Time
) -> None:
    await first.elector.attempt()
    await second.elector.attempt()
    assert second.elector.pause == TERMS.look
    time.now += 9.99
    assert second.elector.pause == pytest.approx(0.01)


async def test_who_stood_still_steps_down_if_another_leads_now(
    first: Replica, second: Replica, api: FakeApi, time: Time
) -> None:
    await first.elector.attempt()
    first.keep()
    await renewals(api)
    time.now += 60
    take(api, "second")
    await until(lambda: first.lost)
    assert first.changes == [False]
    assert not first.leads
    assert holder(api) == "second"


async def test_who_finds_another_holder_stops_at_once(
    first: Replica, api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    await first.elector.attempt()
    first.keep()
    await renewals(api)
    take(api, "thief")
    await until(lambda: first.lost)
    assert not first.leads
    assert first.changes == []
    assert holder(api) == "thief"
    assert complaints(caplog) == ["Leadership lost: thief holds the Lease ops/copyrator"]


async def test_a_process_that_starts_again_in_its_pod_gets_its_own_lease_back(
    first: Replica, api: FakeApi, time: Time
) -> None:
    await first.elector.attempt()
    again = Replica(api, time, "first")
    assert await again.elector.attempt()
    assert api.objects[PATH]["spec"]["leaseTransitions"] == 1
    await again.elector.close()
