"""What doctor says of edits that wait for the poll, and to whom the operator's policy applies."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from copyrator.bundles.inputs.watches import ALL_REFERENCE_WATCHES
from copyrator.cli.core.installation import Installation
from copyrator.cli.doctor.references import polled_references
from copyrator.kube.client.client import Page
from copyrator.kube.client.pages import Items
from copyrator.settings.config import Settings

Place = tuple[str, str]


class Server:
    """Lists Bundles, and grants wide scopes but those that are `by_name` only."""

    def __init__(self, bundles: list[dict[str, Any]], by_name: set[Place]) -> None:
        self.bundles = bundles
        self.by_name = by_name
        self.asked: list[Place] = []

    async def list_pages(self, *_: Any, **__: Any) -> Any:
        yield Page(items=cast("Items", self.bundles), resource_version="1")

    async def request(self, _method: str, _path: str, *, body: dict[str, Any], **_: Any) -> Any:
        asked = body["spec"]["resourceAttributes"]
        place = (asked["resource"], asked["namespace"])
        self.asked.append(place)
        return {"status": {"allowed": place not in self.by_name}}


def bundle(namespace: str, **spec: Any) -> dict[str, Any]:
    spec = {"registry": "r", "repo": "a", **spec}
    return {"metadata": {"name": "app", "namespace": namespace, "uid": namespace}, "spec": spec}


def look(server: Server, **settings: Any) -> tuple[int, list[str], str]:
    installation = Installation(settings=Settings(**settings), namespace="op")
    polled = asyncio.run(polled_references(cast("Any", server), installation))
    return polled.named, sorted(map(str, polled.refs)), polled.sentence("the operator")


@pytest.fixture
def many() -> list[dict[str, Any]]:
    number = ALL_REFERENCE_WATCHES + 10
    return [bundle(f"team-{n:03}", auth="creds", values="values") for n in range(number)]


def test_where_all_is_granted_nothing_waits(many: list[dict[str, Any]]) -> None:
    server = Server(many, set())
    named, refs, said = look(server)
    assert (named, refs) == (2 * len(many), [])
    assert said.endswith("referenced by Bundles; edits take effect at once")
    assert set(server.asked) == {("configmaps", ""), ("secrets", "")}


def test_where_names_are_granted_the_rest_waits_and_the_right_is_named(
    many: list[dict[str, Any]],
) -> None:
    _, refs, said = look(Server(many, {("secrets", "")}))
    assert len(refs) == 11  # one watch is of all ConfigMaps
    assert refs[-1] == f"Secret team-{len(many) - 1}/creds"
    assert said.startswith(f"11 of {2 * len(many)} objects referenced by Bundles have no watch")
    assert "the operator cannot list and watch all secrets" in said
    assert 'bundles.allowedSecrets: ["*"]' in said
    assert "configmaps" not in said


def test_few_bundles_need_no_right_but_by_name() -> None:
    server = Server([bundle("team", auth="creds")], {("secrets", "")})
    assert look(server)[1] == []
    assert server.asked == []


def test_what_the_operator_does_not_follow_is_not_counted(many: list[dict[str, Any]]) -> None:
    others = [bundle("team", auth="other"), bundle("team", values="a", registry=1)]
    assert look(Server(others, set()), allowed_secrets=("creds",))[0] == 0
    served = ("team-000", "team-001")
    server = Server(many, {("secrets", "team-001")})
    assert look(server, watch_namespaces=served)[0] == 4
