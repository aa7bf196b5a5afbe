"""The client: what it sends, what answers become, which kinds there are, what rights it lacks."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiohttp import web
from prometheus_client import generate_latest
from tests.clock import Clock
from tests.component.kube.fake_api import FakeApi, cut, error, event, hang, raw, stream, until

from copyrator.api.schema import NOT_WHOLE, TOO_DEEP
from copyrator.kube import errors
from copyrator.kube.client import transport
from copyrator.kube.client.client import KubeClient, PatchType
from copyrator.kube.client.transport import Connection, Endpoint
from copyrator.kube.errors import Permission, Refusal
from copyrator.kube.permissions import FORGET, MissingPermissions
from copyrator.kube.resources import (
    CONFIGMAPS,
    NAMESPACES,
    NETWORKPOLICIES,
    SECRETS,
    Discovery,
    Resource,
)
from copyrator.metrics import Metrics

# --- The client turns every answer, and every lack of one, into a result or a typed error ---------


REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
BODY: dict[str, Any] = {"metadata": {"name": "a", "namespace": "ns"}, "data": {"k": "v"}}


async def test_the_time_is_that_of_the_servers_last_answer(
    client: KubeClient, api: FakeApi
) -> None:
    def dated(date: str) -> Any:
        return lambda _: answered(web.json_response(BODY, headers={"Date": date}))

    async def answered(answer: web.Response) -> web.StreamResponse:
        return answer

    api.script("get", dated("Sat, 03 Feb 2001 04:05:06 GMT"), dated("at noon"))
    await client.get(CONFIGMAPS, "ns", "a")
    assert client.server_time == datetime(2001, 2, 3, 4, 5, 6, tzinfo=UTC)
    await client.get(CONFIGMAPS, "ns", "a")
    assert datetime.now(UTC) - client.server_time < timedelta(minutes=1), "ours: it has none"


async def test_every_write_carries_our_field_manager(client: KubeClient, api: FakeApi) -> None:
    await client.create(CONFIGMAPS, "ns", BODY)
    await client.request("PUT", CONFIGMAPS.path("ns", "a"), body=BODY)
    await client.patch(CONFIGMAPS, "ns", "a", {"data": {"k": "w"}})
    await client.request("POST", REVIEWS, body=BODY)
    writes = [seen for seen in api.seen if seen.verb in {"create", "update", "patch"}]
    assert len(writes) == 4
    assert {seen.params["fieldManager"] for seen in writes} == {"copyrator"}


async def test_with_dry_run_no_write_is_kept_whatever_method_makes_it(api: FakeApi) -> None:
    api.put("a")
    told: list[str] = []
    path = CONFIGMAPS.path("ns", "a")
    connection = Connection(Endpoint(host=api.url))
    async with KubeClient(connection, on_dry_run=lambda call, _: told.append(call.verb)) as client:
        await client.create(CONFIGMAPS, "ns", {"metadata": {"name": "b"}})
        for kind in PatchType:
            await client.patch(CONFIGMAPS, "ns", "a", {}, kind=kind)
        for method in transport.VERBS:
            where = CONFIGMAPS.path("ns") if method == "POST" else path
            body = {"metadata": {"name": "c"}} if method == "POST" else BODY
            await client.request(method, where, body=body)
        await client.delete(CONFIGMAPS, "ns", "b")
        await client.request("POST", REVIEWS, body=BODY)
        await client.get(CONFIGMAPS, "ns", "c")
    dry = [seen.verb for seen in api.seen if seen.params.get("dryRun") == "All"]
    assert told == dry
    assert set(dry) == transport.WRITES
    deletes = [seen.body for seen in api.seen if seen.verb == "delete"]
    assert [body.get("dryRun") for body in deletes] == [["All"]] * len(deletes)
    rest = [(seen.verb, seen.path) for seen in api.seen if "dryRun" not in seen.params]
    assert rest == [("create", REVIEWS), ("get", CONFIGMAPS.path("ns", "c"))]


async def test_behind_a_shut_fence_reads_go_on_and_no_write_is_sent(
    api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    api.put("a")
    shut = False
    async with KubeClient(Connection(Endpoint(host=api.url)), fence=lambda: not shut) as client:
        writes = (
            lambda: client.create(CONFIGMAPS, "ns", {"metadata": {"name": "b"}}),
            lambda: client.request("PUT", CONFIGMAPS.path("ns", "a"), body=BODY),
            lambda: client.patch(CONFIGMAPS, "ns", "a", {}),
            lambda: client.request("POST", "/api/v1/namespaces/ns/configmaps", body=BODY),
            lambda: client.delete(CONFIGMAPS, "ns", "a"),
        )
        await writes[0]()
        shut = True
        sent = len(api.seen)
        for write in writes * 2:  # often enough to be taken for an outage, which it isn't
            with pytest.raises(errors.NotLeading):
                await write()
        assert len(api.seen) == sent
        await client.request("POST", REVIEWS, body=BODY)  # changes nothing
        assert (await client.get(CONFIGMAPS, "ns", "a"))["metadata"]["name"] == "a"
        assert client.outage is None
        assert caplog.records == []


async def test_the_fence_is_asked_when_a_write_has_waited_for_its_place(api: FakeApi) -> None:
    class Slow:
        @contextlib.asynccontextmanager
        async def slot(self) -> AsyncIterator[None]:
            leads.clear()
            yield

        async def pause(self) -> None:
            pass

        def throttled(self, retry_after: float | None) -> None:
            pass

    leads = [True]
    connection = Connection(Endpoint(host=api.url))
    async with KubeClient(connection, limit=Slow(), fence=lambda: bool(leads)) as client:
        with pytest.raises(errors.NotLeading):
            await client.create(CONFIGMAPS, "ns", BODY)
    assert api.seen == []


async def test_a_delete_carries_what_it_was_decided_on(client: KubeClient, api: FakeApi) -> None:
    api.put("a")
    await client.delete(
        CONFIGMAPS, "ns", "a", uid="u", resource_version="7", propagation="Background"
    )
    assert api.seen[-1].body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "propagationPolicy": "Background",
    }


WEBHOOK = 'admission webhook "policy.example.org" denied the request: no copies here'


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (error(401, "Unauthorized"), errors.Unauthorized),
        (error(400, "", WEBHOOK), errors.AdmissionDenied),
        (raw(b"404 page not found", "text/plain", 404), errors.NotFound),
        (raw(b"<html>Bad Gateway</html>", "text/html", 502), errors.ServerError),
        (raw(b"<html>log in here</html>", "text/html"), errors.BrokenAnswer),
        (raw(b"[]"), errors.BrokenAnswer),
        (raw(b""), errors.BrokenAnswer),
        (cut(b'{"metadata": {}}'), errors.BrokenAnswer),
    ],
)
async def test_an_answer_becomes_the_error_that_it_means(
    client: KubeClient, api: FakeApi, answer: Any, expected: type[errors.ApiError]
) -> None:
    api.always("create", answer)
    with pytest.raises(errors.ApiError) as caught:
        await client.create(CONFIGMAPS, "ns", BODY)
    assert type(caught.value) is expected


async def test_a_server_that_is_not_there_is_unreachable() -> None:
    async with KubeClient(Connection(Endpoint(host="http://127.0.0.1:9"))) as client:
        with pytest.raises(errors.Unreachable, match=r"127\.0\.0\.1:9"):
            await client.get(CONFIGMAPS, "ns", "a")


async def test_a_server_that_does_not_answer_in_time_is_unreachable(
    client: KubeClient, api: FakeApi
) -> None:
    api.always("get", hang())
    with pytest.raises(errors.Unreachable) as caught:
        await client.request("GET", "/api/v1/namespaces/ns/configmaps/a", timeout=0.05)
    assert caught.value.reason == "Timeout"


async def test_a_refused_token_is_renewed_once_and_the_request_succeeds(api: FakeApi) -> None:
    api.put("a")
    api.always("get", _only_for("Bearer new", api))
    connection = _renewable(api, "Bearer new")
    async with KubeClient(connection) as client:
        answers = await asyncio.gather(*(client.get(CONFIGMAPS, "ns", "a") for _ in range(8)))
    assert len(answers) == 8
    assert connection.generation == 1


async def test_a_token_that_stays_refused_is_not_renewed_at_every_request(api: FakeApi) -> None:
    api.always("get", error(401, "Unauthorized"))
    connection = _renewable(api, "Bearer worse")
    async with KubeClient(connection) as client:
        for _ in range(4):
            with pytest.raises(errors.Unauthorized):
                await client.get(CONFIGMAPS, "ns", "a")
    assert connection.generation == 1
    assert api.count("get") == 5


async def test_retry_after_is_understood_and_told_to_the_limit(api: FakeApi) -> None:
    limit: Any = RecordingLimit()
    api.script("create", error(429, "TooManyRequests", headers={"Retry-After": "3"}))
    api.script("get", error(503, headers={"Retry-After": "7"}), error(503))
    async with KubeClient(Connection(Endpoint(host=api.url)), limit=limit) as client:
        with pytest.raises(errors.TooManyRequests) as caught:
            await client.create(CONFIGMAPS, "ns", BODY)
        for _ in range(2):
            with pytest.raises(errors.ServerError):
                await client.get(CONFIGMAPS, "ns", "a")
    assert caught.value.retry_after == 3.0
    assert limit.throttles == [3.0, 7.0]


async def test_only_writes_take_a_place_of_the_limit_but_all_wait_for_its_pause(
    api: FakeApi,
) -> None:
    limit: Any = RecordingLimit()
    async with KubeClient(Connection(Endpoint(host=api.url)), limit=limit) as client:
        await client.create(CONFIGMAPS, "ns", BODY)
        await client.get(CONFIGMAPS, "ns", "a")
        await client.request("PUT", CONFIGMAPS.path("ns", "a"), body=BODY)
        await client.delete(CONFIGMAPS, "ns", "a")
        assert [page async for page in client.list_pages(CONFIGMAPS)]
    assert limit.slots == 3
    assert limit.pauses == 5


async def test_a_secret_that_the_server_quotes_is_taken_out_of_the_error(
    client: KubeClient, api: FakeApi
) -> None:
    body = {
        "metadata": {"name": "s"},
        "data": {"password": "aHVudGVyMg=="},
        "stringData": {"other": "correct horse"},
    }
    causes = [{"field": "data", "message": "hunter2 and correct horse are weak"}]
    said = "denied: aHVudGVyMg== means hunter2"
    api.script("create", error(422, "Invalid", said, details={"causes": causes}))
    with pytest.raises(errors.Invalid) as caught:
        await client.create(SECRETS, "ns", body)
    told = f"{caught.value} {caught.value.details} {caught.value.message}"
    assert "<redacted>" in told
    for value in ("aHVudGVyMg==", "hunter2", "correct horse"):
        assert value not in told


async def test_a_list_comes_in_pages(client: KubeClient, api: FakeApi) -> None:
    for number in range(7):
        api.put(f"c{number}")
    found = [page async for page in client.list_pages(CONFIGMAPS, metadata_only=True, limit=3)]
    assert [len(page.items) for page in found] == [3, 3, 1]
    names = [body["metadata"]["name"] for page in found for body in page.items]
    assert names == [f"c{number}" for number in range(7)]
    accept = {seen.headers["Accept"] for seen in api.of("list")}
    assert accept == {"application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}


async def test_a_page_that_is_too_large_is_asked_for_with_fewer_objects(
    client: KubeClient, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("copyrator.kube.client.client.KubeClient.page_bytes", 50_000)
    for number in range(30):
        api.put(f"c{number:02}", data={"blob": "x" * 10_000})
    api.put("c10", data={"blob": "x" * 60_000})  # alone it is larger than a page
    found = [page async for page in client.list_pages(CONFIGMAPS, limit=16)]
    names = [body["metadata"]["name"] for page in found for body in page.items]
    assert names == [f"c{number:02}" for number in range(30)]
    assert [int(seen.params["limit"]) for seen in api.of("list")][:3] == [16, 2, 16]
    assert max(page.size for page in found) < 70_000


async def test_a_deeply_nested_object_is_read_apart_from_a_long_page(
    client: KubeClient, api: FakeApi
) -> None:
    for number in range(20):
        api.put(f"c{number:02}", data={"blob": "x" * 200_000})
    deep = b"[" * 20_000 + b"]" * 20_000  # more than any Python decodes
    asked: list[int] = []

    async def serve(request: web.Request) -> web.StreamResponse:
        response = await api.serve(request)
        asked.append(int(request.query["limit"]))
        assert isinstance(response, web.Response)
        assert isinstance(response.body, bytes)
        response.body = response.body.replace(b'"c07"', b'"c07", "deep": ' + deep)
        return response

    api.always("list", serve)
    items = [body async for page in client.list_pages(CONFIGMAPS) for body in page.items]
    assert [body["metadata"]["name"] for body in items] == [f"c{n:02}" for n in range(20)]
    assert [body["metadata"].get(NOT_WHOLE) for body in items].count(TOO_DEEP) == 1
    assert asked[:2] == [100, 12]


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"kind": "ConfigMapList", "metadata": {}, "items": []}',
        b'{"kind": "ConfigMapList", "metadata": {"resourceVersion": "1"}, "items": [{"a"',
        b'{"kind": "Status", "metadata": {"resourceVersion": "1"}}',
        b'{"kind": "ConfigMap", "metadata": {"resourceVersion": "1"}}',
    ],
)
async def test_what_is_not_a_whole_list_is_an_error_not_an_empty_list(
    client: KubeClient, api: FakeApi, body: bytes
) -> None:
    api.always("list", raw(body))
    with pytest.raises(errors.BrokenAnswer):
        async for _ in client.list_pages(CONFIGMAPS):
            pass


async def test_a_watch_tells_events_of_any_length(client: KubeClient, api: FakeApi) -> None:
    big = event("ADDED", "big", 2, data={"blob": "x" * 900_000})
    whole = event("ADDED", "a", 1) + big + event("DELETED", "a", 3)
    chunks = [whole[start : start + 70_001] for start in range(0, len(whole), 70_001)]
    api.script("watch", stream(*chunks))
    seen = [
        (found.type, found.object["metadata"]["name"])
        async for found in client.watch(CONFIGMAPS, resource_version="0")
    ]
    assert seen == [("ADDED", "a"), ("ADDED", "big"), ("DELETED", "a")]


async def test_watches_beyond_the_limit_fail_visibly_and_leave_requests_alone(
    api: FakeApi,
) -> None:
    api.put("a")
    async with KubeClient(
        Connection(Endpoint(host=api.url)), watch_connections=2, watch_patience=0.1
    ) as client:
        tasks = [asyncio.create_task(_drain(client)) for _ in range(2)]
        await until(lambda: api.watches == 2, "two watches stand")
        with pytest.raises(errors.Unreachable) as caught:
            await _drain(client)
        assert caught.value.reason == "TooManyWatches"
        await asyncio.gather(*(client.get(CONFIGMAPS, "ns", "a") for _ in range(50)))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_requests_are_counted_by_verb_resource_and_code(api: FakeApi) -> None:
    metrics = Metrics()
    async with KubeClient(Connection(Endpoint(host=api.url)), metrics=metrics) as client:
        await client.create(CONFIGMAPS, "ns", BODY)
        with pytest.raises(errors.AlreadyExists):
            await client.create(CONFIGMAPS, "ns", BODY)
        with pytest.raises(errors.NotFound):
            await client.request("GET", "/apis/batch/v1/namespaces/ns/jobs/j")
        with pytest.raises(errors.NotFound):
            await client.get(NAMESPACES, None, "n")
    shown = generate_latest(metrics.registry).decode()
    for verb, resource, code in [
        ("create", "configmaps", "201"),
        ("create", "configmaps", "409"),
        ("get", "jobs.batch", "404"),
        ("get", "namespaces", "404"),
    ]:
        labels = f'code="{code}",resource="{resource}",verb="{verb}"'
        assert f"copyrator_api_requests_total{{{labels}}} 1.0" in shown


async def test_no_body_appears_in_the_log_even_at_debug(
    client: KubeClient, api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    body = {"metadata": {"name": "s"}, "stringData": {"k": "sentinel-value"}}
    await client.create(SECRETS, "ns", body)
    await client.get(SECRETS, "ns", "s")
    assert "sentinel-value" not in caplog.text


class RecordingLimit:
    def __init__(self) -> None:
        self.slots = 0
        self.pauses = 0
        self.throttles: list[float | None] = []

    def slot(self) -> Any:
        self.slots += 1
        return nullcontext()

    async def pause(self) -> None:
        self.pauses += 1

    def throttled(self, retry_after: float | None) -> None:
        self.throttles.append(retry_after)


async def _drain(client: KubeClient) -> None:
    async for _ in client.watch(CONFIGMAPS, resource_version="0"):
        pass


def _renewable(api: FakeApi, token: str) -> Connection:
    async def load() -> Endpoint:
        return Endpoint(host=api.url, authorization=token)

    return Connection(Endpoint(host=api.url, authorization="Bearer old"), loader=load)


def _only_for(token: str, api: FakeApi) -> Any:
    async def answer(request: Any) -> Any:
        if request.headers.get("Authorization") != token:
            return await error(401, "Unauthorized")(request)
        return await api.serve(request)

    return answer


async def test_a_list_of_names_has_short_pages_whatever_is_in_the_objects(
    client: KubeClient, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KubeClient, "usual_page_bytes", 20_000)
    monkeypatch.setattr("copyrator.kube.client.client.KubeClient.page_bytes", 40_000)
    for number in range(60):  # small ones first, so that the next page is asked to be a long one
        api.put(f"a-{number}")
    for number in range(30):
        path = f"/api/v1/namespaces/ns/configmaps/b-{number:02}"
        annotations = {"filler": "x" * 10_000}
        metadata = {"name": f"b-{number:02}", "namespace": "ns", "annotations": annotations}
        api._store("ADDED", path, {"metadata": metadata})

    pages = [page async for page in client.list_pages(CONFIGMAPS, names_only=True)]

    assert max(page.size for page in pages) <= 40_000
    found = [item for page in pages for item in page.items]
    assert len(found) == 90
    assert {key for item in found for key in item["metadata"]} == {
        "name",
        "namespace",
        "resourceVersion",
    }


async def test_few_connect_at_once_and_a_free_connection_is_used_meanwhile(
    client: KubeClient, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So connecting takes as long as the server does, however many wait for it."""
    api.put("a")
    await client.get(CONFIGMAPS, "ns", "a")
    held = most = 0

    async def hold(*_: Any) -> None:
        nonlocal held, most
        held += 1
        most = max(most, held)
        try:
            await asyncio.sleep(3600)
        finally:
            held -= 1

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", hold)
    crowd = [asyncio.create_task(client.get(CONFIGMAPS, "ns", "a")) for _ in range(60)]
    await until(lambda: most == transport.CONNECTS_AT_ONCE, "they connect")
    await until(crowd[0].done, "it had the free connection")
    async with asyncio.timeout(60):
        await client.get(CONFIGMAPS, "ns", "a")
    for task in crowd:
        task.cancel()
    await asyncio.gather(*crowd, return_exceptions=True)
    assert most == transport.CONNECTS_AT_ONCE


