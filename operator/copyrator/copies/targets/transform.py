"""The labels and annotations of a source that its copies get, and the marks that we add.

Transforms the data of a ConfigMap or Secret for a copy.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from copyrator.api import names
from copyrator.api.globs import Globs
from copyrator.api.rule_spec import KeyTransform, MetadataTransform, Transform
from copyrator.copies.targets.marks import EVERY_MARK, Marks

MAX_GLOB_WORK: Final = 400_000_000  # limit: copies, sources, consent
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
