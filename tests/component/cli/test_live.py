"""What the live commands watch, for as long as a page may be open, against a fake API server."""

import asyncio
import gc
import time
import tracemalloc
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.component.copies.conftest import HOME, make_rule, serving
from tests.component.copies.fake_cluster import FakeCluster, path_of
from tests.component.kube.fake_api import error, hang, until
from tests.component.kube.test_reflector import QUICK
from tests.kubeconfigs import write_plain
from tests.long import LONG

from copyrator.api.text import format_micro_time
from copyrator.bundles.features.freeze.fields import Freeze
from copyrator.cli.view.live import Live
from copyrator.kube.auth import load_connection
from copyrator.kube.client.client import KubeClient
from copyrator.kube.client.transport import Connection, Endpoint
from copyrator.kube.resources import BUNDLES, LEASES

COPIES, HOURS = (20, 24) if LONG else (6, 10)
TIMING = replace(QUICK, silence=60.0, doubt_silence=60.0)
"""The fake API server sends no bookmarks, so each watch would count as silent after a second."""


@pytest.fixture
async def cluster():
    async with serving(FakeCluster()) as fake:
        yield fake


@asynccontextmanager
async def watching(connection, **more):
    async with (
        KubeClient(connection) as client,
        Live(client, None, HOME, timing=TIMING, **more) as one,
    ):
        yield one


def add_copy(cluster, number, rule="r"):
    name = f"copy-{number}"
    metadata = {
        "labels": {"app.kubernetes.io/managed-by": "copyrator"},
        "annotations": {"copyrator.flant.com/rule": f"{HOME}/{rule}"},
    }
    cluster.object("secrets", HOME, name, metadata=metadata, data={"number": str(time.time_ns())})


async def test_copies_are_counted_when_they_are_listed_and_rules_are_shown_before(cluster):
    make_rule(cluster, "r", {"source": {"kind": "Secret", "name": "s"}})
    add_copy(cluster, 1)
    handle = cluster.serve
    held = asyncio.Event()

    async def serve(request):
        whole = "limit" not in request.query or request.query["limit"] != "1"
        if whole and request.method == "GET" and request.path.endswith("/secrets"):
            await held.wait()
        return await handle(request)

    cluster.serve = serve
    async with watching(Connection(Endpoint(host=cluster.url)), patient=False) as live:
        assert [name.name for name in live.now.rules] == ["r"]
        await until(lambda: live.now.loading == ["Secret"], "the others are listed")
        assert len(live.now.copies) == 0
        seen = live.version
        held.set()
        await until(lambda: len(live.now.copies) == 1, "the copy is counted")
        await until(lambda: live.now.loading == [], "all is listed")
        assert live.version > seen


async def test_which_namespaces_may_get_copies_is_seen_with_their_labels(cluster):
    async with watching(Connection(Endpoint(host=cluster.url))) as live:
        cluster.namespace("team", tier="canary")
        cluster.namespace("out", **{"copyrator.flant.com/ignore": "true"})
        await until(lambda: {"team", "out"} <= live.now.places.keys(), "both are seen")
        team, out = (live.now.places[name] for name in ("team", "out"))
        assert (team.labels, team.created) == ({"tier": "canary"}, cluster.created)
        assert (team.is_target, out.is_target) == (True, False)


async def test_freezes_of_namespaces_are_seen_as_they_begin_and_end(cluster):
    async with watching(Connection(Endpoint(host=cluster.url))) as live:
        assert live.now.beside == []
        cluster.namespace("team", annotations={"operator.werf.dev/freeze": "holidays"})
        await until(lambda: live.now.beside == [Freeze(namespace="team", reason="holidays")])
        cluster.namespace("team")
        await until(lambda: live.now.beside == [])


async def test_a_freeze_of_all_is_seen_at_once(cluster):
    cluster.object("configmaps", "default", "copyrator-freeze", data={"reason": "holidays"})
    async with watching(Connection(Endpoint(host=cluster.url))) as live:
        assert live.now.beside == [Freeze(reason="holidays")]


async def test_an_operator_that_ends_or_begins_is_seen(cluster, monkeypatch):
    monkeypatch.setattr("copyrator.cli.view.live.BESIDE", 0.05)
    spec = {"holderIdentity": "one", "leaseDurationSeconds": 10}

    def renew(at):
        body = {"metadata": {"name": "copyrator", "namespace": HOME}}
        body["spec"] = {**spec, "renewTime": format_micro_time(at)}
        cluster.write(LEASES.path(HOME, "copyrator"), body)

    async with watching(Connection(Endpoint(host=cluster.url))) as live:
        assert live.now.down[0].startswith("No operator was found in the cluster: ")
        renew(datetime.now(UTC))
        await until(lambda: not live.now.down, "it began")
        seen = live.version
        renew(datetime.now(UTC) - timedelta(seconds=180))
        await until(lambda: live.now.down, "it ended")
        assert live.now.down[0].startswith("The operator has been down for 3m. What follows is ")
        assert live.version > seen


