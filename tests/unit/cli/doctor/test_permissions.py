"""What doctor reviews: what the operator needs, and what Bundles and rules ask for."""

from __future__ import annotations

import asyncio
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


class Reviewer:
    """Grants everything but one resource in a namespace."""

    def __init__(self, denied: tuple[str, str]) -> None:
        self.denied = denied

    async def request(self, _method: str, _path: str, *, body: dict[str, Any], **_: Any) -> Any:
        asked = body["spec"]["resourceAttributes"]
        return {"status": {"allowed": (asked["resource"], asked["namespace"]) != self.denied}}


@pytest.mark.parametrize("served", [(), ("team",), ("rules", "team")], ids=str)
def test_the_signature_policy_is_read_in_the_rules_namespace_whatever_is_served(
    served: tuple[str, ...],
) -> None:
    settings = Settings(namespace="rules", watch_namespaces=served, kinds=())
    server = cast("Any", Reviewer(("configmaps", "rules")))
    missing = asyncio.run(missing_permissions(server, settings, USER, plans=False))
    assert missing == [
        (f"{verb} configmaps in rules", "install the chart's ClusterRole")
        for verb in ("get", "list", "watch")
    ]


class AppsReviewer(Reviewer):
    """Grants all but Deployments, which it serves in the group apps."""

    async def request(self, method: str, path: str, **options: Any) -> Any:
        if method == "POST":
            return await super().request(method, path, **options)
        served = {"resource": "deployments", "responseKind": {"kind": "Deployment"}}
        version = {"version": "v1", "resources": [{**served, "scope": "Namespaced"}]}
        apps = {"metadata": {"name": "apps"}, "versions": [version]}
        return {"items": [apps] if path == "/apis" else []}


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
    server = cast("Any", AppsReviewer(("deployments", "")))
    missing = asyncio.run(missing_permissions(server, settings, USER, plans=False))
    assert missing[0][0] == "get deployments.apps in all namespaces"
    assert {one for _, one in missing} == {remedy}


class Deny(Reviewer):
    """Grants nothing, and lets the caller review only if it is told to."""

    def __init__(self, *, may_review: bool = True) -> None:
        self.may_review = may_review

    async def request(self, _method: str, _path: str, *, body: dict[str, Any], **_: Any) -> Any:
        if not self.may_review:
            raise errors.Forbidden("no")
        return {"status": {"allowed": False}}


def installed(user: str | None) -> Installation:
    account = user.rpartition(":")[2] if user else None
    return Installation(settings=Settings(), namespace="op", service_account=account)


