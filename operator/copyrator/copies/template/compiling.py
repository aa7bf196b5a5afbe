"""Compiles Jinja2 texts to code that counts its own work.

A text is parsed, its tree is changed so that loops, macros and operations that make long values
call the meter, and Python code is generated. None of this executes anything in the text.

Jinja2 takes 2 MB, so this module is imported for the first rule that has any.

A tenant's text, for names of copies, is processed in a process that serves all tenants. So that
nothing in it can take long or make long texts, its allowed parts are listed here: known variables
and a few filters. All else is refused before it is compiled.
"""

from __future__ import annotations

import marshal
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final

import jinja2
from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from copyrator.api.text import meant
from copyrator.copies.template import sandbox
from copyrator.copies.template.scope import TemplateError, is_jinja

ENVIRONMENT: Final = sandbox.SandboxEnvironment()
"""Rendering sets its meter; nothing else of it changes."""
_UNKNOWN: Final = re.compile(r"No (filter|test) named '([^']*)'\.")
"""Source: jinja2.compiler.CodeGenerator."""

_STATEMENTS: Final[dict[type[nodes.Node], str]] = {
    nodes.Extends: "extends",
    nodes.Include: "include",
    nodes.Import: "import",
    nodes.FromImport: "import",
    nodes.ScopedEvalContextModifier: "autoescape",
    nodes.EvalContextModifier: "autoescape",
}
"""There is nothing to import from, and the argument of autoescape would be evaluated at once."""


@dataclass(frozen=True, slots=True)
class CompiledText:
    """A text as code; may be made by another process with the same Python."""

    names: frozenset[str]
    """Names that it reads."""
    steps: int
    """Steps outside of loops and macros."""
    code: bytes
    """Marshalled."""

    def load(self) -> jinja2.Template:
        """The template, ready to be rendered."""
        code: CodeType = marshal.loads(self.code)  # noqa: S302 - made by compile_text
        return jinja2.Template.from_code(ENVIRONMENT, code, ENVIRONMENT.globals)


def compile_text(text: str) -> CompiledText:
    """Compile one text.

    Raises:
        TemplateError: it is not valid Jinja2, or it can't be compiled.
    """
    try:
        tree = ENVIRONMENT.parse(text)
        names = frozenset(name.name for name in tree.find_all(nodes.Name) if name.ctx == "load")
        steps = _count(tree)
        _Metering(steps).visit(tree)
        if (whole := whole_expression(tree)) is not None:
            output = tree.body[0]
            assert isinstance(output, nodes.Output)
            output.nodes = [_through(whole, sandbox.WHOLE)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's, about code such as 1[0]
            code = ENVIRONMENT.compile(tree)
        return CompiledText(names, steps[id(tree)].steps, marshal.dumps(code))
    except jinja2.TemplateSyntaxError as error:
        said = str(error)
        if (unknown := _UNKNOWN.fullmatch(said)) is not None:
            what, word = unknown.groups()
            known = ENVIRONMENT.filters if what == "filter" else ENVIRONMENT.tests
            said = f"{said.removesuffix('.')}{meant(word, known)}"
        raise TemplateError(f"isn't valid Jinja2: {said}") from None
    except TemplateError:
        raise
    except RecursionError:
        raise TemplateError("isn't valid Jinja2: it is nested too deeply") from None
    except MemoryError:
        raise TemplateError("isn't valid Jinja2: it takes too much memory") from None
    except ValueError:
        raise TemplateError(
            "isn't valid Jinja2: it has a number with thousands of digits"
        ) from None
    except Exception as error:
        # Python's compiler has limits of its own: 20 nested blocks, for one.
        why = error.msg if isinstance(error, SyntaxError) else type(error).__name__
        raise TemplateError(f"isn't valid Jinja2: Python can't compile it: {why}") from None


def whole_expression(tree: nodes.Template) -> nodes.Expr | None:
    """The expression of a text that is exactly one ``{{ … }}``."""
    if len(tree.body) != 1 or not isinstance(tree.body[0], nodes.Output):
        return None
    found = tree.body[0].nodes
    return None if len(found) != 1 or isinstance(found[0], nodes.TemplateData) else found[0]


def compile_texts(texts: Iterable[str]) -> dict[str, CompiledText | str]:
    """Compile many, in another process; a text's error takes the place of its code."""
    found: dict[str, CompiledText | str] = {}
    for text in texts:
        try:
            found[text] = compile_text(text)
        except TemplateError as error:
            found[text] = str(error)
    return found


# What a tree costs ------------------------------------------------------------------------------


@dataclass(slots=True)
class _Cost:
    """Of a node with what it holds, without the bodies of loops and macros in it."""

    steps: int = 0
    characters: int = 0


def _count(root: nodes.Node) -> dict[int, _Cost]:
    """The cost of each body that may run several times, and of the whole tree, by the node's id."""
    found: dict[int, _Cost] = {}
    pending: list[tuple[nodes.Node, _Cost]] = [(root, found.setdefault(id(root), _Cost()))]
    while pending:
        node, cost = pending.pop()
        if isinstance(node, nodes.TemplateData):
            cost.characters += len(node.data)
        elif not isinstance(node, nodes.Output):  # which counts its own output
            cost.steps += 1
        if isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name):
            continue
        inner = cost
        if isinstance(node, nodes.For | nodes.Macro | nodes.CallBlock | nodes.Block):
            inner = found.setdefault(id(node), _Cost(steps=1))
        once = node.iter if isinstance(node, nodes.For) else None
        pending += [(child, cost if child is once else inner) for child in node.iter_child_nodes()]
    return found


