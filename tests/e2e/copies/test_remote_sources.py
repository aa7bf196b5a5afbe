"""Sources in another cluster: a second real control plane, read by an account for one Secret."""

import base64
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from signal import SIGCONT, SIGSTOP

import pytest
from tests.e2e.conftest import directory_of
from tests.e2e.copies.conftest import User, copying, encoded, wait_quiet
from tests.e2e.owned_cluster import owned_cluster

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


def test_a_copy_follows_its_source_in_another_cluster(operator, user, there, hub, pulled, word):
    home = operator.namespace
    status = user.wait_ready(home, word)
    uid = hub.api().get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
    assert [one["uid"] for one in status["sourceClusters"]] == [uid]
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
    assert f"in {INFRA} in the cluster of kubeconfig {word}-hub" in said["message"]
    text = operator.log.read_text()
    assert "eyJ" not in text  # no token


def test_a_revoked_token_keeps_the_copies_until_there_is_another(
    operator, user, there, hub, pulled, word
):
    home = operator.namespace
    user.wait_ready(home, word)
    hub.api().delete(f"/api/v1/namespaces/{INFRA}/serviceaccounts/{word}")
    hub.restart("kube-apiserver")  # which has cached that the token is valid
    said = user.wait_reason(home, word, "SourceUnreachable")
    assert f"in the cluster of kubeconfig {word}-hub" in said["message"]
    there.patch("secrets", INFRA, word, data=encoded(password="unseen"))
    user.patch("secrets", pulled, word, data=encoded(password="edited"))
    user.wait_data("secrets", pulled, word, encoded(password="one"))  # healed
    path = f"/api/v1/namespaces/{INFRA}/serviceaccounts"
    hub.api().create(path, {"metadata": {"name": word}})
    fresh = hub.kubeconfig_for_service_account(INFRA, word)
    user.patch("secrets", home, f"{word}-hub", data=held(fresh))
    user.wait_data("secrets", pulled, word, encoded(password="unseen"))
    user.wait_reason(home, word, "Synced")


def test_a_hub_that_hangs_delays_no_other_rule_and_is_followed_afterwards(
    operator, user, there, hub, pulled, namespace, word
):
    home = operator.namespace
    user.wait_ready(home, word)
    hub.signal("kube-apiserver", SIGSTOP)
    try:
        local = namespace(f"{word}-local")
        user.create("configmaps", local, "motd", data={"text": "hello"})
        target = namespace(f"{word}x")
        user.rule(home, f"{word}-local", copying(local, "motd", f"{word}x-*"))
        began = time.monotonic()
        user.wait_data("configmaps", target, "motd", {"text": "hello"})
        took = time.monotonic() - began
        user.wait_reason(home, word, "SourceUnreachable")
    finally:
        hub.signal("kube-apiserver", SIGCONT)
    assert took < 30, f"{took:.2f} s"
    assert user.data("secrets", pulled, word) == encoded(password="one")
    there.patch("secrets", INFRA, word, data=encoded(password="after"))
    user.wait_data("secrets", pulled, word, encoded(password="after"))
    user.wait_reason(home, word, "Synced")


def test_another_cluster_behind_the_secret_has_to_be_confirmed(
    operator, user, there, hub, pulled, word
):
    home = operator.namespace
    known = user.wait_ready(home, word)["sourceClusters"]
    with owned_cluster(directory_of("-swap"), process_node=False, registry=False) as other:
        api = other.api()
        api.create("/api/v1/namespaces", {"metadata": {"name": INFRA}})
        kubeconfig = account(other, word, word)
        user.patch("secrets", home, f"{word}-hub", data=held(kubeconfig))
        user.wait_reason(home, word, "SourceClusterChanged")
        assert user.data("secrets", pulled, word) == encoded(password="one")
        assert user.get("copyrators", home, word)["status"]["sourceClusters"] == known
        User(api).create("secrets", INFRA, word, data=encoded(password="other"))
        uid = api.get("/api/v1/namespaces/kube-system")["metadata"]["uid"]
        annotations = {"copyrator.flant.com/source-cluster": uid}
        user.patch("copyrators", home, word, metadata={"annotations": annotations})
        user.wait_data("secrets", pulled, word, encoded(password="other"))
    # That cluster is gone now.
    user.wait_reason(home, word, "SourceUnreachable")
    assert user.data("secrets", pulled, word) == encoded(password="other")


def test_a_template_reads_sources_of_both_clusters(
    operator, user, there, hub, pulled, namespace, word
):
    home, target = operator.namespace, namespace(f"{word}-both")
    user.create("secrets", home, word, data=encoded(password="here"))
    entry = {"kind": "Secret", "name": word}
    remote = entry | {"as": "hub", "namespace": INFRA, "kubeConfig": {"secretName": f"{word}-hub"}}
    text = "{{ sources.hub.data.password | b64decode }} {{ sources.own.data.password | b64decode }}"
    template = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "both"},
        "stringData": {"passwords": text},
    }
    spec = {
        "sources": [remote, entry | {"as": "own"}],
        "template": template,
        "targets": {"namespaces": [target]},
    }
    user.rule(home, f"{word}-both", spec)
    user.wait_data("secrets", target, "both", encoded(passwords="one here"))
    there.patch("secrets", INFRA, word, data=encoded(password="two"))
    user.wait_data("secrets", target, "both", encoded(passwords="two here"))
    there.delete("secrets", INFRA, word)
    user.wait_reason(home, f"{word}-both", "SourceNotFound")
    user.wait_gone("secrets", pulled, word)
    assert user.data("secrets", target, "both") == encoded(passwords="two here")


def test_the_operators_own_cluster_is_refused(operator, user, cluster, word):
    home = operator.namespace
    own = cluster.kubeconfig_for_service_account(home, "copyrator")
    user.create("secrets", home, f"{word}-hub", data=held(own))
    user.rule(home, word, pulling(word, f"{word}-hub"))
    said = user.wait_reason(home, word, "InvalidSpec")
    assert "the cluster that the operator runs in" in said["message"]


def test_commands_name_the_other_cluster(operator, user, pulled, word, cluster):
    home = operator.namespace
    user.wait_ready(home, word)
    place = f"in the cluster of kubeconfig {word}-hub"
    for arguments in (
        ("describe", "rule", word, "-n", home),
        ("why", f"secret/{word}", "-n", pulled, "--operator-namespace", home),
    ):
        said = printed(cluster, *arguments)
        assert place in " ".join(said.split()), said


def printed(cluster: Cluster, *arguments: str) -> str:
    command = [sys.executable, "-m", "copyrator", *arguments]
    variables = {**os.environ, **cluster.environment()}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr
