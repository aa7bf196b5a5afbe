"""Jinja2's messages about unknown names, in the terms of Kubernetes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from copyrator.copies.policy.template_values import names_of

_NO_KEY: Final = re.compile(r"'dict object' has no attribute '(?P<key>.{1,400})'", re.DOTALL)
_NO_NAME: Final = re.compile(r"'(?P<name>.{1,400})' is undefined", re.DOTALL)
"""Source: jinja2.runtime.Undefined._undefined_message."""
_NO_SOURCE: Final = re.compile(
    r"'[\w.]*SourceSet object' has no attribute '(?P<key>.{1,400})'", re.DOTALL
)
_NO_FIELD: Final = re.compile(
    r"'[\w.]*SourceObject object' has no attribute '(?P<key>.{1,400})'", re.DOTALL
)
_NO_DATA: Final = re.compile(
    r"'[\w.]*SourceData object' has no attribute '(?P<key>.{1,400})'", re.DOTALL
)
_NAMED: Final = re.compile(
    r"'[\w. ]+' has no attribute '(?P<key>.+)'|'(?P<name>.+)' is undefined", re.DOTALL
)
_MAPS: Final = {"labels": "label", "annotations": "annotation"}


def readable_message(
    message: str, source: str, context: Mapping[str, Any], *, reveals: bool = False
) -> str:
    """A message of Jinja2's about a text: ``namespace team-a has no label team``.

    Messages about anything else are returned as they are. Where the text `reveals` data of Secrets,
    a name is shown only if the text itself contains it: others may be computed from the data.
    """
    if reveals and not _names_part_of(source, message):
        return "something in it is undefined"
    if found := _NO_SOURCE.fullmatch(message):
        known = ", ".join(names_of(context.get("sources")))
        return f"unknown source {found['key']}; known sources: {known}"
    if found := _NO_FIELD.fullmatch(message):
        return f"{_whose(found['key'], source, context)} has no field {found['key']}"
    if found := _NO_DATA.fullmatch(message):
        return f"{_whose(found['key'], source, context, '.data')} has no key {found['key']}"
    if found := _NO_NAME.fullmatch(message):
        return f"unknown variable {found['name']}; known variables: {', '.join(sorted(context))}"
    found = _NO_KEY.fullmatch(message)
    return message if found is None else _no_key(found["key"], source, context) or message


def _whose(key: str, source: str, context: Mapping[str, Any], part: str = "") -> str:
    """``source creds``, if it is the one whose field or key the text names; else ``the source``."""
    names = names_of(context.get("sources"))
    found = [one for one in names if _uses(source, f"sources.{one}{part}", key)]
    return f"source {found[0]}" if len(found) == 1 else "the source"


def _no_key(key: str, source: str, context: Mapping[str, Any]) -> str | None:
    """A message about a key that one of the variables lacks."""
    for name, value in context.items():
        if not isinstance(value, Mapping):
            continue
        for part, word in _MAPS.items():
            if _lacks(value.get(part), key) and _uses(source, f"{name}.{part}", key):
                return f"{name} {value.get('name', '')} has no {word} {key}"
        if _lacks(value, key) and _uses(source, name, key):
            return f"unknown field {name}.{key}; known fields: {', '.join(value)}"
    return None


def _lacks(value: Any, key: str) -> bool:
    return isinstance(value, Mapping) and key not in value


def _uses(source: str, owner: str, key: str) -> bool:
    """Whether a text has ``owner.key`` or ``owner["key"]``."""
    key = re.escape(key)
    pattern = rf"""(?<![\w.]){re.escape(owner)}(?:\.{key}(?!\w)|\[\s*["']{key}["']\s*\])"""
    return re.search(pattern, source) is not None


def _names_part_of(source: str, message: str) -> bool:
    """Whether a message names a key or variable, and one that the text contains."""
    found = _NAMED.fullmatch(message)
    return found is not None and (found["key"] or found["name"]) in source