class _Metering(NodeTransformer):
    """Inserts calls of the meter into a tree."""

    def __init__(self, costs: dict[int, _Cost]) -> None:
        self._costs = costs

    def visit(self, node: nodes.Node, *_args: Any, **_kwargs: Any) -> Any:
        """Change a node and its children; refuse what rules can't use."""
        if word := _STATEMENTS.get(type(node)):
            raise TemplateError(f"isn't valid Jinja2: {word} isn't available in rules")
        self.generic_visit(node)
        change = _CHANGES.get(type(node))
        return change(self, node) if change else node

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        """A node that needs no change, except what it passes on with * and **."""
        super().generic_visit(node, *args, **kwargs)
        for field, filter_ in (("dyn_args", sandbox.ITEMS), ("dyn_kwargs", sandbox.WEIGHED)):
            if getattr(node, field, None) is not None:
                setattr(node, field, _through(getattr(node, field), filter_))
        return node

    def _for(self, node: nodes.For) -> nodes.Node:
        """Each iteration costs as much as the body."""
        cost = self._costs[id(node)]
        node.iter = _through(node.iter, sandbox.LOOP, cost.steps, cost.characters)
        if node.recursive:
            self._charge(node, cost)
        return node

    def _macro(self, node: nodes.Macro | nodes.CallBlock | nodes.Block) -> nodes.Node:
        """Each call costs as much as the body."""
        self._charge(node, self._costs[id(node)])
        return node

    def _charge(self, node: Any, cost: _Cost) -> None:
        counted = _through(nodes.Const(cost.steps), sandbox.CHARGE, cost.characters)
        node.body.insert(0, nodes.ExprStmt(counted, lineno=node.lineno, environment=ENVIRONMENT))

    def _concat(self, node: nodes.Concat) -> nodes.Node:
        """``a ~ b``."""
        return _through(nodes.List(node.nodes), sandbox.CONCAT, line=node.lineno)

    def _compare(self, node: nodes.Compare) -> nodes.Node:
        """Comparing values reads all of them."""
        first, *others = node.ops
        if first.op in ("in", "notin") and not others:
            found = _through(first.expr, sandbox.CONTAINS, node.expr, line=node.lineno)
            return found if first.op == "in" else nodes.Not(found, lineno=node.lineno)
        if any(operand.op in ("in", "notin") for operand in node.ops):
            raise TemplateError("isn't valid Jinja2: put each comparison with in into parentheses")
        node.expr = _weighed(node.expr)
        for operand in node.ops:
            operand.expr = _weighed(operand.expr)
        return node

    def _getitem(self, node: nodes.Getitem) -> nodes.Node:
        """An item is a new value, and the key is read."""
        if isinstance(node.arg, nodes.Slice):
            return _through(node, sandbox.SLICED)
        node.arg = _weighed(node.arg)
        return node

    def _pair(self, node: nodes.Pair) -> nodes.Node:
        """A key of a map is read."""
        node.key = _weighed(node.key)
        return node


