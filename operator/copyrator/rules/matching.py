"""Which objects may be sources at all, and which namespaces may be targets of a source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from copyrator.api import names
from copyrator.api.fields import NOT_WHOLE
from copyrator.api.selectors import parse_globs
from copyrator.rules.metadata import is_copy

_NEVER_SECRET_TYPES: Final = {
    "kubernetes.io/service-account-token": "a service account's token",
    "helm.sh/release.v1": "a Helm release",
}
LABEL_HASH_KEY: Final = "copyrator.flant.com/hash-key"
"""On the operator's own Secret with the key of the content hashes."""

_ROOT_CA: Final = "kube-root-ca.crt"


def refusal(kind: str, body: Mapping[str, Any]) -> str | None:
    """Why this object is never copied, or None.

    Tokens would hand a service account's rights to other namespaces, releases would make Helm
    see ghosts, every namespace has its own root CA, and a copy of a copy never ends.
    """
    metadata = body.get("metadata") or {}
    if metadata.get(NOT_WHOLE):
        return "it is nested too deeply"
    if is_copy(metadata):
        return "it is a copy itself"
    if kind == "Secret" and (what := _NEVER_SECRET_TYPES.get(str(body.get("type")))):
        return f"it is {what}"
    if LABEL_HASH_KEY in (metadata.get("labels") or {}):
        return "it is the operator's own key"
    if kind == "ConfigMap" and metadata.get("name") == _ROOT_CA:
        return "every namespace has its own"
    return None


def consents(annotations: Mapping[str, str], namespace: str, annotation: str) -> bool | None:
    """What an allow-to or allow-from annotation says of a namespace; None where it is absent."""
    text = annotations.get(annotation)
    if text is None:
        return None
    return parse_globs(text).matches(namespace)


def source_allows(annotations: Mapping[str, str], target: str) -> bool:
    """Tell whether a source lets itself be copied into a namespace; without a word it does."""
    return consents(annotations, target, names.ANN_ALLOW_TO) is not False


def namespace_accepts(annotations: Mapping[str, str], tenant: str) -> bool:
    """Tell whether a namespace takes copies from a tenant's rules; without a word it doesn't."""
    return consents(annotations, tenant, names.ANN_ALLOW_FROM) is True
