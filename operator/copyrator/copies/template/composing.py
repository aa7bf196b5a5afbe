"""Renders the objects of a rule's template from the contents of ``spec.sources``.

Each text of the template gets the sources in the form that its place allows: data of Secrets can be
read only in the values of a Secret's data and stringData. In the data of a ConfigMap they can only
be bundled (certificates), elsewhere not even that.
"""

from __future__ import annotations

import base64
import binascii
import enum
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any, Final

from copyrator.copies.template.meter import Findings, Meter, ObjectLimitError, Scope, TemplateError
from copyrator.copies.template.rendering import (
    Compiled,
    Scalar,
    Text,
    Tree,
    TypedText,
    as_text,
    put,
    render_part,
)
from copyrator.copies.template.values import Entry, source_set

SOURCES: Final = "sources"
"""The variable."""
_VARYING: Final = frozenset({"namespace"})
"""Variables that differ from target to target."""


class Visibility(enum.Enum):
    """What may come out at a place of the object."""

    HIDDEN = "hidden"
    """No data of Secrets."""
    BUNDLES = "bundles"
    """Of Secrets, certificates only."""
    CLEAR = "clear"
    """Everything."""


_PLACES: Final[Mapping[tuple[str, str], Visibility]] = {
    ("Secret", "data"): Visibility.CLEAR,
    ("Secret", "stringData"): Visibility.CLEAR,
    ("ConfigMap", "data"): Visibility.BUNDLES,
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
            name = render_part(key, hidden)
            place = _PLACES.get((kind, key)) if isinstance(key, str) else None
            if place is None or not isinstance(value, list):
                put(result, name, render_part(value, hidden))
            else:
                put(result, name, _values(value, hidden, at(place)))
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
            meter.put_out(as_text(known))
        if isinstance(known, TemplateError):
            raise TemplateError(str(known))
        return known

    def _render(
        self, text: Text, place: Visibility, variables: Mapping[str, Any], meter: Meter
    ) -> Scalar:
        meter.scope = Scope(
            self._now,
            self.findings,
            reveals=place is Visibility.CLEAR,
            bundles=place is Visibility.BUNDLES,
        )
        return text.value({**variables, SOURCES: self._sources(place is Visibility.CLEAR)}, meter)

    def _sources(self, clear: bool) -> Any:
        if clear not in self._variables:
            self._variables[clear] = source_set(self._entries, clear=clear, optional=self._optional)
        return self._variables[clear]


def _values(
    pairs: list[tuple[Compiled, Compiled]],
    hidden: Callable[[Text], Scalar],
    shown: Callable[[Text], Scalar],
) -> dict[str, Any]:
    """A map whose values may be more than its keys; what is nested in a value may not."""
    result: dict[str, Any] = {}
    for key, value in pairs:
        form = shown if isinstance(value, Text | TypedText) else hidden
        put(result, render_part(key, hidden), render_part(value, form))
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
