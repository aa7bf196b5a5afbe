"""Keeps ``status.soak`` of the Bundles that others may be promoted from, and reports its breaks."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from copyrator.api.bundle_status import BundleStatus, SoakStatus
from copyrator.api.promotion import hold_text
from copyrator.api.times import parse_time
from copyrator.bundles import promotions
from copyrator.bundles.context import Context
from copyrator.bundles.entry import BundleEntry
from copyrator.bundles.policy.soak import Surroundings, soaked
from copyrator.kube.events import WARNING

log = logging.getLogger(__name__)

SOAK_BROKEN: Final = "SoakBroken"
"""Reason of the Event when evidence is lost."""


def with_soak(context: Context, entry: BundleEntry, status: BundleStatus) -> BundleStatus:
    """The status that is written next, with ``status.soak`` brought up to date."""
    if not promotions.is_kept(context.bundles, entry):
        return status
    around = Surroundings(
        hold=hold_text(entry.annotations),
        created=parse_time(entry.created),
        is_deleted=entry.deleting,
        seen=context.seen(),
    )
    soak = soaked(entry.status.soak, status, around, context.clock())
    return status if soak == status.soak else replace(status, soak=soak)


def record_breaks(context: Context, entry: BundleEntry, soak: Sequence[SoakStatus]) -> None:
    """Emit an Event for each version whose evidence doesn't count any more."""
    if not soak or soak == entry.status.soak:
        return
    counted = {one.digest for one in entry.status.soak if _counts(one)}
    for one in soak:
        if one.digest in counted and not _counts(one):
            text = (
                f"{one.version} ({(one.digest or '')[:19]}) is no longer promoted from "
                f"this Bundle: {one.broken_by}"
            )
            context.record(entry, WARNING, SOAK_BROKEN, text)
            log.warning("%s: %s", entry.key, text)


def _counts(record: SoakStatus) -> bool:
    return record.until is None or record.longest is not None
