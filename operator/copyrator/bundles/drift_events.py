"""Events and metrics about drift: each change is told once."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from copyrator.api.bundle_status import BundleStatus, Outcome
from copyrator.api.conditions import ConditionStatus, ConditionType, conditions_by_type
from copyrator.bundles.context import Context
from copyrator.bundles.entry import BundleEntry
from copyrator.bundles.policy.drift import condition as drift_condition
from copyrator.kube.events import NORMAL, WARNING, EventType

log = logging.getLogger(__name__)


def tell(context: Context, before: BundleEntry, written: BundleEntry) -> None:
    """Emit an Event where something has drifted, came back, or was corrected."""
    status, attempted = written.status, before.status.attempted
    was_running = attempted.correction and attempted.outcome == Outcome.RUNNING
    if was_running and status.attempted.outcome != Outcome.RUNNING:
        _tell_correction(context, written, status)
    old, new = _condition(before), _condition(written)
    is_true = new.get("status") == ConditionStatus.TRUE
    if is_true and new.get("reason") != old.get("reason"):
        _record(context, written, WARNING, str(new.get("reason")), str(new.get("message")))


def _condition(entry: BundleEntry) -> Mapping[str, Any]:
    return conditions_by_type(entry.status.conditions).get(ConditionType.DRIFTED, {})


def _tell_correction(context: Context, entry: BundleEntry, status: BundleStatus) -> None:
    outcome = status.attempted.outcome or ""
    context.metrics.drift_corrections.labels(outcome.lower()).inc()
    if outcome == Outcome.SUCCEEDED:
        text = f"{drift_condition.objects(status)} {drift_condition.verb(status)} been corrected"
        _record(context, entry, NORMAL, "DriftCorrected", text)


def _record(
    context: Context, entry: BundleEntry, kind: EventType, reason: str, message: str
) -> None:
    context.record(entry, kind, reason, message)
    level = logging.INFO if kind == NORMAL else logging.WARNING
    log.log(level, "%s: %s: %s", entry.key, reason, message)
