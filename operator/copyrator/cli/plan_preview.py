"""`copyrator plan bundle --version`: the plan of a version that a user names, only to be shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from copyrator.api import names
from copyrator.api.bundle_status import parse_status
from copyrator.api.plan_status import PlanOutcome, PreviewPlan
from copyrator.cli import rows
from copyrator.cli.faults import Fault
from copyrator.cli.output import labelled
from copyrator.cli.plan_state import contents, operation_counts, said
from copyrator.cli.reconcile import annotated, check_updates_are_on
from copyrator.cli.waiting import shown, wait
from copyrator.kube.client.client import KubeClient

Body = Mapping[str, Any]
_WHAT = "bundles"
ONLY_SHOWN = "It is only shown: only the plan of what would be deployed can be approved."


def preview_of(body: Body) -> PreviewPlan:
    """The plan of a version that a user named, in a Bundle's status; an empty one without it."""
    return parse_status(body).preview


async def previewed(
    client: KubeClient,
    body: dict[str, Any],
    version: str,
    timeout: float,  # noqa: ASYNC109 - the user's
) -> dict[str, Any]:
    """Request a plan of this version, and wait until that has ended.

    Raises:
        Fault: it isn't planned, or another request came after this one.
    """
    check_updates_are_on(_WHAT, body)
    also = {names.ANN_PLAN_VERSION: version}
    token, body = await annotated(client, _WHAT, body, names.ANN_PLAN_AT, also)

    def handled(seen: Body) -> bool:
        check_updates_are_on(_WHAT, seen)  # they may be switched off meanwhile
        if parse_status(seen).last_handled_plan == token:
            return True
        if (seen["metadata"].get("annotations") or {}).get(names.ANN_PLAN_AT) != token:
            raise Fault(f"{shown(_WHAT, seen)}: another plan was requested meanwhile; try again")
        return False

    def busy(seen: Body) -> bool:
        return preview_of(seen).outcome == PlanOutcome.RUNNING

    return await wait(client, _WHAT, body, timeout, handled, busy=busy)


def unfinished(body: Body) -> str:
    """Why there is no preview to show; empty where there is one."""
    plan = preview_of(body)
    if plan.outcome == PlanOutcome.PLANNED:
        return ""
    return (
        f"{shown(_WHAT, body)}: {said(plan.requested_version)} isn't planned: "
        f"{said(plan.reason)}: {said(plan.message, 1000)}"
    )


def head(body: Body, now: datetime) -> Iterator[str]:
    """The lines about the preview itself, with labels."""
    plan, there = preview_of(body), parse_status(body).deployed
    asked = said(plan.requested_version)
    asked = f", for {asked}" if plan.requested_version != plan.version else ""
    yield labelled("Version", f"{said(plan.version)}  {said(rows.digest(plan.digest))}{asked}")
    if there.digest:
        yield labelled("Deployed", f"{said(there.version)}  {said(rows.digest(there.digest))}")
    if shown := contents(plan):
        yield labelled("Contents", shown)
    yield labelled("Changes", operation_counts(plan))
    if plan.message:
        yield labelled("Note", said(plan.message, 2000))
    yield labelled("Kept", f"expires {rows.until(plan.expires_at, now)}")


def describe_lines(body: Body, now: datetime) -> Iterator[str]:
    """The line of `describe` about a preview, where there is one."""
    plan = preview_of(body)
    match plan.outcome:
        case PlanOutcome.PLANNED:
            made = f"{rows.age(plan.made_at, now)} ago"
            yield labelled(
                "Preview", f"{said(plan.version)}, made {made}: {operation_counts(plan)}"
            )
            if shown := contents(plan):
                yield f"  {labelled('Contents', shown)}"
        case PlanOutcome.RUNNING:
            yield labelled(
                "Preview", f"{said(plan.version)}, being made by the Job {said(plan.job)}"
            )
        case PlanOutcome.FAILED:
            yield labelled("Preview", unfinished(body).partition(": ")[2])
