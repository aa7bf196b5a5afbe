"""The labels and annotations of a source that its copies get, and the marks that we add.

Another tool's ownership mark would make it prune the copy, and a copying tool's instructions would
make it copy further: both are stripped, regardless of the rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from copyrator.api import names
from copyrator.api.rule_spec import MetadataTransform, Transform
from copyrator.copies.policy.transform import check_work

STRIPPED_PREFIXES: Final = (
    names.RULE_PREFIX,
    names.BUNDLE_PREFIX,
    names.KOPF_PREFIX,
    "kubectl.kubernetes.io/",  # last-applied-configuration, a Secret's data in clear
    "helm.sh/",  # hooks, resource-policy, chart
    "meta.helm.sh/",  # release-name, release-namespace: Helm's ownership
    "werf.io/",
    "project.werf.io/",
    "ci.werf.io/",
    "argocd.argoproj.io/",  # instance, tracking-id: Argo CD prunes what carries them
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "kapp.k14s.io/",  # kapp deletes by its label
    "objectset.rio.cattle.io/",  # Rancher Fleet prunes by these
    "replicator.v1.mittwald.de/",
    "reflector.v1.k8s.emberstack.com/",
    "kubed.appscode.com/",
    "config-syncer.kubeops.dev/",
    "clustersecret.io",
    "trust.cert-manager.io/",
    "trust-manager.io/",
    "secretgen.carvel.dev/",
    "control-plane.alpha.kubernetes.io/",  # leader records in old ConfigMaps
)
"""Never copied, as a label or as an annotation."""

STRIPPED_KEYS: Final = frozenset(
    {
        names.LABEL_MANAGED_BY,  # Helm's or ours; ours is added afterwards
        "app.kubernetes.io/instance",  # Argo CD's default tracking label
        "kopf.zalando.org/last-handled-configuration",
        "deployment.kubernetes.io/revision",
    }
)

_KOPF_SUFFIXES: Final = (
    # kopf under an operator's own prefix (docs/facts/kopf.md, 2 and 11)
    "/last-handled-configuration",
    "/kopf-managed",
    "/KopfFinalizerMarker",
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


def is_stripped(key: str) -> bool:
    """Whether a label or annotation of this key is never copied."""
    return key in STRIPPED_KEYS or key.startswith(STRIPPED_PREFIXES) or key.endswith(_KOPF_SUFFIXES)


def copied_labels(source: Mapping[str, str] | None, transform: Transform) -> dict[str, str]:
    """The labels of a copy, our own mark included."""
    labels = _transformed(source, transform.labels)
    labels[names.LABEL_MANAGED_BY] = names.MANAGED_BY
    return labels


def copied_annotations(
    source: Mapping[str, str] | None, transform: Transform, *, rule: str, origin: str | None
) -> dict[str, str]:
    """The annotations of a copy with our own marks, all but the content hash.

    ``rule`` and ``origin`` are ``namespace/name``; a template has no origin.
    """
    annotations = _transformed(source, transform.annotations)
    annotations[names.ANN_RULE] = rule
    if origin is not None:
        annotations[names.ANN_SOURCE] = origin
    return annotations


def _transformed(source: Mapping[str, str] | None, transform: MetadataTransform) -> dict[str, str]:
    found = source or {}
    check_work(found, transform.remove)
    kept = {
        key: value
        for key, value in found.items()
        if not is_stripped(key) and not transform.remove.matches(key)
    }
    return kept | dict(transform.add)


def is_copy(metadata: Mapping[str, Any]) -> bool:
    """Whether an object has our marks; such an object is never a source."""
    labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    return labels.get(names.LABEL_MANAGED_BY) == names.MANAGED_BY and names.ANN_RULE in annotations
