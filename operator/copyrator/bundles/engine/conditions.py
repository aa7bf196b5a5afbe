"""The conditions of a Bundle; messages name the object and the remedy.

Messages contain nothing that changes with time alone (no "3 s left"): an equal state gives an equal
status, which isn't written again.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from copyrator.api.bundle_status import BundleStatus, GateState, Outcome, Rollback, describe_cause
from copyrator.api.conditions import (
    ConditionStatus,
    FurtherCondition,
    Health,
    NewConditions,
    ReadyCondition,
    build_conditions,
)
from copyrator.api.reasons import AnyReason
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.structs import replace
from copyrator.api.text import times
from copyrator.bundles.engine.deciding import NOT_RETRIED, DeployReason, has_succeeded
from copyrator.bundles.engine.gate import Held
from copyrator.bundles.fields import bundle_conditions, read_reason


def with_conditions(status: BundleStatus, changed: NewConditions, now: datetime) -> BundleStatus:
    """The status with some conditions replaced; None removes one."""
    order, generation = bundle_conditions(), status.observed_generation or 0
    conditions = build_conditions(status.conditions, changed, order, generation=generation, now=now)
    return replace(status, conditions=conditions)


def short(digest: str | None) -> str:
    """A digest shortened for messages: ``sha256:0123456789ab``."""
    return (digest or "")[:19]


def held(status: BundleStatus, why: Held) -> ReadyCondition:
    """Ready where a gate keeps a version, or an edit, from being deployed."""
    objection, candidate = why.objection, why.candidate
    what, text = f"{candidate.version} ({short(candidate.digest)})", _open(objection.message)
    text = text if text.startswith(what) else f"{what}: {text}"
    health = Health.RETRYING if why.is_refused else Health.PROGRESSING
    health = Health.STALLED if why.is_final else health
    return ReadyCondition(health, objection.reason, text + _kept(status))


def update_pending(status: BundleStatus, ready: ReadyCondition | None = None) -> FurtherCondition:
    """The condition UpdatePending, by the gates and the pin in the status.

    Where nothing objects or is pinned and ``ready`` isn't Deployed, it has the reason of that.
    """
    open_ones = [one for one in status.gates if one.state != GateState.PASSED]
    pin, refused = status.pin, status.pin.refusal
    if open_ones:
        awaited = [one for one in open_ones if one.reason == BundleReason.AWAITING_APPROVAL]
        failed = [one for one in open_ones if one.state == GateState.REFUSED]
        first = (awaited or failed or open_ones)[0]  # the one for which somebody has to act
        reason, text = read_reason(first.reason or ""), f"Gate {first.name}: {first.message}"
    elif pin.digest is not None:
        reason, text = BundleReason.PINNED, pinned(status)
    elif refused:
        return FurtherCondition(ConditionStatus.FALSE, BundleReason.PIN_REFUSED, refused)
    else:
        return _nothing_pending(status, ready)
    text += f". {refused}" if refused else ""
    return FurtherCondition(ConditionStatus.TRUE, reason, text)


def _nothing_pending(status: BundleStatus, ready: ReadyCondition | None) -> FurtherCondition:
    text = "No version waits for a gate"
    if ready is None or ready.reason == BundleReason.DEPLOYED:
        return FurtherCondition(ConditionStatus.FALSE, BundleReason.UP_TO_DATE, text)
    target, there = status.target, status.deployed
    lacks = f", {target.version} isn't" if target.digest not in (None, there.digest) else ""
    runs = f"{there.version} is deployed" if there.digest else "nothing is deployed"
    text = f"{text}; {runs}{lacks}, see the condition Ready"
    return FurtherCondition(ConditionStatus.FALSE, ready.reason, text)


def pinned(status: BundleStatus) -> str:
    """What is pinned, and what the registry has instead, as a sentence without its full stop."""
    pin, available = status.pin, status.available
    text = f"{pin.version} ({short(pin.digest)}) is pinned, so no other version is deployed"
    if available.version and available.digest != pin.digest:
        text += f"; the registry has {available.version} ({short(available.digest)})"
    return text


def deployed(status: BundleStatus, ignored_env: tuple[str, ...] = ()) -> ReadyCondition:
    """Ready where all that the spec requests is deployed."""
    there = status.deployed
    text = f"{there.version} ({short(there.digest)}) is deployed"
    text += f" as revision {there.revision}" if there.revision else ""
    if ignored_env:
        text += f"; spec.env can't set {', '.join(ignored_env)}: the operator sets them"
    return ReadyCondition(Health.READY, BundleReason.DEPLOYED, text)


def polling(reference: str, version: str) -> ReadyCondition:
    """Ready where the registry was polled and hasn't answered yet."""
    text = f"Polling the registry for {reference}:{version}"
    return ReadyCondition(Health.PROGRESSING, BundleReason.POLLING, text)


def taken_over(status: BundleStatus) -> ReadyCondition:
    """Ready where the original operator's deploy was recorded; the registry is polled next."""
    there = status.deployed
    text = f"The original operator deployed {there.version}"
    if there.digest:
        text += f"; taken over unchanged, as {short(there.digest)}, unverified"
    else:
        text += ", which the registry no longer has in that form; its content is unknown"
    return ReadyCondition(Health.PROGRESSING, BundleReason.POLLING, text)


def deploying(status: BundleStatus) -> ReadyCondition:
    """Ready where a Job is about to be created."""
    verdict, cause = running(status), describe_cause(status.attempted)
    return ReadyCondition(verdict.health, verdict.reason, f"{verdict.message}: {cause}")


def running(status: BundleStatus) -> ReadyCondition:
    """Ready where a Job runs."""
    attempted = status.attempted
    text = f"Deploying {attempted.version} ({short(attempted.digest)}) with Job {attempted.job}"
    return ReadyCondition(Health.PROGRESSING, BundleReason.DEPLOYING, text)


