"""What a registry can't do to the operator: fill its memory, its metrics, or send it anywhere."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from aiohttp import web
from prometheus_client import generate_latest
from tests.component.oci.fake_registry import FakeRegistry, Handler, answering, registry_client
from tests.long import LONG

from copyrator.metrics import Metrics
from copyrator.oci import auth
from copyrator.oci.auth import TOKEN_CHARACTERS, Credential
from copyrator.oci.errors import AddressRefused, InvalidResponse, RegistryError, RegistryUnreachable
from copyrator.oci.exchange import Repository
from copyrator.oci.tags import TAG_LIST_TAGS
from copyrator.oci.transport import (
    KEEP_ALIVE,
    KEPT_ALIVE,
    KEPT_ALIVE_OTHERS,
    REGISTRY_HOSTS,
    HostCache,
)
from copyrator.workqueue.fairness import working_for

ALICE = Credential("alice", "s3cret")
MB = 1024 * 1024


@pytest.fixture
async def second() -> AsyncIterator[FakeRegistry]:
    async with FakeRegistry() as registry:
        yield registry


def streaming(head: bytes, repeated: bytes, times: int, tail: bytes) -> Handler:
    """A long body that the registry's own side, in this process, doesn't hold either."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(head)
        for _ in range(times // 1000):
            await response.write(repeated * 1000)
        await response.write(tail)
        await response.write_eof()
        return response

    return answer


async def ignore(_: list[str]) -> None:
    pass


async def peak_of(registry: FakeRegistry, *names: str) -> float:
    """Bytes that reading these tag lists at once takes at its peak."""
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    lists = (registry.client.tags(registry.repo(name), None, ignore) for name in names)
    await asyncio.gather(*lists, return_exceptions=True)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak - before


async def test_pages_of_millions_of_tags_are_refused_and_take_no_memory(
    registry: FakeRegistry,
) -> None:
    registry.client = registry_client(60.0)
    registry.fault = streaming(b'{"tags":["a"', b',"ab"', 500_000, b"]}")

    count = 3 if LONG else 1
    peak = await peak_of(registry, *(f"r{i}" for i in range(count)))

    assert peak < 16 * MB
    with pytest.raises(InvalidResponse, match=f"more than {TAG_LIST_TAGS} tags"):
        await registry.tags()


async def test_a_long_page_that_is_being_read_delays_no_other_large_answer(
    registry: FakeRegistry,
) -> None:
    registry.fault = answering(200, json.dumps({"tags": ["a" * 100] * 2000}))
    is_reading, goes_on = asyncio.Event(), asyncio.Event()

    async def take(_: list[str]) -> None:
        is_reading.set()
        await goes_on.wait()

    reading = asyncio.create_task(registry.client.tags(registry.app, None, take))
    await is_reading.wait()
    registry.fault = answering(200, json.dumps({"schemaVersion": 2, "x": "a" * 100_000}))
    async with asyncio.timeout(30):
        await registry.client.manifest(registry.app, "1.0.0", None)

    assert not reading.done()
    goes_on.set()
    await reading


@pytest.fixture
async def dripping() -> AsyncIterator[list[FakeRegistry]]:
    """Hosts that send the beginning of a long page, and then no more for a minute."""
    registries = [FakeRegistry() for _ in range(10)]
    for one in registries:
        await one.start()
        one.fault = streaming_slowly
    yield registries
    for one in registries:
        await one.stop()


async def streaming_slowly(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b'{"tags":["' + b"a" * 100_000)
    with suppress(ConnectionError):
        for _ in range(600):
            await asyncio.sleep(0.1)
            await response.write(b"a")
    return response


async def test_slow_pages_of_one_namespace_leave_room_for_others_long_pages(
    registry: FakeRegistry, dripping: list[FakeRegistry]
) -> None:
    registry.client = registry_client(20.0)
    registry.fault = answering(200, json.dumps({"tags": ["a" * 100] * 2000}))
    with working_for("crowd"):
        slow = [
            asyncio.create_task(registry.client.tags(one.app, None, ignore)) for one in dripping
        ]
    while not all(one.asked for one in dripping):
        await asyncio.sleep(0.01)

    with working_for("other"):
        async with asyncio.timeout(10):
            await registry.tags()

    assert not any(task.done() for task in slow)
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)


async def test_a_long_page_waits_for_others_twice_as_long_as_for_its_registry(
    registry: FakeRegistry, dripping: list[FakeRegistry]
) -> None:
    registry.client = registry_client(1.0)
    lists = (registry.client.tags(one.app, None, ignore) for one in dripping)
    async with asyncio.timeout(30):
        faults = await asyncio.gather(*lists, return_exceptions=True)

    texts = sorted(str(fault).partition(" ")[2] for fault in faults)
    assert texts.count("its tag list waits for other long ones; it is requested again later") >= 2
    assert all(isinstance(fault, RegistryUnreachable) for fault in faults)


