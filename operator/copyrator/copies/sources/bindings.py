"""Source bindings: which rule requests which copies, without an entry for each copy.

A binding is one source of a rule (or its template) in all target namespaces. One whose copies have
the same name everywhere is found by kind and name; only names that depend on the namespace are
rendered, and cached, for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from copyrator.api.certificates import Certificate
from copyrator.api.keys import ObjectName
from copyrator.copies.rules.compiled_rule import CompiledRule
from copyrator.copies.rules.rules import Rule
from copyrator.copies.sources.records import SourceRecord
from copyrator.copies.targets.content import Content, copied_content, rendered_content
from copyrator.copies.targets.namespaces import Namespace
from copyrator.copies.targets.ownership import Shape
from copyrator.copies.targets.transform import TransformError, keeps
from copyrator.copies.template.certificates import certificates_in
from copyrator.copies.template.composition import Composition
from copyrator.copies.template.meter import TemplateError
from copyrator.copies.template.rendering import checked_name, namespace_context, source_context

Rank = tuple[int, str]
"""Order within a rule: index of the source's namespace in the list, then the source's name."""


class DesiredCopy:
    """The wanted copy at one target, or at all of them alike."""

    __slots__ = (
        *("_content", "digest", "equal", "name", "outline", "pending", "problem"),
        "right_shape",
    )

    def __init__(
        self, name: str, content: Content | None, problem: str | None = None, pending: bool = False
    ) -> None:
        self.name = name
        """Of the copy; empty where it can't be rendered."""
        self.digest = content.digest if content else b""
        self.pending = pending
        """Whether its sources have to be read before it can be rendered."""
        self.problem = problem
        """Why it can't be rendered: a message for the rule's author."""
        self.right_shape: Shape | None = None
        """The last shape that was found right; usually that of the next copy, too."""
        self.equal: bytes | None = None
        """The digest of the content's other form, as the API server returns it."""
        self.outline: Content | None = None
        """The content without values, where the content isn't held."""
        self._content = content

    @property
    def content(self) -> Content | None:
        """The wanted content; None where it has to be rendered again, or can't be rendered."""
        return self._content

    def without_content(self) -> DesiredCopy:
        """The same for a template, whose content is rendered on demand."""
        self._content = None
        return self


