"""kubectl's JSONPath: the templates of `-o jsonpath`, the paths of `--sort-by`.

It has what https://kubernetes.io/docs/reference/kubectl/jsonpath/ describes; no library for Python
reads kubectl's templates. As in kubectl, filters compare two values: `&&`, `||` and regular
expressions (`=~`) aren't supported, and what an object doesn't have is nothing.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, NoReturn

LONGEST: Final = 10_000
"""Characters of a template."""
DEEPEST: Final = 20
"""Ranges and filters within each other."""
MOST: Final = 1_000_000
"""Values that a part of a path may find."""


class JsonPathError(ValueError):
    """A template that can't be read, or finds too much."""


Step = Callable[[Any, Any], Iterable[Any]]
"""The values that a part of a path finds in a value; the second one is the whole object."""


@dataclass(frozen=True, slots=True)
class JsonPath:
    """Steps from the current value, or from the whole object."""

    steps: Sequence[Step]
    is_absolute: bool = False

    def find(self, current: Any, whole: Any) -> list[Any]:
        """The values there.

        Raises:
            JsonPathError: there are too many.
        """
        found = [whole if self.is_absolute else current]
        for step in self.steps:
            before, found = found, []
            for value in before:
                found.extend(step(value, whole))
                if len(found) > MOST:
                    raise JsonPathError(f"it finds more than {MOST} values")
        return found


@dataclass(frozen=True, slots=True)
class _Range:
    """``{range PATH}BODY{end}``."""

    path: JsonPath
    body: Sequence[_Part]


_Part = str | JsonPath | _Range


@dataclass(frozen=True, slots=True)
class JsonPathTemplate:
    """A template as it was read."""

    parts: Sequence[_Part]

    def render(self, value: Any) -> str:
        """Its text for an object.

        Raises:
            JsonPathError: it finds too many values.
        """
        return "".join(_render(self.parts, value, value))


def parse_template(text: str) -> JsonPathTemplate:
    """Read the template of ``-o jsonpath=``.

    Raises:
        JsonPathError: it isn't one; the message says where and why.
    """
    if "{" not in text:
        raise JsonPathError(f"it has no expression in braces, such as {{{text or '.metadata'}}}")
    return JsonPathTemplate(_JsonPathParser(text).parse_parts())


def parse_path(text: str) -> JsonPath:
    """Read the path of ``--sort-by``: ``{.metadata.name}``, ``.metadata.name``, ``metadata.name``.

    Raises:
        JsonPathError: it isn't one.
    """
    if not text:
        raise JsonPathError("it is empty")
    inner = text[1:-1] if text.startswith("{") and text.endswith("}") else text
    parser = _JsonPathParser(inner if inner[:1] in tuple(".[$@") else f".{inner}")
    path = parser.parse_path()
    parser.expect_end()
    return path


def sort_key(value: Any) -> tuple[Any, ...]:
    """Sorts as kubectl does: what is missing first, texts by the numbers in them."""
    if value is None:
        return (0,)
    if _comparable(value) is float:
        return (1, value)
    parts = re.split(r"(\d+)", value if isinstance(value, str) else _to_text(value))
    return (2, *((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts))


def _render(parts: Sequence[_Part], current: Any, whole: Any) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, JsonPath):
            yield " ".join(map(_to_text, part.find(current, whole)))
        else:
            for value in part.path.find(current, whole):
                yield from _render(part.body, value, whole)


def _to_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _field(name: str) -> Step:
    def step(value: Any, _whole: Any) -> Iterable[Any]:
        return (value[name],) if isinstance(value, Mapping) and name in value else ()

    return step


def _children(value: Any, _whole: Any = None) -> Iterable[Any]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def _descend(value: Any, _whole: Any) -> Iterator[Any]:
    """The value and all that is in it."""
    found = [value]
    while found:
        value = found.pop()
        yield value
        found.extend(reversed(list(_children(value))))


