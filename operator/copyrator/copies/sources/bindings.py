"""What each rule wants where: its sources bound to its targets, and their index.

A binding is one source of a rule, or its template. A request is a binding in one namespace, as the
planner takes it (targets/planning.py).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, ClassVar, Final

import msgspec

from copyrator.api.keys import ObjectName, RuleKey
from copyrator.api.rule_spec import ConflictPolicy
from copyrator.copies.rules.rules import Rule
from copyrator.copies.rules.state import CompiledRule
from copyrator.copies.rules.trace import RuleTrace, Trigger
from copyrator.copies.sources.records import SourceRecord
from copyrator.copies.targets.adoption import copier
from copyrator.copies.targets.content import (
    Content,
    TransformError,
    copied_content,
    payload_of,
    rendered_content,
)
from copyrator.copies.targets.namespaces import Namespace
from copyrator.copies.targets.ownership import ACCEPTED, Shape
from copyrator.copies.targets.planning import Terms, Unmanaged
from copyrator.copies.targets.records import CopyRecord
from copyrator.copies.template.rendering import checked_name, namespace_context, source_context
from copyrator.copies.template.scope import TemplateError
from copyrator.workqueue.queue import Outcome

Rank = tuple[int, str]
"""Order within a rule: index of the source's namespace in the list, then the source's name."""


class DesiredCopy:
    """The wanted copy at one target, or at all of them alike."""

    __slots__ = (
        *("content", "digest", "equal", "name", "outline", "pending", "problem"),
        "right_shape",
    )

    def __init__(
        self, name: str, content: Content | None, problem: str | None = None, pending: bool = False
    ) -> None:
        self.name = name
        """Of the copy; empty where it can't be rendered."""
        self.content = content
        """None where it has to be rendered again, or can't be rendered."""
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


