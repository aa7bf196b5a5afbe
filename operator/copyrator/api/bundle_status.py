"""The status of a Bundle as typed records: everything that must survive a restart.

``ready``, ``forceUpdate``, ``target`` and ``deploy`` are the original werf operator's fields and
stay readable (docs/adoption.md). ``forceUpdate`` is set by the user: it is read here and never
written by ``to_dict``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from copyrator.api.conditions import (
    NOT_SUSPENDED,
    Condition,
    ConditionStatus,
    ConditionType,
    Suspension,
    find_condition,
)
from copyrator.api.reasons import Reason
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.schema import (
    REQUIRED,
    Composed,
    Int32,
    Packed,
    Record,
    Schema,
    Takes,
    Time,
    items,
)
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


class Cause(StrEnum):
    """What an attempt is made for."""

    NEW_VERSION = "NewVersion"
    """The registry has another version of what the spec names, or nothing is deployed yet."""
    VALUES_CHANGED = "ValuesChanged"
    SPEC_CHANGED = "SpecChanged"
    REQUESTED = "Requested"
    """By an annotation, or by forceUpdate."""
    ROLLBACK = "Rollback"
    """A user pinned this version."""
    CORRECTION = "Correction"
    """Of drift."""
    RETRY = "Retry"
    """The last attempt failed, or was interrupted."""
    PROMOTION = "Promotion"
    """A new version that has proved itself elsewhere."""


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
    """Manifest digest."""
    version: str | None = None
    """Tag."""


class DeployRef(VersionRef, frozen=True):
    """The original's pair of what is deployed, and what `kubectl get` prints of it."""

    short_digest: str | None = None
    """Its first 12 hexadecimal digits."""

    def shortened(self) -> DeployRef:
        """With the short digest that belongs to the digest."""
        digest = None if self.digest is None else self.digest.removeprefix("sha256:")[:SHORT_DIGEST]
        return self if digest == self.short_digest else replace(self, short_digest=digest)


MAX_MISSING: Final = 20
"""Entries with missing permissions that a status lists."""


class MissingPermission(Record, frozen=True):
    """What a Job's service account may not do with one resource in one namespace."""

    verbs: tuple[str, ...] = ()
    """Verbs, such as create."""
    resource: str | None = None
    """As in RBAC, such as pods/log or deployments.apps."""
    namespace: str | None = None
    """Absent for objects in no namespace, or in all namespaces."""


class Rejected(Record, frozen=True):
    """A tag that was not chosen."""

    version: str | None = None
    """The tag."""
    reason: str | None = None
    """OutOfRange, PreRelease, Filtered, Quarantined, LowerThanDeployed, NotAVersion (the highest
    tag that only looks like a version), or the reason of the gate that holds it back."""
    message: str | None = None
    """Of NotAVersion: the rule of Semantic Versioning that the tag breaks, and what to do."""


class Available(Record, frozen=True):
    """What the registry has for ``spec.version``, as of ``time``."""

    version: str | None = None
    """The selected tag."""
    digest: str | None = None
    """Its manifest digest."""
    time: Time | None = None
    """When it was first seen."""
    rejected: tuple[Rejected, ...] = ()
    """The highest tags that a wildcard or range rejected, at most 5, with the reason."""


class Deployed(Record, frozen=True):
    """The last successful deploy."""

    version: str | None = None
    """Tag."""
    digest: str | None = None
    """Manifest digest."""
    reference: str | None = None
    """Registry and repository that it came from."""
    revision: int | None = None
    """Revision of the Helm release."""
    namespace: str | None = None
    """Namespace of the release."""
    server: str | None = None
    """API server of the release; absent where that is the operator's own cluster."""
    values_hash: str | None = None
    """Hash of the values that were used."""
    spec_hash: str | None = None
    """Hash of the spec's fields that affect the release."""
    generation: int | None = None
    """Generation of the Bundle that was deployed."""
    verified: bool | None = None
    """true when werf printed this digest itself; false for what was taken over from the original
    werf operator."""
    plan_job: str | None = None
    """The Job that made its plan. The values of the next plan are compared with its."""
    plan_seal: str | None = None
    """The hash of that plan's operations."""
    time: Time | None = None
    """When the deploy finished."""


