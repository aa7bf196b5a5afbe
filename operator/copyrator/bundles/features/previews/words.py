"""What is said of previews. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from copyrator.api.text import Detail, said, time_since
from copyrator.bundles.features.previews.fields import PreviewPlan
from copyrator.bundles.plans.fields import PlanOutcome
from copyrator.bundles.plans.plan_words import contents, operation_counts
from copyrator.bundles.words import Place, View, Words


class PreviewWords(Words):
    """The plan of a version that a user named."""

    def rows(self, view: View, place: Place) -> Iterator[Detail]:
        """What it is, or why there is none."""
        if place is Place.PREVIEW:
            yield from _describe(view)


def _describe(view: View) -> Iterator[Detail]:
    """The plan of a version that a user named, where there is one."""
    plan = view.status.part(PreviewPlan)
    match plan.outcome:
        case PlanOutcome.PLANNED:
            made = f"made {time_since(plan.made_at, view.now)} ago: {operation_counts(plan)}"
            shown = contents(plan)
            below = [Detail("Contents", shown).line] if shown else []
            yield Detail("Preview", f"{said(plan.version)}, {made}", below)
        case PlanOutcome.RUNNING:
            yield Detail("Preview", f"{said(plan.version)}, being made by the Job {said(plan.job)}")
        case PlanOutcome.FAILED:
            yield Detail("Preview", preview_failure(view))


def preview_failure(view: View) -> str:
    """Why there is no preview."""
    plan = view.status.part(PreviewPlan)
    reason = f"{said(plan.reason)}: {said(plan.message, 1000)}"
    return f"{said(plan.requested_version)} isn't planned: {reason}"


WORDS: Final = PreviewWords()
