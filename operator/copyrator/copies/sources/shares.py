"""How many watches of sources, and how many bytes of them, the rules of a namespace may hold.

A rule without room waits, and is reconciled again when there is room; its copies aren't changed. So
a namespace with a thousand rules, or with very large sources, delays only its own rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from copyrator.api.keys import RuleKey
from copyrator.api.text import count
from copyrator.copies.sources.records import SourceRecord

TENANT_WATCHES: Final = 16
"""Watches of sources for the rules of one tenant's namespace. Each is a connection; rules with the
same selector share one, and rules that name their source share five of each kind."""

TENANTS_WATCHES: Final = 256
"""The same of all tenants together. `FIRST_WATCHES` of each namespace don't count."""

FIRST_WATCHES: Final = 2
"""Watches of sources that a tenant's namespace gets however many others have."""

TENANT_SOURCE_BYTES: Final = 8 * 1024 * 1024
"""Bytes of sources (as JSON, with `SOURCE_OVERHEAD` for each) that are held in memory for the rules
of one tenant's namespace: eight of the largest objects that etcd accepts."""

TENANTS_SOURCE_BYTES: Final = 64 * 1024 * 1024
"""The same of all tenants together: an eighth of the chart's memory limit. `FIRST_SOURCE_BYTES` of
each namespace don't count."""

FIRST_SOURCE_BYTES: Final = 256 * 1024
"""Bytes of sources that a tenant's namespace may have however much others have."""

TRUSTED_SOURCE_BYTES: Final = 128 * 1024 * 1024
"""Bytes of sources that are held for all trusted rules: a quarter of the chart's memory limit."""

TOO_MUCH: Final = "the memory limit is reached"

_MIB: Final = 1024 * 1024