class PassedOver(Record, frozen=True):
    """A gate that a forced deploy skipped, and the reason why it hadn't passed."""

    name: str | None = None
    """The gate."""
    reason: str | None = None
    """The reason of its objection in CamelCase."""
    environments: tuple[str, ...] = ()
    """Environments of other clusters without whose evidence it is deployed."""

    @property
    def text(self) -> str:
        """``promotion of staging``."""
        return f"{self.name}{' of ' if self.environments else ''}{', '.join(self.environments)}"


class Attempted(Record, frozen=True):
    """The newest attempt. Written before its Job is created, so no attempt runs twice."""

    version: str | None = None
    """Tag."""
    digest: str | None = None
    """Manifest digest."""
    reference: str | None = None
    """Registry and repository that it came from."""
    namespace: str | None = None
    """Namespace of the release."""
    server: str | None = None
    """API server of the release; absent where that is the operator's own cluster."""
    job: str | None = None
    """Name of the Job in the Bundle's namespace."""
    attempt: int | None = None
    """Number of the attempt; never used twice in a Bundle's life."""
    failures: int | None = None
    """Number of attempts at this digest that werf reported as failed."""
    interruptions: int | None = None
    """Number of attempts at this digest that infrastructure errors interrupted; they don't count as
    failures of the digest."""
    cause: str | None = None
    """NewVersion, ValuesChanged, SpecChanged, Requested, Rollback, Correction, Retry or Promotion:
    what it is made for."""
    by: str | None = None
    """Who approved its plan, as the chart's approval policy proves. Else, such as "field manager
    kubectl-edit", what last wrote the annotation that it is made for, or the spec: a client chooses
    that name, and of one that only removed fields the API server keeps none. Absent where neither
    is known."""
    plan: str | None = None
    """ID of the plan that was approved, where there was one."""
    plan_job: str | None = None
    """Name of the Job that made that plan."""
    approved_by: str | None = None
    """Who approved the plan."""
    correction: bool | None = None
    """True where it deploys again what is deployed, because it had drifted."""
    guarded: bool | None = None
    """True where the API server refuses all that its Job may not write by its plan."""
    passed_over: tuple[PassedOver, ...] = ()
    """The gates that a forced deploy passed over."""
    outcome: str | None = None
    """Running, Succeeded, Failed or Interrupted."""
    reason: str | None = None
    """Reason of the failure in CamelCase."""
    message: str | None = None
    """Human-readable message, what went wrong."""
    rollback: str | None = None
    """After a failed deploy with spec.autoRollback: Succeeded (the last successful version runs
    again, as the revision in deployed), Failed (parts of the new version may be in place), or
    Unknown (the Secrets of the release can't be listed)."""
    missing: tuple[MissingPermission, ...] = ()
    """Missing permissions of the service account that made it, or the last uninstall, fail, as
    reported by werf."""
    generation: int | None = None
    """Generation of the Bundle that is deployed."""
    values_hash: str | None = None
    """Hash of the values that are used."""
    spec_hash: str | None = None
    """Hash of the spec's fields that affect the release."""
    selection: str | None = None
    """Hash of version, tagFilter, prerelease, registry and repo of the spec."""
    request: str | None = None
    """The value of the annotation that requested it, if any."""
    started_at: Time | None = None
    """When it began."""
    finished_at: Time | None = None
    """When it ended."""
    next_retry_at: Time | None = None
    """When it is retried."""

    def deployed(self, *, revision: int | None, verified: bool) -> Deployed:
        """What is deployed once it has succeeded."""
        return Deployed(
            version=self.version,
            digest=self.digest,
            reference=self.reference,
            revision=revision,
            namespace=self.namespace,
            server=self.server,
            values_hash=self.values_hash,
            spec_hash=self.spec_hash,
            generation=self.generation,
            verified=verified,
            time=self.finished_at,
        )

    @property
    def is_running(self) -> bool:
        """Whether it has no outcome yet."""
        return self.outcome == Outcome.RUNNING

    @property
    def is_broken_off(self) -> bool:
        """Whether it was a correction that was interrupted.

        It isn't retried as a deploy is: another check finds what is left to correct.
        """
        return bool(self.correction) and self.outcome == Outcome.INTERRUPTED


