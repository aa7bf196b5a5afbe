"""What a version of the operator leaves behind on a cluster: recorded once, restored by the tests.

    python -m tests.e2e.upgrade.recording STATE_DIRECTORY FILE.json

runs the operator of the checkout that is first on PYTHONPATH on a running local cluster and writes
down the objects that it and its users made. A recording is kept for each released version.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.bundles.private_registry import PASSWORD, USER, private_registry
from tests.e2e.installation import KINDS, KINDS_SETTING, apply, install, rendered
from tests.e2e.operator_process import OperatorProcess, until
from tests.e2e.vanishing import vanish

from localcluster import Api, Cluster
from localcluster.bundle import push
from localcluster.locks import file_lock
from localcluster.paths import cache_dir

HOME = "upgrade-home"
SOURCE = "upgrade-source"
APPS = "upgrade-apps"
TARGETS = ("upgrade-one", "upgrade-two")
NAMESPACES = (HOME, SOURCE, APPS, *TARGETS)
REGISTRY = ("127.83.11.5", 5000)
"""A recording holds hashes of the registry's address: it must be the same on every machine."""
REPOSITORY = "upgrade/hello"
CHART = Path(__file__).resolve().parents[3] / "examples" / "charts" / "hello"
SETTINGS = {
    "NAMESPACE": HOME,
    "WERF_OPERATOR_TIMER_INTERVAL": "3",
    "WERF_OPERATOR_TIMER_IDLE": "0",
    **KINDS_SETTING,
}

COPIED = ("secrets", "configmaps", "networkpolicies")
PATHS = {
    "secrets": "/api/v1/namespaces/{}/secrets",
    "configmaps": "/api/v1/namespaces/{}/configmaps",
    "networkpolicies": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "copyrators": "/apis/flant.com/v1/namespaces/{}/copyrators",
    "bundles": "/apis/operator.werf.dev/v1/namespaces/{}/bundles",
}
"""In the order in which they are restored."""

USERS = """\
apiVersion: v1
kind: Secret
metadata: {name: registry-login, namespace: upgrade-source}
stringData: {password: change-me}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: ca, namespace: upgrade-source, labels: {copy: "yes"}}
data: {ca.crt: none}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: hello-values, namespace: upgrade-apps}
data: {values.yaml: "greeting: Hello"}
---
apiVersion: v1
kind: Secret
metadata: {name: registry-login, namespace: upgrade-apps}
stringData: {username: USER, password: PASSWORD}
---
apiVersion: flant.com/v1
kind: CopyratorRule
metadata: {name: login, namespace: upgrade-home}
spec:
  source: {kind: Secret, namespace: upgrade-source, name: registry-login}
  targets: {selector: {matchLabels: {upgrade: target}}}
  transform: {labels: {add: {team: all}}}
---
apiVersion: flant.com/v1
kind: CopyratorRule
metadata: {name: policy, namespace: upgrade-home}
spec:
  template:
    apiVersion: networking.k8s.io/v1
    kind: NetworkPolicy
    metadata: {name: "from-{{ namespace.name }}"}
    spec: {podSelector: {}, policyTypes: [Ingress]}
  targets: {selector: {matchLabels: {upgrade: target}}}
---
apiVersion: operator.werf.dev/v1
kind: Bundle
metadata: {name: hello, namespace: upgrade-apps}
spec:
  registry: 127.83.11.5:5000
  repo: upgrade/hello
  version: 1.0.*
  auth: registry-login
  insecure: true
  values: hello-values
"""


@contextmanager
def registry(cluster: Cluster) -> Iterator[None]:
    """The cluster's registry at REGISTRY, with a password; one run after the other."""
    with (
        file_lock(cache_dir() / "locks" / "upgrade-registry.lock"),
        private_registry(cluster.registry, REGISTRY),
    ):
        yield


def prepare(cluster: Cluster) -> Path:
    """Make the namespaces, the chart's rights and what a deploy needs; return a kubeconfig."""
    api = cluster.api()
    kubeconfig = install(cluster, HOME, rendered(cluster, HOME, KINDS))
    for name in NAMESPACES:
        labels = {"upgrade": "target"} if name in TARGETS else {}
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        body["metadata"]["labels"] = labels
        apply(api, [body])
    push(CHART, cluster.registry, REPOSITORY, "1.0.0")
    account = {"kind": "ServiceAccount", "name": "werf", "namespace": APPS}
    api.create(f"/api/v1/namespaces/{APPS}/serviceaccounts", {"metadata": {"name": "werf"}})
    api.create(
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{APPS}/rolebindings",
        {
            "metadata": {"name": "werf"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "admin",
            },
            "subjects": [account],
        },
    )
    return kubeconfig


def record(cluster: Cluster, log: Path) -> list[dict[str, Any]]:
    """Run the operator until all is done, stop it, and return what is there."""
    api = cluster.api()
    kubeconfig = prepare(cluster)
    manifests = USERS.replace("USER", USER).replace("PASSWORD", PASSWORD)
    cluster.kubectl("apply", "-f", "-", input=manifests)
    with registry(cluster), OperatorProcess(kubeconfig, log, settings=SETTINGS) as operator:
        operator.wait_ready()
        for plural, namespace, name in (
            ("copyrators", HOME, "login"),
            ("copyrators", HOME, "policy"),
            ("bundles", APPS, "hello"),
        ):
            path = f"{PATHS[plural].format(namespace)}/{name}"
            until(lambda path=path: is_ready(api.get(path)), lambda: operator.log)
        assert operator.stop() == 0
    return [
        {"plural": plural, "object": item}
        for plural, path in PATHS.items()
        for namespace in NAMESPACES
        for item in api.get(path.format(namespace))["items"]
        if item["metadata"]["name"] != "kube-root-ca.crt"
        and item.get("type") != "helm.sh/release.v1"
    ]


def restore(api: Api, recorded: list[dict[str, Any]]) -> None:
    """Put the recorded objects on the cluster as if the operator had just been stopped.

    Where the recording names an object's uid, it is the one that it has on this cluster: owners
    come before what names them.
    """
    replaced: dict[str, str] = {}
    for one in sorted(recorded, key=lambda one: one["plural"] in COPIED):
        text = json.dumps(one["object"])
        for old, new in replaced.items():
            text = text.replace(old, new)
        body = json.loads(text)
        metadata = body["metadata"]
        path = PATHS[one["plural"]].format(metadata["namespace"])
        manager = metadata.get("managedFields", [{"manager": "kubectl"}])[0]["manager"]
        kept = ("name", "namespace", "labels", "annotations", "finalizers")
        body["metadata"] = {key: metadata[key] for key in kept if key in metadata}
        made = api.request("POST", path, body, parameters={"fieldManager": manager})
        replaced[metadata["uid"]] = made["metadata"]["uid"]
        if "status" in body:
            made["status"] = body["status"]
            api.replace(f"{path}/{metadata['name']}/status", made)


def is_ready(body: dict[str, Any]) -> bool:
    """Whether Ready is True."""
    conditions = body.get("status", {}).get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def remove(cluster: Cluster) -> None:
    """Remove the namespaces with all that is in them."""
    vanish(cluster, NAMESPACES)


if __name__ == "__main__":
    running = Cluster.attach(Path(sys.argv[1]))
    with tempfile.TemporaryDirectory() as directory:
        found = record(running, Path(directory) / "operator.log")
    Path(sys.argv[2]).write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    remove(running)
