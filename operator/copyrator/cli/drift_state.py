"""The status of drift as sentences. Pure.

A status may be forged by who may write it, so that every text is shown shortened and escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, parse_status
from copyrator.api.conditions import ConditionType, conditions_by_type
from copyrator.api.counts import count
from copyrator.api.drift import DriftMode
from copyrator.api.drift_status import DriftVerdict
from copyrator.api.plan_status import PlanOutcome
from copyrator.api.times import format_duration, format_time
from copyrator.bundles.deploy.identity import spec_hash
from copyrator.bundles.plan.drift import due_at
from copyrator.cli import rows
from copyrator.cli.hints import hint_about
from copyrator.cli.output import labelled
from copyrator.cli.plan_state import said

Body = Mapping[str, Any]


def describe_lines(body: Body, spec: BundleSpec, now: datetime) -> Iterator[str]:
    """The lines of `describe`; none where drift isn't checked for."""
    if not spec.drift.is_enabled:
        return
    status = parse_status(body)
    yield labelled("Drift", f"{_verdict(body, status, now)}; {spec.drift.mode}, {_rhythm(spec)}")
    drift = status.drift
    for one in drift.objects:
        yield f"  {said(one)}"
    if (more := (drift.count or 0) - len(drift.objects)) > 0:
        yield f"  and {more} more"
    if drift.found_job:
        yield f"  {labelled('Differences', f'in the log of the Job {said(drift.found_job)}')}"
    if drift.corrections:
        yield f"  {labelled('Corrections', drift.corrections)}"
    yield f"  {labelled('Next check', _next(body, status, spec, now))}"


def why_lines(body: Body, spec: BundleSpec, now: datetime) -> Iterator[str]:
    """The lines of `why` about drift."""
    if not spec.drift.is_enabled:
        return
    status, condition = parse_status(body), _condition(body)
    yield (
        f"Drift is what a plan of the deployed version has beyond the one made right after the "
        f"deploy. It is checked {_rhythm(spec)}; next check: {_next(body, status, spec, now)}; to "
        f"check now: {hint_about('plan', 'bundle', body, '--refresh')}"
    )
    if condition:
        text = said(condition.get("message"), 1000).rstrip(".")
        yield f"  {said(condition.get('reason'))}: {text}."
    if status.drift.verdict == DriftVerdict.DRIFTED and spec.drift.mode is DriftMode.CORRECT:
        corrections = count(status.drift.corrections or 0, "correction")
        yield f"  {corrections} of it since a regular check found none."


def _verdict(body: Body, status: BundleStatus, now: datetime) -> str:
    condition, drift = _condition(body), status.drift
    text = said(condition.get("reason")) if condition else "not checked yet"
    if drift.verdict == DriftVerdict.DRIFTED and drift.since:
        return f"{text}, since {rows.age(drift.since, now)}"
    return f"{text}, checked {rows.age(drift.checked_at, now)} ago" if drift.checked_at else text


def _condition(body: Body) -> Mapping[str, Any]:
    found = conditions_by_type((body.get("status") or {}).get("conditions"))
    return found.get(ConditionType.DRIFTED, {})


def _rhythm(spec: BundleSpec) -> str:
    return f"every {format_duration(spec.drift.interval)}"


def _next(body: Body, status: BundleStatus, spec: BundleSpec, now: datetime) -> str:
    if status.drift.check.outcome == PlanOutcome.RUNNING:
        return f"running as the Job {said(status.drift.check.job)}"
    metadata = body["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    hashed = spec_hash(body["spec"], labels, annotations)
    due = due_at(status, spec, hashed, metadata.get("uid", ""))
    if due is None:
        return "none now"
    return "now" if due <= now else rows.until(format_time(due), now)
