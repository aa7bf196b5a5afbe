"""The page on which a plan is decided, and the diffs of a Bundle's page.

It shows what the plan's deploy would do. A chart's author decides how many operations there are,
and what a diff has. So it shows a part of the operations, and a part of the lines, and says how
many there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from copyrator.api.text import Detail, count, printable, said, time_since
from copyrator.bundles.features.approval.words import (
    describe_version,
    is_expired,
    lacking_reasons,
    permission_summary,
    plan_facts,
    plan_state,
)
from copyrator.bundles.fields import parse_status
from copyrator.bundles.jobs.rights import format_permission
from copyrator.bundles.plans.fields import PlanOutcome, PlanStatus
from copyrator.bundles.plans.plan_words import find_lacking
from copyrator.bundles.plans.record import is_spent
from copyrator.bundles.plans.rights import missing_of
from copyrator.bundles.words import Section
from copyrator.cli.bundles import approve
from copyrator.cli.bundles.approve import APPROVE, REJECT, DecisionVerb, ShownPlan
from copyrator.cli.bundles.plan import (
    OTHERS,
    REST,
    PlannedChanges,
    PlannedOperation,
    PlanView,
    describe_effect,
    describe_origin,
    explain_missing,
    hidden_secrets,
    is_judged,
    plan_fault,
    planned_changes,
)
from copyrator.cli.bundles.plan_log import PlanLog, with_refusals_of
from copyrator.cli.core.faults import Fault
from copyrator.cli.core.objects import one
from copyrator.cli.view.bundle import BundleView
from copyrator.cli.view.diffs import DiffView, LineBudget
from copyrator.cli.view.lists import page_of, pages_of

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient


OPERATIONS: Final = 100
"""Operations of a page."""
SECTION_LINES: Final = 1000
"""Lines of all diffs of a section."""
GROUPED: Final = 10
"""Operations above which it is said how many there are of each type and kind."""
OPENED: Final = 5
"""Risky operations whose diff is shown unasked, if it isn't longer than as many lines:"""
OPENED_LINES: Final = 40


def decision_values(found: PlanView, number: int = 1) -> dict[str, Any]:
    """What the page shows of a plan: the ``number``th, if more operations than fit on one."""
    view, plan = found.view, found.view.status.part(PlanStatus)
    is_made = plan.outcome == PlanOutcome.PLANNED
    changes = planned_changes(found) if is_made else PlannedChanges(())
    pages = pages_of(len(changes.operations), OPERATIONS)
    number = min(max(number, 1), pages)
    budget = LineBudget()
    start = (number - 1) * OPERATIONS
    shown = []
    for at, row in enumerate(page_of(changes.operations, number, OPERATIONS), start + 1):
        diff = DiffView.of(row.diff.lines, budget) if row.diff else DiffView()
        is_open = row.is_risky and at <= OPENED and 0 < len(diff.lines) <= OPENED_LINES
        shown.append((at, row, diff, is_open))
    text = DiffView.of([line for line in changes.text if line], LineBudget())
    secrets = hidden_secrets(found.log.operations or ()) if is_judged(plan) else 0
    return {
        "bundle": str(view.name),
        "sentence": describe_plan_effect(view),
        "lacking": [(word, lacking_reasons(word, plan)) for word in find_lacking(plan)],
        "unseen": printable(found.log.fault),
        "hidden_secrets": secrets,
        "hidden": plan.hidden or 0,
        "changed": [said(one, 2000) for one in plan.changed],
        "change_unknown": said(plan.change_unknown, 1000) if plan.change_unknown else "",
        "missing": list(_missing_permissions(found)),
        "facts": list(_facts(found)) if is_made else [],
        "groups": _groups(changes.operations),
        "operations": shown,
        "total": len(changes.operations),
        "risky": max(plan.risky_operations or 0, len(plan.risky)),
        "number": number,
        "pages": pages,
        "others": [
            (said(one.title), DiffView.of(one.lines, budget)) for one in changes.others[:OPERATIONS]
        ],
        "others_left": max(len(changes.others) - OPERATIONS, 0),
        "more": OTHERS,
        "rest": REST,
        "text": [line for _, line in text.lines],
        "text_left": text.left,
        "folded": changes.folded,
        "notes": [] if found.log.fault else list(explain_missing(found)),
        "command": view.hint("plan"),
        "choices": list(choices(view)),
    }


@dataclass(frozen=True, slots=True)
class SectionDiffs:
    """The diffs of what a section lists, from the log of the Job that found it."""

    job: str = ""
    diffs: Sequence[tuple[str, DiffView]] = ()
    """Operations as the section names them, each with its diff."""
    fault: str = ""
    """Why there are none; empty where that isn't due to a fault."""

    @classmethod
    def of(cls, view: BundleView, section: Section, log: PlanLog) -> SectionDiffs:
        """The diffs of the objects that are named."""
        budget = LineBudget(SECTION_LINES)
        changes = planned_changes(PlanView(view, log)) if log.operations is not None else None
        operations = changes.operations if changes else ()
        named = {str(one.operation): one.diff for one in operations if not one.when}
        diffs = [
            (said(text), DiffView.of(diff.lines, budget))
            for text in section.objects
            if (diff := named.get(text)) is not None
        ]
        return cls(section.job, diffs, printable(log.fault))


