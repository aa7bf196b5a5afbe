"""Releases in another cluster: two control planes, and a team with a credential for the other."""

import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from tests.e2e.bundles.conftest import Operator, Team, is_gone
from tests.e2e.conftest import directory_of
from tests.e2e.operator_process import until
from tests.e2e.owned_cluster import owned_cluster
from tests.kubeconfigs import kubeconfig_data

from localcluster import Cluster

KUBE_CONFIG = {"secretName": "other"}
SOON = {"limit": 1, "backoff": "1s"}
NEVER = "720h"


@dataclass
class Target:
    """The other cluster, which has no operator."""

    cluster: Cluster

    def __post_init__(self) -> None:
        self.api = self.cluster.api()

    def make(self, namespace: str, account: str = "deployer") -> None:
        """A namespace, and an account that may deploy into it."""
        self.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        self.add(namespace, account)

    def add(self, namespace: str, account: str) -> None:
        place = f"namespaces/{namespace}"
        self.api.create(f"/api/v1/{place}/serviceaccounts", {"metadata": {"name": account}})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"}
        subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
        body = {"metadata": {"name": account}, "roleRef": role, "subjects": [subject]}
        self.api.create(f"/apis/rbac.authorization.k8s.io/v1/{place}/rolebindings", body)

    def revoke(self, namespace: str, account: str) -> None:
        self.api.delete(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}")

    def token(self, namespace: str, account: str = "deployer") -> str:
        path = self.cluster.kubeconfig_for_service_account(namespace, account)
        return str(yaml.safe_load(path.read_text())["users"][0]["user"]["token"])

    @property
    def authority(self) -> str:
        config = yaml.safe_load(self.cluster.admin_kubeconfig.read_text())["clusters"][0]["cluster"]
        return base64.b64decode(config["certificate-authority-data"]).decode()

    def data(self, namespace: str, account: str = "deployer", server: str = "") -> dict[str, str]:
        """The data of a Secret with the credential of an account."""
        token = self.token(namespace, account)
        return kubeconfig_data(server or self.cluster.server, token, authority=self.authority)

    def text(self, namespace: str, name: str = "shop") -> str | None:
        """What is deployed there."""
        path = f"/api/v1/namespaces/{namespace}/configmaps/{name}-app"
        return None if is_gone(self.api, path) else str(self.api.get(path)["data"]["text"])


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    with owned_cluster(directory_of("-target"), process_node=False, registry=False) as cluster:
        yield Target(cluster)


def plan(team: Team) -> dict[str, Any]:
    found: dict[str, Any] = team.status("shop").get("plan", {})
    return found


def planned(team: Team, version: str, but: str = "") -> dict[str, Any]:
    """The plan of a version that waits for a decision, another one than that of this ID."""

    def fits() -> bool:
        found = plan(team)
        made = (found.get("outcome"), found.get("version")) == ("Planned", version)
        return made and found["id"] != but and found.get("decision") is None

    until(fits, lambda: f"{version} is planned: {json.dumps(team.status('shop'))}")
    return plan(team)


def approve(team: Team, found: dict[str, Any]) -> None:
    team.annotate("shop", **{"approved-plan": found["id"], "approved-by": "ann"})


def copies(team: Team) -> list[str]:
    found = team.api.get(team.path("secrets"), labelSelector="operator.werf.dev/seal")["items"]
    names = [one["metadata"]["name"] for one in found]
    return [name for name in names if name.endswith("-kubeconfig")]


def test_the_whole_life_of_a_release_in_another_cluster(
    operator: Operator, team: Team, target: Target
) -> None:
    """Planned, approved, deployed, checked for drift, rolled back and uninstalled there."""
    place = team.namespace
    target.make(place)
    first = target.data(place)
    team.create("secrets", "other", data=first)
    old = team.publish("1.0.0", "first")
    team.bundle(
        "shop",
        version="1.*",
        kubeConfig=KUBE_CONFIG,
        approval={"mode": "Always"},
        drift={"mode": "Detect", "interval": NEVER},
        retry=SOON,
    )
    made = planned(team, "1.0.0")
    assert made["counts"] == {"create": 1}
    assert target.text(place) is None

    target.add(place, "successor")  # the credential is rotated between plan and deploy
    team.patch("secrets", "other", data=target.data(place, "successor"))
    target.revoke(place, "deployer")
    approve(team, made)
    status = team.wait_deployed("shop", old)
    assert status["deployed"]["server"] == status["server"] == target.cluster.server
    assert plan(team)["id"] == made["id"]
    assert (target.text(place), team.release("shop")) == ("first", None)
    assert "consent" not in status

    def drifted() -> str:
        return str(team.condition("shop", "Drifted").get("reason"))

    until(lambda: drifted() == "InSync", lambda: json.dumps(team.status("shop")))
    path = f"/api/v1/namespaces/{place}/configmaps/shop-app"
    target.api.patch(path, {"data": {"text": "edited"}})
    team.annotate("shop", **{"plan-at": "now"})
    until(lambda: drifted() == "Drifted", lambda: json.dumps(team.status("shop")))

    new = team.publish("1.1.0", "second")
    approve(team, planned(team, "1.1.0"))
    team.wait_deployed("shop", new)
    assert target.text(place) == "second"
    team.annotate("shop", pin=f"1.0.0@{old}")
    approve(team, planned(team, "1.0.0"))
    team.wait_deployed("shop", old)
    assert target.text(place) == "first"
    until(lambda: not copies(team), "no copy of the kubeconfig is left")

    kept = (team.get("secrets", "other") or {})["data"]
    team.delete("secrets", "other")
    team.wait_reason("shop", "KubeConfigInvalid")
    team.delete("bundles", "shop")
    message = team.wait_reason("shop", "UninstallFailed")["message"]
    assert "Secret" in message
    assert "force-delete" in message
    team.create("secrets", "other", data=kept)
    team.wait_gone("bundles", "shop")
    assert target.text(place) is None
    log = operator.log.read_text()
    for data in (first, kept):
        token = json.loads(base64.b64decode(data["value"]))["users"][0]["user"]["token"]
        assert token not in log