_CHANGES: Final[Mapping[type[nodes.Node], Callable[[_Metering, Any], nodes.Node]]] = {
    nodes.For: _Metering._for,
    nodes.Macro: _Metering._macro,
    nodes.CallBlock: _Metering._macro,
    nodes.Block: _Metering._macro,
    nodes.Concat: _Metering._concat,
    nodes.Compare: _Metering._compare,
    nodes.Getitem: _Metering._getitem,
    nodes.Pair: _Metering._pair,
}


def _weighed(node: nodes.Expr) -> nodes.Expr:
    return node if isinstance(node, nodes.Const) else _through(node, sandbox.WEIGHED)


def _through(node: nodes.Node, name: str, *args: Any, line: int | None = None) -> nodes.Filter:
    """The node, wrapped in one of our filters."""
    given = [one if isinstance(one, nodes.Expr) else nodes.Const(one) for one in args]
    made = nodes.Filter(node, name, given, [], None, None, lineno=line or node.lineno or 1)
    return made.set_environment(ENVIRONMENT)  # type: ignore[return-value] # itself


TENANT_FILTERS: Final = ("d", "default", "lower", "replace", "trim", "truncate", "upper")
"""Filters that a tenant's name may use, with constants as arguments."""

TENANT_VARIABLES: Final = ("namespace", "rule", "source")
"""Variables that a tenant's name may use."""

_HINT: Final = (
    f"outside the operator's namespace it may contain {', '.join(TENANT_VARIABLES)} with their "
    f"fields and the filters {', '.join(TENANT_FILTERS)}"
)

_ALLOWED: Final = (
    nodes.Const,
    nodes.Filter,
    nodes.Getattr,
    nodes.Getitem,
    nodes.Keyword,
    nodes.Name,
    nodes.Output,
    nodes.TemplateData,
)

_WORDS: Final[dict[type[nodes.Node], str]] = {
    nodes.Call: "a call",
    nodes.CondExpr: "a condition",
    nodes.Compare: "a comparison",
    nodes.Concat: "the operator ~",
    nodes.For: "a loop",
    nodes.If: "a condition",
    nodes.Macro: "a macro",
    nodes.Test: "a test",
    nodes.Assign: "set",
    nodes.AssignBlock: "set",
    nodes.List: "a list",
    nodes.Tuple: "a list",
    nodes.Dict: "a map",
}


def name_refusal(text: str) -> str | None:
    """Why a tenant's rule may not have this ``spec.transform.name``, or None.

    What isn't valid Jinja2 is left to the compiler, which reports the error.
    """
    if not is_jinja(text):
        return None
    try:
        tree = ENVIRONMENT.parse(text)
    except (jinja2.TemplateError, ValueError, RecursionError):
        return None
    pending: list[nodes.Node] = list(tree.iter_child_nodes())
    while pending:
        node = pending.pop()
        if (fault := _fault(node)) is not None:
            return f"spec.transform.name uses {fault}: {_HINT}"
        pending += node.iter_child_nodes()
    return None


def _fault(node: nodes.Node) -> str | None:
    """What of this node, without its children, isn't allowed; None where all is."""
    fault = None
    match node:
        case nodes.Name(name=name) if name not in TENANT_VARIABLES:
            fault = f"the name {name[:40]!r}"
        case nodes.Const(value=value) if not isinstance(value, str | int):
            fault = "a number with a fraction"
        case nodes.Getitem() if not isinstance(node.arg, nodes.Const):
            fault = "a part that isn't named by a constant"
        case nodes.Filter(name=name) if name not in TENANT_FILTERS:
            fault = f"the filter {str(name)[:40]!r}"
        case nodes.Filter() if node.node is None or not _has_constants(node):
            fault = "a filter whose arguments aren't constants"
        case nodes.BinExpr() | nodes.UnaryExpr():
            fault = _WORDS.get(type(node), "an operator")
        case _ if not isinstance(node, _ALLOWED):
            fault = _WORDS.get(type(node), type(node).__name__)
    return fault


def _has_constants(node: nodes.Filter) -> bool:
    values = [*node.args, *(keyword.value for keyword in node.kwargs)]
    return (
        node.dyn_args is None
        and node.dyn_kwargs is None
        and all(isinstance(value, nodes.Const) for value in values)
    )
