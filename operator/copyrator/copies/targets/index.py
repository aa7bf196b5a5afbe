"""Index of all source bindings by target, by source and by rule."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from copyrator.copies.sources.bindings import SourceBinding
from copyrator.copies.targets.namespaces import Namespace
from copyrator.copies.targets.request import CopyRequest

Origin = str
"""``namespace/name`` of a binding's source; empty for a template."""


FEW: Final = 8
"""Bindings that are examined to find a target's tenant: any of them will do."""


class BindingIndex:
    """Source bindings of all rules; no entry for each copy."""

    def __init__(self) -> None:
        self._by_rule: dict[str, dict[Origin, SourceBinding]] = {}
        self._by_name: dict[tuple[str, str], list[SourceBinding]] = {}
        self._following: dict[str, list[SourceBinding]] = {}
        self._trusted_by_name: dict[tuple[str, str], list[SourceBinding]] = {}
        self._trusted_following: dict[str, list[SourceBinding]] = {}
        self._sources: dict[tuple[str, Origin], int] = {}
        self._composed: dict[str, frozenset[tuple[str, Origin]]] = {}

    def of_rule(self, owner: str) -> Mapping[Origin, SourceBinding]:
        """A rule's bindings by source."""
        return self._by_rule.get(owner, {})

    def all(self) -> Iterator[SourceBinding]:
        """Every binding of every rule."""
        for bindings in self._by_rule.values():
            yield from bindings.values()

    def is_source(self, resource: str, namespace: str, name: str) -> bool:
        """Whether any rule copies this object."""
        return (resource, f"{namespace}/{name}") in self._sources

    def readers(self, resource: str, namespace: str, name: str) -> list[str]:
        """The rules (``namespace/name``) that copy this object, or whose templates read it."""
        origin = f"{namespace}/{name}"
        copying = [
            owner
            for owner, bindings in self._by_rule.items()
            if (found := bindings.get(origin)) and found.compiled.resource == resource
        ]
        reading = (owner for owner, read in self._composed.items() if (resource, origin) in read)
        return sorted({*copying, *reading})

    def set_composed(self, owner: str, sources: frozenset[tuple[str, Origin]]) -> None:
        """The objects that a rule's template reads now, by resource and origin."""
        for key in self._composed.pop(owner, ()):
            self._drop_source(key)
        if sources:
            self._composed[owner] = sources
        for key in sources:
            self._sources[key] = self._sources.get(key, 0) + 1

    def requests(self, resource: str, namespace: Namespace, name: str) -> list[CopyRequest]:
        """The requests for this target, by precedence."""
        found = [
            CopyRequest.of(binding, namespace)
            for binding in self._by_name.get((resource, name), ())
            if binding.covers(namespace)
        ]
        if following := self._following.get(resource):
            found += [
                CopyRequest.of(binding, namespace)
                for binding in following
                if binding.covers(namespace) and binding.at(namespace).name == name
            ]
            found.sort(key=lambda request: request.binding.order)
        return found

    def is_trusted(self, resource: str, namespace: str, name: str) -> bool:
        """Whether a trusted rule may request this target, as far as its names are rendered."""
        named = self._trusted_by_name.get((resource, name), ())
        if any(namespace in binding.compiled.targets for binding in named):
            return True
        following = self._trusted_following.get(resource, ())
        return any(binding.known_name(namespace) == name for binding in following)

    def tenant_at(self, resource: str, namespace: str, name: str) -> str | None:
        """A tenant whose rule may request this target; of many rules the first few are examined."""
        named = self._by_name.get((resource, name), ())
        for binding in islice(named, FEW):
            if binding.tenant is not None and namespace in binding.compiled.targets:
                return binding.tenant
        for binding in islice(self._following.get(resource, ()), FEW):
            if binding.tenant is not None and binding.known_name(namespace) == name:
                return binding.tenant
        return None

    def is_alone(self, binding: SourceBinding) -> bool:
        """Whether no other binding can have any of this one's targets."""
        if binding.static_name is None or self._following.get(binding.compiled.resource):
            return False
        return len(self._by_name[binding.compiled.resource, binding.static_name]) == 1

    def rivals(self, binding: SourceBinding) -> Iterable[SourceBinding]:
        """The bindings, this one included, that share its (fixed) name, or follow namespaces."""
        named = self._by_name.get((binding.compiled.resource, binding.static_name or ""), [])
        return (*named, *self._following.get(binding.compiled.resource, ()))

    def add(self, binding: SourceBinding) -> SourceBinding | None:
        """Add a binding; it replaces its rule's earlier one for the same source."""
        owner = binding.compiled.rule.owner
        earlier = self.remove(owner, binding.origin)
        self._by_rule.setdefault(owner, {})[binding.origin] = binding
        insort(self._place(binding), binding)
        if binding.tenant is None:
            self._trusted_place(binding).append(binding)
        if binding.origin:
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
        place = self._place(binding)
        place.remove(binding)
        if not place:
            self._drop_place(binding)
        if binding.tenant is None:
            self._trusted_place(binding).remove(binding)
            self._drop_trusted_place(binding)
        if binding.origin:
            self._drop_source((binding.compiled.resource, binding.origin))
        return binding

    def remove_rule(self, owner: str) -> list[SourceBinding]:
        """Remove all bindings of a rule."""
        self.set_composed(owner, frozenset())
        removed = (self.remove(owner, origin) for origin in list(self.of_rule(owner)))
        return [binding for binding in removed if binding is not None]

    def forget_namespace(self, namespace: str) -> None:
        """Drop what was rendered for a namespace that changed or was deleted."""
        for bindings in self._following.values():
            for binding in bindings:
                binding.forget(namespace)

    def _drop_source(self, key: tuple[str, Origin]) -> None:
        self._sources[key] -= 1
        if not self._sources[key]:
            del self._sources[key]

    def _place(self, binding: SourceBinding) -> list[SourceBinding]:
        if binding.static_name is None:
            return self._following.setdefault(binding.compiled.resource, [])
        return self._by_name.setdefault((binding.compiled.resource, binding.static_name), [])

    def _trusted_place(self, binding: SourceBinding) -> list[SourceBinding]:
        if binding.static_name is None:
            return self._trusted_following.setdefault(binding.compiled.resource, [])
        return self._trusted_by_name.setdefault(
            (binding.compiled.resource, binding.static_name), []
        )

    def _drop_trusted_place(self, binding: SourceBinding) -> None:
        if self._trusted_place(binding):
            return
        if binding.static_name is None:
            del self._trusted_following[binding.compiled.resource]
        else:
            del self._trusted_by_name[binding.compiled.resource, binding.static_name]

    def _drop_place(self, binding: SourceBinding) -> None:
        if binding.static_name is None:
            del self._following[binding.compiled.resource]
        else:
            del self._by_name[binding.compiled.resource, binding.static_name]
