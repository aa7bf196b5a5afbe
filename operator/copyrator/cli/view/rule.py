"""A rule as commands show it, made once from the object and the time: pure."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, Protocol, TypeVar

from copyrator.api.certificates import Certificate, warned
from copyrator.api.conditions import Condition, ConditionType
from copyrator.api.keys import ObjectName
from copyrator.api.reasons.rules import CertificateReason, FailureReason, RuleReason
from copyrator.api.rollout import Restart, Rollout, RolloutState
from copyrator.api.rule_spec import EVERY_NAMESPACE, PUBLIC_CAS, RuleSpec
from copyrator.api.rule_status import (
    CopyCounts,
    Failure,
    RuleStatus,
    read_rule_status,
    shared_message,
)
from copyrator.api.schema import InvalidSpec
from copyrator.api.text import (
    GROUP,
    Detail,
    detail_lines,
    format_duration,
    format_time,
    some,
    time_since,
    time_until,
)
from copyrator.cli.core.faults import hint, hint_about
from copyrator.cli.core.objects import Body, is_set_to_suspend
from copyrator.cli.core.output import Column
from copyrator.cli.view import rows
from copyrator.kube.watch.reflector import name_of


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


F = TypeVar("F", bound=Failing)


def group_failures(failures: Iterable[F]) -> Iterator[Sequence[F]]:
    """Failures with the same reason and message together; single ones where they are few."""
    found: dict[tuple[str, str], list[F]] = {}
    for one in failures:
        found.setdefault((one.reason, shared_message(one.namespace, one.message)), []).append(one)
    for group in found.values():
        if len({one.namespace for one in group}) >= GROUP:
            yield group
        else:
            yield from ([one] for one in group)


_WITHOUT_REMEDY: Final = (
    FailureReason.FORBIDDEN,
    FailureReason.QUOTA_EXCEEDED,
    FailureReason.ADMISSION_DENIED,
    FailureReason.TEMPLATE_ERROR,
)
"""The messages of these have none."""


def remedy_of(reason: str) -> str:
    """What a user can do about a failure, where its message doesn't say that."""
    found = (one.advice for one in _WITHOUT_REMEDY if one == reason)
    return re.sub(r"copyrator (\w+)", lambda command: hint(command[1]), next(found, ""))


def failure_lines(failures: Iterable[Failing]) -> Iterator[str]:
    """A line for each group: ``7 namespaces (team-a, team-b, …): Forbidden: …``."""
    for group in group_failures(failures):
        first = group[0]
        if len(group) > 1:
            spaces = some((one.namespace for one in group), "namespaces")
            yield f"{spaces}: {first.reason}: {shared_message(first.namespace, first.message)}"
        else:
            where = f"{first.namespace}/{first.name}" if first.name else first.namespace
            yield f"{where}: {first.reason}: {first.message}"


class CopyGroup(StrEnum):
    """A state of copies."""

    FAILED = "failed"
    CONFLICT = "conflict"
    LATER = "later"
    """Its step of the rollout hasn't begun."""
    PENDING = "pending"
    SYNC = "sync"
    UNKNOWN = "unknown"
    """The copy exists, and the status doesn't tell its state."""


class Validity(StrEnum):
    """The state of a certificate in lists."""

    EXPIRED = "expired"
    EARLY = "not valid yet"
    EXPIRING = "expires soon"
    VALID = "valid"


@dataclass(frozen=True, slots=True, order=True)
class CertificateRow:
    """A certificate in the copies of a rule; sorted by its expiry."""

    certificate: Certificate
    namespace: str
    """Of the rule."""
    name: str
    validity: Validity = field(compare=False)
    text: str = field(compare=False)
    """``expires 2026-01-01T00:00:00Z (in 12d)``."""

    @property
    def shown(self) -> str:
        """The rule as ``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def line(self) -> str:
        """``api.example.com (infra/tls, key tls.crt) expires … (in 12d)``."""
        return f"{self.certificate.to_string()} {self.text}"


@dataclass(frozen=True)
class RuleView:
    """A rule now."""

    body: Body
    now: datetime

    @cached_property
    def status(self) -> RuleStatus:
        """Its status, of which the operator may have written it."""
        return read_rule_status(self.body)

    @cached_property
    def spec(self) -> RuleSpec | InvalidSpec:
        """The operator's reading of it."""
        from copyrator.api.rule_spec import parse_rule  # noqa: PLC0415 - lists don't need it

        return parse_rule(self.body)

    @cached_property
    def name(self) -> ObjectName:
        """Namespace and name."""
        return name_of(self.body)

    @cached_property
    def ready(self) -> Condition:
        """The Ready condition; empty before the operator's first status."""
        return rows.ready(self.body)

    @property
    def counts(self) -> CopyCounts:
        """Its copies, by their state."""
        return self.status.copies

    @property
    def copies(self) -> str:
        """``12/13``: right, of those wanted."""
        return f"{self.counts.ready}/{self.counts.desired}"

    @property
    def has_no_source(self) -> bool:
        """Whether there is nothing that could be copied, and no copy."""
        return self.ready.reason == RuleReason.SOURCE_NOT_FOUND and not self.counts.desired

    @property
    def rollout(self) -> RolloutState | None:
        """The rollout that is in progress."""
        state = self.status.rollout
        return state if state is not None and state.running else None

    @property
    def failures(self) -> Sequence[Failure]:
        """The samples of failing copies that the status has."""
        return self.status.failures

    @property
    def first_to_expire(self) -> Certificate | None:
        """Of the certificates in its copies."""
        return next(iter(self.status.certificates), None)

    @property
    def state(self) -> rows.State:
        """By its Ready condition, its trouble and its certificates."""
        expiry = self.status.condition(ConditionType.CERTIFICATE_EXPIRING)
        is_expired = expiry.reason == CertificateReason.EXPIRED
        return rows.State.FAILING if is_expired else rows.state_of(self.ready, self.trouble)

    @property
    def reason(self) -> str:
        """The reason of Ready."""
        return rows.reason_of(self.ready)

    @property
    def since(self) -> str | None:
        """Since when it has that."""
        return self.ready.since

    @property
    def trouble(self) -> str:
        """The fault, or the certificate that expires soon; empty where there is none."""
        warning = self.status.condition(ConditionType.CERTIFICATE_EXPIRING)
        return rows.fault_of(self.ready) or (warning.message or "" if warning.is_true else "")


