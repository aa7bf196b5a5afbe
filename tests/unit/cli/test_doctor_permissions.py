"""What doctor reviews: all that the operator needs, where it needs it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from copyrator.cli.core.installation import Installation
from copyrator.cli.doctor.permissions import (
    consent_reviews,
    missing_permissions,
    permission_reviews,
)
from copyrator.kube import errors
from copyrator.kube.client.pages import Page
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
    assert missing == [f"{verb} configmaps in rules" for verb in ("get", "list", "watch")]


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


class Elsewhere(Reviewer):
    """Has one Bundle with its release in this namespace."""

    def __init__(self, release: str, denied: tuple[str, str] = ("nothing", "")) -> None:
        super().__init__(denied)
        self.release = release

    async def list_pages(self, *_: Any, **__: Any) -> Any:
        metadata = {"namespace": "apps", "name": "shop"}
        yield Page([{"metadata": metadata, "spec": {"project_namespace": self.release}}], "1")


@pytest.mark.parametrize(
    ("server", "good", "said"),
    [
        (Elsewhere("apps"), "", ""),
        (Elsewhere("prod"), True, "releases in other namespaces need their consent"),
        (
            Elsewhere("prod", ("localsubjectaccessreviews", "")),
            None,
            f"{USER} cannot create localsubjectaccessreviews.authorization.k8s.io in all namesp",
        ),
    ],
)
def test_that_it_may_not_ask_for_consent_is_worth_knowing_where_a_release_is_elsewhere(
    server: Any, good: Any, said: str
) -> None:
    check = asyncio.run(consent_reviews(server, installed(USER)))
    if good == "":
        assert check is None
        return
    assert check is not None
    assert (check.what, check.good) == ("Consent reviews", good)
    assert check.said.startswith(said)
