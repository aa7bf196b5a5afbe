"""How a poll changes the status, and whether by the status no poll is due after a restart.

Bundles of the original werf operator are taken over: its deploy is recorded, without a Job. The
original compared config digests, which for a SemVer tag don't change with the templates. So an
equal digest proves that it deployed this version, not that it deployed this exact content: such a
baseline isn't `verified` (docs/adoption.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from copyrator.api import structs
from copyrator.api.bundle_spec import BundleSpec, TargetCluster
from copyrator.api.bundle_status import (
    ENOUGH_FAILED_POLLS,
    REGISTRY_FAULTS,
    Available,
    BundleStatus,
    Deployed,
    DeployRef,
    FailedPolls,
    LastError,
    Outcome,
    VersionRef,
)
from copyrator.api.conditions import ConditionType, ready_reason
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.text import format_time, parse_time
from copyrator.bundles.rhythm import interval_of, unready_at


def config_digest(manifest: Mapping[str, Any]) -> str | None:
    """The digest by which the original identified a manifest; an index has none."""
    config = manifest.get("config")
    digest = config.get("digest") if isinstance(config, Mapping) else None
    return digest if isinstance(digest, str) else None


@dataclass(frozen=True, slots=True)
class TakeoverBaseline:
    """The present state of the tag that the original deployed, in the registry."""

    digest: str | None
    """Manifest digest; None where the tag was deleted or has another manifest."""
    values_hash: str | None
    """Of the present values, as ``spec_hash`` is of the present spec: former ones aren't known."""
    spec_hash: str
    generation: int


def take_over(
    status: BundleStatus, baseline: TakeoverBaseline, spec: BundleSpec, now: datetime
) -> BundleStatus:
    """The status with the original's deploy in our fields.

    Without a digest only its version is known: that prevents downgrades, but a deploy is made.
    """
    version = status.deploy.version
    where = Deployed(version=version, namespace=spec.project_namespace, verified=False)
    if baseline.digest is None:
        return structs.replace(status, deployed=where)
    deployed = structs.replace(
        where,
        digest=baseline.digest,
        reference=spec.reference,
        values_hash=baseline.values_hash,
        spec_hash=baseline.spec_hash,
        generation=baseline.generation,
        time=format_time(now),
    )
    target = VersionRef(digest=baseline.digest, version=version)
    deploy = DeployRef(digest=baseline.digest, version=version)
    return structs.replace(status, deployed=deployed, deploy=deploy, target=target)


@dataclass(frozen=True, slots=True)
class DesiredVersion:
    """The inputs of a resolution whose change requires a poll at once, not at its regular time."""

    generation: int
    spec_hash: str
    values_hash: str | None
    request: str
    """Token of a request that hasn't been handled yet."""
    login: str
    """Fingerprint of the credential, in memory only."""
    read: str = ""
    """What features have read of the objects that the spec names."""
    cluster: TargetCluster | None = None
    """The cluster that spec.kubeConfig stands for."""
    further: tuple[object, ...] = ()
    """What features choose by; only compared."""


def is_answered(status: BundleStatus, desired: DesiredVersion) -> bool:
    """After a restart: whether the desired version has been resolved and handled.

    Then the Bundle waits for its regular time like any other, so that a restart doesn't poll
    everything at once.
    """
    if status.failed_polls.count:
        return False
    if ready_reason(status.conditions) == BundleReason.DEPLOYED and not status.available.version:
        return False  # deployed by its digest, as the registry had no match: there may be one now
    settled = {
        BundleReason.DEPLOYED,
        BundleReason.QUARANTINED,
        BundleReason.WOULD_DOWNGRADE,
        BundleReason.NO_MATCHING_VERSION,
        status.attempted.reason,
    }
    return (
        ready_reason(status.conditions) in settled
        and not desired.request
        and is_resolved(status, desired)
    )


