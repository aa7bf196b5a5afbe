"""The wanted content of a copy, made from a rule and its source (or template).

Where it doesn't depend on the namespace, one Content serves all targets: only the place and the
seal differ from copy to copy.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from copyrator.api import names
from copyrator.api.rule_spec import Transform
from copyrator.copies.seal.sealing import Sealer
from copyrator.copies.targets.marks import OPERATOR_MARKS
from copyrator.copies.targets.ownership import (
    Shape,
    is_ours_enough,
    is_ours_exactly,
    reference_marks,
)
from copyrator.copies.targets.records import CopyRecord, Extras
from copyrator.copies.targets.transform import (
    copied_annotations,
    copied_labels,
    transform_data,
    transform_type,
)

EXACT_KINDS: Final = frozenset({"ConfigMap", "Secret"})
"""Kinds of which we own the whole content, and that are written without being read."""

_NOT_CONTENT: Final = frozenset({"apiVersion", "kind", "metadata", "status"})

_SERVER_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    # A legacy token of the source's namespace means nothing elsewhere.
    "ServiceAccount": frozenset({"secrets"}),
}


@dataclass(slots=True, eq=False)
class Content:
    """A wanted object without its place."""

    api_version: str
    kind: str
    payload: Mapping[str, Any]
    """The top-level fields other than metadata and status."""
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    """Without the seal, which differs from place to place."""
    digest: bytes
    _known_right: Shape | None = field(default=None, repr=False)
    """The last shape that was found right: usually the same for all copies."""

    @property
    def exact(self) -> bool:
        """Whether we own the whole copy, so that it can be replaced unread."""
        return self.kind in EXACT_KINDS

    def is_undisturbed(self, shape: Shape) -> bool:
        """Whether nothing that we wrote was changed (ownership.py)."""
        if shape is self._known_right:
            return True
        check = is_ours_exactly if self.exact else is_ours_enough
        if not (
            all(shape.owns_label(key) for key in self.labels)
            and all(shape.owns_annotation(key) for key in self.annotations)
            and shape.owns_annotation(names.ANN_HASH)
            and check(self.payload, shape)
        ):
            return False
        self._known_right = shape
        return True

    def is_held_by(self, live: Mapping[str, Any]) -> bool:
        """Whether a whole object has this content, whoever wrote it.

        Objects of kinds of which we don't own everything may have more.
        """
        metadata = live.get("metadata") or {}
        if not (
            _contains(metadata.get("labels"), self.labels)
            and _contains(metadata.get("annotations"), self.annotations)
        ):
            return False
        found = payload_of(live)
        if not self.exact:
            return _contains(found, self.payload)
        fields = found.keys() | self.payload.keys()
        return all((found.get(name) or None) == (self.payload.get(name) or None) for name in fields)

    def is_right(self, record: CopyRecord) -> bool:
        """Whether a copy has this content and nothing else that matters."""
        return record.digest == self.digest and self.is_undisturbed(record.shape)

    def outline(self) -> Content:
        """The same without values: what `is_undisturbed` needs, and no more."""
        return Content(
            api_version=self.api_version,
            kind=self.kind,
            payload=_outlined(self.payload),
            labels=dict.fromkeys(self.labels, ""),
            annotations=dict.fromkeys(self.annotations, ""),
            digest=b"",
        )

    def has_outline(self, outline: Content) -> bool:
        """Whether `outline` would return an equal one."""
        return (
            self.labels.keys() == outline.labels.keys()
            and self.annotations.keys() == outline.annotations.keys()
            and _outlined(self.payload) == outline.payload
        )


def _outlined(value: Any) -> Any:
    """The fields and keys of a payload; of a text, only whether it is empty."""
    if isinstance(value, Mapping):
        return {key: _outlined(below) for key, below in value.items()}
    if isinstance(value, list):
        return ["…"] if value else []
    return "…" if isinstance(value, str) and value else value


def payload_of(live: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a live object that may be content: all but metadata and status."""
    return {name: value for name, value in live.items() if name not in _NOT_CONTENT}


