"""Parses ``spec.source`` and ``spec.sources``."""

from __future__ import annotations

import re
from typing import Any, Final

from copyrator.api import syntax
from copyrator.api.fields import Fields, SpecError
from copyrator.api.rule_spec import WELL_KNOWN_KINDS, ComposedSource, Source
from copyrator.api.selectors import LabelSelector, Operator, parse_selector
from copyrator.settings.limits import COMPOSED_SOURCES

_ALIAS: Final = re.compile("[A-Za-z][A-Za-z0-9_]{0,62}", re.ASCII)


def read_source(source: Fields, home: str) -> Source:
    """Parse ``spec.source``; ``home`` is the rule's namespace."""
    if source.has("namespace") and source.has("namespaces"):
        source.fail("namespaces", "set either namespace or namespaces, not both")
    if source.get("namespaces") == []:
        source.fail(
            "namespaces", "must name a namespace; remove it to use the rule's own namespace"
        )
    many = source.texts("namespaces", syntax.namespace)
    return _source_in(source, many or _namespace(source, home))


def _namespace(source: Fields, home: str) -> tuple[str]:
    return (source.text("namespace", syntax.namespace) or home,)


def _source_in(source: Fields, namespaces: tuple[str, ...]) -> Source:
    kind = source.required_text("kind", syntax.kind)
    if source.has("name") == source.has("selector"):
        source.fail("name", "set exactly one of name and selector")
    return Source(
        kind=kind,
        api_version=source.text("apiVersion", syntax.api_version) or WELL_KNOWN_KINDS.get(kind),
        namespaces=namespaces,
        name=source.text("name", syntax.object_name),
        selector=_source_selector(source),
    )


def _source_selector(source: Fields) -> LabelSelector | None:
    if not source.has("selector"):
        return None
    selector = parse_selector(source.get("selector"), source.at("selector"))
    if selector.empty:
        source.fail(
            "selector",
            "must name at least one label; an empty one would select everything "
            f"of this kind; to do so, set {{key: …, operator: {Operator.DOES_NOT_EXIST}}}",
        )
    return selector


def read_sources(spec: Fields, home: str) -> tuple[ComposedSource, ...]:
    """Parse ``spec.sources``: each name once."""
    entries = spec.items("sources")
    if spec.get("sources") == []:
        spec.fail("sources", "must name a source; remove it for a template without sources")
    if len(entries) > COMPOSED_SOURCES:
        spec.fail("sources", f"has more than {COMPOSED_SOURCES} entries; use a selector")
    found: dict[str, ComposedSource] = {}
    for number, entry in enumerate(entries):
        read = _read_entry(Fields(entry, f"{spec.at('sources')}[{number}]"), home)
        if read.alias in found:
            raise SpecError(
                f"{spec.at('sources')}[{number}].as",
                f"{read.alias} is the name of an earlier entry; choose another one",
            )
        found[read.alias] = read
    return tuple(found.values())


def _read_entry(entry: Fields, home: str) -> ComposedSource:
    alias = entry.required_text("as", _alias)
    source = _source_in(entry, _namespace(entry, home))
    return ComposedSource(alias=alias, source=source, optional=entry.flag("optional"))


def _alias(value: Any) -> str | None:
    if _ALIAS.fullmatch(value):
        return None
    return (
        f"{syntax.shown(value)} can't be a name in a template; use at most 63 letters, digits and "
        "'_', beginning with a letter"
    )
