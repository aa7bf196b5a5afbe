"""CopyratorRules: created, there at the start, changed and deleted all arrive as events."""

from __future__ import annotations

from typing import Any

import kopf

from copyrator.handlers.intake import Intake
from copyrator.kube.resources import RULES


def register(registry: kopf.OperatorRegistry, intake: Intake) -> None:
    """Have kopf pass every event of a rule to `intake`."""

    @kopf.on.event(RULES.group, RULES.version, RULES.plural, registry=registry, id="rules")
    async def rule(event: kopf.RawEvent, **_: Any) -> None:
        intake.event(event.get("type"), event.get("object") or {})