async def test_a_list_is_decoded_while_others_wait_and_hosts_take_turns(
    registry: FakeRegistry, second: FakeRegistry
) -> None:
    many = json.dumps({"tags": [f"1.{i}.0" for i in range(20_000)]})
    registry.fault, second.fault = answering(200, many), answering(200, '{"tags": ["1.0.0"]}')
    at_once = most = 0
    ended: list[str] = []

    async def take(_: list[str]) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.001)
        at_once -= 1

    async def read(one: FakeRegistry, name: str) -> None:
        await registry.client.tags(one.repo(name), None, take)
        ended.append(name)

    await asyncio.gather(*(read(registry, f"big{i}") for i in range(5)), read(second, "small"))

    assert most == 1
    assert ended.index("small") == 0


async def test_the_time_that_is_spent_on_tags_is_not_the_registrys(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.client, loop = registry_client(20.0), asyncio.get_running_loop()
    registry.fault = answering(200, json.dumps({"tags": [f"1.{i}.0" for i in range(20_000)]}))
    count = spent = 0
    monkeypatch.setattr(loop, "time", lambda: time.monotonic() + spent)

    async def take(tags: list[str]) -> None:
        nonlocal count, spent
        count += len(tags)
        spent += 5
        await asyncio.sleep(0.01)

    await registry.client.tags(registry.app, None, take)

    assert count == 20_000
    assert spent > 20


async def test_a_compressed_answer_is_refused(registry: FakeRegistry) -> None:
    bomb = gzip.compress(b" " * 8 * MB)

    async def compressed(_: web.Request) -> web.StreamResponse:
        return web.Response(body=bomb, headers={"Content-Encoding": "gzip"})

    registry.fault = compressed
    with pytest.raises(InvalidResponse, match="compressed"):
        await registry.tags()
    with pytest.raises(InvalidResponse, match="compressed"):
        await registry.client.manifest(registry.app, "1.0.0", None)


async def test_a_manifest_of_brackets_is_not_built(registry: FakeRegistry) -> None:
    registry.fault = streaming(b'{"schemaVersion":2,"x":[[]', b",[]", 1_300_000, b"]}")

    tracemalloc.start()
    _, config = await registry.client.manifest(registry.app, "1.0.0", None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert config == {"config": None}
    assert peak < 24 * MB


async def test_a_token_of_any_length_is_not_kept(registry: FakeRegistry) -> None:
    registry.auth = "bearer"
    registry.token_answer = json.dumps({"token": "a" * (TOKEN_CHARACTERS + 1)})

    with pytest.raises(InvalidResponse, match="a token of more than"):
        await registry.resolve()


async def test_hosts_that_redirects_lead_to_are_forgotten(registry: FakeRegistry) -> None:
    """Each port is another host; all of loopback stands for any number of names."""
    metrics = Metrics()
    registry.client = registry_client(5.0, metrics=metrics)
    assert registry.server is not None
    number = 0

    async def elsewhere(request: web.Request) -> web.StreamResponse:
        nonlocal number
        if request.host.startswith("127.0.0.1:"):
            number += 1
            target = f"http://127.1.{number // 250}.{number % 250 + 1}:{registry.server.port}/"
            raise web.HTTPTemporaryRedirect(target)
        return web.Response(status=404)

    await registry.stop()
    registry.fault = elsewhere
    await registry.start(address="0.0.0.0")
    asked = 300 if LONG else 100
    for _ in range(asked):
        with pytest.raises(RegistryError):
            await registry.resolve()
    page = generate_latest(metrics.registry).decode()

    assert number == 2 * asked, "a HEAD and a GET each"
    assert 'host="other"' in page
    assert f'host="{registry.host}"' in page
    assert page.count('host="127.1.') == 0

    assert len(registry.client._transport.hosts) < 50


async def test_the_metrics_of_a_registry_go_with_its_last_bundle(
    registry: FakeRegistry, second: FakeRegistry
) -> None:
    metrics = Metrics()
    registry.client = registry_client(5.0, metrics=metrics)
    for one in (registry, second):
        with pytest.raises(RegistryError):
            await registry.client.digest(one.app, "1.0.0", None)
    assert f'host="{registry.host}"' in generate_latest(metrics.registry).decode()

    registry.client.keep_registries([(second.host, True)])

    page = generate_latest(metrics.registry).decode()
    assert f'host="{registry.host}"' not in page
    assert f'host="{second.host}"' in page


def test_the_hosts_that_want_to_be_left_alone_are_bounded_too() -> None:
    hosts = HostCache(Metrics())
    for i in range(REGISTRY_HOSTS + 100):
        with hosts.use(f"r{i}") as host:
            host.blocked_until = time.monotonic() + 3600

    assert len(hosts) <= REGISTRY_HOSTS


def test_few_hosts_keep_their_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that Bundles name have a limit of their own; redirects' targets don't use it up."""
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    hosts = HostCache(Metrics())

    def kept(kind: str, *, named: bool) -> set[int]:
        found = set()
        for i in range(1000):
            with hosts.use(f"{kind}{i}"):
                if hosts.may_keep(f"{kind}{i}", named=named):
                    found.add(i)
        return found

    assert kept("target", named=False) == set(range(KEPT_ALIVE_OTHERS))
    assert kept("registry", named=True) == set(range(KEPT_ALIVE))
    assert kept("registry", named=False) == set(range(KEPT_ALIVE))
    now += KEEP_ALIVE + 1
    assert kept("other", named=False) == set(range(KEPT_ALIVE_OTHERS))


async def test_a_registry_on_loopback_is_not_asked(registry: FakeRegistry) -> None:
    registry.client = registry_client(allowed=())
    for host in (registry.host, registry.host.replace("127.0.0.1", "localhost")):
        with pytest.raises(AddressRefused, match=r"127\.0\.0\.1.*--allow-registry-addresses"):
            await registry.client.digest(
                Repository(host, "team/app", plain_http=True), "1.0.0", None
            )
    assert registry.asked == []


async def test_a_token_server_or_redirect_at_a_refused_address_is_not_asked(
    registry: FakeRegistry, second: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The registry is allowed, by a name; what it names is on this machine."""
    asked = second.asked
    registry.client = registry_client(allowed=())
    resolve = socket.getaddrinfo

    def renamed(host: str, *rest: object, **named: object) -> object:
        return resolve("127.0.0.1" if host == "private.example" else host, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", renamed)
    rules = registry.client._transport._rules
    check = rules.check
    monkeypatch.setattr(
        rules, "check", lambda host, at: None if host == "private.example" else check(host, at)
    )
    assert registry.server is not None
    where = Repository(f"private.example:{registry.server.port}", "team/app", plain_http=True)
    realm = f'Bearer realm="http://{second.host}/token",service="x"'
    leads = (
        answering(401, WWW_Authenticate=realm),
        answering(307, Location=f"http://{second.host}/v2/"),
        answering(307, Location=f"http://localhost:{second.host.partition(':')[2]}/v2/"),
        answering(307, Location="http://169.254.169.254/latest/meta-data/"),
    )

    for lead in leads:
        registry.fault = lead
        with pytest.raises(AddressRefused):
            await registry.client.digest(where, "1.0.0", ALICE)
    assert len(registry.asked) == len(leads)
    assert asked == []


NO_URLS = ["http://[", "http://a:99999999/", "http://\udcff/", "//", "http://[]@/", "http://xn--a/"]


@pytest.mark.parametrize("url", NO_URLS)
@pytest.mark.parametrize("place", ["a redirect", "a token server", "a next page"])
async def test_what_is_no_url_is_an_answer_of_no_use(
    registry: FakeRegistry, place: str, url: str
) -> None:
    written = url.encode("ascii", "replace").decode()
    registry.fault = {
        "a redirect": answering(307, Location=written),
        "a token server": answering(401, WWW_Authenticate=f'Bearer realm="{written}"'),
        "a next page": answering(
            200, '{"tags": []}', Link=f'<{written}>; rel="next"', Content_Type="application/json"
        ),
    }[place]

    with pytest.raises(RegistryError):
        await registry.client.tags(registry.app, ALICE, ignore)


async def test_a_registry_whose_name_cannot_be_decoded_is_an_error(registry: FakeRegistry) -> None:
    with pytest.raises(RegistryError):
        await registry.client.digest(Repository("xn--a", "team/app"), "1.0.0", None)


async def test_the_tokens_that_are_remembered_are_bounded(
    registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was asked longest ago gets a new one; nobody is refused."""
    monkeypatch.setattr(auth, "TOKENS_CHARACTERS", 10_000)
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 2
        return now

    registry.client = registry_client(clock=clock)
    registry.auth, registry.expires_in = "bearer", 100_000
    for i in range(40):
        registry.put(f"team/r{i}", "1.0.0", "x")
        registry.token_answer = json.dumps({"token": f"TOKEN-{'a' * 1000}", "expires_in": 9e9})
        with suppress(RegistryError):
            await registry.client.digest(registry.repo(f"team/r{i}"), "1.0.0", None)

    assert 1 < len(registry.client._tokens) < 15
