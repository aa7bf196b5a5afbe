"""The status of a Bundle as typed records: everything that must survive a restart.

``ready``, ``forceUpdate``, ``target`` and ``deploy`` are the original werf operator's fields and
stay readable (docs/adoption.md). ``forceUpdate`` is set by the user: it is read here and never
written by ``to_dict``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from copyrator.api.conditions import NOT_SUSPENDED, ConditionStatus, ConditionType, Suspension
from copyrator.api.drift import NO_DRIFT_STATUS, DriftStatus
from copyrator.api.plan_status import (
    NOT_JUDGED,
    AsApprovedStatus,
    Baseline,
    MissingPermission,
    PlanOutcome,
    PlanStatus,
    PreviewPlan,
)
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.records import Packed, Record

MAX_GATES: Final = 10
"""Gates that a status lists."""
MAX_CANDIDATES: Final = 10
"""Versions that aren't deployed yet, and that a status lists."""
MAX_SOAKS: Final = 10
"""Versions whose soak a status lists."""
MAX_ATTESTED: Final = 10
"""Digests of which a status lists what was attested."""
MAX_HISTORY: Final = 10
"""Past deploys that a status holds, newest first."""
MAX_REJECTED: Final = 5
"""Rejected candidates that a status lists."""
ENOUGH_FAILED_POLLS: Final = 3
"""Failed polls in a row by which Ready may become False."""
SHORT_DIGEST: Final = 12
"""Hexadecimal digits of a digest that are enough to distinguish two."""
MAX_LOG_TAIL: Final = 2048
"""Characters of a failed Job's log that a status holds."""


ABSENT: Final = (BundleReason.TAG_NOT_FOUND, BundleReason.REPOSITORY_NOT_FOUND)
"""The registry doesn't have what the spec names."""

REGISTRY_FAULTS: Final = frozenset(
    {
        *ABSENT,
        BundleReason.AUTHENTICATION_FAILED,
        BundleReason.IDENTITY_MISSING,
        BundleReason.IDENTITY_REFUSED,
        BundleReason.IDENTITY_UNAVAILABLE,
        BundleReason.REGISTRY_UNREACHABLE,
        BundleReason.RATE_LIMITED,
    }
)
"""Reasons of errors of a registry, or of the cloud that gives tokens for it."""

PASSING: Final = frozenset(
    {
        BundleReason.CLUSTER_UNREACHABLE,
        BundleReason.IDENTITY_MISSING,
        BundleReason.IDENTITY_REFUSED,
        BundleReason.IDENTITY_UNAVAILABLE,
        BundleReason.RATE_LIMITED,
        BundleReason.TOKEN_EXPIRED,
    }
)
"""Of plans that failed: nothing of the deploy could change that."""


class Outcome(StrEnum):
    """The outcome of an attempt."""

    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    """By werf's own result: counts against the digest."""
    INTERRUPTED = "Interrupted"
    """By the infrastructure: doesn't count against the digest."""


class Rollback(StrEnum):
    """The state of the release after a failed deploy with ``spec.autoRollback``."""

    SUCCEEDED = "Succeeded"
    """The last good version runs again, as the revision in ``deployed``."""
    FAILED = "Failed"
    """Parts of the new version may be deployed."""
    UNKNOWN = "Unknown"
    """The release's Secrets can't be listed."""


