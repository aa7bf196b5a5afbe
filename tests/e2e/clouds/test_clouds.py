"""Bundles of clouds' registries by the identities of their accounts, with real Jobs."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.clouds.amazon import HOST, STS, Amazon
from tests.clouds.azure import READER, AzureRegistry, Entra, has_words_of_entra
from tests.clouds.google import GKE, METADATA, NODE, PKG, POOL, Google
from tests.clouds.google import STS as GOOGLE_STS
from tests.clouds.guards import ClusterTokens, refused
from tests.clouds.stage import Stage
from tests.e2e.bundles.conftest import Team
from tests.e2e.clouds.conftest import operating
from tests.e2e.installation import Operator
from tests.e2e.operator_process import until
from tests.e2e.secrecy import traces

from copyrator.api.clouds import ANN_AWS_ROLE, ANN_AZURE_CLIENT, ANN_GCP_ACCOUNT
from localcluster import Cluster

ACR, LOGIN = "shop.azurecr.io", "login.microsoftonline.com"
TENANT = "72f988bf-86f1-41af-91ab-2d7cd011db47"
CLIENT = "6731de76-14a6-49ae-97bc-6eba6914391e"
DEPLOYER = "deployer@acme-prod.iam.gserviceaccount.com"
PASSWORD = "a-password-of-twelve-hours"
TOKEN_PATH = "/computeMetadata/v1/instance/service-accounts/default/token"


@pytest.fixture(scope="module")
def operator(
    cluster: Cluster, cloud_stage: Stage, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """As the chart starts it; in its own name only namespaces ops-* may ask.

    At the end no token that was issued is anywhere.
    """
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    values = {
        "image.variant": "clouds",
        "bundles.workloadIdentity.enabled": True,
        "bundles.operatorIdentity.namespaces": ["ops-*"],
    }
    variables = {"AZURE_TENANT_ID": TENANT, "AZURE_AUTHORITY_HOST": "https://login.evil.example"}
    with operating(cluster, cloud_stage, log, variables, values, as_rendered=True) as operator:
        yield operator
        assert operator.process is not None
        for texts in (traces.process(operator.process), traces.objects(cluster.api())):
            found = list(texts)
            cloud_stage.assert_secret(found)
            assert [where for where, text in found if has_words_of_entra(text)] == []


@pytest.fixture
def other(new_team: Callable[[str], Team]) -> Team:
    """Another tenant."""
    return new_team("other")


def provided(team: Team, name: str, provider: str, registry: str, **spec: Any) -> None:
    """Apply a Bundle that uses its account's identity."""
    team.bundle(name, **{"registry": registry, "provider": provider, "insecure": None, **spec})


def annotate(team: Team, **annotations: str | None) -> None:
    team.patch("serviceaccounts", "werf", metadata={"annotations": annotations})


# --- Amazon --------------------------------------------------------------------------------------


@pytest.fixture
def amazon(operator: Operator, cloud_stage: Stage, account_tokens: ClusterTokens) -> Amazon:
    cloud_stage.forget()
    return Amazon(cloud_stage, account_tokens)


def allow(team: Team, amazon: Amazon) -> str:
    """Give the team's account a role that reads its repository; its ARN."""
    repos = {HOST: (f"{team.namespace}/*",)}
    role = amazon.add_role(team.namespace, f"{team.namespace}/werf", repos=repos)
    annotate(team, **{ANN_AWS_ROLE: role})
    return role


def test_bundles_deploy_by_one_login_of_their_account(team: Team, amazon: Amazon) -> None:
    digest = team.publish("1.0.0", "first")
    allow(team, amazon)
    hosts = {"shop": HOST, "till": HOST, "other-spelling": f"{HOST.upper()}:443"}
    for name, host in hosts.items():
        provided(team, name, "aws", host)
    for name in hosts:
        team.wait_deployed(name, digest)
        assert team.release(name) == {"text": "first", "greeting": "none"}
    assert amazon.counts() == (1, 1)
    assert amazon.sessions == [f"copyrator.{team.namespace}.werf"]
    # Of the Jobs' werf; the operator asks by HEAD.
    assert amazon.stage.asked(HOST, f"/v2/{team.repo}/manifests/*", "GET")
    assert not any(found.writes for found in amazon.guards[HOST].passes.values())
    (password,) = amazon.guards[HOST].passes
    assert amazon.stage.hosts_told(password) == {HOST}
    (token,) = {one.form["WebIdentityToken"] for one in amazon.stage.asked(STS)}
    assert amazon.stage.hosts_told(token) == {STS}


