"""Copies that other tools made, recognised by their annotations, so that they can be adopted.

Read in each tool's own source, at the version that docs/adoption.md names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from copyrator.copies.targets.marks import EVERY_MARK
from copyrator.copies.targets.records import Extras


@dataclass(frozen=True, slots=True)
class Copier:
    """A tool that copies objects between namespaces."""

    name: str
    mark: str
    """The annotation that the tool itself writes on every copy, and on nothing else. (People write
    ``replicate-from`` or ``reflects`` on objects of their own; those alone prove nothing.)"""
    prefix: str
    """What its labels and annotations begin with."""
    owner: tuple[str, str] = ("", "")
    """API group and kind of the object that owns its copies: they would be deleted with that."""


COPIERS: Final = (
    Copier(
        "kubernetes-replicator",
        "replicator.v1.mittwald.de/replicated-from-version",
        "replicator.v1.mittwald.de/",
    ),
    Copier(
        "reflector",
        "reflector.v1.k8s.emberstack.com/reflected-version",
        "reflector.v1.k8s.emberstack.com/",
    ),
    Copier("ClusterSecret", "clustersecret.io/created-by", "clustersecret.io"),
    Copier("config-syncer", "kubed.appscode.com/origin", "kubed.appscode.com/"),
    Copier(
        "trust-manager",
        "trust.cert-manager.io/hash",
        "trust.cert-manager.io/",
        ("trust.cert-manager.io", "Bundle"),
    ),
    Copier(
        "trust-manager's ClusterBundle",
        "trust-manager.io/hash",
        "trust-manager.io/",
        ("trust-manager.io", "ClusterBundle"),
    ),
)

SECRETGEN: Final = Copier(
    "secretgen-controller",
    "",
    "secretgen.carvel.dev/",
    ("secretgen.carvel.dev", "SecretImport"),
)
"""Its copies have no mark but their owner, a SecretImport of the same name."""


def copier(metadata: Mapping[str, Any]) -> Copier | None:
    """The tool that made this object as a copy, or None."""
    annotations = metadata.get("annotations") or {}
    for tool in COPIERS:
        if tool.mark in annotations:
            return tool
    name = metadata.get("name")
    for owner in metadata.get("ownerReferences") or ():
        if _owns(SECRETGEN, owner) and owner.get("name") == name and owner.get("controller"):
            return SECRETGEN
    return None


def kept_extras(metadata: Mapping[str, Any]) -> Extras:
    """The metadata that an adopted object keeps.

    Of another tool's copy its marks are removed, so that the tool doesn't manage it any more; and
    what the tool copied from the source although it never should be copied: Argo CD's or Helm's
    ownership, kubectl's annotation with the data in clear, owners in another namespace. All other
    metadata stay.
    """
    labels: Mapping[str, str] = metadata.get("labels") or {}
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    owners = tuple(metadata.get("ownerReferences") or ())
    tool = copier(metadata)
    if tool is not None:
        written = [
            fields for fields in _entries(metadata) if _has(fields, "annotations", tool.mark)
        ]
        labels = _kept(tool, labels, written, "labels")
        annotations = _kept(tool, annotations, written, "annotations")
        owners = tuple(
            one for one in owners if not (_owns(tool, one) or _is_owned_by(written, one))
        )
    return Extras(
        labels=labels,
        annotations=annotations,
        finalizers=tuple(metadata.get("finalizers") or ()),
        owners=owners,
    )


_Fields = Mapping[str, Any]
"""The fields under ``metadata`` that one manager wrote."""


def _kept(
    tool: Copier, found: Mapping[str, str], written: Iterable[_Fields], part: str
) -> dict[str, str]:
    return {
        key: value
        for key, value in found.items()
        if not key.startswith(tool.prefix)
        and not (EVERY_MARK.has(key) and any(_has(fields, part, key) for fields in written))
    }


def _entries(metadata: Mapping[str, Any]) -> Iterator[_Fields]:
    for entry in metadata.get("managedFields") or ():
        yield (entry.get("fieldsV1") or {}).get("f:metadata") or {}


def _has(fields: _Fields, part: str, key: str) -> bool:
    return f"f:{key}" in (fields.get(f"f:{part}") or {})


def _owns(tool: Copier, owner: Mapping[str, Any]) -> bool:
    group = str(owner.get("apiVersion")).rpartition("/")[0]
    return bool(group) and (group, owner.get("kind")) == tool.owner


def _is_owned_by(written: Iterable[_Fields], owner: Mapping[str, Any]) -> bool:
    uid = str(owner.get("uid"))
    return any(uid in item for fields in written for item in fields.get("f:ownerReferences") or {})
