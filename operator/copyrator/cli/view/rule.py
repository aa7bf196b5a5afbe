"""Why a rule is in its state: pure, from the object and the time.

The line of a rule: pure, from the object and the time.

A rule's rollout as commands show it: pure, from the spec, the status and the time.

The certificates in copies, as commands show them: pure, from rules' statuses and the time.

Failures that are the same in several namespaces, on one line.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, TypeVar

from copyrator.api.certificates import Certificate, CertificateReason, read_certificates, warned
from copyrator.api.conditions import ConditionStatus, ConditionType, conditions_by_type
from copyrator.api.counts import GROUP, some
from copyrator.api.rollout import Restart, Rollout, RolloutState, read_rollout_state
from copyrator.api.rule_spec import ComposedSource
from copyrator.api.rule_status import read_rule_status
from copyrator.api.times import format_duration, format_time
from copyrator.cli.core.hints import hint_about
from copyrator.cli.core.output import Column
from copyrator.cli.view import rows


class Failing(Protocol):
    """What is grouped."""

    @property
    def namespace(self) -> str:
        """Of the target."""

    @property
    def name(self) -> str:
        """Of the copy; empty where it can't be determined."""

    @property
    def reason(self) -> str:
        """A stable word."""

    @property
    def message(self) -> str:
        """For the user."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A failure in a rule's status."""

    namespace: str
    name: str
    reason: str
    message: str


F = TypeVar("F", bound=Failing)


def shared_message(one: Failing) -> str:
    """A failure's message without the name of its namespace, so that it is the same in others."""
    return one.message.replace(f"namespace {one.namespace} ", "the namespace ")


def group_failures(failures: Iterable[F]) -> Iterator[Sequence[F]]:
    """Failures with the same reason and message together; single ones where they are few."""
    found: dict[tuple[str, str], list[F]] = {}
    for one in failures:
        found.setdefault((one.reason, shared_message(one)), []).append(one)
    for group in found.values():
        if len({one.namespace for one in group}) >= GROUP:
            yield group
        else:
            yield from ([one] for one in group)


def failure_lines(failures: Iterable[Failing]) -> Iterator[str]:
    """A line for each group: ``7 namespaces (team-a, team-b, …): Forbidden: …``."""
    for group in group_failures(failures):
        first = group[0]
        if len(group) > 1:
            spaces = some((one.namespace for one in group), "namespaces")
            yield f"{spaces}: {first.reason}: {shared_message(first)}"
        else:
            where = f"{first.namespace}/{first.name}" if first.name else first.namespace
            yield f"{where}: {first.reason}: {first.message}"


Body = Mapping[str, Any]


class Validity(StrEnum):
    """The state of a certificate in lists."""

    ENDED = "ended"
    EARLY = "not valid yet"
    ENDING = "ends soon"
    VALID = "valid"


@dataclass(frozen=True, slots=True, order=True)
class CertificateRow:
    """A certificate in the copies of a rule; sorted by its end."""

    certificate: Certificate
    namespace: str
    """Of the rule."""
    name: str
    validity: Validity = field(compare=False)
    text: str = field(compare=False)
    """``until 2026-01-01T00:00:00Z (12d)``."""

    @property
    def shown(self) -> str:
        """The rule as ``namespace/name``."""
        return f"{self.namespace}/{self.name}"


def time_left(certificate: Certificate, now: datetime) -> str:
    """How long a certificate is valid: ``12d``, ``5h``, or that it isn't."""
    if certificate.not_after <= now:
        return Validity.ENDED
    if certificate.not_before > now:
        return Validity.EARLY
    seconds = int((certificate.not_after - now).total_seconds())
    return f"{seconds // 86400}d" if seconds >= 2 * 86400 else f"{seconds // 3600}h"


def first_end(body: Body, now: datetime) -> str:
    """How long all certificates in a rule's copies are valid; a dash where there is none."""
    found = read_certificates(body.get("status") or {})
    return time_left(found[0], now) if found else "-"


def validity_period(certificate: Certificate, now: datetime) -> str:
    """``until 2026-01-01T00:00:00Z (12d)``; with the beginning if that is to come."""
    early = now < certificate.not_before < certificate.not_after
    begins = f"from {format_time(certificate.not_before)} " if early else ""
    return f"{begins}until {format_time(certificate.not_after)} ({time_left(certificate, now)})"