class GateStatus(Record, frozen=True):
    """The verdict of one gate on the version that would be deployed next."""

    name: Annotated[str, REQUIRED] | None = None
    """Name of the gate."""
    state: str | None = None
    """Passed, Waiting or Refused."""
    reason: str | None = None
    """Why it doesn't pass, in CamelCase."""
    message: str | None = None
    """Why it doesn't pass, or by what it passes, in words."""
    until: Time | None = None
    """When it passes without a change, if it does."""


class HistoryEntry(Record, frozen=True):
    """A finished attempt."""

    version: str | None = None
    """Tag."""
    digest: str | None = None
    """Manifest digest."""
    reference: str | None = None
    """Registry and repository that it was deployed from."""
    revision: int | None = None
    """Revision of the Helm release."""
    outcome: str | None = None
    """Succeeded, Failed or Interrupted."""
    reason: str | None = None
    """Reason of the failure in CamelCase."""
    job: str | None = None
    """Name of the Job."""
    cause: str | None = None
    """What it was made for: as in attempted, which has by and approvedBy, too."""
    by: str | None = None
    """Who approved it, or the field manager that wrote what it was made for."""
    plan: str | None = None
    """ID of the plan that was approved, where there was one."""
    approved_by: str | None = None
    """Who approved the plan."""
    correction: bool | None = None
    """True for a correction of drift."""
    passed_over: tuple[PassedOver, ...] = ()
    """The gates that a forced deploy passed over."""
    time: Time | None = None
    """When it ended."""

    @classmethod
    def of(cls, attempted: Attempted, revision: int | None) -> Self:
        """The entry of an attempt that has ended."""
        return cls(
            version=attempted.version,
            digest=attempted.digest,
            reference=attempted.reference,
            revision=revision,
            outcome=attempted.outcome,
            reason=attempted.reason,
            job=attempted.job,
            cause=attempted.cause,
            by=attempted.by,
            plan=attempted.plan,
            approved_by=attempted.approved_by,
            correction=attempted.correction,
            passed_over=attempted.passed_over,
            time=attempted.finished_at,
        )


def cause_of(entry: HistoryEntry | Attempted) -> str:
    """The cause; of corrections older than the field, too. Empty where it isn't on record."""
    return entry.cause or (Cause.CORRECTION if entry.correction else "")


def describe_by(entry: HistoryEntry | Attempted) -> str:
    """``approved by ann``, ``by field manager kubectl-edit``; empty where it isn't known."""
    by = entry.by or (None if entry.cause else entry.approved_by)
    approved = "approved " if by == entry.approved_by else ""
    return f"{approved}by {by}" if by else ""


def describe_cause(entry: HistoryEntry | Attempted) -> str:
    """``SpecChanged, by field manager kubectl-edit``."""
    return ", ".join(filter(None, (cause_of(entry), describe_by(entry))))


class LastError(Record, frozen=True):
    """The newest error of the registry or of a deploy, until a success clears it."""

    reason: str | None = None
    """Reason of the error in CamelCase."""
    message: str | None = None
    """Human-readable message, what failed and how to fix it."""
    log_tail: str | None = None
    """The end of the failed Job's log."""
    time: Time | None = None
    """When it happened."""


