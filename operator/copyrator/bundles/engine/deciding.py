"""Decides whether something is deployed, and why; and how that begins and ends in the status. Pure.

Every input of a decision is in the status, the Jobs and the registry, so a restart doesn't change
the decision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from copyrator.api import structs
from copyrator.api.bundle_spec import BundleSpec, Retry
from copyrator.api.bundle_status import (
    MAX_HISTORY,
    Attempted,
    BundleStatus,
    Cause,
    Deployed,
    DeployRef,
    HistoryEntry,
    LastError,
    Outcome,
    PassedOver,
)
from copyrator.api.field_managers import SPEC
from copyrator.api.names import ANN_FORCE_AT, ANN_REQUESTED_AT
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.schema import Packed
from copyrator.api.text import format_time, parse_time
from copyrator.bundles.engine import gate as gates
from copyrator.bundles.engine.bundle import BundleEntry, DeployRequest, acknowledge
from copyrator.bundles.engine.gate import NOTHING_FOUND, Findings, GateResult, Occasion
from copyrator.bundles.engine.poll import retry_delay
from copyrator.bundles.jobs.identity import selection_hash
from copyrator.bundles.jobs.outcome import Ending
from copyrator.bundles.jobs.revisions import RolledBack
from copyrator.bundles.tags import admits

NOT_RETRIED: Final = (BundleReason.EXCEEDS_APPROVAL, BundleReason.DEPLOYED_DIFFERENTLY)
"""Failures that quarantine at once."""


class DeployReason(StrEnum):
    """Why a deploy is made; the values are used in messages."""

    FIRST = "nothing is deployed yet"
    VERSION = "the registry has another version"
    VALUES = "the values changed"
    SPEC = "the spec changed"
    REQUEST = "a deploy was requested"
    RETRY = "the last attempt failed"
    AGAIN = "the last attempt was interrupted"
    REPAIR = "an attempt at another version failed"
    CORRECTION = "objects have drifted"


class DeployAction(StrEnum):
    """What to do now."""

    DEPLOY = "Deploy"
    NOTHING = "Nothing"
    WAIT = "Wait"
    QUARANTINE = "Quarantine"


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredDeploy:
    """The desired deploy, with all fields by which deploys differ."""

    version: str
    digest: str
    values_hash: str | None
    spec_hash: str
    generation: int
    reference: str | None = None
    """The repository; spec_hash covers it, so it isn't compared. Likewise ``namespace``."""
    namespace: str | None = None
    server: str | None = None
    """The API server of the release; None: the operator's own."""
    request: DeployRequest | None = None

    def matches(self, other: Deployed | Attempted) -> bool:
        """Whether that deploy or attempt was made from the same inputs."""
        mine = self.version, self.digest, self.values_hash, self.spec_hash
        return mine == (other.version, other.digest, other.values_hash, other.spec_hash)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What would be deployed, and what that is decided by."""

    entry: BundleEntry
    spec: BundleSpec
    status: BundleStatus
    """The Bundle's, with what has changed since and isn't written yet."""
    wanted: DesiredDeploy
    """Without a version where there is none."""
    now: datetime
    is_awaited_refused: bool = False
    """Whether a version gate objects to the version that a feature awaits."""
    findings: Findings = NOTHING_FOUND
    """What moment gates judge by."""
    results: tuple[GateResult, ...] = ()
    """Of the gates that were evaluated."""

    @property
    def again(self) -> DesiredDeploy:
        """What is deployed, to be deployed once more."""
        there = self.status.deployed
        version, digest = there.version or "", there.digest or ""
        return replace(self.wanted, version=version, digest=digest, request=None)


@dataclass(frozen=True, slots=True)
class Correction:
    """That what is deployed is deployed again, as a feature has found that it isn't intact."""

    findings: Findings
    """For its gates."""
    occasion: Occasion = Occasion.CORRECTION


@dataclass(frozen=True, slots=True)
class Decision:
    """An action, its reason, and, for WAIT, the time."""

    action: DeployAction
    need: DeployReason | None = None
    until: datetime | None = None


def decide(status: BundleStatus, wanted: DesiredDeploy, retry: Retry, now: datetime) -> Decision:
    """Decide about a Bundle none of whose attempts is running."""
    attempted = status.attempted
    if wanted.request is not None:
        return Decision(DeployAction.DEPLOY, DeployReason.REQUEST)
    if is_failed_try(attempted, wanted) and not has_succeeded(status):
        return _try_again(attempted, retry, now)
    if wanted.matches(status.deployed):
        if has_succeeded(status):
            return Decision(DeployAction.NOTHING)
        return Decision(DeployAction.DEPLOY, DeployReason.REPAIR)
    return Decision(DeployAction.DEPLOY, _difference(status.deployed, wanted))