class GateState(StrEnum):
    """A gate's verdict on a version."""

    PASSED = "Passed"
    WAITING = "Waiting"
    """It will pass, or be decided, without a change of the spec."""
    REFUSED = "Refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRef(Record):
    """The original's pair: a tag and its digest (``sha256:…``)."""

    digest: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployRef(VersionRef):
    """The original's pair of what is deployed, and what `kubectl get` prints of it."""

    short_digest: str | None = None
    """The beginning of ``digest``."""

    def shortened(self) -> DeployRef:
        """With the short digest that belongs to the digest."""
        digest = None if self.digest is None else self.digest.removeprefix("sha256:")[:SHORT_DIGEST]
        return self if digest == self.short_digest else replace(self, short_digest=digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected(Record):
    """A tag that was not chosen."""

    version: str | None = None
    reason: str | None = None
    message: str | None = None
    """Only with NotAVersion: the rule that it breaks, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Available(Record):
    """What the registry has for ``spec.version``, as of ``time``."""

    version: str | None = None
    digest: str | None = None
    time: str | None = None
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed(Record):
    """The last successful deploy."""

    version: str | None = None
    digest: str | None = None
    reference: str | None = None
    """``host[:port]/path`` of the repository that it came from."""
    revision: int | None = None
    namespace: str | None = None
    server: str | None = None
    """The API server of the release; None: the operator's own."""
    values_hash: str | None = None
    spec_hash: str | None = None
    """Hash of the spec's fields that change the release, so that other edits deploy nothing."""
    generation: int | None = None
    verified: bool | None = None
    """werf printed this digest itself; false for a baseline taken over from the original."""
    plan_job: str | None = None
    """The Job that made its plan: the next plan's values are compared with those of this one."""
    plan_seal: str | None = None
    """Hash of the Secret with that plan's operations."""
    time: str | None = None


class ConsentState(StrEnum):
    """Whether a namespace accepts the release of a Bundle of another one."""

    ACCEPTED = "Accepted"
    ASSUMED = "Assumed"
    """It was deployed before namespaces had to consent; it counts as accepted until they did."""
    NOT_ACCEPTED = "NotAccepted"


class ConsentBy(StrEnum):
    """By what a namespace accepts a release."""

    ANNOTATION = "Annotation"
    """operator.werf.dev/accept-from on the Namespace."""
    PERMISSION = "Permission"
    """The Job's account may create Secrets there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsentStatus(Record):
    """Whether the release's namespace accepts the release, where it is another than the Bundle's.

    Written when it changes, not each time that it is checked.
    """

    namespace: str | None = None
    state: str | None = None
    """A value of ConsentState."""
    by: str | None = None
    """A value of ConsentBy."""
    at: str | None = None
    """Since when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassedOver(Record):
    """A gate that a forced deploy skipped, and the reason why it hadn't passed."""

    name: str | None = None
    reason: str | None = None
    environments: tuple[str, ...] = ()
    """Of other clusters, without whose evidence it is deployed."""

    @property
    def text(self) -> str:
        """``promotion of staging``."""
        return f"{self.name}{' of ' if self.environments else ''}{', '.join(self.environments)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted(Record):
    """The newest attempt. Written before its Job is created, so no attempt runs twice."""

    version: str | None = None
    digest: str | None = None
    reference: str | None = None
    namespace: str | None = None
    """The namespace of the release, even if the spec has changed since."""
    server: str | None = None
    """The API server of the release; None: the operator's own."""
    job: str | None = None
    attempt: int | None = None
    """Number of this attempt; never used twice in a Bundle's life, so no Job's name is either."""
    failures: int | None = None
    """How many attempts at this same target failed by werf's result."""
    interruptions: int | None = None
    """How many attempts at this same target the infrastructure ended in a row."""
    plan: str | None = None
    """ID of the plan that its Job compares its own with; likewise ``plan_job``."""
    plan_job: str | None = None
    """The Job that made that plan."""
    approved_by: str | None = None
    """Who approved it; None where its approval mode required no decision."""
    correction: bool | None = None
    """True: it deploys again what is deployed, because that had drifted."""
    guarded: bool | None = None
    """True: its Job has a list of what it may write, and the API server refuses everything else."""
    passed_over: tuple[PassedOver, ...] = ()
    """The gates that it skipped, because a user forced it."""
    outcome: str | None = None
    reason: str | None = None
    message: str | None = None
    rollback: str | None = None
    """Only after a failed deploy with ``spec.autoRollback``: a value of Rollback."""
    missing: tuple[MissingPermission, ...] = ()
    """Missing permissions that made it, or the last uninstall, fail, by werf's own error."""
    generation: int | None = None
    values_hash: str | None = None
    spec_hash: str | None = None
    request: str | None = None
    started_at: str | None = None
    finished_at: str | None = None
    next_retry_at: str | None = None

    @property
    def is_running(self) -> bool:
        """Whether it has no outcome yet."""
        return self.outcome == Outcome.RUNNING


@dataclass(frozen=True, slots=True, kw_only=True)
class GateStatus(Record):
    """The verdict of one gate on the version that would be deployed next."""

    name: str | None = None
    state: str | None = None
    """A value of GateState."""
    reason: str | None = None
    message: str | None = None
    until: str | None = None
    """When it passes by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateStatus(Record):
    """A version that isn't deployed yet, and when this operator saw it first."""

    version: str | None = None
    digest: str | None = None
    first_seen: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakStatus(Record):
    """How long a version has been deployed here: evidence for promotion from it."""

    version: str | None = None
    digest: str | None = None
    since: str | None = None
    """When its newest stretch began."""
    until: str | None = None
    """When that ended; absent while it lasts."""
    longest: str | None = None
    """Duration of its longest stretch that has ended; absent where there is no evidence."""
    broken_by: str | None = None
    """What ended the newest stretch, as a sentence."""


class AttestState(StrEnum):
    """What was last said about a digest in the registry, or is about to be."""

    ATTESTING = "Attesting"
    """The statement is recorded, and may be in the registry."""
    RENEWING = "Renewing"
    """The same, while an older one is in the registry."""
    ATTESTED = "Attested"
    WITHDRAWING = "Withdrawing"
    """The same of its withdrawal."""
    WITHDRAWN = "Withdrawn"
    GONE = "Gone"
    """Withdrawn, and the registry has the digest no more. It may come back, with the statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestStatus(Record):
    """The newest statement about a digest.

    It is written before it is pushed, so that another process pushes the same.
    """

    digest: str | None = None
    version: str | None = None
    environment: str | None = None
    reference: str | None = None
    """``host[:port]/path`` of the repository that it is pushed to."""
    state: str | None = None
    """A value of AttestState."""
    issued_at: str | None = None
    """Later than that of every older statement about this digest; like ``since`` and ``until``, a
    date in the statement.
    """
    since: str | None = None
    """When the newest stretch began."""
    until: str | None = None
    seconds: int | None = None
    """How long it stood, as far as an operator saw it: the longest stretch."""
    revision: int | None = None
    """Of the release."""
    reason: str | None = None
    """Why it is withdrawn."""
    requested_for: str | None = None
    """Where a user has withdrawn it: when the stretch began that isn't attested again. From then on
    only the present stretch counts."""
    manifest: str | None = None
    """The digest of the manifest that was pushed last, which the next push replaces."""
    left: int | None = None
    """How many older statements the registry didn't delete."""

    @property
    def is_positive(self) -> bool:
        """Whether it says that the digest stands there."""
        return self.state in (AttestState.ATTESTING, AttestState.RENEWING, AttestState.ATTESTED)

    @property
    def is_pending(self) -> bool:
        """Whether it isn't known to be in the registry."""
        return self.state in (
            AttestState.ATTESTING,
            AttestState.RENEWING,
            AttestState.WITHDRAWING,
            AttestState.GONE,
        )

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is amiss while it is pending."""
        return self.state in (AttestState.RENEWING, AttestState.GONE)


class Trust(StrEnum):
    """Whether what is deployed satisfies ``spec.verify`` and the operator's signature policy."""

    TRUSTED = "Trusted"
    NOT_TRUSTED = "NotTrusted"
    UNKNOWN = "Unknown"
    """It can't be determined now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification(Record):
    """The verdict on the signatures of what is deployed."""

    digest: str | None = None
    verdict: str | None = None
    """A value of Trust."""
    reason: str | None = None
    message: str | None = None
    policy: str | None = None
    """Hash of all requirements: entries, keys and the operator's policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinStatus(Record):
    """What a user rolled back to; see deploy.requests."""

    requested: str | None = None
    """The newest value of the annotation that was seen; None: it is absent."""
    version: str | None = None
    digest: str | None = None
    """None: no pin is in force."""
    selection: str | None = None
    """Hash of the fields of the spec that choose a version; an edit of these ends the pin."""
    at: str | None = None
    refused: str | None = None
    """Why ``requested`` wasn't taken, as a sentence; an earlier pin stays in force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry(Record):
    """A finished attempt."""

    version: str | None = None
    digest: str | None = None
    reference: str | None = None
    """``host[:port]/path`` of the repository that it came from."""
    revision: int | None = None
    outcome: str | None = None
    reason: str | None = None
    job: str | None = None
    plan: str | None = None
    approved_by: str | None = None
    correction: bool | None = None
    passed_over: tuple[PassedOver, ...] = ()
    time: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LastError(Record):
    """The newest error of the registry or of a deploy, until a success clears it."""

    reason: str | None = None
    message: str | None = None
    log_tail: str | None = None
    time: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedPolls(Record):
    """The polls that failed in a row, up to the last one; empty where that succeeded."""

    count: int | None = None
    """At most ENOUGH_FAILED_POLLS: more make no difference."""
    since: str | None = None
    """When the first of them failed."""


_NO_CONDITION: Final[Mapping[str, Any]] = {}
_NO_PAST: Final[Packed[HistoryEntry]] = Packed()
_NO_FAILED_POLLS: Final = FailedPolls()
UNPINNED: Final = PinStatus()
_NO_PLAN: Final = PlanStatus()
_NO_PREVIEW: Final = PreviewPlan()
_NO_BASELINE: Final = Baseline()
"""Shared by all Bundles without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleStatus(Record):
    """The whole status."""

    ready: int | None = None
    """1: the spec is valid and its credentials are usable. It doesn't mean deployed."""
    force_update: int | None = None
    """Set to 1 by a user to force a deploy; never written by ``to_dict``."""
    target: VersionRef = VersionRef()
    deploy: DeployRef = DeployRef()
    conditions: tuple[dict[str, Any], ...] = ()
    observed_generation: int | None = None
    available: Available = Available()
    deployed: Deployed = Deployed()
    attempted: Attempted = Attempted()
    server: str | None = None
    """The API server that spec.kubeConfig names, as its Secret was read last; None without one."""
    consent: ConsentStatus = ConsentStatus()
    """Only where the release is in another namespace than the Bundle."""
    gates: tuple[GateStatus, ...] = ()
    """Only gates that the spec or the operator's settings require."""
    candidates: tuple[CandidateStatus, ...] = ()
    """Only where spec.minAge is set; oldest first."""
    soak: tuple[SoakStatus, ...] = ()
    """Only where another Bundle may be promoted from this one, or with spec.attest; oldest
    first."""
    attest: tuple[AttestStatus, ...] = ()
    """Only with spec.attest; oldest first."""
    verification: Verification = Verification()
    """Only where the spec or the operator's signature policy requires signatures."""
    plan: PlanStatus = _NO_PLAN
    """Only where the spec or the operator's settings require approval, or a user requested a
    plan."""
    preview: PreviewPlan = _NO_PREVIEW
    """Only where a user requested a plan of another version; for a day."""
    baseline: Baseline = _NO_BASELINE
    """Only where spec.approval.mode is OnRisk, or drift is checked for."""
    as_approved: AsApprovedStatus = NOT_JUDGED
    """Only after a deploy that was planned and approved."""
    drift: DriftStatus = NO_DRIFT_STATUS
    """Likewise; no more than its check's number where neither does."""
    pin: PinStatus = UNPINNED
    """Only where a user set the annotation pin."""
    history: Packed[HistoryEntry] = _NO_PAST
    """``past`` reads it."""
    next_poll_at: str | None = None
    last_error: LastError = LastError()
    failed_polls: FailedPolls = _NO_FAILED_POLLS
    suspension: Suspension = NOT_SUSPENDED
    """Ready as it was; only with ``spec.suspend`` or the annotation disable-autoupdate."""
    last_handled_request: str | None = None
    """The last value of the requestedAt annotation that was handled: the registry has answered,
    and the result is in the status.
    """
    last_handled_force: str | None = None
    """The last value of the forceAt annotation that was handled."""
    last_handled_plan: str | None = None
    """The last value of the plan-at annotation that was handled, with plan-version or without."""
    last_handled_withdrawal: str | None = None
    """The last value of the withdraw annotation whose withdrawals are recorded in ``attest``."""
    last_failed_request: str | None = None
    """A value of the requestedAt annotation that can't be handled yet; the conditions have the
    cause. Absent once it is handled.
    """
    last_failed_force: str | None = None
    """The same of the forceAt annotation."""

    @property
    def past(self) -> tuple[HistoryEntry, ...]:
        """The attempts that have ended, newest first."""
        return self.history.unpack(HistoryEntry)

    def condition(self, kind: ConditionType) -> Mapping[str, Any]:
        """The condition of a type; empty where there is none."""
        found: Mapping[str, Any] = _NO_CONDITION
        for one in self.conditions:
            if one.get("type") == kind:
                found = one  # of two of a type the last one counts
        return found

    @property
    def ready_reason(self) -> str:
        """The reason of the Ready condition; empty where there is none."""
        found = self.condition(ConditionType.READY).get("reason")
        return found if isinstance(found, str) else ""

    @property
    def is_unready(self) -> bool:
        """Whether Ready is False."""
        return self.condition(ConditionType.READY).get("status") == ConditionStatus.FALSE

    @property
    def open_gates(self) -> tuple[str, ...]:
        """The gates that keep a version from being deployed."""
        return tuple(one.name or "" for one in self.gates if one.state != GateState.PASSED)

    @property
    def plan_jobs(self) -> tuple[str, ...]:
        """The Jobs of all plans without an outcome: of deploys, previews and checks for drift."""
        plans = self.plan, self.preview, self.drift.check
        return tuple(one.job for one in plans if one.is_running and one.job)

    @property
    def known_consent(self) -> ConsentStatus | None:
        """Whether the release's namespace accepts it; None where it hasn't been asked."""
        return self.consent if self.consent.state else None

    @property
    def has_deployed(self) -> bool:
        """Something was deployed, by this operator or the original."""
        return bool(self.deployed.digest or self.deploy.digest)

    @property
    def forced(self) -> bool:
        """A user requests a deploy by the original's field."""
        return self.force_update == 1

    def to_dict(self) -> dict[str, Any]:
        """The status to apply: everything but ``forceUpdate``, bounded in size."""
        status = Record.to_dict(self)  # slots: no zero-argument super
        status.pop("forceUpdate", None)
        if "history" in status:
            status["history"] = status["history"][:MAX_HISTORY]
        if "gates" in status:
            status["gates"] = status["gates"][:MAX_GATES]
        return status


def parse_status(body: Any) -> BundleStatus:
    """Read the status of a Bundle's body; never raises."""
    return BundleStatus.parse(body.get("status") if isinstance(body, dict) else None, dict(_WORDS))


_ENUMS: Final = (
    AttestState,
    BundleReason,
    ConditionStatus,
    ConditionType,
    GateState,
    Outcome,
    PlanOutcome,
)
_WORDS: Final = {str(one.value): str(one.value) for kind in _ENUMS for one in kind}
"""The texts that most statuses have, shared by all of them."""