def _contains(found: Any, wanted: Any) -> bool:
    """Whether a value has all that is wanted; maps may have more, lists may not."""
    if wanted in (None, "", [], {}):
        return True
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            _contains(found.get(key), value) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return (
            isinstance(found, list)
            and len(found) == len(wanted)
            and all(map(_contains, found, wanted))
        )
    return bool(found == wanted)


def copied_content(
    source: Mapping[str, Any], transform: Transform, *, rule: str, sealer: Sealer
) -> Content:
    """The content of the copies of a source.

    Raises:
        TransformError: the transform doesn't fit the source.
    """
    metadata = source["metadata"]
    kind = str(source["kind"])
    hidden = _NOT_CONTENT | _SERVER_FIELDS.get(kind, frozenset())
    payload = {key: value for key, value in source.items() if key not in hidden}
    return _seal(
        sealer,
        api_version=str(source["apiVersion"]),
        kind=kind,
        payload=transform_type(transform_data(payload, transform.keys), kind, transform),
        labels=copied_labels(metadata.get("labels"), transform),
        annotations=copied_annotations(
            metadata.get("annotations"),
            transform,
            rule=rule,
            origin=f"{metadata['namespace']}/{metadata['name']}",
        ),
    )


def rendered_content(
    rendered: Mapping[str, Any], transform: Transform, *, rule: str, sealer: Sealer
) -> Content:
    """The content of a copy that a template rendered for one namespace.

    Marks of other owners in it are its author's, as those in ``transform.labels.add``.
    """
    metadata = rendered.get("metadata") or {}
    payload = {key: value for key, value in rendered.items() if key not in _NOT_CONTENT}
    kind = str(rendered["kind"])
    return _seal(
        sealer,
        api_version=str(rendered["apiVersion"]),
        kind=kind,
        payload=_as_read(kind, payload),
        labels=copied_labels(metadata.get("labels"), transform, marks=OPERATOR_MARKS),
        annotations=copied_annotations(
            metadata.get("annotations"), transform, rule=rule, origin=None, marks=OPERATOR_MARKS
        ),
    )


def _as_read(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    """A Secret's ``stringData`` in the form that the API server stores and returns."""
    if kind != "Secret":
        return payload
    texts = payload.pop("stringData", None) or {}
    if texts:
        encoded = {k: base64.b64encode(str(v).encode()).decode() for k, v in texts.items()}
        payload["data"] = {**(payload.get("data") or {}), **encoded}
    payload.setdefault("type", "Opaque")
    return payload


def _seal(sealer: Sealer, **parts: Any) -> Content:
    parts["annotations"] |= reference_marks(parts["payload"])
    return Content(**parts, digest=sealer.digest(parts))


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a copy; ``resource`` is the kind's key as in CopyKey."""

    resource: str
    namespace: str
    name: str


def new_object(content: Content, place: Place, rule: str, sealer: Sealer) -> dict[str, Any]:
    """The body that creates the copy."""
    seal = sealer.seal(content.digest, place.resource, place.namespace, place.name, rule)
    return {
        "apiVersion": content.api_version,
        "kind": content.kind,
        "metadata": {
            "name": place.name,
            "namespace": place.namespace,
            "labels": dict(content.labels),
            "annotations": {**content.annotations, names.ANN_HASH: seal},
        },
        **content.payload,
    }


def carry_on(
    body: dict[str, Any], extras: Extras, *, uid: str, resource_version: str
) -> dict[str, Any]:
    """Turn a new object's body into one that replaces the live object, keeping others' metadata."""
    metadata = body["metadata"]
    metadata["uid"] = uid
    metadata["resourceVersion"] = resource_version
    metadata["labels"] = {**extras.labels, **metadata["labels"]}
    metadata["annotations"] = {**extras.annotations, **metadata["annotations"]}
    if extras.finalizers:
        metadata["finalizers"] = list(extras.finalizers)
    if extras.owners:
        metadata["ownerReferences"] = [dict(owner) for owner in extras.owners]
    return body
