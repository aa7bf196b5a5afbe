"""What the status of a Bundle or rule says that people are told about. Pure.

A status is enough: the same one gives the same transitions, with the same IDs, in any process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from copyrator.api.bundle_status import (
    ENOUGH_FAILED_POLLS,
    REGISTRY_FAULTS,
    BundleStatus,
    Outcome,
    Rollback,
    describe_cause,
)
from copyrator.api.conditions import (
    NO_CONDITION,
    Condition,
    ConditionStatus,
    ConditionType,
    conditions_by_type,
)
from copyrator.api.reasons import BY_RESOLUTION, Severity
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.reasons.notices import About
from copyrator.api.reasons.rules import CertificateReason, RuleReason
from copyrator.api.rule_status import RuleStatus
from copyrator.api.text import truncate
from copyrator.bundles.words import Told, Words
from copyrator.notify.config import SubjectKind

FAULTS: Final = frozenset(one for one in About if one.ends is BY_RESOLUTION)


@dataclass(frozen=True, slots=True)
class ObjectIdentity:
    """An object."""

    kind: SubjectKind
    namespace: str
    name: str
    uid: str

    @property
    def place(self) -> tuple[SubjectKind, str, str]:
        """Its key; another object may have it later."""
        return self.kind, self.namespace, self.name


@dataclass(frozen=True, slots=True)
class Transition:
    """One thing to tell about an object."""

    subject: ObjectIdentity
    about: About
    what: str
    """The rest of a sentence that begins with the object: ``waits for approval of 1.9.0``."""
    at: str
    """Since when, RFC 3339; empty where the status doesn't say."""
    key: str
    """What distinguishes it from others of the same object and about."""
    why: str = ""
    """Others' text, such as a registry's: not cleaned yet."""
    command: str = ""
    """What to do next, as a command."""
    resolved: bool = False
    """The fault has ended; then ``what`` says how, or is empty."""
    id: str = field(init=False, compare=False)
    """12 hexadecimal digits."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", _hash(self.subject.uid, self.about, self.key))

    @property
    def severity(self) -> Severity:
        """By what it is about."""
        return Severity.SUCCESS if self.resolved else self.about.severity


def slot_of(subject: ObjectIdentity, about: About) -> str:
    """Where the mark of an object's newest transition of a kind is; 12 hexadecimal digits."""
    return _hash(subject.kind, subject.uid, about)


def _hash(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode(errors="replace"), digest_size=6).hexdigest()


@dataclass(frozen=True, slots=True)
class ObjectState:
    """What holds for an object."""

    subject: ObjectIdentity
    holding: tuple[Transition, ...] = ()
    unknown: frozenset[About] = frozenset()
    """Faults of which it isn't known now whether they hold."""
    is_deleted: bool = False
    """It is gone, and its faults with it."""

    @property
    def resolved(self) -> frozenset[About]:
        """Faults that don't hold."""
        return FAULTS - self.unknown - {one.about for one in self.holding}


_MAX_TEXT: Final = 1000
_MAX_TIME: Final = 40


def _bounded(one: Transition) -> Transition:
    """The same of at most some 3 KB: it may wait for hours, and its time is stored in marks."""
    if max(len(one.what), len(one.why), len(one.key), len(one.command)) > _MAX_TEXT:
        what, why, key = truncate(one.what, _MAX_TEXT), truncate(one.why, _MAX_TEXT), one.key
        command = one.command if len(one.command) <= _MAX_TEXT else ""
        one = replace(one, what=what, why=why, key=_hash(key), command=command)
    return one if len(one.at) <= _MAX_TIME else replace(one, at=one.at[:_MAX_TIME])


# Bundles -----------------------------------------------------------------------------------------

_OF_DEPLOYS: Final = frozenset({BundleReason.DEPLOY_FAILED, BundleReason.QUARANTINED})
"""Reasons of Ready that another transition tells."""


def bundle_state(
    subject: ObjectIdentity,
    status: BundleStatus,
    words: Sequence[Words],
    *,
    deleting: bool = False,
) -> ObjectState:
    """What holds for a Bundle; while it is deleted only whether its release can't be.

    ``words``: what features say of it.
    """
    told = Told(subject.namespace, subject.name, status)
    if deleting:
        stuck = status.ready_reason == BundleReason.UNINSTALL_FAILED
        last = [_not_ready(subject, status.condition(ConditionType.READY), told.why)]
        return ObjectState(subject, tuple(map(_bounded, last if stuck else ())), FAULTS)
    notices = sorted(
        (notice for one in words for notice in one.notices(told)),
        key=lambda notice: notice.rank,
    )
    holding = (
        *_deploy(subject, status, words),
        *(Transition(subject, *notice[1:]) for notice in notices),
        *_further(subject, status, words, told.why),
    )
    unknown = {about for one in words for about in one.unknown(status)}
    if status.attempted.outcome != Outcome.SUCCEEDED:
        unknown |= {About.DEPLOY_FAILED, About.QUARANTINED}
    if status.failed_polls.count:
        unknown.add(About.SOURCE_UNREACHABLE)
    if not status.condition(ConditionType.READY).is_true:
        unknown.add(About.NOT_READY)
    return ObjectState(subject, tuple(map(_bounded, holding)), frozenset(unknown))