class FailedPolls(Record, frozen=True):
    """The polls that failed in a row, up to the last one; empty where that succeeded."""

    count: Int32 | None = None
    """How many, at most 3 are counted."""
    since: Time | None = None
    """When the first of them failed."""


@dataclass(frozen=True, slots=True)
class BundleCondition:
    """A type of conditions that Bundles have."""

    name: str
    place: int
    """Of two in a status the lower one is first; it stays, so that no status is written anew."""
    meaning: str
    """What it tells, for the CRD."""
    reasons: type[Reason] | None = None
    """Those that only it has."""
    withdraws: tuple[ConditionStatus, str] | None = None
    """With this status what is deployed is no evidence for other Bundles, with the cause, which may
    name the ``{version}`` of the attempt."""


ENGINE_CONDITIONS: Final = (
    BundleCondition(ConditionType.READY, 0, "the desired version is deployed"),
    BundleCondition(ConditionType.RECONCILING, 1, "in progress"),
    BundleCondition(ConditionType.STALLED, 2, "not retried until an object changes"),
    BundleCondition(ConditionType.UPDATE_PENDING, 3, "a version waits for a gate"),
    BundleCondition(ConditionType.SETTINGS_WITHHELD, 9, "Jobs don't get all settings"),
    BundleCondition(
        ConditionType.CERTIFICATE_EXPIRING, 10, "the credential of spec.kubeConfig ends soon"
    ),
)


def _keyed(name: str) -> Schema:
    """A list that the API server merges by a field; the operator bounds it itself."""
    return {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": [name],
    }


_CONDITIONS: Final = Takes(_keyed("type"), like=Condition)
_GATES: Final = Takes(_keyed("name"))
_NO_PAST: Final[Packed[HistoryEntry]] = Packed()
_NO_FAILED_POLLS: Final = FailedPolls()


class Pin(Record, frozen=True):
    """What is deployed instead of what the registry has for the spec: a feature's part of it."""

    requested: str | None = None
    """The newest value of the annotation that the operator has seen; absent while the annotation
    is."""
    version: str | None = None
    """The tag of the pinned version, the only one that is deployed; absent where nothing is
    pinned."""
    digest: str | None = None
    """Its manifest digest."""

    @property
    def refusal(self) -> str:
        """Why something else isn't pinned, as a sentence; empty where nothing else is asked for."""
        return ""


_NO_PIN: Final = Pin()


class ClusterStatus(Record, frozen=True):
    """The cluster that spec.kubeConfig names."""

    server: str | None = None
    """API server that spec.kubeConfig names, as its Secret was read last."""