# --- Kinds are asked for when they are needed, together, and not again and again ------------------


def group(name: str, *kinds: str, versions: tuple[str, ...] = ("v1",)) -> dict[str, Any]:
    def served(kind: str, version: str) -> dict[str, Any]:
        response = {"group": name, "version": version, "kind": kind}
        return {"resource": f"{kind.lower()}s", "scope": "Namespaced", "responseKind": response}

    return {
        "metadata": {"name": name},
        "versions": [
            {"version": version, "resources": [served(kind, version) for kind in kinds]}
            for version in versions
        ],
    }


class Served:
    def __init__(self, api: FakeApi) -> None:
        self.groups: list[dict[str, Any]] = []
        self.requests: list[str] = []
        api.always("get", self.answer)
        api.always("list", self.answer)

    async def answer(self, request: Any) -> Any:
        assert "as=APIGroupDiscoveryList" in request.headers["Accept"]
        self.requests.append(request.path)
        items = self.groups if request.path == "/apis" else []
        return web.json_response({"kind": "APIGroupDiscoveryList", "items": items})


@pytest.fixture
def served(api: FakeApi) -> Served:
    return Served(api)


async def test_many_questions_at_once_are_one_to_the_server(
    client: KubeClient, served: Served
) -> None:
    served.groups = [group("x.io", "Thing")]
    discovery = Discovery(client)
    await asyncio.gather(*(discovery.resolve("Thing") for _ in range(20)))
    assert served.requests == ["/api", "/apis"]


