"""What happened to the versions of a Bundle, the newest first. Pure.

A status has ten attempts, and the message of the newest one only. That a version was promoted is
found in the other Bundles: one has a record of the same digest, or deployed it before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import (
    Attempted,
    BundleReason,
    HistoryEntry,
    Outcome,
    Rollback,
    parse_status,
)
from copyrator.api.plan_status import PlanDecision
from copyrator.api.text import times
from copyrator.api.times import parse_time
from copyrator.cli.core.output import said
from copyrator.cli.view.bundle import BundleView, passed_over
from copyrator.cli.view.why_bundle import is_quarantined
from copyrator.kube.watch.store import name_of

Body = Mapping[str, Any]
MESSAGE: Final = 8192
"""Characters of the newest attempt's message that are shown."""
_LONG_AGO: Final = datetime(1, 1, 1, tzinfo=UTC)
_LISTED: Final = 20
"""Digests of the annotation skip-digests that are shown."""


class VersionChange(StrEnum):
    """What happened to a version, or holds for it."""

    DEPLOYING = "Deploying"
    DEPLOYED = "Deployed"
    DEPLOYED_AGAIN = "Deployed again"
    CORRECTED = "Drift corrected"
    ROLLED_BACK = "Rolled back"
    FAILED = "Failed"
    INTERRUPTED = "Interrupted"
    PINNED = "Pinned"
    SKIPPED = "Skipped"
    APPROVED = "Approved"
    REJECTED = "Rejected"


@dataclass(frozen=True, slots=True)
class VersionEvent:
    """An entry of the timeline; its texts are printable."""

    change: VersionChange
    version: str
    digest: str
    time: str = ""
    """Empty where none is known: it holds now."""
    notes: Sequence[str] = ()
    """``promoted from apps/staging``, ``approved by ann``."""
    reason: str = ""
    message: str = ""
    command: str = ""
    """Changes it."""


def timeline(view: BundleView, sources: Iterable[Body] = ()) -> list[VersionEvent]:
    """The entries, the newest first, and before them what holds without a time.

    Args:
        view: the Bundle.
        sources: the Bundles that it is promoted from, as far as the user may see them.
    """
    promoted = _Promotions([one for one in sources if isinstance(one.get("status"), Mapping)])
    status = view.status
    dated = [*_attempts(view, promoted), *_decision(view), *_pin(view)]
    if status.attempted.is_running:
        attempt = status.attempted
        notes = _notes(attempt, promoted, attempt.started_at)
        dated.append(_event(VersionChange.DEPLOYING, attempt, attempt.started_at, notes))
    dated.sort(key=lambda one: parse_time(one.time) or _LONG_AGO, reverse=True)
    return [*_skipped(view), *dated]


class _Promotions:
    """Which of the Bundles had a digest, and since when."""

    def __init__(self, bodies: Sequence[Body]) -> None:
        self._since: dict[str, list[tuple[datetime, str]]] = {}
        for body in bodies:
            found = body["status"]
            known = {key: found.get(key) for key in ("soak", "history", "deployed")}
            status = parse_status({"status": known})
            records = [(one.digest, one.since) for one in status.soak]
            records += [
                (one.digest, one.time) for one in status.past if one.outcome == Outcome.SUCCEEDED
            ]
            for digest, stamp in (*records, (status.deployed.digest, status.deployed.time)):
                if digest and (since := parse_time(stamp)) is not None:
                    self._since.setdefault(digest, []).append((since, str(name_of(body))))

    def of(self, digest: str | None, stamp: str | None) -> list[str]:
        """The Bundles that had deployed a digest before it was deployed here."""
        at = parse_time(stamp)
        found = self._since.get(digest or "", ()) if at is not None else ()
        return sorted({name for since, name in found if at is not None and since <= at})


def _attempts(view: BundleView, promoted: _Promotions) -> Iterator[VersionEvent]:
    """The attempts that have ended, oldest first."""
    attempt, pin, spec = view.status.attempted, view.status.pin, view.spec
    had: list[str | None] = []
    for entry in reversed(view.status.past):
        is_newest = bool(entry.job) and entry.job == attempt.job
        is_stuck = is_newest and isinstance(spec, BundleSpec) and is_quarantined(spec, view.status)
        change, notes = VersionChange.FAILED, _notes(entry, promoted, entry.time)
        if entry.outcome == Outcome.SUCCEEDED:
            change = VersionChange.DEPLOYED
            if had and had[-1] == entry.digest:
                change = VersionChange.DEPLOYED_AGAIN
            elif entry.digest in had or (entry.digest == pin.digest and entry.digest):
                change = VersionChange.ROLLED_BACK
            if entry.correction:
                change = VersionChange.CORRECTED
            had.append(entry.digest)
        elif entry.outcome == Outcome.INTERRUPTED:
            change = VersionChange.INTERRUPTED
        yield _event(
            change,
            entry,
            entry.time,
            [*notes, *(_of_newest(view, is_stuck=is_stuck) if is_newest else ())],
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


def _notes(entry: HistoryEntry | Attempted, promoted: _Promotions, stamp: str | None) -> list[str]:
    """By whom it was approved, where it came from, and what a forced deploy passed over."""
    over = passed_over(entry.passed_over)
    came = promoted.of(entry.digest, stamp)
    return [
        *([f"promoted from {said(', '.join(came))}"] if came else ()),
        *([f"approved by {said(entry.approved_by)}"] if entry.approved_by else ()),
        *([f"passed over {said(over)}"] if over else ()),
    ]


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
    )


def _decision(view: BundleView) -> Iterator[VersionEvent]:
    """A plan that was decided about and isn't deployed yet."""
    plan, attempt = view.status.plan, view.status.attempted
    changes = {
        str(PlanDecision.APPROVED): VersionChange.APPROVED,
        str(PlanDecision.REJECTED): VersionChange.REJECTED,
    }
    change = changes.get(str(plan.decision))
    if change is None or (plan.id and plan.id == attempt.plan):
        return
    notes = [f"by {said(plan.by)}"] if plan.by else []
    yield VersionEvent(change, said(plan.version), plan.digest or "", plan.at or "", notes)


def _pin(view: BundleView) -> Iterator[VersionEvent]:
    pin = view.status.pin
    if pin.digest is not None:
        yield VersionEvent(
            VersionChange.PINNED,
            said(pin.version),
            pin.digest,
            pin.at or "",
            ["no other version is deployed"],
            command=view.hint("unpin"),
        )


def _skipped(view: BundleView) -> Iterator[VersionEvent]:
    """Digests that the annotation names, with their versions where the status has them."""
    spec, status = view.spec, view.status
    if not isinstance(spec, BundleSpec):
        return
    known = {one.digest: one.version for one in status.past}
    known |= {one.digest: one.version for one in status.soak}
    known |= {one.digest: one.version for one in status.candidates}
    tags = [one.version for one in status.available.rejected if one.reason == BundleReason.SKIPPED]
    nameless = [one for one in spec.skip_digests if one not in known]
    if len(tags) == len(nameless) == 1:
        known[nameless[0]] = tags[0]
    for digest in spec.skip_digests[:_LISTED]:
        yield VersionEvent(
            VersionChange.SKIPPED,
            said(known.get(digest)),
            digest,
            notes=["it is never deployed"],
            command=view.hint("unskip", known.get(digest) or digest),
        )
