"""The binding of a template that is rendered from sources.

Its content can be rendered only while the sources' contents are held (copies/template/composer.py).
Otherwise what is kept of a copy is its name, its digest, and the outline that all copies share.
"""

from __future__ import annotations

from collections.abc import Iterator

from copyrator.api.certificates import Certificate
from copyrator.api.keys import ObjectName
from copyrator.copies.rules.compiled_rule import CompiledRule
from copyrator.copies.sources.bindings import (
    DesiredCopy,
    SourceBinding,
    rule_context,
    target_context,
    unexpected,
)
from copyrator.copies.targets.content import Content, rendered_content
from copyrator.copies.targets.namespaces import Namespace
from copyrator.copies.targets.ownership import Shape
from copyrator.copies.template.composition import Composition
from copyrator.copies.template.meter import TemplateError
from copyrator.copies.template.rendering import Text, Tree, checked_name

OUTLINES = 16
"""Outlines of one rule that are kept to be shared; equal copies share one."""
_ALL = ""
"""In place of a namespace, where the copies are the same in all of them."""


class NotHeldError(Exception):
    """The sources' contents aren't held (any more); read them again."""


class ComposedBinding(SourceBinding):
    """The template of a rule with ``spec.sources``, bound to the rule's targets."""

    __slots__ = ("_composition", "_name", "_outlines")

    def __init__(self, compiled: CompiledRule, composition: Composition) -> None:
        self._composition = composition
        self._name = _name_in(compiled.template)
        self._outlines: list[Content] = []
        """The outlines of all copies, each once: usually there is one."""
        super().__init__(compiled, None)

    def _first_desired(self) -> DesiredCopy | None:
        return None if self.follows_namespaces else self._named(None)

    @property
    def composition(self) -> Composition:
        """The sources that its template reads."""
        return self._composition

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """The certificates in the copies that were rendered last, the soonest to end."""
        return self._composition.certificates

    def at(self, namespace: Namespace) -> DesiredCopy:
        """The wanted copy in a namespace; pending before the sources are read."""
        place = namespace.name if self.follows_namespaces else _ALL
        desired = self._by_namespace.get(place)
        if desired is None:
            desired = self._by_namespace[place] = self._named(namespace)
        return desired

    @property
    def mark(self) -> bytes:
        """What changes with the content of its copies, and not with their namespaces."""
        if not self.follows_namespaces:
            desired = self._by_namespace.get(_ALL)
            return desired.digest if desired else b""
        composition = self._composition
        until = composition.until.isoformat().encode() if composition.until else b""
        return b"\0".join((self.compiled.template_mark, composition.fingerprint, until))

    def covers(self, namespace: Namespace) -> bool:
        """Whether a copy is wanted there: by the rule, and by all sources' owners."""
        if namespace.name not in self.compiled.targets:
            return False
        if self.forbidding(namespace.name) is not None:
            return False
        name = self.at(namespace).name  # a source is never a target
        return not self._composition.is_source(self.compiled.resource, namespace.name, name)

    def forbidding(self, namespace: str) -> str | None:
        """A source that may not be copied into a namespace: ``namespace/name``; None: all may."""
        return self._composition.forbidding(namespace)

    def unreadable(self) -> Iterator[tuple[str, ObjectName, str]]:
        """Sources with an invalid annotation, by kind (resource key): they are copied nowhere."""
        return self._composition.unreadable()

    def undisturbed(self, namespace: Namespace, shape: Shape) -> bool:
        """Whether nothing that we wrote there was changed, by the outline of the copy."""
        outline = self.at(namespace).outline
        return outline is not None and outline.is_undisturbed(shape)

    def content(self, namespace: Namespace) -> Content:
        """The wanted content in a namespace.

        Raises:
            NotHeldError: the sources' contents aren't held.
            TemplateError: it can't be rendered.
        """
        return self._compose(namespace)

    def renew(self) -> None:
        """The sources have changed: every copy has to be rendered again."""
        self.compiled.close_barrier()
        self._by_namespace.clear()
        self._outlines.clear()

    def compose(self, namespace: Namespace) -> None:
        """Render the copy in a namespace where it is pending.

        Raises:
            NotHeldError: the sources' contents aren't held.
        """
        known = self.at(namespace)
        if not known.pending:
            return
        try:
            content = self._compose(namespace)
            desired = DesiredCopy(known.name, content).without_content()
            desired.outline = self._outline_of(content)
            self._composition.note_certificates(content.kind, content.payload)
        except TemplateError as error:
            desired = DesiredCopy(known.name, None, str(error))
        except NotHeldError:
            raise
        except Exception as error:
            desired = DesiredCopy(known.name, None, unexpected(error))
        self._by_namespace[namespace.name if self.follows_namespaces else _ALL] = desired

    def _compose(self, namespace: Namespace) -> Content:
        reading, compiled = self._composition.reading, self.compiled
        if reading is None:
            raise NotHeldError
        assert compiled.template is not None
        rendered = reading.composing.render(
            compiled.template, compiled.spec.kind, target_context(namespace, compiled.rule)
        )
        self._composition.note(reading.composing.findings)
        return rendered_content(
            rendered, compiled.spec.transform, rule=compiled.rule.owner, sealer=compiled.sealer
        )

    def _outline_of(self, content: Content) -> Content:
        for outline in self._outlines:
            if content.has_outline(outline):
                return outline
        outline = content.outline()
        if len(self._outlines) < OUTLINES:
            self._outlines.append(outline)
        return outline

    def _named(self, namespace: Namespace | None) -> DesiredCopy:
        """The copy's name, which doesn't depend on the sources."""
        rule, kind = self.compiled.rule, self.compiled.spec.kind
        context = target_context(namespace, rule) if namespace else {"rule": rule_context(rule)}
        try:
            return DesiredCopy(checked_name(self._name.render(context), kind), None, pending=True)
        except TemplateError as error:
            return DesiredCopy("", None, str(error))


def _name_in(template: Tree | None) -> Text:
    """The text of metadata.name."""
    assert template is not None
    metadata = dict(template.root)["metadata"]
    name = dict(metadata)["name"]
    return name if isinstance(name, Text) else Text(name)
