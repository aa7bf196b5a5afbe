"""`copyrator remote`: rights that one control plane grants are used and checked from another."""

import json
import secrets
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from tests.e2e.cli.conftest import Stage, rule
from tests.e2e.installation import BUNDLES, RULES
from tests.e2e.operator_process import until

from copyrator.api.kubeconfig import parse_kubeconfig
from copyrator.cli import cli
from copyrator.cli.offline.install import crd_texts
from localcluster import Api, Cluster
from localcluster.api import ApiStatusError
from localcluster.errors import CommandFailedError

RBAC = "/apis/rbac.authorization.k8s.io/v1"
VALUE = "the-secret-value"


@pytest.fixture(scope="module")
def hub(disposable: Cluster) -> Cluster:
    """The cluster that has the objects; the other one copies them."""
    return disposable


@pytest.fixture(scope="module")
def edge(cluster: Cluster) -> Cluster:
    for text in crd_texts():
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=text)
    return cluster


@pytest.fixture
def infra(hub: Cluster) -> str:
    """A namespace of the hub with two Secrets."""
    name, api = f"infra-{secrets.token_hex(3)}", hub.api()
    api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    for secret in ("creds", "other"):
        body = {"metadata": {"name": secret}, "stringData": {"key": VALUE}}
        api.create(f"/api/v1/namespaces/{name}/secrets", body)
    until(lambda: has(api, f"/api/v1/namespaces/{name}/configmaps/kube-root-ca.crt"), "its CA")
    return name


