"""An API server that fails everybody is asked by one request at a time until it is back."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.component.kube.fake_api import Answer, FakeApi, cut, error, raw, stream, turns, until
from tests.long import LONG

from copyrator.kube import errors
from copyrator.kube.client import transport
from copyrator.kube.client.client import KubeClient
from copyrator.kube.client.transport import Connection, Endpoint, Pauses
from copyrator.kube.resources import CONFIGMAPS
from copyrator.kube.watch.informers import InformerFactory
from copyrator.kube.watch.reflector import Timing, WatchSpec

PAUSES = Pauses(longest=0.4)


@pytest.fixture
async def client(api: FakeApi) -> AsyncIterator[KubeClient]:
    """One that pauses less."""
    async with KubeClient(Connection(Endpoint(host=api.url), pauses=PAUSES)) as client:
        yield client


BROKEN: dict[str, Answer] = {
    "500": error(500, "InternalError"),
    "401": error(401, "Unauthorized"),
    "429": error(429, "TooManyRequests"),
    "cut bodies": cut(b'{"metadata": {'),
    "truncated JSON": raw(b'{"metadata": {'),
}


async def ask(client: KubeClient) -> str:
    try:
        await client.get(CONFIGMAPS, "ns", "a")
    except errors.ApiError as failure:
        return type(failure).__name__
    return "ok"


@pytest.mark.parametrize("broken", BROKEN if LONG else ["500", "cut bodies"])
async def test_a_crowd_makes_few_requests_while_all_fail_and_all_succeed_afterwards(
    client: KubeClient, api: FakeApi, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    caplog.set_level(logging.INFO)
    api.put("a")
    api.always("get", BROKEN[broken])
    assert client.outage is None
    closed: list[bool] = []
    client.connection.requests.on_close = lambda: closed.append(True)
    for _ in range(transport.FAILURES):
        assert await ask(client) != "ok"
    assert client.outage is not None
    assert client.outage[0].concerns_all
    before, began = api.count("get"), asyncio.get_running_loop().time()
    crowd = [asyncio.create_task(ask(client)) for _ in range(100)]
    await asyncio.sleep(1.0)  # a rate is measured over a time, which may be longer
    lasted = asyncio.get_running_loop().time() - began
    assert api.count("get") - before <= lasted / PAUSES.longest + 2
    api.behave()
    outcomes = await asyncio.wait_for(asyncio.gather(*crowd), 60)
    assert outcomes.count("ok") >= 96
    assert client.outage is None
    assert closed == [True]
    told = [r.getMessage() for r in caplog.records if r.name == transport.__name__]
    assert len(told) == 2
    assert "serves requests again after" in told[1]


async def test_who_waits_too_long_fails_as_the_others_did(api: FakeApi) -> None:
    api.always("get", error(503, "ServiceUnavailable", "etcd is away"))
    pauses = Pauses(patience=0.05)
    async with KubeClient(Connection(Endpoint(host=api.url), pauses=pauses)) as client:
        for _ in range(transport.FAILURES):
            await ask(client)
        with pytest.raises(errors.ServerError, match="etcd is away"):
            await client.get(CONFIGMAPS, "ns", "a")
    assert api.count("get") == transport.FAILURES


@pytest.mark.parametrize(
    "answer",
    [
        error(403, "Forbidden"),
        error(500, "InternalError", 'failed calling webhook "x": connection refused'),
    ],
)
async def test_what_one_object_or_namespace_is_told_holds_nobody_up(
    client: KubeClient, api: FakeApi, answer: Answer
) -> None:
    api.always("get", answer)
    async with asyncio.timeout(60):
        await asyncio.gather(*(ask(client) for _ in range(100)))
    assert api.count("get") == 100


async def test_failures_among_successes_do_not_close_the_gate(
    client: KubeClient, api: FakeApi
) -> None:
    api.put("a")
    for _ in range(3):
        api.script("get", *[error(500)] * (transport.FAILURES - 1))
        async with asyncio.timeout(60):
            for _ in range(transport.FAILURES):
                last = await ask(client)
                assert client.outage is None
        assert last == "ok"


async def test_a_probe_that_is_cancelled_leaves_its_turn_to_the_next(
    client: KubeClient, api: FakeApi
) -> None:
    api.put("a")
    api.always("get", error(500))
    for _ in range(transport.FAILURES):
        await ask(client)

    async def never(request: Any) -> Any:
        await asyncio.sleep(3600)

    api.always("get", never)
    before = api.count("get")
    probe, *others = (asyncio.create_task(ask(client)) for _ in range(5))
    await until(lambda: api.count("get") > before, "the probe is under way")
    api.behave()
    probe.cancel()
    assert await asyncio.wait_for(asyncio.gather(*others), 60) == ["ok"] * 4


async def test_one_that_fails_again_and_again_does_not_open_the_breaker_for_others() -> None:
    watches = transport.CircuitBreaker("watches", pauses=PAUSES)
    for _ in range(transport.FAILURES * 3):
        (await watches.permit("the one", patience=1)).failed(errors.ServerError("no"))
    assert watches.outage is None
    for number in range(transport.FAILURES):
        (await watches.permit(number, patience=1)).failed(errors.ServerError("no"))
    assert watches.outage is not None


async def test_who_gives_up_in_the_moment_of_the_probe_keeps_nobody_from_probing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    breaker = transport.CircuitBreaker(pauses=PAUSES)
    for _ in range(transport.FAILURES):
        (await breaker.permit(patience=1)).failed(errors.ServerError("no"))
    impatient = asyncio.create_task(breaker.permit(patience=PAUSES.first / 2))
    await turns(1)
    loop = asyncio.get_running_loop()  # its clock jumps: both times are over in the same turn
    monkeypatch.setattr(loop, "time", lambda: time.monotonic() + PAUSES.first)
    with pytest.raises(errors.ServerError):
        await impatient
    (await breaker.permit(patience=60)).succeeded()
    assert breaker.outage is None


async def test_a_crowd_of_watches_that_close_at_once_waits_for_one_that_stands(
    client: KubeClient, api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    """Each has delays of its own, but forty of them make fifteen requests a second even so."""
    timing = Timing(settled=0.3)
    pool = InformerFactory(client, timing=timing)
    api.always("watch", stream())
    for number in range(40):
        pool.acquire(WatchSpec(CONFIGMAPS, f"ns-{number}"), lambda *_: None)
    await until(lambda: client.connection.watches.outage is not None, "the breaker is open")
    await until(lambda: api.count("watch") >= 40, "each has tried")
    before, began = api.count("watch"), asyncio.get_running_loop().time()
    await asyncio.sleep(2.0)  # a rate is measured over a time, which may be longer
    lasted = asyncio.get_running_loop().time() - began
    assert api.count("watch") - before <= lasted / 0.4 + 1
    told = [record.getMessage() for record in caplog.records]
    assert sum("all watches fail" in line for line in told) == 1
    assert len(told) <= 1 + transport.FAILURES
    api.behave()
    await until(lambda: api.watches == 40, "all stand")
    await until(lambda: not any(status.failure for status in pool.statuses()), "all are well")
    await pool.close()
