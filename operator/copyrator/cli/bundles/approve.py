"""`copyrator approve` and `reject`: a person's decision about a Bundle's plan."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from copyrator.api import names
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import Outcome
from copyrator.api.conditions import PAUSES, ConditionType
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import Detail, detail_lines, said, time_since
from copyrator.bundles.features.approval.words import decision, is_decision_due, is_expired
from copyrator.bundles.fields import parse_status
from copyrator.bundles.plans.fields import (
    MAX_DECISION_REASON,
    ApprovalMode,
    ApprovalSpec,
    PlanDecision,
    PlanStatus,
)
from copyrator.bundles.plans.plan_words import describe_difference, find_lacking, operation_counts
from copyrator.bundles.plans.record import is_spent
from copyrator.bundles.words import MESSAGE
from copyrator.cli.bundles.plan import WHAT, PlanView, plan_fault, read_plan, show
from copyrator.cli.core.faults import Fault, check_reason, hint, hint_about
from copyrator.cli.core.installation import describe_lacking, username
from copyrator.cli.core.objects import (
    Body,
    ObjectOptions,
    annotations_of,
    object_options,
    one,
    shown,
)
from copyrator.cli.core.output import object_option, prose
from copyrator.cli.core.reconcile import annotate_unchanged
from copyrator.cli.core.waiting import (
    find_fault,
    goes_on,
    response_timeout_option,
    result,
    show_end,
    wait,
    wait_as_asked,
    wait_options,
)
from copyrator.cli.view import rows
from copyrator.cli.view.bundle import BundleView
from copyrator.kube.watch.reflector import name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from copyrator.kube.client.client import KubeClient

FIELD_MANAGER: Final = "copyrator-approve"
APPROVER: Final = "copyrator-approver"
"""The chart's ClusterRole with the verb approve."""
TRIES: Final = 5
"""Writes of a decision, while others change the Bundle."""
CLEARED_WITHIN: Final = 10.0
"""Seconds that a page waits for the operator, before a rejected plan can be approved."""


@dataclass(frozen=True, slots=True)
class DecisionVerb:
    """What is decided."""

    verb: str
    decision: PlanDecision
    annotation: str
    opposite: str


APPROVE = DecisionVerb(
    "approve", PlanDecision.APPROVED, names.ANN_APPROVED_PLAN, names.ANN_REJECTED_PLAN
)
REJECT = DecisionVerb(
    "reject", PlanDecision.REJECTED, names.ANN_REJECTED_PLAN, names.ANN_APPROVED_PLAN
)


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """The plan that a user was shown; the decision is about that one, in that state."""

    uid: str
    """Of the Bundle: one that was created anew may have an equal plan."""
    id: str
    decision: str
    """By the status, or by an annotation that the operator hasn't taken yet; empty without one."""

    @classmethod
    def of(cls, body: Body) -> ShownPlan:
        """The plan of a Bundle as it is now."""
        plan, annotations = parse_status(body).part(PlanStatus), annotations_of(body)
        decided = plan.decision or ""
        for choice in (APPROVE, REJECT):
            if plan.id and annotations.get(choice.annotation) == plan.id:
                decided = choice.decision
        return cls(str(body["metadata"].get("uid")), plan.id or "", decided)


async def decide(
    client: KubeClient, choice: DecisionVerb, body: dict[str, Any], seen: ShownPlan
) -> None:
    """Write a decision about the plan that a user was shown, without waiting until it is taken.

    Raises:
        Fault: the user may not, or the plan isn't there any more, or was decided meanwhile.
    """
    await check_permission(client, choice, body)
    now = ShownPlan.of(body)
    if now.uid != seen.uid:
        raise Fault(f"{shown(WHAT, body)} was deleted and created again in the meantime")
    if now.id and now.id != seen.id:
        raise Fault(f"{shown(WHAT, body)} has another plan now, {said(now.id)}; check that one")
    check_open(choice.decision, BundleView(body, datetime.now(UTC)), seen.id)
    if now.decision != seen.decision:
        was = now.decision.lower() or "not decided"
        raise Fault(
            f"{shown(WHAT, body)}: plan {said(now.id)} is {was} now, which it wasn't when it was "
            f"shown; so nothing was written"
        )
    await write_decision(client, choice, body, CLEARED_WITHIN)