def certificate_lines(status: Body, now: datetime, source: str | None = None) -> Iterator[str]:
    """``api.example.com (infra/tls, key tls.crt) until … (12d)``, the first to end first.

    Those of one ``source`` (``namespace/name``), or of all.
    """
    for certificate in read_certificates(status):
        if source in (None, certificate.source):
            yield f"{certificate.to_string()} {validity_period(certificate, now)}"


def certificate_warning(body: Body) -> str:
    """The operator's message about a certificate that ends soon or has ended; else empty."""
    condition = _certificate_condition(body)
    is_warned = condition.get("status") == ConditionStatus.TRUE
    return str(condition.get("message") or "") if is_warned else ""


def is_expired(body: Body) -> bool:
    """Whether the operator has found that a certificate in a rule's copies has ended."""
    return bool(_certificate_condition(body).get("reason") == CertificateReason.EXPIRED)


def first_rows(rules: Iterable[Body], now: datetime, most: int) -> list[CertificateRow]:
    """The certificates of all rules that end first."""
    return heapq.nsmallest(most, (row for body in rules for row in _certificate_rows(body, now)))


def _certificate_rows(body: Body, now: datetime) -> Iterator[CertificateRow]:
    metadata, due = body["metadata"], warned(_certificate_condition(body))
    for number, one in enumerate(read_certificates(body.get("status") or {})):
        validity = Validity.VALID
        if one.not_after <= now:
            validity = Validity.ENDED
        elif one.not_before > now:
            validity = Validity.EARLY
        elif number < due:  # the operator's setting decides, which isn't known here
            validity = Validity.ENDING
        yield CertificateRow(
            one, metadata["namespace"], metadata["name"], validity, validity_period(one, now)
        )


def _certificate_condition(body: Body) -> Mapping[str, Any]:
    conditions = (body.get("status") or {}).get("conditions")
    return conditions_by_type(conditions).get(ConditionType.CERTIFICATE_EXPIRING, {})


def rollout_state(status: Any) -> RolloutState | None:
    """The rollout that is in progress by a stored status, or None."""
    if not isinstance(status, Mapping) or "rollout" not in status:
        return None
    state = read_rollout_state(read_rule_status(status))
    return state if state is not None and state.running else None


def rollout_progress(body: Mapping[str, Any]) -> str:
    """``step 2/4``, or ``step 2/4, stopped``; a dash where no rollout is in progress."""
    status = body.get("status") or {}
    state = rollout_state(status)
    if state is None:
        return "-"
    stopped = ", stopped" if state.stopped is not None else ""
    return f"step {state.step}/{_rollout_steps(status)}{stopped}"


def _rollout_steps(status: Mapping[str, Any]) -> object:
    return (status.get("rollout") or {}).get("steps", "?")


def describe_rollout(rollout: Rollout) -> str:
    """``1, 10%, 100%; 10m after each; tier=canary first; watches health``."""
    parts = [", ".join(rollout.steps), f"{format_duration(rollout.pause)} after each"]
    if rollout.first is not None:
        parts.append(f"{rollout.first.to_string()} first")
    if rollout.health:
        parts.append("stops if consumers aren't healthy")
    if rollout.restart is Restart.CONSUMERS:
        parts.append("restarts consumers")
    return "; ".join(parts)


def rollout_lines(status: Mapping[str, Any], now: datetime) -> Iterator[str]:
    """The present step, and the consumer that stopped it."""
    state = rollout_state(status)
    if state is None:
        return
    text = f"{state.step} of {_rollout_steps(status)}"
    if state.stopped is not None:
        who = state.stopped.consumer
        yield f"{text}, stopped: {who.kind} {who.namespace}/{who.name}: {state.stopped.message}"
    elif state.next_at is not None:
        stamp = format_time(state.next_at)
        yield f"{text}, its pause ends at {stamp} ({rows.until(stamp, now)})"
    else:
        yield f"{text}, being written"


