"""What a release leaves on a cluster: recorded once, and put into a control plane by the tests.

    python -m tests.e2e.upgrade.recording VERSION

lets users do on a new control plane what ``scene.py`` has, runs the operator of this checkout under
the chart's rights, and writes `recorded/VERSION.json.gz` with all objects and the registry, and
`recorded/chart-VERSION.tgz`.

It is done once for a release, right before it, and never again: what others have on their
clusters can't be made anew either. So a test that fails with a recording is a change that breaks
upgrades (docs/compatibility.md), and is mended elsewhere.
"""

import gzip
import json
import re
import sys
import tempfile
import urllib.request
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.e2e.bundles.private_registry import private_registry
from tests.e2e.operator_process import DIRECT, OperatorProcess
from tests.e2e.owned_cluster import owned_cluster, reap
from tests.e2e.upgrade.scene import HOME, NAMESPACES, READER, REGISTRY, Scene

from copyrator.api import names
from copyrator.settings.config import KNOWN_KINDS
from demo.chart import CHART
from localcluster import Cluster
from localcluster.api import ApiStatusError
from localcluster.bundle import INDEX_TYPE, MANIFEST_TYPE, Target
from localcluster.locks import file_lock
from localcluster.paths import cache_dir, state_root

RECORDED = Path(__file__).parent / "recorded"
VALUES: Mapping[str, Any] = {
    "image.repository": "registry.example.com/copyrator",
    "nodeSelector.no": "where",
    "rules.kinds": [*KNOWN_KINDS],
    "rules.tenantRules": True,
    "rules.consumers": True,
    "bundles.timerInterval": 3,
    "bundles.timerIdle": 0,
    "bundles.jobsTTL": 3600,
}
"""Of the chart: with all its policies, and a Deployment that no node runs."""

CLUSTER_WIDE = ("clusterroles", "clusterrolebindings")
OURS = ("copyrators", "bundles")
OF_DEPLOYMENTS = ("pods", "replicasets")
OF_KUBERNETES = ("kube-root-ca.crt", "default")
KINDS = {
    "": ("namespaces", "secrets", "configmaps", "serviceaccounts", "pods"),
    "rbac.authorization.k8s.io/v1": ("roles", "rolebindings", *CLUSTER_WIDE),
    "networking.k8s.io/v1": ("networkpolicies",),
    "coordination.k8s.io/v1": ("leases",),
    "apps/v1": ("deployments", "replicasets"),
    "batch/v1": ("jobs",),
    "flant.com/v1": ("copyrators",),
    "operator.werf.dev/v1": ("bundles",),
}
AROUND = timedelta(days=60)
_TIME = re.compile(r"\b20[23]\d-\d\d-\d\dT\d\d:\d\d:\d\d(?=\.\d+Z|Z)")


def helm(cluster: Cluster, action: str, *arguments: str, **values: Any) -> None:
    """`helm install`, `upgrade` or `rollback`, with values by dotted path."""
    chosen = [
        part
        for name, value in values.items()
        for part in ("--set-json", f"{name}={json.dumps(value)}")
    ]
    cluster.helm(action, "copyrator", *arguments, "--namespace", HOME, *chosen)


@contextmanager
def registry(cluster: Cluster) -> Iterator[None]:
    """The cluster's registry at REGISTRY, with a password; one run after the other."""
    with (
        file_lock(cache_dir() / "locks" / "upgrade-registry.lock"),
        private_registry(cluster.registry, REGISTRY),
    ):
        yield


def operator(cluster: Cluster, log: Path) -> OperatorProcess:
    """The operator of this checkout, with the variables and rights that Helm installed."""
    path = f"/apis/apps/v1/namespaces/{HOME}/deployments/copyrator"
    spec = cluster.api().get(path)["spec"]["template"]["spec"]
    given = spec["containers"][0]["env"]
    variables = {one["name"]: one["value"] for one in given if "value" in one}
    account = cluster.kubeconfig_for_service_account(HOME, spec["serviceAccountName"])
    return OperatorProcess(account, log, settings={**variables, "POD_NAMESPACE": HOME})


def other(directory: Path) -> AbstractContextManager[Cluster]:
    """The cluster that a rule's source is in."""
    return owned_cluster(directory, process_node=False, registry=False)


def record(cluster: Cluster, hub: Cluster, directory: Path, chart: Path) -> dict[str, Any]:
    """Install the chart, do what users do, stop the operator in the middle; what is there then."""
    cluster.kubectl("create", "namespace", HOME)
    helm(cluster, "install", str(chart), **VALUES)
    with registry(cluster), operator(cluster, directory / "operator.log") as process:
        process.wait_ready()
        scene = Scene(cluster, hub, directory)
        try:
            scene.copy()
            scene.deploy()
            scene.hold_a_deploy()
            assert process.stop() == 0
        except BaseException:
            print(process.log[-8000:], scene.reasons())  # noqa: T201
            raise
        assert "Traceback" not in process.log
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "objects": objects(cluster),
        "hub": objects(hub),
        "registry": repositories(cluster.registry),
    }