async def test_a_missing_kind_is_asked_for_again_only_after_a_while(
    client: KubeClient, served: Served
) -> None:
    now = [0.0]
    discovery = Discovery(client, patience=10, clock=lambda: now[0])
    for _ in range(5):
        with pytest.raises(errors.KindUnavailable, match="CRD"):
            await discovery.resolve("Thing")
    assert len(served.requests) == 2
    served.groups = [group("x.io", "Thing")]
    now[0] = 11
    assert (await discovery.resolve("Thing")).group == "x.io"
    with pytest.raises(errors.KindUnavailable, match=r"no kind things; did you mean Thing\?"):
        await discovery.resolve("things")


async def test_a_kind_of_two_groups_needs_an_api_version_unless_it_is_well_known(
    client: KubeClient, served: Served
) -> None:
    served.groups = [
        group("a.io", "Thing"),
        group("b.io", "Thing"),
        group("crd.projectcalico.org", "NetworkPolicy"),
    ]
    discovery = Discovery(client)
    with pytest.raises(errors.AmbiguousKind, match=r"a\.io/v1 or b\.io/v1"):
        await discovery.resolve("Thing")
    assert (await discovery.resolve("Thing", "b.io/v1")).group == "b.io"
    assert await discovery.resolve("NetworkPolicy") == NETWORKPOLICIES
    calico = await discovery.resolve("NetworkPolicy", "crd.projectcalico.org/v1")
    assert calico.group == "crd.projectcalico.org"


