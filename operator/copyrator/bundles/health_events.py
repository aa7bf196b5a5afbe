"""Events about the health of releases: each change is told once."""

from __future__ import annotations

import logging
from typing import Any

from copyrator.api.conditions import ConditionStatus, ConditionType, conditions_by_type
from copyrator.bundles.context import Context
from copyrator.bundles.entry import BundleEntry
from copyrator.kube.events import NORMAL, WARNING

log = logging.getLogger(__name__)


def tell(context: Context, before: BundleEntry, written: BundleEntry) -> None:
    """Emit an Event where a release became unhealthy, or was and is healthy again."""
    if before.health == written.health:
        return
    found: Any = conditions_by_type(written.status.conditions).get(ConditionType.HEALTHY, {})
    reason, message = str(found.get("reason")), str(found.get("message"))
    if written.health == ConditionStatus.FALSE:
        context.record(written, WARNING, reason, message)
        log.warning("%s: %s: %s", written.key, reason, message)
    elif written.health == ConditionStatus.TRUE and before.health == ConditionStatus.FALSE:
        context.record(written, NORMAL, reason, message)
        log.info("%s: %s: %s", written.key, reason, message)