def objects(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """The objects of our namespaces that Helm didn't install, and copies, by their keys in etcd."""
    api, found = cluster.api(), dict[str, Any]()
    found["namespaces/kube-system"] = api.get("/api/v1/namespaces/kube-system")
    for group, plurals in KINDS.items():
        for plural in plurals:
            path = f"/apis/{group}/{plural}" if group else f"/api/v1/{plural}"
            try:
                listed = api.get(path)
            except ApiStatusError as error:
                if error.code != 404:  # as of our CRDs in the hub
                    raise
                continue
            kind = {"apiVersion": listed["apiVersion"], "kind": listed["kind"].removesuffix("List")}
            # Of CRDs they are below their group.
            folder = f"{group.partition('/')[0]}/{plural}" if plural in OURS else plural
            for item in listed["items"]:
                metadata = item["metadata"]
                if _is_left(plural, item):
                    place = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
                    found[f"{folder}/{place}"] = {**kind, **item}
    for one in found.values():
        del one["metadata"]["resourceVersion"]
    return found


def _is_left(plural: str, item: Mapping[str, Any]) -> bool:
    """Whether it isn't of another controller, of Helm or over."""
    metadata, phase = item["metadata"], item.get("status", {}).get("phase")
    namespace, labels = metadata.get("namespace"), metadata.get("labels", {})
    if plural == "namespaces":
        return metadata["name"] in NAMESPACES
    if namespace not in NAMESPACES:
        is_reader = plural in CLUSTER_WIDE and metadata["name"] == READER
        return is_reader or labels.get(names.LABEL_MANAGED_BY) == names.MANAGED_BY
    if namespace == HOME:
        is_installed = names.ANN_RELEASE in metadata.get("annotations", {})
        if is_installed or plural in OF_DEPLOYMENTS or item.get("type") == "helm.sh/release.v1":
            return False
    return metadata["name"] not in OF_KUBERNETES and phase not in ("Succeeded", "Failed")


def repositories(host: str) -> dict[str, dict[str, Any]]:
    """What the registry has: tags, manifests, and blobs in base64."""

    def get(path: str) -> bytes:
        accepted = {"Accept": f"{MANIFEST_TYPE}, {INDEX_TYPE}"}
        request = urllib.request.Request(f"http://{host}/v2/{path}", headers=accepted)
        with DIRECT.open(request) as answer:
            return bytes(answer.read())

    found: dict[str, dict[str, Any]] = {}
    for repo in json.loads(get("_catalog"))["repositories"]:
        kept = found[repo] = {"manifests": {}, "blobs": {}}
        waiting = list(json.loads(get(f"{repo}/tags/list"))["tags"])
        while waiting:
            reference = waiting.pop()
            text = get(f"{repo}/manifests/{reference}").decode()
            kept["manifests"][reference] = text
            manifest = json.loads(text)
            waiting += [one["digest"] for one in manifest.get("manifests", [])]
            for one in (manifest.get("config"), *manifest.get("layers", [])):
                if one is not None:
                    blob = get(f"{repo}/blobs/{one['digest']}")
                    kept["blobs"][one["digest"]] = b64encode(blob).decode()
    return found


def releases() -> list[str]:
    """The versions of which there is a recording."""
    return sorted(path.name.removesuffix(".json.gz") for path in RECORDED.glob("*.json.gz"))


def read(version: str) -> dict[str, Any]:
    """A recording."""
    packed = (RECORDED / f"{version}.json.gz").read_bytes()
    found: dict[str, Any] = json.loads(gzip.decompress(packed))
    return found


def restore(cluster: Cluster, recorded: Mapping[str, Any]) -> None:
    """Make a control plane as if the operator had just been stopped.

    The objects are put into etcd: seals, names of Jobs and owners depend on their uids. All times
    are later by the age of the recording: what is due or expires depends on them.
    """
    repositories = recorded["registry"]
    for repo, kept in repositories.items():
        target = Target(cluster.registry, repo)
        for blob in kept["blobs"].values():
            target.upload(b64decode(blob))
        # What an index lists has to be there before it.
        manifests = kept["manifests"].items()
        for reference, text in sorted(manifests, key=lambda one: '"manifests"' in one[1]):
            target.tag(text.encode(), reference, json.loads(text)["mediaType"])
    put(cluster, later(recorded["objects"], datetime.fromisoformat(recorded["at"])))


def later(found: Any, at: datetime) -> Any:
    """The same, with all times around that one as long before or after now."""
    age = timedelta(seconds=int((datetime.now(UTC) - at).total_seconds()))

    def shift(text: re.Match[str]) -> str:
        time = datetime.fromisoformat(f"{text[0]}+00:00")
        is_ours = abs(time - at) < AROUND  # else of a certificate
        return (time + age if is_ours else time).isoformat().removesuffix("+00:00")

    return json.loads(_TIME.sub(shift, json.dumps(found)))


def put(cluster: Cluster, found: Mapping[str, Any]) -> None:
    """Put objects into etcd, owners before what they own: else that is garbage."""
    etcd = cluster.supervisor.plan.url("etcd", "http")
    owners = ("namespaces", "operator.werf.dev", "deployments", "replicasets", "jobs")
    ranks = {one: rank for rank, one in enumerate(owners)}
    for key, value in sorted(found.items(), key=lambda one: ranks.get(one[0].split("/")[0], 9)):
        pair = f"/registry/{key}".encode(), json.dumps(value).encode()
        body = dict(zip(("key", "value"), (b64encode(one).decode() for one in pair), strict=True))
        DIRECT.open(f"{etcd}/v3/kv/put", json.dumps(body).encode()).close()


if __name__ == "__main__":
    version = sys.argv[1]
    reap(state_root(), "recording")
    packed = RECORDED / f"chart-{version}.tgz"
    with (
        tempfile.TemporaryDirectory() as place,
        owned_cluster(state_root() / "recording") as fresh,
        other(state_root() / "recording-hub") as hub,
    ):
        fresh.helm("package", str(CHART), "--version", version, "--destination", place)
        packed.write_bytes((Path(place) / f"copyrator-{version}.tgz").read_bytes())
        found = record(fresh, hub, Path(place), packed)
    text = json.dumps(found, indent=1, sort_keys=True).encode()
    (RECORDED / f"{version}.json.gz").write_bytes(gzip.compress(text, mtime=0))
