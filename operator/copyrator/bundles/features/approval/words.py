"""What is said of plans and approvals. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import ClassVar, Final

from copyrator.api.bundle_spec import Part
from copyrator.api.bundle_status import BundleStatus, GateState, GateStatus
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.reasons.notices import About
from copyrator.api.text import Detail, count, parse_time, said, short_digest, time_since, time_until
from copyrator.bundles.features.approval.fields import AS_APPROVED, AsApprovedStatus
from copyrator.bundles.jobs.rights import format_permission
from copyrator.bundles.plans.fields import (
    MAX_UNBOUND,
    ApprovalSpec,
    PlanDecision,
    PlanOutcome,
    PlanStatus,
    PlanSummary,
)
from copyrator.bundles.plans.plan_words import (
    ENFORCED,
    PLAN_WORDS,
    PlanWord,
    certainty,
    contents,
    describe_difference,
    first_texts,
    operation_counts,
)
from copyrator.bundles.words import (
    Notice,
    Place,
    Told,
    Tone,
    VersionEvent,
    View,
    Words,
)

GATE: Final = "approval"
"""The gate's name; its module isn't imported, as lists need no more."""


def is_decision_due(view: View) -> bool:
    """Whether the operator waits for a decision about a plan, by its conditions and gates."""
    due = BundleReason.AWAITING_APPROVAL
    return any(one.reason == due for one in view.status.conditions) or any(
        gate.name == GATE and gate.state == GateState.WAITING and gate.reason == due
        for gate in view.status.gates
    )


def awaits_decision(view: View) -> bool:
    """Whether the plan can be approved or rejected now, and has to be."""
    plan = view.status.part(PlanStatus)
    planned = plan.outcome == PlanOutcome.PLANNED and bool(plan.id) and plan.decision is None
    return planned and not is_expired(plan, view.now) and is_decision_due(view)


def is_expired(plan: PlanStatus, now: datetime) -> bool:
    """Whether no decision came in time."""
    ends = parse_time(plan.expires_at)
    return plan.decision is None and ends is not None and ends <= now


def plan_state(view: View) -> str:
    """The plan's state: running, failed, decided, expired or waiting."""
    plan = view.status.part(PlanStatus)
    match plan.outcome:
        case PlanOutcome.RUNNING:
            return f"being made by the Job {said(plan.job)}"
        case PlanOutcome.FAILED:
            return f"failed: {failure(plan, view.now)}"
        case PlanOutcome.PLANNED:
            return _state_of_made(view, plan, view.now)
    return said(plan.outcome)


def _state_of_made(view: View, plan: PlanStatus, now: datetime) -> str:
    if plan.decision is not None:
        ago = f", {time_since(plan.at, now)} ago" if plan.at else ""
        why = f": {said(plan.decision_reason)}" if plan.decision_reason else ""
        return f"{decision(plan)}{ago}{why}"
    if is_expired(plan, now):
        return f"expired {time_since(plan.expires_at, now)} ago; the operator makes it again"
    if not is_decision_due(view):
        return "made; no decision is required"
    ends = f"; expires {time_until(plan.expires_at, now)}" if plan.expires_at else ""
    return f"waits for a decision{ends}"


def enforcement(plan: PlanSummary) -> str:
    """Whether the API server refuses what isn't approved, in one line; empty: not judged."""
    return certainty(ENFORCED, plan)


def lacking_reasons(word: PlanWord, plan: PlanSummary) -> list[str]:
    """Why a word isn't said of a plan."""
    found = word.reasons(plan)
    more = ["There may be more reasons."] if len(found) >= MAX_UNBOUND else []
    return [*(said(one, 1000) for one in found), *more]


def rollback(plan: PlanStatus) -> str:
    """Why a failed deploy of it isn't rolled back though it is asked for; empty: it is."""
    if not plan.rollback_withheld:
        return ""
    return f"spec.autoRollback has no effect: {said(plan.rollback_withheld, 1000)}"


def changes(plan: PlanStatus) -> str:
    """What changed besides the chart, in one line; empty where nothing did."""
    if not plan.changed and plan.change_unknown:
        return said(plan.change_unknown)
    return first_texts(plan.changed, "; ")


def failure(plan: PlanStatus, now: datetime) -> str:
    """Why it failed, and when it is made again."""
    retry = f"; made again {time_until(plan.next_retry_at, now)}" if plan.next_retry_at else ""
    return f"{said(plan.reason)}: {said(plan.message, 1000).rstrip('.')}{retry}"


def decision(plan: PlanStatus) -> str:
    """``approved by ann``."""
    words = {str(PlanDecision.APPROVED): "approved", str(PlanDecision.REJECTED): "rejected"}
    verb = words.get(str(plan.decision), said(plan.decision))
    return f"{verb} by {said(plan.by)}" if plan.by else verb


