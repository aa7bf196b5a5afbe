"""Transforms the data of a ConfigMap or Secret for a copy."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from copyrator.api.globs import Globs
from copyrator.api.rule_spec import KeyTransform
from copyrator.settings.limits import MAX_GLOB_WORK

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
