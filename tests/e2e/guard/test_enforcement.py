"""Whether the operator finds out, on a real API server, what the chart's guard can hold."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

import pytest
from aiohttp import ClientSession
from tests.e2e import rbac
from tests.e2e.guard.conftest import Guarded, ops

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.names import LABEL_GUARD
from copyrator.bundles.plans.guard.enforcement import EnforcementReviewer
from copyrator.bundles.plans.guard.listing import Guard
from copyrator.kube.auth import load_connection
from copyrator.kube.client.client import KubeClient

ADMISSION = "admissionregistration.k8s.io"
POLICIES = "validatingadmissionpolicies"
BINDINGS = "validatingadmissionpolicybindings"
NO_LISTS = {"matchExpressions": [{"key": LABEL_GUARD, "operator": "DoesNotExist"}]}


class Asked:
    """A reviewer as the operator's account, which remembers nothing."""

    def __init__(self, guarded: Guarded, client: KubeClient) -> None:
        self._guarded = guarded
        self._client = client

    async def why(self, team: str, *lines: str) -> str:
        """Why a Bundle of that namespace isn't enforced; empty: it is."""
        guard = Guard(self._guarded.policy, self._guarded.home)
        spec = BundleSpec(registry="registry", repo="repo", namespace=team, service_account="werf")
        reviewer = EnforcementReviewer(self._client, guard, monotonic)
        return await reviewer.find_reason(spec, ops(*lines))


@pytest.fixture
async def asked(guarded: Guarded) -> AsyncIterator[Asked]:
    account = guarded.rendered.service_account
    kubeconfig = guarded.cluster.kubeconfig_for_service_account(guarded.home, account)
    async with KubeClient(await load_connection(kubeconfig)) as client:
        yield Asked(guarded, client)


@contextmanager
def granted(guarded: Guarded, team: str, *rules: dict[str, Any]) -> Iterator[None]:
    """A ClusterRole of the account of that namespace."""
    name = f"enforcement-{secrets.token_hex(3)}"
    rbac.grant(guarded.api, rbac.account(team, "werf"), *rules, name=name)
    try:
        yield
    finally:
        rbac.revoke(guarded.api, name)


async def until_why(asked: Asked, team: str, why: str) -> None:
    """RBAC's caches follow a moment later."""
    found = ""
    end = monotonic() + 20
    while why not in found and monotonic() < end:
        found = await asked.why(team)
        await asyncio.sleep(0.05)
    assert why in found


async def test_what_the_chart_installs_holds_an_account_without_rights_to_policies(
    guarded: Guarded, asked: Asked
) -> None:
    assert await asked.why(guarded.team(admin=False), "create ::ConfigMap:a") == ""


async def test_a_cluster_admin_could_remove_it(guarded: Guarded, asked: Asked) -> None:
    team = guarded.team()

    await until_why(asked, team, f"service account {team}/werf may ")


@pytest.mark.parametrize(("verb", "resource"), [("update", POLICIES), ("delete", BINDINGS)])
async def test_who_may_change_the_guard_alone_by_its_name_could_remove_it(
    guarded: Guarded, asked: Asked, verb: str, resource: str
) -> None:
    team = guarded.team(admin=False)
    rule = rbac.rule(verb, resource, group=ADMISSION, resourceNames=[guarded.policy])
    with granted(guarded, team, rule):
        await until_why(asked, team, f"may {verb} {resource}")


@pytest.mark.parametrize("resource", ["users", "serviceaccounts"])
async def test_who_may_act_as_others_could_write_without_a_list(
    guarded: Guarded, asked: Asked, resource: str
) -> None:
    team = guarded.team(admin=False)
    rule = rbac.rule("impersonate", resource)
    with granted(guarded, team, rule):
        await until_why(asked, team, f"may impersonate {resource}, so it could write as somebody")


async def test_groups_alone_let_nobody_act_as_others(guarded: Guarded, asked: Asked) -> None:
    team = guarded.team(admin=False)
    rules = [
        rbac.rule("impersonate", "groups"),
        rbac.rule("impersonate", "*", group="authentication.k8s.io"),
    ]
    kubeconfig = guarded.cluster.kubeconfig_for_service_account(team, "werf")
    with granted(guarded, team, *rules):
        connection = await load_connection(kubeconfig)
        headers = {**await connection.headers(), "Impersonate-Group": "system:masters"}
        url = f"{connection.host}/api/v1/namespaces"
        async with (
            ClientSession() as session,
            session.get(url, headers=headers, ssl=connection.ssl) as answer,
        ):
            said = await answer.text()
        assert "without impersonating a user" in said
        assert await asked.why(team) == ""


async def test_objects_of_another_api_server_are_named(guarded: Guarded, asked: Asked) -> None:
    group = f"aggregated-{secrets.token_hex(3)}.example.com"
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    spec = {
        "group": group,
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {"name": "nobody", "namespace": "default"},
    }
    team = guarded.team(admin=False)
    guarded.api.create(path, {"metadata": {"name": f"v1.{group}"}, "spec": spec})
    try:
        assert group in await asked.why(team, f"create :{group}:Widget:a")
        assert await asked.why(team, "create ::ConfigMap:a") == ""
    finally:
        guarded.api.delete(f"{path}/v1.{group}")


@pytest.mark.parametrize(
    ("part", "change"),
    [
        (POLICIES, {"matchConstraints": {"objectSelector": {"matchLabels": {"a": "b"}}}}),
        (BINDINGS, {"validationActions": ["Audit"]}),
        (BINDINGS, {"paramRef": {"selector": NO_LISTS}}),
    ],
    ids=["some objects", "only audited", "no lists"],
)
async def test_what_an_administrator_weakened_isnt_taken_for_it(
    guarded: Guarded, asked: Asked, part: str, change: dict[str, Any]
) -> None:
    team = guarded.team(admin=False)
    path = f"/apis/{ADMISSION}/v1/{part}/{guarded.policy}"
    before = guarded.api.get(path)["spec"]
    kind = "application/merge-patch+json"
    guarded.api.request("PATCH", path, {"spec": change}, content_type=kind)
    try:
        assert "isn't the chart's" in await asked.why(team, "create ::ConfigMap:a")
    finally:
        restored = [{"op": "replace", "path": "/spec", "value": before}]
        guarded.api.request("PATCH", path, restored, content_type="application/json-patch+json")
