"""Whether templates can render anything else than they did: judges each action. Pure.

Every function and method has to be on the allow list (allowed.py). What remains are objects of
Helm's that hold pointers, which print as addresses: they are followed from where they are through
variables, ``include`` and dictionaries to where they are printed; what can't be followed counts as
one. Of ``.Capabilities.APIVersions``, whose order is drawn, only ``Has`` may be asked, and of
``.Files`` no ``AsConfig`` where two files have one name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from copyrator.bundles.chart import allowed
from copyrator.bundles.chart.allowed import FUNCTIONS, METHODS, ROOT, FunctionRule, Value, objection
from copyrator.bundles.chart.parser import (
    ActionNode,
    Body,
    Command,
    Control,
    FunctionName,
    Invocation,
    Literal,
    Operand,
    ParsedTemplate,
    Path,
    Pipe,
    TemplateSyntaxError,
    parse,
)

_ROUNDS: Final = 12
"""Passes over all templates until nothing changes; after more, objects can't be followed."""
_STEPS: Final = 1_000_000
"""Actions, and templates that may be meant by a name, in all passes."""
_STEPS_OF_FILES: Final = 1_000
"""Steps that a look at all files counts as."""
MAX_REASONS: Final = 20
_MAX_LITERALS: Final = 50
_LITERAL_CHARACTERS: Final = 200
_NAME_CHARACTERS: Final = 60
_VERB: Final = re.compile(r"%[-#0+ .*\[\]0-9]*(.)", re.DOTALL)
_PRINTED: Final = "prints an object of Helm's that holds pointers"
_ORDER: Final = "reads .Capabilities.APIVersions, whose order is drawn, other than by Has"
_COPIES: Final = ("deepCopy", "mustDeepCopy")


@dataclass(slots=True)
class _Scope:
    """A body with what is known of its values: they only grow from one round to the next."""

    path: str
    body: Body
    name: str | None = None
    """Of a ``define`` or ``block``; None for a whole file."""
    dot: Value = None
    variables: dict[str, Value] = field(default_factory=dict)


@dataclass(slots=True)
class ChartFindings:
    """What makes a chart's plans unbound, and the texts of ``required`` and ``fail``."""

    unbound: list[str] = field(default_factory=list)
    literals: list[str] = field(default_factory=list)


def follow(
    templates: Sequence[tuple[str, ParsedTemplate]], has_namesakes: Callable[[str], bool]
) -> ChartFindings:
    """Judge the templates of one chart and its subcharts together.

    Args:
        templates: each with its path.
        has_namesakes: whether two of a chart's files whose paths begin so have one name.
    """
    return _Flow(templates, has_namesakes).run()