def _slice(part: slice | int) -> Step:
    def step(value: Any, _whole: Any) -> Iterable[Any]:
        if not isinstance(value, list):
            return ()
        if isinstance(part, slice):
            return value[part]
        return (value[part],) if -len(value) <= part < len(value) else ()

    return step


def _union(paths: Sequence[JsonPath]) -> Step:
    return lambda value, whole: (found for path in paths for found in path.find(value, whole))


_OPERATORS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


def _filter(left: JsonPath, compare: Callable[[Any, Any], bool] | None, right: JsonPath) -> Step:
    def holds(item: Any, whole: Any) -> bool:
        found = left.find(item, whole)
        if compare is None:
            return bool(found)
        others = right.find(item, whole)
        if len(found) != 1 or len(others) != 1:
            return False
        if _comparable(found[0]) is not _comparable(others[0]):
            return compare is operator.ne
        with suppress(TypeError):  # objects and lists have no order
            return compare(found[0], others[0])
        return False

    def step(value: Any, whole: Any) -> Iterable[Any]:
        items = value if isinstance(value, list) else ()
        return (item for item in items if holds(item, whole))

    return step


def _comparable(value: Any) -> type:
    """What can be compared with each other has the same."""
    return float if isinstance(value, int | float) and not isinstance(value, bool) else type(value)