def rule_kind(body: Body) -> str:
    """The kind that a rule copies or renders, in either form; a dash where there is none."""
    spec = body.get("spec")
    if isinstance(spec, Mapping):
        part = spec.get("source") or spec.get("template") or {}
        return str(part.get("kind") or "-") if isinstance(part, Mapping) else "-"
    kinds = {"configmap": "ConfigMap", "secret": "Secret"}
    return kinds.get(str(body.get("ruleType")).lower(), "-")


RULE_COLUMNS: Final = (
    *rows.COMMON,
    Column("COPIES", lambda view: view.copies),
    Column("KIND", lambda view: rule_kind(view.body), wide=True),
    Column("SOURCES", lambda view: str(view.status.sources), wide=True),
    Column("FAILED", lambda view: str(view.counts.failed), wide=True),
    Column("CONFLICTS", lambda view: str(view.counts.conflicts), wide=True),
    Column("PENDING", lambda view: str(view.counts.pending), wide=True),
    Column("ROLLOUT", lambda view: rollout_progress(view) or "-", wide=True),
    Column("EXPIRES", lambda view: _time_left(view.first_to_expire, view.now), wide=True),
    rows.AGE,
    rows.MESSAGE,
)
"""The columns of `get rules`; a row is a RuleView."""


def explain_rule(view: RuleView) -> Iterator[str]:
    """Its state, its failures, and the certificates in its copies."""
    condition, shown = view.ready, f"The rule {view.name}"
    if not condition:
        yield f"{shown} is {rows.fault_of(condition)}"
        return
    since = time_since(view.since, view.now)
    message = f": {condition.message}" if condition.message else ""
    yield f"{shown} is {view.state} ({condition.reason}, for {since}){message}"
    if is_set_to_suspend(view.body):
        yield f"  It is suspended; to resume it: {hint_about('resume', 'rule', view.body)}"
    yield from detail_lines(describe_copies(view))


_STATES = {
    "ready": "ready",
    "failed": "failed",
    "conflicts": "in conflict",
    "pending": "pending",
}
"""Field of status.copies to its words."""


def describe_rule(view: RuleView) -> Iterator[Detail]:
    """The parts about a rule."""
    yield from rows.describe_head(view.body, view.now, view.state, view.reason)
    yield from describe_settings(view)
    yield from describe_copies(view)


def describe_copies(view: RuleView) -> Iterator[Detail]:
    """Its copies by their state, what they are made of, its rollout and its failures."""
    counts = view.counts
    parts = [f"{getattr(counts, part)} {words}" for part, words in _STATES.items()]
    if others := counts.satisfied:
        parts[0] += f" ({others} of them not created by the operator)"
    if not view.has_no_source:
        yield Detail("Copies", f"{counts.desired} desired: {', '.join(parts)}")
    yield from describe_origin(view)
    for row in certificate_rows(view):
        yield Detail("Certificate", row.line)
    for line in rollout_lines(view):
        yield Detail("Rollout step", line)
    if failures := view.failures:
        total = counts.failed + counts.conflicts
        of = f" ({len(failures)} of {total})" if total > len(failures) else ""
        yield Detail(f"Failures{of}", below=list(failure_lines(failures)))


def describe_origin(view: RuleView) -> Iterator[Detail]:
    """What copies are made of, where from, when that was read, and what isn't in them."""
    status = view.status
    if status.composed_of:
        yield Detail("Made from", status.composed_of)
    for one in status.source_clusters:
        since = one.unreachable_since
        away = f", unreachable since {format_time(since)}" if since else ""
        yield Detail("Cluster", f"{one.identity} (kubeconfig {one.secret}){away}")
    synced = status.last_sync_time and format_time(status.last_sync_time)
    if synced or not view.has_no_source:
        yield Detail("Last sync", f"{time_since(synced, view.now)} ago" if synced else "never")
    for lost in status.overridden:
        yield Detail("Not used", f"{lost.source}: {lost.by} is used for {lost.host}")
    for unused in status.passed_over:
        yield Detail("Passed over", f"{unused.source}: {unused.reason}")
    if dropped := status.dropped_fields:
        yield Detail("Dropped", f"{', '.join(dropped)} (unknown to the API server)")