def describe_version(version: str | None, digest: str | None) -> str:
    """A version and the beginning of its digest, of a status."""
    return f"{said(version)}  {said(short_digest(digest))}"


def describe_plan(view: View) -> Iterator[Detail]:
    """The parts about the plan itself, as `plan` and `describe` show them."""
    plan = view.status.part(PlanStatus)
    is_planned = plan.outcome == PlanOutcome.PLANNED
    yield Detail("Plan", said(plan.id))
    yield from plan_facts(plan) if is_planned else ()
    yield Detail("State", plan_state(view))
    yield Detail("Version", describe_version(plan.version, plan.digest))
    if plan.newer:
        advice = view.hint("plan", "--refresh")
        yield Detail("Newer", f"{said(plan.newer)} waits for the decision; {advice} plans it now")
    if is_planned:
        yield Detail("Changes", operation_counts(plan))
    if permissions := permission_summary(view.status):
        yield Detail("Permissions", permissions)


def plan_facts(plan: PlanStatus) -> Iterator[Detail]:
    """What is known of a plan that was made, beside its operations."""
    facts = {
        "Operations": enforcement(plan),
        "Contents": contents(plan),
        "Could differ": describe_difference(plan),
        "Rollback": rollback(plan),
    }
    yield from (Detail(label, shown) for label, shown in facts.items() if shown)


def permission_summary(status: BundleStatus) -> str:
    """``missing: create, patch deployments.apps in apps``; empty where nothing is known."""
    from copyrator.bundles.plans.rights import (  # noqa: PLC0415 - not for lists
        missing_of,
    )

    plan, missing = status.part(PlanStatus), missing_of(status)
    unreviewed = f" ({count(plan.unreviewed, 'kind')} not reviewed)" if plan.unreviewed else ""
    if missing:
        named = "; ".join(format_permission(one) for one in missing[:3])
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        return f"missing: {named}{more}{unreviewed}"
    is_proved = plan.job == status.attempted.plan_job
    known = plan.missing_permissions is not None and not is_proved
    return f"none is missing{unreviewed}" if known else ""


def describe_waiting(view: View) -> Iterator[Detail]:
    """The plan, and how to decide about it; nothing where there is none."""
    plan = view.status.part(PlanStatus)
    if plan.outcome is None:
        return
    first, *others = describe_plan(view)
    if plan.risky:
        others.append(Detail("Risky", first_texts(plan.risky, ", ", plan.risky_operations or 0)))
    if shown := changes(plan):
        others.append(Detail("Changed", shown))
    yield Detail(first.label, first.value, [*(one.line for one in others), *how_to_decide(view)])


def how_to_decide(view: View) -> Iterator[str]:
    """The commands, where a decision is due."""
    if awaits_decision(view):
        yield f"To see it: {view.hint('plan')}"
        yield f"To decide: {view.hint('approve')} or {view.hint('reject')}"


def _plan_words(view: View) -> str:
    """``enforced, not bound``; ``-`` where there is no plan, or it wasn't judged."""
    judged = [(word, word.judge(view.status.part(PlanStatus))) for word in PLAN_WORDS]
    words = [word.name if holds else word.negation for word, holds in judged if holds is not None]
    return ", ".join(words) or "-"


def _operations(plan: PlanStatus) -> str:
    """``2 updates, 1 delete; at risk: delete of PersistentVolumeClaim/data``."""
    counts = plan.counts
    words = ("create", "update", "delete", "recreate")
    each = [(number, word) for word in words if (number := getattr(counts, word))]
    parts = [count(number, word) for number, word in each]
    if counts.apply:
        parts.append(count(counts.apply, "blind apply", "blind applies"))
    text = ", ".join(parts) or count(plan.operations or 0, "operation")
    if plan.risky:
        more = (plan.risky_operations or len(plan.risky)) - 1
        text += f"; at risk: {_risky(plan.risky[0])}{f' and {more} more' if more > 0 else ''}"
    return text


def _risky(text: str) -> str:
    """``delete of PersistentVolumeClaim/data`` of ``delete apps::PersistentVolumeClaim:data``.

    What isn't done by the deploy, or runs as its account, begins with words that say so.
    """
    found = _PLANNED.fullmatch(text)
    return f"{found[1]}{found[2]} of {found[3]}/{found[4]}" if found else text


_PLANNED: Final = re.compile(
    r"(as the deploying account: |)"  # see operations.py
    r"((?:at rollback: |at uninstall: |)[a-z]+) [^:]*:[^:]*:([^:]*):(.*)"
)
_PLAN_ID: Final = re.compile(r"[0-9a-f]{1,64}")


