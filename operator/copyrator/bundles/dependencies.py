"""Whether the Bundles of ``spec.dependsOn`` are Ready and Healthy, by the cache."""

from __future__ import annotations

from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleReason
from copyrator.api.conditions import ConditionStatus
from copyrator.api.fields import InvalidSpec
from copyrator.api.health import HealthMode
from copyrator.api.keys import BundleKey
from copyrator.bundles.cache import BundleCache
from copyrator.bundles.entry import BundleEntry

_OTHERS: Final = " (or not Healthy, where that is watched)"


def unready(bundles: BundleCache, spec: BundleSpec) -> tuple[str, ...]:
    """The Bundles that this one waits for, a sentence for each.

    A missing Bundle has the same sentence as one that isn't Ready: its namespace may be another
    team's, whose objects must not be disclosed.
    """
    found = (_unready(key, bundles.get(key), spec) for key in spec.depends_on)
    return tuple(text for text in found if text)


def _unready(key: BundleKey, entry: BundleEntry | None, spec: BundleSpec) -> str:
    if entry is not None and entry.is_ready and _is_healthy(entry):
        return ""
    shown = f"Bundle {key.namespace}/{key.name}"
    if entry is not None and entry.is_ready and key.namespace == spec.namespace:
        return f"{shown} is Ready, but isn't Healthy"
    return f"{shown} isn't Ready{_OTHERS * (key.namespace != spec.namespace)}, or doesn't exist"


def readiness(entry: BundleEntry | None) -> tuple[object, ...]:
    """The state of a Bundle by which its dependants are judged; equal: nothing changes for them."""
    if entry is None:
        return ()
    is_healthy, is_refused = _is_healthy(entry), entry.reason == BundleReason.INVALID_SPEC
    leads_to = entry.depends_on, entry.promoted_from
    return entry.is_ready, entry.is_ready and is_healthy, leads_to, is_refused


def _is_healthy(entry: BundleEntry) -> bool:
    """Whether its release is healthy, or isn't watched."""
    if isinstance(entry.spec, InvalidSpec) or entry.spec.health is HealthMode.OFF:
        return True
    return entry.health == ConditionStatus.TRUE