async def check_permission(client: KubeClient, choice: DecisionVerb, body: Body) -> None:
    """Refuse where the user lacks a permission that a decision needs.

    Raises:
        Fault: with the permission, and how to get it.
    """
    if lacking := await describe_lacking(client, WHAT, body, "approve", "patch"):
        raise Fault(
            f"you have no permission to {choice.verb} plans of {shown(WHAT, body)}: {lacking}; "
            f"ask an administrator for a RoleBinding there to the ClusterRole {APPROVER}"
        )


def check_open(wanted: PlanDecision, view: BundleView, plan_id: str | None) -> None:
    """Refuse a decision without effect; an earlier, opposite one may be replaced until the deploy.

    ``plan_id``: as the user gave it, if at all.

    Raises:
        Fault: there is no such plan, or it isn't finished, decided, expired or needs no decision.
    """
    plan, bundle, anew = (
        view.status.part(PlanStatus),
        f"bundle {view.name}",
        view.hint("plan", "--refresh"),
    )
    if fault := plan_fault(view):
        raise Fault(fault)
    if plan_id is not None and plan_id != plan.id:
        raise Fault(
            f"{bundle} has the plan {said(plan.id)}, not {said(plan_id)}; check it, and decide "
            f"about that: {view.hint('plan')}"
        )
    if not plan.id:
        raise Fault(f"{bundle} has a plan without an ID in its status; make it again: {anew}")
    if plan.decision == wanted or is_spent(view.status):
        raise Fault(f"{bundle}: plan {said(plan.id)} was {decision(plan)} already")
    if is_expired(plan, view.now):
        raise Fault(
            f"{bundle}: plan {said(plan.id)} expired {time_since(plan.expires_at, view.now)} ago; "
            f"the operator makes it again; at once: {anew}"
        )
    if reason := _not_asked(view):
        raise Fault(
            f"{bundle} has a plan, but no deploy of it waits for a decision: {reason}; there is "
            f"nothing to decide"
        )


def _not_asked(view: BundleView) -> str:
    """Why no decision is required; empty where one is, or where that isn't known."""
    spec = view.spec
    if is_decision_due(view) or not isinstance(spec, BundleSpec):
        return ""
    if spec.part(ApprovalSpec).mode is ApprovalMode.NEVER:
        return "spec.approval.mode is Never"
    if (
        spec.part(ApprovalSpec).mode is ApprovalMode.ON_RISK
        and not view.status.part(PlanStatus).risky_operations
    ):
        return "spec.approval.mode is OnRisk, and it has no risky operations"
    return ""


def outcome(body: Body, plan_id: str) -> str:
    """The decision that the operator has taken about a plan; empty while there is none.

    ``replaced`` where the plan is gone without one.
    """
    status = parse_status(body)
    if status.part(PlanStatus).id == plan_id:
        return status.part(PlanStatus).decision or ""
    if plan_id in (status.part(PlanStatus).approved.id, status.attempted.plan):
        return PlanDecision.APPROVED
    return "replaced"


