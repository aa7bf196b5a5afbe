"""YAML as its text has it: each key and value with its line and style. Pure.

What PyYAML constructs has lost that: of two equal keys the last one is there, and an alias looks as
what it names. Go's readers resolve such things in ways of their own (YAML 1.1 and 1.2, numbers,
booleans), so checks that have to hold for every reader look at the text.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

YAML_NODES: Final = 300_000
"""Keys and values of one file, at most."""
_DEPTH: Final = 100
_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BOOLEANS: Final = {
    **dict.fromkeys(("y", "yes", "on", "true"), "true"),
    **dict.fromkeys(("n", "no", "off", "false"), "false"),
}
_NULLS: Final = frozenset(("", "~", "null"))
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,14}")
_FLOAT: Final = re.compile(r"-?[0-9]{1,6}\.[0-9]{1,7}")
_NUMBER_STARTS: Final = tuple("+-.0123456789")
_DIGITS: Final = 40
MERGE: Final = "<<"


class YamlError(Exception):
    """A text isn't YAML, or exceeds a limit; the message quotes nothing of it."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line = line


@dataclass(slots=True)
class YamlNode:
    """A scalar, mapping, sequence or alias."""

    line: int
    text: str | None = None
    """Of a scalar; None for others."""
    is_plain: bool = False
    """Whether it is a scalar without quotes."""
    is_mapping: bool = False
    is_alias: bool = False
    has_anchor: bool = False
    has_tag: bool = False
    children: list[YamlNode] = field(default_factory=list)
    """Of a sequence its elements; of a mapping each key and its value."""

    @property
    def items(self) -> Iterator[tuple[YamlNode, YamlNode]]:
        """The keys and values of a mapping; none of others."""
        if self.is_mapping:
            yield from zip(self.children[::2], self.children[1::2], strict=True)

    def all(self) -> Iterator[YamlNode]:
        """The node and all below it."""
        yield self
        for child in self.children:
            yield from child.all()

    def value(self, key: str) -> YamlNode | None:
        """The value of a key of a mapping, the last one as readers take it; None without it."""
        return next((value for at, value in reversed([*self.items]) if at.text == key), None)

    @property
    def as_text(self) -> str:
        """A scalar where text is wanted, as Go's readers take it if `is_certain`; else empty."""
        text = self.text or ""
        return text.removesuffix(".0") if self.is_plain and _is_short_float(text) else text

    @property
    def is_certain(self) -> bool:
        """Whether every reader takes a scalar for its text, where text is wanted."""
        text = self.text
        if not self.is_plain or text is None:
            return text is not None
        if text.lower() in _BOOLEANS or text.lower() in _NULLS:
            return False
        return not _numbers(text) or bool(_INTEGER.fullmatch(text)) or _is_short_float(text)


def read_yaml(content: bytes) -> list[YamlNode]:
    """The documents of a YAML file.

    Raises:
        YamlError: it isn't YAML, or has too many nodes or too many in one another.
    """
    documents: list[YamlNode] = []
    stack: list[YamlNode] = []
    count, line = 0, 1
    try:
        for event in yaml.parse(content.decode(), Loader=_LOADER):
            if isinstance(event, yaml.CollectionEndEvent):
                stack.pop()
                continue
            if not isinstance(event, yaml.NodeEvent):
                continue
            line, count = (event.start_mark.line + 1 if event.start_mark else line), count + 1
            if count > YAML_NODES or len(stack) >= _DEPTH:
                raise YamlError(line, "has too many keys and values, or too many in one another")
            node = _node(event, line)
            (stack[-1].children if stack else documents).append(node)
            if isinstance(event, yaml.CollectionStartEvent):
                stack.append(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise YamlError(mark.line + 1 if mark else line, "isn't YAML") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError):
        raise YamlError(line, "isn't YAML") from None
    return documents


def _node(event: Any, line: int) -> YamlNode:
    is_scalar = isinstance(event, yaml.ScalarEvent)
    is_alias = isinstance(event, yaml.AliasEvent)
    return YamlNode(
        line,
        text=event.value if is_scalar else None,
        is_plain=is_scalar and event.style in (None, ""),
        is_mapping=isinstance(event, yaml.MappingStartEvent),
        is_alias=is_alias,
        has_anchor=not is_alias and event.anchor is not None,
        has_tag=not is_alias and event.tag is not None,
    )


def find_equal(keys: Iterable[YamlNode]) -> YamlNode | None:
    """The first scalar that may be equal to one before it once both are read as keys.

    Readers of Go make text of a key: of ``1: a`` and ``"1": b``, ``yes`` and ``true``, or 1.1 and
    1.10000001 (by 32 bits) either is kept, another one in each run (sigs.k8s.io/yaml).
    """
    texts: set[str] = set()
    numbers: set[float] = set()
    uncertain: set[float] = set()
    for key in keys:
        text = key.text or ""
        forms = {text}
        if key.is_plain and text.lower() in _BOOLEANS:
            forms.add(_BOOLEANS[text.lower()])
        values = _numbers(text)
        unsure = values if key.is_plain and not _INTEGER.fullmatch(text) else set()
        if texts & forms or numbers & unsure or uncertain & values:
            return key
        texts |= forms
        numbers |= values
        uncertain |= unsure
    return None


def find_equal_keys(document: YamlNode) -> YamlNode | None:
    """The first key of a document that may be equal to another of its mapping; None if none is.

    Where mappings are merged, keys of several are in one: all that aren't text are compared.
    """
    special: dict[tuple[str, bool], YamlNode] = {}
    has_merge = False
    for node in document.all():
        keys = [key for key, _ in node.items if key.text is not None]
        if (found := find_equal(keys)) is not None:
            return found
        for key in keys:
            has_merge |= key.text == MERGE
            if is_special(key):
                special[key.text or "", key.is_plain] = key
    return find_equal(special.values()) if has_merge else None


def is_special(key: YamlNode) -> bool:
    """Whether a key may be read as something else than text."""
    return (key.text or "").lower() in _BOOLEANS or bool(_numbers(key.text or ""))


def _numbers(text: str) -> set[float]:
    """The numbers that readers may take a plain scalar for, by 32 bits; none for text."""
    found: set[float] = set()
    if text[:1] not in _NUMBER_STARTS:
        return found
    short = text.replace("_", "").lower()
    for base in (0, 8, 10) if len(short) <= _DIGITS else ():
        with suppress(ValueError):
            found.add(_rounded(int(short, base)))
    with suppress(ValueError):
        found.add(_rounded(float(short.replace(".inf", "inf").replace(".nan", "nan"))))
    return found


def _rounded(number: float) -> float:
    try:
        (short,) = struct.unpack("f", struct.pack("f", number))
    except OverflowError:
        return math.inf
    return 0.5 if math.isnan(short) else float(short)


def _is_short_float(text: str) -> bool:
    return bool(_FLOAT.fullmatch(text)) and repr(float(text)) == text
