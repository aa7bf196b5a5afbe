"""The Helm chart, rendered by the real helm: what of it a machine without containers can use.

The Deployment's image can't run here, so everything but the Deployment is applied as it is, and the
Deployment says how the operator's process is started (stage.py).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "copyrator"
IMAGE = "registry.example.com/team/copyrator"
SET_IMAGE = ("--set", f"image.repository={IMAGE}")
"""The chart of a clone has no image; this one isn't pulled."""

Manifest = dict[str, Any]

POLICY_API = "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy"
"""What API servers have from Kubernetes 1.30 on; the chart renders its policies only for these."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The chart's objects, in the order in which they are to be applied."""

    crds: list[Manifest]
    rights: list[Manifest]
    """Service accounts, roles and bindings, and the admission policy where it is asked for."""
    deployment: Manifest

    @property
    def bound_roles(self) -> list[Manifest]:
        """The roles that a binding of the chart refers to; the others are for people."""
        bound = {
            (one["metadata"].get("namespace"), one["roleRef"]["name"])
            for one in self.rights
            if one["kind"] in ("ClusterRoleBinding", "RoleBinding")
        }
        return [
            one
            for one in self.rights
            if one["kind"] in ("ClusterRole", "Role")
            and (one["metadata"].get("namespace"), one["metadata"]["name"]) in bound
        ]

    @property
    def service_account(self) -> str:
        """The operator's service account, in the release's namespace."""
        name: str = self.deployment["spec"]["template"]["spec"]["serviceAccountName"]
        return name

    @property
    def container(self) -> Manifest:
        """The operator's container."""
        container: Manifest = self.deployment["spec"]["template"]["spec"]["containers"][0]
        return container


def render(
    helm: Callable[..., str],
    *,
    namespace: str,
    values: Mapping[str, Any] | None = None,
    policy: bool = False,
) -> Rendered:
    """Render the chart for the release "copyrator" in `namespace`.

    Args:
        helm: runs helm with these arguments and returns what it printed.
        namespace: the release's namespace.
        values: chart values by dotted path, such as "log.format".
        policy: with the admission policy, as on a cluster that serves v1 of it.
    """
    given = dict(values or {})
    given.setdefault("image.repository", IMAGE)  # last: `image` may be among the values, too
    settings = [
        part
        for path, value in given.items()
        for part in ("--set-json", f"{path}={json.dumps(value)}")
    ]
    # A cluster that is known by any resource, and serves the policy or doesn't.
    served = ("--api-versions", POLICY_API if policy else "apps/v1/Deployment")
    printed = helm(
        "template", "copyrator", str(CHART), "--namespace", namespace, *settings, *served
    )
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = yaml.load_all(printed, loader)
    documents = [one for one in found if one and not _is_hook(one)]
    apart = ("CustomResourceDefinition", "Deployment")
    return Rendered(
        crds=[one for one in documents if one["kind"] == "CustomResourceDefinition"],
        rights=[one for one in documents if one["kind"] not in apart],
        deployment=next(one for one in documents if one["kind"] == "Deployment"),
    )


def _is_hook(manifest: Manifest) -> bool:
    """Whether Helm applies it at a time of its own only, such as before a release goes."""
    return "helm.sh/hook" in manifest["metadata"].get("annotations", {})
