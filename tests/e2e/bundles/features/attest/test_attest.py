"""Evidence in real registries on a real control plane: made by one Bundle, believed by the next."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric import ec
from tests.e2e.bundles.conftest import Team, make_team
from tests.e2e.installation import installed
from tests.e2e.operator_process import until

from copyrator.cli import cli
from localcluster import Cluster
from localcluster.bundle import push
from localcluster.signing import Key, new_key, private_key, public_key

pytestmark = pytest.mark.usefixtures("operator")


@pytest.fixture(params=["distribution", "go-containerregistry"])
def registry(request: pytest.FixtureRequest, team: Team) -> str:
    """Without and with the list of referrers."""
    if request.param == "distribution":
        return team.cluster.registry
    found: str = request.getfixturevalue("referrers_registry")
    return found


def make_key(team: Team, environment: str) -> None:
    """The Secret with an environment's private key, and the ConfigMap with the public one."""
    key = new_key()
    team.create("secrets", f"{environment}-key", data=private(key))
    team.create("configmaps", f"{environment}-keys", data=public(key))


def private(key: Key) -> dict[str, str]:
    """The data of a Secret."""
    return {"key.pem": b64encode(private_key(key).encode()).decode()}


def public(key: Key) -> dict[str, str]:
    """The data of a ConfigMap."""
    return {"a.pub": public_key(key)}


def attest(environment: str, **more: str) -> dict[str, Any]:
    key = {"secretName": f"{environment}-key", "key": "key.pem"}
    return {"environment": environment, "keyFrom": key, **more}


def promoted_by(environment: str, **more: str) -> dict[str, Any]:
    keys = {"keysFrom": {"kind": "ConfigMap", "name": f"{environment}-keys"}}
    return {"attestations": [{"environment": environment, "cosign": keys, **more}]}


def withdraw(team: Team) -> Result:
    """What `copyrator attest withdraw` says about the Bundle staging."""
    name, reason = f"{team.namespace}/staging", "the load test failed"
    environment = {"KUBECONFIG": str(team.cluster.admin_kubeconfig), "COLUMNS": "400"}
    return CliRunner().invoke(
        cli, ["attest", "withdraw", name, "--reason", reason], env=environment
    )


def gate(team: Team, name: str) -> dict[str, Any]:
    found = team.status(name).get("gates", [])
    return next((one for one in found if one["name"] == "promotion"), {})


def test_a_version_goes_through_three_environments_that_share_only_a_registry(
    team: Team, registry: str
) -> None:
    """And a hold in one of them stops it for all who ask for that one, until it ends."""
    digest = push(team.chart("first"), registry, team.repo, "1.0.0")
    for environment in ("dev", "staging"):
        make_key(team, environment)
    team.bundle("dev", registry=registry, attest=attest("dev", after="2s"))
    staging = promoted_by("dev", soak="2s")
    team.bundle("staging", registry=registry, promoteFrom=staging, attest=attest("staging"))
    team.bundle("production", registry=registry, promoteFrom=promoted_by("staging"))

    team.wait_deployed("production", digest)

    (record,) = team.status("dev")["attest"]
    assert (record["digest"], record["state"]) == (digest, "Attested")
    assert record["seconds"] >= 2
    assert team.condition("staging", "Attested")["status"] == "True"
    team.annotate("staging", hold="load test failed")
    until(lambda: team.status("staging")["attest"][-1]["state"] == "Withdrawn", "it is withdrawn")
    team.bundle("later", registry=registry, promoteFrom=promoted_by("staging"))
    until(
        lambda: gate(team, "later").get("reason") == "PromotionWithdrawn",
        lambda: f"{team.status('later')}",
    )
    assert "(it was held: load test failed)" in gate(team, "later")["message"]
    assert team.jobs("later") == []
    team.annotate("staging", hold=None)
    team.wait_deployed("later", digest)


