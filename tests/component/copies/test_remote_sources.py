"""Sources in another cluster: pulled over TLS from a second fake API server."""

import asyncio
import base64
import json
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web
from tests.authority import Authority
from tests.builders.encoding import b64
from tests.component.copies.conftest import (
    HOME,
    Operator,
    annotate_rule,
    by_name,
    counts,
    make_rule,
    ready_of,
    reason,
    status_of,
)
from tests.component.copies.fake_cluster import FakeCluster
from tests.component.kube.fake_api import error, event, hang, line, raw, stream, until

from copyrator.api.keys import RuleKey
from copyrator.copies.remotes.clusters import REMOTE_TIMING
from copyrator.copies.timing import DEFAULT_TIMING
from copyrator.kube.client import remote

HUB = "infra"
"""The namespace of the sources there."""
BUSY = 30.0
"""Seconds that a busy machine may take; who waits for the hub, waits longer."""


class Hub(FakeCluster):
    """Another cluster, with a Namespace kube-system."""

    uid = "11111111-aaaa"

    def make_uid(self, path: str) -> str:
        return self.uid if path.endswith("/namespaces/kube-system") else super().make_uid(path)

    def kubeconfig(self, token: str = "t0ken", **cluster: Any) -> str:
        described = {
            "server": self.url,
            "certificate-authority-data": base64.b64encode(self.authority.pem).decode(),
        } | cluster
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "hub", "cluster": described}],
                "users": [{"name": "puller", "user": {"token": token}}],
                "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "puller"}}],
                "current-context": "hub",
            }
        )

    authority: Authority


@asynccontextmanager
async def serving_tls(hub: Hub, context: ssl.SSLContext, port: int = 0) -> AsyncIterator[Hub]:
    app = web.Application(client_max_size=8 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", hub.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
    hub.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield hub
    finally:
        await runner.cleanup()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("ca") / "ca")


def hub_of(authority: Authority) -> Hub:
    hub = Hub()
    hub.authority = authority
    hub.namespace("kube-system")
    hub.namespace(HUB)
    return hub


@pytest.fixture
async def hub(authority: Authority) -> AsyncIterator[Hub]:
    async with serving_tls(hub_of(authority), authority.context()) as found:
        yield found


def give(cluster: FakeCluster, kubeconfig: str, name: str = "hub-creds") -> None:
    cluster.object("secrets", HOME, name, data={"value": b64(kubeconfig)})


def pulling(name: str, secret: str = "hub-creds", kind: str = "ConfigMap", **more: Any) -> Any:
    source = {"kind": kind, "namespace": HUB, "name": name, "kubeConfig": {"secretName": secret}}
    return {"source": source, "targets": {"namespaces": ["team-*"]}, **more}


