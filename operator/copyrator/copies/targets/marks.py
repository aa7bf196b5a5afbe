"""The marks by which we recognise our copies, and those that other controllers put on objects.

Other controllers' marks claim, prune or fill an object. A copy that had them would be deleted,
taken over or changed by that controller, or would be copied further. So they are never copied from
a source; a rule's author may set them (spec.transform, spec.template).
tests/unit/copies/test_marks.py names the source of each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from copyrator.api import names

OUR_KEYS: Final = frozenset(
    {
        names.LABEL_MANAGED_BY,
        names.ANN_RULE,
        names.ANN_SOURCE,
        names.ANN_HASH,
        names.ANN_REFERENCES,
    }
)
"""The marks by which a copy is recognised as ours."""


def is_copy(metadata: Mapping[str, Any]) -> bool:
    """Whether an object has our marks; such an object is never a source."""
    labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    return labels.get(names.LABEL_MANAGED_BY) == names.MANAGED_BY and names.ANN_RULE in annotations


@dataclass(frozen=True, slots=True)
class Owner:
    """A program and its marks."""

    name: str
    effect: str
    """What it does with an object that has them."""
    patterns: tuple[str, ...]
    """``DOMAIN/`` is every key of a domain and its subdomains; ``TEXT*`` what begins with it."""


def _owners(*rows: tuple[str, str, str]) -> tuple[Owner, ...]:
    return tuple(Owner(name, effect, tuple(patterns.split())) for name, effect, patterns in rows)


OPERATORS: Final = _owners(
    ("Copyrator", "owns its copies", f"{names.RULE_PREFIX} {names.BUNDLE_PREFIX}"),
    (
        "kopf",
        "keeps the last state of an object, its data in clear",
        f"{names.KOPF_PREFIX} kopf.dev/",
    ),
    ("kubectl", "keeps what was applied, the data in clear", "kubectl.kubernetes.io/"),
)
"""Those that templates can't set either."""

