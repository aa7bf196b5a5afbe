"""The status of a Bundle's soak as sentences. Pure.

A status may be forged by who may write it, so that every text is shown shortened and escaped.

The status of the release's objects as sentences. Pure.

A status may be forged by who may write it, so that every text is shown shortened and escaped.

The status of drift as sentences. Pure.

A status may be forged by who may write it, so that every text is shown shortened and escaped.

The status of a Bundle's plan as sentences. Pure.

A status may be forged by who may write it, so that every text is shown shortened and escaped.

Whether a release's namespace accepts it, as words. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import (
    BundleReason,
    BundleStatus,
    ConsentBy,
    ConsentState,
    ConsentStatus,
    GateState,
    SoakStatus,
    parse_status,
)
from copyrator.api.conditions import ConditionType, conditions_by_type
from copyrator.api.counts import count
from copyrator.api.drift import DriftMode
from copyrator.api.drift_status import DriftVerdict
from copyrator.api.health import HealthMode
from copyrator.api.names import ANN_ACCEPT_FROM, ANN_HOLD, ANN_PROMOTE_TO
from copyrator.api.plan_status import PlanDecision, PlanOutcome, PlanStatus, PlanSummary
from copyrator.api.promotion import shown_hold
from copyrator.api.times import format_duration, format_time, parse_time
from copyrator.bundles.deploy.identity import spec_hash
from copyrator.bundles.plan.drift import due_at
from copyrator.bundles.plan.operations import describe_counts
from copyrator.cli.bundles.permissions import summary
from copyrator.cli.core.hints import hint_about
from copyrator.cli.core.output import labelled, printable
from copyrator.cli.view import rows

_BY = {
    ConsentBy.ANNOTATION.value: f"by its annotation {ANN_ACCEPT_FROM}",
    ConsentBy.PERMISSION.value: "as the Job's service account may create Secrets there",
}
_STATES = {
    ConsentState.ASSUMED.value: (
        "counts as accepted, as it was deployed before that was asked",
        True,
    ),
    ConsentState.NOT_ACCEPTED.value: ("isn't accepted", False),
}


def consent_of(found: ConsentStatus, namespace: str) -> tuple[str, bool | None]:
    """What the status says of a release in this other namespace, and whether it may be deployed.

    None: it hasn't been asked. A status may be forged, so only known values are shown.
    """
    if found.namespace != namespace:
        return "hasn't been asked yet", None
    if found.state == ConsentState.ACCEPTED:
        by = _BY.get(found.by or "", "")
        return f"is accepted {by}".strip(), True
    return _STATES.get(found.state or "", ("hasn't been asked yet", None))


MOST: Final = 256
"""Characters of a text of the status that are shown; more than an ID or a user's name has."""
MAY_DIFFER: Final = "what is deployed may differ from what is shown"
"""Of a plan whose contents aren't bound."""
_GATE: Final = "approval"

Body = Mapping[str, Any]


def said(value: object, most: int = MOST) -> str:
    """A text of the status in one line; a dash where there is none."""
    text = str(value) if value not in (None, "") else "-"
    text = printable(text[:most] + ("…" if len(text) > most else ""))
    return text.replace("\n", " ").replace("\t", " ")


def plan_of(body: Body) -> PlanStatus:
    """The plan in a Bundle's status; an empty one where there is none."""
    return parse_status(body).plan


def exists(plan: PlanStatus) -> bool:
    """Whether a plan was ever begun."""
    return plan.outcome is not None


def is_due(body: Body) -> bool:
    """Whether the operator waits for a decision, by its conditions and gates."""
    conditions = conditions_by_type((body.get("status") or {}).get("conditions")).values()
    gates = parse_status(body).gates
    return any(one.get("reason") == BundleReason.AWAITING_APPROVAL for one in conditions) or any(
        gate.name == _GATE
        and gate.state == GateState.WAITING
        and gate.reason == BundleReason.AWAITING_APPROVAL
        for gate in gates
    )


def is_expired(plan: PlanStatus, now: datetime) -> bool:
    """Whether no decision came in time."""
    ends = parse_time(plan.expires_at)
    return plan.decision is None and ends is not None and ends <= now


def awaits_decision(body: Body, now: datetime) -> bool:
    """Whether the plan can be approved or rejected now, and has to be."""
    plan = plan_of(body)
    planned = plan.outcome == PlanOutcome.PLANNED and bool(plan.id) and plan.decision is None
    return planned and not is_expired(plan, now) and is_due(body)


def operation_counts(plan: PlanSummary) -> str:
    """``4 operations: 3 create, 1 delete; 1 risky``."""
    if not plan.operations:
        return "no operations"
    risky = f"; {plan.risky_operations} risky" if plan.risky_operations else ""
    return f"{count(plan.operations, 'operation')}: {describe_counts(plan.counts) or '-'}{risky}"


