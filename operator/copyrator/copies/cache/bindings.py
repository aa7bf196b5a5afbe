"""Source bindings: which rule requests which copies, without an entry for each copy.

A binding is one source of a rule (or its template) in all target namespaces. One whose copies have
the same name everywhere is found by kind and name; only names that depend on the namespace are
rendered, and cached, for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from copyrator.api.certificates import Certificate
from copyrator.api.keys import ObjectName
from copyrator.api.rule_spec import ConflictPolicy, Mode, RuleSpec
from copyrator.copies.cache.composition import Composition
from copyrator.copies.cache.namespaces import Namespace, TargetSet
from copyrator.copies.cache.rollout_gate import RolloutGate
from copyrator.copies.cache.rules import Rule
from copyrator.copies.policy.adoption import copier
from copyrator.copies.policy.certificates import certificates_in
from copyrator.copies.policy.content import Content, copied_content, payload_of, rendered_content
from copyrator.copies.policy.ownership import ACCEPTED, Shape
from copyrator.copies.policy.planning import Terms, Unmanaged
from copyrator.copies.policy.records import CopyRecord
from copyrator.copies.policy.rendering import (
    NO_TEXTS,
    Text,
    Tree,
    checked_name,
    namespace_context,
    source_context,
)
from copyrator.copies.policy.sealing import Sealer
from copyrator.copies.policy.sources import SourceRecord
from copyrator.copies.policy.template_meter import TemplateError
from copyrator.copies.policy.transform import TransformError, keeps

Rank = tuple[int, str]
"""Order within a rule: index of the source's namespace in the list, then the source's name."""


@dataclass(slots=True, eq=False)
class CompiledRule:
    """What a rule renders copies from: its spec, compiled once for a generation."""

    rule: Rule
    spec: RuleSpec
    resource: str
    """The key of the copies' resource."""
    targets: TargetSet
    sealer: Sealer
    name: Text | None
    template: Tree | None
    active: bool = False
    """Everything that decides the precedence is known, and nothing forbids the rule to write."""
    gate: RolloutGate | None = None
    """Where changed content may be written; None: everywhere."""
    _mark: bytes = field(default=b"", repr=False)

    @classmethod
    def of(
        cls,
        rule: Rule,
        spec: RuleSpec,
        *,
        resource: str,
        targets: TargetSet,
        sealer: Sealer,
        texts: Mapping[str, Text] = NO_TEXTS,
    ) -> CompiledRule:
        """Build it from a rule; what isn't among the ``texts`` is compiled now.

        Raises:
            TemplateError: a text isn't valid Jinja2.
        """
        named = spec.transform.name
        name = (texts.get(named) or Text(named)) if named else None
        template = Tree(spec.template.body, texts) if spec.template else None
        made = cls(rule, spec, resource, targets, sealer, name, template)
        made.gate = RolloutGate() if spec.rollout else None
        return made

    @property
    def paused(self) -> bool:
        """Nothing is written."""
        return not self.active or self.spec.suspend or self.spec.mode is Mode.PLAN

    @property
    def template_mark(self) -> bytes:
        """A keyed hash of the template as it is written."""
        if not self._mark and self.spec.template is not None:
            self._mark = self.sealer.digest({"template": self.spec.template.body})
        return self._mark

    def close_gate(self) -> None:
        """The content may have changed: its rule decides first where it is written."""
        if self.gate is not None:
            self.gate.close()

    @property
    def follows_namespaces(self) -> bool:
        """Whether the copies' names depend on the target namespace."""
        if self.spec.sources and self.template is not None:
            return "namespace" in self.template.names
        return self.template is not None or (
            self.name is not None and "namespace" in self.name.names
        )


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


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """A binding in one namespace, as the planner takes it (copies.policy.planning.Want)."""

    binding: SourceBinding
    desired: DesiredCopy
    namespace: Namespace

    @classmethod
    def of(cls, binding: SourceBinding, namespace: Namespace) -> CopyRequest:
        """The request for a binding's copy in a namespace."""
        return cls(binding, binding.at(namespace), namespace)

    @property
    def rule(self) -> Rule:
        """The rule that requests the copy."""
        return self.binding.compiled.rule

    @property
    def owner(self) -> str:
        """``namespace/name`` of the rule."""
        return self.binding.compiled.rule.owner

    @property
    def paused(self) -> bool:
        """Nothing is written (now)."""
        return self.binding.compiled.paused

    def is_old(self, record: CopyRecord) -> bool:
        """Whether a copy has other content than the wanted one; who edited it doesn't matter."""
        return record.digest != self.desired.digest

    def waits(self, record: CopyRecord) -> bool:
        """Whether a copy that isn't right isn't to be written yet."""
        gate = self.binding.compiled.gate
        return gate is not None and gate.holds(self.namespace.name, old=self.is_old(record))

    @property
    def on_conflict(self) -> ConflictPolicy:
        """What to do about an unmanaged object."""
        return self.binding.compiled.spec.on_conflict

    @property
    def terms(self) -> Terms:
        """The digest that an unmanaged object must have to count as ready; the conflict policy."""
        return self.desired.digest, self.on_conflict

    @property
    def broken(self) -> bool:
        """The wanted content can't be rendered."""
        return self.desired.problem is not None

    @property
    def pending(self) -> bool:
        """The wanted content isn't known before the sources are read."""
        return self.desired.pending

    def is_right(self, record: CopyRecord) -> bool:
        """Whether the copy is as wanted; False where it can't be rendered."""
        desired = self.desired
        if desired.problem is not None or desired.pending:
            return False
        if record.digest != desired.digest:
            return False
        if record.shape is desired.right_shape or record.shape is ACCEPTED:
            return True
        if not self.binding.undisturbed(self.namespace, record.shape):
            return False
        desired.right_shape = record.shape
        return True

    def is_held_by(self, live: Mapping[str, Any]) -> bool:
        """Whether a whole object has the wanted content; not for a copy with a ``problem``."""
        if self.binding.content(self.namespace).is_held_by(live):
            return True
        return self.desired.equal == self.binding.compiled.sealer.digest(payload_of(live))

    def accept(self, live: Mapping[str, Any]) -> None:
        """Take the live object for the wanted one: writing it changed nothing."""
        self.desired.equal = self.binding.compiled.sealer.digest(payload_of(live))

    def is_drift(self, record: CopyRecord) -> bool:
        """Whether others changed what we wrote."""
        return record.digest == self.desired.digest

    @property
    def reseals(self) -> bool:
        """Whether objects with the rule's marks and no seal are overwritten, as requested."""
        return self.rule.reseal is not None

    def adopts(self, unmanaged: Unmanaged) -> bool:
        """Whether this unmanaged object is adopted.

        The old form adopts by labels, which anybody may write: only in a trusted rule.
        """
        spec = self.binding.compiled.spec
        trusted = self.binding.compiled.targets.tenant is None
        if trusted and spec.legacy and spec.source and spec.source.selector:
            return spec.source.selector.matches(unmanaged.labels)
        return spec.on_conflict is ConflictPolicy.ADOPT and copier(unmanaged.metadata) is not None
