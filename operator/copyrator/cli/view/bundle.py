"""A Bundle as commands, pages and reports show it: made once from the object and the time. Pure.

A status may be forged by who may write it: fields of wrong types are dropped (`parse_status`), and
its texts are shown shortened (`said`) and escaped (`Detail`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import ABSENT, PassedOver, describe_cause
from copyrator.api.conditions import Condition, ConditionType
from copyrator.api.keys import ObjectName
from copyrator.api.names import ANN_DISABLE_AUTOUPDATE
from copyrator.api.reasons import BY_PERSON
from copyrator.api.schema import InvalidSpec
from copyrator.api.text import (
    Detail,
    format_duration,
    parse_time,
    said,
    short_digest,
    time_since,
    time_until,
)
from copyrator.bundles.engine.poll import interval_of
from copyrator.bundles.fields import BundleDefaults, bundle_reasons, parse_bundle
from copyrator.bundles.words import Mark, Place, View, lines_at, load_words, rows_at
from copyrator.cli.core.faults import hint_about
from copyrator.cli.core.installation import Installation
from copyrator.cli.core.objects import Body
from copyrator.cli.core.output import Column
from copyrator.cli.view import rows
from copyrator.kube.watch.reflector import name_of
from copyrator.settings.config import Settings

ASSUMED: Final = " by default (WERF_OPERATOR_TIMER_INTERVAL of the operator isn't known)"
_FOR_PEOPLE: Final = tuple(one for one in bundle_reasons().values() if one.ends is BY_PERSON)
"""Reasons for which a version waits until a person does something, and faults of plans."""


@dataclass(frozen=True)
class BundleView(View):
    """Without the installation, with the operator's default settings."""

    body: Body
    now: datetime
    installation: Installation | None = None
    beside: Sequence[object] = ()
    unread: Sequence[str] = ()

    @cached_property
    def spec(self) -> BundleSpec | InvalidSpec:
        """The spec, with the operator's defaults."""
        if self.installation is None:
            return parse_bundle(self.body, BundleDefaults())
        known = self.installation.settings
        defaults = BundleDefaults(interval=known.timer_interval, jobs_ttl=known.jobs_ttl)
        return parse_bundle(self.body, defaults)

    @cached_property
    def name(self) -> ObjectName:
        """Namespace and name."""
        return name_of(self.body)

    @property
    def gates(self) -> tuple[str, ...]:
        """The gates that its versions have to pass: by its spec, or by the operator's settings."""
        spec = self.spec
        if isinstance(spec, InvalidSpec):
            return ()
        asked = {gate.name for gate in self.summary.gates}
        asked |= {name for one in load_words() for name in one.requires(self)}
        parts = (found for one in load_words() for found in one.gates.items())
        return tuple(name for name, part in parts if name in asked or spec.uses(part))

    @property
    def settings(self) -> Settings:
        """The operator's, as far as they are known."""
        return self.installation.settings if self.installation else Settings()

    def hint(self, verb: str, *words: str) -> str:
        """A command about it."""
        return hint_about(verb, "bundle", self.body, *words)

    @cached_property
    def pending(self) -> Condition:
        """The condition UpdatePending; empty where a Bundle has no gates."""
        return self.summary.condition(ConditionType.UPDATE_PENDING)

    @property
    def awaited(self) -> str:
        """The reason why a version waits for a person, or its plan failed; else empty."""
        waits = self.pending.is_true and self.pending.reason in _FOR_PEOPLE
        if waits:
            return self.pending.reason or ""
        return next(lines_at(self, Place.AWAITS), "")

    @property
    def ready(self) -> Condition:
        """The Ready condition; empty before the operator's first status."""
        return self.summary.condition(ConditionType.READY)

    @cached_property
    def trouble(self) -> str:
        """The fault, what isn't trusted, healthy or as deployed, or what a person has to do."""
        waits, fault = self.awaited, rows.fault_of(self.ready)
        pending = self.pending.message or ""
        if waits and fault and waits != self.ready.reason:
            return f"{fault}. {pending}"
        unwell = next((mark.message for mark in self.marks if mark.message), "")
        return fault or rows.poll_fault(self.summary) or unwell or (pending if waits else "")

    @property
    def state(self) -> rows.State:
        """By its Ready condition, its trouble and its flaws."""
        return rows.State.FAILING if self.flaws else rows.state_of(self.ready, self.trouble)

    @cached_property
    def marks(self) -> Sequence[Mark]:
        """What holds beside Ready, by features."""
        return sorted(mark for one in load_words() for mark in one.marks(self))

    @property
    def flaws(self) -> tuple[str, ...]:
        """What isn't well although it may be Ready: ``Untrusted``, ``Unhealthy``, ``Drifted``."""
        return tuple(mark.word for mark in self.marks if mark.is_flaw)

    @property
    def reason(self) -> str:
        """The reason of Ready, and what else holds: ``Deployed,Unhealthy,Drifted``.

        Of a Bundle that waits for a person why; of one that is Ready what a newer version waits
        for: ``waiting: NotPromoted``.
        """
        first = rows.reason_of(self.ready)
        if self.state is rows.State.WAITING:
            first = self.awaited or first
        elif self.is_behind:
            first = f"waiting: {rows.reason_of(self.pending)}"
        words = (mark.word for mark in self.marks if mark.word)
        return ",".join(dict.fromkeys((first, *words)))

    @property
    def is_behind(self) -> bool:
        """Whether it is Ready while a newer version waits, for no person."""
        return self.pending.is_true and self.state is rows.State.READY

    @property
    def since(self) -> str | None:
        """Since when it has its first reason."""
        awaits = self.state is rows.State.WAITING and self.awaited == self.pending.reason
        return self.pending.since if self.is_behind or awaits else self.ready.since


