"""Which objects may be sources, and the annotations of consent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from copyrator.api.fields import NOT_WHOLE
from copyrator.api.globs import NO_GLOBS, Globs, is_wild
from copyrator.copies.policy.metadata import is_copy
from copyrator.settings.limits import MAX_CONSENT_TEXT, MAX_GLOB_TEXT, MAX_GLOBS

_NEVER_SECRET_TYPES: Final = {
    "kubernetes.io/service-account-token": "a service account's token",
    "helm.sh/release.v1": "a Helm release",
}
LABEL_HASH_KEY: Final = "copyrator.flant.com/hash-key"
"""On the operator's own Secret with the key of the content hashes."""

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
        return "it is a copy"
    if kind == "Secret" and (what := _NEVER_SECRET_TYPES.get(str(body.get("type")))):
        return f"it is {what}"
    if LABEL_HASH_KEY in (metadata.get("labels") or {}):
        return "it is the operator's hash key"
    if kind == "ConfigMap" and metadata.get("name") == _ROOT_CA:
        return "it exists in every namespace"
    return None


@dataclass(frozen=True, slots=True)
class Consent:
    """An allow-to or allow-from annotation, parsed once."""

    listed: frozenset[str] = frozenset()
    globs: Globs = NO_GLOBS
    problem: str | None = None
    """Why it is invalid, for its author: it allows nothing then."""

    def names(self, namespace: str) -> bool:
        """Whether it names a namespace."""
        return namespace in self.listed or self.globs.matches(namespace)


def read_consent(annotations: Mapping[str, str], annotation: str) -> Consent | None:
    """Parse an allow-to or allow-from annotation; None where it is absent."""
    text = annotations.get(annotation)
    return None if text is None else _parse_consent(text)


def _parse_consent(text: str) -> Consent:
    if len(text) > MAX_CONSENT_TEXT:
        return Consent(problem=f"is longer than {MAX_CONSENT_TEXT} characters")
    parts = {part.strip() for part in text.split(",")} - {""}
    wild = {part for part in parts if is_wild(part)} if is_wild(text) else set()
    if len(wild) > MAX_GLOBS:
        return Consent(
            problem=f"has {len(wild)} patterns with wildcards; at most {MAX_GLOBS} are allowed"
        )
    if sum(map(len, wild)) > MAX_GLOB_TEXT:
        return Consent(
            problem=f"has more than {MAX_GLOB_TEXT} characters in patterns with wildcards"
        )
    return Consent(frozenset(parts - wild), Globs(tuple(wild)))
