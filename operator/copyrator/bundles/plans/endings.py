"""How a deploy that is held to its plan has ended. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from copyrator.api.bundle_status import Outcome
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.jobs.outcome import Ending
from copyrator.bundles.jobs.werf_error import first_cause, strip_layers
from copyrator.bundles.plans.guard.listing import Blame, DeniedWrite
from copyrator.bundles.plans.script import PlanExit

_OTHER_REVISION: Final = re.compile(
    r"(?:[a-z -]{1,80}: ){0,9}"
    r"plan artifact release revision mismatch: expected \d{1,9}, got \d{1,9}"
)


def planned_ending(ending: Ending) -> Ending:
    """The outcome by what only a planned deploy ends with, of one without its checks' reason."""
    if ending.reason is BundleReason.CLUSTER_UNREACHABLE:
        return ending
    if ending.is_raw and _finds_other_revision(ending.message):
        reason = BundleReason.PLAN_CHANGED
    elif ending.exit_code == PlanExit.NOT_GUARDED:
        reason = BundleReason.GUARD_NOT_ACTIVE
    elif ending.exit_code == PlanExit.DIFFERENT:
        return different_ending(ending)
    else:
        return ending
    return replace(ending, outcome=Outcome.INTERRUPTED, reason=reason)


def _finds_other_revision(error: str) -> bool:
    """Whether the first cause is that werf doesn't take its saved plan, as a revision was added.

    Nothing was written then. A template's error has other words before its text.
    """
    return _OTHER_REVISION.fullmatch(strip_layers(first_cause(error))) is not None


def different_ending(ending: Ending) -> Ending:
    """The ending of a deploy that stored something else than what was approved."""
    revision = f" as revision {ending.revision}" if ending.revision else ""
    text = f"what was stored for the release{revision} isn't what was approved"
    reason = BundleReason.DEPLOYED_DIFFERENTLY
    return replace(ending, outcome=Outcome.FAILED, reason=reason, message=text, is_raw=False)


def refused_ending(ending: Ending, refusal: DeniedWrite, fault: Blame) -> Ending:
    """The ending of a guarded deploy of which the API server refused a write."""
    text = f"the API server refused the {refusal}"
    if fault is Blame.DIGEST:
        outcome, reason = Outcome.FAILED, BundleReason.EXCEEDS_APPROVAL
        text += ", which wasn't approved; what was applied before that was approved"
    else:
        outcome, reason = Outcome.INTERRUPTED, BundleReason.PLAN_CHANGED
        if fault is Blame.CHANGED:
            text += ": somebody has changed the object since it was planned. It is planned anew"
        else:
            text += (
                ", a write of werf's own that should have been allowed: this is a fault of the "
                "operator; report it. It is planned anew"
            )
    return replace(ending, outcome=outcome, reason=reason, message=text, is_raw=False)