def has_succeeded(status: BundleStatus) -> bool:
    """Whether what is deployed is what the last attempt was of.

    Also True where a correction of drift was interrupted: another check finds what is left.
    """
    return status.attempted.outcome in (None, Outcome.SUCCEEDED) or status.attempted.is_broken_off


def _try_again(attempted: Attempted, retry: Retry, now: datetime) -> Decision:
    if attempted.outcome == Outcome.FAILED and (attempted.failures or 0) > retry.limit:
        return Decision(DeployAction.QUARANTINE)
    need, until = _retry(attempted), parse_time(attempted.next_retry_at)
    if until is not None and now < until:
        return Decision(DeployAction.WAIT, need, until)
    return Decision(DeployAction.DEPLOY, need)


def _retry(attempted: Attempted) -> DeployReason:
    return DeployReason.AGAIN if attempted.outcome == Outcome.INTERRUPTED else DeployReason.RETRY


def is_failed_try(attempted: Attempted, wanted: DesiredDeploy) -> bool:
    """Whether the last attempt had this input and failed. Any edit of the spec resets the count."""
    return (
        attempted.outcome in (Outcome.FAILED, Outcome.INTERRUPTED)
        and (attempted.generation, attempted.server) == (wanted.generation, wanted.server)
        and wanted.matches(attempted)
    )


def _difference(deployed: Deployed, wanted: DesiredDeploy) -> DeployReason:
    if deployed.version is None:
        return DeployReason.FIRST
    if (deployed.digest, deployed.version) != (wanted.digest, wanted.version):
        return DeployReason.VERSION
    return DeployReason.VALUES if deployed.values_hash != wanted.values_hash else DeployReason.SPEC


def occasion(need: DeployReason, wanted: DesiredDeploy, status: BundleStatus) -> Occasion:
    """The occasion on which the gates are evaluated for a deploy."""
    if need is DeployReason.CORRECTION:
        return Occasion.CORRECTION
    if need in (DeployReason.RETRY, DeployReason.AGAIN):
        return Occasion.RETRY if need is DeployReason.RETRY else Occasion.INTERRUPTED
    if wanted.digest == status.pin.digest:
        return Occasion.ROLLBACK
    return gates.occasion(wanted.request, status.deployed.digest, wanted.digest)


def occasion_of(status: BundleStatus, wanted: DesiredDeploy) -> Occasion:
    """The occasion for the version gates, whether or not the version is to be deployed."""
    is_retried = wanted.request is None and is_failed_try(status.attempted, wanted)
    is_open = is_retried and not has_succeeded(status)
    need = _retry(status.attempted) if is_open else DeployReason.VERSION
    return occasion(need, wanted, status)


def begin(
    status: BundleStatus,
    wanted: DesiredDeploy,
    now: datetime,
    passed_over: tuple[PassedOver, ...] = (),
) -> BundleStatus:
    """The status with a new attempt recorded; its Job is created and named in it afterwards."""
    before, request = status.attempted, wanted.request
    continues = request is None and is_failed_try(before, wanted)
    attempted = Attempted(
        version=wanted.version,
        digest=wanted.digest,
        reference=wanted.reference,
        namespace=wanted.namespace,
        server=wanted.server,
        attempt=(before.attempt or 0) + 1,
        failures=(before.failures or 0) if continues else 0,
        interruptions=(before.interruptions or 0) if continues else 0,
        outcome=Outcome.RUNNING,
        generation=wanted.generation,
        values_hash=wanted.values_hash,
        spec_hash=wanted.spec_hash,
        request=request.token if request else "",
        passed_over=passed_over,
        started_at=format_time(now),
    )
    changed = structs.replace(status, attempted=attempted)
    return acknowledge(changed, request) if request else changed


_CAUSES: Final = {
    DeployReason.REQUEST: Cause.REQUESTED,
    DeployReason.RETRY: Cause.RETRY,
    DeployReason.AGAIN: Cause.RETRY,
    DeployReason.CORRECTION: Cause.CORRECTION,
}


def record_cause(proposal: Proposal, need: DeployReason) -> BundleStatus:
    """The status whose new attempt has its cause, and what is known to have given it."""
    cause, status = _CAUSES.get(need) or _find_edit(proposal), proposal.status
    is_edited = proposal.wanted.generation != proposal.entry.status.attempted.generation
    fields = [SPEC] if cause is Cause.SPEC_CHANGED and is_edited else []  # or labels changed
    if (request := proposal.wanted.request) is not None:
        asked = (ANN_FORCE_AT, request.force_at), (ANN_REQUESTED_AT, request.requested_at)
        fields = [name for name, value in asked if value is not None]
    by = proposal.entry.managers.writer(*fields)
    selection = selection_hash(proposal.spec)
    attempted = structs.replace(status.attempted, cause=cause, by=by, selection=selection)
    return structs.replace(status, attempted=attempted)