def _deploy(
    subject: ObjectIdentity, status: BundleStatus, words: Sequence[Words]
) -> Iterator[Transition]:
    attempted, version = status.attempted, status.attempted.version or "a version"
    at, key = attempted.finished_at or "", str(attempted.attempt or attempted.finished_at)
    where = f"-n {subject.namespace} {subject.name}"
    if attempted.outcome == Outcome.SUCCEEDED:
        revision = f" (revision {status.deployed.revision})" if status.deployed.revision else ""
        cause = f": {found}" if (found := describe_cause(attempted)) else ""
        what = f"runs {version}{revision}{cause}"
        at = at or status.deployed.time or ""
        yield Transition(
            subject, About.DEPLOYED, what, at, key, command=f"copyrator describe bundle {where}"
        )
    if attempted.outcome != Outcome.FAILED:
        return
    why = (attempted.message or "").strip().partition("\n")[0]  # never more of a log
    logs = f"copyrator logs bundle {where}"
    what = f"couldn't be deployed as {version}"
    if attempted.next_retry_at:
        what += f"; the next attempt is at {attempted.next_retry_at}"
    if not any(attempted.reason in one.tells_failures for one in words):
        yield Transition(subject, About.DEPLOY_FAILED, what, at, key, why, logs)
    if attempted.rollback == Rollback.SUCCEEDED:
        back = f"was rolled back to {status.deployed.version or 'the last good version'}"
        what = f"{back}, as {version} couldn't be deployed"
        yield Transition(subject, About.ROLLED_BACK, what, at, key, why, logs)
    if status.ready_reason == BundleReason.QUARANTINED or not attempted.next_retry_at:
        what = f"isn't deployed as {version} any more, because that failed too often"
        retry = f"copyrator reconcile bundle {where} --force"
        yield Transition(subject, About.QUARANTINED, what, at, key, why, retry)


def _further(
    subject: ObjectIdentity, status: BundleStatus, words: Sequence[Words], command: str
) -> Iterator[Transition]:
    ready = status.condition(ConditionType.READY)
    told = {*_OF_DEPLOYS, *(reason for one in words for reason in one.tells_ready)}
    often = (status.failed_polls.count or 0) >= ENOUGH_FAILED_POLLS
    if often or (status.is_unready and status.ready_reason in REGISTRY_FAULTS):
        since = status.failed_polls.since or _since(ready)
        what = "can't read its registry"
        why = status.last_error.message or _message(ready)
        yield Transition(subject, About.SOURCE_UNREACHABLE, what, since, since, why, command)
    elif ready.is_false and ready.reason not in told:
        yield _not_ready(subject, ready, command)


# Rules -------------------------------------------------------------------------------------------

_SOURCES: Final = frozenset({RuleReason.SOURCE_NOT_FOUND, RuleReason.SOURCE_UNREACHABLE})


def rule_state(subject: ObjectIdentity, status: RuleStatus) -> ObjectState:
    """What holds for a rule."""
    conditions = conditions_by_type(status.conditions)
    ready = conditions.get(ConditionType.READY, NO_CONDITION)
    ends = conditions.get(ConditionType.CERTIFICATE_EXPIRING, NO_CONDITION)
    holding, unknown = list(_of_rule(subject, status, ready, ends)), set[About]()
    if not ready.is_true:
        unknown |= {About.SOURCE_UNREACHABLE, About.NOT_READY, About.CONFLICT_PERSISTS}
    rolling = ready.reason in (RuleReason.ROLLING_OUT, RuleReason.ROLLOUT_STOPPED)
    if not rolling and not ready.is_true:
        unknown.add(About.ROLLOUT_STOPPED)
    if not conditions or ends.status == ConditionStatus.UNKNOWN:
        unknown.add(About.CERTIFICATE_EXPIRING)
    return ObjectState(subject, tuple(map(_bounded, holding)), frozenset(unknown))


def _of_rule(
    subject: ObjectIdentity, status: RuleStatus, ready: Condition, ends: Condition
) -> Iterator[Transition]:
    where = f"-n {subject.namespace} {subject.name}"
    shows, why = f"copyrator describe rule {where}", ""
    if ends.is_true:
        since = _since(ends)
        key = f"{since} {ends.reason}"
        what = "copies a certificate that ends soon"
        if ends.reason == CertificateReason.EXPIRED:
            what = "copies a certificate that has ended"
        message = _message(ends)
        yield Transition(subject, About.CERTIFICATE_EXPIRING, what, since, key, message, shows)
    reason, since, why = ready.reason, _since(ready), _message(ready)
    if not ready.is_false:
        return
    step = status.rollout.step if status.rollout else ""
    if reason == RuleReason.ROLLOUT_STOPPED:
        what = f"stopped its rollout at step {step}"
        resume = f"copyrator rollout resume rule {subject.namespace}/{subject.name}"
        key = f"{since} {step}"
        yield Transition(subject, About.ROLLOUT_STOPPED, what, since, key, why, resume)
    elif reason == RuleReason.CONFLICT_PERSISTS:
        what = "has copies that another client changes back each time"
        yield Transition(subject, About.CONFLICT_PERSISTS, what, since, since, why, shows)
    elif reason in _SOURCES:
        what = "can't read its source"
        yield Transition(subject, About.SOURCE_UNREACHABLE, what, since, since, why, shows)
    else:
        yield _not_ready(subject, ready, shows)


def _not_ready(subject: ObjectIdentity, ready: Condition, command: str) -> Transition:
    since, reason = _since(ready), ready.reason or ""
    what = f"isn't ready: {reason}"
    return Transition(
        subject, About.NOT_READY, what, since, f"{since} {reason}", _message(ready), command
    )


def _since(condition: Condition) -> str:
    return condition.last_transition_time or ""


def _message(condition: Condition) -> str:
    return condition.message or ""
