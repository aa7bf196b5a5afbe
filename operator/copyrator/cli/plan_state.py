"""The status of a Bundle's plan as sentences. Pure.

A status may be forged by who may write it, so that every text is shown shortened and escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from copyrator.api.bundle_status import BundleReason, BundleStatus, GateState, parse_status
from copyrator.api.conditions import conditions_by_type
from copyrator.api.counts import count
from copyrator.api.plan_status import PlanDecision, PlanOutcome, PlanStatus, PlanSummary
from copyrator.api.times import parse_time
from copyrator.bundles.plan.operations import describe_counts
from copyrator.cli import rows
from copyrator.cli.bundle_permissions import summary
from copyrator.cli.hints import hint_about
from copyrator.cli.output import labelled, printable

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


def describe_lines(body: Body, now: datetime) -> Iterator[str]:
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


def why_lines(body: Body, now: datetime) -> Iterator[str]:
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
