"""What this cluster attests: ``status.attest``, derived from the soak. Pure.

It is written with the soak, so that no break of one is missed. What is recorded there is pushed
afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import ConditionStatus, FurtherCondition
from copyrator.api.reasons import Reason
from copyrator.api.reasons.bundles import BundleReason
from copyrator.api.seen_time import ALL_SEEN, SeenTime
from copyrator.api.selectors import Globs
from copyrator.api.structs import replace
from copyrator.api.text import format_duration, format_time, one_line, parse_time
from copyrator.bundles.features.attest.fields import (
    ATTESTED,
    MAX_ATTESTED,
    PUSH_FAULTS,
    AttestationsStatus,
    AttestSpec,
    AttestState,
    AttestStatus,
    StatementKey,
    describe_record,
    key_of,
)
from copyrator.bundles.features.attest.reasons import AttestReason
from copyrator.bundles.features.promotion.fields import PromotionStatus, SoakStatus
from copyrator.bundles.fields import read_reason
from copyrator.signatures.model import ATTESTATIONS, DeployedStatement

MANY: Final = ATTESTATIONS // 2
"""Statements about one digest in the registry from which on they are renewed less often."""
RARELY: Final = 3 * 24 * 3600.0
"""Seconds between two renewals then, at least."""
_REASON: Final = 200
"""Characters of a withdrawal's reason."""
_LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""Limit for a value of a forged status."""
_SECOND: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttestInput:
    """What decides about a Bundle's statements, beside its status."""

    spec: BundleSpec
    """With ``attest``."""
    is_allowed: bool = True
    """Whether its namespace may attest under this name."""
    is_deleted: bool = False
    withdrawal: tuple[str, str | None, str] | None = None
    """As ``bundles.features.promotion.fields.read_withdrawal``."""
    seen: SeenTime = ALL_SEEN


@dataclass(frozen=True, slots=True)
class AttestFault:
    """Why a statement isn't in the registry."""

    reason: Reason
    text: str


@dataclass(frozen=True, slots=True)
class PushResult:
    """A statement that is in the registry."""

    statement: AttestStatus
    """As it was recorded."""
    manifest: str | None
    """None: the registry doesn't have the digest, so there is nothing to withdraw."""
    left: int
    """As in AttestStatus."""


def update_statements(status: BundleStatus, around: AttestInput, now: datetime) -> BundleStatus:
    """The status with what is to be attested or withdrawn by its soak.

    Args:
        status: with the soak as it is written next.
        around: the rest of the Bundle.
        now: with a time zone.
    """
    soaks = {one.digest: one for one in status.part(PromotionStatus).soak}
    records = [
        _withdraw_broken(one, soaks.get(one.digest), now)
        for one in status.part(AttestationsStatus).attest
        if one.digest
    ]
    handled = status.part(AttestationsStatus).last_handled_withdrawal
    if around.withdrawal is not None and around.withdrawal[0] != handled:
        handled, named, reason = around.withdrawal
        digest = named or status.deployed.digest
        records = [
            replace(_withdraw(one, reason, now), requested_for=(soaks.get(one.digest) or one).since)
            if one.digest == digest and one.is_positive
            else one
            for one in records
        ]
    if (due := due_at(records, status, around)) is not None and due <= now:
        records = _issue(records, status, around, now)
    return status.with_part(
        AttestationsStatus(attest=tuple(records), last_handled_withdrawal=handled)
    )


def due_at(
    records: Sequence[AttestStatus], status: BundleStatus, around: AttestInput
) -> datetime | None:
    """When the next statement about what is deployed is due; None: not by time alone."""
    record = find_record(records, status, around.spec)
    stands = _stands_at(status, around, record)
    if stands is None or record is None:
        return stands
    soak, issued = _soak_of(status), _parse_date(record.issued_at)
    attest = around.spec.find(AttestSpec)
    are_many = (record.left or 0) + 1 >= MANY
    if attest is not None and issued is not None and (record.is_positive or are_many):
        renew = max(attest.renew, RARELY) if are_many else attest.renew
        stands = max(stands, issued + timedelta(seconds=renew))
    is_over = record.is_positive or soak is None or soak.since != record.requested_for
    return stands if is_over else None


