"""Which objects may be sources, and what is kept of one.

Of a rule's source all that its copies need; of a template's source, read when it is needed, only
the version and consent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from copyrator.api import names
from copyrator.api.schema import NOT_WHOLE
from copyrator.api.selectors import Consent, read_consent
from copyrator.copies.targets.transform import is_copy

SOURCE_OVERHEAD: Final = 2048
"""Bytes of memory per source beyond its JSON: dicts and strings of a small object."""

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


@dataclass(frozen=True, slots=True, eq=False)
class SourceHeader:
    """The metadata of one object that matter here."""

    resource_version: str
    refused: str | None = None
    """Why it is never used."""
    consent: Consent | None = None
    """Where it may be copied to, by its annotation; None where it has none."""

    def allows(self, target: str) -> bool:
        """Whether its content may be copied into a namespace."""
        return self.consent is None or self.consent.names(target)


@dataclass(frozen=True, slots=True)
class HeaderReader:
    """Decodes the metadata of one kind; equal readers make equal watches, which are shared."""

    kind: str

    def __call__(self, body: Mapping[str, Any]) -> SourceHeader:
        """Keep what decides whether, and where to, the object may be copied.

        A Secret's type isn't in its metadata: it is checked when the object is read.
        """
        metadata = body["metadata"]
        return SourceHeader(
            resource_version=str(metadata["resourceVersion"]),
            refused=refusal(self.kind, body),
            consent=read_consent(metadata.get("annotations") or {}, names.ANN_ALLOW_TO),
        )


def is_newer(one: str, other: str) -> bool:
    """Whether a resourceVersion is a later one than another of the same object."""
    if one.isdecimal() and other.isdecimal():
        return int(one) > int(other)
    return one != other


_NAME: Final = ("name", "namespace")
_KEPT_METADATA: Final = (*_NAME, "labels", "annotations")


@dataclass(frozen=True, slots=True, eq=False)
class SourceRecord:
    """One object that a rule's source selects."""

    resource_version: str
    body: Mapping[str, Any]
    """With apiVersion and kind; without data where it is refused."""
    refused: str | None = None
    """Why it is never copied."""
    size: int = 0
    """Bytes that it takes when it is held whole; an estimate."""
    whole: bool = True
    """False where there was no room for more than its name."""
    _consent: list[Consent | None] = field(default_factory=list, init=False, repr=False)
    """What its annotation allows, once it has been parsed."""

    @property
    def held(self) -> int:
        """Bytes that are held of it."""
        return self.size if self.whole else 0

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The object's namespace."""
        return str(self.body["metadata"]["namespace"])

    @property
    def annotations(self) -> Mapping[str, str]:
        """The object's annotations."""
        return self.body["metadata"].get("annotations") or {}

    @property
    def consent(self) -> Consent | None:
        """Where it may be copied to, by its annotation; None where it has none."""
        if not self._consent:
            self._consent.append(read_consent(self.annotations, names.ANN_ALLOW_TO))
        return self._consent[0]

    def allows(self, target: str) -> bool:
        """Whether it may be copied into a namespace; True without the annotation."""
        return self.consent is None or self.consent.names(target)


@dataclass(frozen=True, slots=True)
class SourceReader:
    """Decodes the sources of one kind: objects of a list have no kind of their own.

    A frozen dataclass, so that equal readers make equal watches, which are shared.
    """

    api_version: str
    kind: str

    def __call__(self, body: Mapping[str, Any]) -> SourceRecord:
        """Keep what is copied; of an object that is never copied only its name."""
        found = body["metadata"]
        refused = refusal(self.kind, body)
        kept = _NAME if refused else _KEPT_METADATA
        content = {} if refused else {k: v for k, v in body.items() if k not in _SERVERS}
        held = {
            **content,
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": {key: found[key] for key in kept if found.get(key)},
        }
        return SourceRecord(
            resource_version=str(found["resourceVersion"]),
            body=held,
            refused=refused,
            size=len(msgspec.json.encode(held)) + SOURCE_OVERHEAD,
        )


_SERVERS: Final = ("status", "metadata")
