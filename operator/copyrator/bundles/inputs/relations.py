"""The Bundles that one is promoted from, by ``spec.promoteFrom``, from the cache; and its rivals.

A Bundle of another namespace that doesn't allow the promotion is treated as one that doesn't exist:
it influences neither the status nor the deploys of Bundles that name it, and the search for cycles
doesn't continue at it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.consent import ConsentStatus
from copyrator.api.keys import BundleKey
from copyrator.api.names import ANN_PROMOTE_TO
from copyrator.api.promotion import PromotionSpec, PromotionStatus, hold_text
from copyrator.api.seen_time import SeenTime
from copyrator.api.times import parse_time
from copyrator.bundles.bundle import BundleCache, BundleEntry
from copyrator.bundles.gates.gate import NO_SOURCES, PromotionSource, Sources
from copyrator.bundles.gates.links import Link, edges
from copyrator.bundles.gates.promotion import allows, valid_records
from copyrator.bundles.step import Change


def sources(bundles: BundleCache, spec: BundleSpec, seen: Callable[[], SeenTime]) -> Sources:
    """The Bundles that this one is promoted from; NO_SOURCES where it names none.

    ``seen`` returns the periods in which an operator ran.
    """
    if not spec.part(PromotionSpec):
        return NO_SOURCES
    named = spec.part(PromotionSpec).bundles
    return Sources(tuple(_source(bundles, key, spec.namespace) for key in named), seen())


def _source(bundles: BundleCache, key: BundleKey, namespace: str) -> PromotionSource:
    name, entry = f"{key.namespace}/{key.name}", bundles.get(key)
    if entry is None or not allows(entry, namespace):
        return PromotionSource(name=name)
    status = entry.status
    return PromotionSource(
        name=name,
        is_allowed=True,
        hold=hold_text(entry.annotations),
        running=status.deployed.digest,
        soak=valid_records(status.part(PromotionStatus).soak, parse_time(entry.created)),
    )


def is_kept(bundles: BundleCache, entry: BundleEntry) -> bool:
    """Whether ``status.soak`` of a Bundle is kept up to date, as others may be promoted from it.

    That is where it has a soak already, attests it, allows the promotion to other namespaces, or is
    named by a Bundle of its own namespace.
    """
    return (
        bool(entry.status.part(PromotionStatus).soak)
        or entry.attests
        or ANN_PROMOTE_TO in entry.annotations
        or any(key.namespace == entry.key.namespace for key in bundles.promoted_of(entry.key))
    )


def changes_of_others(
    bundles: BundleCache,
    before: BundleEntry | None,
    after: BundleEntry | None,
    links: Sequence[Link] = (),
) -> Iterator[tuple[BundleKey, Change]]:
    """The Bundles that a change of one in the cache concerns, and why.

    Args:
        bundles: the cache after the change.
        before: the entry before it; None where there was none.
        after: the entry in the cache; None where it was removed.
        links: the fields by which cycles of Bundles are found.
    """
    entry = after or before
    if entry is None:
        return
    was_shown, is_shown = _shown(before, links), _shown(after, links)
    if was_shown.ownership != is_shown.ownership:
        for rival in _rivals(bundles, before, after):
            yield rival, Change.RIVAL  # its conflict message may have changed
    differs = was_shown.evidence != is_shown.evidence
    for key in bundles.promoted_of(entry.key):
        was, may = (allows(one, key.namespace) for one in (before, after))
        if was != may or (differs and may):
            yield key, Change.PROMOTION
    for key in {*is_shown.promoted_from} - {*was_shown.promoted_from}:
        if key.namespace == entry.key.namespace and bundles.get(key) is not None:
            yield key, Change.SOURCE  # its soak is recorded from now on


def _rivals(bundles: BundleCache, *changed: BundleEntry | None) -> Iterator[BundleKey]:
    """The other Bundles of the releases that a Bundle has or had."""
    entries = [one for one in changed if one is not None]
    for release in {one for entry in entries for one in entry.releases}:
        for rival in bundles.bundles_of(release):
            if rival.key != entries[0].key:
                yield rival.key


@dataclass(frozen=True, slots=True)
class _Shown:
    """What other Bundles see of one; where a part is equal, nothing changes for them."""

    ownership: tuple[object, ...] = ()
    """By which the owner of a release is determined."""
    evidence: tuple[object, ...] = ()
    """By which those promoted from it are judged."""
    promoted_from: tuple[BundleKey, ...] = ()


def _shown(entry: BundleEntry | None, links: Sequence[Link]) -> _Shown:
    if entry is None:
        return _Shown()
    status = entry.status
    return _Shown(
        (
            entry.uid,
            entry.releases,
            entry.running_release,
            status.deployed.time or "",
            entry.deleting,
            status.find(ConsentStatus),
        ),
        (
            entry.uid,
            hash(status.part(PromotionStatus).soak),
            hold_text(entry.annotations),
            edges(links, entry),
            entry.deleting,
        ),
        entry.promoted_from,
    )