def _raw(view: BundleView) -> Body:
    """The spec as its author wrote it, which may be invalid."""
    return view.body.get("spec") or {}


def _source(view: BundleView) -> str:
    spec = _raw(view)
    return f"{spec.get('registry') or '-'}/{spec.get('repo') or '-'}"


def _login(view: BundleView) -> str:
    auth = _raw(view).get("auth")
    return next(lines_at(view, Place.LOGIN), f"Secret {auth}" if auth else "-")


def bundle_columns() -> list[Column]:
    """The columns of `get bundles`; a row is a BundleView."""
    return [
        *rows.COMMON,
        Column("DEPLOYED", lambda view: view.summary.deployed.version or "-"),
        Column("AVAILABLE", lambda view: view.summary.available.version or "-", spare=1),
        Column("WANTED", lambda view: str(_raw(view).get("version") or "latest"), wide=True),
        Column("FROM", _source, wide=True),
        Column("LOGIN", _login, wide=True),
        Column("GATES", lambda view: ",".join(view.gates) or "none", wide=True),
        *(
            Column(head, value, wide=True)
            for one in load_words()
            for head, value in one.columns.items()
        ),
        Column("DIGEST", lambda view: short_digest(view.summary.deployed.digest), wide=True),
        rows.AGE,
        rows.MESSAGE,
    ]


def describe_bundle(view: BundleView) -> Iterator[Detail]:
    """The parts of `describe` and of a page."""
    status, now = view.status, view.now
    yield from rows.describe_head(view.body, now, view.state, view.reason)
    yield from rows_at(view, Place.STATE)
    yield from describe_source(view)
    for label, found in (("Available", status.available), ("Deployed", status.deployed)):
        since = f"{short_digest(found.digest)}  since {time_since(found.time, now)}"
        yield Detail(label, f"{found.version}  {since}" if found.version else "-")
    yield from rows_at(view, Place.VERSIONS, Place.TRUST)
    yield from _describe_attempt(view)
    yield from rows_at(view, Place.ATTEMPT, Place.PLAN, Place.PREVIEW)
    yield from rows_at(view, Place.RELEASE, Place.OBJECTS, Place.HISTORY)
    yield Detail("Next poll", describe_next_poll(view))
    if _raw(view).get("suspend"):
        yield Detail("Suspended", f"yes; {view.hint('resume')}")
    error = status.last_error
    log = [f"({view.hint('logs')} prints werf's log)"] if error.log_tail else []
    if error.to_dict():
        yield Detail("Last error", f"{error.reason}: {error.message}", log)


def describe_source(view: BundleView) -> Iterator[Detail]:
    """The parts about where versions come from, and where the release is."""
    yield Detail("Source", _source(view))
    yield from rows_at(view, Place.SOURCE)
    yield Detail("Version", _raw(view).get("version") or "latest")
    if tag_filter := _raw(view).get("tagFilter"):
        yield Detail("Tag filter", tag_filter)
    yield Detail("Gates", describe_gates(view))
    where = _raw(view).get("project_namespace") or view.name.namespace
    yield Detail("Release in", f"{where} of {view.cluster}" if view.cluster else where)
    yield from rows_at(view, Place.NAMESPACE)


def describe_gates(view: BundleView) -> str:
    """The gates that it has, or that it has none: also where a field was misspelled."""
    if isinstance(view.spec, InvalidSpec):
        return "unknown: the spec isn't valid"
    return ", ".join(view.gates) or "none: a new version is deployed as soon as it is found"


def _describe_attempt(view: BundleView) -> Iterator[Detail]:
    attempt = view.status.attempted
    if attempt.attempt:
        over = passed_over(attempt.passed_over)
        forced = f", passed over {over}" if over else ""
        cause = f", {said(found)}" if (found := describe_cause(attempt)) else ""
        text = f"#{attempt.attempt} {attempt.version} {attempt.outcome}{cause}{forced}"
        yield Detail("Last attempt", f"{text}, Job {attempt.job}")
    if attempt.next_retry_at:
        yield Detail("Next attempt", next_attempt(view))


def next_attempt(view: BundleView) -> str:
    """When a failed deploy is retried: ``in 34s``; features may prevent that."""
    if ends := list(lines_at(view, Place.RETRY)):
        return f"when {' and '.join(ends)}"
    return time_until(view.status.attempted.next_retry_at, view.now)


def passed_over(gates: Sequence[PassedOver]) -> str:
    """The gates that a forced deploy skipped; empty for other attempts."""
    return ", ".join(one.text for one in gates)


def describe_next_poll(view: BundleView) -> str:
    """When the registry is polled next, and how often."""
    if ANN_DISABLE_AUTOUPDATE in view.annotations:
        return f"none: annotation {ANN_DISABLE_AUTOUPDATE}"
    spec, announced = view.spec, parse_time(view.status.next_poll_at)
    if isinstance(spec, InvalidSpec):
        return "-"
    is_known = view.installation is not None and view.installation.is_read
    default = "" if _raw(view).get("interval") else " by default" if is_known else ASSUMED
    every = f"every {format_duration(spec.interval)}{default}"
    if announced is None:
        return every
    # Features have polls made before the interval has passed, at times that no status has.
    is_early = view.status.ready_reason in ABSENT or any(
        one.polls_again(view) for one in load_words()
    )
    if is_early and announced < view.now:
        return f"soon, {every}"
    return f"in {format_duration(next_poll(announced, interval_of(spec), view.now))}, {every}"


def next_poll(announced: datetime, interval: float, now: datetime) -> int:
    """Seconds until the next poll.

    A poll without a change doesn't write the status, so an announced time in the past is
    whole intervals ago.
    """
    wait = (announced - now).total_seconds()
    return int(wait if wait >= 0 else wait % interval) + 1