class _Flow:
    def __init__(
        self, templates: Sequence[tuple[str, ParsedTemplate]], has_namesakes: Callable[[str], bool]
    ) -> None:
        self._has_namesakes = has_namesakes
        self._scopes: list[_Scope] = []
        self._named: dict[str, list[_Scope]] = {}
        self._texts: dict[tuple[str, int, str], list[_Scope]] = {}
        self._reasons: dict[str, None] = {}
        self._literals: dict[str, None] = {}
        self._changed = False
        self._rounds = self._steps = 0
        for path, template in templates:
            self._add(path, template, ROOT)

    def run(self) -> ChartFindings:
        while self._rounds < _ROUNDS and self._steps < _STEPS and self._changed:
            self._rounds += 1
            self._changed = False
            self._reasons.clear()
            for scope in tuple(self._scopes):
                self._walk(scope, scope.body, scope.dot)
        if self._changed or self._steps >= _STEPS:
            self._reasons["the objects that its templates pass on can't be followed"] = None
        return ChartFindings(list(self._reasons)[:MAX_REASONS], list(self._literals))

    def _add(self, path: str, template: ParsedTemplate, dot: Value) -> list[_Scope]:
        added = [_Scope(path, template.body, dot=dot)]
        added += [_Scope(path, body, name) for name, body in template.defined]
        self._scopes += added
        for scope in added[1:]:
            self._named.setdefault(scope.name or "", []).append(scope)
        self._changed = True
        return added

    def _report(self, scope: _Scope, line: int, what: str) -> None:
        if len(self._reasons) < MAX_REASONS:
            self._reasons[f"{scope.path}:{line}: {what}"] = None

    def _walk(self, scope: _Scope, body: Body, dot: Value) -> None:
        for node in body:
            self._steps += 1
            if self._steps >= _STEPS:
                return
            if isinstance(node, ActionNode):
                value = self._pipe(scope, node.pipe, dot)
                if value is not None and not node.pipe.variables:
                    self._report(scope, node.pipe.line, _PRINTED)
            elif isinstance(node, Invocation):
                passed = self._pipe(scope, node.pipe, dot) if node.pipe else None
                self._pass_on(Literal(node.name), passed)
            else:
                self._control(scope, node, dot)

    def _control(self, scope: _Scope, control: Control, dot: Value) -> None:
        for branch in control.branches:
            below = dot
            if branch.pipe is not None:
                is_range = branch.kind == "range"
                value = self._pipe(scope, branch.pipe, dot, is_range=is_range)
                if branch.kind != "if":
                    below = value
            self._walk(scope, branch.body, below)

    def _pipe(self, scope: _Scope, pipe: Pipe, dot: Value, *, is_range: bool = False) -> Value:
        value: Value = None
        for at, command in enumerate(pipe.commands):
            piped = (value,) if at else ()
            value = self._command(scope, command, dot, piped)
            if value is not None and value.is_unordered:
                self._report(scope, command.line, _ORDER)
        if is_range:
            value = allowed.element(value)
        for at, name in enumerate(pipe.variables):
            is_index = is_range and len(pipe.variables) == 2 and at == 0
            self._assign(scope, name, None if is_index else value)
        return value

    def _assign(self, scope: _Scope, name: str, value: Value) -> None:
        before = scope.variables.get(name)
        scope.variables[name] = after = allowed.join_values((before, value))
        self._changed |= before != after

    def _command(
        self, scope: _Scope, command: Command, dot: Value, piped: tuple[Value, ...]
    ) -> Value:
        first, others = command.operands[0], command.operands[1:]
        values = [self._operand(scope, one, dot, command.line) for one in others]
        values += piped
        if isinstance(first, FunctionName):
            return self._call(scope, _Called(first.name, others, values, command.line))
        value = self._operand(scope, first, dot, command.line)
        if values:
            name = first.fields[-1] if isinstance(first, Path) and first.fields else ""
            if name not in METHODS:
                what = f"the method {_cut(name)} isn't" if name else "a call of a value is not"
                self._report(scope, command.line, f"{what} known to give the same result each time")
            return None
        return value

    def _operand(self, scope: _Scope, operand: Operand, dot: Value, line: int) -> Value:
        if isinstance(operand, Literal):
            return None
        if isinstance(operand, Pipe):
            return self._pipe(scope, operand, dot)
        if isinstance(operand, FunctionName):
            return self._call(scope, _Called(operand.name, (), [], line))
        start = operand.start
        if isinstance(start, str):
            value = scope.dot if start == "$" else scope.variables.get(start)
            value = dot if start == "." else value
        else:
            value = self._operand(scope, start, dot, line)
        for name in operand.fields:
            value = allowed.field(value, name)
            if name in ("AsConfig", "AsSecrets"):
                self._steps += _STEPS_OF_FILES
                if self._steps < _STEPS and self._has_namesakes(_globbed(operand)):
                    what = f"{name} takes one of several files of one name, which is drawn"
                    self._report(scope, line, what)
        if value is not None and value.is_unordered:
            self._report(scope, line, _ORDER)
        return value

    def _call(self, scope: _Scope, called: _Called) -> Value:
        values, rule = called.values, FUNCTIONS.get(called.name)
        if rule is FunctionRule.SPECIAL:
            return _SPECIAL.get(called.name, _Flow._changed_dict)(self, scope, called)
        result: Value = None
        if rule is None:
            self._report(scope, called.line, objection(_cut(called.name)))
        elif rule is FunctionRule.PRINTS:
            self._require_plain(scope, called, values)
        elif rule is FunctionRule.POINTER:
            result = allowed.POINTER
        elif rule is FunctionRule.PASSES:
            result = allowed.join_values(values)
        elif rule is not FunctionRule.PURE:
            elements = allowed.join_values(map(allowed.element, values))
            if rule is FunctionRule.COLLECTS:
                result = allowed.shape({}, allowed.join_values((elements, *values)))
            else:
                result = allowed.join_values((elements, allowed.shape({}, elements)))
        return result

    def _require_plain(self, scope: _Scope, called: _Called, values: Iterable[Value]) -> None:
        if any(value is not None for value in values):
            self._report(scope, called.line, f"{called.name} {_PRINTED}")

    def _include(self, _scope: _Scope, called: _Called) -> Value:
        if len(called.values) > 1:
            self._pass_on(called.operand(0), called.values[1])
        return None

    def _entry(self, _scope: _Scope, called: _Called) -> Value:
        """``get`` and ``index``."""
        value = called.values[0] if called.values else None
        for at in range(1, len(called.values)):
            value = _entry(value, called.operand(at))
        return value

    def _dig(self, _scope: _Scope, called: _Called) -> Value:
        value = called.values[-1] if called.values else None
        for at in range(len(called.values) - 2):
            value = _entry(value, called.operand(at))
        return allowed.join_values((value, *called.values[-2:-1]))

    def _printf(self, scope: _Scope, called: _Called) -> Value:
        text = called.literal(0)
        if text is None:
            self._report(scope, called.line, "printf of a format that isn't literal")
        elif any(found[1] == "p" for found in _VERB.finditer(text)):
            self._report(scope, called.line, "printf of %p, which prints an address")
        self._require_plain(scope, called, called.values)
        return None

    def _tpl(self, scope: _Scope, called: _Called) -> Value:
        text = called.literal(0)
        if text is None:
            self._report(scope, called.line, "tpl of a text that isn't literal")
            return None
        key = (scope.path, called.line, text)
        if key not in self._texts:
            try:
                self._texts[key] = self._add(scope.path, parse(text, called.line), None)
            except TemplateSyntaxError as error:
                self._report(scope, error.line, f"tpl of a text that can't be parsed: {error}")
                return None
        self._grow(self._texts[key][0], called.values[1] if len(called.values) > 1 else None)
        return None

    def _required(self, _scope: _Scope, called: _Called) -> Value:
        """``required`` and ``fail``."""
        text = called.literal(0)
        if text and len(self._literals) < _MAX_LITERALS:
            self._literals[text[:_LITERAL_CHARACTERS]] = None
        return called.values[-1] if called.values else None

    def _dict(self, scope: _Scope, called: _Called) -> Value:
        fields: dict[str, Value] = {}
        other: Value = None
        for at in range(0, len(called.values) - 1, 2):
            key, value = called.literal(at), called.values[at + 1]
            self._require_plain(scope, called, called.values[at : at + 1])
            if key is not None:
                fields[key] = value
            else:
                other = allowed.join_values((other, value))
        if other is not None:  # it may be under any of the literal keys, too
            fields = {key: allowed.join_values((value, other)) for key, value in fields.items()}
        return allowed.shape(fields, other)

    def _changed_dict(self, scope: _Scope, called: _Called) -> Value:
        """The dictionary that ``set`` or a function of ``merge`` changes and returns."""
        values = called.values
        into = values[0] if values else None
        if called.name == "set":
            key = called.literal(1)
            value = values[2] if len(values) > 2 else None
            added = [allowed.shape({key: value} if key is not None else {}, value)]
        else:
            added = values[1:]
        result = allowed.join_values((into, *added))
        # The second dictionary may be merged into parts of the first, which others refer to.
        is_own = len(added) == 1 and _is_new(called.operand(0), is_deep=called.name != "set")
        if result != into and not is_own:
            what = f"{called.name} puts an object that holds pointers into a dictionary"
            self._report(scope, called.line, what)
        if called.name != "set":
            self._require_own(scope, called)
        return result

    def _require_own(self, scope: _Scope, called: _Called) -> None:
        """Report a ``merge`` into what may hold one dictionary at two places.

        It goes over keys in an order that is drawn, and changes such a dictionary twice. What it
        merges first becomes part of what it merges the rest into.
        """
        into = called.operands[: len(called.values) - 1]
        if not all(_is_new(one, is_deep=True) for one in into):
            what = "goes over keys in an order that is drawn; all but the last have to be deepCopy"
            self._report(scope, called.line, f"{called.name} {what} or dict of literals")

    def _pass_on(self, name: Operand | None, value: Value) -> None:
        """Pass a value to the templates that ``include`` or ``template`` may name."""
        if value is None:
            return
        literal = name.text if isinstance(name, Literal) else None
        found: Sequence[_Scope] = () if literal is None else self._named.get(literal, ())
        if not found and self._steps < _STEPS:  # a file's name, or a computed one
            self._steps += len(self._scopes)
            tail = _tail(name) if literal is None else literal.rpartition("/")[2]
            may_be = [one for one in self._scopes if literal is None or one.name is None]
            found = [one for one in may_be if (one.name or one.path).endswith(tail)]
        for scope in found:
            self._grow(scope, value)

    def _grow(self, scope: _Scope, value: Value) -> None:
        before = scope.dot
        scope.dot = allowed.join_values((before, value))
        self._changed |= scope.dot != before


