"""Strategies of hypothesis: any JSON, and good values of which some parts have gone bad.

A good object that is mangled gets much further than random JSON does.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from hostile import texts

EVIL = (
    *(
        "",
        " ",
        "\n",
        "\x00",
        "ä€🙂",
        "-",
        ".",
        "..",
        "../..",
        "/",
        "a/b/c",
        "a:b@c",
        "*",
        "?",
        "[",
        "]",
    ),
    *("{{", "{{ x }}", "{% for a in b %}", "{{ 9 ** 9 }}", "{{ namespace.__class__ }}", "${HOME}"),
    *("-1", "1e999", "NaN", "null", "true", "9" * 400, "a" * 300, "*" * 50, "1.*", ">=1 <2 || x"),
    *(
        "sha256:",
        "sha256:" + "f" * 64,
        "2026-13-45T99:99:99Z",
        "0001-01-01T00:00:00Z",
        "10s",
        "1h9x",
    ),
)
TEXTS = st.sampled_from(EVIL) | st.text(max_size=20)
NUMBERS = st.sampled_from([0, -1, 1, 2**31, 2**63, -(2**63), 10**30]) | st.integers()
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
BOMBS = st.sampled_from(
    [
        *texts.MEAN,
        *(texts.dense(1_000_000, unit) for unit in texts.DENSE),
        *(texts.dense(texts.FIELD, unit) for unit in texts.DENSE),
        texts.globs(200_000),
        texts.nested_blocks(5_000),
        texts.nested_brackets(300_000),
        texts.digits(1_000_000),
        "x" * 1_000_000,
        "🙂" * 250_000,
    ]
)
"""Texts that stopped the operator once: digits over what int() takes, nesting, dense Jinja, a
megabyte of anything."""
DEEP = st.builds(
    texts.nested_json, st.sampled_from([65, 500, 1_000, 5_000]), is_list=st.booleans()
) | st.sampled_from([[0] * 100_000, {f"k{n}": n for n in range(20_000)}])
"""Values that are deep, or wide. Depths over 1,000 are more than `json` and `repr` can do."""

Path = tuple[str | int, ...]


def paths(value: Any, above: Path = ()) -> Iterator[Path]:
    """The places of all parts of a value."""
    if above:
        yield above
    if isinstance(value, dict):
        for key, part in value.items():
            yield from paths(part, (*above, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from paths(part, (*above, index))


def like(value: Any) -> st.SearchStrategy[Any]:
    """Junk of the same type: what the API server lets through where it knows the type."""
    match value:
        case bool():
            return st.booleans()
        case int():
            return st.integers(-(2**31), 2**31 - 1)
        case str():
            return TEXTS
        case list():
            return st.just([]) | st.just(value * 2)
        case _:
            return st.just({})


def anything(_value: Any) -> st.SearchStrategy[Any]:
    """For `mangled`: any JSON."""
    return JSON


def dear(value: Any) -> st.SearchStrategy[Any]:
    """For `mangled`: what is dear to parse, of the same type or of another one."""
    return BOMBS if isinstance(value, str) else BOMBS | DEEP


@st.composite
def mangled(
    draw: st.DrawFn, good: Any, junk: Callable[[Any], st.SearchStrategy[Any]] = anything
) -> Any:
    """A good value of which one to four parts are replaced, or gone, or have company."""
    value = copy.deepcopy(good)
    for _ in range(draw(st.integers(1, 4))):
        places = sorted(paths(value), key=repr)
        if not places:
            break
        *above, last = draw(st.sampled_from(places))
        part = value
        for step in above:
            part = part[step]
        match draw(st.sampled_from(["replace", "remove", "add"])):
            case "replace":
                part[last] = draw(junk(part[last]))
            case "remove":
                del part[last]
            case "add" if isinstance(part, dict):
                part[draw(TEXTS)] = draw(junk(part[last]))
            case "add":
                part.append(draw(junk(part[last])))
    return value
