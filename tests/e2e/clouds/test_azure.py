"""Bundles of an Azure registry deploy with their service account's identity, and no other."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.clouds.azure import (
    AUDIENCE,
    PUSHER,
    READER,
    AzureRegistry,
    Entra,
    has_words_of_entra,
)
from tests.clouds.guards import ClusterTokens
from tests.clouds.stage import Stage
from tests.e2e.bundles.conftest import Team
from tests.e2e.bundles.features.attest.test_attest import attest, make_key
from tests.e2e.clouds.conftest import operating
from tests.e2e.installation import Operator
from tests.e2e.operator_process import until
from tests.e2e.secrecy import traces

from localcluster import Api, Cluster

HOST = "shop.azurecr.io"
LOGIN = "login.microsoftonline.com"
TENANT = "72f988bf-86f1-41af-91ab-2d7cd011db47"
EXCHANGE = "/oauth2/exchange"


@pytest.fixture(scope="module", autouse=True)
def operator(
    cluster: Cluster, cloud_stage: Stage, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    settings = {
        "AZURE_TENANT_ID": TENANT,
        "AZURE_AUTHORITY_HOST": "https://login.evil.example",
    }
    values = {"image.variant": "clouds", "bundles.workloadIdentity.enabled": True}
    with operating(cluster, cloud_stage, log, settings, values) as operator:
        yield operator


@pytest.fixture(scope="module")
def entra(cloud_stage: Stage, account_tokens: ClusterTokens) -> Entra:
    """What a fresh tenant trusts: nobody."""
    found = Entra(cloud_stage, account_tokens)
    found.trust[TENANT] = {}
    cloud_stage.serve(LOGIN, found)
    return found


@pytest.fixture
def registry(cloud_stage: Stage, entra: Entra) -> AzureRegistry:
    """A registry in which nobody may do anything."""
    found = AzureRegistry(cloud_stage, entra, HOST)
    cloud_stage.serve(HOST, found, cloud_stage.pass_on)
    cloud_stage.forget()
    return found


def client_of(team: Team) -> str:
    """A client ID for a team."""
    number = int(team.namespace.rpartition("-")[2], 16)
    return f"{number:08x}-14a6-49ae-97bc-6eba6914391e"


def annotate(team: Team, client: str) -> None:
    """Name an identity for the team's service account, whose tenant is the operator's."""
    annotations = {"azure.workload.identity/client-id": client}
    team.patch("serviceaccounts", "werf", metadata={"annotations": annotations})


def let(team: Team, registry: AzureRegistry, actions: frozenset[str] = READER) -> str:
    """Give the team's service account an identity with a role; returns its client ID."""
    client = client_of(team)
    registry.entra.let(TENANT, client, f"system:serviceaccount:{team.namespace}:werf")
    registry.roles[client] = actions
    annotate(team, client)
    return client


def bundle(team: Team, name: str = "shop", **spec: Any) -> None:
    team.bundle(name, registry=HOST, provider="azure", insecure=None, **{"version": "1.*", **spec})


def assert_nothing_came_out(stage: Stage, operator: Operator, api: Api) -> None:
    assert operator.process is not None
    for texts in (traces.process(operator.process), traces.objects(api)):
        found = list(texts)
        stage.assert_secret(found)
        assert [where for where, text in found if has_words_of_entra(text)] == []


def test_a_bundle_deploys_and_follows_versions_with_its_accounts_identity(
    team: Team, registry: AzureRegistry, cloud_stage: Stage, operator: Operator, api: Api
) -> None:
    client = let(team, registry)
    digest = team.publish("1.0.0", "first")
    bundle(team)
    team.wait_deployed("shop", digest)

    registry.expire()
    digest = team.publish("1.1.0", "second")
    team.wait_deployed("shop", digest)

    release = team.release("shop") or {}
    assert release["text"] == "second"
    # The operator reads by HEAD, the Job's werf by GET: with tokens for the same repository.
    assert cloud_stage.asked(HOST, "*/manifests/*", "GET")
    mine = f"repository:{team.repo}"
    assert set(registry.scopes) == {f"{mine}:pull", f"{mine}:metadata_read"}
    assert {one.path for one in cloud_stage.asked(LOGIN)} == {f"/{TENANT}/oauth2/v2.0/token"}
    for asked in cloud_stage.asked(LOGIN):
        assert asked.form["client_id"] == client
        assert cloud_stage.hosts_told(asked.form["client_assertion"]) == {LOGIN}
    for asked in cloud_stage.asked(HOST, EXCHANGE):
        assert cloud_stage.hosts_told(asked.form["access_token"]) == {HOST}
    assert len(cloud_stage.asked(HOST, EXCHANGE)) <= 3  # shared by the operator and the Jobs
    assert "login.evil.example" not in cloud_stage.lookups
    assert_nothing_came_out(cloud_stage, operator, api)


def test_another_namespace_cannot_borrow_an_identity(
    team: Team,
    api: Api,
    registry: AzureRegistry,
    cloud_stage: Stage,
    operator: Operator,
    new_team: Callable[[str], Team],
) -> None:
    client = let(team, registry)
    digest = team.publish("1.0.0", "first")
    bundle(team)
    team.wait_deployed("shop", digest)

    thief = new_team("thief")
    annotate(thief, client)
    bundle(thief, repo=team.repo)
    message = thief.wait_reason("shop", "IdentityRefused")["message"]

    subject = f"system:serviceaccount:{thief.namespace}:werf"
    assert "AADSTS700213" in message
    assert f"issuer {registry.entra.accounts.issuer}, subject {subject} and audience" in message
    assert AUDIENCE in message
    assert thief.jobs("shop") == []
    assert_nothing_came_out(cloud_stage, operator, api)


def test_only_attestations_ask_for_a_push(
    team: Team, registry: AzureRegistry, cloud_stage: Stage, operator: Operator, api: Api
) -> None:
    let(team, registry, PUSHER)
    digest = team.publish("1.0.0", "first")
    bundle(team)
    team.wait_deployed("shop", digest)
    assert not [scope for scope in registry.scopes if "push" in scope]

    make_key(team, "dev")
    team.patch("bundles", "shop", spec={"attest": attest("dev")})
    until(
        lambda: [one["state"] for one in team.status("shop").get("attest", [])] == ["Attested"],
        lambda: f"it is attested: {json.dumps(team.status('shop'))}",
    )
    mine = f"repository:{team.repo}"
    reads = {f"{mine}:pull", f"{mine}:metadata_read"}
    assert set(registry.scopes) - reads == {f"{mine}:pull,push"}
    assert_nothing_came_out(cloud_stage, operator, api)