async def test_a_server_that_can_not_be_asked_is_not_a_missing_kind(
    client: KubeClient, api: FakeApi
) -> None:
    api.always("get", error(503))
    api.always("list", error(503))
    with pytest.raises(errors.ServerError):
        await Discovery(client).resolve("Thing")


async def test_a_kind_of_one_group_is_found_in_any_version(
    client: KubeClient, served: Served
) -> None:
    """As a plan names it: by group and kind."""
    served.groups = [
        group("a.io", "Thing", versions=("v2", "v1")),
        group("b.io", "Thing"),
        group("crd.projectcalico.org", "NetworkPolicy"),
    ]
    discovery = Discovery(client)
    assert await discovery.in_group("NetworkPolicy", "networking.k8s.io") == NETWORKPOLICIES
    assert served.requests == [], "it is well known"
    assert await discovery.in_group("Thing", "a.io") == Resource("a.io", "v2", "things", "Thing")
    calico = await discovery.in_group("NetworkPolicy", "crd.projectcalico.org")
    assert calico is not None
    assert calico.group == "crd.projectcalico.org"
    assert await discovery.in_group("Thing", "c.io") is None
    assert await discovery.in_group("Thing", "c.io") is None
    assert served.requests == ["/api", "/apis"]


# --- The operator's list of rights that it lacks: filled by refusals, emptied by what is granted --