class SourceShare:
    """What the sources of one tenant's rules hold, or those of all trusted rules.

    It is a `Share` of kube.watch.reflector. `most` is the limit of bytes without a tenant, and
    `whose` its sources are, for messages.
    """

    def __init__(
        self,
        shares: SourceShares,
        tenant: str | None,
        most: int | None = None,
        whose: str = "of the rules of the operator's namespace",
    ) -> None:
        self._shares = shares
        self._tenant = tenant
        self._most = TRUSTED_SOURCE_BYTES if most is None else most
        self._whose = whose
        self.watches = 0
        self.bytes = 0
        self.waiting: dict[RuleKey, None] = {}
        """Rules that wait for a watch, the next one first."""

    @property
    def tenant(self) -> str | None:
        """The namespace; None for trusted rules."""
        return self._tenant

    @property
    def may_watch(self) -> bool:
        """Whether there is room for one more watch."""
        if self._tenant is None or self.watches < FIRST_WATCHES:
            return True
        together = self._shares.watches < TENANTS_WATCHES
        return together and self.watches < TENANT_WATCHES

    def has_room(self, size: int) -> bool:
        """Whether so many more bytes may be held."""
        after = self.bytes + size
        if self._tenant is None:
            return after <= self._most
        if after <= FIRST_SOURCE_BYTES:
            return True
        together = self._shares.bytes + size <= TENANTS_SOURCE_BYTES
        return together and after <= TENANT_SOURCE_BYTES

    def opened(self) -> None:
        """A watch was opened."""
        self.watches += 1
        self._shares.watches += self._counts

    def closed(self) -> None:
        """A watch ended: a waiting rule may use its place."""
        self._shares.watches -= self._counts
        self.watches -= 1
        self._shares.made_room(self)

    def held(self, old: Any, new: Any) -> Any:
        """What to hold of a source: all of it, or only its name where there is no room.

        A watch that many names share delivers metadata only, and isn't counted.
        """
        if not isinstance(new, SourceRecord):
            return new
        if old is not None:
            self._add(-old.held)
        if new.refused is None and not self.has_room(new.size):
            named = {key: new.body["metadata"][key] for key in ("name", "namespace")}
            new = replace(new, body={"metadata": named}, refused=TOO_MUCH, whole=False)
        self._add(new.held)
        return new

    def dropped(self, record: Any) -> None:
        """A source isn't held any more."""
        if isinstance(record, SourceRecord):
            self._add(-record.held)

    def reserve(self, size: int) -> bool:
        """Hold so many bytes of a template's sources, if there is room; to be given back."""
        if not self.has_room(size):
            return False
        self._add(size)
        return True

    def give_back(self, size: int) -> None:
        """A template's sources aren't held any more."""
        self._add(-size)

    def next_rule(self) -> None:
        """Queue the rule that has waited longest for a watch, where there is room for one."""
        if self.waiting and self.may_watch:
            rule = next(iter(self.waiting))
            del self.waiting[rule]
            self._shares.look_at(rule)

    @property
    def no_watch(self) -> str:
        """Why a rule waits, for its status."""
        if self.watches >= TENANT_WATCHES:
            return (
                f"is waiting for a watch: the rules of the namespace {self._tenant} have "
                f"{self.watches}, the limit for a namespace; use the same selector in several "
                "rules, name their source, or delete some rules"
            )
        return (
            f"is waiting for a watch: the rules of all namespaces but the operator's have "
            f"{self._shares.watches}, the limit for all of them; it starts when another watch ends"
        )

    def no_room(self, sources: int, size: int) -> str:
        """Why a rule's sources aren't all held, for its status."""
        most, whose = TENANT_SOURCE_BYTES, f"of the rules of the namespace {self._tenant}"
        if self._tenant is None:
            most, whose = self._most, self._whose
        elif self.bytes + size <= most:
            most = TENANTS_SOURCE_BYTES
            whose = "of the rules of all namespaces but the operator's"
        return (
            f"no memory for {count(sources, 'source')} ({size / _MIB:.1f} MiB): the sources "
            f"{whose} may have {most // _MIB} MiB; select fewer or smaller objects in the "
            "rules. Until then this rule's copies aren't changed"
        )

    @property
    def _counts(self) -> int:
        """1 for a watch beyond a namespace's first ones."""
        return int(self._tenant is not None and self.watches > FIRST_WATCHES)

    def _add(self, size: int) -> None:
        self.bytes += size
        if self._tenant is not None:
            self._shares.bytes += size


class SourceShares:
    """The shares of all namespaces. ``look_at`` requeues a rule that needn't wait any more.

    Not a FairLimit (workqueue.fairness): a rule may open several watches, or join existing ones. So
    a place isn't given to it; its next reconcile takes it, or leaves it to others. Bytes are a
    budget: nothing that is held waits for them in turn.

    Attributes:
        watches: of all tenants, except the first ones of each.
        bytes: of all tenants' sources.
    """

    def __init__(self, look_at: Callable[[RuleKey], None]) -> None:
        self.watches = 0
        self.bytes = 0
        self.look_at = look_at
        self._shares: dict[str | None, SourceShare] = {}

    def of(self, tenant: str | None) -> SourceShare:
        """The share of a tenant's namespace; of trusted rules for None."""
        share = self._shares.get(tenant)
        if share is None:
            share = self._shares[tenant] = SourceShare(self, tenant)
        return share

    def forget(self, key: RuleKey, tenant: str | None) -> None:
        """A rule doesn't wait any more."""
        share = self._shares.get(tenant)
        if share is not None:
            share.waiting.pop(key, None)

    def made_room(self, share: SourceShare) -> None:
        """A watch of a share has ended: a waiting rule may use its place."""
        share.next_rule()
        if self.watches == TENANTS_WATCHES - 1:  # all were in use: others may wait
            for other in list(self._shares.values()):
                other.next_rule()
        is_idle = not share.watches and not share.waiting and not share.bytes
        if is_idle and self._shares.get(share.tenant) is share:
            del self._shares[share.tenant]
