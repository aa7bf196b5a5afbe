"""What a person has to know of a plan before its operations: it is said first. Pure.

Contents that aren't bound or not shown, then what is risky, then what changed besides the chart.
Plans from before the operator judged contents have none of it but what is risky.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from copyrator.api.counts import count
from copyrator.api.plan_status import MAX_UNBOUND, PlanStatus, PlanSummary, PreviewPlan
from copyrator.bundles.plan.operations import Operation
from copyrator.cli.plan_log import PlanLog
from copyrator.cli.plan_state import MAY_DIFFER, said


def first_lines(plan: PlanSummary, log: PlanLog) -> Iterator[str]:
    """The lines that are printed before a plan."""
    yield from _contents(plan, log)
    if plan.risky:
        many = max(plan.risky_operations or 0, len(plan.risky))
        yield "Risky:" if many == len(plan.risky) else f"Risky ({len(plan.risky)} of {many}):"
        yield from (f"  {said(one)}" for one in plan.risky)
    if not isinstance(plan, PlanStatus):
        return
    if plan.changed:
        yield "Changed since the deployed plan, besides the chart:"
        yield from (f"  {said(one, 2000)}" for one in plan.changed)
    elif plan.change_unknown:
        yield f"Besides the chart, {said(plan.change_unknown, 1000)}"


def _contents(plan: PlanSummary, log: PlanLog) -> Iterator[str]:
    if not is_judged(plan):
        return
    if plan.bound is False:
        reasons = [f"  {said(one)}" for one in plan.unbound]
        yield f"Contents aren't bound: {MAY_DIFFER}{', because' if reasons else ''}"
        yield from reasons
        if len(reasons) >= MAX_UNBOUND:
            yield "  There may be more reasons."
    if secrets := hidden_secrets(log.operations or ()):
        yield f"Hidden from the diff: the contents of {count(secrets, 'Secret')}"
    if plan.hidden:
        objects = count(plan.hidden, "object")
        yield f"Hidden from the diff by the chart: contents of {objects}"


def is_judged(plan: PlanSummary) -> bool:
    """Whether what isn't bound or shown is known; of a preview some of it always is."""
    return plan.bound is not None or isinstance(plan, PreviewPlan)


def hidden_secrets(operations: Iterable[Operation]) -> int:
    """Of how many Secrets werf doesn't print the contents."""
    return sum(one.kind == "Secret" and not one.group for one in operations)
