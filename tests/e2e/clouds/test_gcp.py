"""Bundles from Artifact Registry by the identity of their service account, with real Jobs."""

from collections.abc import Callable, Iterator

import pytest
from tests.clouds.google import GKE, METADATA, NODE, PKG, POOL, STS, Google
from tests.clouds.guards import ClusterTokens, refused
from tests.clouds.stage import Stage
from tests.e2e.bundles.conftest import Team
from tests.e2e.clouds.conftest import operating
from tests.e2e.installation import Operator
from tests.e2e.operator_process import until
from tests.e2e.secrecy import traces

from copyrator.api.clouds import ANN_GCP_ACCOUNT
from localcluster import Cluster

DEPLOYER = "deployer@acme-prod.iam.gserviceaccount.com"
TOKEN_PATH = "/computeMetadata/v1/instance/service-accounts/default/token"


@pytest.fixture(scope="module")
def google(cloud_stage: Stage, account_tokens: ClusterTokens) -> Google:
    return Google(cloud_stage, account_tokens)


@pytest.fixture(scope="module", autouse=True)
def operator(
    cluster: Cluster, cloud_stage: Stage, google: Google, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """The operator as the chart starts it, in whose own name only namespaces ops-* may ask."""
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    values = {
        "image.variant": "clouds",
        "bundles.workloadIdentity.enabled": True,
        "bundles.operatorIdentity.namespaces": ["ops-*"],
    }
    with operating(cluster, cloud_stage, log, None, values, as_rendered=True) as operator:
        yield operator
        assert operator.process is not None
        cloud_stage.assert_secret(traces.process(operator.process))
        cloud_stage.assert_secret(traces.objects(cluster.api()))
        assert METADATA in cloud_stage.lookups  # what was looked for could be found


@pytest.fixture
def other(new_team: Callable[[str], Team]) -> Team:
    """Another tenant."""
    return new_team("other")


def shop(team: Team, name: str = "shop", **spec: object) -> None:
    """A Bundle of Artifact Registry."""
    team.bundle(name, **{"registry": PKG, "provider": "gcp", "insecure": None, **spec})


def told(google: Google, team: Team) -> list[str]:
    """The scopes of access tokens that were issued for a team's account itself."""
    mine = google.principal(team.namespace)
    return [" ".join(one.scopes) for one in google.issued.values() if one.principal == mine]


def test_a_bundle_deploys_by_its_accounts_identity_and_anothers_is_refused(
    team: Team, other: Team, google: Google
) -> None:
    google.readers[google.principal(team.namespace)] = (team.repo,)
    digest = team.publish("1.0.0", "first")
    shop(team)
    shop(other, repo=team.repo)

    team.wait_deployed("shop", digest)
    assert (team.release("shop") or {})["text"] == "first"
    until(lambda: "Ready" in str(other.status("shop")), "the other one is judged")
    until(
        lambda: "roles/artifactregistry.reader" in str(other.condition("shop").get("message")),
        lambda: str(other.status("shop")),
    )
    ready = other.condition("shop")
    assert ready["status"] == "False"
    assert ready["reason"] == "AuthenticationFailed"
    assert f"give ServiceAccount {other.namespace}/werf roles/" in ready["message"]
    assert not other.jobs("shop")

    # The operator reads manifests by HEAD, the Job's werf by GET: each with a token for reading.
    stage = google.stage
    assert [one for one in stage.asked(PKG, "*/manifests/*", "GET") if one.status == 200]
    assert told(google, team)
    assert not any("/cloud-platform " in f"{scopes} " for scopes in told(google, team))
    for token, identity in google.issued.items():
        assert stage.hosts_told(token) <= {PKG}, identity
    for asked in stage.asked(STS):
        assert stage.hosts_told(asked.form["subject_token"]) == {STS}
        assert asked.form["audience"] == GKE
    assert not stage.asked(METADATA, TOKEN_PATH)


def test_an_annotation_lets_only_the_account_use_a_service_account_that_it_agrees_to(
    team: Team, other: Team, google: Google
) -> None:
    google.readers[DEPLOYER] = (team.repo,)
    google.users[DEPLOYER] = set()
    digest = team.publish("1.0.0", "first")
    team.patch("serviceaccounts", "werf", metadata={"annotations": {ANN_GCP_ACCOUNT: DEPLOYER}})
    shop(team)

    message = team.wait_reason("shop", "IdentityRefused")["message"]
    member = f"serviceAccount:{POOL}[{team.namespace}/werf]"
    assert f"grant roles/iam.workloadIdentityUser on it to {member}" in message
    google.users[DEPLOYER] = {member}  # as the message says
    team.wait_deployed("shop", digest)

    other.patch("serviceaccounts", "werf", metadata={"annotations": {ANN_GCP_ACCOUNT: DEPLOYER}})
    shop(other, repo=team.repo)
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
    shop(team)
    team.wait_condition("shop", "Ready", "AuthenticationFailed")  # the operator could read it
    before = len(google.stage.asked(METADATA, TOKEN_PATH))
    assert before == 0
    shop(ops)

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
        until(
            lambda name=name: (
                "no request is sent to 169.254.169.254"  # type: ignore[misc]
                in str(team.condition(name).get("message"))
            ),
            lambda name=name: str(team.status(name)),  # type: ignore[misc]
        )
    shop(team, "c", registry="metadata.google.internal")
    message = team.wait_reason("c", "InvalidSpec")["message"]
    assert "isn't a registry of gcp" in message
    assert not google.stage.asked("169.254.169.254")
    names = {one.path for one in google.stage.asked(METADATA)}
    assert all(path.startswith("/computeMetadata/v1/") for path in names)
    assert "v2" not in str(names)
