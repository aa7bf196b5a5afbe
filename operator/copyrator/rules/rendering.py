"""Jinja2 in rules: names of copies, and whole objects for each target namespace.

Sandboxed and strict: an unknown name is an error on that target, never an empty string, and no
template can reach Python's internals or build a string that eats the memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import jinja2
from jinja2 import meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from copyrator.api import syntax

MAX_RESULT: Final = 1_048_576
"""Characters that one rendered string may have: more than an object may hold."""


_PATH_SEGMENT_KINDS: Final = ("Role", "RoleBinding")
"""RBAC's names may hold anything that a path segment may, such as ``system:``."""


class TemplateError(Exception):
    """A template that couldn't be rendered for a target; the message is for its author."""


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Refuse the products that would fill the memory: ``"x" * 10**9``."""
        if operator == "**":
            raise TemplateError("powers aren't allowed in templates")
        for one, other in ((left, right), (right, left)):
            repeats = isinstance(one, str | list | tuple) and isinstance(other, int)
            if repeats and len(one) * other > MAX_RESULT:
                raise TemplateError("the result of a product is too large")
        return super().call_binop(context, operator, left, right)


_ENVIRONMENT = _Environment(
    undefined=jinja2.StrictUndefined, autoescape=False, keep_trailing_newline=True
)
# Jinja2 has a global function of the name `namespace`, which would hide that ours is asked for.
_ENVIRONMENT.globals = {"range": _ENVIRONMENT.globals["range"]}


class Text:
    """One compiled string. Constant where it holds no Jinja2 at all."""

    __slots__ = ("_template", "names", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self._template: jinja2.Template | None = None
        self.names: frozenset[str] = frozenset()
        if "{" in source:
            try:
                parsed = _ENVIRONMENT.parse(source)
                self.names = frozenset(meta.find_undeclared_variables(parsed))
                self._template = _ENVIRONMENT.from_string(source)
            except (jinja2.TemplateError, RecursionError) as error:
                raise TemplateError(f"{_shown(source)} is no valid Jinja2: {error}") from None

    def render(self, context: Mapping[str, Any]) -> str:
        """Fill in the context.

        Raises:
            TemplateError: an unknown name, a forbidden operation, or any other fault of the text.
        """
        if self._template is None:
            return self.source
        try:
            result = self._template.render(context)
        except TemplateError as error:
            raise TemplateError(f"{_shown(self.source)}: {error}") from None
        except Exception as error:
            # Filters raise whatever they like; only jinja2's own messages are free of values.
            told = str(error) if isinstance(error, jinja2.TemplateError) else type(error).__name__
            raise TemplateError(f"{_shown(self.source)}: {told}") from None
        if len(result) > MAX_RESULT:
            raise TemplateError(f"{_shown(self.source)}: the result is too large")
        return result


class Tree:
    """A whole object whose strings, keys included, may hold Jinja2; compiled once."""

    __slots__ = ("_root", "names")

    def __init__(self, root: Mapping[str, Any]) -> None:
        found: set[str] = set()
        self._root = _compile(root, found)
        self.names = frozenset(found)

    def render(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """A new object.

        Raises:
            TemplateError: naming the string at fault.
        """
        rendered = _render(self._root, context)
        assert isinstance(rendered, dict)
        return rendered


def _compile(value: Any, found: set[str]) -> Any:
    if isinstance(value, str):
        text = Text(value)
        found |= text.names
        return text if text.names or "{" in value else value
    if isinstance(value, Mapping):
        return [(_compile(str(key), found), _compile(item, found)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return tuple(_compile(item, found) for item in value)
    return value


def _render(value: Any, context: Mapping[str, Any]) -> Any:
    """Maps were compiled to lists of pairs and lists to tuples, to be told apart here."""
    if isinstance(value, Text):
        return value.render(context)
    if isinstance(value, list):
        result: dict[str, Any] = {}
        for key, item in value:
            name = _render(key, context)
            if name in result:
                raise TemplateError(f"two keys of one map are rendered to {_shown(name)}")
            result[name] = _render(item, context)
        return result
    if isinstance(value, tuple):
        return [_render(item, context) for item in value]
    return value


def namespace_context(
    name: str, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> dict[str, Any]:
    """What ``namespace`` means in a template."""
    return {"name": name, "labels": dict(labels), "annotations": dict(annotations)}


def source_context(metadata: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """What ``source`` means in a template: metadata only, never data."""
    return {
        "kind": kind,
        "name": metadata.get("name", ""),
        "namespace": metadata.get("namespace", ""),
        "labels": dict(metadata.get("labels") or {}),
        "annotations": dict(metadata.get("annotations") or {}),
    }


def checked_name(name: str, kind: str) -> str:
    """A rendered name that the API server will take as the name of an object of this kind.

    Raises:
        TemplateError: it won't.
    """
    if kind in _PATH_SEGMENT_KINDS:
        if not name or name in (".", "..") or "/" in name or "%" in name or len(name) > 253:
            raise TemplateError(f"{_shown(name)} is no name of a {kind}")
    elif problem := syntax.object_name(name):
        raise TemplateError(problem)
    return name


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:79] + "…")
