"""Bounds of filters, methods and formats: the length of a result is computed from the arguments.

A filter or method that isn't in these tables isn't available to templates: the length of its
result, or its time, can't be computed before it runs.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping
from typing import Any, Final

from copyrator.copies.policy.template_meter import Meter, TemplateError, count_of
from copyrator.copies.policy.template_values import SourceObject, SourceText
from copyrator.settings.limits import FORMAT_WIDTH, RENDER_STEPS

Bound = Callable[..., None]
"""Takes the meter, the value and the arguments; counts, or raises TemplateError."""

MISSING_FILTERS: Final = ("pprint", "striptags", "urlize", "xmlattr")
"""Jinja2's filters for web pages and for debugging; their time can't be computed beforehand."""

_PRINTF: Final = re.compile(r"%(?:\([^)]*\))?[-#0 +]*(\*|\d*)(?:\.(\*|\d*))?[hlL]?")
_SPEC: Final = re.compile(r"(?:.?[<>=^])?[-+ ]?z?#?0?(\d*)[,_]?(?:\.(\d+))?[a-zA-Z%]?", re.DOTALL)


# Formats ----------------------------------------------------------------------------------------


def printf(meter: Meter, text: str, *args: Any, **kwargs: Any) -> None:
    """``"%5d" % 1`` and the filter format."""
    meter.take(5, 8 * len(text))
    longest = max((meter.weigh(value) for value in (*args, *kwargs.values())), default=0)
    made = len(text)
    for width, precision in _PRINTF.findall(text):
        made += longest + _width(width) + _width(precision)
    meter.make(made)


def str_format(meter: Meter, text: str, *args: Any, **kwargs: Any) -> None:
    """``"{:>5}".format(1)``."""
    meter.take(15, 8 * len(text))
    longest = max((meter.weigh(value) for value in (*args, *kwargs.values())), default=0)
    made = len(text)
    for _, name, spec, _ in string.Formatter().parse(text):
        if name is None:
            continue
        found = _SPEC.fullmatch(spec or "")
        if found is None:
            shown = "" if meter.reveals else f" {(spec or '')[:40]!r}"
            raise TemplateError(f"the format{shown} isn't available in templates")
        made += 2 * longest + _width(found[1]) + _width(found[2])
    meter.make(made)


def _width(digits: str | None) -> int:
    if not digits:
        return 0
    if digits == "*" or len(digits) > 4 or int(digits) > FORMAT_WIDTH:
        raise TemplateError(f"a format's width must be a number up to {FORMAT_WIDTH}")
    return int(digits)


# Methods and filters by their results -----------------------------------------------------------


def _same(meter: Meter, value: Any, *_args: Any, **_kwargs: Any) -> None:
    meter.take(1, 3 * count_of(value))


def _slow(meter: Meter, value: Any, *_args: Any, **_kwargs: Any) -> None:
    meter.take(10, 12 * count_of(value))


def _search(meter: Meter, text: str, part: Any = "", *_args: Any, **_kwargs: Any) -> None:
    meter.search(text, part)


def _split(meter: Meter, text: str, part: Any = "", *_args: Any, **_kwargs: Any) -> None:
    meter.search(text, part)
    meter.take(1, 8 * len(text))


def _wide(meter: Meter, text: Any, width: Any = 80, *_args: Any, **_kwargs: Any) -> None:
    meter.make(count_of(text) + _whole(width))


def _tabs(meter: Meter, text: str, tabsize: Any = 8) -> None:
    meter.make(len(text) + text.count("\t") * _whole(tabsize))


def _replace(meter: Meter, text: Any, old: Any = "", new: Any = "", *_: Any, **__: Any) -> None:
    whole, old, new = str(text), str(old), str(new)
    meter.search(whole, old)
    meter.make(len(whole) + whole.count(old) * len(new))


def _join_method(meter: Meter, text: str, values: Any = ()) -> None:
    meter.make(meter.weigh(values) + count_of(values) * len(text))


def _join(meter: Meter, values: Any, d: Any = "", *_args: Any, **_kwargs: Any) -> None:
    meter.make(meter.weigh(values) + count_of(values) * len(str(d)))


def _indent(meter: Meter, text: Any, width: Any = 4, *_args: Any, **_kwargs: Any) -> None:
    lines = str(text).count("\n") + 1
    meter.make(8 * count_of(text) + lines * (len(width) if isinstance(width, str) else 0))
    if not isinstance(width, str):
        meter.make(lines * _whole(width))


def _wordwrap(
    meter: Meter, text: Any, width: Any = 79, _break: Any = True, wrapstring: Any = None, *_: Any
) -> None:
    length = count_of(text)
    meter.take(30 + length, length * length // (16 * max(_whole(width), 1)))
    meter.make(length * (1 + count_of(wrapstring)))


def _round(_meter: Meter, _value: Any, precision: Any = 0, *_args: Any, **_kwargs: Any) -> None:
    if _whole(precision) > 300:
        raise TemplateError("round takes at most 300 digits")


def _parts(meter: Meter, _values: Any, count: Any = 1, *_args: Any, **_kwargs: Any) -> None:
    meter.take(_whole(count))


def _json(meter: Meter, value: Any, indent: Any = None) -> None:
    length = meter.weigh(value)
    meter.take(10, 6 * length + length * (0 if indent is None else _whole(indent)))


def _sum(meter: Meter, values: Any, attribute: Any = None, start: Any = 0) -> None:
    if not isinstance(start, int | float):
        raise TemplateError("sum adds up numbers only; use the filter join")
    if attribute is None and not all(isinstance(value, int | float) for value in values):
        raise TemplateError("sum adds up numbers only; use the filter join")
    meter.take(count_of(values))


def _whole(value: Any) -> int:
    """An argument that is a count; Jinja2 itself refuses what isn't a number."""
    return min(abs(value), RENDER_STEPS * 100) if isinstance(value, int) else 0