@dataclass(frozen=True, slots=True)
class _Called:
    """A call of a function with its operands and their values; the last may come from a pipe."""

    name: str
    operands: tuple[Operand, ...]
    values: list[Value]
    line: int

    def operand(self, at: int) -> Operand | None:
        return self.operands[at] if at < len(self.operands) else None

    def literal(self, at: int) -> str | None:
        operand = self.operand(at)
        return operand.text if isinstance(operand, Literal) else None


_SPECIAL: Final = {
    "printf": _Flow._printf,
    "include": _Flow._include,
    "tpl": _Flow._tpl,
    "required": _Flow._required,
    "fail": _Flow._required,
    "dict": _Flow._dict,
    "get": _Flow._entry,
    "index": _Flow._entry,
    "dig": _Flow._dig,
}


def _entry(value: Value, key: Operand | None) -> Value:
    if isinstance(key, Literal) and key.text is not None:
        return allowed.field(value, key.text)
    return allowed.element(value)


def _only(operand: Operand | None) -> tuple[Operand, ...]:
    """The operands of a parenthesis with one command."""
    if isinstance(operand, Pipe) and len(operand.commands) == 1:
        return operand.commands[0].operands
    return ()


def _tail(name: Operand | None) -> str:
    """How a computed name of a template ends, as far as that is literal."""
    match _only(name):
        case (FunctionName("print"), *_, Literal(str(text))):
            return text
        case (FunctionName("printf"), Literal(str(text)), *_):
            return _VERB.split(text)[-1]
    return ""


def _is_new(operand: Operand | None, *, is_deep: bool) -> bool:
    """Whether a dictionary is made here, so that nothing else refers to it or what it holds."""
    match _only(operand):
        case (FunctionName(name), *_) if name in _COPIES:
            return True
        case (FunctionName("dict"), *operands):
            return not is_deep or all(
                isinstance(one, Literal) or _is_new(one, is_deep=True) for one in operands
            )
    return operand == FunctionName("dict")


def _globbed(path: Path) -> str:
    """The text with which the paths of ``.Files.Glob TEXT`` begin; empty where it isn't known."""
    match _only(path.start if isinstance(path.start, Pipe) else None):
        case (Path(_, (*_, "Glob")), Literal(str(pattern))):
            return re.split(r"[*?\[{\\!]", pattern, maxsplit=1)[0]
    return ""


def _cut(name: str) -> str:
    return name if len(name) <= _NAME_CHARACTERS else f"{name[:_NAME_CHARACTERS]}…"