class BundleStatus(Composed, frozen=True):
    """The whole status: what every Bundle has, and the parts of the features and the engine."""

    ready: Int32 | None = None
    """1 when the spec is valid and its credentials are usable. It doesn't mean deployed: the
    condition Ready does."""
    force_update: Int32 | None = None
    """Set it to 1 (kubectl patch --subresource=status) to force a deploy; the operator resets it.
    The annotation operator.werf.dev/requestedAt does the same."""
    target: VersionRef = VersionRef()
    """What version resolves to."""
    deploy: DeployRef = DeployRef()
    """What is deployed."""
    conditions: Annotated[tuple[Condition, ...], _CONDITIONS] = ()
    """Ready, Reconciling and Stalled, as defined by kstatus; UpdatePending for Bundles with gates;
    Drifted where spec.drift asks for it; Healthy with spec.health; SettingsWithheld where the Jobs
    of a gated Bundle don't get all of its settings; AsApproved after a deploy that was planned and
    approved; CertificateExpiring before the credential of spec.kubeConfig ends."""
    observed_generation: int | None = None
    """Generation of the Bundle that this status describes."""
    available: Available = Available()
    """The tag in the registry that spec.version selects."""
    deployed: Deployed = Deployed()
    """The last successful deploy."""
    attempted: Attempted = Attempted()
    """The newest attempt to deploy."""
    gates: Annotated[tuple[GateStatus, ...], _GATES] = ()
    """The gates that the spec or the operator's settings ask for, in the order in which they are
    asked, and what they say of the version that would be deployed next."""
    history: Packed[HistoryEntry] = _NO_PAST
    """The last 10 finished attempts, newest first. The last successful deploys of three digests
    stay among them."""
    next_poll_at: Time | None = None
    """When the registry is polled next. A time in the past is repeated every interval: a poll that
    finds nothing new isn't written."""
    last_error: LastError = LastError()
    """The newest error of the registry or of a deploy, until a success clears it."""
    failed_polls: FailedPolls = _NO_FAILED_POLLS
    """The polls that failed in a row, up to the last one; absent where that succeeded. lastError
    has its error. Ready becomes False with the third or after two intervals, whichever is later, at
    the latest after 30 minutes; at once where the registry denies access or has no such tag, or the
    present spec, values or credentials haven't been polled for before."""
    suspension: Suspension = NOT_SUSPENDED
    """Ready as it was when the Bundle was suspended, by spec.suspend or the annotation
    operator.werf.dev/disable-autoupdate: it keeps its status, and its message has this reason and
    message. Absent otherwise."""
    last_handled_request: str | None = None
    """The value of the annotation operator.werf.dev/requestedAt that was handled last: the registry
    has responded, and the status has the outcome."""
    last_handled_force: str | None = None
    """The value of the annotation operator.werf.dev/forceAt that was handled last."""
    last_failed_request: str | None = None
    """A value of the annotation operator.werf.dev/requestedAt that can't be handled yet; the
    conditions have the cause. It is removed once the request is handled."""
    last_failed_force: str | None = None
    """The same for the annotation operator.werf.dev/forceAt."""

    @property
    def pin(self) -> Pin:
        """What is deployed instead of what the registry has for the spec; empty for most."""
        return next((one for one in self.parts if isinstance(one, Pin)), _NO_PIN)

    @property
    def past(self) -> tuple[HistoryEntry, ...]:
        """The attempts that have ended, newest first."""
        return self.history.unpack(HistoryEntry)

    def condition(self, kind: str) -> Condition:
        """The condition of a type; an empty one where there is none."""
        return find_condition(self.conditions, kind)

    @property
    def ready_reason(self) -> str:
        """The reason of the Ready condition; empty where there is none."""
        return self.condition(ConditionType.READY).reason or ""

    @property
    def is_unready(self) -> bool:
        """Whether Ready is False."""
        return self.condition(ConditionType.READY).is_false

    @property
    def open_gates(self) -> tuple[str, ...]:
        """The gates that keep a version from being deployed."""
        return tuple(one.name or "" for one in self.gates if one.state != GateState.PASSED)

    @property
    def has_deployed(self) -> bool:
        """Something was deployed, by this operator or the original."""
        return bool(self.deployed.digest or self.deploy.digest)

    @property
    def is_inherited(self) -> bool:
        """Whether the original deployed something that our fields don't record yet."""
        known = bool(self.deploy.version and self.deploy.digest)
        return known and self.deployed == Deployed() and self.attempted == Attempted()

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


MAX_CANDIDATES: Final = 10
"""Versions that aren't deployed yet, and that a status lists."""


class CandidateStatus(Record, frozen=True):
    """A version that isn't deployed yet, and when this operator saw it first."""

    version: str | None = None
    """Tag."""
    digest: str | None = None
    """Manifest digest."""
    first_seen: str | None = None
    """When it was seen first."""


class AgeStatus(Record, frozen=True):
    """The versions whose age is known."""

    candidates: Annotated[tuple[CandidateStatus, ...], items(MAX_CANDIDATES)] = ()
    """With spec.minAge or spec.promoteFrom: versions that aren't deployed yet, and when the
    operator saw them first."""
