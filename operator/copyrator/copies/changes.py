"""Changes of namespaces and sources, until what they make due is queued (due.py).

A watch's listener must return at once, and the time that a change takes depends on the rules and
annotations that users write. So listeners only record it: by tenant, and the trusted rules apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from copyrator.api.keys import RuleKey
from copyrator.copies.cache.bindings import SourceBinding

Tenant = str | None
"""The namespace of rules that aren't trusted; None for those that are."""


@dataclass(slots=True)
class NamespaceChange:
    """A namespace that is new, changed or deleted."""

    members: set[RuleKey]
    """The rules that had it as a target before."""
    more: bool
    """It is new, or changed in a field on which any rule may depend."""


@dataclass(slots=True)
class PendingChanges:
    """Changes that concern one tenant's rules, or the trusted ones."""

    tenant: Tenant
    namespaces: dict[str, NamespaceChange] = field(default_factory=dict)
    bindings: dict[tuple[str, str], SourceBinding] = field(default_factory=dict)
    """By rule and source."""
    work: Iterator[None] | None = None
    """Work in progress."""


class Changes:
    """All changes that aren't processed yet."""

    def __init__(self) -> None:
        self.trusted: dict[Tenant, PendingChanges] = {}
        self.tenants: dict[Tenant, PendingChanges] = {}
        self.wake = {True: asyncio.Event(), False: asyncio.Event()}
        """By whether the rules are trusted."""

    def add_binding(self, binding: SourceBinding) -> None:
        """A source is new or changed: all its targets are due."""
        pending = self._pending(binding.compiled.targets.tenant)
        pending.bindings[binding.compiled.rule.owner, binding.origin] = binding

    def add_namespace(
        self, name: str, members: set[RuleKey], tenants: Iterable[Tenant], *, more: bool
    ) -> None:
        """A namespace changed, which was a target of `members` before; for these tenants' rules."""
        for tenant in tenants:
            namespaces = self._pending(tenant).namespaces
            moved = namespaces.setdefault(name, NamespaceChange(members, more))
            moved.more |= more

    def _pending(self, tenant: Tenant) -> PendingChanges:
        line = self.trusted if tenant is None else self.tenants
        self.wake[tenant is None].set()
        return line.setdefault(tenant, PendingChanges(tenant))