FILTER_BOUNDS: Final[Mapping[str, Bound]] = {
    "batch": _parts,
    "center": _wide,
    "capitalize": _same,
    "e": _slow,
    "escape": _slow,
    "filesizeformat": _same,
    "forceescape": _slow,
    "format": printf,
    "indent": _indent,
    "join": _join,
    "replace": _replace,
    "round": _round,
    "slice": _parts,
    "sum": _sum,
    "title": _slow,
    "tojson": _json,
    "truncate": _same,
    "urlencode": _slow,
    "wordcount": _slow,
    "wordwrap": _wordwrap,
}
"""Filters whose result may be longer than their input, or that are slow."""

SEQUENCE_FILTERS: Final = frozenset(
    {
        *("batch", "dictsort", "first", "groupby", "items", "join", "last", "list", "map", "max"),
        *("min", "reject", "rejectattr", "reverse", "select", "selectattr", "slice", "sort"),
        *("sum", "unique"),
    }
)
"""Filters that iterate over a sequence."""

_PLAIN: Final = (
    "capitalize casefold endswith isalnum isalpha isascii isdecimal isdigit isidentifier islower "
    "isnumeric isprintable isspace istitle isupper lower lstrip removeprefix removesuffix rstrip "
    "startswith strip swapcase title upper"
)

STR_METHODS: Final[Mapping[str, Bound]] = {
    **dict.fromkeys(_PLAIN.split(), _same),
    **dict.fromkeys(("count", "find", "index", "rfind", "rindex"), _search),
    **dict.fromkeys(("partition", "rpartition", "rsplit", "split", "splitlines"), _split),
    **dict.fromkeys(("center", "ljust", "rjust", "zfill"), _wide),
    "expandtabs": _tabs,
    "join": _join_method,
    "replace": _replace,
}

LIST_METHODS: Final[Mapping[str, Bound]] = dict.fromkeys(("copy", "count", "index"), _same)
DICT_METHODS: Final[Mapping[str, Bound]] = dict.fromkeys(
    ("copy", "get", "items", "keys", "values"), _same
)

METHODS: Final[Mapping[type, Mapping[str, Bound]]] = {
    str: STR_METHODS,
    SourceText: STR_METHODS,
    dict: DICT_METHODS,
    SourceObject: DICT_METHODS,
    list: LIST_METHODS,
    tuple: LIST_METHODS,
}

INSTEAD: Final[Mapping[str, str]] = {
    "format_map": "use format, or the operator ~",
    "maketrans": "use the filter replace",
    "translate": "use the filter replace",
}
"""The replacement for a method that isn't available."""
