"""The other Bundles of the releases that a Bundle has or had, which a change of it concerns."""

from __future__ import annotations

from collections.abc import Iterator

from copyrator.api.consent import ConsentStatus
from copyrator.api.keys import BundleKey
from copyrator.bundles.bundle import BundleCache, BundleEntry


def changed_rivals(
    bundles: BundleCache, before: BundleEntry | None, after: BundleEntry | None
) -> Iterator[BundleKey]:
    """The rivals of a Bundle whose conflict messages may have changed.

    Args:
        bundles: the cache after the change.
        before: the entry before it; None where there was none.
        after: the entry in the cache; None where it was removed.
    """
    if _ownership(before) == _ownership(after):
        return
    entries = [one for one in (before, after) if one is not None]
    for release in {one for entry in entries for one in entry.releases}:
        for rival in bundles.bundles_of(release):
            if rival.key != entries[0].key:
                yield rival.key


def _ownership(entry: BundleEntry | None) -> tuple[object, ...]:
    """By which the owner of a release is determined."""
    if entry is None:
        return ()
    status = entry.status
    return (
        entry.uid,
        entry.releases,
        entry.running_release,
        status.deployed.time or "",
        entry.deleting,
        status.find(ConsentStatus),
    )
