"""Kinds are asked for when they are needed, together, and not again and again."""

import asyncio
from typing import Any

import pytest
from aiohttp import web
from tests.component.kube.fake_api import FakeApi, error

from copyrator.kube import errors
from copyrator.kube.client.client import KubeClient
from copyrator.kube.resources import NETWORKPOLICIES, Discovery, Resource


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


async def test_the_preferred_version_of_a_kind_is_found(client: KubeClient, served: Served) -> None:
    served.groups = [group("x.io", "Thing", versions=("v2", "v1"))]
    discovery = Discovery(client)
    assert await discovery.resolve("Thing") == Resource("x.io", "v2", "things", "Thing")
    assert (await discovery.resolve("Thing", "x.io/v1")).version == "v1"
    assert served.requests == ["/api", "/apis"]


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
