"""Keys of YAML mappings that become equal text, so that Go draws which of them stands. Pure.

werf turns YAML into JSON by sigs.k8s.io/yaml, which goes over a Go map: of ``1: a`` and ``"1": b``
(or ``1.0``, ``true`` and ``"true"``) either may remain, another one in each run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, Final

import yaml

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEPTH: Final = 100
_BOOLEANS: Final = {
    **dict.fromkeys(("y", "yes", "on", "true"), "true"),
    **dict.fromkeys(("n", "no", "off", "false"), "false"),
}
_KEY: Final = re.compile(
    r"""(?:^|[{,?]|-[ ])[ \t]*(?P<quote>["']?)(?P<text>[-+.\w]+)(?P=quote)[ \t]*:(?=\s|$)""",
    re.MULTILINE,
)

Key = tuple[int, str, bool]
"""Line, text, and whether it is plain (without quotes)."""


def colliding(keys: Iterable[Key]) -> tuple[int, str] | None:
    """The line and text of the first key that becomes equal to another; None where none does.

    They count wherever they stand in the file, since merge keys and templates move them.
    """
    spelled: dict[str, set[tuple[str, bool]]] = {}
    for line, text, is_plain in keys:
        forms = _forms(text) if is_plain else {text}
        for form in forms or {text}:
            known = spelled.setdefault(form, set())
            known.add((text, bool(forms) and is_plain))
            if len(known) > 1 and any(is_converted for _, is_converted in known):
                return line, text
    return None


def _forms(text: str) -> set[str]:
    """What a plain key that isn't text becomes; empty for text."""
    short = text.replace("_", "").lower()
    if short in _BOOLEANS:
        return {_BOOLEANS[short]}
    found: set[str] = set()
    if len(short) > 40:
        return found
    for base in (0, 8, 10):
        with suppress(ValueError):
            found.add(str(int(short, base)))
    with suppress(ValueError, OverflowError):
        number = float(short)
        found.add(str(int(number)) if number == int(number) else repr(number))
    return found


class KeysError(Exception):
    """The keys of a YAML file can't be compared."""


def keys_of(content: bytes) -> Iterator[Key]:
    """All scalar keys of a YAML file.

    Raises:
        KeysError: it isn't YAML, or is nested too deeply.
    """
    stack: list[list[bool]] = []  # of each open collection: is it a mapping, is a key next
    try:
        for event in yaml.parse(content, Loader=_LOADER):
            if len(stack) > _DEPTH:
                raise KeysError("is nested too deeply")
            if isinstance(event, yaml.CollectionEndEvent):
                stack.pop()
                continue
            if not isinstance(event, yaml.NodeEvent):
                continue
            is_key = bool(stack) and all(stack[-1])
            if stack and stack[-1][0]:
                stack[-1][1] = not stack[-1][1]
            if isinstance(event, yaml.CollectionStartEvent):
                is_mapping = isinstance(event, yaml.MappingStartEvent)
                stack.append([is_mapping, is_mapping])
            elif is_key and isinstance(event, yaml.ScalarEvent):
                is_plain = bool(event.implicit[0]) or event.tag is not None
                line = event.start_mark.line + 1 if event.start_mark else 0
                yield line, event.value, is_plain
    except (yaml.YAMLError, UnicodeDecodeError, ValueError):
        raise KeysError("isn't YAML") from None


def keys_in_text(text: str) -> Iterator[Key]:
    """What looks like a key in the text of a template: those that actions write aren't seen."""
    line, counted = 1, 0
    for found in _KEY.finditer(text):
        line, counted = line + text.count("\n", counted, found.start("text")), found.start("text")
        yield line, found["text"], not found["quote"]