async def write_decision(
    client: KubeClient,
    choice: DecisionVerb,
    body: dict[str, Any],
    seconds: float,
    reason: str | None = None,
) -> dict[str, Any]:
    """Write the decision on the object that was shown; retry where others have changed it.

    An approval that was there when a plan was rejected doesn't count again. So both annotations of
    a rejected plan are removed first, and the operator has to see that.

    Raises:
        Fault: it has another plan by now, was rejected meanwhile, or is another Bundle of that
            name; or the operator doesn't respond.
    """
    plan_id = str(parse_status(body).part(PlanStatus).id)
    uid = body["metadata"]["uid"]
    decides = {
        choice.annotation: plan_id,
        choice.opposite: None,
        names.ANN_APPROVED_BY: await username(client),
        names.ANN_REJECTION_REASON: reason,
    }
    for _ in range(TRIES):
        clears = choice is APPROVE and _must_clear(body)
        if clears and not seconds:
            was = decision(parse_status(body).part(PlanStatus))
            raise Fault(
                f"{shown(WHAT, body)}: plan {said(plan_id)} was {was}; "
                "approving it takes an answer of the operator: give a --timeout"
            )
        annotations = dict.fromkeys((choice.annotation, choice.opposite)) if clears else decides
        written = await annotate_unchanged(client, body, annotations, field_manager=FIELD_MANAGER)
        if written is not None and not clears:
            return written
        if written is not None:
            before, body = written, await _cleared(client, written, seconds)
        else:
            before, body = body, await one(client, WHAT, *name_of(body))
        if body["metadata"]["uid"] != uid:
            raise Fault(f"{shown(WHAT, body)} was deleted and created again in the meantime")
        check_open(choice.decision, BundleView(body, datetime.now(UTC)), plan_id)
        if choice is APPROVE and _is_rejected_anew(before, body):
            raise Fault(
                f"{shown(WHAT, body)}: plan {said(plan_id)} was rejected in the meantime, so it "
                f"isn't approved; see: {hint_about('plan', 'bundle', body)}"
            )
    raise Fault(f"{shown(WHAT, body)} was changed by others at each try; try again")


def _must_clear(body: Body) -> bool:
    """Whether the plan is rejected, and an approval wouldn't count yet."""
    plan = parse_status(body).part(PlanStatus)
    return plan.decision == PlanDecision.REJECTED and not plan.approval_cleared


async def _cleared(client: KubeClient, body: dict[str, Any], seconds: float) -> dict[str, Any]:
    """The Bundle once the operator has seen that both annotations are gone."""
    try:
        return await wait(client, WHAT, body, seconds, lambda seen: not _must_clear(seen))
    except Fault:
        raise Fault(
            f"{shown(WHAT, body)}: the annotations of its rejected plan were removed, but the "
            f"operator hasn't seen that within {seconds:g} s, so nothing was approved; check that "
            f"it is running ({hint('doctor')}), and approve again"
        ) from None


def _is_rejected_anew(before: Body, body: Body) -> bool:
    """Whether somebody has rejected the plan since the Bundle was read before.

    By the status, and by the annotation.
    """
    plans = [parse_status(one).part(PlanStatus) for one in (before, body)]
    old, new = (plan.decision == PlanDecision.REJECTED for plan in plans)
    was, now = (
        annotations_of(one).get(names.ANN_REJECTED_PLAN) == plan.id
        for one, plan in zip((before, body), plans, strict=True)
    )
    return (now and not was) or (new and not (old or was))


def _command(choice: DecisionVerb, what: str, *more: Callable[..., Any]) -> click.Command:
    @click.command(choice.verb, help=f"{what} {_HELP.format(choice.decision.lower())}")
    @object_options(WHAT)
    @click.argument("plan_id", metavar="[PLAN-ID]", required=False)
    @click.option("-y", "--yes", is_flag=True, help="Don't ask for confirmation.")
    @(wait_options("the plan is deployed") if choice is APPROVE else response_timeout_option)
    @object_option
    async def command(
        options: ObjectOptions, plan_id: str | None, *, yes: bool, reason: str | None = None
    ) -> None:
        if reason is not None:
            check_reason(reason, MAX_DECISION_REASON)
        await _decide(choice, options, plan_id, yes=yes, reason=reason)

    for option in more:
        option(command)
    return command


_HELP: Final = """

It shows the plan, asks for confirmation, and waits until the operator has taken the decision. With
a PLAN-ID only that plan is {}. Requires the permission to approve bundles, which the chart's
ClusterRole copyrator-approver has.
"""
approve = _command(
    APPROVE,
    "Approve the plan of a Bundle, so that it is deployed. Of a rejected plan both decisions are "
    "removed first.",
)
reject = _command(
    REJECT,
    "Reject the plan of a Bundle, so that it isn't deployed.",
    click.option("--reason", metavar="TEXT", help="Why, in one line; kept and shown."),
)


