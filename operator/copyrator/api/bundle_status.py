"""The status of a Bundle as typed records: everything that must survive a restart.

``ready``, ``forceUpdate``, ``target`` and ``deploy`` are the original werf operator's fields and
stay readable (docs/adoption.md). ``forceUpdate`` is set by the user: it is read here and never
written by ``to_dict``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from copyrator.api.conditions import NOT_SUSPENDED, ConditionStatus, ConditionType, Suspension
from copyrator.api.plan_status import (
    MissingPermission,
)
from copyrator.api.records import Composed, Packed, Record
from copyrator.api.structs import replace

MAX_GATES: Final = 10
"""Gates that a status lists."""
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


class BundleReason(StrEnum):
    """Reasons of a Bundle's conditions: stable values, part of the API."""

    DEPLOYED = "Deployed"
    DEPLOYING = "Deploying"
    POLLING = "Polling"
    SUSPENDED = "Suspended"
    AUTOUPDATE_DISABLED = "AutoupdateDisabled"
    INVALID_SPEC = "InvalidSpec"
    AUTHENTICATION_FAILED = "AuthenticationFailed"
    IDENTITY_MISSING = "IdentityMissing"
    """The account of spec.provider has no identity of that cloud, or it can't be used here."""
    IDENTITY_REFUSED = "IdentityRefused"
    """The cloud of spec.provider refuses the identity."""
    IDENTITY_UNAVAILABLE = "IdentityUnavailable"
    """The cloud's server that gives tokens doesn't answer."""
    TOKEN_EXPIRED = "TokenExpired"  # noqa: S105 - a reason
    """The token of spec.provider in a Job's Secret had expired before werf was done with it."""
    REGISTRY_UNREACHABLE = "RegistryUnreachable"
    RATE_LIMITED = "RateLimited"
    TAG_NOT_FOUND = "TagNotFound"
    REPOSITORY_NOT_FOUND = "RepositoryNotFound"
    """It doesn't exist, or the Bundle's credentials may not see it."""
    NO_MATCHING_VERSION = "NoMatchingVersion"
    WOULD_DOWNGRADE = "WouldDowngrade"
    FORBIDDEN = "Forbidden"
    """The operator lacks a permission."""
    VALUES_MISSING = "ValuesMissing"
    SERVICE_ACCOUNT_MISSING = "ServiceAccountMissing"
    JOB_UNSCHEDULABLE = "JobUnschedulable"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    JOB_LOST = "JobLost"
    DEPLOY_FAILED = "DeployFailed"
    SKIPPED = "Skipped"
    """The annotation skip-digests names its digest."""
    PINNED = "Pinned"
    """A user rolled back: no other version is deployed until it is unpinned."""
    PIN_REFUSED = "PinRefused"
    """The annotation pin names what mustn't be rolled back to."""
    UNSIGNED = "Unsigned"
    SIGNATURE_INVALID = "SignatureInvalid"
    """None of its signatures is trusted."""
    VERIFICATION_UNAVAILABLE = "VerificationUnavailable"
    """Signatures, attestations, keys or the signature policy can't be read: nothing is deployed."""
    NOT_IN_POLICY = "NotInPolicy"
    """The operator's signature policy denies repositories that it doesn't name."""
    TOO_YOUNG = "TooYoung"
    """spec.minAge has not passed since the version was seen first."""
    NOT_PROMOTED = "NotPromoted"
    """It hasn't been deployed for long enough where spec.promoteFrom requires it."""
    PROMOTION_NOT_ALLOWED = "PromotionNotAllowed"
    """A Bundle of spec.promoteFrom doesn't exist, or doesn't allow it."""
    PROMOTION_WITHDRAWN = "PromotionWithdrawn"
    """An environment of spec.promoteFrom.attestations has withdrawn its evidence."""
    PROMOTION_HELD = "PromotionHeld"
    """A Bundle of spec.promoteFrom runs it, and is held."""
    DEPENDENCY_NOT_READY = "DependencyNotReady"
    """A Bundle of spec.dependsOn isn't Ready."""
    OUTSIDE_WINDOW = "OutsideWindow"
    """By spec.windows no deploy may begin now."""
    FROZEN = "Frozen"
    """The Bundle's namespace, its release's, or all are frozen."""
    FREEZE_UNREADABLE = "FreezeUnreadable"
    """Whether they are frozen, or for how long, can't be read; nothing is deployed meanwhile."""
    PLANNING = "Planning"
    AWAITING_APPROVAL = "AwaitingApproval"
    PLAN_REJECTED = "PlanRejected"
    PLAN_CHANGED = "PlanChanged"
    """What would be done isn't what was planned or approved; nothing was deployed."""
    PLAN_FAILED = "PlanFailed"
    PLAN_UNSTABLE = "PlanUnstable"
    """Plans failed or changed too often."""
    PLAN_UNBOUND = "PlanUnbound"
    """The plan isn't bound, and the operator's settings require bound plans."""
    EXCEEDS_APPROVAL = "ExceedsApproval"
    """The deploy tried to write what wasn't approved, and the API server refused it."""
    DEPLOYED_DIFFERENTLY = "DeployedDifferently"
    """What was stored for the release isn't what was approved."""
    GUARD_NOT_ACTIVE = "GuardNotActive"
    """The API server doesn't hold the Job to what was approved; nothing was written."""
    DEPENDENCIES_NOT_VENDORED = "DependenciesNotVendored"
    """Its chart lacks dependencies that werf would download at each run."""
    CHART_NOT_PLAIN = "ChartNotPlain"
    """Its chart may be read in several ways, so no approval says what is deployed."""
    RENDERED_DIFFERENTLY = "RenderedDifferently"
    """What is deployed renders differently now, so a correction would not only put back."""
    ATTESTED = "Attested"
    ATTESTING = "Attesting"
    """A statement is being signed and pushed."""
    SOAKING = "Soaking"
    """What is deployed hasn't stood for spec.attest.after, or isn't Healthy."""
    ATTESTATION_WITHDRAWN = "AttestationWithdrawn"
    ATTEST_KEY_INVALID = "AttestKeyInvalid"
    """The private key of spec.attest is missing, can't be used, or is trusted for signatures."""
    ENVIRONMENT_NOT_ALLOWED = "EnvironmentNotAllowed"
    """By the operator's settings the namespace may not attest under this name."""
    PUSH_REFUSED = "PushRefused"
    """The registry doesn't take an attestation."""
    NOT_KNOWN_HARMLESS = "NotKnownHarmless"
    """Settings of a gated Bundle that its Jobs don't get."""
    QUARANTINED = "Quarantined"
    TIMED_OUT = "TimedOut"
    KUBE_CONFIG_INVALID = "KubeConfigInvalid"
    """The Secret of spec.kubeConfig is missing, has no kubeconfig that is allowed, or has ended."""
    CLUSTER_UNREACHABLE = "ClusterUnreachable"
    """The API server of spec.kubeConfig doesn't answer, or doesn't accept its credential."""
    RELEASE_CONFLICT = "ReleaseConflict"
    RELEASE_NOT_ACCEPTED = "ReleaseNotAccepted"
    """The release's namespace is another one, which hasn't consented."""
    NAMESPACE_CHANGED = "NamespaceChanged"
    UNINSTALLING = "Uninstalling"
    UNINSTALL_FAILED = "UninstallFailed"


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


