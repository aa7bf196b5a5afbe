"""All Bundles as of their last event or the operator's last write, with their dependencies."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from copyrator.api.bundle_status import ConsentState
from copyrator.api.keys import BundleKey
from copyrator.bundles.bundle import BundleEntry

_NO_KEYS: Final[Mapping[BundleKey, None]] = {}
_REMEMBERED: Final = 1024
"""Number of deleted Bundles that are remembered, as late events may arrive for them."""


class BundleCache:
    """Every Bundle by its key, and by its release."""

    def __init__(self) -> None:
        self._entries: dict[BundleKey, BundleEntry] = {}
        self._by_release: dict[tuple[str, str], tuple[BundleKey, ...]] = {}
        self._dependants: dict[BundleKey, tuple[BundleKey, ...]] = {}
        self._promoted: dict[BundleKey, dict[BundleKey, None]] = {}
        self._planning: dict[BundleKey, None] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[BundleEntry]:
        return iter(list(self._entries.values()))

    def get(self, key: BundleKey) -> BundleEntry | None:
        """The Bundle as last stored; None for an unknown key."""
        return self._entries.get(key)

    def take(self, entry: BundleEntry) -> bool:
        """Store a Bundle; False where it is deleted, or stored in this version or a later one.

        An event may arrive after the response to a later write of ours, and such a response after
        the event of the deletion. Versions are compared as numbers (KEP-5504).
        """
        if entry.uid in self._gone:
            return False
        held = self._entries.get(entry.key)
        if (
            held is not None
            and held.uid == entry.uid
            and _number(entry.resource_version) <= _number(held.resource_version)
        ):
            return False
        if held is not None:
            self._unlink(held)
        self._entries[entry.key] = entry
        if entry.status.plan_jobs:
            self._planning[entry.key] = None
        for source in entry.promoted_from:
            self._promoted.setdefault(source, {})[entry.key] = None
        for release in entry.releases:
            keys = self._by_release.get(release, ())
            self._by_release[release] = (*keys, entry.key)
        for other in entry.depends_on:
            self._dependants[other] = (*self._dependants.get(other, ()), entry.key)
        return True

    def remove(self, key: BundleKey, uid: str) -> bool:
        """Remove a deleted Bundle; False where another of its name, or none, is stored."""
        self._gone[uid] = None
        if len(self._gone) > _REMEMBERED:
            self._gone.popitem(last=False)
        held = self._entries.get(key)
        if held is None or (uid and held.uid != uid):
            return False
        self._unlink(held)
        del self._entries[key]
        return True

    def bundles_of(self, release: tuple[str, str] | None) -> list[BundleEntry]:
        """All Bundles that claim a release, its owner first.

        While a Job runs its Bundle owns the release, so that two never change it together. A Bundle
        elsewhere that the release's namespace doesn't accept comes last. Else the owner is the
        Bundle that deployed it successfully last, by its status, which only the operator writes;
        else the Bundle in the release's own namespace; else the oldest one. Times are whole
        seconds, so of two that were created together the uid decides, always the same way.
        """
        found = [self._entries[key] for key in self._by_release.get(release, ())] if release else []
        if release is None or len(found) < 2:
            return found
        found.sort(key=lambda one: (one.key.namespace != release[0], one.created, one.uid))
        found.sort(key=lambda one: one.deleting)
        found.sort(key=lambda one: _installed_at(one, release), reverse=True)
        is_own = any(one.key.namespace == release[0] and not one.deleting for one in found)
        found.sort(key=lambda one: _rank(one, release, is_contested=is_own))
        found.sort(key=lambda one: one.running_release != release)
        return found

    def owner(self, release: tuple[str, str] | None) -> BundleEntry | None:
        """The owner of a release; None while no Bundle names it."""
        return next(iter(self.bundles_of(release)), None)

    def dependants_of(self, key: BundleKey) -> tuple[BundleKey, ...]:
        """The Bundles that name this one in ``spec.dependsOn``; it needn't exist."""
        return self._dependants.get(key, ())

    def promoted_of(self, key: BundleKey) -> Collection[BundleKey]:
        """The Bundles that name this one in ``spec.promoteFrom``; it needn't exist, or allow it."""
        return self._promoted.get(key, _NO_KEYS)

    @property
    def planning(self) -> list[BundleEntry]:
        """The Bundles whose status names Jobs of plans without an outcome."""
        return [self._entries[key] for key in self._planning]

    def _unlink(self, entry: BundleEntry) -> None:
        self._planning.pop(entry.key, None)
        for source in entry.promoted_from:
            keys_of = self._promoted[source]
            keys_of.pop(entry.key, None)
            if not keys_of:
                del self._promoted[source]
        for other in entry.depends_on:
            keys = self._dependants.pop(other, ())
            if left := tuple(key for key in keys if key != entry.key):
                self._dependants[other] = left
        for release in entry.releases:
            keys = self._by_release.pop(release, ())
            if others := tuple(key for key in keys if key != entry.key):
                self._by_release[release] = others


def _installed_at(entry: BundleEntry, release: tuple[str, str]) -> tuple[bool, str]:
    """When it last deployed this release; a Bundle that never did sorts before one that did."""
    there = entry.installed_release == release
    return there, (entry.status.deployed.time or "") if there else ""


def _rank(entry: BundleEntry, release: tuple[str, str], *, is_contested: bool) -> int:
    """Its place among the Bundles of a release by consent; a lower one has precedence.

    Where a Bundle in the release's own namespace names it too, ``is_contested``, one elsewhere has
    to be accepted. One that deployed it, and wasn't asked for consent yet, waits for that.
    """
    namespace, _ = release
    if entry.key.namespace == namespace:
        return 0
    consent = entry.status.known_consent
    if consent is None or consent.namespace != namespace:
        return 0 if entry.installed_release == release else 2
    if consent.state == ConsentState.ASSUMED:
        return int(is_contested)
    return 0 if consent.state == ConsentState.ACCEPTED else 2


def _number(version: str) -> int:
    return int(version) if version.isdecimal() else -1