async def _decide(
    choice: DecisionVerb,
    options: ObjectOptions,
    plan_id: str | None,
    *,
    yes: bool,
    reason: str | None,
) -> None:
    shape = options.shape
    if not yes and not (sys.stdin.isatty() and shape is None):
        raise click.UsageError(
            "without a terminal, or with -o, nobody can be asked for confirmation; add --yes to "
            f"{choice.verb} the plan"
        )
    async with options.target.connect() as client:
        body = await options.read(client)
        await check_permission(client, choice, body)
        check_open(choice.decision, BundleView(body, datetime.now(UTC)), plan_id)
        found = await read_plan(client, body)
        connection = client.connection
    if shape is None:
        show(found)
        plan = found.view.status.part(PlanStatus)
        lacking = "".join(f"; its {word.lack}" for word in find_lacking(plan))
        could = describe_difference(plan)
        differ = f" What could still differ: {could}." if could else ""
        prose(["", f"{said(plan.id)}: {operation_counts(plan)}{lacking}.{differ}"])
    if not yes:
        namespace, name = name_of(body)
        context = connection.context or connection.origin
        known = {"Bundle": name, "Namespace": namespace, "Context": context}
        known["Server"] = connection.host
        prose(["", *detail_lines([Detail(*one) for one in known.items()])], err=True)
        if not click.confirm(f"{choice.verb.capitalize()} this plan?", err=True):
            raise Fault("nothing was decided")
    body = await _write(choice, options, found, reason)
    word = str(choice.decision).lower() if options.timeout else "annotated"
    plan_id = str(found.view.status.part(PlanStatus).id)
    done = f"{shown(WHAT, body)}: plan {said(plan_id)} {word}"
    show_end(options, body, done, _find_fault(body, plan_id))


def _goes_on(body: Body, plan_id: str, before: str | None) -> bool:
    """Whether the deploy of an approved plan goes on, or is about to begin.

    ``before``: the reason of Ready when the plan was approved, which may stay until it begins.
    """
    status, ready = parse_status(body), rows.ready(body)
    if status.attempted.plan == plan_id:
        return status.attempted.is_running or goes_on(body)
    pending = status.condition(ConditionType.UPDATE_PENDING)
    is_held = pending.is_true and pending.reason not in _BEFORE_DEPLOY
    stops = (ready.is_false or ready.reason in PAUSES) and ready.reason != before
    return outcome(body, plan_id) == PlanDecision.APPROVED and not (is_held or stops)


_BEFORE_DEPLOY: Final = (BundleReason.AWAITING_APPROVAL, BundleReason.PLANNING)


def _find_fault(body: Body, plan_id: str) -> str:
    """Why an approved plan isn't deployed; empty where it is."""
    status = parse_status(body)
    pending = status.condition(ConditionType.UPDATE_PENDING)
    done = f"{shown(WHAT, body)}: plan {said(plan_id)} is approved, and"
    if status.attempted.plan != plan_id and pending.is_true:
        return f"{done} waits: {pending.reason}: {said(pending.message, MESSAGE).rstrip('.')}"
    if fault := find_fault(WHAT, body):
        return fault
    deployed = status.attempted.plan == plan_id and status.attempted.outcome == Outcome.SUCCEEDED
    return "" if deployed else f"{done} isn't deployed{result(body)}"


async def _write(
    choice: DecisionVerb, options: ObjectOptions, found: PlanView, reason: str | None
) -> dict[str, Any]:
    """Annotate the Bundle that was shown, and wait until the operator has taken the decision."""
    seconds = options.timeout
    async with options.target.connect() as client:
        body = await write_decision(client, choice, dict(found.view.body), seconds, reason)
        plan = found.view.status.part(PlanStatus)
        plan_id, before = str(plan.id), ("", plan.decision)
        ready = rows.ready(body).reason
        body = await wait_as_asked(
            client,
            options,
            body,
            lambda seen: outcome(seen, plan_id) not in before,
            lambda seen: _goes_on(seen, plan_id, ready),
        )
    taken = outcome(body, plan_id)
    if seconds and taken != choice.decision:
        plan = parse_status(body).part(PlanStatus)
        what = f"is {decision(plan)}" if plan.id == plan_id else f"was replaced by {said(plan.id)}"
        raise Fault(
            f"{shown(WHAT, body)}: plan {said(plan_id)} {what}, so your decision doesn't count; "
            f"see: {hint_about('plan', 'bundle', body)}"
        )
    return body
