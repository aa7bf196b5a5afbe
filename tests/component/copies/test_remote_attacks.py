"""What another cluster, or several, can do to the rules that read it, and to others."""

import asyncio

from aiohttp import web
from tests.builders.encoding import b64
from tests.component.copies.conftest import HOME, annotate_rule, make_rule, ready_of, reason
from tests.component.copies.test_remote_sources import (
    HUB,
    authority,
    clusters,
    composing,
    data,
    give,
    hub,
    hub_of,
    pulled,
    pulling,
    serving_tls,
)
from tests.component.kube.fake_api import bookmark, error, json_response, stream, until

from copyrator.kube.client import remote

__all__ = ["authority", "hub"]


async def test_a_uid_that_changes_at_each_look_stops_the_rule_and_is_asked_rarely(
    cluster, operator, hub
):
    await pulled(cluster, hub, operator)
    looks = 0

    async def other(request: web.Request) -> web.StreamResponse:
        nonlocal looks
        looks += 1
        found = hub.objects["/api/v1/namespaces/kube-system"]
        metadata = {**found["metadata"], "uid": f"other-{looks}"}
        return json_response({**found, "metadata": metadata})

    hub.always("get", other)
    hub.always("watch", error(500))
    hub.cut_watches()
    await until(lambda: reason(cluster, "pull") == "SourceClusterChanged", "stopped")
    await asyncio.sleep(1)
    before = looks
    await asyncio.sleep(3)
    assert looks - before <= 3
    assert len(cluster.copies("configmaps", "motd")) == 2


async def test_two_clusters_that_changed_at_once_can_be_confirmed(
    cluster, operator, hub, authority
):

    second = hub_of(authority)
    second.uid = "33333333-cccc"
    second.objects["/api/v1/namespaces/kube-system"]["metadata"]["uid"] = second.uid
    async with serving_tls(second, authority.context()):
        cluster.namespace("team-a")
        await operator.sees("team-a")
        hub.object("configmaps", HUB, "motd", data={"text": "one"})
        second.object("configmaps", HUB, "motd", data={"text": "two"})
        give(cluster, hub.kubeconfig(), "one")
        give(cluster, second.kubeconfig(), "two")
        sources = [
            {"as": name, "namespace": HUB, "name": "motd", "kubeConfig": {"secretName": name}}
            for name in ("one", "two")
        ]
        make_rule(cluster, "both", composing("both", *sources))
        await until(lambda: data(cluster, "team-a", "both") == {"text": "one two"}, "composed")
        await until(lambda: len(clusters(cluster, "both")) == 2, "both are known")
        give(cluster, second.kubeconfig(), "one")
        give(cluster, hub.kubeconfig(), "two")
        for uid in (second.uid, hub.uid):  # in turn: one annotation has one value
            said = f"source-cluster={uid}"
            await until(lambda said=said: ready_of(cluster, "both")["message"].endswith(said), said)
            annotate_rule(cluster, {"copyrator.flant.com/source-cluster": uid}, "both")
        await until(lambda: data(cluster, "team-a", "both") == {"text": "two one"}, "confirmed")


async def test_a_watch_that_ended_regularly_does_not_go_on_in_another_cluster(
    cluster, operator, hub, monkeypatch
):
    """A server that is replaced by another one ends its watches so."""
    monkeypatch.setattr(remote, "FRESH_FOR_WATCHES", 0.0)
    await pulled(cluster, hub, operator)
    before = hub.count("watch")
    hub.script("watch", stream(bookmark(hub.version)))
    hub.cut_watches()
    await until(lambda: hub.count("watch") > before, "the watch that will end")
    hub.objects["/api/v1/namespaces/kube-system"]["metadata"]["uid"] = "another"
    hub.gone("configmaps", HUB, "motd")
    await until(lambda: reason(cluster, "pull") == "SourceClusterChanged", "stopped")
    await operator.settled()
    assert len(cluster.copies("configmaps", "motd")) == 2


async def test_of_two_clusters_in_one_secret_the_one_that_is_down_is_in_the_metrics(
    cluster, operator, hub
):
    await pulled(cluster, hub, operator)
    dead = hub.kubeconfig(token="other", server="https://127.0.0.1:1")
    content = {"value": b64(hub.kubeconfig()), "dead": b64(dead)}
    cluster.object("secrets", HOME, "hub-creds", data=content)
    spec = pulling("motd", transform={"name": "dead"})
    spec["source"]["kubeConfig"]["key"] = "dead"
    make_rule(cluster, "dead", spec)
    await until(lambda: reason(cluster, "dead") == "SourceUnreachable", "down")
    content["value"] = b64(hub.kubeconfig(token="third"))  # which is opened last
    cluster.object("secrets", HOME, "hub-creds", data=content)
    await until(lambda: hub.seen[-1].headers["Authorization"] == "Bearer third", "used")
    await until(lambda: reason(cluster, "pull") == "Synced", "up")
    operator.controller.publish()
    labels = {"kubeconfig": "hub-creds"}
    assert operator.metrics.registry.get_sample_value("copyrator_remote_up", labels) == 0