def clusters(cluster: FakeCluster, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = status_of(cluster, name).get("sourceClusters", [])
    return found


def data(cluster: FakeCluster, namespace: str, name: str) -> Any:
    return (cluster.found("configmaps", namespace, name) or {}).get("data")


async def pulled(cluster: FakeCluster, hub: Hub, operator: Operator) -> None:
    """A rule `pull` that copies infra/motd of the hub into two namespaces."""
    for name in ("team-a", "team-b"):
        cluster.namespace(name)
    await operator.sees("team-a", "team-b")
    hub.object("configmaps", HUB, "motd", data={"text": "hello"})
    give(cluster, hub.kubeconfig())
    make_rule(cluster, "pull", pulling("motd"))
    await until(lambda: cluster.copies("configmaps", "motd") == ["team-a", "team-b"], "pulled")
    await until(lambda: reason(cluster, "pull") == "Synced", "Synced")


async def test_a_source_is_pulled_and_followed_and_its_deletion_too(cluster, operator, hub):
    await pulled(cluster, hub, operator)
    assert data(cluster, "team-a", "motd") == {"text": "hello"}
    assert clusters(cluster, "pull")[0]["uid"] == hub.uid
    paths = ["kube-system", "configmaps", "configmaps"]
    assert [seen.path.rsplit("/", 1)[1] for seen in hub.seen] == paths
    operator.requeue_rules()
    cluster.namespace("team-c")
    await until(lambda: len(cluster.copies("configmaps", "motd")) == 3, "the new namespace")
    await operator.settled()
    assert (len(hub.seen), hub.watches) == (3, 1), "one watch, and no request for what is known"
    hub.object("configmaps", HUB, "motd", data={"text": "bye"})
    await until(lambda: data(cluster, "team-b", "motd") == {"text": "bye"}, "changed")
    hub.gone("configmaps", HUB, "motd")
    await until(lambda: cluster.copies("configmaps", "motd") == [], "deleted")
    await until(lambda: reason(cluster, "pull") == "SourceNotFound", "SourceNotFound")
    assert "in the cluster of kubeconfig hub-creds" in ready_of(cluster, "pull")["message"]
    assert all(seen.verb in ("get", "list", "watch") for seen in hub.seen)


async def test_the_credential_arrives_with_each_request_and_nowhere_else(cluster, operator, hub):
    await pulled(cluster, hub, operator)
    assert {seen.headers["Authorization"] for seen in hub.seen} == {"Bearer t0ken"}
    assert not any("t0ken" in str(seen.body) for seen in cluster.seen)


async def test_rules_share_one_client_and_the_watch(cluster, operator, hub):
    await pulled(cluster, hub, operator)
    make_rule(cluster, "again", pulling("motd", transform={"name": "motd-2"}))
    await until(lambda: len(cluster.copies("configmaps", "motd-2")) == 2, "the second rule")
    assert hub.watches == 1
    assert hub.count("get") == 1  # of the Namespace kube-system
    for name in ("pull", "again"):
        cluster.drop(f"/apis/flant.com/v1/namespaces/{HOME}/copyrators/{name}")
    await until(lambda: hub.watches == 0, "the connection ends with the last rule")


async def test_what_is_refused_there_keeps_the_copies_and_heals_them(cluster, operator, hub):
    await pulled(cluster, hub, operator)
    hub.always("list", error(401, "Unauthorized", "t0ken is wrong"))
    hub.always("watch", error(401, "Unauthorized", "t0ken is wrong"))
    hub.always("get", error(401, "Unauthorized", "t0ken is wrong"))
    hub.cut_watches()
    await until(lambda: reason(cluster, "pull") == "SourceUnreachable", "unreachable")
    said = ready_of(cluster, "pull")["message"]
    assert "in the cluster of kubeconfig hub-creds" in said
    assert "refuses the credential (401)" in said
    assert "t0ken" not in said
    since = clusters(cluster, "pull")[0]["unreachableSince"]
    assert since in said
    assert counts(cluster, "pull")["ready"] == 2
    cluster.object(
        "configmaps",
        "team-a",
        "motd",
        data={"text": "edited"},
        metadata=(cluster.found("configmaps", "team-a", "motd") or {})["metadata"],
    )
    await until(lambda: data(cluster, "team-a", "motd") == {"text": "hello"}, "healed")
    hub.behave()
    await until(lambda: reason(cluster, "pull") == "Synced", "back again")
    assert "unreachableSince" not in clusters(cluster, "pull")[0]


async def test_a_watch_that_fails_again_after_a_moment_is_told_too(cluster, hub):
    """The check of all watches, run here and not by its period, doesn't see the moment."""
    operator = Operator(cluster, timing=replace(DEFAULT_TIMING, health=3600.0))
    await operator.start()
    check = operator.controller._compare_health
    released = asyncio.Event()

    async def late(request: web.Request) -> web.StreamResponse:
        await released.wait()
        return await hub.serve(request)

    hub.always("list", late)
    for name in ("team-a", "team-b"):
        cluster.namespace(name)
    hub.object("configmaps", HUB, "motd", data={"text": "hello"})
    give(cluster, hub.kubeconfig())
    make_rule(cluster, "pull", pulling("motd"))
    await until(lambda: hub.count("list") == 1, "the list has begun")
    await check()
    await operator.settled()
    released.set()
    await until(lambda: reason(cluster, "pull") == "Synced", "Synced")
    hub.always("watch", error(403, "Forbidden"))
    hub.always("list", error(403, "Forbidden"))
    hub.cut_watches()
    (source,) = operator.controller._context.rule_states[RuleKey(HOME, "pull")].sources
    await until(lambda: not source.synced, "incomplete")
    await check()
    await until(lambda: reason(cluster, "pull") == "SourceUnreachable", "unreachable")


async def test_an_edited_secret_is_in_force_at_once(cluster, operator, hub, authority):
    await pulled(cluster, hub, operator)
    give(cluster, hub.kubeconfig(token="renewed"))
    at = time.monotonic()
    await until(lambda: hub.seen[-1].headers["Authorization"] == "Bearer renewed", "used")
    await until(lambda: hub.watches == 1, "the former watch has ended")
    assert time.monotonic() - at < BUSY
    hub.object("configmaps", HUB, "motd", data={"text": "by the new one"})
    await until(lambda: data(cluster, "team-a", "motd") == {"text": "by the new one"})
    cluster.gone("secrets", HOME, "hub-creds")
    await until(lambda: reason(cluster, "pull") == "SourceUnreachable", "gone")
    assert f"there is no Secret {HOME}/hub-creds" in ready_of(cluster, "pull")["message"]
    await until(lambda: hub.watches == 0, "nothing is read any more")
    assert len(cluster.copies("configmaps", "motd")) == 2


async def test_another_cluster_behind_the_secret_stops_until_it_is_confirmed(
    cluster, operator, hub, authority
):
    await pulled(cluster, hub, operator)
    other = hub_of(authority)
    other.uid = "22222222-bbbb"
    other.objects["/api/v1/namespaces/kube-system"]["metadata"]["uid"] = other.uid
    async with serving_tls(other, authority.context()):
        give(cluster, other.kubeconfig())
        await until(lambda: reason(cluster, "pull") == "SourceClusterChanged", "stopped")
        said = ready_of(cluster, "pull")["message"]
        assert f"copyrator.flant.com/source-cluster={other.uid}" in said
        await operator.settled()
        assert len(cluster.copies("configmaps", "motd")) == 2
        assert clusters(cluster, "pull")[0]["uid"] == hub.uid
        other.object("configmaps", HUB, "motd", data={"text": "of the other one"})
        annotate_rule(cluster, {"copyrator.flant.com/source-cluster": other.uid}, "pull")
        await until(lambda: data(cluster, "team-a", "motd") == {"text": "of the other one"})
        await until(lambda: clusters(cluster, "pull")[0]["uid"] == other.uid)


async def test_another_cluster_at_the_same_address_deletes_nothing(cluster, authority):
    hub = hub_of(authority)
    operator = Operator(cluster)
    await operator.start()
    async with serving_tls(hub, authority.context()):
        await pulled(cluster, hub, operator)
        port = int(hub.url.rsplit(":", 1)[1])
    other = hub_of(authority)
    other.objects["/api/v1/namespaces/kube-system"]["metadata"]["uid"] = "22222222-bbbb"
    async with serving_tls(other, authority.context(), port):
        await until(lambda: reason(cluster, "pull") == "SourceClusterChanged", "stopped")
        await operator.settled()
        assert len(cluster.copies("configmaps", "motd")) == 2
        assert other.count("list") == 0


def refuse_statuses(cluster: FakeCluster) -> None:
    """Writes of statuses are refused, all others are taken."""
    answer = error(403, "Forbidden", "cannot patch copyrators/status")

    async def patch(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/status"):
            return await answer(request)
        return await cluster.serve(request)

    cluster.always("patch", patch)


def names_hub(cluster: FakeCluster, hub: Hub) -> bool:
    """Whether a write of a status named the hub."""
    found = [seen.body["status"] for seen in cluster.of("patch") if seen.path.endswith("/status")]
    return any(
        one["uid"] == hub.uid for status in found for one in status.get("sourceClusters", ())
    )


@pytest.mark.parametrize("is_composed", [False, True], ids=["source", "template"])
async def test_nothing_is_copied_before_the_status_names_the_other_cluster(
    cluster, operator, hub, authority, is_composed
):
    cluster.namespace("team-a")
    await operator.sees("team-a")
    hub.object("configmaps", HUB, "motd", data={"text": "hello"})
    give(cluster, hub.kubeconfig())
    refuse_statuses(cluster)
    make_rule(cluster, "pull", composing("motd", FROM_HUB) if is_composed else pulling("motd"))
    await until(lambda: names_hub(cluster, hub), "the status is tried")
    assert cluster.copies("configmaps", "motd") == []
    other = hub_of(authority)
    other.uid = "22222222-bbbb"
    other.objects["/api/v1/namespaces/kube-system"]["metadata"]["uid"] = other.uid
    other.object("configmaps", HUB, "motd", data={"text": "of the other one"})
    async with serving_tls(other, authority.context()):
        give(cluster, other.kubeconfig())
        await until(lambda: other.count("get") >= 1, "the other one is asked who it is")
        cluster.behave()
        await until(lambda: reason(cluster, "pull") == "SourceClusterChanged", "stopped")
        assert clusters(cluster, "pull")[0]["uid"] == hub.uid
        assert cluster.copies("configmaps", "motd") == []
        assert other.count("list") == 0
    give(cluster, hub.kubeconfig())
    await until(lambda: data(cluster, "team-a", "motd") == {"text": "hello"}, "the first one's")


async def test_where_the_uid_may_not_be_read_the_ca_tells_clusters_apart(
    cluster, operator, hub, tmp_path
):
    hub.always("get", error(403, "Forbidden"))
    await pulled(cluster, hub, operator)
    found = clusters(cluster, "pull")[0]
    assert "uid" not in found
    assert found["ca"].startswith("sha256:")
    other = hub_of(Authority.make(tmp_path / "other"))
    other.always("get", error(403, "Forbidden"))
    async with serving_tls(other, other.authority.context()):
        give(cluster, other.kubeconfig())
        await until(lambda: reason(cluster, "pull") == "SourceClusterChanged", "stopped")
        assert len(cluster.copies("configmaps", "motd")) == 2


async def test_the_home_cluster_is_refused(cluster, operator, hub):
    cluster.namespace("kube-system")
    await operator.sees("kube-system")
    home = cluster.objects["/api/v1/namespaces/kube-system"]["metadata"]["uid"]
    hub.objects["/api/v1/namespaces/kube-system"]["metadata"]["uid"] = home
    give(cluster, hub.kubeconfig())
    make_rule(cluster, "pull", pulling("motd"))
    await until(lambda: reason(cluster, "pull") == "InvalidSpec", "refused")
    assert "the cluster that the operator runs in" in ready_of(cluster, "pull")["message"]
    assert hub.count("list") == 0


async def test_what_else_a_kubeconfig_has_is_refused_by_name(cluster, operator, hub):
    """What is refused: tests/unit/api/test_kubeconfig.py."""
    give(cluster, hub.kubeconfig(**{"insecure-skip-tls-verify": True}))
    make_rule(cluster, "pull", pulling("motd"))
    await until(lambda: reason(cluster, "pull") == "SourceUnreachable", "refused")
    assert "insecure-skip-tls-verify" in ready_of(cluster, "pull")["message"]
    assert not hub.seen
    give(cluster, hub.kubeconfig())
    hub.object("configmaps", HUB, "motd", data={})
    await until(lambda: reason(cluster, "pull") in ("Synced", "NoTargets"), "corrected")


async def test_the_kubeconfig_is_never_a_source(cluster, operator, hub):
    cluster.namespace("elsewhere")
    await operator.sees("elsewhere")
    give(cluster, hub.kubeconfig())
    make_rule(cluster, "leak", by_name("hub-creds", "Secret"))
    await until(lambda: cluster.copies("secrets", "hub-creds"), "it is an ordinary Secret")
    make_rule(cluster, "pull", pulling("motd"))
    await until(lambda: not cluster.copies("secrets", "hub-creds"), "not any more")
    await until(lambda: reason(cluster, "leak") == "SourceNotFound", "reported")
    assert "it is the kubeconfig of a rule" in ready_of(cluster, "leak")["message"]


async def test_the_end_of_a_token_is_warned_of(cluster, operator, hub):
    claims = base64.urlsafe_b64encode(json.dumps({"exp": int(time.time()) + 600}).encode())
    cluster.namespace("team-a")
    await operator.sees("team-a")
    hub.object("configmaps", HUB, "motd", data={"text": "hello"})
    give(cluster, hub.kubeconfig(token=f"e30.{claims.decode().rstrip('=')}.c2ln"))
    make_rule(cluster, "pull", pulling("motd"))
    await until(lambda: reason(cluster, "pull") == "Synced", "Synced")
    conditions = {one["type"]: one for one in status_of(cluster, "pull")["conditions"]}
    said = conditions["CertificateExpiring"]
    assert said["status"] == "True"
    assert f"the credential in kubeconfig {HOME}/hub-creds, key value expires" in said["message"]


async def test_the_number_of_credentials_is_limited(cluster, hub):
    operator = Operator(cluster, max_remotes=1)
    await operator.start()
    await pulled(cluster, hub, operator)
    give(cluster, hub.kubeconfig(token="second"), "second")
    make_rule(cluster, "more", pulling("motd", "second", transform={"name": "more"}))
    await until(lambda: reason(cluster, "more") == "SourceUnreachable", "the limit")
    assert "--max-remotes" in ready_of(cluster, "more")["message"]


async def test_tenants_have_no_other_clusters(cluster, hub):
    operator = Operator(cluster, tenant_rules=True)
    await operator.start()
    cluster.namespace("tenant")
    path = "/apis/flant.com/v1/namespaces/tenant/copyrators/pull"
    body = {"metadata": {"name": "pull", "namespace": "tenant"}, "spec": pulling("motd")}
    cluster.object("secrets", "tenant", "hub-creds", data={"value": b64(hub.kubeconfig())})
    cluster.write(path, body)
    await until(lambda: "status" in cluster.objects[path], "reported")
    (condition,) = cluster.objects[path]["status"]["conditions"][:1]
    assert condition["reason"] == "NotTrusted"
    assert "spec.source.kubeConfig" in condition["message"]
    assert not hub.seen


DEEP = b"[" * 200_000 + b"]" * 200_000


def item(**more: Any) -> dict[str, Any]:
    metadata = {"name": "motd", "namespace": HUB, "resourceVersion": "5"}
    return {"metadata": metadata | more.pop("metadata", {}), "data": {"text": "x"}, **more}


def listing(*items: Any, **metadata: Any) -> bytes:
    body = {"kind": "ConfigMapList", "metadata": {"resourceVersion": "9"} | metadata}
    return json.dumps({**body, "items": list(items)}).encode()


HOSTILE = {
    "no JSON": raw(b"<html>"),
    "a redirect": error(302, headers={"Location": "http://169.254.169.254/"}),
    "another kind": raw(listing(item(kind="Secret"))),
    "another name": raw(listing(item(metadata={"name": "other"}))),
    "another namespace": raw(listing(item(metadata={"namespace": "kube-system"}))),
    "no map": raw(listing("motd")),
    "data that isn't text": raw(listing(item(data={"text": {"a": 1}}))),
    "labels that aren't text": raw(listing(item(metadata={"labels": {"a": 5}}))),
    "a version of megabytes": raw(listing(item(metadata={"resourceVersion": "9" * 100_000}))),
    "too large": raw(listing(item(data={"text": "x" * 3_000_000}))),
    "deep": raw(b'{"kind":"XList","metadata":{"resourceVersion":"1"},"items":[' + DEEP + b"]}"),
    "many objects in a page": raw(listing(*({} for _ in range(150_000)))),
    "an endless list": raw(listing(item(), **{"continue": "more"})),
}


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE)
async def test_a_hostile_list_is_its_rules_failure_alone(cluster, operator, hub, answer):
    give(cluster, hub.kubeconfig())
    cluster.namespace("team-a")
    await operator.sees("team-a")
    hub.always("list", answer)
    make_rule(cluster, "pull", pulling("motd"))
    await until(lambda: reason(cluster, "pull") == "SourceUnreachable", "unreachable")
    cluster.object("configmaps", HOME, "local", data={})
    make_rule(cluster, "local", by_name("local"))
    await until(lambda: cluster.copies("configmaps", "local") == ["team-a"], "others are served")
    assert cluster.copies("configmaps", "motd") == []
    hub.behave()
    hub.object("configmaps", HUB, "motd", data={"text": "hello"})
    await until(lambda: cluster.copies("configmaps", "motd") == ["team-a"], "well again")


EVENTS = {
    "another kind": line("ADDED", item(kind="Secret")),
    "another name": event("ADDED", "other", 500, HUB),
    "another type": b'{"type": "EXPLODED", "object": {"metadata": {}}}\n',
    "deep": b'{"type":"ADDED","object":' + DEEP + b"}\n",
    "no end": b"x" * 5_000_000,
    "a long error": b'{"type":"ERROR","object":{"message":"' + b"x" * 1_000_000 + b'"}}\n',
    "no version": b'{"type":"MODIFIED","object":{"metadata":{"name":"motd"}}}\n',
}


@pytest.mark.parametrize("chunk", EVENTS.values(), ids=EVENTS)
async def test_a_hostile_event_changes_nothing(cluster, operator, hub, chunk):
    await pulled(cluster, hub, operator)
    before = hub.count("watch")
    hub.always("watch", stream(chunk))
    hub.cut_watches()
    await until(lambda: hub.count("watch") >= before + 4, "it is tried again")
    assert data(cluster, "team-a", "motd") == {"text": "hello"}
    assert cluster.copies("configmaps", "other") == []
    hub.behave()
    hub.object("configmaps", HUB, "motd", data={"text": "well"})
    await until(lambda: data(cluster, "team-a", "motd") == {"text": "well"}, "well again")


def as_installed(operator: Operator) -> None:
    """With the durations that no test shortens."""
    operator.controller._rules.remotes.timing = REMOTE_TIMING


@asynccontextmanager
async def accepting() -> AsyncIterator[str]:
    """The URL of a server that accepts connections, and says nothing on them."""
    ended = asyncio.Event()

    async def say_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ended.wait()
        writer.close()

    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    async with server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ended.set()


PROMISED = 15.0
"""Seconds until a server that doesn't answer makes its rules SourceUnreachable."""
PROMISED_IF_CONNECTIONS_STAY = 25.0


@pytest.mark.promise
@pytest.mark.parametrize("speaks_tls", [True, False], ids=["no answer", "no handshake"])
async def test_a_server_that_accepts_and_never_answers_is_unreachable_in_time_and_freezes_nothing(
    cluster, operator, hub, speaks_tls
):
    as_installed(operator)
    for verb in ("get", "list", "watch"):
        hub.always(verb, hang())
    cluster.namespace("team-a")
    await operator.sees("team-a")
    cluster.object("configmaps", HOME, "local", data={"number": "0"})
    make_rule(cluster, "local", by_name("local"))
    await until(lambda: cluster.copies("configmaps", "local") == ["team-a"], "copied")

    names = [f"pull-{number}" for number in range(20)]  # more than there are workers
    async with accepting() as silent:
        server = {} if speaks_tls else {"server": silent}
        for name in names:
            give(cluster, hub.kubeconfig(token=name, **server), name)
            make_rule(cluster, name, pulling("motd", name))
        began, edits = time.monotonic(), 0

        def lost() -> set[str]:
            return {name for name in names if reason(cluster, name) == "SourceUnreachable"}

        while not lost() or edits <= len(names):
            edits += 1
            cluster.object("configmaps", HOME, "local", data=(new := {"number": str(edits)}))
            await until(lambda new=new: data(cluster, "team-a", "local") == new, "copied")
            assert time.monotonic() - began < PROMISED + BUSY / 2  # others are served all the while
        await until(lambda: lost() == {*names}, "all are unreachable", BUSY / 2)
    assert cluster.copies("configmaps", "motd") == []


@pytest.mark.promise
async def test_a_server_that_falls_silent_is_unreachable_in_time_and_its_copies_stay(
    cluster, operator, hub
):
    as_installed(operator)
    await pulled(cluster, hub, operator)
    for verb in ("get", "list", "watch"):
        hub.always(verb, hang())  # the watch that there is stays open
    began = time.monotonic()
    await until(lambda: reason(cluster, "pull") == "SourceUnreachable", "unreachable")
    assert time.monotonic() - began < PROMISED_IF_CONNECTIONS_STAY + BUSY / 2
    assert cluster.copies("configmaps", "motd") == ["team-a", "team-b"]
    hub.behave()
    await until(lambda: reason(cluster, "pull") == "Synced", "well again")


async def test_floods_of_changes_are_read_slowly_and_delay_no_other_rule(cluster, operator, hub):
    await pulled(cluster, hub, operator)
    sent = 0

    async def flood(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            sent += 1
            version, text = 10_000 + sent, {"text": f"{sent}" + "x" * 1000}
            await response.write(event("MODIFIED", "motd", version, HUB, data=text))

    hub.always("watch", flood)
    hub.cut_watches()
    await until(lambda: sent > 1000, "it floods")
    await asyncio.sleep(1)
    written = len(cluster.writes("configmaps"))
    cluster.object("configmaps", HOME, "local", data={})
    began = time.monotonic()
    make_rule(cluster, "local", by_name("local"))
    await until(lambda: "team-a" in cluster.copies("configmaps", "local"), "others are served")
    assert time.monotonic() - began < BUSY
    await asyncio.sleep(3)
    lasted = time.monotonic() - began  # 3 s or more
    assert len(cluster.writes("configmaps")) - written < 2 * 10 * 3 * lasted


async def chunk_bomb(request: web.Request) -> web.StreamResponse:
    """Megabytes in chunks of one byte, without end."""
    response = web.StreamResponse()
    response.enable_chunked_encoding()
    await response.prepare(request)
    transport = request.transport
    while transport is not None and not transport.is_closing():
        if transport.get_write_buffer_size() < 1_000_000:
            transport.write(b"1\r\nx\r\n" * 10_000)
        await asyncio.sleep(0.001)
    return response


async def test_answers_without_end_are_given_up_and_delay_no_other_rule(
    cluster, operator, hub, monkeypatch
):
    monkeypatch.setattr(remote, "REMOTE_REQUEST_SECONDS", 2.0)
    give(cluster, hub.kubeconfig())
    cluster.namespace("team-a")
    await operator.sees("team-a")
    hub.always("list", chunk_bomb)
    make_rule(cluster, "pull", pulling("motd"))
    await until(lambda: hub.count("list"), "it is asked")
    cluster.object("configmaps", HOME, "local", data={})
    make_rule(cluster, "local", by_name("local"))
    await until(lambda: cluster.copies("configmaps", "local") == ["team-a"], "others are served")
    await until(lambda: reason(cluster, "pull") == "SourceUnreachable", "unreachable")


async def test_of_a_rule_whose_copies_cant_be_deleted_the_hub_isnt_read_any_more(
    cluster, operator, hub
):
    await pulled(cluster, hub, operator)
    cluster.always("delete", error(403, "Forbidden"))
    cluster.gone("copyrators", HOME, "pull")

    def is_read():
        operator.controller.publish()
        labels = {"kubeconfig": "hub-creds"}
        return operator.metrics.registry.get_sample_value("copyrator_remote_up", labels)

    await until(lambda: is_read() is None, "its watches end")
    assert cluster.found("copyrators", HOME, "pull") is not None
    cluster.behave()
    await until(lambda: cluster.found("copyrators", HOME, "pull") is None, "it goes")


def composing(name: str, *sources: dict[str, Any]) -> dict[str, Any]:
    """A rule that writes the texts of ConfigMaps together."""
    texts = " ".join(f"{{{{ sources.{one['as']}.data.text }}}}" for one in sources)
    template = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"text": texts},
    }
    entries = [{"kind": "ConfigMap", **one} for one in sources]
    targets = {"namespaces": ["team-*"]}
    return {"sources": entries, "template": template, "targets": targets}


