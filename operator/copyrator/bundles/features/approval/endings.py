"""How a deploy that was planned has ended, and whether it stored what was approved. Pure.

After its apply the Job's script reads what werf has stored, and prints as its last line::

    copyrator-stored NONCE APPROVED STORED

APPROVED is the salted hash of that part of the approved render that werf stores, STORED that of
what it has stored, or one of ``StoredWord``. Like a plan's block it is only read where its nonce is
the Job's (``operations.py``): what a chart or its hooks print comes before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from copyrator.api.bundle_status import Outcome
from copyrator.api.reasons.bundles import BundleReason
from copyrator.bundles.features.approval.reasons import StoredReason
from copyrator.bundles.jobs.outcome import Ending
from copyrator.bundles.jobs.pod import DEPLOY_CONTAINER
from copyrator.bundles.jobs.werf_error import first_cause, strip_layers
from copyrator.bundles.plans.guard.listing import Blame, DeniedWrite
from copyrator.bundles.plans.script import STORED, PlanExit, StoredWord

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


_REASONS: Final[Mapping[str, StoredReason]] = {
    StoredWord.NONE: StoredReason.RENDERS_DIFFER,
    StoredWord.EXACT: StoredReason.EXACT,
    StoredWord.LARGE: StoredReason.DEPLOYED_DIFFERENTLY,
    StoredWord.SKIPPED: StoredReason.NOTHING_STORED,
    StoredWord.NOT_ASKED: StoredReason.NOT_SUPPORTED,
    StoredWord.UNREADABLE: StoredReason.UNREADABLE,
}
_HASH: Final = "[0-9a-f]{64}"
_LINE: Final = re.compile(
    rf"{STORED} ([0-9a-f]{{32}}) ({_HASH}|none) ({_HASH}|{'|'.join(StoredWord)})"
)


def compares_stored(pods: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the script of the newest pod compares what was stored."""
    spec = (pods[-1].get("spec") or {}) if pods else {}
    return any(
        container.get("name") == DEPLOY_CONTAINER
        and any(STORED in part for part in container.get("command") or ())
        for container in spec.get("containers") or ()
    )


def read_stored(last_line: str, nonce: str) -> StoredReason:
    """What the last line of a log says; UNREADABLE where it isn't the result.

    Args:
        last_line: of the log of a deploy's container, which has ended.
        nonce: the Job's.
    """
    found = _LINE.fullmatch(last_line.removesuffix("\n"))
    if found is None or found[1] != nonce:
        return StoredReason.UNREADABLE
    approved, stored = found[2], found[3]
    if (reason := _REASONS.get(stored)) is not None:
        return reason
    return StoredReason.AS_APPROVED if stored == approved else StoredReason.DEPLOYED_DIFFERENTLY