def queued(status: BundleStatus) -> ReadyCondition:
    """Ready where a queue lets the Job wait."""
    verdict = running(status)
    return ReadyCondition(verdict.health, verdict.reason, f"{verdict.message}, {SUSPENDED}")


SUSPENDED: Final = "which is suspended by a queue, such as Kueue: it goes on when it is resumed"
"""The end of a sentence that names a Job whose ``spec.suspend`` somebody has set."""


def blocked(status: BundleStatus, reason: AnyReason, message: str) -> ReadyCondition:
    """Ready where a Job makes no progress."""
    text = f"Job {status.attempted.job} of {status.attempted.version} is blocked: {message}"
    return ReadyCondition(Health.RETRYING, reason, text)


def will_retry(status: BundleStatus, *, after: str = "") -> ReadyCondition:
    """Ready where the last attempt failed, and is retried.

    ``after`` says what has to happen before: ``the freeze ends``.
    """
    attempted = status.attempted
    again = f"when {after}" if after else f"at {attempted.next_retry_at}"
    text = (
        f"{attempted.version} ({short(attempted.digest)}): {_open(attempted.message)}. "
        f"Next attempt {again}"
    )
    if attempted.outcome != Outcome.FAILED:
        text += "; this isn't counted as a failure of the version"
    reason = read_reason(attempted.reason or BundleReason.DEPLOY_FAILED)
    return ReadyCondition(Health.RETRYING, reason, text + _kept(status))


def ended_by_freeze(status: BundleStatus) -> ReadyCondition:
    """Ready where a freeze ended the last attempt before its pod had started."""
    attempted = status.attempted
    text = (
        f"{attempted.version} ({short(attempted.digest)}): {_open(attempted.message)}. It is "
        "deployed when the freeze ends"
    )
    return ReadyCondition(Health.PROGRESSING, BundleReason.FROZEN, text + _kept(status))


def quarantined(status: BundleStatus) -> ReadyCondition:
    """Ready where the last attempt failed and isn't retried any more."""
    attempted = status.attempted
    failed = f"failed {times(attempted.failures or 0)}"
    if attempted.reason in NOT_RETRIED:
        failed = "failed"  # it was tried once, and counts as often as the spec allows
    text = (
        f"{attempted.version} ({short(attempted.digest)}) {failed}: "
        f"{_open(attempted.message)}. It isn't retried until the tag, the spec or the "
        "values change, or the annotation operator.werf.dev/requestedAt is set"
    )
    return ReadyCondition(Health.STALLED, BundleReason.QUARANTINED, text + _kept(status))


AUTOUPDATE_DISABLED: Final = ReadyCondition(Health.PAUSED, BundleReason.AUTOUPDATE_DISABLED)
"""Ready where the annotation disables updates; the writer completes it."""


def suspended(version: str, digest: str, need: DeployReason | None) -> ReadyCondition:
    """Ready with ``spec.suspend``, where the registry is still polled; the writer completes it.

    ``need`` is why this version would be deployed; None where it wouldn't be.
    """
    edits = DeployReason.VALUES, DeployReason.SPEC, DeployReason.REQUEST
    pending = need.value if need in edits else ""
    if need in (DeployReason.FIRST, DeployReason.VERSION):
        pending = f"{version} ({short(digest)}) is available"
    return ReadyCondition(Health.PAUSED, BundleReason.SUSPENDED, pending)


def unusable(reason: AnyReason, message: str, status: BundleStatus) -> ReadyCondition:
    """Ready where an object is missing or a server refuses; it is retried."""
    return ReadyCondition(Health.RETRYING, reason, message + _kept(status))


def failing(error: str, status: BundleStatus, *, deleting: bool) -> ReadyCondition:
    """Ready where an internal error occurred at this Bundle."""
    text = (
        f"the operator failed to reconcile this Bundle ({error}) and retries with growing delays; "
        "report a bug with the operator's log"
    )
    if deleting:
        return uninstall_failed(text)
    return unusable(BundleReason.DEPLOY_FAILED, text, status)


def uninstalling(message: str) -> ReadyCondition:
    """Ready where the Bundle is being deleted and its release uninstalled."""
    return ReadyCondition(Health.PROGRESSING, BundleReason.UNINSTALLING, message)


def uninstall_failed(message: str) -> ReadyCondition:
    """Ready where the uninstall for a deletion fails; the message has the cause."""
    text = (
        f"{_open(message)}. To delete the Bundle without uninstalling, set the annotation "
        'operator.werf.dev/force-delete: "true"'
    )
    return ReadyCondition(Health.RETRYING, BundleReason.UNINSTALL_FAILED, text)


def _open(message: str | None) -> str:
    """A message without its full stop, to be followed by another sentence."""
    return (message or "").rstrip(". ")


def _kept(status: BundleStatus) -> str:
    """A sentence about what is deployed, and after a failed attempt about its rollback."""
    there = status.deployed
    if not there.digest:
        return ""
    what = f"{there.version} ({short(there.digest)})"
    if has_succeeded(status):
        return f". {what} stays deployed"
    match status.attempted.rollback:
        case Rollback.SUCCEEDED:
            return f". Rolled back: {what} runs, as revision {there.revision}"
        case Rollback.FAILED:
            return (
                f". The rollback failed too: parts of {status.attempted.version} may be in place. "
                f"The last successful deploy is {what}"
            )
        case Rollback.UNKNOWN:
            return (
                f". Whether it was rolled back to {what} isn't known: the Secrets of the release "
                f"can't be listed in {there.namespace}"
            )
    return f". The last successful deploy is {what}"
