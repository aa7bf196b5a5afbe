"""What Bundles of ``spec.dependsOn`` are now, by the cache: Ready or not, and cycles."""

from __future__ import annotations

from collections.abc import Iterable

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason
from copyrator.api.keys import BundleKey
from copyrator.bundles.cache import BundleCache, BundleEntry
from copyrator.bundles.policy.depends_on import MAX_SEARCHED, TooManyError, find_cycle


def unready(bundles: BundleCache, spec: BundleSpec) -> tuple[str, ...]:
    """The Bundles that this one waits for, a sentence for each.

    It doesn't tell those that don't exist from others, as their namespace may be another team's.
    """
    return tuple(
        f"Bundle {key.namespace}/{key.name} isn't Ready, or doesn't exist"
        for key in spec.depends_on
        if (entry := bundles.get(key)) is None or not entry.is_ready
    )


def fault(bundles: BundleCache, entry: BundleEntry) -> str | None:
    """Why a Bundle's dependencies can't be waited for; None where they can."""

    def depends_on(key: BundleKey) -> Iterable[BundleKey]:
        found = bundles.get(key)
        return () if found is None else found.depends_on

    try:
        cycle = find_cycle(entry.key, depends_on)
    except TooManyError:
        return f"leads to more than {MAX_SEARCHED} Bundles; reduce it"
    if not cycle:
        return None
    shown = " -> ".join(f"{key.namespace}/{key.name}" for key in cycle)
    return f"is a cycle, {shown}; remove one of these"


def support(entry: BundleEntry | None) -> tuple[object, ...]:
    """What those which depend on a Bundle wait for: with an equal one nothing changes for them."""
    if entry is None:
        return ()
    return entry.is_ready, entry.depends_on, entry.reason == BundleReason.INVALID_SPEC