def describe_settings(view: RuleView) -> Iterator[Detail]:
    """Its spec, or the fault of that."""
    spec = view.spec
    if isinstance(spec, InvalidSpec):
        yield Detail("Invalid", spec)
        return
    if spec.legacy:
        yield Detail("Form", "old (ruleType)")
    if spec.source:
        which = spec.source.name or (spec.source.selector and spec.source.selector.to_string())
        where = f"{', '.join(spec.source.namespaces)}{spec.source.cluster}"
        yield Detail("Source", f"{spec.kind} {which} in {where}")
    else:
        yield Detail("Template", spec.kind)
        for alias in spec.default_cas:
            yield Detail("Source", f"{alias}: {PUBLIC_CAS}")
        for one in spec.composed_sources:
            optional = ", optional" if one.optional else ""
            which = one.name or (one.selector and one.selector.to_string())
            where = f"{one.kind} {which} in {one.namespace}{one.cluster}"
            yield Detail("Source", f"{one.alias}: {where}{optional}")
    yield Detail("Targets", _targets(spec.targets))
    yield Detail("On conflict", spec.on_conflict)
    yield Detail("Deletion", spec.deletion_policy)
    if spec.rollout:
        yield Detail("Rollout", describe_rollout(spec.rollout))
    if spec.suspend:
        yield Detail("Suspended", f"yes; {hint_about('resume', 'rule', view.body)}")


def _targets(targets: Any) -> str:
    named = targets.namespaces.patterns
    parts = [EVERY_NAMESPACE if targets.is_every_name else ", ".join(named)]
    if targets.exclude.patterns:
        parts.append(f"except {', '.join(targets.exclude.patterns)}")
    if text := targets.selector.to_string():
        parts.append(f"with labels {text}")
    return " ".join(parts)


def _time_left(certificate: Certificate | None, now: datetime) -> str:
    """How long a certificate is valid: ``12d``, ``5h``, or that it isn't; a dash without one."""
    if certificate is None:
        return "-"
    if certificate.not_after <= now:
        return Validity.EXPIRED
    if certificate.not_before > now:
        return Validity.EARLY
    seconds = int((certificate.not_after - now).total_seconds())
    return f"{seconds // 86400}d" if seconds >= 2 * 86400 else f"{seconds // 3600}h"


def _validity_period(certificate: Certificate, now: datetime) -> str:
    """``expires 2026-01-01T00:00:00Z (in 12d)``; with the beginning if that is to come."""
    stamp = format_time(certificate.not_after)
    if certificate.not_after <= now:
        return f"expired {stamp} ({time_since(stamp, now)} ago)"
    if now < certificate.not_before:
        begins = format_time(certificate.not_before)
        return f"valid from {begins}, expires {stamp} ({Validity.EARLY})"
    return f"expires {stamp} (in {_time_left(certificate, now)})"


def first_rows(views: Iterable[RuleView], most: int) -> list[CertificateRow]:
    """The certificates of all rules that expire first."""
    return heapq.nsmallest(most, (row for view in views for row in certificate_rows(view)))


def certificate_rows(view: RuleView, source: str | None = None) -> Iterator[CertificateRow]:
    """The certificates in a rule's copies, the first to expire first.

    Those of one ``source`` (``namespace/name``), or of all.
    """
    due = warned(view.status.condition(ConditionType.CERTIFICATE_EXPIRING))
    for number, one in enumerate(view.status.certificates):
        if source not in (None, one.source):
            continue
        validity = Validity.VALID
        if one.not_after <= view.now:
            validity = Validity.EXPIRED
        elif one.not_before > view.now:
            validity = Validity.EARLY
        elif number < due:  # the operator's setting decides, which isn't known here
            validity = Validity.EXPIRING
        yield CertificateRow(one, *view.name, validity, _validity_period(one, view.now))


def rollout_progress(view: RuleView) -> str:
    """``step 2/4``, or ``step 2/4, stopped``; empty where no rollout is in progress."""
    if (state := view.rollout) is None:
        return ""
    stopped = ", stopped" if state.stopped is not None else ""
    return f"step {state.step}/{state.steps or '?'}{stopped}"


def rollout_lines(view: RuleView) -> Iterator[str]:
    """The present step, and the consumer that stopped it."""
    if (state := view.rollout) is None:
        return
    text = f"{state.step} of {state.steps or '?'}"
    if state.stopped is not None:
        who = state.stopped
        yield f"{text}, stopped: {who.kind} {who.namespace}/{who.name}: {who.message}"
    elif state.next_at is not None:
        stamp = format_time(state.next_at)
        yield f"{text}, its pause ends at {stamp} ({time_until(stamp, view.now)})"
    else:
        yield f"{text}, being written"


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
