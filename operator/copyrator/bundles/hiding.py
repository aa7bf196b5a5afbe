"""What a Job's log or message may quote of the Secrets that it was given, taken out.

werf prints the values that a chart fails on, and helpful charts print more. A Bundle's status is
read by people who may not read its Secrets, so their values are looked for in everything that is
copied out of a pod.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote

import yaml

HIDDEN: Final = "<redacted>"

SHORTEST: Final = 4
"""Characters; shorter values would take ordinary words apart."""
SHORTEST_NUMBER: Final = 6
"""The same for what isn't text: ports and counts are everywhere."""
SHORTEST_LINE: Final = 8
"""The same for a single line of a longer text, such as a key in PEM."""

_TEXT: Final = "tag:yaml.org,2002:str"
_NUMBERS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Hider:
    """Takes the values of some Secrets out of texts.

    Args:
        contents: the Secrets' values; one that is YAML or JSON is looked into.
    """

    def __init__(self, contents: Iterable[bytes]) -> None:
        found = {value for content in contents for value in _values(content)}
        forms = {form for value in found for form in _forms(value)}
        self._forms = sorted(forms, key=lambda form: (-len(form), form))

    def __call__(self, text: str) -> str:
        """Return the text without them."""
        for form in self._forms:
            text = text.replace(form, HIDDEN)
        return text


def _values(content: bytes) -> Iterator[str]:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        yield base64.b64encode(content).decode()
        return
    whole = text.strip()
    if len(whole) >= SHORTEST:
        yield whole
    for value in _scalars(text):
        yield value
        lines = value.splitlines()
        if len(lines) > 1:
            yield from (line.strip() for line in lines if len(line.strip()) >= SHORTEST_LINE)


def _scalars(text: str) -> Iterator[str]:
    """The texts and long numbers of a YAML document; keys are no secrets. Aliases cost nothing."""
    try:
        root = yaml.compose(text, Loader=_LOADER)
    except (yaml.YAMLError, RecursionError, ValueError):
        return
    waiting, seen = [root], {id(None)}
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            waiting += [value for _, value in node.value]
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value
        elif isinstance(node, yaml.ScalarNode) and _is_telling(node):
            yield node.value.strip()


def _is_telling(node: yaml.ScalarNode) -> bool:
    length = len(node.value.strip())
    if node.tag in _NUMBERS:
        return length >= SHORTEST_NUMBER
    return node.tag == _TEXT and length >= SHORTEST


def _forms(value: str) -> Iterator[str]:
    yield value
    yield base64.b64encode(value.encode()).decode()
    yield quote(value, safe="")
    escaped = value.encode("unicode_escape").decode().replace('"', '\\"')
    yield escaped