CREATE = Permission("", "secrets", "create")
DENIED = (
    'secrets is forbidden: User "u" cannot create resource "secrets" in API group "" '
    'in the namespace "ns"'
)


class Authorizer:
    """Answers reviews."""

    def __init__(self):
        self.allowed = False
        self.asked = []

    async def request(self, _method, _path, *, body, **_):
        self.asked.append(body["spec"]["resourceAttributes"])
        if self.allowed is None:
            raise errors.Forbidden("you may not ask")
        return {"status": {"allowed": self.allowed}}


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def lacking(clock):
    return MissingPermissions(clock=clock)


@pytest.fixture
def authorizer():
    return Authorizer()


async def review(lacking, authorizer, clock, seconds):
    """Look once a second; return whether anything was granted."""
    granted = False
    for _ in range(seconds):
        clock.now += 1
        granted |= await lacking.review(authorizer)
    return granted


async def test_a_request_that_is_refused_shows_the_right_that_is_missing(api: FakeApi):
    lacking = MissingPermissions()
    assert lacking.sentence() is None
    api.script("create", error(403, "Forbidden", DENIED))
    connection = Connection(Endpoint(host=api.url))
    async with KubeClient(connection, on_refused=lacking.refused) as client:
        with pytest.raises(errors.Forbidden):
            await client.create(SECRETS, "ns", {"metadata": {"name": "a"}})
    assert "create secrets in ns" in str(lacking.sentence())


