"""Index of all source bindings by target, by source and by rule."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from copyrator.copies.cache.claims import CopyRequest, SourceBinding
from copyrator.copies.cache.namespaces import Namespace

Origin = str
"""``namespace/name`` of a binding's source; empty for a template."""


FEW: Final = 8
"""Bindings that are examined to find a target's tenant: any of them will do."""


class ClaimIndex:
    """Source bindings of all rules; no entry for each copy."""

    def __init__(self) -> None:
        self._by_rule: dict[str, dict[Origin, SourceBinding]] = {}
        self._by_name: dict[tuple[str, str], list[SourceBinding]] = {}
        self._following: dict[str, list[SourceBinding]] = {}
        self._trusted_by_name: dict[tuple[str, str], list[SourceBinding]] = {}
        self._trusted_following: dict[str, list[SourceBinding]] = {}
        self._sources: dict[tuple[str, Origin], int] = {}

    def of_rule(self, owner: str) -> Mapping[Origin, SourceBinding]:
        """A rule's bindings by source."""
        return self._by_rule.get(owner, {})

    def all(self) -> Iterator[SourceBinding]:
        """Every binding of every rule."""
        for claims in self._by_rule.values():
            yield from claims.values()

    def is_source(self, resource: str, namespace: str, name: str) -> bool:
        """Whether any rule copies this object."""
        return (resource, f"{namespace}/{name}") in self._sources

    def bids(self, resource: str, namespace: Namespace, name: str) -> list[CopyRequest]:
        """The requests for this target, by precedence."""
        found = [
            CopyRequest.of(claim, namespace)
            for claim in self._by_name.get((resource, name), ())
            if claim.covers(namespace)
        ]
        if following := self._following.get(resource):
            found += [
                CopyRequest.of(claim, namespace)
                for claim in following
                if claim.covers(namespace) and claim.at(namespace).name == name
            ]
            found.sort(key=lambda bid: bid.claim.order)
        return found

    def is_trusted(self, resource: str, namespace: str, name: str) -> bool:
        """Whether a trusted rule may request this target, as far as its names are rendered."""
        named = self._trusted_by_name.get((resource, name), ())
        if any(namespace in claim.maker.targets for claim in named):
            return True
        following = self._trusted_following.get(resource, ())
        return any(claim.known_name(namespace) == name for claim in following)

    def tenant_at(self, resource: str, namespace: str, name: str) -> str | None:
        """A tenant whose rule may request this target; of many rules the first few are examined."""
        named = self._by_name.get((resource, name), ())
        for claim in islice(named, FEW):
            if claim.tenant is not None and namespace in claim.maker.targets:
                return claim.tenant
        for claim in islice(self._following.get(resource, ()), FEW):
            if claim.tenant is not None and claim.known_name(namespace) == name:
                return claim.tenant
        return None

    def is_alone(self, claim: SourceBinding) -> bool:
        """Whether no other binding can have any of this one's targets."""
        if claim.static_name is None or self._following.get(claim.maker.resource):
            return False
        return len(self._by_name[claim.maker.resource, claim.static_name]) == 1

    def rivals(self, claim: SourceBinding) -> Iterable[SourceBinding]:
        """The bindings, this one included, that share its (fixed) name, or follow namespaces."""
        named = self._by_name.get((claim.maker.resource, claim.static_name or ""), [])
        return (*named, *self._following.get(claim.maker.resource, ()))

    def add(self, claim: SourceBinding) -> SourceBinding | None:
        """Add a binding; it replaces its rule's earlier one for the same source."""
        owner = claim.maker.rule.owner
        earlier = self.remove(owner, claim.origin)
        self._by_rule.setdefault(owner, {})[claim.origin] = claim
        insort(self._place(claim), claim)
        if claim.tenant is None:
            self._trusted_place(claim).append(claim)
        if claim.origin:
            key = (claim.maker.resource, claim.origin)
            self._sources[key] = self._sources.get(key, 0) + 1
        return earlier

    def remove(self, owner: str, origin: Origin) -> SourceBinding | None:
        """Remove a binding."""
        claims = self._by_rule.get(owner, {})
        claim = claims.pop(origin, None)
        if claim is None:
            return None
        if not claims:
            del self._by_rule[owner]
        place = self._place(claim)
        place.remove(claim)
        if not place:
            self._drop_place(claim)
        if claim.tenant is None:
            self._trusted_place(claim).remove(claim)
            self._drop_trusted_place(claim)
        if claim.origin:
            key = (claim.maker.resource, claim.origin)
            self._sources[key] -= 1
            if not self._sources[key]:
                del self._sources[key]
        return claim

    def remove_rule(self, owner: str) -> list[SourceBinding]:
        """Remove all bindings of a rule."""
        removed = (self.remove(owner, origin) for origin in list(self.of_rule(owner)))
        return [claim for claim in removed if claim is not None]

    def forget_namespace(self, namespace: str) -> None:
        """Drop what was rendered for a namespace that changed or is gone."""
        for claims in self._following.values():
            for claim in claims:
                claim.forget(namespace)

    def _place(self, claim: SourceBinding) -> list[SourceBinding]:
        if claim.static_name is None:
            return self._following.setdefault(claim.maker.resource, [])
        return self._by_name.setdefault((claim.maker.resource, claim.static_name), [])

    def _trusted_place(self, claim: SourceBinding) -> list[SourceBinding]:
        if claim.static_name is None:
            return self._trusted_following.setdefault(claim.maker.resource, [])
        return self._trusted_by_name.setdefault((claim.maker.resource, claim.static_name), [])

    def _drop_trusted_place(self, claim: SourceBinding) -> None:
        if self._trusted_place(claim):
            return
        if claim.static_name is None:
            del self._trusted_following[claim.maker.resource]
        else:
            del self._trusted_by_name[claim.maker.resource, claim.static_name]

    def _drop_place(self, claim: SourceBinding) -> None:
        if claim.static_name is None:
            del self._following[claim.maker.resource]
        else:
            del self._by_name[claim.maker.resource, claim.static_name]
