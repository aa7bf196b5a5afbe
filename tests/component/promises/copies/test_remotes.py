"""Another cluster whose sources are copied: it is still the same, or nothing of it counts."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web
from tests.component.copies.conftest import Operator, make_rule, ready_of, reason
from tests.component.copies.fake_cluster import FakeCluster
from tests.component.copies.test_remote_sources import (
    HUB,
    Hub,
    clusters,
    data,
    pulled,
    pulling,
)
from tests.component.kube.fake_api import error, until

from copyrator.kube.client import remote

OTHER = "22222222-bbbb"
MOTD = f"/api/v1/namespaces/{HUB}/configmaps/motd"


def become_another(hub: Hub) -> None:
    """The same address, certificate and credential, and no source."""
    hub.objects["/api/v1/namespaces/kube-system"]["metadata"]["uid"] = OTHER
    hub.objects.pop(MOTD)
    hub.forget_history()


LOSSES = {
    "its history is compacted": lambda hub: hub.script("watch", error(410, "Expired")),
    "its watch is refused": lambda hub: hub.script("watch", error(403, "Forbidden")),
    "its watch fails": lambda hub: hub.script("watch", error(500, "InternalError")),
}


@pytest.mark.parametrize("fresh", [0.0, 0.2], ids=["", "soon after it was identified"])
@pytest.mark.parametrize("how", LOSSES)
async def test_a_remote_cluster_is_identified_anew_after_its_list_was_lost(
    cluster: FakeCluster,
    operator: Operator,
    hub: Hub,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    fresh: float,
) -> None:
    monkeypatch.setattr(remote, "_FRESH_SECONDS", fresh)
    await pulled(cluster, hub, operator)
    await asyncio.sleep(fresh)  # so that it isn't as good as known

    become_another(hub)
    LOSSES[how](hub)
    hub.cut_watches()

    await until(lambda: reason(cluster, "pull") == "SourceClusterChanged", "stopped")
    await operator.settled()
    assert len(cluster.copies("configmaps", "motd")) == 2
    assert data(cluster, "team-a", "motd") == {"text": "hello"}
    assert clusters(cluster, "pull")[0]["uid"] == hub.uid


async def test_a_remote_clusters_deletions_count_only_if_it_is_still_the_same(
    cluster: FakeCluster, operator: Operator, hub: Hub
) -> None:
    """Its watch was cut, and goes on at the other one where the former ended."""
    await pulled(cluster, hub, operator)

    hub.objects["/api/v1/namespaces/kube-system"]["metadata"]["uid"] = OTHER
    hub.cut_watches()
    hub.gone("configmaps", HUB, "motd")

    await until(lambda: reason(cluster, "pull") == "SourceClusterChanged", "stopped")
    await operator.settled()
    assert len(cluster.copies("configmaps", "motd")) == 2


async def test_a_first_list_is_of_the_cluster_that_was_identified(
    cluster: FakeCluster, operator: Operator, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a kind that a rule asks for later, also where it was lost once."""
    monkeypatch.setattr(remote, "_FRESH_SECONDS", 0.0)
    await pulled(cluster, hub, operator)
    hub.objects["/api/v1/namespaces/kube-system"]["metadata"]["uid"] = OTHER
    hub.object("secrets", HUB, "login", data={"a": "b3RoZXI="})
    hub.script("list", error(500, "InternalError"))

    make_rule(cluster, "later", pulling("login", kind="Secret"))

    await until(lambda: reason(cluster, "pull") == "SourceClusterChanged", "stopped")
    await operator.settled()
    assert len(cluster.copies("configmaps", "motd")) == 2


async def test_a_list_that_takes_longer_than_its_limit_is_a_lost_list(
    cluster: FakeCluster, operator: Operator, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many pages come: what isn't in them isn't taken for deleted."""
    await pulled(cluster, hub, operator)
    monkeypatch.setattr(remote, "REMOTE_LIST_SECONDS", 0.3)

    async def slow(request: web.Request) -> web.StreamResponse:
        page = int(request.query.get("continue", "0"))
        await asyncio.sleep(0.1)
        metadata = {"resourceVersion": "9", **({"continue": f"{page + 1}"} if page < 9 else {})}
        body = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata, "items": []}
        return web.Response(text=json.dumps(body), content_type="application/json")

    hub.always("watch", error(410, "Expired"))
    hub.always("list", slow)
    hub.cut_watches()

    await until(lambda: reason(cluster, "pull") == "SourceUnreachable", "it is lost")
    assert "its list takes more than 0.3 s" in ready_of(cluster, "pull")["message"]
    await operator.settled()
    assert len(cluster.copies("configmaps", "motd")) == 2

    hub.object("configmaps", HUB, "motd", data={"text": "back"})
    hub.behave()
    await until(lambda: data(cluster, "team-a", "motd") == {"text": "back"}, "it is read again")
