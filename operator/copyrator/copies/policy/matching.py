"""Which objects may be sources."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from copyrator.api import names
from copyrator.api.fields import NOT_WHOLE
from copyrator.copies.policy.metadata import is_copy

_NEVER_SECRET_TYPES: Final = {
    "kubernetes.io/service-account-token": "a service account's token",
    "helm.sh/release.v1": "a Helm release",
}
LABEL_HASH_KEY: Final = "copyrator.flant.com/hash-key"
"""On the operator's own Secret with the key of the content hashes."""

_RULE: Final = re.compile(r"[a-z0-9][-a-z0-9]{0,62}/[a-z0-9][-a-z0-9.]{0,252}", re.ASCII)
"""A rule as messages name it; anybody may write the annotation."""
_ROOT_CA: Final = "kube-root-ca.crt"


def refusal(kind: str, body: Mapping[str, Any]) -> str | None:
    """Why this object is never copied, or None.

    A token would grant a service account's permissions in other namespaces, a copied release Secret
    would count as a release for Helm, ``kube-root-ca.crt`` exists in every namespace already, and
    copies of copies would never end.
    """
    metadata = body.get("metadata") or {}
    if reason := metadata.get(NOT_WHOLE):
        return str(reason)
    if is_copy(metadata):
        rule = metadata["annotations"][names.ANN_RULE]
        return f"it is a copy of {rule}" if _RULE.fullmatch(rule) else "it is a copy"
    if kind == "Secret" and (what := _NEVER_SECRET_TYPES.get(str(body.get("type")))):
        return f"it is {what}"
    if LABEL_HASH_KEY in (metadata.get("labels") or {}):
        return "it is the operator's hash key"
    if kind == "ConfigMap" and metadata.get("name") == _ROOT_CA:
        return "it exists in every namespace"
    return None
