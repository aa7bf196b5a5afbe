"""The status of a Bundle's soak as sentences. Pure.

A status may be forged by who may write it, so that every text is shown shortened and escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from copyrator.api.bundle_status import SoakStatus, parse_status
from copyrator.api.names import ANN_HOLD, ANN_PROMOTE_TO
from copyrator.api.promotion import shown_hold
from copyrator.cli import rows
from copyrator.cli.hints import hint_about
from copyrator.cli.output import labelled
from copyrator.cli.plan_state import said

Body = Mapping[str, Any]


def describe_lines(body: Body, now: datetime) -> Iterator[str]:
    """The lines of `describe`; none where no Bundle may be promoted from this one."""
    annotations = body["metadata"].get("annotations") or {}
    if ANN_PROMOTE_TO in annotations:
        yield labelled("Promoted to", said(annotations[ANN_PROMOTE_TO]))
    if ANN_HOLD in annotations:
        text = said(shown_hold(str(annotations[ANN_HOLD])))
        yield labelled("Held", f"{text}; {hint_about('unhold', 'bundle', body)}")
    records = parse_status(body).soak
    if records:
        yield "Soak:"
    for one in reversed(records):
        yield f"  {said(one.version):<12} {rows.digest(one.digest)}  {_deployed_for(one, now)}"


def why_lines(body: Body, now: datetime) -> Iterator[str]:
    """The lines of `why` about the soak of what is deployed; none where it isn't recorded."""
    status = parse_status(body)
    annotations = body["metadata"].get("annotations") or {}
    found = (one for one in status.soak if one.digest == status.deployed.digest)
    record = next(found, None)
    if record is not None:
        yield f"For Bundles that are promoted from this one, it {_deployed_for(record, now)}."
    if ANN_HOLD in annotations:
        text = said(shown_hold(str(annotations[ANN_HOLD]))).rstrip(".")
        yield f"It is held: {text}. To end that: {hint_about('unhold', 'bundle', body)}"


def _deployed_for(record: SoakStatus, now: datetime) -> str:
    longest = f"; {said(record.longest)} before" if record.longest else ""
    if record.until is None:
        since = said(record.since)
        return f"has been deployed since {since}, for {rows.age(record.since, now)}{longest}"
    why = f" ({said(record.broken_by)})" if record.broken_by else ""
    if record.longest is None:
        return f"doesn't count since {said(record.until)}{why}"
    return f"was deployed for {said(record.longest)} at most, until {said(record.until)}{why}"
