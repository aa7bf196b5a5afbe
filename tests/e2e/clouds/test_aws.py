"""Bundles from Amazon ECR by the roles of their accounts, with a real operator and real Jobs."""

import base64
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from tests.clouds.amazon import HOST, STS, Amazon
from tests.clouds.guards import BasicGuard, ClusterTokens
from tests.clouds.stage import Answer, Asked, Stage
from tests.e2e.bundles.conftest import Team
from tests.e2e.clouds.conftest import operating
from tests.e2e.installation import Operator
from tests.e2e.operator_process import until
from tests.e2e.secrecy import traces
from tests.long import long_form

from localcluster import Api, Cluster

OWN = "own-*"
"""Namespaces of the operator's own identity."""
ROLE = "eks.amazonaws.com/role-arn"
KEY = ".dockerconfigjson"
LIFE = 60.0
"""Seconds of a token where a test waits for its renewal; less is taken for as much."""


@pytest.fixture(scope="module")
def operator(
    cluster: Cluster, api: Api, cloud_stage: Stage, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Operator]:
    """With EKS's variables of a pod whose account has a role; the file has its token later."""
    folder = tmp_path_factory.mktemp("operator")
    own = {
        "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/operator",
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(folder / "token"),
        "COPYRATOR_OPERATOR_IDENTITY_NAMESPACES": OWN,
    }
    values = {"image.variant": "clouds", "bundles.workloadIdentity.enabled": True}
    log = folder / "operator.log"
    with operating(cluster, cloud_stage, log, own, values) as operator:
        path = f"/api/v1/namespaces/{operator.namespace}/serviceaccounts/copyrator/token"
        body = {"spec": {"audiences": ["sts.amazonaws.com"], "expirationSeconds": 7200}}
        (folder / "token").write_text(api.create(path, body)["status"]["token"])
        yield operator


@pytest.fixture
def amazon(operator: Operator, cloud_stage: Stage, account_tokens: ClusterTokens) -> Amazon:
    cloud_stage.forget()
    return Amazon(cloud_stage, account_tokens)


ENDED = "Your authorization token has expired. Reauthenticate and try again."
DENIED = {"errors": [{"code": "DENIED", "message": ENDED}]}


@dataclass
class Slow:
    """Takes a token's life for the two things that werf asks for first, by GET."""

    guard: BasicGuard
    count: int = 0

    def __call__(self, asked: Asked) -> Answer | None:
        held = self.guard.passes.get(asked.login[1])
        if self.count == 2 or held is None or asked.method != "GET" or is_ours(asked):
            return None
        self.count += 1
        left = held.until - time.time()
        if self.count == 1:
            time.sleep(max(left, 0) / 2)  # a client waits no longer
            return None
        time.sleep(max(left, 0) + 1)
        return Answer(403, DENIED)


def is_ours(asked: Asked) -> bool:
    return (asked.headers["User-Agent"] or "").startswith("copyrator")


def shop(team: Team, amazon: Amazon, *names: str, **more: object) -> str:
    """Give the team's account a role, publish, and apply Bundles; returns the role's ARN."""
    repos = {HOST: (f"{team.namespace}/*",)}
    role = amazon.add_role(team.namespace, f"{team.namespace}/werf", repos=repos)
    take(team, role)
    for name in names:
        bundle(team, name, **more)
    return role


def take(team: Team, role: str | None) -> None:
    team.patch("serviceaccounts", "werf", metadata={"annotations": {ROLE: role}})


def bundle(team: Team, name: str, **more: object) -> None:
    team.bundle(name, registry=HOST, provider="aws", insecure=None, **more)


def test_bundles_deploy_by_one_login_of_their_account(
    team: Team, amazon: Amazon, operator: Operator, api: Api
) -> None:
    digest = team.publish("1.0.0", "first")
    names = [f"shop-{number}" for number in range(4)]
    shop(team, amazon, *names)
    for name in names:
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
    assert operator.process is not None
    amazon.stage.assert_secret(traces.process(operator.process))
    amazon.stage.assert_secret(traces.objects(api))