def find_record(
    records: Sequence[AttestStatus], status: BundleStatus, spec: BundleSpec
) -> AttestStatus | None:
    """What was last said about what is deployed, by the present spec."""
    attest = spec.find(AttestSpec)
    wanted = status.deployed.digest, attest and attest.environment, spec.reference
    found = (one for one in records if (one.digest, one.environment, one.reference) == wanted)
    return next(found, None)


def find_pending(status: BundleStatus, around: AttestInput) -> list[AttestStatus]:
    """The statements to push: withdrawals first, then by their dates.

    Positive ones only under the name that the spec has now and that is allowed: the key may be
    another than when they were recorded.
    """
    spec, attest = around.spec, around.spec.find(AttestSpec)
    is_allowed = around.is_allowed and not around.is_deleted
    name = attest.environment if attest and is_allowed else None
    found = [
        one
        for one in status.part(AttestationsStatus).attest
        if one.is_pending and one.reference == spec.reference
    ]
    found = [one for one in found if not one.is_positive or (name and one.environment == name)]
    return sorted(found, key=lambda one: one.is_positive)


def record_push(status: BundleStatus, pushed: PushResult | None) -> BundleStatus:
    """The status with a statement that is in the registry; again it changes nothing.

    Where another one was recorded meanwhile, that one replaces it in the registry.
    """
    if pushed is None:
        return status
    said, records = pushed.statement, list(status.part(AttestationsStatus).attest)
    place = said.digest, said.environment, said.reference
    for at, one in enumerate(records):
        if (one.digest, one.environment, one.reference) != place or not one.is_pending:
            continue
        record = replace(one, manifest=pushed.manifest or one.manifest, left=pushed.left or None)
        if one.issued_at == said.issued_at:  # else a later one replaced it
            done = AttestState.ATTESTED if one.is_positive else AttestState.WITHDRAWN
            record = replace(record, state=done if pushed.manifest else AttestState.GONE)
        records[at] = record
    return status.with_part(replace(status.part(AttestationsStatus), attest=tuple(records)))


def statement_of(
    record: AttestStatus, status: BundleStatus, spec: BundleSpec, cluster: str
) -> DeployedStatement | None:
    """The statement that is recorded; None: the record isn't whole, as somebody forged it."""
    since, until, issued_at = map(_parse_date, (record.since, record.until, record.issued_at))
    if not record.digest or since is None or until is None or issued_at is None:
        return None
    return DeployedStatement(
        digest=record.digest,
        environment=record.environment or "",
        cluster=cluster,
        namespace=status.deployed.namespace or spec.project_namespace,
        release=spec.release,
        revision=record.revision or 1,
        seconds=record.seconds or 0,
        since=since,
        until=max(since, until),
        issued_at=issued_at,
        withdrawn=not record.is_positive,
        reason=record.reason or "",
    )


def attested_condition(
    status: BundleStatus, around: AttestInput, faults: Mapping[StatementKey, AttestFault]
) -> FurtherCondition:
    """The condition Attested.

    Args:
        status: with the statements.
        around: the rest of the Bundle.
        faults: of the last push of statements, as far as it failed in this process.
    """
    spec, no, attest = around.spec, ConditionStatus.FALSE, around.spec.find(AttestSpec)
    pending = [one for one in find_pending(status, around) if one.state != AttestState.GONE]
    for one in pending:
        if (fault := faults.get(key_of(one))) is not None:
            return FurtherCondition(no, fault.reason, f"{describe_record(one)}: {fault.text}")
    if not around.is_allowed and attest is not None:
        text = (
            f"the namespace {spec.namespace} may not attest as {attest.environment}: an "
            "administrator allows it by attest.environments of the chart"
        )
        return FurtherCondition(no, AttestReason.ENVIRONMENT_NOT_ALLOWED, text)
    withdrawals = (
        one
        for one in status.part(AttestationsStatus).attest
        if one.state == AttestState.WITHDRAWING
    )
    left = next((one for one in withdrawals if one.reference != spec.reference), None)
    if left is not None:
        text = (
            f"{describe_record(left)} can't be pushed to {left.reference}, which the spec doesn't "
            "name any more: set registry and repo back until it is withdrawn"
        )
        return FurtherCondition(no, BundleReason.PUSH_REFUSED, text)
    before = status.condition(ATTESTED)
    is_told = before.status == no and before.reason in PUSH_FAULTS
    if is_told and not all(one.is_quiet for one in pending):
        # Of a former process: the push is tried again at once.
        return FurtherCondition(no, read_reason(before.reason or ""), before.message or "")
    return _judge_statement(status, around)


