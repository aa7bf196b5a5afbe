"""What doctor reviews: what the operator needs, and what Bundles and rules ask for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from copyrator.bundles.engine.references import ALL_REFERENCE_WATCHES
from copyrator.cli.core.installation import Installation
from copyrator.cli.doctor.check import Check
from copyrator.cli.doctor.permissions import (
    consent_reviews,
    missing_permissions,
    permission_reviews,
    polled_references,
    workloads,
)
from copyrator.kube import errors
from copyrator.settings.config import Settings

USER = "system:serviceaccount:op:copyrator"
Asked = dict[str, Any]


class Reviewer:
    """Reviews permissions, by a function of what is asked; keeps verb, resource and namespace."""

    def __init__(
        self, grants: Callable[[Asked], bool], fault: errors.ApiError | None = None
    ) -> None:
        self.grants, self.fault = grants, fault
        self.asked: list[tuple[str, str, str]] = []

    async def request(self, method: str, path: str, *, body: Any = None, **_: Any) -> Any:
        if method != "POST":
            served = {"resource": "deployments", "responseKind": {"kind": "Deployment"}}
            version = {"version": "v1", "resources": [{**served, "scope": "Namespaced"}]}
            apps = {"metadata": {"name": "apps"}, "versions": [version]}
            return {"items": [apps] if path == "/apis" else []}
        if self.fault is not None:
            raise self.fault
        asked = body["spec"]["resourceAttributes"]
        self.asked.append((asked["verb"], asked["resource"], asked["namespace"]))
        return {"status": {"allowed": self.grants(asked)}}


def all_but(resource: str, namespace: str) -> Reviewer:
    return Reviewer(lambda asked: (asked["resource"], asked["namespace"]) != (resource, namespace))


def nothing(_: Asked) -> bool:
    return False


@pytest.mark.parametrize("served", [(), ("team",), ("rules", "team")], ids=str)
def test_the_signature_policy_is_read_in_the_rules_namespace_whatever_is_served(
    served: tuple[str, ...],
) -> None:
    settings = Settings(namespace="rules", watch_namespaces=served, kinds=())
    server = cast("Any", all_but("configmaps", "rules"))
    missing = asyncio.run(missing_permissions(server, settings, USER, plans=False))
    assert missing == [
        (f"{verb} configmaps in rules", "install the chart's ClusterRole")
        for verb in ("get", "list", "watch")
    ]


@pytest.mark.parametrize(
    ("kind", "remedy"),
    [
        (
            "Deployment",
            (
                "the chart grants nothing in the API group apps for Deployment: set "
                "Deployment.apps in rules.kinds (--kinds)"
            ),
        ),
        ("Deployment.apps", "install the chart's ClusterRole"),
    ],
)
def test_a_kind_without_its_group_is_named_and_not_the_cluster_role(kind, remedy) -> None:
    settings = Settings(namespace="rules", kinds=(kind,))
    server = cast("Any", all_but("deployments", ""))
    missing = asyncio.run(missing_permissions(server, settings, USER, plans=False))
    assert missing[0][0] == "get deployments.apps in all namespaces"
    assert {one for _, one in missing} == {remedy}


def installed(user: str | None) -> Installation:
    account = user.rpartition(":")[2] if user else None
    return Installation(settings=Settings(), namespace="op", service_account=account)


@pytest.mark.parametrize(
    ("server", "user", "good", "said"),
    [
        (all_but("x", ""), USER, True, "plans name the permissions"),
        (
            Reviewer(nothing),
            USER,
            None,
            f"{USER} cannot create subjectaccessreviews.authorization.k8s.io: plans don't name",
        ),
        (
            Reviewer(nothing, errors.Forbidden("no")),
            USER,
            None,
            f"can't review those of {USER}: no",
        ),
        (Reviewer(nothing), None, None, "the operator's account isn't known"),
    ],
)
def test_that_it_may_not_review_accounts_is_worth_knowing(
    server: Any, user: str | None, good: bool | None, said: str
) -> None:
    check = asyncio.run(permission_reviews(server, installed(user)))
    assert (check.what, check.good) == ("Permission reviews", good)
    assert check.said.startswith(said)


@pytest.mark.parametrize(
    ("release", "denied", "good", "said"),
    [
        ("apps", "nothing", "", ""),
        ("prod", "nothing", True, "releases in other namespaces need their consent"),
        (
            "prod",
            "localsubjectaccessreviews",
            None,
            f"{USER} cannot create localsubjectaccessreviews.authorization.k8s.io in all namesp",
        ),
    ],
)
def test_that_it_may_not_ask_for_consent_is_worth_knowing_where_a_release_is_elsewhere(
    release: str, denied: str, good: Any, said: str
) -> None:
    metadata = {"namespace": "apps", "name": "shop"}
    body = {"metadata": metadata, "spec": {"project_namespace": release}}
    server = cast("Any", all_but(denied, ""))
    check = asyncio.run(consent_reviews(server, installed(USER), [body]))
    if good == "":
        assert check is None
        return
    assert check is not None
    assert (check.what, check.good) == ("Consent reviews", good)
    assert check.said.startswith(said)


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


def checks(
    server: Reviewer,
    user: str | None = USER,
    served: tuple[str, ...] = (),
    *,
    bundles: Any = (),
    rules: Any = (),
) -> list[Check]:
    account = user.rpartition(":")[2] if user else None
    settings = Settings(watch_namespaces=served)
    installation = Installation(settings=settings, namespace="op", service_account=account)
    objects = {"bundles": [*PLAIN, *bundles], "rules": [*PLAIN, *rules]}

    async def found() -> list[Check]:
        return [one async for one in workloads(cast("Any", server), installation, objects)]

    return asyncio.run(found())


def verbs(granted: str) -> Reviewer:
    return Reviewer(lambda asked: asked["verb"] in granted.split())


def test_nothing_is_reviewed_where_nobody_asks_for_it() -> None:
    server = verbs("")
    assert checks(server) == []
    assert server.asked == []


@pytest.mark.parametrize(
    ("objects", "granted", "what", "said"),
    [
        (
            {"bundles": [WATCHED]},
            "list",
            "Health of releases",
            (
                f"Bundle team/shop asks for spec.health, but {USER} cannot watch deployments.apps "
                "in all namespaces and 3 more: the condition Healthy stays Unknown; the chart "
                "grants it (bundles.health.enabled)"
            ),
        ),
        (
            {"rules": [LOOKED]},
            "get",
            "Health of rollouts",
            (
                f"CopyratorRule team/ca asks for spec.rollout.health, but {USER} cannot list "
                "deployments.apps in all namespaces and 2 more: their rollouts wait; the "
                "chart grants it (rules.consumers)"
            ),
        ),
        (
            {"rules": [RESTARTED, RESTARTED]},
            "get list",
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
    objects: dict[str, Any], granted: str, what: str, said: str
) -> None:
    assert checks(verbs(granted), **objects) == [Check(what, False, said)]
    (check,) = checks(verbs(granted), None, **objects)
    assert check.good is None, "the caller isn't the operator"
    (check,) = checks(verbs("get list watch patch"), **objects)
    assert check.good
    assert check.said.endswith(f"granted to {USER}")


def test_it_is_reviewed_in_each_namespace_that_is_served() -> None:
    server = verbs("list watch")
    checks(server, served=("team", "other"), bundles=[WATCHED])
    kinds = ("deployments", "statefulsets", "daemonsets", "jobs")
    assert server.asked == [
        (verb, kind, scope)
        for scope in ("team", "other")
        for kind in kinds
        for verb in ("list", "watch")
    ]


def test_that_nobody_may_review_is_said() -> None:
    (check,) = checks(Reviewer(nothing, errors.Forbidden("no reviews")), bundles=[WATCHED])
    assert (check.good, check.said) == (None, "can't be checked: no reviews")


def bundle(namespace: str, **spec: Any) -> dict[str, Any]:
    spec = {"registry": "r", "repo": "a", **spec}
    return {"metadata": {"name": "app", "namespace": namespace, "uid": namespace}, "spec": spec}


def look(
    server: Reviewer, bundles: list[dict[str, Any]], **settings: Any
) -> tuple[int, list[str], str]:
    installation = Installation(settings=Settings(**settings), namespace="op")
    polled = asyncio.run(polled_references(cast("Any", server), installation, bundles))
    return polled.named, sorted(map(str, polled.refs)), polled.sentence("the operator")


@pytest.fixture
def many() -> list[dict[str, Any]]:
    number = ALL_REFERENCE_WATCHES + 10
    return [bundle(f"team-{n:03}", auth="creds", values="values") for n in range(number)]


def test_where_all_is_granted_nothing_waits(many: list[dict[str, Any]]) -> None:
    server = all_but("", "")
    named, refs, said = look(server, many)
    assert (named, refs) == (2 * len(many), [])
    assert said.endswith("referenced by Bundles; edits take effect at once")
    assert {asked[1:] for asked in server.asked} == {("configmaps", ""), ("secrets", "")}


def test_where_names_are_granted_the_rest_waits_and_the_right_is_named(
    many: list[dict[str, Any]],
) -> None:
    _, refs, said = look(all_but("secrets", ""), many)
    assert len(refs) == 11  # one watch is of all ConfigMaps
    assert refs[-1] == f"Secret team-{len(many) - 1}/creds"
    assert said.startswith(f"11 of {2 * len(many)} objects referenced by Bundles have no watch")
    assert "the operator cannot list and watch all secrets" in said
    assert 'bundles.allowedSecrets: ["*"]' in said
    assert "configmaps" not in said


def test_few_bundles_need_no_right_but_by_name() -> None:
    server = all_but("secrets", "")
    assert look(server, [bundle("team", auth="creds")])[1] == []
    assert server.asked == []


def test_what_the_operator_does_not_follow_is_not_counted(many: list[dict[str, Any]]) -> None:
    others = [bundle("team", auth="other"), bundle("team", values="a", registry=1)]
    assert look(all_but("", ""), others, allowed_secrets=("creds",))[0] == 0
    served = ("team-000", "team-001")
    assert look(all_but("secrets", "team-001"), many, watch_namespaces=served)[0] == 4
