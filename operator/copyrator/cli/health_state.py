"""The status of the release's objects as sentences. Pure.

A status may be forged by who may write it, so that every text is shown shortened and escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.conditions import ConditionType, conditions_by_type
from copyrator.api.health import HealthMode
from copyrator.cli import rows
from copyrator.cli.output import labelled
from copyrator.cli.plan_state import said

Body = Mapping[str, Any]
_MOST = 1500
"""Characters of a message that are shown."""


def describe_lines(body: Body, spec: BundleSpec, now: datetime) -> Iterator[str]:
    """The line of `describe`; none where ``spec.health`` isn't set."""
    if spec.health is HealthMode.OFF:
        return
    found = _condition(body)
    since = rows.age(found.get("lastTransitionTime"), now)
    text = f"{said(found.get('reason'))}, for {since}" if found else "not known yet"
    yield labelled("Health", text)
    if found:
        yield f"  {said(found.get('message'), _MOST)}"


def why_lines(body: Body, spec: BundleSpec) -> Iterator[str]:
    """The lines of `why` about health."""
    if spec.health is HealthMode.OFF:
        return
    found = _condition(body)
    text = said(found.get("message"), _MOST).rstrip(".") if found else "nothing is known yet"
    state = f"{said(found.get('status'))}, {said(found.get('reason'))}" if found else "unknown"
    yield f"Whether its release is healthy: {state}: {text}."


def _condition(body: Body) -> Mapping[str, Any]:
    found = conditions_by_type((body.get("status") or {}).get("conditions"))
    return found.get(ConditionType.HEALTHY, {})
