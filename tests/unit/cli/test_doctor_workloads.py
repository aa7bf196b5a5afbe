"""What doctor says of permissions on workloads: only where a Bundle or a rule asks for them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from copyrator.cli.core.installation import Installation
from copyrator.cli.doctor.check import Check
from copyrator.cli.doctor.permissions import workloads
from copyrator.kube import errors
from copyrator.kube.client.pages import Page
from copyrator.kube.resources import Resource
from copyrator.settings.config import Settings

USER = "system:serviceaccount:op:copyrator"


class Server:
    """Objects by kind, and what an account may do with workloads."""

    def __init__(self, objects: dict[str, list[dict[str, Any]]], granted: set[str]) -> None:
        self.objects, self.granted = objects, granted
        self.asked: list[tuple[str, str, str]] = []

    async def list_pages(
        self, resource: Resource, namespace: str | None, **_: Any
    ) -> AsyncIterator[Page]:
        found = self.objects[resource.plural]
        wanted = [one for one in found if namespace in (None, one["metadata"]["namespace"])]
        yield Page(cast("Any", wanted), "1")

    async def request(self, _method: str, _path: str, *, body: dict[str, Any], **_: Any) -> Any:
        asked = body["spec"]["resourceAttributes"]
        self.asked.append((asked["verb"], asked["resource"], asked["namespace"]))
        return {"status": {"allowed": asked["verb"] in self.granted}}


class Refuses(Server):
    async def request(self, _method: str, _path: str, *, body: dict[str, Any], **_: Any) -> Any:
        raise errors.Forbidden("no reviews")


def object_of(name: str, spec: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "team", "name": name}, "spec": spec}


WATCHED = object_of("shop", {"health": "Watch"})
LOOKED = object_of("ca", {"rollout": {"health": True}})
RESTARTED = object_of("key", {"rollout": {"restart": "Consumers"}})
PLAIN = [
    object_of("off", {"health": "Off", "rollout": {"steps": ["50%"], "health": False}}),
    object_of("odd", {"health": ["Watch"], "rollout": "x"}),
    object_of("empty", None),
]


def checks(server: Server, user: str | None = USER, served: tuple[str, ...] = ()) -> list[Check]:
    account = user.rpartition(":")[2] if user else None
    settings = Settings(watch_namespaces=served)
    installation = Installation(settings=settings, namespace="op", service_account=account)

    async def found() -> list[Check]:
        return [one async for one in workloads(cast("Any", server), installation)]

    return asyncio.run(found())


def server(*, bundles: Any = (), rules: Any = (), granted: str = "") -> Server:
    objects = {"bundles": [*PLAIN, *bundles], "copyrators": [*PLAIN, *rules]}
    return Server(objects, set(granted.split()))


def test_nothing_is_reviewed_where_nobody_asks_for_it() -> None:
    asked = server()
    assert checks(asked) == []
    assert asked.asked == []


@pytest.mark.parametrize(
    ("asked", "what", "said"),
    [
        (
            {"bundles": [WATCHED], "granted": "list"},
            "Health of releases",
            (
                f"Bundle team/shop asks for spec.health, but {USER} cannot watch deployments.apps "
                "in all namespaces and 3 more: the condition Healthy stays Unknown; the chart "
                "grants it (bundles.health.enabled)"
            ),
        ),
        (
            {"rules": [LOOKED], "granted": "get"},
            "Health of rollouts",
            (
                f"CopyratorRule team/ca asks for spec.rollout.health, but {USER} cannot list "
                "deployments.apps in all namespaces and 2 more: their rollouts wait; the "
                "chart grants it (rules.consumers)"
            ),
        ),
        (
            {"rules": [RESTARTED, RESTARTED], "granted": "get list"},
            "Restarts of rollouts",
            (
                f"CopyratorRule team/key and 1 more ask for spec.rollout.restart, but {USER} "
                "cannot patch deployments.apps in all namespaces and 2 more: their rollouts wait; "
                "the chart grants it (rules.restart)"
            ),
        ),
    ],
)
def test_a_missing_permission_names_who_asks_and_the_switch_of_the_chart(
    asked: dict[str, Any], what: str, said: str
) -> None:
    assert checks(server(**asked)) == [Check(what, False, said)]
    (check,) = checks(server(**asked), user=None)
    assert check.good is None, "the caller isn't the operator"
    (check,) = checks(server(**asked | {"granted": "get list watch patch"}))
    assert check.good
    assert check.said.endswith(f"granted to {USER}")


def test_it_is_reviewed_in_each_namespace_that_is_served() -> None:
    asked = server(bundles=[WATCHED], granted="list watch")
    checks(asked, served=("team", "other"))
    kinds = ("deployments", "statefulsets", "daemonsets", "jobs")
    assert asked.asked == [
        (verb, kind, scope)
        for scope in ("team", "other")
        for kind in kinds
        for verb in ("list", "watch")
    ]


def test_that_nobody_may_review_is_said() -> None:
    (check,) = checks(Refuses({"bundles": [WATCHED], "copyrators": []}, set()))
    assert (check.good, check.said) == (None, "can't be checked: no reviews")
