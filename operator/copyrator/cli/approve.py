"""`copyrator approve` and `reject`: a person's decision about a Bundle's plan."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import click

from copyrator.cli.cluster import Target, cluster_options, run
from copyrator.cli.decisions import (
    APPROVE,
    REJECT,
    DecisionVerb,
    check_open,
    check_permission,
    outcome,
    write_decision,
)
from copyrator.cli.faults import Fault
from copyrator.cli.hints import hint_about
from copyrator.cli.objects import What, complete_names, one
from copyrator.cli.output import Format, object_option, prose
from copyrator.cli.output import show as show_object
from copyrator.cli.plan_bundle import WHAT, Shown, looked_at, show
from copyrator.cli.plan_state import decision, operation_counts, plan_of, said
from copyrator.cli.user import username
from copyrator.cli.waiting import response_timeout_option, result, shown, wait

_what = click.argument("what", type=What(WHAT))
_name = click.argument("name", metavar="[NAMESPACE/]NAME", shell_complete=complete_names)
_plan = click.argument("plan_id", metavar="[PLAN-ID]", required=False)
_yes = click.option("-y", "--yes", is_flag=True, help="Don't ask for confirmation.")


@click.command()
@_what
@_name
@_plan
@cluster_options()
@_yes
@response_timeout_option
@object_option
def approve(target: Target, what: str, **more: Any) -> None:  # noqa: ARG001 - there is but one
    """Approve the plan of a Bundle, so that it is deployed.

    It shows the plan, asks for confirmation, and waits until the operator has taken the decision.
    Of a rejected plan it removes both decisions first, and waits until the operator has seen that.
    With a PLAN-ID only that plan is approved. Requires the permission to approve bundles, which
    the chart's ClusterRole copyrator-approver has.
    """
    _decide(APPROVE, target, **more)


@click.command()
@_what
@_name
@_plan
@cluster_options()
@_yes
@response_timeout_option
@object_option
def reject(target: Target, what: str, **more: Any) -> None:  # noqa: ARG001 - there is but one
    """Reject the plan of a Bundle, so that it isn't deployed.

    It shows the plan, asks for confirmation, and waits until the operator has taken the decision.
    With a PLAN-ID only that plan is rejected. Requires the permission to approve bundles, which
    the chart's ClusterRole copyrator-approver has.
    """
    _decide(REJECT, target, **more)


def _decide(
    choice: DecisionVerb,
    target: Target,
    *,
    name: str,
    plan_id: str | None,
    yes: bool,
    timeout: float,
    shape: Format | None,
) -> None:
    if not yes and not (sys.stdin.isatty() and shape is None):
        raise click.UsageError(
            "without a terminal, or with -o, nobody can be asked for confirmation; add --yes to "
            f"{choice.verb} the plan"
        )
    found = run(_look(choice, target, name, plan_id))
    if shape is None:
        show(found)
        unbound = "; its contents aren't bound" if found.plan.bound is False else ""
        prose(["", f"{said(found.plan.id)}: {operation_counts(found.plan)}{unbound}."])
    if not yes and not click.confirm(f"{choice.verb.capitalize()} this plan?", err=True):
        raise Fault("nothing was decided")
    body = run(_write(choice, target, found, timeout))
    if shape is not None:
        show_object(body, shape)
        return
    word = "annotated" if timeout == 0 else str(choice.decision).lower()
    plan = f"{shown(WHAT, body)}: plan {said(found.plan.id)}"
    prose([f"{plan} {word}{result(body, waited=timeout > 0)}"])


async def _look(choice: DecisionVerb, target: Target, name: str, plan_id: str | None) -> Shown:
    """The Bundle with its plan, if it can be decided by this user."""
    async with target.connect() as client:
        namespace, name = target.locate(name)
        body = await one(client, WHAT, namespace, name)
        await check_permission(client, choice, body)
        check_open(choice.decision, body, plan_id, datetime.now(UTC))
        return await looked_at(client, body)


async def _write(
    choice: DecisionVerb,
    target: Target,
    found: Shown,
    timeout: float,  # noqa: ASYNC109 - the user's
) -> dict[str, Any]:
    """Annotate the Bundle that was shown, and wait until the operator has taken the decision."""
    async with target.connect() as client:
        user = await username(client)
        body = await write_decision(client, choice, dict(found.body), user, timeout)
        plan_id = str(found.plan.id)
        before = ("", found.plan.decision)
        body = await wait(
            client, WHAT, body, timeout, lambda seen: outcome(seen, plan_id) not in before
        )
    taken = outcome(body, plan_id)
    if timeout and taken != choice.decision:
        plan = plan_of(body)
        what = f"is {decision(plan)}" if plan.id == plan_id else f"was replaced by {said(plan.id)}"
        raise Fault(
            f"{shown(WHAT, body)}: plan {said(plan_id)} {what}, so your decision doesn't count; "
            f"see: {hint_about('plan', 'bundle', body)}"
        )
    return body
