"""Whether a deploy that was planned stored what was approved. Pure.

After its apply the Job's script reads what werf has stored, and prints as its last line::

    copyrator-stored NONCE APPROVED STORED

APPROVED is the salted hash of that part of the approved render that werf stores, STORED that of
what it has stored, or one of ``StoredWord``. Like a plan's block it is only read where its nonce is
the Job's (``plans/operations.py``): what a chart or its hooks print comes before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from copyrator.api import structs
from copyrator.api.bundle_status import BundleStatus, Outcome
from copyrator.bundles.engine.gate import Findings
from copyrator.bundles.features.approval.fields import NOT_JUDGED, AsApprovedStatus
from copyrator.bundles.features.approval.reasons import StoredReason
from copyrator.bundles.jobs.outcome import Ending
from copyrator.bundles.jobs.pod import DEPLOY_CONTAINER
from copyrator.bundles.plans.fields import PlanStatus
from copyrator.bundles.plans.script import STORED, StoredWord

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


def record_end(status: BundleStatus, ending: Ending, found: Findings) -> BundleStatus:
    """The status where an attempt has ended, with what is known of what it stored. Pure.

    A failed deploy changes nothing of that. The plan of a correction isn't that of what is
    deployed: it has no record of values.
    """
    attempted, stored = status.attempted, found.of(StoredReason)
    is_deployed = attempted.outcome == Outcome.SUCCEEDED and not attempted.correction
    if stored is not None:
        judged = AsApprovedStatus(
            reason=stored,
            version=attempted.version,
            revision=ending.revision,
            at=attempted.finished_at,
        )
        status = status.with_part(judged)
    elif is_deployed:
        status = status.with_part(NOT_JUDGED)
    if not is_deployed:
        return status
    plan = status.part(PlanStatus)
    is_of_plan = attempted.plan_job is not None and attempted.plan_job == plan.job
    deployed = structs.replace(
        status.deployed,
        plan_job=attempted.plan_job,
        plan_seal=plan.seal if is_of_plan else None,
    )
    return structs.replace(status, deployed=deployed)