def test_a_tenant_with_anothers_role_is_refused(team: Team, other: Team, amazon: Amazon) -> None:
    team.publish("1.0.0", "first")
    role = allow(team, amazon)
    annotate(other, **{ANN_AWS_ROLE: role})
    provided(other, "loot", "aws", HOST, repo=team.repo)
    message = other.wait_reason("loot", "IdentityRefused")["message"]
    for word in (
        f"refuses the role {role} of ServiceAccount {other.namespace}/werf (AccessDenied",
        f":sub = system:serviceaccount:{other.namespace}:werf",
        ":aud = sts.amazonaws.com",
    ):
        assert word in message
    allow(other, amazon)  # a role of its own, for another repository: the registry refuses
    message = other.wait_reason("loot", "AuthenticationFailed")["message"]
    for word in (team.repo, f"ServiceAccount {other.namespace}/werf", "ecr:BatchGetImage"):
        assert word in message
    assert not other.jobs("loot")


def test_a_bundle_moves_from_a_password_to_an_identity_and_back_without_a_deploy(
    team: Team, amazon: Amazon
) -> None:
    amazon.guards[HOST].admit(PASSWORD, f"{team.namespace}/*", user="AWS")
    team.create("secrets", "ecr", stringData={"username": "AWS", "password": PASSWORD})
    digest = team.publish("1.0.0", "first")
    allow(team, amazon)
    team.bundle("shop", registry=HOST, auth="ecr", insecure=None, version="1.*")
    before = team.wait_deployed("shop", digest)

    def has_password() -> bool:
        """Whether the last request that was answered had it."""
        asked = amazon.stage.asked(HOST, f"/v2/{team.repo}/*")
        return next(one.login[1] for one in reversed(asked) if one.status == 200) == PASSWORD

    assert has_password()
    for fields in ({"auth": None, "provider": "aws"}, {"auth": "ecr", "provider": None}):
        team.patch("bundles", "shop", spec=fields)
        until(
            lambda fields=fields: has_password() == bool(fields["auth"]),  # type: ignore[misc]
            lambda: str(team.status("shop")),
        )
        after = team.wait_deployed("shop", digest)
        for kept in ("deployed", "attempted", "history", "available"):
            assert after.get(kept) == before.get(kept)
        assert len(team.jobs("shop")) == 1


def test_a_release_whose_identity_is_gone_is_uninstalled(
    team: Team, amazon: Amazon, operator: Operator
) -> None:
    digest = team.publish("1.0.0", "first")
    allow(team, amazon)
    provided(team, "shop", "aws", HOST)
    team.wait_deployed("shop", digest)
    assert operator.stop() == 0  # which forgets the login
    annotate(team, **{ANN_AWS_ROLE: None})
    operator.start()
    team.delete("bundles", "shop")
    team.wait_gone("bundles", "shop")
    assert team.release("shop") is None


# --- Azure ---------------------------------------------------------------------------------------


def test_a_bundle_of_azure_follows_versions_with_its_accounts_identity(
    team: Team, operator: Operator, cloud_stage: Stage, account_tokens: ClusterTokens
) -> None:
    cloud_stage.forget()
    entra = Entra(cloud_stage, account_tokens)
    entra.let(TENANT, CLIENT, f"system:serviceaccount:{team.namespace}:werf")
    registry = AzureRegistry(cloud_stage, entra, ACR, {CLIENT: READER})
    cloud_stage.serve(LOGIN, entra)
    cloud_stage.serve(ACR, registry, cloud_stage.pass_on)
    annotate(team, **{ANN_AZURE_CLIENT: CLIENT})  # the tenant is the operator's
    digest = team.publish("1.0.0", "first")
    provided(team, "shop", "azure", ACR, version="1.*")
    team.wait_deployed("shop", digest)

    registry.expire()
    digest = team.publish("1.1.0", "second")
    team.wait_deployed("shop", digest)

    assert (team.release("shop") or {})["text"] == "second"
    # The operator reads by HEAD, the Job's werf by GET: with tokens for the same repository.
    assert cloud_stage.asked(ACR, "*/manifests/*", "GET")
    mine = f"repository:{team.repo}"
    assert set(registry.scopes) == {f"{mine}:pull", f"{mine}:metadata_read"}
    assert {one.path for one in cloud_stage.asked(LOGIN)} == {f"/{TENANT}/oauth2/v2.0/token"}
    for asked in cloud_stage.asked(LOGIN):
        assert asked.form["client_id"] == CLIENT
        assert cloud_stage.hosts_told(asked.form["client_assertion"]) == {LOGIN}
    exchanges = cloud_stage.asked(ACR, "/oauth2/exchange")
    for asked in exchanges:
        assert cloud_stage.hosts_told(asked.form["access_token"]) == {ACR}
    assert len(exchanges) <= 3, "shared by the operator and the Jobs"
    assert "login.evil.example" not in cloud_stage.lookups