OTHERS: Final = _owners(
    # Tools that apply manifests
    ("kubectl apply --prune --applyset", "prunes", "applyset.kubernetes.io/"),
    (
        "cli-utils, kpt, kustomize, GitLab agent",
        "prunes",
        "config.kubernetes.io/ config.k8s.io/ cli-utils.sigs.k8s.io/ kpt.dev/",
    ),
    ("Helm", "owns, deletes", f"helm.sh/ {names.LABEL_MANAGED_BY}"),
    ("Argo CD", "prunes, reads as a cluster", "argocd.argoproj.io/"),
    ("Argo CD's default tracking label", "prunes", "app.kubernetes.io/instance"),
    (
        "Flux and Flux Operator",
        "prunes",
        (
            "kustomize.toolkit.fluxcd.io/ helm.toolkit.fluxcd.io/ fluxcd.controlplane.io/ "
            "fluxcd.io/sync-* flux.weave.works/"
        ),
    ),
    ("Config Sync", "prunes, restores", "configmanagement.gke.io/ configsync.gke.io/"),
    ("kapp, kapp-controller, secretgen", "deletes, fills", "k14s.io/ carvel.dev/"),
    ("Rancher Fleet, k3s, RKE2", "prunes", "fleet.cattle.io/ rio.cattle.io/"),
    (
        "Rancher",
        "deletes what has no counterpart",
        "management.cattle.io/ authz.cluster.cattle.io/ lifecycle.cattle.io/",
    ),
    ("werf, Nelm", "owns", "werf.io/"),
    ("Kluctl", "prunes", "kluctl.io/"),
    ("Tanka", "prunes", "tanka.dev/"),
    ("Timoni", "prunes", "timoni.sh/"),
    ("Spinnaker", "versions, deletes", "spinnaker.io/"),
    ("KubeVela", "deletes", "oam.dev/"),
    ("kro", "owns", "kro.run/"),
    ("Project Sveltos", "deletes", "projectsveltos.io/"),
    ("istioctl", "prunes", "operator.istio.io/"),
    # Add-ons of a distribution
    (
        "kube-addon-manager",
        "prunes, restores",
        "addonmanager.kubernetes.io/ kubernetes.io/cluster-service",
    ),
    ("kOps", "prunes", "addon.kops.k8s.io/"),
    ("k0s", "prunes", "k0sproject.io/"),
    ("Gardener", "deletes what nothing refers to", "gardener.cloud/"),
    ("Cluster API", "owns, deletes", "cluster.x-k8s.io/"),
    (
        "Operator Lifecycle Manager",
        "deletes, adopts",
        "olm.* operators.coreos.com/ operatorframework.io/ operator-sdk/",
    ),
    # Secrets and certificates
    ("External Secrets", "deletes, fills", "external-secrets.io/"),
    ("Sealed Secrets", "overwrites, reads as its key", "sealedsecrets.bitnami.com/"),
    ("Secrets Store CSI driver", "deletes, fills", "secrets-store.csi.k8s.io/"),
    ("Vault Secrets Operator", "deletes, fills", "secrets.hashicorp.com/"),
    ("1Password operator", "fills", "operator.1password.io/"),
    ("Doppler operator", "fills", "secrets.doppler.com/"),
    ("Infisical operator", "fills", "secrets.infisical.com/"),
    (
        "cert-manager",
        "takes for a certificate's Secret, deletes",
        (
            "cert-manager.io/certificate-name cert-manager.io/next-private-key "
            "controller.cert-manager.io/"
        ),
    ),
    (
        "cert-manager's cainjector",
        "fills, reads a CA",
        "cert-manager.io/inject-* cert-manager.io/allow-direct-injection certmanager.k8s.io/",
    ),
    ("trust-manager", "deletes, fills", "trust.cert-manager.io/ trust-manager.io/"),
    # OpenShift
    (
        "OpenShift's trusted CA injector",
        "replaces the data",
        "config.openshift.io/inject-trusted-cabundle",
    ),
    (
        "OpenShift's service CA",
        "fills, renews",
        "service.beta.openshift.io/ service.alpha.openshift.io/",
    ),
    (
        "OpenShift's certificates and pull secrets",
        "renews, deletes",
        (
            "auth.openshift.io/ openshift.io/internal-registry-* openshift.io/token-secret.* "
            "hive.openshift.io/"
        ),
    ),
    # Copying tools
    ("kubernetes-replicator, secret-generator", "copies, fills", "v1.mittwald.de/"),
    ("reflector", "copies, deletes", "reflector.v1.k8s.emberstack.com/"),
    ("config-syncer", "copies, deletes", "kubed.appscode.com/ config-syncer.kubeops.dev/"),
    ("ClusterSecret", "copies, deletes", "clustersecret.io/"),
    ("Kyverno", "deletes what it generated or has a TTL", "kyverno.io/"),
    ("Hierarchical Namespaces", "deletes what isn't inherited", "hnc.x-k8s.io/"),
    ("Capsule", "prunes", "capsule.clastix.io/ projectcapsule.dev/"),
    ("OpenKruise ResourceDistribution", "overwrites", "kruise.io/resourcedistribution*"),
    # Several clusters
    ("vCluster", "deletes what has no counterpart", "loft.sh/"),
    ("Karmada", "deletes, restores", "karmada.io/"),
    ("KubeFed", "deletes, restores", "kubefed.io/"),
    ("Open Cluster Management", "deletes, restores", "open-cluster-management.io/"),
    ("Liqo", "deletes, restores", "liqo.io/"),
    ("Admiralty", "deletes", "multicluster.admiralty.io/"),
    # Operators whose objects are found by labels
    ("Crossplane", "owns", "crossplane.io/"),
    ("Config Connector", "owns", "cnrm.cloud.google.com/"),
    ("AWS Controllers for Kubernetes", "owns", "services.k8s.aws/"),
    ("Elastic Cloud on Kubernetes", "deletes what has no owner", "k8s.elastic.co/"),
    ("Strimzi", "deletes what has no owner", "strimzi.io/"),
    ("Metacontroller", "keeps what was applied, the data in clear", "metacontroller.k8s.io/"),
    ("Banzai Cloud's operators", "keeps what was applied", "banzaicloud.com/last-applied"),
    # Programs that delete after a time
    ("kube-janitor", "deletes after a time", "janitor/"),
    ("k8s-ttl-controller", "deletes after a time", "k8s-ttl-controller.twin.sh/"),
    # Kubernetes itself
    ("leader election of old clients", "holds a lock", "control-plane.alpha.kubernetes.io/"),
    ("the Deployment controller", "keeps its count", "deployment.kubernetes.io/"),
    ("the EndpointSlice controllers", "delete, fill", "endpointslice.kubernetes.io/"),
)
"""Those of which a template may set the marks."""

_KOPF_SUFFIXES: Final = (
    # kopf under an operator's own prefix (docs/facts/kopf.md, 2 and 11)
    "/last-handled-configuration",
    "/kopf-managed",
    "/KopfFinalizerMarker",
)


class Marks:
    """The marks of some owners, to be looked up by key."""

    def __init__(self, *owners: Owner) -> None:
        patterns = [pattern for owner in owners for pattern in owner.patterns]
        self._domains = frozenset(one[:-1] for one in patterns if one.endswith("/"))
        self._beginnings = tuple(one[:-1] for one in patterns if one.endswith("*"))
        self._keys = frozenset(patterns)

    def has(self, key: str) -> bool:
        """Whether a label or annotation of this key is one of them."""
        if key in self._keys or key.startswith(self._beginnings) or key.endswith(_KOPF_SUFFIXES):
            return True
        domain, slash, _ = key.partition("/")
        while slash and domain:
            if domain in self._domains:
                return True
            domain = domain.partition(".")[2]
        return False


EVERY_MARK: Final = Marks(*OPERATORS, *OTHERS)
OPERATOR_MARKS: Final = Marks(*OPERATORS)
