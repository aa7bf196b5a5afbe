"""The signature policy of a chart that serves other namespaces than the one in which it stands.

Its Role there has to suffice: that no request is refused is seen by the audit log, in every module.
"""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.bundles.conftest import Team, make_team
from tests.e2e.installation import install, uninstall
from tests.e2e.operator_process import OperatorProcess, until
from tests.e2e.rights.conftest import settings
from tests.e2e.vanishing import vanish

from demo.chart import ROOT, render
from localcluster import Api, Cluster
from localcluster.signing import new_key, public_key, sign

EXAMPLE = ROOT / "examples" / "signature-policy.yaml"
POLICY, KEYS = "copyrator-signature-policy", "release-keys"


@dataclass
class Place:
    """The rules' namespace, which isn't served, and a team's, which is."""

    api: Api
    home: str
    team: Team

    def put(self, name: str, data: dict[str, str]) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        self.api.create(f"/api/v1/namespaces/{self.home}/configmaps", body)

    def operator(self, log: Path) -> OperatorProcess:
        often = {"bundles.timerInterval": 3, "bundles.timerIdle": 1}
        values = {"watchNamespaces": [self.team.namespace], "signaturePolicy.required": True}
        rendered = render(self.team.cluster.helm, namespace=self.home, values=values | often)
        kubeconfig = install(self.team.cluster, self.home, rendered)
        return OperatorProcess(kubeconfig, log, settings=settings(rendered))


@pytest.fixture
def place(cluster: Cluster, api: Api, tmp_path: Path) -> Iterator[Place]:
    home, name = (f"{role}-{secrets.token_hex(3)}" for role in ("op", "team"))
    for one in (home, name):
        api.create("/api/v1/namespaces", {"metadata": {"name": one}})
    place = Place(api, home, make_team(cluster, api, name, tmp_path))
    yield place
    uninstall(cluster, home)
    vanish(cluster, [name])


def entries(place: Place) -> list[dict[str, Any]]:
    """Those of the example, for the team's repository."""
    policy = next(one for one in yaml.safe_load_all(EXAMPLE.read_text()))
    found: list[dict[str, Any]] = yaml.safe_load(policy["data"]["policy.yaml"])["entries"]
    (entry,) = found
    entry["repositories"] = [f"{place.team.cluster.registry}/{place.team.namespace}/*"]
    return found


def test_the_example_is_a_policy_and_without_one_a_required_one_is_waited_for(
    place: Place, tmp_path: Path
) -> None:
    team, key = place.team, new_key()
    digest = team.publish("1.0.0", "first")
    sign(key, team.cluster.registry, team.repo, digest)
    with place.operator(tmp_path / "log") as operator:
        team.bundle("shop")
        waits = team.wait_reason("shop", "VerificationUnavailable")
        assert "doesn't exist, and the operator's settings require it" in waits["message"]

        policy, keys = yaml.safe_load_all(EXAMPLE.read_text())
        assert policy["metadata"] == {"name": POLICY, "namespace": "copyrator"}
        assert keys["metadata"] == {"name": KEYS, "namespace": "copyrator"}
        place.put(KEYS, keys["data"])
        place.put(POLICY, policy["data"])

        team.wait_reason("shop", "NotInPolicy")

        own = f"/api/v1/namespaces/{place.home}/configmaps"
        text = yaml.safe_dump({"entries": entries(place)})
        place.api.patch(f"{own}/{POLICY}", {"data": {"policy.yaml": text}})

        team.wait_reason("shop", "SignatureInvalid")

        place.api.patch(f"{own}/{KEYS}", {"data": {"cosign.pub": public_key(key)}})

        team.wait_deployed("shop", digest)

        place.api.patch(f"{own}/{KEYS}", {"data": {"cosign.pub": public_key(new_key())}})

        until(lambda: team.condition("shop", "Verified")["status"] == "False")
        assert operator.stop() == 0