def in_steps(rollout: Rollout, targets: int) -> str:
    """A sentence for a plan: its changes of existing copies aren't made at once."""
    pause = format_duration(rollout.pause)
    return (
        f"Existing copies are changed in steps (spec.rollout): {rollout.to_string(targets)} of "
        f"{targets} namespaces, {pause} after each; new ones are created at once."
    )


def waits_for_rollout(owner: str, state: RolloutState) -> str:
    """Why a copy of a rule may not have the new content yet."""
    text = (
        f"It doesn't have the new content: the rule {owner} changes its copies in steps, and "
        f"the step of this copy hasn't begun (step {state.step}"
    )
    if state.stopped is not None:
        who = state.stopped.consumer
        return f"{text}); the rollout is stopped by {who.kind} {who.namespace}/{who.name}."
    due = f", the next one is due at {format_time(state.next_at)}" if state.next_at else ""
    return f"{text}{due})."


def trouble(body: Body) -> str:
    """The fault, or the certificate that ends soon; empty where there is none."""
    return rows.trouble(body) or certificate_warning(body)


def composed_of(body: Body) -> str:
    """The sources of a template, as the operator counted them: ``hub, private (3)``; or empty."""
    found = (body.get("status") or {}).get("composedOf")
    return found if isinstance(found, str) else ""


def entry(one: ComposedSource) -> str:
    """An entry of spec.sources: ``hub: Secret hub-creds in infra, optional``."""
    source = one.source
    which = source.name or (source.selector and source.selector.to_string())
    optional = ", optional" if one.optional else ""
    return f"{one.alias}: {source.kind} {which} in {one.namespace}{optional}"


def rule_columns(now: datetime) -> list[Column]:
    """The columns of `get rules`."""
    return [
        *rows.common_columns(now),
        Column("COPIES", rows.copies),
        Column("KIND", rows.rule_kind, wide=True),
        Column("SOURCES", _sources, wide=True),
        _counted("failed"),
        _counted("conflicts"),
        _counted("pending"),
        Column("ROLLOUT", rollout_progress, wide=True),
        Column("CERTIFICATE", lambda body: first_end(body, now), wide=True),
        Column(
            "AGE", lambda body: rows.age(body["metadata"].get("creationTimestamp"), now), wide=True
        ),
        Column("MESSAGE", trouble, below=True),
    ]


def _sources(body: Body) -> str:
    return str((body.get("status") or {}).get("sources", 0))


def _counted(name: str) -> Column:
    def value(body: Body) -> str:
        return str(((body.get("status") or {}).get("copies") or {}).get(name, 0))

    return Column(name.upper(), value, wide=True)


def explain_rule(body: Body, now: datetime) -> Iterator[str]:
    """Its state, its failures, and the certificates in its copies."""
    metadata, condition = body["metadata"], rows.ready(body)
    shown = f"The rule {metadata['namespace']}/{metadata['name']}"
    if not condition:
        yield f"{shown} is {rows.trouble(body)}"
        return
    since = rows.age(condition.get("lastTransitionTime"), now)
    state = f"Ready={condition.get('status')} for {since}, {condition.get('reason')}"
    message = f": {condition['message']}" if condition.get("message") else ""
    yield f"{shown} is {state}{message}"
    yield from (f"  {line}" for line in _explain_details(body, now))


def _explain_details(body: Body, now: datetime) -> Iterator[str]:
    spec, status = body.get("spec"), body.get("status") or {}
    if isinstance(spec, Mapping) and spec.get("suspend"):
        yield f"It is suspended; to resume it: {hint_about('resume', 'rule', body)}"
    yield f"Copies: {rows.copies(body)} are as wanted."
    if made_of := composed_of(body):
        yield f"They are made from {made_of}."
    for line in rollout_lines(status, now):
        yield f"Rollout: step {line}"
    for line in failure_lines(failures_of(status)):
        yield line
    for line in certificate_lines(status, now):
        yield f"Certificate: {line}"


def failures_of(status: Body) -> list[Sample]:
    """The samples of failing copies that the status has."""
    parts = ("namespace", "name", "reason", "message")
    return [
        Sample(*(str(one.get(part) or "") for part in parts))
        for one in status.get("failures") or ()
        if isinstance(one, Mapping)
    ]