def _judge_statement(status: BundleStatus, around: AttestInput) -> FurtherCondition:
    """Whether what is deployed is attested, where all statements are pushed, or about to be."""
    spec, attest, unknown = around.spec, around.spec.find(AttestSpec), ConditionStatus.UNKNOWN
    assert attest is not None
    record = find_record(status.part(AttestationsStatus).attest, status, spec)
    if pending := [one for one in find_pending(status, around) if not one.is_quiet]:
        text = f"{describe_record(pending[0])} is being pushed"
        return FurtherCondition(unknown, AttestReason.ATTESTING, text)
    what = f"{status.deployed.version} ({(status.deployed.digest or '')[:19]})"
    if record is None or (
        not record.is_positive and due_at(status.part(AttestationsStatus).attest, status, around)
    ):
        return FurtherCondition(unknown, AttestReason.SOAKING, _soaking(status, around, what))
    if not record.is_positive:
        gone = " (the registry has it no more)" if record.state == AttestState.GONE else ""
        text = (
            f"the statement that {what} stands in {attest.environment} was withdrawn{gone}: "
            f"{record.reason}; it is attested again once it has stood anew"
        )
        return FurtherCondition(ConditionStatus.FALSE, AttestReason.ATTESTATION_WITHDRAWN, text)
    text = f"{what} is attested as {attest.environment}"
    if (record.left or 0) + 1 >= MANY:
        text += (
            f"; the registry has {(record.left or 0) + 1} statements about it, as it doesn't "
            f"delete old ones, and readers accept {ATTESTATIONS}: it is renewed every "
            f"{format_duration(max(RARELY, attest.renew))}"
        )
    return FurtherCondition(ConditionStatus.TRUE, AttestReason.ATTESTED, text)


def _soaking(status: BundleStatus, around: AttestInput, what: str) -> str:
    attest = around.spec.find(AttestSpec)
    assert attest is not None
    if status.deployed.digest is None:
        return "nothing is deployed yet"
    wanted = [f"has stood for {format_duration(attest.after)}"] if attest.after else []
    wanted += [f"is {kind}" for kind in around.spec.required]
    once = " and ".join(wanted) or "stands"
    return f"{what} is attested as {attest.environment} once it {once}"


def _parse_date(text: str | None) -> datetime | None:
    """A date of a status; None where there is none that the operator could have written."""
    found = parse_time(text)
    return None if found is None or found > _LATEST else found


def _soak_of(status: BundleStatus) -> SoakStatus | None:
    digest = status.deployed.digest
    return next(
        (one for one in status.part(PromotionStatus).soak if digest and one.digest == digest), None
    )


def _longest_of(soak: SoakStatus, record: AttestStatus | None) -> timedelta | None:
    """The longest period that has ended; after a user's withdrawal only the present one counts."""
    return soak.longest_period if record is None or record.requested_for is None else None


