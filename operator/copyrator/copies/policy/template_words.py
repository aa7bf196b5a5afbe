"""Jinja2's messages about unknown names, in Kubernetes' words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_NO_KEY: Final = re.compile(r"'dict object' has no attribute '(?P<key>.{1,400})'", re.DOTALL)
_NO_NAME: Final = re.compile(r"'(?P<name>.{1,400})' is undefined", re.DOTALL)
"""Source: jinja2.runtime.Undefined._undefined_message."""
_MAPS: Final = {"labels": "label", "annotations": "annotation"}


def in_words(message: str, source: str, context: Mapping[str, Any]) -> str:
    """A message of Jinja2's about a text: ``namespace team-a has no label team``.

    Messages about anything else are returned as they are.
    """
    if found := _NO_NAME.fullmatch(message):
        return f"unknown variable {found['name']}; known variables: {', '.join(sorted(context))}"
    if not (found := _NO_KEY.fullmatch(message)):
        return message
    key = found["key"]
    for name, value in context.items():
        if not isinstance(value, Mapping):
            continue
        for part, word in _MAPS.items():
            if _lacks(value.get(part), key) and _uses(source, f"{name}.{part}", key):
                return f"{name} {value.get('name', '')} has no {word} {key}"
        if _lacks(value, key) and _uses(source, name, key):
            return f"unknown field {name}.{key}; known fields: {', '.join(value)}"
    return message


def _lacks(value: Any, key: str) -> bool:
    return isinstance(value, Mapping) and key not in value


def _uses(source: str, owner: str, key: str) -> bool:
    """Whether a text has ``owner.key`` or ``owner["key"]``."""
    key = re.escape(key)
    pattern = rf"""(?<![\w.]){re.escape(owner)}(?:\.{key}(?!\w)|\[\s*["']{key}["']\s*\])"""
    return re.search(pattern, source) is not None
