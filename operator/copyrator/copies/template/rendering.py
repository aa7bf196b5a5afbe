"""Jinja2 in rules: names of copies, and whole objects for each target namespace.

With ``spec.sources``, each text of the template gets the sources in the form that its place allows:
data of Secrets can be read only in the values of a Secret's data and stringData. In the data and
binaryData of a ConfigMap they can only be bundled (certificates), elsewhere not even that.

kind_fields.json, which hack/generate/kind_fields.py makes of an OpenAPI document, has the types of
the fields of Kubernetes' own kinds. A type is one of Kubernetes' own (``PodSpec``), ``string``,
``integer``, ``number``, ``boolean``, ``quantity``, ``int-or-string``, ``any``, ``[T`` (a list of T)
or ``{T`` (a map to T).
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from copyrator.api.rule_spec import RENDERED_TEXT, Place, RuleSpec, template_texts
from copyrator.api.text import check_object_name
from copyrator.copies.template.scope import (
    Entry,
    Findings,
    Meter,
    ObjectLimitError,
    Scope,
    TemplateError,
    Visibility,
    is_jinja,
    source_set,
)

if TYPE_CHECKING:
    import jinja2

    from copyrator.copies.template.compiling import CompiledText

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


def rule_texts(spec: RuleSpec) -> Iterator[tuple[Place, str]]:
    """The path and the text of every field of a rule that may contain Jinja2."""
    if spec.transform.name and is_jinja(spec.transform.name):
        yield (None, "spec.transform.name"), spec.transform.name
    if spec.template:
        for path, text in template_texts(spec.template.body, "spec.template"):
            if is_jinja(text):
                yield path, text


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
            from copyrator.copies.template.compiling import compile_text  # noqa: PLC0415 - Jinja2

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
        return str(self.value(context, meter or Meter()))

    def value(self, context: Mapping[str, Any], meter: Meter) -> Scalar:
        """The same; of a text that is one whole expression, a number or boolean as such.

        Raises:
            TemplateError: as `render`.
        """
        if self._template is None:
            return self.source
        import jinja2  # noqa: PLC0415 - with the module that compiled the text

        from copyrator.copies.template.compiling import ENVIRONMENT  # noqa: PLC0415
        from copyrator.copies.template.sandbox import readable_message  # noqa: PLC0415

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


class _TypedText:
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
        self.root: _Compiled = _compile(root, found, kind)
        self.names = frozenset(name for text in found.values() for name in text.names)

    def render(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """A new object.

        Raises:
            TemplateError: naming the string at fault.
        """
        meter = Meter()

        def text_of(text: Text) -> Scalar:
            return text.value(context, meter)

        rendered = _render_part(self.root, text_of)
        assert isinstance(rendered, dict)
        return rendered


_Compiled = Any
"""A compiled part: maps are lists of pairs and lists are tuples, to distinguish them."""


_TEXTS: Final = ("string", "quantity")
"""Types of fields that always get a text."""


def _compile(value: Any, found: dict[str, Text], wanted: str) -> Any:
    if isinstance(value, str):
        if not is_jinja(value):
            return value
        if value not in found:
            found[value] = Text(value)
        return found[value] if wanted in _TEXTS else _TypedText(found[value], wanted)
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


def _render_part(value: _Compiled, text_of: Callable[[Text], Scalar]) -> Any:
    """Render a compiled part, each text by a function.

    Raises:
        TemplateError: two keys of one map are the same.
    """
    if isinstance(value, Text):
        return str(text_of(value))
    if isinstance(value, _TypedText):
        return value.checked(text_of(value.text))
    if isinstance(value, list):
        result: dict[str, Any] = {}
        for key, item in value:
            _put(result, _render_part(key, text_of), _render_part(item, text_of))
        return result
    if isinstance(value, tuple):
        return [_render_part(item, text_of) for item in value]
    return value


def _put(result: dict[str, Any], name: str, value: Any) -> None:
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
    elif problem := check_object_name(name):
        raise TemplateError(problem)
    return name


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:79] + "…")


SOURCES: Final = "sources"
"""The variable."""
_VARYING: Final = frozenset({"namespace"})
"""Variables that differ from target to target."""


_PLACES: Final[Mapping[tuple[str, str], Visibility]] = {
    ("Secret", "data"): Visibility.CLEAR,
    ("Secret", "stringData"): Visibility.CLEAR,
    ("ConfigMap", "data"): Visibility.BUNDLES,
    ("ConfigMap", "binaryData"): Visibility.BUNDLES,
}
"""Of the values of a top-level field's map, by kind and field; their keys are HIDDEN."""


