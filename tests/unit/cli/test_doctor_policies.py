"""What doctor says of the approval policy where the API server can't have it, and when it asks."""

import asyncio
from typing import Any, cast

import pytest

from copyrator.cli.core.installation import Installation
from copyrator.cli.doctor.objects import approval_policy, plans_are_asked
from copyrator.kube import errors
from copyrator.kube.client.client import Page
from copyrator.kube.client.pages import Items
from copyrator.settings.config import Settings

NOT_SERVED = (
    "not served as v1 by this API server (Kubernetes 1.30 and later): whoever can edit a Bundle "
    "can also approve its plans; upgrade Kubernetes, see docs/trust.md"
)


class Server:
    """Lists Bundles, and answers every other request with an error."""

    def __init__(self, error: errors.ApiError, *approvals: Any) -> None:
        self.error = error
        self.bundles = [bundle(one) for one in approvals]

    async def list_pages(self, *_: Any, **__: Any) -> Any:
        if not self.bundles:
            raise self.error
        yield Page(items=cast("Items", self.bundles), resource_version="1")

    async def request(self, *_: Any, **__: Any) -> Any:
        raise self.error


def bundle(approval: Any) -> dict[str, Any]:
    return {"metadata": {"name": "app"}, "spec": {"approval": approval} if approval else {}}


def installed(**settings: Any) -> Installation:
    return Installation(settings=Settings(**settings), namespace="op")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (errors.NotFound(), NOT_SERVED),
        (errors.Forbidden("no"), "can't be listed: no"),
    ],
    ids=["Kubernetes 1.29", "forbidden"],
)
def test_a_policy_that_cant_be_there_or_seen_is_a_warning(error: errors.ApiError, said: str):
    check = asyncio.run(approval_policy(cast("Any", Server(error)), installed()))
    assert (check.what, check.good, check.said) == ("Approval policy", None, said)


@pytest.mark.parametrize(
    ("settings", "approvals", "asked"),
    [
        ({}, [], False),
        ({}, [None, {}, {"mode": "Never"}], False),
        ({}, [None, {"mode": "OnRisk"}], True),
        ({"require_approval": (("prod-*", "Always"),)}, [], True),
    ],
)
def test_it_is_asked_for_where_the_settings_or_a_bundle_ask_for_approval(
    settings: Any, approvals: list[Any], asked: bool
):
    server = cast("Any", Server(errors.Forbidden("no"), *approvals))
    assert asyncio.run(plans_are_asked(server, installed(**settings))) is asked