def describe_plan_effect(view: BundleView) -> str:
    """The one sentence about a plan: what it would do, and what it waits for."""
    plan = view.status.part(PlanStatus)
    if fault := plan_fault(view):
        return f"{fault[0].upper()}{fault[1:]}."
    done = describe_effect(plan.counts)
    return f"Plan {said(plan.id)} of {said(plan.version)} would {done}: {_state(view)}."


def _state(view: BundleView) -> str:
    decided = ShownPlan.of(view.body).decision
    if (
        decided
        and view.status.part(PlanStatus).decision is None
        and not is_expired(view.status.part(PlanStatus), view.now)
    ):
        return f"{decided.lower()}, which the operator hasn't seen yet"
    return plan_state(view) + ("; its deploy has begun" if is_spent(view.status) else "")


def choices(view: BundleView) -> Iterator[dict[str, str]]:
    """The decisions that can be taken about a plan now; ``look`` is the class of a button."""
    plan, deployed = view.status.part(PlanStatus), view.status.deployed.version
    kept = f"{said(deployed)} stays deployed" if deployed else "nothing is deployed"
    effects = (
        (APPROVE, f"Approving deploys {said(plan.version)}, as soon as its other gates pass."),
        (REJECT, f"After a rejection {kept}, until something else is to be deployed."),
    )
    for choice, effect in effects:
        if _is_open(choice, view):
            again = " after all" if plan.decision is not None else ""
            yield {
                "verb": choice.verb,
                "button": f"{choice.verb.capitalize()}{again}",
                "look": "primary" if choice is APPROVE else "danger",
                "effect": effect,
                "command": view.hint(choice.verb, said(plan.id)),
            }


def _is_open(choice: DecisionVerb, view: BundleView) -> bool:
    try:
        approve.check_open(choice.decision, view, view.status.part(PlanStatus).id)
    except Fault:
        return False
    return ShownPlan.of(view.body).decision != choice.decision


def _missing_permissions(found: PlanView) -> Iterator[str]:
    status = parse_status(with_refusals_of(found.view.body, found.log.diff))
    missing = missing_of(status)
    yield from (said(format_permission(one), 500) for one in missing)
    unreviewed = status.part(PlanStatus).unreviewed
    if missing and unreviewed:
        yield f"{count(unreviewed, 'kind')} not reviewed"


def _facts(found: PlanView) -> Iterator[Detail]:
    view, plan = found.view, found.view.status.part(PlanStatus)
    yield Detail("Version", describe_version(plan.version, plan.digest))
    there = view.status.deployed
    yield Detail("Deployed", describe_version(there.version, there.digest) if there.digest else "-")
    if plan.newer:
        advice = view.hint("plan", "--refresh")
        yield Detail("Newer", f"{said(plan.newer)} waits for the decision; {advice} plans it now")
    lacking = {"Operations": not plan.enforced, "Contents": not (plan.bound or plan.exact)}
    yield from (one for one in plan_facts(plan) if not lacking.get(one.label))
    if not missing_of(view.status) and (permissions := permission_summary(view.status)):
        yield Detail("Permissions", permissions)
    yield from describe_origin(found)
    last = next((one for one in view.status.past if one.approved_by), None)
    if last is None:
        yield Detail("Approved last", "none of its last deploys")
    else:
        ended = f"{said(last.outcome).lower()} {time_since(last.time, view.now)} ago"
        who = said(last.approved_by)
        yield Detail("Approved last", f"{said(last.version)} by {who}, {ended}")


def _groups(operations: Sequence[PlannedOperation]) -> list[tuple[str, str, int]]:
    """How many operations there are of each type and kind, the most first; none of a few."""
    if len(operations) <= GROUPED:
        return []
    kinds = (f"{row.operation.kind}.{row.operation.group}".rstrip(".") for row in operations)
    found = Counter(zip((row.words for row in operations), kinds, strict=True))
    return [(word, kind, number) for (word, kind), number in found.most_common(OPERATIONS)]


DECISIONS: Final[Mapping[str, DecisionVerb]] = {one.verb: one for one in (APPROVE, REJECT)}

_TAKEN: Final[Mapping[str, str]] = {
    APPROVE.verb: "You approved plan {}; it is deployed as soon as its other gates pass.",
    REJECT.verb: "You rejected plan {}; it isn't deployed.",
}


async def decide(client: KubeClient, verb: str, key: tuple[str, str], shown: ShownPlan) -> str:
    """Approve or reject the plan that was shown; return a sentence.

    Raises:
        Fault: the user may not, or the plan isn't there any more, or was decided meanwhile.
        ApiError: the API server refused it.
    """
    await approve.decide(client, DECISIONS[verb], await one(client, "bundles", *key), shown)
    return _TAKEN[verb].format(said(shown.id))