@pytest.mark.parametrize(
    ("server", "user", "good", "said"),
    [
        (Reviewer(("x", "")), USER, True, "plans name the permissions"),
        (
            Deny(),
            USER,
            None,
            f"{USER} cannot create subjectaccessreviews.authorization.k8s.io: plans don't name",
        ),
        (Deny(may_review=False), USER, None, f"can't review those of {USER}: no"),
        (Deny(), None, None, "the operator's account isn't known"),
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
    server = cast("Any", Reviewer((denied, "")))
    check = asyncio.run(consent_reviews(server, installed(USER), [body]))
    if good == "":
        assert check is None
        return
    assert check is not None
    assert (check.what, check.good) == ("Consent reviews", good)
    assert check.said.startswith(said)


USER = "system:serviceaccount:op:copyrator"


class Workloads:
    """Rules and Bundles, and what an account may do with workloads."""

    def __init__(self, objects: dict[str, list[dict[str, Any]]], granted: set[str]) -> None:
        self.objects, self.granted = objects, granted
        self.asked: list[tuple[str, str, str]] = []

    async def request(self, _method: str, _path: str, *, body: dict[str, Any], **_: Any) -> Any:
        asked = body["spec"]["resourceAttributes"]
        self.asked.append((asked["verb"], asked["resource"], asked["namespace"]))
        return {"status": {"allowed": asked["verb"] in self.granted}}


class NoReviews(Workloads):
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


def checks(
    workloads_of: Workloads, user: str | None = USER, served: tuple[str, ...] = ()
) -> list[Check]:
    account = user.rpartition(":")[2] if user else None
    settings = Settings(watch_namespaces=served)
    installation = Installation(settings=settings, namespace="op", service_account=account)

    async def found() -> list[Check]:
        client = cast("Any", workloads_of)
        return [one async for one in workloads(client, installation, workloads_of.objects)]

    return asyncio.run(found())


def workloads_of(*, bundles: Any = (), rules: Any = (), granted: str = "") -> Workloads:
    objects = {"bundles": [*PLAIN, *bundles], "rules": [*PLAIN, *rules]}
    return Workloads(objects, set(granted.split()))


def test_nothing_is_reviewed_where_nobody_asks_for_it() -> None:
    asked = workloads_of()
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
    assert checks(workloads_of(**asked)) == [Check(what, False, said)]
    (check,) = checks(workloads_of(**asked), user=None)
    assert check.good is None, "the caller isn't the operator"
    (check,) = checks(workloads_of(**asked | {"granted": "get list watch patch"}))
    assert check.good
    assert check.said.endswith(f"granted to {USER}")


def test_it_is_reviewed_in_each_namespace_that_is_served() -> None:
    asked = workloads_of(bundles=[WATCHED], granted="list watch")
    checks(asked, served=("team", "other"))
    kinds = ("deployments", "statefulsets", "daemonsets", "jobs")
    assert asked.asked == [
        (verb, kind, scope)
        for scope in ("team", "other")
        for kind in kinds
        for verb in ("list", "watch")
    ]


def test_that_nobody_may_review_is_said() -> None:
    (check,) = checks(NoReviews({"bundles": [WATCHED], "rules": []}, set()))
    assert (check.good, check.said) == (None, "can't be checked: no reviews")


Place = tuple[str, str]


class Scopes:
    """Bundles; it grants wide scopes but those that are `by_name` only."""

    def __init__(self, bundles: list[dict[str, Any]], by_name: set[Place]) -> None:
        self.bundles = bundles
        self.by_name = by_name
        self.asked: list[Place] = []

    async def request(self, _method: str, _path: str, *, body: dict[str, Any], **_: Any) -> Any:
        asked = body["spec"]["resourceAttributes"]
        place = (asked["resource"], asked["namespace"])
        self.asked.append(place)
        return {"status": {"allowed": place not in self.by_name}}


def bundle(namespace: str, **spec: Any) -> dict[str, Any]:
    spec = {"registry": "r", "repo": "a", **spec}
    return {"metadata": {"name": "app", "namespace": namespace, "uid": namespace}, "spec": spec}


def look(scopes: Scopes, **settings: Any) -> tuple[int, list[str], str]:
    installation = Installation(settings=Settings(**settings), namespace="op")
    polled = asyncio.run(polled_references(cast("Any", scopes), installation, scopes.bundles))
    return polled.named, sorted(map(str, polled.refs)), polled.sentence("the operator")


@pytest.fixture
def many() -> list[dict[str, Any]]:
    number = ALL_REFERENCE_WATCHES + 10
    return [bundle(f"team-{n:03}", auth="creds", values="values") for n in range(number)]


def test_where_all_is_granted_nothing_waits(many: list[dict[str, Any]]) -> None:
    scopes = Scopes(many, set())
    named, refs, said = look(scopes)
    assert (named, refs) == (2 * len(many), [])
    assert said.endswith("referenced by Bundles; edits take effect at once")
    assert set(scopes.asked) == {("configmaps", ""), ("secrets", "")}


def test_where_names_are_granted_the_rest_waits_and_the_right_is_named(
    many: list[dict[str, Any]],
) -> None:
    _, refs, said = look(Scopes(many, {("secrets", "")}))
    assert len(refs) == 11  # one watch is of all ConfigMaps
    assert refs[-1] == f"Secret team-{len(many) - 1}/creds"
    assert said.startswith(f"11 of {2 * len(many)} objects referenced by Bundles have no watch")
    assert "the operator cannot list and watch all secrets" in said
    assert 'bundles.allowedSecrets: ["*"]' in said
    assert "configmaps" not in said


def test_few_bundles_need_no_right_but_by_name() -> None:
    scopes = Scopes([bundle("team", auth="creds")], {("secrets", "")})
    assert look(scopes)[1] == []
    assert scopes.asked == []


def test_what_the_operator_does_not_follow_is_not_counted(many: list[dict[str, Any]]) -> None:
    others = [bundle("team", auth="other"), bundle("team", values="a", registry=1)]
    assert look(Scopes(others, set()), allowed_secrets=("creds",))[0] == 0
    served = ("team-000", "team-001")
    scopes = Scopes(many, {("secrets", "team-001")})
    assert look(scopes, watch_namespaces=served)[0] == 4
