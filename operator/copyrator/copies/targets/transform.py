"""The data, labels and annotations of a source that its copies get, and the marks that we add.

Other controllers' marks claim, prune or fill an object. A copy that had them would be deleted,
taken over or changed by that controller, or would be copied further. So they are never copied from
a source; a rule's author may set them (spec.transform, spec.template).
tests/unit/copies/test_marks.py names the source of each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from copyrator.api import names
from copyrator.api.rule_spec import KeyTransform, MetadataTransform, Transform
from copyrator.api.selectors import Globs


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


MAX_GLOB_WORK: Final = 400_000_000
"""Characters of a source's keys times characters of the patterns that choose among them: some 40 ms
for one copy."""

DATA_FIELDS = ("data", "binaryData")


class TransformError(Exception):
    """A transform that doesn't fit this source; the message is for the rule's author."""


def transform_data(content: Mapping[str, Any], keys: KeyTransform) -> dict[str, Any]:
    """The content of a copy; ``content`` isn't changed.

    ``data`` and ``binaryData`` share one space of names, as in the API server.

    Raises:
        TransformError: two keys would have one name, or they are too many for so many globs.
    """
    if not (keys.include or keys.exclude or keys.rename):
        return dict(content)
    check_work(
        [key for field in DATA_FIELDS for key in content.get(field) or ()],
        keys.include,
        keys.exclude,
    )
    result = dict(content)
    taken: dict[str, str] = {}
    for field in DATA_FIELDS:
        if field not in content:
            continue
        kept: dict[str, Any] = {}
        for key, value in (content[field] or {}).items():
            if not keeps(keys, key):
                continue
            name = keys.rename.get(key, key)
            if name in taken:
                raise TransformError(
                    f"the keys {taken[name]!r} and {key!r} would both be named {name!r}; "
                    "leave one out in spec.transform.keys or rename it"
                )
            taken[name] = key
            kept[name] = value
        result[field] = kept
    return result


def transform_type(content: dict[str, Any], kind: str, transform: Transform) -> dict[str, Any]:
    """The content with the wanted type of a Secret.

    Raises:
        TransformError: the type requires keys that the copy hasn't got, so that the API server
            would refuse each.
    """
    keys = transform.keys
    if kind != "Secret" or not (transform.type or keys.include or keys.exclude or keys.rename):
        return content
    if transform.type is not None:
        content["type"] = transform.type
    required = _REQUIRED_KEYS.get(str(content.get("type")), ())
    missing = [key for key in required if key not in (content.get("data") or {})]
    if not missing or (content.get("type") == _BASIC_AUTH and len(missing) < len(required)):
        return content
    some = " or ".join if content.get("type") == _BASIC_AUTH else " and ".join
    raise TransformError(
        f"a Secret of the type {content['type']} must have {some(missing)}; set "
        "spec.transform.type: Opaque, or copy the keys, too"
    )


_BASIC_AUTH: Final = "kubernetes.io/basic-auth"
_REQUIRED_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    _BASIC_AUTH: ("username", "password"),
}
"""By a Secret's type, the keys that the API server requires; of basic-auth one of them.

Source: ValidateSecret in pkg/apis/core/validation/validation.go.
"""


def keeps(keys: KeyTransform, key: str) -> bool:
    """Whether a key of the source is copied."""
    included = not keys.include or keys.include.matches(key)
    return included and not keys.exclude.matches(key)


def check_work(texts: Collection[str], *choices: Globs) -> None:
    """Refuse what would block the event loop: very many keys times very long lists of patterns.

    Raises:
        TransformError: they are too many.
    """
    if sum(globs.cost(texts) for globs in choices) > MAX_GLOB_WORK:
        raise TransformError(
            f"the source has {len(texts)} keys, too many for so many patterns in spec.transform; "
            "use fewer or shorter patterns"
        )


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


def copied_labels(
    found: Mapping[str, str] | None, transform: Transform, *, marks: Marks = EVERY_MARK
) -> dict[str, str]:
    """The labels of a copy, our own mark included; without the ``marks`` of other owners."""
    labels = _transformed(found, transform.labels, marks)
    labels[names.LABEL_MANAGED_BY] = names.MANAGED_BY
    return labels


def copied_annotations(
    found: Mapping[str, str] | None,
    transform: Transform,
    *,
    rule: str,
    origin: str | None,
    marks: Marks = EVERY_MARK,
) -> dict[str, str]:
    """The annotations of a copy with our own marks, all but the content hash.

    ``rule`` and ``origin`` are ``namespace/name``; a template has no origin.
    """
    annotations = _transformed(found, transform.annotations, marks)
    annotations[names.ANN_RULE] = rule
    if origin is not None:
        annotations[names.ANN_SOURCE] = origin
    return annotations


def _transformed(
    found: Mapping[str, str] | None, transform: MetadataTransform, marks: Marks
) -> dict[str, str]:
    found = found or {}
    check_work(found, transform.remove)
    kept = {
        key: value
        for key, value in found.items()
        if not marks.has(key) and not transform.remove.matches(key)
    }
    return kept | dict(transform.add)


def is_copy(metadata: Mapping[str, Any]) -> bool:
    """Whether an object has our marks; such an object is never a source."""
    labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    return labels.get(names.LABEL_MANAGED_BY) == names.MANAGED_BY and names.ANN_RULE in annotations