FROM_HUB = {"as": "hub", "namespace": HUB, "name": "motd"} | {
    "kubeConfig": {"secretName": "hub-creds"}
}
LOCAL = {"as": "here", "namespace": HUB, "name": "motd"}


async def composed(cluster: FakeCluster, hub: Hub, operator: Operator) -> None:
    for name in ("team-a", HUB):
        cluster.namespace(name)
    await operator.sees("team-a", HUB)
    hub.object("configmaps", HUB, "motd", data={"text": "there"})
    cluster.object("configmaps", HUB, "motd", data={"text": "here"})
    give(cluster, hub.kubeconfig())
    make_rule(cluster, "both", composing("both", FROM_HUB, LOCAL))
    await until(lambda: data(cluster, "team-a", "both") == {"text": "there here"}, "composed")
    await until(lambda: reason(cluster, "both") == "Synced", "Synced")


async def test_a_template_reads_both_clusters_objects_of_one_name(cluster, operator, hub):
    await composed(cluster, hub, operator)
    assert hub.watches == 1
    assert clusters(cluster, "both")[0]["uid"] == hub.uid
    before = len(hub.seen)
    await operator.settled()
    assert len(hub.seen) == before
    hub.object("configmaps", HUB, "motd", data={"text": "changed"})
    await until(lambda: data(cluster, "team-a", "both") == {"text": "changed here"}, "changed")
    cluster.object("configmaps", HUB, "motd", data={"text": "too"})
    await until(lambda: data(cluster, "team-a", "both") == {"text": "changed too"}, "changed")
    hub.gone("configmaps", HUB, "motd")
    await until(lambda: reason(cluster, "both") == "SourceNotFound", "SourceNotFound")
    assert "in the cluster of kubeconfig hub-creds" in ready_of(cluster, "both")["message"]
    assert data(cluster, "team-a", "both") == {"text": "changed too"}