def contents(plan: PlanSummary, most: int = 3) -> str:
    """Whether contents are bound or hidden, in one line; empty where that wasn't judged."""
    if plan.bound is None:
        return ""
    text = "bound: what is deployed is what was planned"
    if not plan.bound:
        shown = "; ".join(said(one) for one in plan.unbound[:most])
        more = len(plan.unbound) - most
        text = f"not bound: {shown or MAY_DIFFER}{f'; and {more} more' if more > 0 else ''}"
    if plan.hidden:
        text += f"; the chart hides contents of {count(plan.hidden, 'object')}"
    return text


def changes(plan: PlanStatus, most: int = 3) -> str:
    """What changed besides the chart, in one line; empty where nothing did."""
    if not plan.changed:
        return said(plan.change_unknown) if plan.change_unknown else ""
    shown = "; ".join(said(one) for one in plan.changed[:most])
    more = len(plan.changed) - most
    return f"{shown}; and {more} more" if more > 0 else shown


def state_of(body: Body, now: datetime) -> str:
    """The plan's state: running, failed, decided, expired or waiting."""
    plan = plan_of(body)
    match plan.outcome:
        case PlanOutcome.RUNNING:
            return f"being made by the Job {said(plan.job)}"
        case PlanOutcome.FAILED:
            return f"failed: {failure(plan, now)}"
        case PlanOutcome.PLANNED:
            return _planned(body, plan, now)
    return said(plan.outcome)


def failure(plan: PlanStatus, now: datetime) -> str:
    """Why it failed, and when it is made again."""
    retry = f"; made again {rows.until(plan.next_retry_at, now)}" if plan.next_retry_at else ""
    message = said(plan.message, 1000).rstrip(".")
    return f"{said(plan.reason)}: {message}{retry}"


def _planned(body: Body, plan: PlanStatus, now: datetime) -> str:
    if plan.decision is not None:
        return f"{decision(plan)}, {rows.age(plan.at, now)} ago"
    if is_expired(plan, now):
        return f"expired {rows.age(plan.expires_at, now)} ago; the operator makes it again"
    if not is_due(body):
        return "made; no decision is required"
    ends = f"; expires {rows.until(plan.expires_at, now)}" if plan.expires_at else ""
    return f"waits for a decision{ends}"


def decision(plan: PlanStatus) -> str:
    """``approved by ann``."""
    known = {PlanDecision.APPROVED: "approved", PlanDecision.REJECTED: "rejected"}
    words = {str(value): word for value, word in known.items()}
    verb = words.get(str(plan.decision), said(plan.decision))
    return f"{verb} by {said(plan.by)}" if plan.by else verb


def head(body: Body, now: datetime) -> Iterator[str]:
    """The lines about the plan itself, with labels."""
    plan = plan_of(body)
    yield labelled("Plan", said(plan.id))
    if plan.outcome == PlanOutcome.PLANNED and (shown := contents(plan)):
        yield labelled("Contents", shown)
    yield labelled("State", state_of(body, now))
    yield labelled("Version", f"{said(plan.version)}  {said(rows.digest(plan.digest))}")
    if plan.newer:
        advice = hint_about("plan", "bundle", body, "--refresh")
        yield labelled("Newer", f"{said(plan.newer)} waits for the decision; {advice} plans it now")
    if plan.outcome == PlanOutcome.PLANNED:
        yield labelled("Changes", operation_counts(plan))
    if permissions := summary(parse_status(body)):
        yield labelled("Permissions", permissions)


def describe_plan(body: Body, now: datetime) -> Iterator[str]:
    """The lines of `describe` about the plan, and who approved what was deployed last."""
    status = parse_status(body)
    yield from _approved(status)
    if not exists(status.plan):
        return
    first, *others = head(body, now)
    yield first
    yield from (f"  {line}" for line in others)
    if status.plan.risky:
        yield f"  {labelled('Risky', _risky(status.plan))}"
    if shown := changes(status.plan):
        yield f"  {labelled('Changed', shown)}"
    if awaits_decision(body, now):
        yield f"  {_how_to_see(body)}"
        yield f"  {how_to_decide(body)}"


def _approved(status: BundleStatus) -> Iterator[str]:
    attempt = status.attempted
    if attempt.plan:
        by = f"approved by {said(attempt.approved_by)}" if attempt.approved_by else "not required"
        yield labelled("Last approval", f"{by}, plan {said(attempt.plan)}")


def _risky(plan: PlanStatus, most: int = 3) -> str:
    shown = ", ".join(said(one) for one in plan.risky[:most])
    more = max(plan.risky_operations or 0, len(plan.risky)) - most
    return f"{shown} and {more} more" if more > 0 else shown


def how_to_decide(body: Body) -> str:
    """The two commands."""
    approve, reject = (hint_about(verb, "bundle", body) for verb in ("approve", "reject"))
    return f"To decide: {approve} or {reject}"


def _how_to_see(body: Body) -> str:
    return f"To see it: {hint_about('plan', 'bundle', body)}"


