"""The stage of the clouds' tests holds a real operator with real Jobs, without a cloud's login."""

from collections.abc import Iterator

import jwt
import pytest
from tests.clouds.guards import BearerGuard, ClusterTokens, ecr_guard
from tests.clouds.stage import Stage
from tests.e2e.bundles.conftest import Team
from tests.e2e.clouds.conftest import operating
from tests.e2e.installation import Operator
from tests.e2e.secrecy import traces

from localcluster import Api, Cluster

ECR = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"
ACR = "shop.azurecr.io"
NOBODY = "00000000-0000-0000-0000-000000000000"


@pytest.fixture(scope="module", autouse=True)
def operator(
    cluster: Cluster, cloud_stage: Stage, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    with operating(cluster, cloud_stage, log) as operator:
        yield operator


def test_bundles_deploy_from_registries_by_their_clouds_names(
    team: Team, cloud_stage: Stage, operator: Operator, api: Api
) -> None:
    basic, bearer = ecr_guard(ECR), BearerGuard(cloud_stage, ACR, "/oauth2/token")
    cloud_stage.serve(ECR, basic, cloud_stage.pass_on)
    cloud_stage.serve(ACR, bearer, cloud_stage.pass_on)
    digest = team.publish("1.0.0", "first")
    passwords = {}
    for name, host, guard, user in (("a", ECR, basic, "AWS"), ("b", ACR, bearer, NOBODY)):
        passwords[name] = guard.admit(cloud_stage.issue(f"password-{name}"), team.repo, user=user)
        pair = {"username": user, "password": passwords[name]}
        team.create("secrets", name, stringData=pair)
        team.bundle(name, registry=host, auth=name, insecure=None)

    for name in ("a", "b"):
        team.wait_deployed(name, digest)
    assert cloud_stage.hosts_told(passwords["a"]) == {ECR}
    assert cloud_stage.hosts_told(passwords["b"]) == {ACR}
    assert bearer.scopes
    # The operator reads manifests by HEAD, the Job's werf by GET.
    assert cloud_stage.asked(ECR, "*/manifests/*", "GET")
    assert operator.process is not None
    cloud_stage.assert_secret(traces.process(operator.process))
    cloud_stage.assert_secret(traces.objects(api))


def test_accounts_tokens_are_verified_by_the_clusters_published_keys(
    team: Team, account_tokens: ClusterTokens
) -> None:
    path = f"{team.path('serviceaccounts', 'werf')}/token"
    spec = {"audiences": ["sts.amazonaws.com"], "expirationSeconds": 600}
    token = team.api.create(path, {"spec": spec})["status"]["token"]

    subject = account_tokens.verify(token, "sts.amazonaws.com")
    assert subject == f"system:serviceaccount:{team.namespace}:werf"
    with pytest.raises(jwt.InvalidAudienceError):
        account_tokens.verify(token, "api://AzureADTokenExchange")
    plain = team.api.create(path, {"spec": {}})["status"]["token"]
    with pytest.raises(jwt.InvalidAudienceError):
        account_tokens.verify(plain, "sts.amazonaws.com")