def test_a_person_withdraws_what_is_attested(team: Team, registry: str) -> None:
    digest = push(team.chart("first"), registry, team.repo, "1.0.0")
    make_key(team, "staging")
    team.bundle("staging", registry=registry, attest=attest("staging"))
    until(
        lambda: [one["state"] for one in team.status("staging").get("attest", [])] == ["Attested"],
        "it is attested",
    )

    result = withdraw(team)

    assert result.exit_code == 0, result.output
    said = "is withdrawn from the environment staging: the load test failed"
    assert f"bundle {team.namespace}/staging: 1.0.0 ({digest[:19]}) {said}" in result.output
    assert [one["state"] for one in team.status("staging")["attest"]] == ["Withdrawn"]
    team.bundle("production", registry=registry, promoteFrom=promoted_by("staging"))
    until(
        lambda: gate(team, "production").get("reason") == "PromotionWithdrawn",
        lambda: f"{team.status('production')}",
    )
    assert "the load test failed" in gate(team, "production")["message"]
    assert "1.0.0 is withdrawn already" in withdraw(team).output


def test_a_withdrawal_that_the_registry_lacks_is_no_success(team: Team) -> None:
    team.publish("1.0.0", "first")
    make_key(team, "staging")
    key = team.get("secrets", "staging-key")["data"]
    team.bundle("staging", attest=attest("staging"))
    team.wait_condition("staging", "Attested", "Attested")
    team.annotate("staging", **{"disable-autoupdate": "true"})

    result = withdraw(team)

    assert result.exit_code == 1, result.output
    assert "is recorded, but the registry doesn't have it: nothing is pushed" in result.output
    team.delete("secrets", "staging-key")
    team.annotate("staging", **{"disable-autoupdate": None})
    result = withdraw(team)
    assert result.exit_code == 1, result.output
    assert "of spec.attest doesn't exist; create it. Until then other clusters" in result.output
    team.create("secrets", "staging-key", data=key)
    until(lambda: team.status("staging")["attest"][-1]["state"] == "Withdrawn", "it is pushed")


def test_staging_in_another_cluster_attests_with_its_operators_key(
    team: Team, disposable: Cluster, tmp_path: Path
) -> None:
    """That operator may read nothing but one namespace, its key, and the uid of its cluster."""
    digest = team.publish("1.0.0", "first")
    name = team.namespace
    values = {
        "watchNamespaces": [name],
        "attest.environments": {"staging": [name]},
        "bundles.allowedSecrets": [],
    }
    settings = {
        "WERF_OPERATOR_TIMER_INTERVAL": "2",
        "COPYRATOR_WATCH_NAMESPACES": name,
        "COPYRATOR_ALLOWED_SECRETS": "-",
        "COPYRATOR_ATTEST_ENVIRONMENTS": f"staging={name}",
    }
    api = disposable.api()
    api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    staging = make_team(disposable, api, name, tmp_path)
    with installed(disposable, tmp_path / "log", settings, values=values) as operator:
        home = f"/api/v1/namespaces/{operator.namespace}/secrets"
        key = ec.generate_private_key(ec.SECP384R1())
        api.create(home, {"metadata": {"name": "copyrator-attest-key"}, "data": private(key)})
        team.create("configmaps", "staging-keys", data=public(key))
        uid = api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
        production = promoted_by("staging", cluster=uid, release=f"{name}/shop")
        team.bundle("shop", promoteFrom=production)
        team.wait_condition("shop", "Ready", "NotPromoted")
        attested = {"environment": "staging", "keyFrom": {"operator": True}}
        operator.start()

        staging.bundle("shop", registry=team.cluster.registry, attest=attested)

        team.wait_deployed("shop", digest)
        staging.annotate("shop", hold="load test failed")
        withdrawn = "AttestationWithdrawn"
        staging.wait_condition("shop", "Attested", withdrawn)
        team.bundle("later", promoteFrom=production)
        until(
            lambda: gate(team, "later").get("reason") == "PromotionWithdrawn",
            lambda: f"{team.status('later')}",
        )
        assert f"release {name}/shop of cluster {uid}" in gate(team, "later")["message"]
        staging.delete("bundles", "shop")
        staging.wait_gone("bundles", "shop")
    for bundle in ("shop", "later"):  # else they are seen by who else uses the cluster
        team.delete("bundles", bundle)
        team.wait_gone("bundles", bundle)
