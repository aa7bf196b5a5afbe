"""What is said of drift."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus
from copyrator.api.conditions import ConditionStatus
from copyrator.api.reasons.notices import About
from copyrator.api.schema import InvalidSpec
from copyrator.api.text import (
    Detail,
    count,
    format_duration,
    format_time,
    said,
    time_since,
    time_until,
)
from copyrator.bundles.features.drift.fields import DRIFTED, DriftSpec, DriftStatus, DriftVerdict
from copyrator.bundles.jobs.identity import spec_hash
from copyrator.bundles.plans.fields import PlanOutcome
from copyrator.bundles.words import Mark, Notice, Place, Section, Told, Tone, View, Words

_TEXT: Final = 2000
"""Characters of a message that a page shows."""


class DriftWords(Words):
    """Whether objects still are as they were deployed."""

    def marks(self, view: View) -> Iterator[Mark]:
        """That they aren't."""
        found = view.summary.condition(DRIFTED)
        if found.is_true:
            yield Mark(4, "Drifted", found.message or "", is_flaw=True)

    def rows(self, view: View, place: Place) -> Iterator[Detail]:
        """What the last check found; nothing where none is made."""
        if place is Place.RELEASE:
            yield from _describe(view)

    def section(self, view: View) -> Section | None:
        """What the last check found; None where none is made."""
        spec, drift = view.spec, view.status.part(DriftStatus)
        if isinstance(spec, InvalidSpec) or not spec.uses(DriftSpec):
            return None
        condition = view.status.condition(DRIFTED)
        is_drifted = drift.verdict == DriftVerdict.DRIFTED
        tone = Tone.FAULT if is_drifted else Tone.GOOD if drift.verdict else None
        wanted, many = spec.part(DriftSpec), drift.corrections
        return Section(
            id="drift",
            title="Drift",
            state=said(condition.reason) if condition else "not checked yet",
            tone=tone,
            at=drift.since if is_drifted else drift.checked_at,
            is_since=is_drifted,
            message=said(condition.message, _TEXT) if condition else "",
            objects=drift.objects,
            more=max((drift.count or 0) - len(drift.objects), 0),
            job=said(drift.found_job) if drift.found_job else "",
            notes=[f"Corrected {'once' if many == 1 else f'{many} times'}."] if many else (),
            footer=f"{wanted.mode}, checked every {format_duration(wanted.interval)}; "
            f"next check: {next_check(view, spec)}",
        )

    def notices(self, told: Told) -> Iterator[Notice]:
        """That they aren't."""
        found, drift = told.status.condition(DRIFTED), told.status.part(DriftStatus)
        if found.is_true:
            number = drift.count or len(drift.objects)
            what = f"has drifted in {count(number, 'object')}" if number else "has drifted"
            since = drift.since or found.last_transition_time or ""
            key, message = f"{since} {found.reason}", found.message or ""
            yield Notice(1, About.DRIFTED, what, since, key, message, told.why)

    def unknown(self, status: BundleStatus) -> Iterator[About]:
        """Whether they are, also while a check runs."""
        drift, found = status.part(DriftStatus), status.condition(DRIFTED)
        is_checked = drift.check.is_running and drift.verdict != DriftVerdict.NOT_DRIFTED
        if found.status == ConditionStatus.UNKNOWN or is_checked:
            yield About.DRIFTED


def _describe(view: View) -> Iterator[Detail]:
    """What the last check for drift found; nothing where none is made."""
    spec, drift = view.spec, view.status.part(DriftStatus)
    if isinstance(spec, InvalidSpec) or not spec.uses(DriftSpec):
        return
    condition = view.status.condition(DRIFTED)
    message = condition.message
    text = said(condition.reason) if condition else "not checked yet"
    if drift.verdict == DriftVerdict.DRIFTED and drift.since:
        text += f", since {time_since(drift.since, view.now)}"
    elif drift.checked_at:
        text += f", checked {time_since(drift.checked_at, view.now)} ago"
    below = [said(one) for one in drift.objects] or ([said(message, 1000)] if message else [])
    if (more := (drift.count or 0) - len(drift.objects)) > 0:
        below.append(f"and {more} more")
    if drift.found_job:
        below.append(Detail("Differences", f"in the log of the Job {said(drift.found_job)}").line)
    if drift.corrections:
        below.append(Detail("Corrections", drift.corrections).line)
    at_once = f"; at once: {view.hint('plan', '--refresh')}"
    below.append(Detail("Next check", f"{next_check(view, spec)}{at_once}").line)
    every = format_duration(spec.part(DriftSpec).interval)
    yield Detail("Drift", f"{text}; {spec.part(DriftSpec).mode}, every {every}", below)


def next_check(view: View, spec: BundleSpec) -> str:
    """When drift is checked for next: ``in 5m``."""
    from copyrator.bundles.features.drift.record import due_at  # noqa: PLC0415 - rarely needed

    status, metadata = view.status, view.body["metadata"]
    if status.part(DriftStatus).check.outcome == PlanOutcome.RUNNING:
        return f"running as the Job {said(status.part(DriftStatus).check.job)}"
    hashed = spec_hash(view.body["spec"], metadata.get("labels") or {}, view.annotations)
    due = due_at(status, spec, hashed, metadata.get("uid", ""))
    if due is None:
        return "none now"
    return "now" if due <= view.now else time_until(format_time(due), view.now)


WORDS: Final = DriftWords()
