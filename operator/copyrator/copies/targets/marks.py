"""The labels and annotations by which a controller claims, prunes or fills an object.

A copy that had them would be deleted, taken over or changed by that controller, or would be copied
further. So they are never copied from a source; a rule's author may set them (spec.transform,
spec.template). tests/unit/copies/test_marks.py names the source of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from copyrator.api import names


@dataclass(frozen=True, slots=True)
class Owner:
    """A program and its marks."""

    name: str
    effect: str
    """What it does with an object that has them."""
    patterns: tuple[str, ...]
    """``DOMAIN/`` is every key of a domain and its subdomains; ``TEXT*`` what begins with it."""


OPERATORS: Final = (
    Owner("Copyrator", "owns its copies", (names.RULE_PREFIX, names.BUNDLE_PREFIX)),
    Owner(
        "kopf",
        "keeps the last state of an object, its data in clear",
        (names.KOPF_PREFIX, "kopf.dev/"),
    ),
    Owner("kubectl", "keeps what was applied, the data in clear", ("kubectl.kubernetes.io/",)),
)
"""Those that templates can't set either."""

OTHERS: Final = (
    # Tools that apply manifests
    Owner("kubectl apply --prune --applyset", "prunes", ("applyset.kubernetes.io/",)),
    Owner(
        "cli-utils, kpt, kustomize, GitLab agent",
        "prunes",
        (
            *("config.kubernetes.io/", "config.k8s.io/", "cli-utils.sigs.k8s.io/"),
            "kpt.dev/",
        ),
    ),
    Owner("Helm", "owns, deletes", ("helm.sh/", names.LABEL_MANAGED_BY)),
    Owner("Argo CD", "prunes, reads as a cluster", ("argocd.argoproj.io/",)),
    Owner("Argo CD's default tracking label", "prunes", ("app.kubernetes.io/instance",)),
    Owner(
        "Flux and Flux Operator",
        "prunes",
        (
            *("kustomize.toolkit.fluxcd.io/", "helm.toolkit.fluxcd.io/"),
            *("fluxcd.controlplane.io/", "fluxcd.io/sync-*", "flux.weave.works/"),
        ),
    ),
    Owner("Config Sync", "prunes, restores", ("configmanagement.gke.io/", "configsync.gke.io/")),
    Owner("kapp, kapp-controller, secretgen", "deletes, fills", ("k14s.io/", "carvel.dev/")),
    Owner("Rancher Fleet, k3s, RKE2", "prunes", ("fleet.cattle.io/", "rio.cattle.io/")),
    Owner(
        "Rancher",
        "deletes what has no counterpart",
        ("management.cattle.io/", "authz.cluster.cattle.io/", "lifecycle.cattle.io/"),
    ),
    Owner("werf, Nelm", "owns", ("werf.io/",)),
    Owner("Kluctl", "prunes", ("kluctl.io/",)),
    Owner("Tanka", "prunes", ("tanka.dev/",)),
    Owner("Timoni", "prunes", ("timoni.sh/",)),
    Owner("Spinnaker", "versions, deletes", ("spinnaker.io/",)),
    Owner("KubeVela", "deletes", ("oam.dev/",)),
    Owner("kro", "owns", ("kro.run/",)),
    Owner("Project Sveltos", "deletes", ("projectsveltos.io/",)),
    Owner("istioctl", "prunes", ("operator.istio.io/",)),
    # Add-ons of a distribution
    Owner(
        "kube-addon-manager",
        "prunes, restores",
        ("addonmanager.kubernetes.io/", "kubernetes.io/cluster-service"),
    ),
    Owner("kOps", "prunes", ("addon.kops.k8s.io/",)),
    Owner("k0s", "prunes", ("k0sproject.io/",)),
    Owner("Gardener", "deletes what nothing refers to", ("gardener.cloud/",)),
    Owner("Cluster API", "owns, deletes", ("cluster.x-k8s.io/",)),
    Owner(
        "Operator Lifecycle Manager",
        "deletes, adopts",
        ("olm.*", "operators.coreos.com/", "operatorframework.io/", "operator-sdk/"),
    ),
    # Secrets and certificates
    Owner("External Secrets", "deletes, fills", ("external-secrets.io/",)),
    Owner("Sealed Secrets", "overwrites, reads as its key", ("sealedsecrets.bitnami.com/",)),
    Owner("Secrets Store CSI driver", "deletes, fills", ("secrets-store.csi.k8s.io/",)),
    Owner("Vault Secrets Operator", "deletes, fills", ("secrets.hashicorp.com/",)),
    Owner("1Password operator", "fills", ("operator.1password.io/",)),
    Owner("Doppler operator", "fills", ("secrets.doppler.com/",)),
    Owner("Infisical operator", "fills", ("secrets.infisical.com/",)),
    Owner(
        "cert-manager",
        "takes for a certificate's Secret, deletes",
        (
            *("cert-manager.io/certificate-name", "cert-manager.io/next-private-key"),
            "controller.cert-manager.io/",
        ),
    ),
    Owner(
        "cert-manager's cainjector",
        "fills, reads a CA",
        (
            *("cert-manager.io/inject-*", "cert-manager.io/allow-direct-injection"),
            "certmanager.k8s.io/",
        ),
    ),
    Owner("trust-manager", "deletes, fills", ("trust.cert-manager.io/", "trust-manager.io/")),
    # OpenShift
    Owner(
        "OpenShift's trusted CA injector",
        "replaces the data",
        ("config.openshift.io/inject-trusted-cabundle",),
    ),
    Owner(
        "OpenShift's service CA",
        "fills, renews",
        ("service.beta.openshift.io/", "service.alpha.openshift.io/"),
    ),
    Owner(
        "OpenShift's certificates and pull secrets",
        "renews, deletes",
        (
            *("auth.openshift.io/", "openshift.io/internal-registry-*"),
            *("openshift.io/token-secret.*", "hive.openshift.io/"),
        ),
    ),
    # Copying tools
    Owner("kubernetes-replicator, secret-generator", "copies, fills", ("v1.mittwald.de/",)),
    Owner("reflector", "copies, deletes", ("reflector.v1.k8s.emberstack.com/",)),
    Owner(
        "config-syncer", "copies, deletes", ("kubed.appscode.com/", "config-syncer.kubeops.dev/")
    ),
    Owner("ClusterSecret", "copies, deletes", ("clustersecret.io/",)),
    Owner("Kyverno", "deletes what it generated or has a TTL", ("kyverno.io/",)),
    Owner("Hierarchical Namespaces", "deletes what isn't inherited", ("hnc.x-k8s.io/",)),
    Owner("Capsule", "prunes", ("capsule.clastix.io/", "projectcapsule.dev/")),
    Owner("OpenKruise ResourceDistribution", "overwrites", ("kruise.io/resourcedistribution*",)),
    # Several clusters
    Owner("vCluster", "deletes what has no counterpart", ("loft.sh/",)),
    Owner("Karmada", "deletes, restores", ("karmada.io/",)),
    Owner("KubeFed", "deletes, restores", ("kubefed.io/",)),
    Owner("Open Cluster Management", "deletes, restores", ("open-cluster-management.io/",)),
    Owner("Liqo", "deletes, restores", ("liqo.io/",)),
    Owner("Admiralty", "deletes", ("multicluster.admiralty.io/",)),
    # Operators whose objects are found by labels
    Owner("Crossplane", "owns", ("crossplane.io/",)),
    Owner("Config Connector", "owns", ("cnrm.cloud.google.com/",)),
    Owner("AWS Controllers for Kubernetes", "owns", ("services.k8s.aws/",)),
    Owner("Elastic Cloud on Kubernetes", "deletes what has no owner", ("k8s.elastic.co/",)),
    Owner("Strimzi", "deletes what has no owner", ("strimzi.io/",)),
    Owner(
        "Metacontroller", "keeps what was applied, the data in clear", ("metacontroller.k8s.io/",)
    ),
    Owner("Banzai Cloud's operators", "keeps what was applied", ("banzaicloud.com/last-applied",)),
    # Programs that delete after a time
    Owner("kube-janitor", "deletes after a time", ("janitor/",)),
    Owner("k8s-ttl-controller", "deletes after a time", ("k8s-ttl-controller.twin.sh/",)),
    # Kubernetes itself
    Owner(
        "leader election of old clients", "holds a lock", ("control-plane.alpha.kubernetes.io/",)
    ),
    Owner("the Deployment controller", "keeps its count", ("deployment.kubernetes.io/",)),
    Owner("the EndpointSlice controllers", "delete, fill", ("endpointslice.kubernetes.io/",)),
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
