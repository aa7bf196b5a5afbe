"""What a rule does to the data of a ConfigMap or Secret on its way into a copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from copyrator.api.rule import KeyTransform

DATA_FIELDS = ("data", "binaryData")


class TransformError(Exception):
    """A transform that doesn't fit this source; the message is for the rule's author."""


def transform_data(content: Mapping[str, Any], keys: KeyTransform) -> dict[str, Any]:
    """The content of a copy; ``content`` is left as it is.

    ``data`` and ``binaryData`` share one space of names, as the API server has it.

    Raises:
        TransformError: two keys would have one name.
    """
    if not (keys.include or keys.exclude or keys.rename):
        return dict(content)
    result = dict(content)
    taken: dict[str, str] = {}
    for field in DATA_FIELDS:
        if field not in content:
            continue
        kept: dict[str, Any] = {}
        for key, value in (content[field] or {}).items():
            if (keys.include and not keys.include.matches(key)) or keys.exclude.matches(key):
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