async def test_what_is_granted_is_forgotten_and_tried_again(lacking, authorizer, clock, caplog):
    caplog.set_level(logging.INFO)
    lacking.refused(Refusal(CREATE, "a", "x"))
    lacking.refused(Refusal(CREATE, "b", "y"))
    assert not await review(lacking, authorizer, clock, 60)
    assert lacking.missing() == [Refusal(CREATE, "b", "y")]
    assert len(authorizer.asked) < 10, "ever more slowly"
    assert authorizer.asked[0]["namespace"] == "b"
    assert authorizer.asked[0]["name"] == "y"
    authorizer.allowed = True
    assert await review(lacking, authorizer, clock, 31)
    assert lacking.sentence() is None
    said = [record.getMessage() for record in caplog.records]
    assert [line.split(":")[0] for line in said] == [
        "Missing permission",
        "Permission granted",
    ]


async def test_a_yes_that_isnt_true_is_believed_ever_more_seldom(lacking, authorizer, clock):
    authorizer.allowed = True
    granted = 0
    for _ in range(600):
        lacking.refused(Refusal(CREATE, "a"))
        granted += await review(lacking, authorizer, clock, 1)
    assert 2 < granted < 12


async def test_a_refusal_elsewhere_during_a_review_isnt_granted_by_it(lacking, authorizer, clock):
    """It may be allowed in the one namespace, and not in the other."""

    async def request(*args, **options):
        lacking.refused(Refusal(CREATE, "b"))
        return await Authorizer.request(authorizer, *args, **options)

    authorizer.request, authorizer.allowed = request, True
    lacking.refused(Refusal(CREATE, "a"))
    assert not await review(lacking, authorizer, clock, 5)
    assert lacking.missing() == [Refusal(CREATE, "b")]