def _stands_at(
    status: BundleStatus, around: AttestInput, record: AttestStatus | None
) -> datetime | None:
    """When what is deployed has stood for long enough; None: it doesn't stand, or isn't Healthy."""
    soak, attest = _soak_of(status), around.spec.find(AttestSpec)
    since = _parse_date(soak.since) if soak is not None else None
    if attest is None or soak is None or since is None or soak.until is not None:
        return None
    if around.is_deleted or not around.is_allowed:
        return None
    if not all(status.condition(kind).is_true for kind in around.spec.required):
        return None
    wanted, longest = timedelta(seconds=attest.after), _longest_of(soak, record)
    if longest is not None and longest >= wanted:
        return since
    return around.seen.reaches(since, wanted)


def _issue(
    records: Sequence[AttestStatus], status: BundleStatus, around: AttestInput, now: datetime
) -> list[AttestStatus]:
    """The records with a new statement about what is deployed."""
    there, soak, spec = status.deployed, _soak_of(status), around.spec
    since = _parse_date(soak.since) if soak is not None else None
    assert soak is not None
    assert since is not None
    attest = spec.find(AttestSpec)
    assert attest is not None
    known = find_record(records, status, spec)
    seconds = max(around.seen.seen(since, now), _longest_of(soak, known) or timedelta())
    is_renewal = known is not None and known.state in (AttestState.ATTESTED, AttestState.RENEWING)
    new = replace(
        known or AttestStatus(),
        digest=there.digest,
        version=there.version,
        environment=attest.environment,
        reference=spec.reference,
        state=AttestState.RENEWING if is_renewal else AttestState.ATTESTING,
        issued_at=format_time(_later(records, there.digest, now)),
        since=soak.since,
        until=format_time(now),
        seconds=int(seconds.total_seconds()),
        revision=there.revision,
        reason=None,
    )
    return _drop_excess([*(one for one in records if one is not known), new], spec)


def _later(records: Iterable[AttestStatus], digest: str | None, now: datetime) -> datetime:
    """The date of a new statement: later than all about this digest, whatever the clock says."""
    dates = (_parse_date(one.issued_at) for one in records if one.digest == digest)
    return max([now, *(one + _SECOND for one in dates if one is not None)])


def _withdraw_broken(record: AttestStatus, soak: SoakStatus | None, now: datetime) -> AttestStatus:
    """The withdrawal of a statement whose evidence doesn't count any more, else the record."""
    if not record.is_positive or soak is None or soak.longest is not None:
        return record
    if soak.until is not None:
        return _withdraw(record, soak.broken_by or "it doesn't stand any more", now)
    if soak.since != record.since:  # it broke while nothing was attested
        return _withdraw(record, "it didn't stand all the time", now)
    return record


def _withdraw(record: AttestStatus, reason: str, now: datetime) -> AttestStatus:
    return replace(
        record,
        state=AttestState.WITHDRAWING,
        issued_at=format_time(_later([record], record.digest, now)),
        reason=one_line(reason, _REASON),
    )


def _drop_excess(records: list[AttestStatus], spec: BundleSpec) -> list[AttestStatus]:
    """At most MAX_ATTESTED, the last one among them; withdrawals that aren't pushed go last.

    Withdrawn ones go first, then the oldest positive ones.
    """

    def rank(at: int) -> tuple[bool, bool, bool]:
        one = records[at]
        is_done = one.state in (AttestState.WITHDRAWN, AttestState.GONE)
        return not is_done, not one.is_positive, one.reference == spec.reference

    while len(records) > MAX_ATTESTED:
        del records[min(range(len(records) - 1), key=rank)]
    return records


def may_attest(spec: BundleSpec, environments: Collection[tuple[str, str]]) -> bool:
    """Whether a Bundle's namespace may attest under the name of its environment.

    A name that the settings list is for the namespaces that are listed with it. Others are free
    with a key of one's own: who trusts that key trusts its owner. With the operator's key only
    listed names are.

    Args:
        spec: with ``attest``.
        environments: names, each with a glob of namespaces.
    """
    attest = spec.find(AttestSpec)
    assert attest is not None
    globs = [glob for name, glob in environments if name == attest.environment]
    if not globs:
        return attest.own_key is not None
    return Globs(tuple(globs)).matches(spec.namespace)
