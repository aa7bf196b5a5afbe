"""Orders of Jobs, and how Jobs are compared with golden files."""

import os
from pathlib import Path

import yaml
from tests.replacing import replace

from copyrator.api.bundle_spec import BundleSpec, TargetCluster
from copyrator.bundles.features.cluster.fields import ClusterSpec
from copyrator.bundles.jobs.job import DeployOrder, UninstallOrder
from copyrator.bundles.jobs.script import sealed_kubeconfig

DIGEST = "sha256:" + "0123456789abcdef" * 4
SPEC = BundleSpec(
    namespace="team",
    name="shop",
    registry="registry.example.com:5000",
    repo="team/shop",
    version="1.0.0",
    project_namespace="shop-prod",
)
ORDER = DeployOrder(spec=SPEC, uid="uid-1", version="1.0.0", digest=DIGEST, generation=3, attempt=7)
UNINSTALL = UninstallOrder(spec=SPEC, uid="uid-1", generation=4, attempt=2)


def order(**changes: object) -> DeployOrder:
    """ORDER with changes; those that the spec has go there."""
    own = {key: value for key, value in changes.items() if key in DeployOrder.__slots__}
    spec = {key: value for key, value in changes.items() if key not in own}
    return replace(ORDER, spec=replace(SPEC, **spec), **own)


def check_golden(directory: Path, name: str, manifest: dict[str, object]) -> None:
    path = directory / f"{name}.yaml"
    text = yaml.safe_dump(manifest, sort_keys=True, width=100)
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


KUBECONFIG = sealed_kubeconfig("7" * 64)
SERVER = "https://other.example.com:6443"
ELSEWHERE = {
    "parts": (ClusterSpec("other"),),
    "cluster": TargetCluster(SERVER, "0" * 32),
    "kubeconfig": KUBECONFIG,
}
