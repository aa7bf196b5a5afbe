"""What another cluster, or several, can do to the rules that read it, and to others."""

import asyncio

from aiohttp import web
from tests.builders.encoding import b64
from tests.component.copies.conftest import HOME, make_rule, reason
from tests.component.copies.test_remote_sources import (
    HUB,
    authority,
    hub,
    pulled,
    pulling,
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