class Composing:
    """One reading of the sources, and what was rendered from it.

    Texts that don't depend on the target are rendered once.
    """

    def __init__(
        self, entries: Mapping[str, Entry], now: datetime, optional: Collection[str] = ()
    ) -> None:
        """Take the contents of all entries, and the names of those that are optional."""
        self.findings = Findings()
        self._entries = entries
        self._optional = optional
        self._now = now
        self._variables: dict[bool, Any] = {}
        self._rendered: dict[tuple[Text, Visibility], Scalar | TemplateError] = {}

    def render(self, tree: Tree, kind: str, variables: Mapping[str, Any]) -> dict[str, Any]:
        """A new object for one target.

        Raises:
            TemplateError: naming the string at fault.
        """
        meter = Meter()

        def at(place: Visibility) -> Callable[[Text], Scalar]:
            return lambda text: self._text(text, place, variables, meter)

        hidden = at(Visibility.HIDDEN)
        result: dict[str, Any] = {}
        for key, value in tree.root:
            name = _render_part(key, hidden)
            place = _PLACES.get((kind, key)) if isinstance(key, str) else None
            if place is None or not isinstance(value, list):
                _put(result, name, _render_part(value, hidden))
            else:
                _put(result, name, _values(value, hidden, at(place)))
        if kind == "Secret":
            _check_base64(result.get("data"))
        return result

    def _text(
        self, text: Text, place: Visibility, variables: Mapping[str, Any], meter: Meter
    ) -> Scalar:
        """One text, from what was rendered for an earlier target where that is the same."""
        if text.names & _VARYING:
            return self._render(text, place, variables, meter)
        known = self._rendered.get((text, place))
        if known is None:
            try:
                known = self._render(text, place, variables, meter)
            except ObjectLimitError:
                raise  # not the text's own fault: other targets' texts before it may take less
            except TemplateError as error:
                known = error
            self._rendered[text, place] = known
        elif not isinstance(known, TemplateError):
            meter.put_out(str(known))
        if isinstance(known, TemplateError):
            raise TemplateError(str(known))
        return known

    def _render(
        self, text: Text, place: Visibility, variables: Mapping[str, Any], meter: Meter
    ) -> Scalar:
        meter.scope = Scope(self._now, self.findings, place)
        return text.value({**variables, SOURCES: self._sources(place is Visibility.CLEAR)}, meter)

    def _sources(self, clear: bool) -> Any:
        if clear not in self._variables:
            self._variables[clear] = source_set(self._entries, clear=clear, optional=self._optional)
        return self._variables[clear]


def _values(
    pairs: list[tuple[_Compiled, _Compiled]],
    hidden: Callable[[Text], Scalar],
    shown: Callable[[Text], Scalar],
) -> dict[str, Any]:
    """A map whose values may be more than its keys; what is nested in a value may not."""
    result: dict[str, Any] = {}
    for key, value in pairs:
        form = shown if isinstance(value, Text | _TypedText) else hidden
        _put(result, _render_part(key, hidden), _render_part(value, form))
    return result


def _check_base64(data: Any) -> None:
    """Refuse what the API server would refuse with a message that quotes a part of it."""
    if data is None:
        return
    if not isinstance(data, Mapping):
        raise TemplateError("data of a Secret must be a map")
    for key, value in data.items():
        if not isinstance(value, str):
            raise TemplateError(f"data.{key} of a Secret must be a text in base64")
        try:
            base64.b64decode(value.encode("ascii"), validate=True)
        except (UnicodeEncodeError, binascii.Error):
            raise TemplateError(
                f"data.{key} of a Secret isn't base64; add the filter b64encode, or use stringData"
            ) from None