def test_a_tenant_with_anothers_role_is_refused(
    team: Team, amazon: Amazon, new_team: Callable[[str], Team]
) -> None:
    digest = team.publish("1.0.0", "first")
    role = shop(team, amazon, "shop")
    team.wait_deployed("shop", digest)
    thief = new_team("thief")
    take(thief, role)
    bundle(thief, "loot", repo=team.repo)

    condition = thief.wait_reason("loot", "IdentityRefused")
    for word in (
        f"refuses the role {role} of ServiceAccount {thief.namespace}/werf (AccessDenied",
        f":sub = system:serviceaccount:{thief.namespace}:werf",
        ":aud = sts.amazonaws.com",
    ):
        assert word in condition["message"]
    assert not thief.jobs("loot")

    # A role of its own, for another repository: the registry itself refuses.
    own = amazon.add_role("thief", f"{thief.namespace}/werf", repos={HOST: ("thief/*",)})
    take(thief, own)
    condition = thief.wait_reason("loot", "AuthenticationFailed")
    for word in (team.repo, f"ServiceAccount {thief.namespace}/werf", "ecr:BatchGetImage"):
        assert word in condition["message"]
    assert not thief.jobs("loot")


@long_form(
    "tests/component/bundles/features/login/test_login.py::"
    "test_that_a_token_expired_in_mid_job_isnt_the_versions_fault"
)
def test_a_token_that_ends_in_a_job_doesnt_count_against_the_version(
    team: Team, amazon: Amazon
) -> None:
    digest = team.publish("1.0.0", "first")
    amazon.life = LIFE
    slow = Slow(amazon.guards[HOST])
    amazon.stage.serve(HOST, slow, slow.guard, amazon.stage.pass_on)
    shop(team, amazon, "shop")
    until(lambda: slow.count == 2, "a Job's werf asks for the chart", 3 * LIFE)
    condition = team.wait_reason("shop", "TokenExpired", 3 * LIFE)
    assert "the token in the Job's Secret had expired at" in condition["message"]
    assert not team.status("shop").get("attempted", {}).get("failures")
    team.wait_deployed("shop", digest)
    assert len(team.jobs("shop")) == 2


@long_form(
    "tests/component/bundles/features/login/test_login.py::"
    "test_while_the_pod_waits_a_new_one_replaces_it_before_it_ends"
)
def test_a_job_that_waits_for_a_node_gets_a_new_token(team: Team, amazon: Amazon, api: Api) -> None:
    amazon.life = LIFE
    digest = team.publish("1.0.0", "first")
    place = f"copyrator.test/{team.namespace}"
    shop(team, amazon, "shop", job={"nodeSelector": {place: ""}})
    name = team.first_job()

    def written() -> str:
        """The token in the Job's Secret; it is deleted before it is created again."""
        found = team.get("secrets", f"{name}-login") or {"data": {KEY: ""}}
        return base64.b64decode(found["data"][KEY]).decode()

    first = written()
    assert first
    until(lambda: written() not in (first, ""), "it is renewed", 3 * LIFE)
    second = written()
    (node,) = api.get("/api/v1/nodes")["items"]
    path = f"/api/v1/nodes/{node['metadata']['name']}"
    api.patch(path, {"metadata": {"labels": {place: ""}}})

    team.wait_deployed("shop", digest)
    assert len(team.jobs("shop")) == 1
    found = [one for one in amazon.stage.asked(HOST, method="GET") if not is_ours(one)]
    used = {one.login[1] for one in found} - {""}
    assert used
    assert all(password in second for password in used)
    until(lambda: team.get("secrets", f"{name}-login") is None, "it is deleted")


def test_the_operators_own_identity_serves_named_namespaces_alone(
    team: Team, amazon: Amazon, api: Api, operator: Operator, new_team: Callable[[str], Team]
) -> None:
    own = new_team("own")
    repos = {HOST: (f"{own.namespace}/*", f"{team.namespace}/*")}
    amazon.add_role("operator", f"{operator.namespace}/copyrator", repos=repos)
    digest = own.publish("1.0.0", "first")
    team.publish("1.0.0", "first")
    bundle(own, "shop")
    bundle(team, "shop")

    own.wait_deployed("shop", digest)
    team.wait_reason("shop", "IdentityMissing")
    assert amazon.counts() == (1, 1)
    assert not team.jobs("shop")
    assert operator.process is not None
    amazon.stage.assert_secret(traces.process(operator.process))
    amazon.stage.assert_secret(traces.objects(api))
