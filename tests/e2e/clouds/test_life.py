"""What a team does with a Bundle of a cloud's registry, beside deploying it."""

import pytest
from tests.clouds.amazon import HOST, Amazon
from tests.clouds.guards import ClusterTokens
from tests.clouds.stage import Stage
from tests.e2e.bundles.conftest import Team, approve
from tests.e2e.bundles.features.cluster.test_target_cluster import KUBE_CONFIG, Target
from tests.e2e.clouds.test_aws import bundle, shop
from tests.e2e.conftest import directory_of
from tests.e2e.operator_process import until
from tests.e2e.owned_cluster import owned_cluster

pytestmark = pytest.mark.usefixtures("operator")
PASSWORD = "a-password-of-twelve-hours"


@pytest.fixture
def amazon(cloud_stage: Stage, account_tokens: ClusterTokens) -> Amazon:
    cloud_stage.forget()
    return Amazon(cloud_stage, account_tokens)


def last_login(amazon: Amazon, repo: str) -> str:
    """The password of the last request for a repository that was answered; empty without one."""
    asked = amazon.stage.asked(HOST, f"/v2/{repo}/*")
    return next((one.login[1] for one in reversed(asked) if one.status == 200), "")


def test_a_bundle_moves_from_a_password_to_an_identity_and_back_without_a_deploy(
    team: Team, amazon: Amazon
) -> None:
    amazon.guards[HOST].admit(PASSWORD, f"{team.namespace}/*", user="AWS")
    team.create("secrets", "ecr", stringData={"username": "AWS", "password": PASSWORD})
    digest = team.publish("1.0.0", "first")
    shop(team, amazon)
    team.bundle("shop", registry=HOST, auth="ecr", insecure=None, version="1.*")
    before = team.wait_deployed("shop", digest)
    assert last_login(amazon, team.repo) == PASSWORD

    def move(**fields: str | None) -> None:
        team.patch("bundles", "shop", spec=fields)
        until(
            lambda: (last_login(amazon, team.repo) == PASSWORD) == bool(fields["auth"]),
            lambda: f"it is polled by {fields}; {team.status('shop')}",
        )
        after = team.wait_deployed("shop", digest)
        for kept in ("deployed", "attempted", "history", "available"):
            assert after.get(kept) == before.get(kept)
        assert len(team.jobs("shop")) == 1

    move(auth=None, provider="aws")
    move(auth="ecr", provider=None)


def test_an_update_that_is_switched_off_asks_neither_registry_nor_cloud(
    team: Team, amazon: Amazon
) -> None:
    digest = team.publish("1.0.0", "first")
    shop(team, amazon, "shop")
    team.wait_deployed("shop", digest)
    other = {"metadata": {"annotations": {"operator.werf.dev/disable-autoupdate": ""}}}
    before = amazon.counts()
    bundle(team, "off", repo=f"{team.repo}-2", **other)
    until(lambda: team.status("off"), "the operator has seen it")
    asked = len(amazon.stage.asked(HOST, f"/v2/{team.repo}/*"))
    until(
        lambda: len(amazon.stage.asked(HOST, f"/v2/{team.repo}/*")) > asked + 2,
        "the one beside it is polled on",
    )
    assert not amazon.stage.asked(HOST, f"/v2/{team.repo}-2/*")
    assert amazon.counts() == before


def test_a_release_in_another_cluster_is_pulled_by_the_accounts_identity_here(
    team: Team, amazon: Amazon
) -> None:
    with owned_cluster(directory_of("-target"), process_node=False, registry=False) as cluster:
        target = Target(cluster)
        target.make(team.namespace)
        team.create("secrets", "other", data=target.data(team.namespace))
        digest = team.publish("1.0.0", "first")
        shop(team, amazon, "shop", kubeConfig=KUBE_CONFIG, approval={"mode": "OnRisk"})
        approve(team)
        team.wait_deployed("shop", digest)
        assert target.text(team.namespace) == "first"
        team.delete("bundles", "shop")
        until(lambda: team.get("bundles", "shop") is None, "it is uninstalled there")
        assert target.text(team.namespace) is None
