"""What happened to the versions of a Bundle. Pure.

A status has ten attempts, and the message of the newest one only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import (
    Attempted,
    Cause,
    HistoryEntry,
    Outcome,
    Rollback,
    cause_of,
    describe_cause,
)
from copyrator.api.text import parse_time, said, times
from copyrator.bundles.words import Tone, VersionEvent, load_words
from copyrator.cli.core.objects import Body
from copyrator.cli.view.bundle import BundleView, passed_over
from copyrator.cli.view.why_bundle import is_quarantined

MESSAGE: Final = 8192
"""Characters of the newest attempt's message that are shown."""
_LONG_AGO: Final = datetime(1, 1, 1, tzinfo=UTC)


class VersionChange(StrEnum):
    """What happened to a version."""

    DEPLOYING = "Deploying"
    DEPLOYED = "Deployed"
    DEPLOYED_AGAIN = "Deployed again"
    CORRECTED = "Drift corrected"
    ROLLED_BACK = "Rolled back"
    FAILED = "Failed"
    INTERRUPTED = "Interrupted"


_TONES: Final = {
    VersionChange.FAILED: Tone.FAULT,
    **dict.fromkeys(
        (VersionChange.DEPLOYING, VersionChange.ROLLED_BACK, VersionChange.INTERRUPTED),
        Tone.WAITING,
    ),
}
"""Of those that aren't good."""


_BY_CAUSE: Final[Mapping[str, VersionChange]] = {
    Cause.CORRECTION: VersionChange.CORRECTED,
    Cause.ROLLBACK: VersionChange.ROLLED_BACK,
}
"""Of those that succeeded."""


def timeline(view: BundleView, sources: Iterable[Body] = ()) -> list[VersionEvent]:
    """The entries, the newest first, and before them what holds without a time.

    ``sources``: the Bundles that it is promoted from, as far as the user may see them.
    """
    features, status, notes = load_words(), view.status, _Notes(view, sources)
    known = {one.digest: one.version for one in status.past}
    for one in reversed(features):
        known |= one.versions(view)
    found = [event for one in reversed(features) for event in one.events(view, known)]
    dated = [*_attempts(view, notes), *(one for one in found if one.time is not None)]
    if (attempt := status.attempted).is_running:
        said_of_it = notes.of(attempt, attempt.started_at)
        dated.append(_event(VersionChange.DEPLOYING, attempt, attempt.started_at, said_of_it))
    dated.sort(key=lambda one: parse_time(one.time) or _LONG_AGO, reverse=True)
    return [*(one for one in found if one.time is None), *dated]


class _Notes:
    """What features, and the gates that were passed over, say of a deploy."""

    def __init__(self, view: BundleView, sources: Iterable[Body]) -> None:
        sources = list(sources)
        self._features = [one.notes(view, sources) for one in load_words()]

    def of(self, entry: HistoryEntry | Attempted, stamp: str | None) -> list[str]:
        """What it was made for, where it came from, and what a forced deploy passed over."""
        over, cause = passed_over(entry.passed_over), describe_cause(entry)
        return [
            *([said(cause)] if cause else ()),
            *(text for notes in self._features for text in notes(entry, stamp)),
            *([f"passed over {said(over)}"] if over else ()),
        ]


def _attempts(view: BundleView, notes: _Notes) -> Iterator[VersionEvent]:
    """The attempts that have ended, oldest first."""
    attempt, spec = view.status.attempted, view.spec
    last: str | None = None
    for entry in reversed(view.status.past):
        is_newest = bool(entry.job) and entry.job == attempt.job
        is_stuck = is_newest and isinstance(spec, BundleSpec) and is_quarantined(spec, view.status)
        change = VersionChange.FAILED
        if entry.outcome == Outcome.SUCCEEDED:
            change = VersionChange.DEPLOYED
            if last is not None and last == entry.digest:
                change = VersionChange.DEPLOYED_AGAIN
            change, last = _BY_CAUSE.get(cause_of(entry), change), entry.digest
        elif entry.outcome == Outcome.INTERRUPTED:
            change = VersionChange.INTERRUPTED
        newest = _of_newest(view, is_stuck=is_stuck) if is_newest else ()
        yield _event(
            change,
            entry,
            entry.time,
            [*notes.of(entry, entry.time), *newest],
            message=attempt.message if is_newest and entry.outcome != Outcome.SUCCEEDED else None,
            command=view.hint("reconcile") if is_stuck else "",
        )


def _of_newest(view: BundleView, *, is_stuck: bool) -> Iterator[str]:
    """Notes that only the newest attempt has."""
    status = view.status
    match status.attempted.rollback:
        case Rollback.SUCCEEDED:
            yield f"rolled back to {said(status.deployed.version)}"
        case Rollback.FAILED:
            yield "the rollback failed, too"
        case Rollback.UNKNOWN:
            yield "whether it was rolled back isn't known"
    if is_stuck:
        yield f"quarantined: it failed {times(status.attempted.failures or 0)}"


def _event(
    change: VersionChange,
    entry: HistoryEntry | Attempted,
    stamp: str | None,
    notes: Sequence[str],
    *,
    message: str | None = None,
    command: str = "",
) -> VersionEvent:
    return VersionEvent(
        change,
        said(entry.version),
        entry.digest or "",
        stamp or "",
        notes,
        reason=said(entry.reason) if entry.reason and entry.outcome != Outcome.SUCCEEDED else "",
        message=said(message, MESSAGE) if message else "",
        command=command,
        tone=_TONES.get(change, Tone.GOOD),
    )