class SourceBinding:
    """One source of a rule, or its template, bound to the rule's targets."""

    __slots__ = ("_by_namespace", "_certificates", "_desired", "compiled", "rank", "source")

    def __init__(
        self, compiled: CompiledRule, source: SourceRecord | None, rank: Rank = (0, "")
    ) -> None:
        self.compiled = compiled
        self.source = source
        self.rank = rank
        self._by_namespace: dict[str, DesiredCopy] = {}
        self._certificates: tuple[Certificate, ...] | None = None
        self._desired = self._first_desired()

    def _first_desired(self) -> DesiredCopy | None:
        """The copy that is the same everywhere but for its name; None for a template."""
        if self.follows_namespaces and self.source is None:
            return None
        return self._desired_of_source()

    def __lt__(self, other: SourceBinding) -> bool:
        return self.order < other.order

    @property
    def order(self) -> tuple[Any, ...]:
        """Precedence for a free target."""
        return (*self.compiled.rule.precedence, *self.rank)

    @property
    def follows_namespaces(self) -> bool:
        """Whether the copies' names depend on the target namespace."""
        return self.compiled.follows_namespaces

    @property
    def origin(self) -> str:
        """``namespace/name`` of the source; empty for a template."""
        return f"{self.source.namespace}/{self.source.name}" if self.source else ""

    @property
    def source_name(self) -> str:
        """The name of the source; empty for a template."""
        return self.source.name if self.source else ""

    @property
    def static_name(self) -> str | None:
        """The copies' name, where it is the same in all namespaces."""
        return None if self.follows_namespaces or self._desired is None else self._desired.name

    @property
    def tenant(self) -> str | None:
        """The namespace of an untrusted rule."""
        return self.compiled.targets.tenant

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """The certificates that its copies have, the soonest to end; read once, at first use."""
        if self._certificates is None:
            self._certificates = self._read_certificates()
        return self._certificates

    def _read_certificates(self) -> tuple[Certificate, ...]:
        if self.source is None:
            return ()
        keys = self.compiled.spec.transform.keys
        return certificates_in(
            self.compiled.spec.kind,
            self.source.body,
            self.origin,
            copied=lambda key: keeps(keys, key),
        )

    @property
    def mark(self) -> bytes:
        """What changes with the content of its copies, and not with their namespaces."""
        return self.compiled.template_mark if self._desired is None else self._desired.digest

    def known_name(self, namespace: str) -> str | None:
        """The name of the copy in a namespace, if it is cached."""
        desired = self._by_namespace.get(namespace)
        return desired.name if desired else None

    def at(self, namespace: Namespace) -> DesiredCopy:
        """The wanted copy in a namespace."""
        if not self.follows_namespaces:
            assert self._desired is not None
            return self._desired
        desired = self._by_namespace.get(namespace.name)
        if desired is None:
            desired = self._by_namespace[namespace.name] = self._desired_in(namespace)
        return desired

    def forget(self, namespace: str) -> None:
        """Drop what is cached of a namespace that changed or was deleted."""
        self._by_namespace.pop(namespace, None)

    @property
    def composition(self) -> Composition | None:
        """The sources that its template reads; None of other bindings."""
        return None

    def forbidding(self, namespace: str) -> str | None:
        """A source that may not be copied into a namespace: ``namespace/name``; None: all may."""
        return None if self.source is None or self.source.allows(namespace) else self.origin

    def unreadable(self) -> Iterator[tuple[str, ObjectName, str]]:
        """Sources with an invalid annotation, by kind (resource key): they are copied nowhere."""
        source = self.source
        if source is not None and source.consent and source.consent.problem:
            name = ObjectName(source.namespace, source.name)
            yield self.compiled.resource, name, source.consent.problem

    def undisturbed(self, namespace: Namespace, shape: Shape) -> bool:
        """Whether nothing that we wrote there was changed; not for a copy with a ``problem``."""
        return self.content(namespace).is_undisturbed(shape)

    def covers(self, namespace: Namespace) -> bool:
        """Whether a copy is wanted in a namespace at all."""
        if namespace.name not in self.compiled.targets:
            return False
        if self.source is None:
            return True
        if not self.source.allows(namespace.name):
            return False
        if self.source.namespace != namespace.name:
            return True
        return self.at(namespace).name != self.source.name  # a source is never a target

    def content(self, namespace: Namespace) -> Content:
        """The wanted content of the copy in a namespace; not for a copy with a ``problem``."""
        return self.at(namespace).content or self._render(namespace)[1]

    def _render(self, namespace: Namespace) -> tuple[str, Content]:
        compiled = self.compiled
        assert compiled.template is not None
        rendered = compiled.template.render(target_context(namespace, compiled.rule))
        name = checked_name(str(rendered["metadata"]["name"]), compiled.spec.kind)
        return name, rendered_content(
            rendered, compiled.spec.transform, rule=compiled.rule.owner, sealer=compiled.sealer
        )

    def _desired_of_source(self) -> DesiredCopy:
        assert self.source is not None
        compiled = self.compiled
        name = self.source.name
        try:
            if compiled.name is not None and not self.follows_namespaces:
                context = self._source_context() | {"rule": rule_context(compiled.rule)}
                name = checked_name(compiled.name.render(context), compiled.spec.kind)
            content = copied_content(
                self.source.body,
                compiled.spec.transform,
                rule=compiled.rule.owner,
                sealer=compiled.sealer,
            )
        except (TemplateError, TransformError) as error:
            return DesiredCopy(name, None, str(error))
        except Exception as error:
            return DesiredCopy(name, None, unexpected(error))
        return DesiredCopy(name, content)

    def _desired_in(self, namespace: Namespace) -> DesiredCopy:
        try:
            if self._desired is None:
                return DesiredCopy(*self._render(namespace)).without_content()
            assert self.compiled.name is not None
            context = target_context(namespace, self.compiled.rule) | self._source_context()
            name = checked_name(self.compiled.name.render(context), self.compiled.spec.kind)
            return DesiredCopy(name, self._desired.content, self._desired.problem)
        except TemplateError as error:
            return DesiredCopy("", None, str(error))
        except Exception as error:
            return DesiredCopy("", None, unexpected(error))

    def _source_context(self) -> dict[str, Any]:
        assert self.source is not None
        return {"source": source_context(self.source.body["metadata"], self.compiled.spec.kind)}


def unexpected(error: Exception) -> str:
    """A problem for the status; the error's own text may hold a value."""
    return f"the copy can't be created: {type(error).__name__}"


def target_context(namespace: Namespace, rule: Rule) -> dict[str, Any]:
    """The variables of a template for one target."""
    return {
        "namespace": namespace_context(namespace.name, namespace.labels, namespace.annotations),
        "rule": rule_context(rule),
    }


def rule_context(rule: Rule) -> Mapping[str, str]:
    """The variable ``rule`` of a template."""
    return {"name": rule.key.name, "namespace": rule.key.namespace}
