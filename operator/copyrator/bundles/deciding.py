"""Decides whether something is deployed, and why. Pure.

Every input of a decision is in the status, the Jobs and the registry, so a restart doesn't change
the decision.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from copyrator.api.bundle_spec import BundleSpec, Retry
from copyrator.api.bundle_status import Attempted, BundleStatus, Deployed, Outcome
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import parse_time
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.gates import gate as gates
from copyrator.bundles.gates.gate import NOTHING_FOUND, Findings, GateResult, Occasion
from copyrator.bundles.requests import DeployRequest

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
        return (
            other.version == self.version
            and other.digest == self.digest
            and other.values_hash == self.values_hash
            and other.spec_hash == self.spec_hash
        )


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
