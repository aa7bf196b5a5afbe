"""Bundles: created, there at the start, changed and deleted all arrive as events."""

from __future__ import annotations

from typing import Any

import kopf

from copyrator.handlers.intake import Intake
from copyrator.kube.resources import BUNDLES


def register(registry: kopf.OperatorRegistry, intake: Intake) -> None:
    """Have kopf pass every event of a Bundle to `intake`."""

    @kopf.on.event(BUNDLES.group, BUNDLES.version, BUNDLES.plural, registry=registry, id="bundles")
    async def bundle(event: kopf.RawEvent, **_: Any) -> None:
        intake.event(event.get("type"), event.get("object") or {})