_TEXT = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""", re.DOTALL)
_NUMBER = re.compile(r"-?\d{1,15}(?:\.\d{1,15})?")
_WORD = re.compile(r"(?:range|end|true|false)\b")
_NAME = re.compile(r"""(?:[^\\\s.,\[\](){}$@'"=!<>|&]|\\.)+""", re.DOTALL)
_ARRAY = re.compile(r"(-?\d{1,9})?(?:(:)(-?\d{1,9})?(?::(\d{1,9})?)?)?")
_OPERATOR = re.compile(r"==|!=|<=|>=|<|>")
_UNSUPPORTED = re.compile(r"=~|&&|\|\||!")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text, flags=re.DOTALL)


class _JsonPathParser:
    """Reads a template from left to right."""

    def __init__(self, text: str) -> None:
        if len(text) > LONGEST:
            raise JsonPathError(f"it has more than {LONGEST} characters")
        self._text = text
        self._at = 0
        self._depth = 0

    def parse_parts(self, *, in_range: bool = False) -> list[_Part]:
        """Text and expressions, to the end, or to ``{end}``."""
        parts: list[_Part] = []
        while self._at < len(self._text):
            begin, self._at = self._at, self._text.find("{", self._at)
            if self._at < 0:
                self._at = len(self._text)
            parts.append(self._text[begin : self._at])
            if self._at == len(self._text):
                break
            self._at += 1
            word = self._match(_WORD, " ")
            if word and word[0] == "end":
                self._take("}")
                if not in_range:
                    self._fail("{end} without {range}")
                return parts
            parts.append(self._parse_range() if word and word[0] == "range" else self._parse_one())
        if in_range:
            self._fail("{range} without {end}")
        return parts

    def _parse_range(self) -> _Range:
        self._go_deeper()
        self._match(re.compile(r"\s*"))
        path = self.parse_path()
        self._take("}")
        body = self.parse_parts(in_range=True)
        self._depth -= 1
        return _Range(path, body)

    def _parse_one(self) -> JsonPath:
        """An expression, after its brace."""
        path = self._parse_operand()
        self._take("}")
        return path

    def _parse_operand(self) -> JsonPath:
        """A path, or the value of a text, number or boolean."""
        self._match(re.compile(r"\s*"))
        value: Any
        if found := self._match(_TEXT):
            value = _unescape(found[1] if found[1] is not None else found[2])
        elif found := self._match(_NUMBER):
            value = json.loads(found[0]) if not re.match(r"-?0\d", found[0]) else float(found[0])
        elif (found := self._match(_WORD)) and found[0] in ("true", "false"):
            value = found[0] == "true"
        else:
            return self.parse_path()
        return JsonPath((lambda _value, _whole: (value,),))

    def parse_path(self) -> JsonPath:
        """``.items[*].metadata.name``, from ``$``, ``@`` or neither."""
        begin, steps = self._at, list[Step]()
        is_absolute = self._text.startswith("$", self._at)
        if self._text[self._at : self._at + 1] in ("$", "@"):
            self._at += 1
        while self._at < len(self._text):
            if self._skip(".."):
                steps.append(_descend)
                if not self._text.startswith("[", self._at):
                    steps.append(self._parse_name())
            elif self._skip("."):
                if self._text[self._at : self._at + 1] not in ("", "[", "}", " ", ")"):
                    steps.append(self._parse_name())
            elif self._skip("["):
                steps.append(self._parse_brackets())
            else:
                break
        if begin == self._at:
            self._fail("a path begins with a dot, $ or @")
        return JsonPath(steps, is_absolute)

    def _parse_name(self) -> Step:
        if self._skip("*"):
            return _children
        found = self._match(_NAME)
        if found is None:
            self._fail("a name is missing")
        return _field(_unescape(found[0]))

    def _parse_brackets(self) -> Step:
        """After ``[``: a wildcard, an index, a slice, a filter, a name in quotes, or several."""
        if self._skip("?("):
            return self._parse_filter()
        steps: list[Step] = []
        while True:
            self._match(re.compile(r"\s*"))
            steps.append(self._parse_subscript())
            self._match(re.compile(r"\s*"))
            if not self._skip(","):
                break
        self._take("]")
        return steps[0] if len(steps) == 1 else _union([JsonPath((step,)) for step in steps])

    def _parse_subscript(self) -> Step:
        if self._skip("*"):
            return _children
        if found := self._match(_TEXT):
            quoted = found[1] if found[1] is not None else found[2]
            return _union([parse_path(f".{quoted}")])
        found = self._match(_ARRAY)
        assert found is not None  # it matches nothing, too
        start, colon, stop, step = found.groups()
        if not (start or colon):
            self._fail("an index, a slice, *, ?() or a name in quotes is expected")
        if not colon:
            return _slice(int(start))
        if step and not int(step):
            self._fail("a step of 0")
        return _slice(slice(*(int(one) if one else None for one in (start, stop, step))))

    def _parse_filter(self) -> Step:
        """After ``?(``: ``@.type=="Ready")]``, or ``@.name)]``."""
        self._go_deeper()
        left = self._parse_operand()
        right, compare = left, None
        if found := self._match(_OPERATOR, " "):
            compare = _OPERATORS[found[0]]
            right = self._parse_operand()
        if found := self._match(_UNSUPPORTED, " "):
            self._fail(f"{found[0]} isn't supported in filters, as in kubectl")
        self._take(")")
        self._take("]")
        self._depth -= 1
        return _filter(left, compare, right)

    def _go_deeper(self) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            self._fail(f"more than {DEEPEST} ranges or filters within each other")

    def _match(self, pattern: re.Pattern[str], blanks: str = "") -> re.Match[str] | None:
        at = self._at
        while blanks and self._text[at : at + 1] in tuple(blanks):
            at += 1
        if found := pattern.match(self._text, at):
            self._at = found.end()
        return found

    def _skip(self, text: str) -> bool:
        found = self._text.startswith(text, self._at)
        self._at += len(text) if found else 0
        return found

    def _take(self, text: str) -> None:
        self._match(re.compile(r"\s*"))
        if not self._skip(text):
            self._fail(f"{text} is expected")

    def expect_end(self) -> None:
        """Refuse what is left."""
        if self._text[self._at :].strip():
            self._fail("the path ends here")

    def _fail(self, why: str) -> NoReturn:
        raise JsonPathError(f"{why}, at character {self._at + 1} of {self._text!r}")
