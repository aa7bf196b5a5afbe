"""Sources in another cluster: a second real control plane, read by an account for one Secret."""

import base64
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.e2e.conftest import directory_of
from tests.e2e.copies.conftest import User, copying, encoded, wait_quiet
from tests.e2e.owned_cluster import owned_cluster

from copyrator.cli import cli
from localcluster import Cluster

INFRA = "infra"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
READ = ["get", "list", "watch"]


@pytest.fixture(scope="module")
def hub() -> Iterator[Cluster]:
    with owned_cluster(directory_of("-hub"), process_node=False, registry=False) as found:
        found.api().create("/api/v1/namespaces", {"metadata": {"name": INFRA}})
        yield found


@pytest.fixture(scope="module")
def there(hub: Cluster) -> User:
    return User(hub.api())


def account(hub: Cluster, name: str, *readable: str) -> Path:
    """A kubeconfig of an account that may read these Secrets, and the Namespace kube-system."""
    api = hub.api()
    api.create(f"/api/v1/namespaces/{INFRA}/serviceaccounts", {"metadata": {"name": name}})
    subject = [{"kind": "ServiceAccount", "name": name, "namespace": INFRA}]
    for kind, path, rule in (
        (
            "Role",
            f"{RBAC}/namespaces/{INFRA}",
            {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [*readable]},
        ),
        (
            "ClusterRole",
            RBAC,
            {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["kube-system"]},
        ),
    ):
        plural, metadata = f"{kind.lower()}s", {"name": name}
        verbs = READ if kind == "Role" else ["get"]
        role = {"metadata": metadata, "rules": [rule | {"verbs": verbs}]}
        api.create(f"{path}/{plural}", role)
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        binding = {"metadata": metadata, "roleRef": ref, "subjects": subject}
        api.create(f"{path}/{kind.lower()}bindings", binding)
    return hub.kubeconfig_for_service_account(INFRA, name)


def held(kubeconfig: Path) -> dict[str, str]:
    return {"value": base64.b64encode(kubeconfig.read_bytes()).decode()}


def pulling(name: str, secret: str) -> dict[str, object]:
    spec = copying(INFRA, name, f"{name}-*", kind="Secret")
    spec["source"]["kubeConfig"] = {"secretName": secret}
    return spec


@pytest.fixture
def pulled(operator, user, there, hub, namespace, word):
    """A Secret of the hub, and a rule that copies it into one namespace here, which is given."""
    target, home = namespace(f"{word}-1"), operator.namespace
    there.create("secrets", INFRA, word, data=encoded(password="one"))
    user.create("secrets", home, f"{word}-hub", data=held(account(hub, word, word)))
    user.rule(home, word, pulling(word, f"{word}-hub"))
    user.wait_data("secrets", target, word, encoded(password="one"))
    return target


def test_a_copy_follows_its_source_in_another_cluster_and_commands_name_that(
    operator, user, there, hub, pulled, word, cluster
):
    home = operator.namespace
    status = user.wait_ready(home, word)
    uid = hub.api().get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    assert [one["uid"] for one in status["sourceClusters"]] == [uid]
    place = f"in the cluster of kubeconfig {word}-hub"
    for arguments in (
        ("describe", "rule", word, "-n", home),
        ("why", f"secret/{word}", "-n", pulled, "--operator-namespace", home),
    ):
        said = CliRunner().invoke(cli, arguments, env=cluster.environment()).output
        assert place in " ".join(said.split()), said
    wait_quiet(operator, home, pulled)
    since = hub.audit_offset()
    began = time.monotonic()
    there.patch("secrets", INFRA, word, data=encoded(password="two"))
    user.wait_data("secrets", pulled, word, encoded(password="two"))
    took = time.monotonic() - began
    puller = f"system:serviceaccount:{INFRA}:{word}"
    mine = [event for event in hub.audit_events(since) if event.user == puller]
    assert [event.verb for event in mine if event.verb != "watch"] == []
    assert took < 30, f"{took:.2f} s"
    there.delete("secrets", INFRA, word)
    user.wait_gone("secrets", pulled, word)
    said = user.wait_reason(home, word, "SourceNotFound")
    assert f"in {INFRA} {place}" in said["message"]
    text = operator.log.read_text()
    assert "eyJ" not in text  # no token