async def test_freezes_that_may_not_be_read_are_named_where_there_are_bundles(cluster):
    serve = cluster.serve

    async def refuse(request):
        if request.path.endswith("/configmaps/copyrator-freeze"):
            return await error(403, "Forbidden")(request)
        return await serve(request)

    cluster.serve = refuse
    async with watching(Connection(Endpoint(host=cluster.url))) as live:
        assert live.now.denied == []
        path = BUNDLES.path("team", "shop")
        cluster.write(path, {"metadata": {"name": "shop", "namespace": "team"}})
        denied = ["freezes (ConfigMap default/copyrator-freeze)"]
        await until(lambda: live.now.denied == denied, f"{denied}: {live.now.denied}")


class Guarded(FakeCluster):
    """Answers only who has the present token; watches end when it changes, as at an expiry."""

    token = "first"

    async def serve(self, request):
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return await error(401, "Unauthorized", "Unauthorized")(request)
        return await super().serve(request)

    def expire(self, token):
        self.token = token
        self.cut_watches()


async def test_expired_credentials_are_named_and_new_ones_are_used(tmp_path):
    async with serving(Guarded()) as cluster:
        path = write_plain(tmp_path, cluster.url, "first")
        make_rule(cluster, "before", {"source": {"kind": "Secret", "name": "s"}})
        loaded = await load_connection(path)

        async def load():
            return (await load_connection(path)).endpoint

        def clock():
            return time.monotonic() * 100  # it waits for seconds before it loads them again

        connection = Connection(loaded.endpoint, origin=loaded.origin, loader=load, clock=clock)
        async with watching(connection) as live:
            assert (len(live.now.rules), live.now.faults) == (1, [])
            cluster.expire("second")
            await until(lambda: "log in again" in "".join(live.now.faults), "the page says so")
            (said,) = live.now.faults
            assert f"kubeconfig {path}" in said
            assert "first" not in said
            assert len(live.now.rules) == 1  # what was known stays
            write_plain(tmp_path, cluster.url, "second")
            make_rule(cluster, "after", {"source": {"kind": "Secret", "name": "s"}})
            await until(lambda: len(live.now.rules) == 2, "it goes on")
            await until(lambda: live.now.faults == [], "nothing is said any more")


async def test_a_page_that_stays_open_keeps_its_size(cluster):
    """Watches end, their version is gone, an answer is late: what a day has, in each round."""
    make_rule(cluster, "r", {"source": {"kind": "Secret", "name": "s"}})
    for number in range(COPIES):
        add_copy(cluster, number)
    async with watching(Connection(Endpoint(host=cluster.url))) as live:
        await until(lambda: len(live.now.copies) == COPIES, "all copies are known")
        watches = len(live._informers)
        sizes = []
        tracemalloc.start()
        try:
            for hour in range(HOURS):
                await _an_hour(cluster, live, hour)
                assert len(live._informers) == watches
                await until(lambda: len(live._tasks) <= 2, "the look for kinds has ended")
                assert cluster.watches <= watches
                sizes.append(_held())
        finally:
            tracemalloc.stop()
    grown = max(sizes[-4:]) - max(sizes[2:6])
    assert grown < 64 * 1024, sizes
    await until(lambda: cluster.watches == 0, "no connection is left")


async def _an_hour(cluster, live, hour):
    """Each copy is changed, some are gone and come back, a rule comes and goes."""
    if hour % 3 == 1:
        cluster.forget_history()  # 410 Gone: all is listed again
    if hour % 3 == 2:
        cluster.script("watch", error(500), hang(0.2))
    cluster.cut_watches()
    for number in range(COPIES):
        add_copy(cluster, number)
    cluster.gone("secrets", HOME, "copy-0")
    name = f"hour-{hour}"
    make_rule(cluster, name, {"source": {"kind": "Secret", "name": "s"}})
    await until(lambda: len(live.now.copies) == COPIES - 1, "one is gone")
    await until(lambda: len(live.now.rules) == 2, "a rule came")
    cluster.drop(path_of("copyrators", HOME, name))
    add_copy(cluster, 0)
    await until(lambda: len(live.now.copies) == COPIES, "it is back")
    await until(lambda: len(live.now.rules) == 1, "the rule is gone")
    await until(lambda: live.now.faults == [] and not live.now.loading, "all is well")
    assert set(live.now.copies.of(f"{HOME}/r")[HOME]) == {
        ("Secret", f"copy-{number}") for number in range(COPIES)
    }


def _held() -> int:
    """Bytes that our own code holds."""
    gc.collect()
    ours = tracemalloc.Filter(inclusive=True, filename_pattern="*/operator/copyrator/*")
    found = tracemalloc.take_snapshot().filter_traces([ours])
    return sum(one.size for one in found.statistics("filename"))
