"""Jinja2 in rules: names of copies, and whole objects for each target namespace.

The types of the fields of Kubernetes' own namespaced kinds, for templates.

They come from kind_fields.json, which hack/generate/kind_fields.py makes of an OpenAPI document. A
type is one of Kubernetes' own (``PodSpec``), ``string``, ``integer``, ``number``, ``boolean``,
``quantity``, ``int-or-string``, ``any``, ``[T`` (a list of T) or ``{T`` (a map to T).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import jinja2

from copyrator.api import syntax
from copyrator.copies.template.compiling import ENVIRONMENT, CompiledText, compile_text, is_jinja
from copyrator.copies.template.meter import Meter, TemplateError
from copyrator.copies.template.sandbox import readable_message
from copyrator.settings.limits import RENDERED_TEXT

ANY: Final = "any"
UNKNOWN_KIND: Final = "?"
"""The type of an object of a kind that isn't Kubernetes' own."""

_CUSTOM: Final[Mapping[str, str]] = {
    "metadata": "ObjectMeta",
    "labels": "{string",
    "annotations": "{string",
    "matchLabels": "{string",
    "nodeSelector": "{string",
    "env": "[EnvVar",
    "command": "[string",
    "args": "[string",
}
"""Fields that have these types wherever custom resources have them, by convention."""


@cache
def _known() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(
        Path(__file__).with_name("kind_fields.json").read_text(encoding="utf-8")
    )
    return found


def type_of(api_version: Any, kind: Any) -> str:
    """The type of a whole object."""
    return str(_known()["kinds"].get(f"{api_version}/{kind}", UNKNOWN_KIND))


def field_type(parent: str, field: str) -> str | None:
    """The type of a field in a value of a type; None: the type hasn't got this field."""
    if parent.startswith("{"):
        return parent[1:]
    fields = fields_of(parent)
    if fields is None:
        return _CUSTOM.get(field, ANY)
    return fields.get(field)


def item_type(parent: str) -> str:
    """The type of the items of a list."""
    return parent[1:] if parent.startswith("[") else ANY


def fields_of(name: str) -> Mapping[str, str] | None:
    """All fields of one of Kubernetes' types; None: it is another type."""
    found: Mapping[str, str] | None = _known()["types"].get(name)
    return found


_TEXT_STEPS: Final = 20
"""Steps for starting and ending the rendering of one text."""

_PATH_SEGMENT_KINDS: Final = ("Role", "RoleBinding")
"""RBAC's names may contain anything that a path segment may, such as ``system:``."""


Scalar = str | int | float | bool
"""What a text may be rendered to."""


class Text:
    """One text. Constant where it contains no Jinja2."""

    __slots__ = ("_steps", "_template", "names", "source")

    def __init__(self, source: str, compiled: CompiledText | None = None) -> None:
        """Take a text, compiled or to be compiled now.

        Raises:
            TemplateError: it isn't valid Jinja2.
        """
        self.source = source
        self._template: jinja2.Template | None = None
        self.names: frozenset[str] = frozenset()
        self._steps = 0
        if is_jinja(source):
            try:
                compiled = compiled or compile_text(source)
            except TemplateError as error:
                raise TemplateError(f"{_shown(source)} {error}") from None
            self.names = compiled.names
            self._steps = compiled.steps + _TEXT_STEPS
            self._template = compiled.load()

    def render(self, context: Mapping[str, Any], meter: Meter | None = None) -> str:
        """Render it; ``meter`` is the object's where the text is one of many.

        Raises:
            TemplateError: an unknown name, a forbidden operation, or any other fault of the text.
        """
        return as_text(self.value(context, meter or Meter()))

    def value(self, context: Mapping[str, Any], meter: Meter) -> Scalar:
        """The same; of a text that is one whole expression, a number or boolean as such.

        Raises:
            TemplateError: as `render`.
        """
        if self._template is None:
            return self.source
        ENVIRONMENT.meter = meter
        meter.whole = None
        try:
            meter.take(self._steps)
            result = self._template.render(context)
        except TemplateError as error:
            raise type(error)(f"{_shown(self.source)}: {error}") from None
        except Exception as error:
            # Filters raise any exception; only jinja2's own messages are free of values, and those
            # may quote a key that was computed from one.
            told = str(error) if isinstance(error, jinja2.TemplateError) else type(error).__name__
            if isinstance(error, jinja2.UndefinedError):
                told = readable_message(told, self.source, context, reveals=meter.reveals)
            elif meter.reveals:
                told = type(error).__name__
            raise TemplateError(f"{_shown(self.source)}: {told}") from None
        if len(result) > RENDERED_TEXT:
            raise TemplateError(f"{_shown(self.source)}: the result is too large")
        meter.put_out(result)
        return result if meter.whole is None else meter.whole