class SourceBinding:
    """One source of a rule, or its template, bound to the rule's targets."""

    __slots__ = (
        "__weakref__",
        "_by_namespace",
        "_desired",
        "compiled",
        "is_local",
        "rank",
        "source",
    )

    is_read_on_demand: ClassVar = False
    """Whether its content is known only in `with_content`."""

    def __init__(
        self,
        compiled: CompiledRule,
        source: SourceRecord | None,
        rank: Rank = (0, ""),
    ) -> None:
        self.compiled = compiled
        self.source = source
        wanted = compiled.spec.source
        self.is_local = source is not None and (wanted is None or wanted.kubeconfig is None)
        """Whether its source is an object of the operator's own cluster."""
        self.rank = rank
        self._by_namespace: dict[str, DesiredCopy] = {}
        self._desired = self._first_desired()

    def _first_desired(self) -> DesiredCopy | None:
        """The copy that is the same everywhere but for its name; None for a template."""
        if self.compiled.follows_namespaces and self.source is None:
            return None
        return self._desired_of_source()

    def __lt__(self, other: SourceBinding) -> bool:
        """Precedence for a free target."""
        return self._order < other._order

    @property
    def _order(self) -> tuple[Any, ...]:
        return (*self.compiled.rule.precedence, *self.rank)

    @property
    def origin(self) -> str:
        """``namespace/name`` of the source; empty for a template."""
        return f"{self.source.namespace}/{self.source.name}" if self.source else ""

    @property
    def static_name(self) -> str | None:
        """The copies' name, where it is the same in all namespaces."""
        return (
            None
            if self.compiled.follows_namespaces or self._desired is None
            else self._desired.name
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
        if not self.compiled.follows_namespaces:
            assert self._desired is not None
            return self._desired
        desired = self._by_namespace.get(namespace.name)
        if desired is None:
            desired = self._by_namespace[namespace.name] = self._desired_in(namespace)
        return desired

    def request(self, namespace: Namespace) -> CopyRequest:
        """The request for its copy in a namespace."""
        return CopyRequest(self, self.at(namespace), namespace)

    def forget(self, namespace: str) -> None:
        """Drop what is cached of a namespace that changed or was deleted."""
        self._by_namespace.pop(namespace, None)

    def forbidding(self, namespace: str) -> str | None:
        """A source that may not be copied into a namespace: ``namespace/name``; None: all may."""
        return None if self.source is None or self.source.allows(namespace) else self.origin

    def unreadable(self) -> Iterator[tuple[str, ObjectName, str]]:
        """Sources with an invalid annotation, by kind (resource key): they are copied nowhere."""
        source = self.source
        if source is not None and source.consent and source.consent.problem:
            name = ObjectName(source.namespace, source.name)
            yield self.compiled.resource, name, source.consent.problem

    def withhold(self) -> None:
        """One of its sources is a rule's kubeconfig from now on."""

    def cause(self, trace: RuleTrace) -> tuple[Trigger, tuple[str, ...]] | None:
        """The change of its source for which a copy is written; None: there was none."""
        return (Trigger.SOURCE, (self.origin,)) if self.origin in trace.sources else None

    async def with_content(
        self,
        namespace: str,  # noqa: ARG002 - of subclasses
        write: Callable[[], Awaitable[Outcome]],
    ) -> Outcome:
        """Render the copy in a namespace, then write it."""
        return await write()

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
        if self.source.namespace != namespace.name or not self.is_local:
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
            if compiled.name is not None and not self.compiled.follows_namespaces:
                context = self._source_context() | {"rule": rule_context(compiled.rule)}
                name = checked_name(compiled.name.render(context), compiled.spec.kind)
            content = copied_content(
                self.source.body,
                compiled.spec.transform,
                rule=compiled.rule.owner,
                sealer=compiled.sealer,
            )
        except Exception as error:
            return DesiredCopy(name, None, problem_of(error))
        return DesiredCopy(name, content)

    def _desired_in(self, namespace: Namespace) -> DesiredCopy:
        try:
            if self._desired is None:
                desired = DesiredCopy(*self._render(namespace))
                desired.content = None
                return desired
            assert self.compiled.name is not None
            context = target_context(namespace, self.compiled.rule) | self._source_context()
            name = checked_name(self.compiled.name.render(context), self.compiled.spec.kind)
            return DesiredCopy(name, self._desired.content, self._desired.problem)
        except Exception as error:
            return DesiredCopy("", None, problem_of(error))

    def _source_context(self) -> dict[str, Any]:
        assert self.source is not None
        return {"source": source_context(self.source.body["metadata"], self.compiled.spec.kind)}


def problem_of(error: Exception) -> str:
    """Why a copy can't be rendered, for the status; other errors' texts may hold a value."""
    if isinstance(error, TemplateError | TransformError):
        return str(error)
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


class CopyRequest(msgspec.Struct, frozen=True):
    """A binding in one namespace, as the planner takes it (copies.targets.planning.Want)."""

    binding: SourceBinding
    desired: DesiredCopy
    namespace: Namespace

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
        """Whether nothing is written (now)."""
        return self.binding.compiled.paused

    def is_old(self, record: CopyRecord) -> bool:
        """Whether a copy has other content than the wanted one; who edited it doesn't matter."""
        return record.digest != self.desired.digest

    def waits(self, record: CopyRecord) -> bool:
        """Whether a copy that isn't right must not be written yet."""
        barrier = self.binding.compiled.barrier
        return barrier is not None and barrier.holds(self.namespace.name, old=self.is_old(record))

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
        """Whether the wanted content can't be rendered."""
        return self.desired.problem is not None

    @property
    def pending(self) -> bool:
        """Whether the wanted content isn't known before the sources are read."""
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

    def adopts(self, unmanaged: Unmanaged) -> bool:
        """Whether this unmanaged object is adopted.

        The old form adopts by labels, which anybody may write: only in a trusted rule.
        """
        spec = self.binding.compiled.spec
        trusted = self.binding.compiled.targets.tenant is None
        if trusted and spec.legacy and spec.source and spec.source.selector:
            return spec.source.selector.matches(unmanaged.labels)
        return spec.on_conflict is ConflictPolicy.ADOPT and copier(unmanaged.metadata) is not None


Origin = str
"""``namespace/name`` of a binding's source; empty for a template."""


EXAMINED: Final = 8
"""Bindings that are examined to find a target's tenant: any of them will do."""


class _Places(dict[str, dict[str | None, list["SourceBinding"]]]):
    """Bindings by precedence, by the resource and name of their copies.

    The name is None of those whose name follows the namespace.
    """

    def at(self, resource: str, name: str | None) -> Sequence[SourceBinding]:
        return self.get(resource, {}).get(name, ())

    def requesting(
        self, resource: str, namespace: str, name: str, most: int | None = None
    ) -> Iterator[SourceBinding]:
        """Those that may request a target, as far as names are rendered; of `most` of each kind."""
        for binding in islice(self.at(resource, name), most):
            if namespace in binding.compiled.targets:
                yield binding
        for binding in islice(self.at(resource, None), most):
            if binding.known_name(namespace) == name:
                yield binding

    def following(self) -> Iterator[SourceBinding]:
        return chain.from_iterable(names.get(None, ()) for names in self.values())

    def add(self, binding: SourceBinding) -> None:
        names = self.setdefault(binding.compiled.resource, {})
        insort(names.setdefault(binding.static_name, []), binding)

    def remove(self, binding: SourceBinding) -> None:
        names = self[binding.compiled.resource]
        names[binding.static_name].remove(binding)
        if not names[binding.static_name]:
            del names[binding.static_name]
        if not names:
            del self[binding.compiled.resource]


class BindingIndex:
    """Source bindings of all rules; no entry for each copy."""

    def __init__(self) -> None:
        self._by_rule: dict[str, dict[Origin, SourceBinding]] = {}
        self._all = _Places()
        self._trusted = _Places()
        """Those of trusted rules."""
        self._sources: dict[tuple[str, Origin], int] = {}
        self._read: dict[str, frozenset[tuple[str, Origin]]] = {}

    def of_rule(self, owner: str) -> Mapping[Origin, SourceBinding]:
        """A rule's bindings by source."""
        return self._by_rule.get(owner, {})

    def is_source(self, resource: str, namespace: str, name: str) -> bool:
        """Whether any rule copies this object."""
        return (resource, f"{namespace}/{name}") in self._sources

    def readers(self, resource: str, namespace: str, name: str) -> list[str]:
        """The rules (``namespace/name``) that copy this object, or whose templates read it."""
        origin = f"{namespace}/{name}"
        copying = [
            owner
            for owner, bindings in self._by_rule.items()
            if (found := bindings.get(origin))
            and found.is_local
            and found.compiled.resource == resource
        ]
        reading = (owner for owner, read in self._read.items() if (resource, origin) in read)
        return sorted({*copying, *reading})

    def set_read(self, owner: str, sources: frozenset[tuple[str, Origin]]) -> None:
        """The objects that a rule's template reads now, by resource and origin."""
        for key in self._read.pop(owner, ()):
            self._drop_source(key)
        if sources:
            self._read[owner] = sources
        for key in sources:
            self._sources[key] = self._sources.get(key, 0) + 1

    def requests(self, resource: str, namespace: Namespace, name: str) -> list[CopyRequest]:
        """The requests for this target, by precedence."""
        named = self._all.at(resource, name)
        found = [one.request(namespace) for one in named if one.covers(namespace)]
        if following := self._all.at(resource, None):
            found += [
                binding.request(namespace)
                for binding in following
                if binding.covers(namespace) and binding.at(namespace).name == name
            ]
            found.sort(key=lambda request: request.binding)
        return found

    def is_trusted(self, resource: str, namespace: str, name: str) -> bool:
        """Whether a trusted rule may request this target, as far as its names are rendered."""
        return any(self._trusted.requesting(resource, namespace, name))

    def tenant_at(self, resource: str, namespace: str, name: str) -> str | None:
        """A tenant whose rule may request this target; of many rules the first few are examined."""
        requesting = self._all.requesting(resource, namespace, name, EXAMINED)
        return next((tenant for one in requesting if (tenant := one.compiled.targets.tenant)), None)

    def is_alone(self, binding: SourceBinding) -> bool:
        """Whether no other binding can have any of this one's targets."""
        resource, name = binding.compiled.resource, binding.static_name
        if name is None or self._all.at(resource, None):
            return False
        return len(self._all.at(resource, name)) == 1

    def add(self, binding: SourceBinding) -> SourceBinding | None:
        """Add a binding; it replaces its rule's earlier one for the same source."""
        owner = binding.compiled.rule.owner
        earlier = self.remove(owner, binding.origin)
        self._by_rule.setdefault(owner, {})[binding.origin] = binding
        self._all.add(binding)
        if binding.compiled.targets.tenant is None:
            self._trusted.add(binding)
        if binding.is_local:
            key = (binding.compiled.resource, binding.origin)
            self._sources[key] = self._sources.get(key, 0) + 1
        return earlier

    def remove(self, owner: str, origin: Origin) -> SourceBinding | None:
        """Remove a binding."""
        bindings = self._by_rule.get(owner, {})
        binding = bindings.pop(origin, None)
        if binding is None:
            return None
        if not bindings:
            del self._by_rule[owner]
        self._all.remove(binding)
        if binding.compiled.targets.tenant is None:
            self._trusted.remove(binding)
        if binding.is_local:
            self._drop_source((binding.compiled.resource, binding.origin))
        return binding

    def remove_rule(self, owner: str) -> set[RuleKey]:
        """Remove all bindings of a rule; returns the rules that may get its targets now."""
        self.set_read(owner, frozenset())
        removed = [self.remove(owner, origin) for origin in list(self.of_rule(owner))]
        places = {(one.compiled.resource, one.static_name) for one in filter(None, removed)}
        return {
            rival.compiled.rule.key
            for resource, name in places
            for rival in (*self._all.at(resource, name), *self._all.at(resource, None))
        }

    def forget_namespace(self, namespace: str) -> None:
        """Drop what was rendered for a namespace that changed or was deleted."""
        for binding in self._all.following():
            binding.forget(namespace)

    def _drop_source(self, key: tuple[str, Origin]) -> None:
        self._sources[key] -= 1
        if not self._sources[key]:
            del self._sources[key]