# --- Google --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def google(operator: Operator, cloud_stage: Stage, account_tokens: ClusterTokens) -> Google:
    cloud_stage.forget()
    return Google(cloud_stage, account_tokens)


def told(google: Google, team: Team) -> list[str]:
    """The scopes of access tokens that were issued for a team's account itself."""
    mine = google.principal(team.namespace)
    return [" ".join(one.scopes) for one in google.issued.values() if one.principal == mine]


def test_a_bundle_deploys_by_its_accounts_identity_and_anothers_is_refused(
    team: Team, other: Team, google: Google
) -> None:
    google.readers[google.principal(team.namespace)] = (team.repo,)
    digest = team.publish("1.0.0", "first")
    provided(team, "shop", "gcp", PKG)
    provided(other, "shop", "gcp", PKG, repo=team.repo)

    team.wait_deployed("shop", digest)
    assert (team.release("shop") or {})["text"] == "first"
    right = f"give ServiceAccount {other.namespace}/werf roles/artifactregistry.reader"
    other.wait_reason("shop", "AuthenticationFailed", says=right)
    assert not other.jobs("shop")

    # The operator reads manifests by HEAD, the Job's werf by GET: each with a token for reading.
    stage = google.stage
    assert [one for one in stage.asked(PKG, "*/manifests/*", "GET") if one.status == 200]
    assert told(google, team)
    assert not any("/cloud-platform " in f"{scopes} " for scopes in told(google, team))
    for token, identity in google.issued.items():
        assert stage.hosts_told(token) <= {PKG}, identity
    for asked in stage.asked(GOOGLE_STS):
        assert stage.hosts_told(asked.form["subject_token"]) == {GOOGLE_STS}
        assert asked.form["audience"] == GKE
    assert not stage.asked(METADATA, TOKEN_PATH)


def test_an_annotation_lets_only_the_account_use_a_service_account_that_it_agrees_to(
    team: Team, other: Team, google: Google
) -> None:
    google.readers[DEPLOYER] = (team.repo,)
    google.users[DEPLOYER] = set()
    digest = team.publish("1.0.0", "first")
    for one in (team, other):
        annotate(one, **{ANN_GCP_ACCOUNT: DEPLOYER})
    provided(team, "shop", "gcp", PKG)

    message = team.wait_reason("shop", "IdentityRefused")["message"]
    member = f"serviceAccount:{POOL}[{team.namespace}/werf]"
    assert f"grant roles/iam.workloadIdentityUser on it to {member}" in message
    google.users[DEPLOYER] = {member}  # as the message says
    team.wait_deployed("shop", digest)

    provided(other, "shop", "gcp", PKG, repo=team.repo)
    message = other.wait_reason("shop", "IdentityRefused")["message"]
    assert f"ServiceAccount {other.namespace}/werf may not use {DEPLOYER}" in message
    assert not other.jobs("shop")


@pytest.mark.promise
def test_only_named_namespaces_use_the_operators_own_identity(
    team: Team, google: Google, new_team: Callable[[str], Team]
) -> None:
    ops = new_team("ops")
    google.users[NODE] = set()
    google.readers[NODE] = (ops.repo, team.repo)
    digest = ops.publish("1.0.0", "first")
    team.publish("1.0.0", "first")
    provided(team, "shop", "gcp", PKG)
    team.wait_reason("shop", "AuthenticationFailed")  # the operator could read it
    assert len(google.stage.asked(METADATA, TOKEN_PATH)) == 0
    provided(ops, "shop", "gcp", PKG)

    ops.wait_deployed("shop", digest)
    (asked,) = google.stage.asked(METADATA, TOKEN_PATH)
    assert "read" in asked.query["scopes"]
    assert not told(google, ops)
    assert not team.jobs("shop")


def test_nothing_that_a_tenant_names_goes_to_the_metadata_server(
    team: Team, google: Google
) -> None:
    google.stage.serve("169.254.169.254", lambda _: refused(500, "HERE", "here"), scheme="http")
    for name, registry in {"a": "169.254.169.254", "b": "169.254.169.254:80"}.items():
        team.bundle(name, registry=registry, insecure=True)
        says = "no request is sent to 169.254.169.254"
        team.wait_reason(name, "RegistryUnreachable", says=says)
    provided(team, "c", "gcp", "metadata.google.internal")
    team.wait_reason("c", "InvalidSpec", says="isn't a registry of gcp")
    assert not google.stage.asked("169.254.169.254")
    names = {one.path for one in google.stage.asked(METADATA)}
    assert names
    assert all(path.startswith("/computeMetadata/v1/") for path in names)