class VersionRef(Record, frozen=True):
    """The original's pair: a tag and its digest (``sha256:…``)."""

    digest: str | None = None
    version: str | None = None


class DeployRef(VersionRef, frozen=True):
    """The original's pair of what is deployed, and what `kubectl get` prints of it."""

    short_digest: str | None = None
    """The beginning of ``digest``."""

    def shortened(self) -> DeployRef:
        """With the short digest that belongs to the digest."""
        digest = None if self.digest is None else self.digest.removeprefix("sha256:")[:SHORT_DIGEST]
        return self if digest == self.short_digest else replace(self, short_digest=digest)


class Rejected(Record, frozen=True):
    """A tag that was not chosen."""

    version: str | None = None
    reason: str | None = None
    message: str | None = None
    """Only with NotAVersion: the rule that it breaks, and what to do."""


class Available(Record, frozen=True):
    """What the registry has for ``spec.version``, as of ``time``."""

    version: str | None = None
    digest: str | None = None
    time: str | None = None
    rejected: tuple[Rejected, ...] = ()


class Deployed(Record, frozen=True):
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


class PassedOver(Record, frozen=True):
    """A gate that a forced deploy skipped, and the reason why it hadn't passed."""

    name: str | None = None
    reason: str | None = None
    environments: tuple[str, ...] = ()
    """Of other clusters, without whose evidence it is deployed."""

    @property
    def text(self) -> str:
        """``promotion of staging``."""
        return f"{self.name}{' of ' if self.environments else ''}{', '.join(self.environments)}"


class Attempted(Record, frozen=True):
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


class GateStatus(Record, frozen=True):
    """The verdict of one gate on the version that would be deployed next."""

    name: str | None = None
    state: str | None = None
    """A value of GateState."""
    reason: str | None = None
    message: str | None = None
    until: str | None = None
    """When it passes by itself."""


class HistoryEntry(Record, frozen=True):
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


class LastError(Record, frozen=True):
    """The newest error of the registry or of a deploy, until a success clears it."""

    reason: str | None = None
    message: str | None = None
    log_tail: str | None = None
    time: str | None = None


class FailedPolls(Record, frozen=True):
    """The polls that failed in a row, up to the last one; empty where that succeeded."""

    count: int | None = None
    """At most ENOUGH_FAILED_POLLS: more make no difference."""
    since: str | None = None
    """When the first of them failed."""


_NO_CONDITION: Final[Mapping[str, Any]] = {}
_NO_PAST: Final[Packed[HistoryEntry]] = Packed()
_NO_FAILED_POLLS: Final = FailedPolls()


class BundleStatus(Composed, frozen=True):
    """The whole status: what every Bundle has, and the features' parts (status_parts.py)."""

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
    gates: tuple[GateStatus, ...] = ()
    """Only gates that the spec or the operator's settings require."""
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
    def has_deployed(self) -> bool:
        """Something was deployed, by this operator or the original."""
        return bool(self.deployed.digest or self.deploy.digest)

    @property
    def forced(self) -> bool:
        """A user requests a deploy by the original's field."""
        return self.force_update == 1

    def to_dict(self) -> dict[str, Any]:
        """The status to apply: everything but ``forceUpdate``, bounded in size."""
        status = super().to_dict()
        status.pop("forceUpdate", None)
        if "history" in status:
            status["history"] = status["history"][:MAX_HISTORY]
        if "gates" in status:
            status["gates"] = status["gates"][:MAX_GATES]
        return status