def explain_plan(body: Body, now: datetime) -> Iterator[str]:
    """The lines of `why` about the plan."""
    plan = plan_of(body)
    if not exists(plan):
        return
    yield f"The plan of {said(plan.version)}: {state_of(body, now)}."
    if plan.outcome == PlanOutcome.PLANNED:
        if shown := contents(plan):
            yield f"  Contents: {shown}."
        yield f"  {said(plan.id)}: {operation_counts(plan)}."
    if shown := changes(plan):
        yield f"  Changed besides the chart: {shown}."
    if plan.newer:
        yield f"  {said(plan.newer)} is newer and waits for the decision about this plan."
    if awaits_decision(body, now):
        yield f"  {_how_to_see(body)}"
        yield f"  {how_to_decide(body)}"


def describe_drift(body: Body, spec: BundleSpec, now: datetime) -> Iterator[str]:
    """The lines of `describe`; none where drift isn't checked for."""
    if not spec.drift.is_enabled:
        return
    status = parse_status(body)
    yield labelled(
        "Drift", f"{_drift_verdict(body, status, now)}; {spec.drift.mode}, {_check_interval(spec)}"
    )
    drift = status.drift
    for one in drift.objects:
        yield f"  {said(one)}"
    if (more := (drift.count or 0) - len(drift.objects)) > 0:
        yield f"  and {more} more"
    if drift.found_job:
        yield f"  {labelled('Differences', f'in the log of the Job {said(drift.found_job)}')}"
    if drift.corrections:
        yield f"  {labelled('Corrections', drift.corrections)}"
    yield f"  {labelled('Next check', _next_check(body, status, spec, now))}"


def explain_drift(body: Body, spec: BundleSpec, now: datetime) -> Iterator[str]:
    """The lines of `why` about drift."""
    if not spec.drift.is_enabled:
        return
    status, condition = parse_status(body), _drift_condition(body)
    yield (
        f"Drift is what a plan of the deployed version has beyond the one made right after the "
        f"deploy. It is checked {_check_interval(spec)}; next check: "
        f"{_next_check(body, status, spec, now)}; to check now: "
        f"{hint_about('plan', 'bundle', body, '--refresh')}"
    )
    if condition:
        text = said(condition.get("message"), 1000).rstrip(".")
        yield f"  {said(condition.get('reason'))}: {text}."
    if status.drift.verdict == DriftVerdict.DRIFTED and spec.drift.mode is DriftMode.CORRECT:
        corrections = count(status.drift.corrections or 0, "correction")
        yield f"  {corrections} of it since a regular check found none."


def _drift_verdict(body: Body, status: BundleStatus, now: datetime) -> str:
    condition, drift = _drift_condition(body), status.drift
    text = said(condition.get("reason")) if condition else "not checked yet"
    if drift.verdict == DriftVerdict.DRIFTED and drift.since:
        return f"{text}, since {rows.age(drift.since, now)}"
    return f"{text}, checked {rows.age(drift.checked_at, now)} ago" if drift.checked_at else text


def _drift_condition(body: Body) -> Mapping[str, Any]:
    found = conditions_by_type((body.get("status") or {}).get("conditions"))
    return found.get(ConditionType.DRIFTED, {})


def _check_interval(spec: BundleSpec) -> str:
    return f"every {format_duration(spec.drift.interval)}"


def _next_check(body: Body, status: BundleStatus, spec: BundleSpec, now: datetime) -> str:
    if status.drift.check.outcome == PlanOutcome.RUNNING:
        return f"running as the Job {said(status.drift.check.job)}"
    metadata = body["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    hashed = spec_hash(body["spec"], labels, annotations)
    due = due_at(status, spec, hashed, metadata.get("uid", ""))
    if due is None:
        return "none now"
    return "now" if due <= now else rows.until(format_time(due), now)


_MOST = 1500
"""Characters of a message that are shown."""


def describe_health(body: Body, spec: BundleSpec, now: datetime) -> Iterator[str]:
    """The line of `describe`; none where ``spec.health`` isn't set."""
    if spec.health is HealthMode.OFF:
        return
    found = _health_condition(body)
    since = rows.age(found.get("lastTransitionTime"), now)
    text = f"{said(found.get('reason'))}, for {since}" if found else "not known yet"
    yield labelled("Health", text)
    if found:
        yield f"  {said(found.get('message'), _MOST)}"


def explain_health(body: Body, spec: BundleSpec) -> Iterator[str]:
    """The lines of `why` about health."""
    if spec.health is HealthMode.OFF:
        return
    found = _health_condition(body)
    text = said(found.get("message"), _MOST).rstrip(".") if found else "nothing is known yet"
    state = f"{said(found.get('status'))}, {said(found.get('reason'))}" if found else "unknown"
    yield f"Whether its release is healthy: {state}: {text}."


def _health_condition(body: Body) -> Mapping[str, Any]:
    found = conditions_by_type((body.get("status") or {}).get("conditions"))
    return found.get(ConditionType.HEALTHY, {})


def describe_soak(body: Body, now: datetime) -> Iterator[str]:
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


def explain_soak(body: Body, now: datetime) -> Iterator[str]:
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
