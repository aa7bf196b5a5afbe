"""Strings, globs and JSON values that are dear to parse, or that a parser may fail on."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

DIGIT_LIMIT = 4_300
"""Digits of the longest number that Python's int() takes; more is a ValueError."""

FIELD = 65_536
"""Characters of a string that has always been accepted."""

BODY = 1_400_000
"""Characters that an object may have in all: the API server refuses requests over 1.5 MiB."""


def digits(count: int = DIGIT_LIMIT + 1) -> str:
    """A run of digits."""
    return "9" * count


def nested_blocks(depth: int, block: str = "for") -> str:
    """Jinja blocks in each other: 21 loops are more than Python compiles."""
    begin = {"for": "{% for a in b %}", "if": "{% if a %}", "set": "{% set a %}"}[block]
    return begin * depth + "x" + f"{{% end{block} %}}" * depth


def nested_brackets(depth: int, bracket: str = "(") -> str:
    """One Jinja expression in brackets, or signs, many deep."""
    opposite = {"(": ")", "[": "]", "-": "", "not ": ""}[bracket]
    return "{{ " + bracket * depth + "1" + opposite * depth + " }}"


def dense(size: int, unit: str = "{{a}}") -> str:
    """As many small pieces of Jinja as fit into `size` characters."""
    return unit * (size // len(unit))


def stars(count: int) -> str:
    """One glob with many wildcards."""
    return "*a" * (count // 2) + "b"


def globs(size: int, *, glob: str = "*a*") -> str:
    """A list of different globs, joined by commas, of about `size` characters."""
    width = len(glob) + 7
    return ",".join(f"{glob}{number:06x}" for number in range(size // width))


def nested_json(depth: int, *, is_list: bool = False) -> Any:
    """An object, or list, that holds one of its kind, and so on."""
    value: Any = 1
    for _ in range(depth):
        value = [value] if is_list else {"a": value}
    return value


def deep(depth: int, *, is_list: bool = False) -> str:
    """Stands for `nested_json` of more levels than `json` writes, until `encode`."""
    return f"@@{'list' if is_list else 'map'} {depth}@@"


def encode(value: Any) -> bytes:
    """JSON, with what `deep` stands for."""

    def written(found: re.Match[str]) -> str:
        begin, end = ("[", "]") if found[1] == "list" else ('{"a":', "}")
        return begin * int(found[2]) + "1" + end * int(found[2])

    text = re.sub(r'"@@(list|map) (\d+)@@"', written, json.dumps(value, ensure_ascii=False))
    return text.encode("utf-8", "replace")


def nested_yaml(depth: int) -> str:
    """The same as a values file."""
    return "a: " + "[" * depth + "]" * depth


def aliases(levels: int = 20) -> str:
    """A values file whose aliases mean 10^levels parts."""
    lines = ["a0: &a0 x"]
    for level in range(1, levels):
        many = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} [{many}]")
    return "\n".join(lines)


JINJA = (
    "{{ " + digits() + " }}",
    "{{ 1." + digits() + " }}",
    "{{ 0x" + "f" * 5_000 + " }}",
    "{{ 9 ** 9 ** 9 }}",
    "{{ 'x' * 10000000000 }}",
    "{{ 'x'.center(10000000000) }}",
    "{{ 'x'.ljust(10000000000) }}",
    "{{ '%010000000000d' % 1 }}",
    "{{ '{:>10000000000}'.format(1) }}",
    "{{ 'x' | center(10000000000) }}",
    "{{ 'x' | indent(10000000000) }}",
    "{{ range(100000) | list | string }}",
    "{{ namespace.name | wordwrap(1) }}",
    "{{ ''.__class__.__mro__ }}",
    "{{ self }}{{ cycler }}{{ lipsum(100000) }}",
    "{% set a = 'xxxxxxxx' %}" + "{% set a = a ~ a %}" * 40 + "{{ a }}",
    "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% block a %}{{ self.a() }}{% endblock %}",
    "{% include 'x' %}{% extends 'y' %}",
    "{% raw %}" + "{{" * 1_000,
    "{#" * 1_000,
    "{{ a" + "|abs" * 3_000 + " }}",
    "{{ a" + ".b" * 3_000 + " }}",
    "{{ a" + "[0]" * 3_000 + " }}",
    "{{ " + "a + " * 3_000 + "a }}",
    "{{ " + "a if b else " * 1_000 + "c }}",
    "{{ " + "a ~ " * 3_000 + "a }}",
    "{{ a(" + ",".join("b" * (number % 5 + 1) for number in range(5_000)) + ") }}",
    nested_blocks(21),
    nested_blocks(200),
    nested_blocks(500, "if"),
    nested_blocks(100, "set"),
    nested_brackets(90),
    nested_brackets(1_000),
    nested_brackets(20_000),
    nested_brackets(1_000, "["),
    nested_brackets(5_000, "-"),
    nested_brackets(5_000, "not "),
)
"""Templates that are mean by what they say, none longer than `FIELD`."""

DENSE = ("{{a}}", "{%if a%}{%endif%}", "{#a#}", "{{1+1}}", "{{a.b|e}}", "{{'", "{{ {", "a\n")
"""Units of `dense`."""

UNICODE = (
    "\u202e\u2066evil\u2069",
    "\ufeff",
    "\u0000"[:0] + "\u0001\u001f\u007f",
    "a\u0300" * 200,
    "🏴\u200d☠️" * 100,
    "\u2028\u2029\u0085",
    "１２３" * 50,  # noqa: RUF001 - digits that are not ASCII
    "ﷺ" * 300,
    "\U0010ffff" * 50,
    "İıß" * 100,
)
"""Texts that change their length or direction, or that look like others."""

MEAN = (
    digits(),
    digits(FIELD),
    "-" + digits(),
    "1e" + digits(20),
    f">={digits()}.0.0",
    f"{digits(20)}.*",
    "." * 1_000,
    "/" * 1_000,
    "*" * 1_000,
    stars(62),
    stars(1_000),
    "a" * FIELD,
    "{" * 1_000,
    "[" * 5_000,
    "[" * 5_000 + "]" * 5_000,
    '{"a":' * 5_000,
    "\\" * 1_000,
    "\n" * 10_000,
    "(a*)*" * 20,
    "sha256:" + "f" * 4_000,
    *UNICODE,
    *JINJA,
)
"""One of each sort, none longer than `FIELD`."""


def text(random: Random, most: int = FIELD) -> str:
    """Any mean text of at most so many characters."""
    size = min(most, int(2 ** random.uniform(4, 20.4)))
    chosen = random.choice(
        (
            lambda: random.choice(MEAN),
            lambda: random.choice(JINJA),
            lambda: dense(size, random.choice(DENSE)),
            lambda: digits(size),
            lambda: globs(size, glob=random.choice(("*a*", "?" * 60, "*-*-*-*-*", stars(50)))),
            lambda: random.choice(UNICODE) * (size // 100 + 1),
            lambda: "x" * size,
        )
    )()
    return chosen[:most]


def label_value(random: Random) -> str:
    """A text that the API server takes as a label's value."""
    return random.choice(("", "a", "9" * 63, "a" * 63, "A-" * 31 + "z", "0.0.0"))


def value(random: Random, depth: int = 3) -> Any:
    """Any JSON value: mean texts, numbers, deep and wide."""
    kind = random.choice(("text", "number", "none", "map", "list", "deep"))
    if kind == "text" or depth == 0:
        return text(random, 5_000)
    if kind == "number":
        return random.choice((0, -1, 2**31, 2**63 - 1, -(2**63), 1e300, 0.1, True, False))
    if kind == "none":
        return None
    if kind == "deep":
        return deep(random.choice((10, 100, 1_000)), is_list=random.random() < 0.5)
    many = range(random.choice((0, 1, 3, 8)))
    if kind == "list":
        return [value(random, depth - 1) for _ in many]
    return {random.choice(MEAN)[:60] or f"k{n}": value(random, depth - 1) for n in many}