async def test_templates_that_wait_for_a_hub_leave_the_workers_to_others(
    cluster, operator, hub, monkeypatch
):
    monkeypatch.setattr(remote, "REMOTE_REQUEST_SECONDS", 2 * BUSY)
    cluster.namespace("team-a")
    await operator.sees("team-a")
    hub.object("configmaps", HUB, "motd", data={"text": "there"})
    give(cluster, hub.kubeconfig())
    answered = asyncio.Event()

    async def later(request: web.Request) -> web.StreamResponse:
        await answered.wait()
        return await hub._get(request)

    hub.always("get", later)
    hub.script("get", hub._get)  # which cluster it is
    for number in range(12):  # more than there are workers
        make_rule(cluster, f"both-{number}", composing(f"both-{number}", FROM_HUB))
    await until(lambda: hub.count("get") >= 2, "sources are read")
    cluster.object("configmaps", HOME, "local", data={})
    make_rule(cluster, "local", by_name("local"))
    await until(lambda: "team-a" in cluster.copies("configmaps", "local"), "others are served")
    await operator.settled()
    assert hub.count("get") <= 1 + 2, "two rules read at a time"
    answered.set()
    hub.behave()
    await until(lambda: reason(cluster, "both-11") == "Synced", "all are composed")


async def test_an_operator_that_starts_while_the_hub_is_away_changes_nothing(
    cluster, operator, hub
):
    await pulled(cluster, hub, operator)
    await operator.stop()
    hub.always("get", error(503, "ServiceUnavailable"))
    restarted = Operator(cluster)
    await restarted.start()
    await until(lambda: reason(cluster, "pull") == "SourceUnreachable", "unreachable")
    await restarted.settled()
    assert cluster.copies("configmaps", "motd") == ["team-a", "team-b"]
    assert counts(cluster, "pull")["ready"] == 2
    hub.behave()
    hub.object("configmaps", HUB, "motd", data={"text": "new"})
    await until(lambda: data(cluster, "team-a", "motd") == {"text": "new"}, "back again")