def _find_edit(proposal: Proposal) -> Cause:
    """What has changed since the last attempt, if there was one."""
    status, wanted = proposal.entry.status, proposal.wanted
    before = status.attempted if status.attempted.version else status.deployed
    if not before.version:
        return Cause.NEW_VERSION
    if before.spec_hash != wanted.spec_hash:
        return Cause.SPEC_CHANGED
    if (before.digest, before.version) != (wanted.digest, wanted.version):
        is_edited = status.attempted.selection not in (None, selection_hash(proposal.spec))
        is_seen = status.observed_generation == wanted.generation  # by an earlier decision
        is_newer = not is_edited or (is_seen and admits(proposal.spec, before.version))
        return Cause.NEW_VERSION if is_newer else Cause.SPEC_CHANGED
    return Cause.VALUES_CHANGED if before.values_hash != wanted.values_hash else Cause.SPEC_CHANGED


@dataclass(frozen=True, slots=True)
class Evidence:
    """Findings about a finished attempt: from its log, and its rollback."""

    printed_digests: tuple[str, ...] = ()
    log_tail: str = ""
    rolled_back: RolledBack | None = None
    found: Findings = NOTHING_FOUND
    """What features have found."""


NO_EVIDENCE: Final = Evidence()


def finish(
    status: BundleStatus, ending: Ending, evidence: Evidence, retry: Retry, now: datetime
) -> BundleStatus:
    """The status with the running attempt's outcome recorded."""
    stamp = format_time(now)
    attempted = structs.replace(
        status.attempted,
        outcome=ending.outcome,
        reason=ending.reason,
        message=ending.message,
        missing=ending.missing,
        finished_at=stamp,
        next_retry_at=None,
    )
    past = _limit_history((HistoryEntry.of(attempted, ending.revision), *status.past))
    changed = structs.replace(status, history=Packed.pack(past))
    if ending.outcome is Outcome.SUCCEEDED:
        return structs.replace(
            changed,
            attempted=structs.replace(attempted, failures=0, interruptions=0),
            deployed=attempted.deployed(
                revision=ending.revision or status.deployed.revision,
                verified=attempted.digest in evidence.printed_digests,
            ),
            deploy=DeployRef(digest=attempted.digest, version=attempted.version),
            last_error=LastError(),
        )
    error = LastError(
        reason=ending.reason, message=ending.message, log_tail=evidence.log_tail or None, time=stamp
    )
    if back := evidence.rolled_back:
        attempted = structs.replace(attempted, rollback=back.rollback)
        revision = back.revision or changed.deployed.revision
        deployed = structs.replace(changed.deployed, revision=revision)
        changed = structs.replace(changed, deployed=deployed)
    attempted = _schedule_retry(attempted, retry, now)
    return structs.replace(changed, attempted=attempted, last_error=error)


_KEPT_DIGESTS: Final = 3
"""Digests whose last successful deploy stays in the history however many others follow."""


def _limit_history(entries: tuple[HistoryEntry, ...]) -> tuple[HistoryEntry, ...]:
    """At most MAX_HISTORY, newest first; what can be rolled back to is dropped last."""
    kept = list(entries)
    while len(kept) > MAX_HISTORY:
        newest: dict[str | None, int] = {}
        for at, one in enumerate(kept):
            if one.outcome == Outcome.SUCCEEDED:
                newest.setdefault(one.digest, at)
        targets = list(newest.values())[:_KEPT_DIGESTS]
        del kept[max(at for at in range(len(kept)) if at not in targets)]
    return tuple(kept)


def _schedule_retry(attempted: Attempted, retry: Retry, now: datetime) -> Attempted:
    """Count a failure or an interruption, and set the time of the next retry."""
    failures, interruptions = attempted.failures or 0, attempted.interruptions or 0
    if attempted.outcome == Outcome.FAILED:
        failures += 1
        if attempted.reason in NOT_RETRIED:  # it would do the same again
            failures = max(failures, retry.limit + 1)
        if failures > retry.limit:
            return structs.replace(attempted, failures=failures)
        delay = retry_delay(retry.backoff, failures)
    elif attempted.reason == BundleReason.FROZEN:
        delay = 0.0  # the freeze gate decides when
    else:
        interruptions += 1
        vanished = attempted.reason == BundleReason.JOB_LOST and interruptions == 1
        delay = 0.0 if vanished else retry_delay(retry.backoff, interruptions)
    return structs.replace(
        attempted,
        failures=failures,
        interruptions=interruptions,
        next_retry_at=format_time(now + timedelta(seconds=delay)),
    )
