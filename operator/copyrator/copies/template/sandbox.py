"""The Jinja2 environment of rules: sandboxed, strict and bounded.

An unknown name is an error on that target, never an empty string, and no template can reach
Python's internals. Everything that costs time or memory is counted by the meter first: the length
of a filter's, method's or format's result is computed from its arguments. One that isn't in these
tables isn't available to templates, as its length or time can't be computed before it runs.

Messages about unknown names are in the terms of Kubernetes.
"""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Callable, Iterator, Mapping
from types import BuiltinMethodType, MethodType
from typing import Any, Final

import jinja2
from jinja2.filters import FILTERS, do_wordwrap
from jinja2.lexer import Lexer
from jinja2.runtime import BlockReference, Context, LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.tests import TESTS
from markupsafe import Markup

from copyrator.api.text import meant
from copyrator.copies.template.filters import FILTERS as OWN
from copyrator.copies.template.scope import (
    RENDER_STEPS,
    Meter,
    SourceData,
    SourceObject,
    SourceText,
    TemplateError,
    checked,
    count_of,
    names_of,
)

FORMAT_WIDTH: Final = 1_024
"""Width that a format such as %10d may have."""

_NO_KEY: Final = re.compile(r"'dict object' has no attribute '(?P<key>.{1,400})'", re.DOTALL)
_NO_NAME: Final = re.compile(r"'(?P<name>.{1,400})' is undefined", re.DOTALL)
"""Source: jinja2.runtime.Undefined._undefined_message."""
_NO_PART: Final = re.compile(
    r"'[\w.]*(?P<of>SourceSet|SourceObject|SourceData) object' has no attribute "
    r"'(?P<key>.{1,400})'",
    re.DOTALL,
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
    if found := _NO_PART.fullmatch(message):
        key = found["key"]
        if found["of"] == "SourceSet":
            sources = context.get("sources")
            known = ", ".join(names_of(sources))
            return f"unknown source {key}; known sources: {known}{meant(key, names_of(sources))}"
        if found["of"] == "SourceObject":
            return f"{_whose(key, source, context)} has no field {key}"
        return f"{_whose(key, source, context, '.data')} has no key {key}"
    if found := _NO_NAME.fullmatch(message):
        name, known = found["name"], ", ".join(sorted(context))
        return f"unknown variable {name}; known variables: {known}{meant(name, context)}"
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
            known = ", ".join(value)
            return f"unknown field {name}.{key}; known fields: {known}{meant(key, value)}"
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
    "join": lambda meter, text, values=(): _join(meter, values, text),
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


_TESTS: Final[dict[str, Any]] = {**TESTS}

# No template can contain these: a filter's name is a word.
LOOP: Final = "$loop"
CHARGE: Final = "$charge"
ITEMS: Final = "$items"
WEIGHED: Final = "$weighed"
SLICED: Final = "$sliced"
CONCAT: Final = "$concat"
CONTAINS: Final = "$contains"
WHOLE: Final = "$whole"


class _ExactLexer(Lexer):
    """Leaves line ends as they are, where Jinja2 makes each a line feed.

    While a text is split into tokens, other white space that it doesn't have takes the place of
    carriage returns.
    """

    def tokeniter(self, source: str, *args: Any, **kwargs: Any) -> Iterator[tuple[int, str, str]]:
        if "\r" not in source:
            yield from super().tokeniter(source, *args, **kwargs)
            return
        stand_in = next((one for one in _RARE_SPACES if one not in source), None)
        if stand_in is None:
            raise TemplateError("has too many sorts of white space; leave one out")
        for line, token, text in super().tokeniter(source.replace("\r", stand_in), *args, **kwargs):
            yield line, token, text.replace(stand_in, "\r")

    def _normalize_newlines(self, value: str) -> str:
        return value


_RARE_SPACES: Final = "\x1f\x1e\x1d\x1c\u2000\u2001\u2002\u2003"


def _indented(text: Any, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    """Jinja2's filter `indent`, which leaves line ends as they are."""
    indention = width if isinstance(width, str) else " " * width
    head, *rest = str(text).split("\n")
    lines = (indention + line if blank or line.strip("\r") else line for line in rest)
    return "\n".join([indention + head if first else head, *lines])


@jinja2.pass_environment
def _wrapped(  # noqa: PLR0917 - as Jinja2 has them
    environment: jinja2.Environment,
    text: str,
    width: int = 79,
    break_long_words: bool = True,
    wrapstring: str | None = None,
    break_on_hyphens: bool = True,
) -> str:
    """Jinja2's filter `wordwrap`, which leaves line ends as they are but where it is given one."""

    def wrapped(line: str, end: str) -> str:
        return do_wordwrap(environment, line, width, break_long_words, end, break_on_hyphens)

    if wrapstring is not None:
        return wrapped(text, wrapstring)
    made, end = [""], "\n"
    for line, whole in zip(text.splitlines(), text.splitlines(keepends=True), strict=True):
        end = whole[len(line) :] or end
        made += [wrapped(line, "\r\n" if end == "\r\n" else "\n"), end]
    return "".join(made[:-1])


class SandboxEnvironment(ImmutableSandboxedEnvironment):
    """Counts a template's work in `meter`, which the caller sets before rendering."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

    def __init__(self) -> None:
        super().__init__(
            undefined=jinja2.StrictUndefined,
            autoescape=False,
            keep_trailing_newline=True,
            optimized=False,  # it would run filters while it compiles
            finalize=_finalize,
        )
        # Jinja2 has a global function of the name `namespace`, which would shadow our variable.
        self.globals = {"range": safe_range}
        self.meter = Meter()
        self.filters = {
            name: self._bounded(name, function)
            for name, function in {**FILTERS, "indent": _indented, "wordwrap": _wrapped}.items()
            if name not in MISSING_FILTERS
        }
        self.filters |= {name: self._metered(function) for name, function in OWN.items()}
        self.filters |= {name: self._at_run_time(made) for name, made in _INSERTED.items()}
        self.tests = {name: self._weighing(function) for name, function in _TESTS.items()}

    @functools.cached_property
    def lexer(self) -> Lexer:
        """Splits texts into tokens."""
        return _ExactLexer(self)

    # --- operators -------------------------------------------------------------------------------

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Count the operation, and refuse those that would fill the memory."""
        self.meter.take(1)
        if operator == "**":
            raise TemplateError("powers aren't allowed in templates")
        if operator == "%" and isinstance(left, str):
            values = right if isinstance(right, tuple) else (right,)
            printf(self.meter, left, *values)
        elif operator == "*":
            self._check_product(left, right)
        elif operator == "+":
            self.meter.make(count_of(left) + count_of(right))
        return checked(super().call_binop(context, operator, left, right))

    def _check_product(self, left: Any, right: Any) -> None:
        for one, other in ((left, right), (right, left)):
            if isinstance(one, str | list | tuple) and isinstance(other, int):
                self.meter.make(len(one) * max(other, 0))
        if isinstance(left, int) and isinstance(right, int):
            checked(1 << (left.bit_length() + right.bit_length() - 1 if left and right else 0))

    # --- calls -----------------------------------------------------------------------------------

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Call what a template may call."""
        __self.meter.take(12)
        if isinstance(__obj, BuiltinMethodType):
            args = tuple(__self._listed(value) for value in args)
            __self._check_method(__obj, args, kwargs)
        elif isinstance(__obj, LoopContext) and args:
            args = (__self.meter.loop(args[0], 1, 0), *args[1:])
        elif not _is_callable(__obj):
            raise TemplateError("this can't be called in a template")
        return super().call(__context, __obj, *args, **kwargs)

    def _check_method(self, method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        owner, name = method.__self__, method.__name__
        bound = METHODS.get(type(owner), {}).get(name)
        if bound is None:
            hint = INSTEAD.get(name, "use a filter")
            raise TemplateError(
                f"the method {type(owner).__name__}.{name} isn't available in templates; {hint}"
            )
        if not isinstance(owner, dict):
            self.meter.weigh(owner)
        for value in (*args, *kwargs.values()):
            self.meter.weigh(value)
        bound(self.meter, owner, *args, **kwargs)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """``str.format`` with a bound; format_map isn't changed, and can't be called."""
        if getattr(value, "__name__", "") == "format_map":
            return None
        wrapped = super().wrap_str_format(value)
        if wrapped is None:
            return None
        text = value.__self__

        def bounded(*args: Any, **kwargs: Any) -> str:
            str_format(self.meter, text, *args, **kwargs)
            return wrapped(*args, **kwargs)

        bounded.for_templates = True  # type: ignore[attr-defined]
        return bounded

    # --- filters and tests -----------------------------------------------------------------------

    def _bounded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """One of Jinja2's filters, whose work is counted before it is done."""
        skipped = 1 if hasattr(function, "jinja_pass_arg") else 0
        bound = FILTER_BOUNDS.get(name)

        @functools.wraps(function)
        def filtered(*given: Any, **kwargs: Any) -> Any:
            meter = self.meter
            passed, args = given[:skipped], [self._listed(value) for value in given[skipped:]]
            for value in (*args, *kwargs.values()):
                meter.weigh(value)
            if name in SEQUENCE_FILTERS:
                words = sum(count_of(word) for word in (*args[1:], *kwargs.values()))
                meter.take(count_of(args[0]) * (6 + words // 2))
            if bound is not None:
                bound(meter, *args, **kwargs)
            meter.take(6)
            return self._plain(function(*passed, *args, **kwargs))

        return filtered

    def _metered(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A filter of our own, which counts its work itself."""

        @functools.wraps(function)
        def filtered(value: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(value, Undefined):
                str(value)  # raises, with the name
            return function(self.meter, self._listed(value), *args, **kwargs)

        return filtered

    def _plain(self, value: Any) -> Any:
        """A result in a form that a template may have: no markup, and nothing lazy."""
        if isinstance(value, Markup):
            return str(value)
        return checked(self._listed(value))

    def _listed(self, value: Any) -> Any:
        is_lazy = isinstance(value, Iterator | range) and not isinstance(value, LoopContext)
        return self.meter.items(value) if is_lazy else value

    def _weighing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        skipped = 1 if hasattr(function, "jinja_pass_arg") else 0

        @functools.wraps(function)
        def tested(*given: Any, **kwargs: Any) -> Any:
            for value in (*given[skipped:], *kwargs.values()):
                _weigh(self.meter, value)
            if len(given) > 1 and isinstance(given[1], str):
                self.meter.search(given[1], given[0])
            return function(*given, **kwargs)

        return tested

    def _at_run_time(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Jinja2 evaluates no filter at compile time that is passed the context."""

        @jinja2.pass_context
        def late(_context: Context, *args: Any) -> Any:
            return function(self.meter, *args)

        return late


def _weigh(meter: Meter, value: Any) -> Any:
    if not isinstance(value, Undefined):
        meter.weigh(value)
    return value


def _count_slice(meter: Meter, value: Any) -> Any:
    meter.take(1, count_of(value))
    return value


def _concat(meter: Meter, values: list[Any]) -> str:
    meter.make(sum(meter.weigh(value) for value in values))
    return "".join(map(str, values))


def _contains(meter: Meter, values: Any, value: Any) -> bool:
    _weigh(meter, values)
    _weigh(meter, value)
    if isinstance(values, str):
        meter.search(values, value)
    return value in values


def _keep_whole(meter: Meter, value: Any) -> Any:
    """Keep a number or boolean that is the whole text."""
    if isinstance(value, bool | int | float):
        meter.whole = value
    return value


_INSERTED: Final[Mapping[str, Callable[..., Any]]] = {
    LOOP: Meter.loop,
    CHARGE: Meter.take,
    ITEMS: Meter.items,
    WEIGHED: _weigh,
    SLICED: _count_slice,
    CONCAT: _concat,
    CONTAINS: _contains,
    WHOLE: _keep_whole,
}
"""The filters that compiling.py inserts into every template's tree."""


@jinja2.pass_context
def _finalize(context: Context, value: Any) -> Any:
    """Count the output. With the context passed, nothing is output at compile time."""
    environment = context.environment
    assert isinstance(environment, SandboxEnvironment)
    return _weigh(environment.meter, value)


def _is_callable(value: Any) -> bool:
    if isinstance(value, Macro | BlockReference | LoopContext | Undefined) or value is safe_range:
        return True
    if isinstance(value, MethodType):
        return isinstance(value.__self__, LoopContext | SourceData)
    return getattr(value, "for_templates", False)
