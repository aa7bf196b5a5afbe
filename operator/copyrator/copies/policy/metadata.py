"""The labels and annotations of a source that its copies get, and the marks that we add."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from copyrator.api import names
from copyrator.api.rule_spec import MetadataTransform, Transform
from copyrator.copies.policy.marks import EVERY_MARK, Marks
from copyrator.copies.policy.transform import check_work

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