def as_text(value: Scalar) -> str:
    """As Jinja2 writes it."""
    return value if isinstance(value, str) else str(value)


class TypedText:
    """A text at a place that may have, or needs, a number or boolean."""

    __slots__ = ("text", "wanted")

    def __init__(self, text: Text, wanted: str) -> None:
        self.text = text
        self.wanted = wanted
        """The field's type."""

    def checked(self, value: Scalar) -> Scalar:
        """What the field gets.

        Raises:
            TemplateError: a number that JSON, or the API server, can't hold.
        """
        if isinstance(value, str | bool):
            return value
        if not math.isfinite(value):
            raise TemplateError(f"{_shown(self.text.source)}: the result is {value}")
        if self.wanted == "integer" and value == int(value):
            value = int(value)  # the operator / always makes a fraction
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise TemplateError(f"{_shown(self.text.source)}: the result has over 64 bits")
        return value


NO_TEXTS: Final[Mapping[str, Text]] = {}


class Tree:
    """A whole object whose strings, keys included, may contain Jinja2; compiled once."""

    __slots__ = ("names", "root")

    def __init__(self, root: Mapping[str, Any], texts: Mapping[str, Text] = NO_TEXTS) -> None:
        """Take an object; texts that aren't among the ``texts`` are compiled now.

        Raises:
            TemplateError: one isn't valid Jinja2.
        """
        found = dict(texts)
        kind = type_of(root.get("apiVersion"), root.get("kind"))
        self.root: Compiled = _compile(root, found, kind)
        self.names = frozenset(name for text in found.values() for name in text.names)

    def render(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """A new object.

        Raises:
            TemplateError: naming the string at fault.
        """
        meter = Meter()

        def text_of(text: Text) -> Scalar:
            return text.value(context, meter)

        rendered = render_part(self.root, text_of)
        assert isinstance(rendered, dict)
        return rendered


Compiled = Any
"""A compiled part: maps are lists of pairs and lists are tuples, to distinguish them."""


_TEXTS: Final = ("string", "quantity")
"""Types of fields that always get a text."""


def _compile(value: Any, found: dict[str, Text], wanted: str) -> Any:
    if isinstance(value, str):
        if not is_jinja(value):
            return value
        if value not in found:
            found[value] = Text(value)
        return found[value] if wanted in _TEXTS else TypedText(found[value], wanted)
    if isinstance(value, Mapping):
        return [
            (
                _compile(str(key), found, "string"),
                _compile(item, found, field_type(wanted, str(key)) or ANY),
            )
            for key, item in value.items()
        ]
    if isinstance(value, list | tuple):
        return tuple(_compile(item, found, item_type(wanted)) for item in value)
    return value


def render_part(value: Compiled, text_of: Callable[[Text], Scalar]) -> Any:
    """Render a compiled part, each text by a function.

    Raises:
        TemplateError: two keys of one map are the same.
    """
    if isinstance(value, Text):
        return as_text(text_of(value))
    if isinstance(value, TypedText):
        return value.checked(text_of(value.text))
    if isinstance(value, list):
        result: dict[str, Any] = {}
        for key, item in value:
            put(result, render_part(key, text_of), render_part(item, text_of))
        return result
    if isinstance(value, tuple):
        return [render_part(item, text_of) for item in value]
    return value


def put(result: dict[str, Any], name: str, value: Any) -> None:
    """Add a rendered key to a map.

    Raises:
        TemplateError: it is there already.
    """
    if name in result:
        raise TemplateError(f"two keys of one map are rendered to {_shown(name)}")
    result[name] = value


def namespace_context(
    name: str, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> dict[str, Any]:
    """The variable ``namespace`` of a template."""
    return {"name": name, "labels": dict(labels), "annotations": dict(annotations)}


def source_context(metadata: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The variable ``source`` of a template: metadata only, never data."""
    return {
        "kind": kind,
        "name": metadata.get("name", ""),
        "namespace": metadata.get("namespace", ""),
        "labels": dict(metadata.get("labels") or {}),
        "annotations": dict(metadata.get("annotations") or {}),
    }


def checked_name(name: str, kind: str) -> str:
    """A rendered name that the API server accepts as the name of an object of this kind.

    Raises:
        TemplateError: it doesn't.
    """
    if kind in _PATH_SEGMENT_KINDS:
        if not name or name in (".", "..") or "/" in name or "%" in name or len(name) > 253:
            raise TemplateError(f"{_shown(name)} isn't a valid name of a {kind}")
    elif problem := syntax.object_name(name):
        raise TemplateError(problem)
    return name


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:79] + "…")
