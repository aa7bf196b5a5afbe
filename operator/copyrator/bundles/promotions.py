"""The state of the Bundles of ``spec.promoteFrom``, by the cache.

A Bundle of another namespace that doesn't allow the promotion is treated as one that doesn't exist:
it influences neither the status nor the deploys of Bundles that name it.
"""

from __future__ import annotations

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason
from copyrator.api.keys import BundleKey
from copyrator.api.names import ANN_PROMOTE_TO
from copyrator.api.promotion import allows_promotion, hold_text
from copyrator.api.seen_time import SeenTime
from copyrator.api.times import parse_time
from copyrator.bundles.cache import BundleCache
from copyrator.bundles.entry import BundleEntry
from copyrator.bundles.policy.soak import valid_records
from copyrator.bundles.policy.sources import NO_SOURCES, Source, Sources


def sources(bundles: BundleCache, spec: BundleSpec, seen: SeenTime) -> Sources:
    """The Bundles that this one is promoted from; NO_SOURCES where it names none."""
    if not spec.promote_from:
        return NO_SOURCES
    named = spec.promote_from.bundles
    return Sources(tuple(_source(bundles, key, spec.namespace) for key in named), seen)


def _source(bundles: BundleCache, key: BundleKey, namespace: str) -> Source:
    name, entry = f"{key.namespace}/{key.name}", bundles.get(key)
    if entry is None or not allows(entry, namespace):
        return Source(name=name)
    status = entry.status
    return Source(
        name=name,
        is_allowed=True,
        hold=hold_text(entry.annotations),
        running=status.deployed.digest,
        soak=valid_records(status.soak, parse_time(entry.created)),
    )


def allows(entry: BundleEntry | None, namespace: str) -> bool:
    """Whether Bundles of this namespace may be promoted from that one."""
    return (
        entry is not None
        and not entry.deleting
        and allows_promotion(entry.annotations, entry.key.namespace, namespace)
    )


def evidence(entry: BundleEntry | None) -> tuple[object, ...]:
    """The state of a Bundle by which those promoted from it are judged; equal: nothing changes."""
    if entry is None:
        return ()
    is_invalid = entry.reason == BundleReason.INVALID_SPEC
    shown = entry.uid, hash(entry.status.soak), hold_text(entry.annotations), is_invalid
    return (*shown, entry.promoted_from, entry.depends_on, entry.deleting)


def is_kept(bundles: BundleCache, entry: BundleEntry) -> bool:
    """Whether ``status.soak`` of a Bundle is kept up to date, as others may be promoted from it.

    That is where it has a soak already, allows the promotion to other namespaces, or is named by a
    Bundle of its own namespace.
    """
    return (
        bool(entry.status.soak)
        or ANN_PROMOTE_TO in entry.annotations
        or any(key.namespace == entry.key.namespace for key in bundles.promoted_of(entry.key))
    )