async def test_a_log_is_read_as_text_whatever_its_bytes_are(
    client: KubeClient, api: FakeApi
) -> None:
    api.script("get", raw(b"line\n\xff\n", "text/plain"))
    text = await client.read_log("ns", "pod", "main", tail_lines=20, limit_bytes=4096)
    assert text == "line\n\N{REPLACEMENT CHARACTER}\n"
    assert api.seen[-1].path == "/api/v1/namespaces/ns/pods/pod/log"
    assert api.seen[-1].params == {"container": "main", "tailLines": "20", "limitBytes": "4096"}


async def test_selectors_and_the_version_go_to_the_server(client: KubeClient, api: FakeApi) -> None:
    api.script("list", error(410))
    with pytest.raises(errors.Gone):
        async for _ in client.list_pages(
            CONFIGMAPS, "ns", label_selector="a=b", field_selector="c=d", resource_version="0"
        ):
            pass
    assert api.seen[-1].path == "/api/v1/namespaces/ns/configmaps"
    assert api.seen[-1].params == {
        "labelSelector": "a=b",
        "fieldSelector": "c=d",
        "resourceVersion": "0",
        "limit": "100",
    }


@pytest.mark.parametrize("then", ["end", "cut"])
async def test_a_watch_that_ends_within_an_event_is_a_broken_answer(
    client: KubeClient, api: FakeApi, then: str
) -> None:
    api.script("watch", stream(event("ADDED", "a", 1), event("ADDED", "b", 2)[:40], then=then))
    watch = client.watch(CONFIGMAPS, resource_version="0")
    assert (await anext(watch)).object["metadata"]["name"] == "a"
    with pytest.raises(errors.Unreachable):
        await anext(watch)


