"""`doctor` and `resolve --bundle` of Bundles with a cloud's identity, by the chart's rights."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.clouds.azure import READER, AzureRegistry, Entra
from tests.clouds.guards import ClusterTokens
from tests.clouds.stage import Stage
from tests.e2e import rbac
from tests.e2e.bundles.conftest import Team
from tests.e2e.clouds.conftest import operating
from tests.e2e.installation import apply, install, rendered, uninstall
from tests.e2e.operator_process import until

from copyrator.api.clouds import ANN_AZURE_CLIENT, ANN_AZURE_TENANT
from copyrator.cli import cli
from localcluster import Cluster

HOST = "shop.azurecr.io"
TENANT = "72f988bf-86f1-41af-91ab-2d7cd011db47"
CLIENT = "6731de76-14a6-49ae-97bc-6eba6914391e"
ON = {"image.variant": "clouds", "bundles.workloadIdentity.enabled": True}


@pytest.fixture(autouse=True)
def here(cloud_stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands find the hosts of the stage."""
    monkeypatch.setenv("SSL_CERT_FILE", str(cloud_stage.ca))
    with cloud_stage.in_this_process():
        yield


@pytest.fixture
def entra(cloud_stage: Stage, account_tokens: ClusterTokens) -> Entra:
    """Entra, and a registry that trusts it."""
    entra = Entra(cloud_stage, account_tokens)
    registry = AzureRegistry(cloud_stage, entra, HOST, {CLIENT: READER})
    cloud_stage.serve("login.microsoftonline.com", entra)
    cloud_stage.serve(HOST, registry, cloud_stage.pass_on)
    return entra


@contextlib.contextmanager
def without_pods(
    cluster: Cluster, team: Team, values: dict[str, Any]
) -> Iterator[Callable[..., str]]:
    """An installation whose Deployment has no pods, and a team's Bundle, which nobody serves.

    Yields what types commands.
    """
    home = f"home-{secrets.token_hex(3)}"
    chart = rendered(cluster, home, values)
    chart.deployment["spec"]["replicas"] = 0
    install(cluster, home, chart)
    apply(cluster.api(), [chart.deployment])
    admin = cluster.environment()["KUBECONFIG"]
    team.bundle("shop", registry=HOST, provider="azure", insecure=None, version="1.*")

    def types(*words: str, code: int = 0) -> str:
        variables = {"KUBECONFIG": admin, "COPYRATOR_OPERATOR_NAMESPACE": home}
        result = CliRunner().invoke(cli, words, env=variables)
        assert result.exit_code == code, result.output
        return result.output

    try:
        yield types
    finally:
        uninstall(cluster, home)


def checks(types: Callable[..., str], team: Team) -> list[tuple[bool | None, str]]:
    """What doctor says of clouds' identities of a team; there is no operator, so it fails."""
    found = json.loads(types("doctor", "-o", "json", code=1))["items"]
    ours = [one for one in found if one["check"] == "Clouds' identities"]
    assert all("Bundle" not in one["message"] or team.namespace in one["message"] for one in ours)
    return [(one["ok"], one["message"]) for one in ours]


def test_doctor_says_what_an_identity_lacks_and_resolve_asks_with_it(
    cluster: Cluster, team: Team, entra: Entra, cloud_stage: Stage
) -> None:
    digest = team.publish("1.0.0", "first")
    account = f"ServiceAccount {team.namespace}/werf"
    question = ("resolve", f"{HOST}/{team.repo}", "1.*", "--bundle", f"{team.namespace}/shop")
    with without_pods(cluster, team, ON) as types:
        (bad, *_) = checks(types, team)
        assert bad[0] is False
        assert f"{account} has no annotation {ANN_AZURE_CLIENT}" in bad[1]

        found = {ANN_AZURE_CLIENT: CLIENT, ANN_AZURE_TENANT: TENANT}
        team.patch("serviceaccounts", "werf", metadata={"annotations": found})
        image, used = checks(types, team)
        assert image[0] is True
        assert image[1].endswith("has the libraries for azure")
        assert used == (True, f"Bundles use {account} ({CLIENT}, {TENANT}) for {HOST}")

        said = types(*question, code=1)
        assert f"refuses {account}" in said
        subject = f"system:serviceaccount:{team.namespace}:werf"
        entra.let(TENANT, CLIENT, subject)
        said = types(*question)
        assert f"1.0.0  {digest}\n" in said
        assert f"Logged in as {account} ({CLIENT}, {TENANT})." in " ".join(said.split())
        assert not cloud_stage.sentinels.leaks(said)
        assert "to verified registries only" in types(*question, "--skip-tls-verify", code=1)
        said = types("describe", "bundle", "-n", team.namespace, "shop")
        assert f"{account} (azure)" in said