def has(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except ApiStatusError as error:
        if error.code != 404:
            raise
        return False
    return True


def types(cluster: Cluster, command: str, code: int = 0) -> Result:
    environment = {"KUBECONFIG": str(cluster.admin_kubeconfig), "COLUMNS": "80"}
    result = CliRunner().invoke(cli, command.split(), env=environment)
    assert result.exit_code == code, f"copyrator {command}\n{result.output}"
    assert "Traceback" not in result.output
    assert VALUE not in result.output
    return result


def grant(hub: Cluster, infra: str, more: str = "", *sources: str, code: int = 0) -> Result:
    named = " ".join(f"--source {one}" for one in sources or (f"Secret/{infra}/creds",))
    return types(hub, f"remote grant {infra}-r {named} --server {hub.server} {more}", code)


def token_of(printed: str) -> str:
    (document,) = yaml.safe_load_all(printed)
    return parse_kubeconfig(document["stringData"]["value"].encode()).token or ""


@pytest.fixture
def asked(hub: Cluster, edge: Cluster, tmp_path: Any) -> Callable[..., bool]:
    """Whether the account in a printed Secret may do something, by kubectl."""

    def ask(printed: str, *what: str) -> bool:
        file = tmp_path / "kubeconfig"
        (document,) = yaml.safe_load_all(printed)
        file.write_text(document["stringData"]["value"])
        # kubectl exits with 1 for no.
        with suppress(CommandFailedError):
            return hub.kubectl(f"--kubeconfig={file}", "auth", "can-i", *what).strip() == "yes"
        return False

    return ask


def test_the_printed_secret_reads_what_was_named_and_nothing_else(
    hub: Cluster, edge: Cluster, infra: str, namespace: Any, asked: Callable[..., bool]
) -> None:
    home = namespace("home")
    result = grant(hub, infra)

    token = token_of(result.stdout)
    assert token not in result.stderr
    assert f"Created: Role {infra}/copyrator-remote:{infra}:{infra}-r." in result.stderr
    for verb in ("get", "list", "watch"):
        assert asked(result.stdout, verb, "secrets/creds", "-n", infra)
        assert not asked(result.stdout, verb, "secrets/other", "-n", infra)
        assert not asked(result.stdout, verb, "secrets", "-n", infra)
    assert asked(result.stdout, "get", "namespaces/kube-system")
    assert not asked(result.stdout, "get", "namespaces/default")

    edge.kubectl("apply", "--server-side", "-n", home, "-f", "-", input=result.stdout)
    said = types(edge, f"remote check {home}/{infra}-r").output
    uid = hub.api().get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    assert f"ok   Kubeconfig: {hub.server}" in said
    assert "ok   Credential: a token without a known end" in said
    assert f"ok   Cluster: uid {uid}" in said
    assert f"ok   Account: system:serviceaccount:{infra}:{infra}-r" in said
    assert f"in {infra} it may read secrets creds" in " ".join(said.split())
    assert token not in said


def test_what_rules_read_by_it_is_checked(
    hub: Cluster, edge: Cluster, infra: str, namespace: Any
) -> None:
    home = namespace("home")
    printed = grant(hub, infra).stdout
    edge.kubectl("apply", "--server-side", "-n", home, "-f", "-", input=printed)
    for name in ("creds", "other"):
        source = {"kind": "Secret", "namespace": infra, "name": name}
        there = {"kubeConfig": {"secretName": f"{infra}-r"}}
        edge.api().create(RULES.format(home), rule(home, name, source=source | there))

    checks = types(edge, f"remote check -n {home} {infra}-r -o json", code=1).stdout
    found = {one["check"]: one for one in json.loads(checks)["items"]}
    assert found[f"Source Secret {infra}/creds"]["ok"] is True
    denied = found[f"Source Secret {infra}/other"]
    assert denied["ok"] is False
    assert "may not get, list, watch it; to grant it run in that cluster" in denied["message"]
    for name in ("creds", "other"):
        edge.api().delete(f"{RULES.format(home)}/{name}")


def test_an_operator_copies_with_what_was_granted(
    hub: Cluster, stage: Stage, infra: str, namespace: Any, word: str
) -> None:
    team = namespace(word)
    printed = grant(hub, infra).stdout
    stage.cluster.kubectl("apply", "--server-side", "-n", stage.home, "-f", "-", input=printed)
    source = {"kind": "Secret", "namespace": infra, "name": "creds"}
    source["kubeConfig"] = {"secretName": f"{infra}-r"}
    stage.apply(rule(stage.home, word, source=source, targets={"namespaces": [team]}))
    stage.wait_reason(RULES.format(stage.home), word, "Synced")
    body = stage.api.get(f"/api/v1/namespaces/{team}/secrets/creds")
    assert b64decode(body["data"]["key"]).decode() == VALUE
    stage.delete_rule(word)


def test_a_bundles_kubeconfig_is_not_taken_for_a_rules(
    hub: Cluster, edge: Cluster, infra: str, namespace: Any
) -> None:
    home = namespace("home")
    printed = grant(hub, infra).stdout
    edge.kubectl("apply", "--server-side", "-n", home, "-f", "-", input=printed)
    spec = {
        "registry": "r.example.com",
        "repo": "shop",
        "suspend": True,
        "kubeConfig": {"secretName": f"{infra}-r"},
    }
    body = {"apiVersion": "operator.werf.dev/v1", "kind": "Bundle", "metadata": {"name": "shop"}}
    edge.api().create(BUNDLES.format(home), body | {"spec": spec})
    said = types(edge, f"remote check {home}/{infra}-r").output
    assert f"?    Bundles: Bundle {home}/shop; what a deploy needs isn't reviewed" in said
    assert "no rule in" not in said
    edge.api().delete(f"{BUNDLES.format(home)}/shop")


def test_a_second_grant_changes_nothing_and_another_one_replaces_the_sources(
    hub: Cluster, edge: Cluster, infra: str, asked: Callable[..., bool]
) -> None:
    first, again = grant(hub, infra), grant(hub, infra)
    assert token_of(again.stdout) == token_of(first.stdout)
    assert "Created" not in again.stderr
    assert "Changed" not in again.stderr

    changed = grant(hub, infra, f"-n {infra}", "configmap/default/kube-root-ca.crt")
    assert f"Removed: Role {infra}/copyrator-remote:{infra}:{infra}-r" in changed.stderr
    assert token_of(changed.stdout) == token_of(first.stdout)
    assert asked(changed.stdout, "watch", "configmaps/kube-root-ca.crt", "-n", "default")
    assert not asked(changed.stdout, "get", "secrets/creds", "-n", infra)


def test_a_token_with_an_end_is_warned_of(
    hub: Cluster, edge: Cluster, infra: str, namespace: Any
) -> None:
    home = namespace("home")
    result = grant(hub, infra, "--ttl 1h")
    assert "The token ends at 20" in result.stderr
    assert not has(hub.api(), f"/api/v1/namespaces/{infra}/secrets/{infra}-r-token")
    edge.kubectl("apply", "--server-side", "-n", home, "-f", "-", input=result.stdout)
    said = types(edge, f"remote check {home}/{infra}-r").output
    assert "?    Credential: the token ends at 20" in said
    assert "ok   Account: " in said


def test_all_of_a_kind_is_asked_for(hub: Cluster, infra: str, asked: Callable[..., bool]) -> None:
    whole = f"Secret/{infra}"
    refused = grant(hub, infra, "", whole, code=2)
    assert f"may read all secrets of the namespace {infra}, whatever" in refused.stderr
    assert "add --yes" in refused.stderr
    assert not has(hub.api(), f"/api/v1/namespaces/{infra}/serviceaccounts/{infra}-r")
    result = grant(hub, infra, "--yes", whole)
    assert asked(result.stdout, "list", "secrets", "-n", infra)


def test_a_dry_run_makes_nothing_and_prints_what_the_api_server_takes(
    hub: Cluster, infra: str
) -> None:
    printed = grant(hub, infra, "--dry-run").stdout
    kinds = [document["kind"] for document in yaml.safe_load_all(printed)]
    assert kinds == [
        "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "Secret"
    ]  # fmt: skip
    hub.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", input=printed)
    assert not has(hub.api(), f"/api/v1/namespaces/{infra}/serviceaccounts/{infra}-r")
    assert not has(hub.api(), f"{RBAC}/clusterroles/copyrator-remote:{infra}:{infra}-r")


def test_an_account_of_others_is_left_alone(hub: Cluster, infra: str) -> None:
    accounts = f"/api/v1/namespaces/{infra}/serviceaccounts"
    hub.api().create(accounts, {"metadata": {"name": f"{infra}-r"}})
    result = grant(hub, infra, code=1)
    assert f"the ServiceAccount {infra}/{infra}-r exists and wasn't made by this" in " ".join(
        result.stderr.split()
    )
    assert result.stdout == ""


def test_faults_of_a_secret_are_named_with_a_remedy(
    hub: Cluster, edge: Cluster, infra: str, namespace: Any
) -> None:
    home = namespace("home")
    assert "there is no Secret nope in the namespace" in types(
        edge, f"remote check {home}/nope", code=1
    ).output  # fmt: skip

    def check(value: str) -> str:
        body = {"metadata": {"name": "remote"}, "stringData": {"value": value}}
        secrets_ = f"/api/v1/namespaces/{home}/secrets"
        if has(edge.api(), f"{secrets_}/remote"):
            edge.api().delete(f"{secrets_}/remote")
        edge.api().create(secrets_, body)
        return " ".join(types(edge, f"remote check {home}/remote", code=1).output.split())

    result = grant(hub, infra)
    (document,) = yaml.safe_load_all(result.stdout)
    good = document["stringData"]["value"]
    exec_ = json.loads(good)
    exec_["users"][0]["user"]["exec"] = {"command": "aws"}
    assert "FAIL Kubeconfig: users[0].user.exec: runs a command" in check(json.dumps(exec_))
    own = edge.admin_kubeconfig.read_text()
    assert "FAIL Cluster: that is this cluster itself" in check(own)
    stranger = json.loads(good)
    authority = yaml.safe_load(own)["clusters"][0]["cluster"]["certificate-authority-data"]
    stranger["clusters"][0]["cluster"]["certificate-authority-data"] = authority
    assert "FAIL Server:" in check(json.dumps(stranger))
    hub.api().delete(f"/api/v1/namespaces/{infra}/secrets/{infra}-r-token")
    until(lambda: "it refuses the credential (401)" in check(good), "the token is revoked")
