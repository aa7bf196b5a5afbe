"""The Jinja2 environment of rules: sandboxed, strict and bounded.

An unknown name is an error on that target, never an empty string, and no template can reach
Python's internals. Everything that costs time or memory is counted by the meter first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import BuiltinMethodType, MethodType
from typing import Any, Final

import jinja2
from jinja2.filters import FILTERS
from jinja2.runtime import BlockReference, Context, LoopContext, Macro, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment, safe_range
from jinja2.tests import TESTS
from markupsafe import Markup

from copyrator.copies.policy.template_bounds import (
    FILTER_BOUNDS,
    INSTEAD,
    METHODS,
    MISSING_FILTERS,
    SEQUENCE_FILTERS,
    printf,
    str_format,
)
from copyrator.copies.policy.template_filters import FILTERS as OWN
from copyrator.copies.policy.template_meter import Meter, TemplateError, checked, count_of
from copyrator.copies.policy.template_values import SourceData

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
            for name, function in FILTERS.items()
            if name not in MISSING_FILTERS
        }
        self.filters |= {name: self._metered(function) for name, function in OWN.items()}
        self.filters |= self._own_filters()
        self.tests = {name: self._weighing(function) for name, function in _TESTS.items()}

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
                if not isinstance(value, Undefined):
                    self.meter.weigh(value)
            if len(given) > 1 and isinstance(given[1], str):
                self.meter.search(given[1], given[0])
            return function(*given, **kwargs)

        return tested

    def _own_filters(self) -> dict[str, Callable[..., Any]]:
        """The filters that compiling.py inserts into every template's tree."""
        own: dict[str, Callable[..., Any]] = {
            LOOP: self._loop,
            CHARGE: self._charge,
            ITEMS: self._items,
            WEIGHED: self._weighed,
            SLICED: self._sliced,
            CONCAT: self._concat,
            CONTAINS: self._contains,
            WHOLE: self._whole,
        }
        return {name: _at_run_time(function) for name, function in own.items()}

    def _loop(self, values: Any, steps: int, characters: int) -> Iterator[Any]:
        return self.meter.loop(values, steps, characters)

    def _charge(self, steps: int, characters: int) -> None:
        self.meter.take(steps, characters)

    def _items(self, values: Any) -> list[Any]:
        return self.meter.items(values)

    def _weighed(self, value: Any) -> Any:
        if not isinstance(value, Undefined):
            self.meter.weigh(value)
        return value

    def _sliced(self, value: Any) -> Any:
        self.meter.take(1, count_of(value))
        return value

    def _concat(self, values: list[Any]) -> str:
        self.meter.make(sum(self.meter.weigh(value) for value in values))
        return "".join(map(str, values))

    def _contains(self, values: Any, value: Any) -> bool:
        self._weighed(values)
        self._weighed(value)
        if isinstance(values, str):
            self.meter.search(values, value)
        return value in values

    def _whole(self, value: Any) -> Any:
        """Keep a number or boolean that is the whole text."""
        if isinstance(value, bool | int | float):
            self.meter.whole = value
        return value


def _at_run_time(function: Callable[..., Any]) -> Callable[..., Any]:
    """Jinja2 evaluates no filter at compile time that is passed the context."""

    @jinja2.pass_context
    def late(_context: Context, *args: Any) -> Any:
        return function(*args)

    return late


@jinja2.pass_context
def _finalize(context: Context, value: Any) -> Any:
    """Count the output. With the context passed, nothing is output at compile time."""
    environment = context.environment
    assert isinstance(environment, SandboxEnvironment)
    if not isinstance(value, Undefined):
        environment.meter.weigh(value)
    return value


def _is_callable(value: Any) -> bool:
    if isinstance(value, Macro | BlockReference | LoopContext | Undefined) or value is safe_range:
        return True
    if isinstance(value, MethodType):
        return isinstance(value.__self__, LoopContext | SourceData)
    return getattr(value, "for_templates", False)