def is_resolved(status: BundleStatus, desired: DesiredVersion) -> bool:
    """Whether, by the status, the desired version was resolved before, whatever was requested."""
    last = status.attempted if status.attempted.attempt else status.deployed
    pin, pending = status.pin, status.condition(ConditionType.UPDATE_PENDING)
    if pin.digest is None:
        is_pin_handled = pending.reason != BundleReason.PINNED
    else:
        is_pin_handled = last.digest == pin.digest
    return (
        is_pin_handled
        and status.observed_generation == desired.generation
        and last.values_hash == desired.values_hash
        and last.spec_hash == desired.spec_hash
        and last.server == (desired.cluster.server if desired.cluster else None)
    )


_OTHER_CAUSES: Final = (
    BundleReason.POLLING,
    BundleReason.DEPLOYING,
    BundleReason.AUTOUPDATE_DISABLED,
)
"""Reasons of Ready that no answer of a registry gave."""


def is_lenient(
    status: BundleStatus, desired: DesiredVersion, handled: DesiredVersion | None
) -> bool:
    """Whether a poll that failed for a passing reason leaves Ready as it is, for some time.

    Not a first poll, nor one that is made for an edit of the spec, the values, the credentials or
    what has to be signed by whom: Ready says nothing about those yet.

    Args:
        status: the Bundle's, before the poll.
        desired: what was polled for.
        handled: what was handled last; None after a restart, where the status tells it.
    """
    if status.is_unready or status.ready_reason in ("", *_OTHER_CAUSES):
        return False
    if handled is None:
        return is_resolved(status, desired)
    is_seen = status.observed_generation == desired.generation
    return is_seen and replace(handled, request="") == replace(desired, request="")


def count_failure(status: BundleStatus, now: datetime) -> BundleStatus:
    """The status with one more failed poll; a clock that was set back begins a new row."""
    known = status.failed_polls
    since = parse_time(known.since)
    if not known.count or since is None or since > now:
        return structs.replace(status, failed_polls=FailedPolls(count=1, since=format_time(now)))
    count = min(known.count + 1, ENOUGH_FAILED_POLLS)
    return structs.replace(status, failed_polls=structs.replace(known, count=count))


def kept_until(status: BundleStatus, spec: BundleSpec) -> datetime | None:
    """Until when Ready is kept although polls fail; None where none has failed, or it is False."""
    failed = status.failed_polls
    since = parse_time(failed.since)
    if not failed.count or since is None or status.is_unready:
        return None
    try:
        return unready_at(since, failed.count, interval_of(spec))
    except OverflowError:  # it was forged
        return None


def record_available(
    status: BundleStatus, available: Available, next_poll: datetime, now: datetime
) -> BundleStatus:
    """The status with the registry's resolution; an unchanged one keeps its time.

    ``available`` has a tag and its digest, or neither where there is nothing for the Bundle: then
    the target stays. Its time is ignored.
    """
    known, ref = status.available, VersionRef(digest=available.digest, version=available.version)
    same = (available.version, available.digest) == (known.version, known.digest)
    time = known.time if same and known.time else format_time(now)
    return structs.replace(
        end_failures(status),
        ready=1,
        available=structs.replace(available, time=time),
        target=ref if available.digest else status.target,
        next_poll_at=format_time(next_poll),
    )


def end_failures(status: BundleStatus) -> BundleStatus:
    """The status without failed polls, and without the error of the last one."""
    if not status.failed_polls.count:
        return status
    is_poll = status.last_error.reason in REGISTRY_FAULTS
    error = LastError() if is_poll else status.last_error
    return structs.replace(status, failed_polls=FailedPolls(), last_error=error)


def record_error(status: BundleStatus, reason: str, message: str, now: datetime) -> BundleStatus:
    """The status with an error; an equal one keeps its first time: no change at every poll."""
    known = status.last_error
    if (known.reason, known.message) == (reason, message):
        return status
    error = LastError(reason=reason, message=message, time=format_time(now))
    return structs.replace(status, last_error=error)


def retry_at(status: BundleStatus) -> datetime | None:
    """When the failed attempt is retried; None where none failed or none follows."""
    failed = status.attempted.outcome in (Outcome.FAILED, Outcome.INTERRUPTED)
    failed = failed and not status.attempted.is_broken_off
    return parse_time(status.attempted.next_retry_at) if failed else None


def kept_ready(status: BundleStatus) -> int:
    """The value of ``ready`` where the credentials weren't checked."""
    return 1 if status.ready is None else status.ready