async def test_plain_http_where_tls_is_spoken_is_unreachable(api: FakeApi) -> None:
    host = api.url.replace("http://", "https://")
    endpoint = Endpoint(host=host, ssl=ssl.create_default_context())
    async with KubeClient(Connection(endpoint)) as client:
        with pytest.raises(errors.Unreachable):
            await client.get(CONFIGMAPS, "ns", "a")


async def test_a_closed_client_is_unreachable_not_a_crash(api: FakeApi) -> None:
    client = KubeClient(Connection(Endpoint(host=api.url)))
    await client.close()
    with pytest.raises(errors.Unreachable):
        await client.get(CONFIGMAPS, "ns", "a")


async def test_an_api_server_that_doesnt_tell_is_no_grant(lacking, authorizer, clock):
    authorizer.allowed = None
    lacking.refused(Refusal(CREATE, "a"))
    assert not await review(lacking, authorizer, clock, 10)
    assert lacking.missing()


async def test_what_nobody_asks_for_any_more_is_forgotten(lacking, authorizer, clock):
    lacking.refused(Refusal(CREATE, "a"))
    await review(lacking, authorizer, clock, int(FORGET))
    assert lacking.missing()
    await review(lacking, authorizer, clock, 2)
    assert not lacking.missing()


@pytest.mark.parametrize(
    ("kind", "media_type"),
    [
        (PatchType.MERGE, "application/merge-patch+json"),
        (PatchType.JSON, "application/json-patch+json"),
        (PatchType.APPLY, "application/apply-patch+yaml"),
    ],
)
async def test_a_patch_says_its_media_type(
    client: KubeClient, api: FakeApi, kind: PatchType, media_type: str
) -> None:
    api.put("a")
    await client.patch(
        CONFIGMAPS, "ns", "a", {}, kind=kind, force=kind is PatchType.APPLY, field_manager="other"
    )
    seen = api.seen[-1]
    assert seen.headers["Content-Type"] == media_type
    assert seen.params["fieldManager"] == "other"
    assert seen.params.get("force") == ("true" if kind is PatchType.APPLY else None)