def test_doctor_names_the_right_and_the_image_that_are_missing(
    cluster: Cluster, team: Team
) -> None:
    team.patch("serviceaccounts", "werf", metadata={"annotations": {ANN_AZURE_CLIENT: CLIENT}})
    with without_pods(cluster, team, {"bundles.plans.enabled": True}) as types:
        said = checks(types, team)
        assert all(good is False for good, _ in said[:2])
        assert "set bundles.workloadIdentity.enabled of the chart" in said[0][1]
        assert "has no library for azure; set image.variant=clouds of the chart" in said[1][1]


def test_the_operators_own_identity_is_named_and_nobody_elses(
    cluster: Cluster, team: Team, cloud_stage: Stage
) -> None:
    cloud_stage.forget()
    values = {**ON, "bundles.operatorIdentity.namespaces": [team.namespace]}
    with without_pods(cluster, team, values) as types:
        *_, used = checks(types, team)
        where = f"for {HOST} in {team.namespace}"
        assert used == (True, f"Bundles use the operator's own identity {where}")
        question = ("resolve", f"{HOST}/{team.repo}", "1.*", "--bundle", f"{team.namespace}/shop")
        assert "set --provider azure to use yours" in types(*question, code=1)
    assert not cloud_stage.asked("login.*")
    assert not cloud_stage.asked(HOST, "/oauth2/exchange")


@pytest.mark.refused("create serviceaccounts/token")
def test_without_the_right_to_tokens_operator_and_command_say_what_helps(
    cluster: Cluster, team: Team, cloud_stage: Stage, entra: Entra, tmp_path: Path
) -> None:
    found = {ANN_AZURE_CLIENT: CLIENT, ANN_AZURE_TENANT: TENANT}
    team.patch("serviceaccounts", "werf", metadata={"annotations": found})
    account = f"ServiceAccount {team.namespace}/werf"
    with operating(cluster, cloud_stage, tmp_path / "log", values={}):
        team.bundle("shop", registry=HOST, provider="azure", insecure=None, version="1.*")
        said = team.wait_reason("shop", "IdentityMissing")["message"]
        assert f"the operator may not ask for a token of {account}: set bundles.workloadId" in said
        team.delete("bundles", "shop")
        until(lambda: team.get("bundles", "shop") is None, "the Bundle is gone")
    reader = "reader"
    team.create("serviceaccounts", reader)
    rules = [
        rbac.rule("get", "serviceaccounts"),
        rbac.rule("get", "bundles", group="operator.werf.dev"),
    ]
    subject = rbac.account(team.namespace, reader)
    rbac.grant(team.api, subject, *rules, namespace=team.namespace)
    with without_pods(cluster, team, ON):
        kubeconfig = cluster.kubeconfig_for_service_account(team.namespace, reader)
        words = ["resolve", f"{HOST}/{team.repo}", "1.*", "--bundle", f"{team.namespace}/shop"]
        result = CliRunner().invoke(cli, words, env={"KUBECONFIG": str(kubeconfig)})
        assert result.exit_code == 1
        said = " ".join(result.output.split())
        asks = f"you may not ask for a token of {account}: get the permission to create tokens"
        assert f"{asks}, or set --provider" in said
    assert not entra.tokens