_DECIDED: Final = {
    str(PlanDecision.APPROVED): Tone.GOOD,
    str(PlanDecision.REJECTED): Tone.FAULT,
}


class ApprovalWords(Words):
    """The plan, and how to decide."""

    gates: ClassVar[Mapping[str, type[Part]]] = {GATE: ApprovalSpec}
    columns: ClassVar[Mapping[str, Callable[[View], str]]] = {"PLAN": _plan_words}
    tells_failures = (BundleReason.DEPLOYED_DIFFERENTLY,)

    def rows(self, view: View, place: Place) -> Iterator[Detail]:
        """These."""
        match place:
            case Place.ATTEMPT:
                attempt = view.status.attempted
                if attempt.plan:
                    who = attempt.approved_by
                    by = f"approved by {said(who)}" if who else "not required"
                    yield Detail("Last approval", f"{by}, plan {said(attempt.plan)}")
            case Place.PLAN:
                yield from describe_waiting(view)
            case Place.DECISION:
                plan, attempt = view.status.part(PlanStatus), view.status.attempted
                is_done = bool(plan.job) and plan.job == attempt.plan_job
                if plan.outcome is not None and not is_done:
                    yield from describe_plan(view)

    def lines(self, view: View, place: Place) -> Iterator[str]:
        """The decision."""
        if place is Place.LEAD and awaits_decision(view):
            plan = view.status.part(PlanStatus)
            ends = plan.expires_at and f"; it expires {time_until(plan.expires_at, view.now)}"
            version, counts = said(plan.version), operation_counts(plan)
            yield f"{version} waits for a decision about its plan ({counts}){ends or ''}."

    def events(
        self,
        view: View,
        versions: Mapping[str | None, str | None],  # noqa: ARG002
    ) -> Iterator[VersionEvent]:
        """The decision about a plan that isn't deployed yet."""
        plan, attempt = view.status.part(PlanStatus), view.status.attempted
        tone = _DECIDED.get(str(plan.decision))
        if tone is not None and not (plan.id and plan.id == attempt.plan):
            notes = [f"by {said(plan.by)}"] if plan.by else []
            notes += [said(plan.decision_reason)] if plan.decision_reason else []
            yield VersionEvent(
                str(plan.decision),
                said(plan.version),
                plan.digest or "",
                plan.at or "",
                notes,
                tone=tone,
            )

    def ends(self, gate: GateStatus) -> str:
        """The plan, which waits for a decision."""
        return "the plan expires" if gate.reason == BundleReason.AWAITING_APPROVAL else ""

    def is_repeating(self, view: View) -> bool:
        """A plan's Job."""
        plan = view.status.part(PlanStatus)
        return plan.outcome == PlanOutcome.RUNNING and bool(plan.interruptions)

    def notices(self, told: Told) -> Iterator[Notice]:
        """That one waits, or was rejected, or that something else was deployed."""
        status, plan = told.status, told.status.part(PlanStatus)
        version = plan.version or "a version"
        if plan.id is not None and any(
            one.reason == BundleReason.AWAITING_APPROVAL for one in status.gates
        ):
            yield Notice(
                0,
                About.AWAITING_APPROVAL,
                f"waits for approval of {version} ({_operations(plan)})",
                plan.made_at or "",
                f"{plan.id} {plan.made_at}",
                "",
                # Of a forged status it could be further options.
                f"copyrator approve bundle {told.where} {plan.id}"
                if _PLAN_ID.fullmatch(plan.id)
                else "",
            )
        if plan.id is not None and plan.decision == PlanDecision.REJECTED:
            by, why = f" by {plan.by}" if plan.by else "", plan.decision_reason or ""
            what = f"isn't deployed as {version}: its plan {plan.id} was rejected{by}"
            key, shows = f"{plan.id} {plan.at}", f"copyrator describe bundle {told.where}"
            yield Notice(0, About.PLAN_REJECTED, what, plan.at or "", key, why, shows)
        if (stored := status.part(AsApprovedStatus)).is_different:
            what = f"doesn't run what was approved of {stored.version}"
            at, key = stored.at or "", f"{stored.at} {stored.revision}"
            message = status.condition(AS_APPROVED).message or ""
            yield Notice(3, About.DEPLOYED_DIFFERENTLY, what, at, key, message, told.why)

    def unknown(self, status: BundleStatus) -> Iterator[About]:
        """Whether it was, without conditions, as after a backup was restored."""
        if not status.conditions:
            yield About.DEPLOYED_DIFFERENTLY


WORDS: Final = ApprovalWords()
