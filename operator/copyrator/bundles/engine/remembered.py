"""``status.candidates``: the versions that gates hold back, with when each was seen first. Pure.

All digests of a tag that is pushed repeatedly are remembered, so that the oldest of them, not the
newest, is deployed when it passes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import MAX_CANDIDATES, AgeStatus, BundleStatus, CandidateStatus
from copyrator.api.text import format_time
from copyrator.bundles.engine.gate import Candidate
from copyrator.bundles.tags import admits, deployed_tag, is_below, read_tag


def older_digests(status: BundleStatus, candidate: Candidate) -> tuple[Candidate, ...]:
    """The other digests that were seen under its tag, the newest first."""
    found = [
        _candidate_of(one)
        for one in status.part(AgeStatus).candidates
        if one.version == candidate.version
    ]
    return tuple(one for one in reversed(found) if one != candidate)


def lower_tags(status: BundleStatus, spec: BundleSpec, tags: Collection[str]) -> tuple[str, ...]:
    """The tags of remembered candidates except these, the highest first."""
    known = {one.version or "" for one in status.part(AgeStatus).candidates} - set(tags)
    found = [candidate for tag in known if (candidate := read_tag(tag)) and admits(spec, tag)]
    deployed = deployed_tag(status, spec.reference) or ""
    found.sort(key=lambda one: one.order, reverse=True)
    return tuple(one.tag for one in found if not is_below(one.tag, deployed))


def record_candidates(
    status: BundleStatus,
    spec: BundleSpec,
    seen: Iterable[Candidate],
    now: datetime,
    preferred: Collection[str] = (),
) -> tuple[CandidateStatus, ...]:
    """``status.candidates`` after a poll of a Bundle with such gates (``Gates.remember``).

    When the list is full, the newest replaces the second newest: so frequent pushes never remove
    those that become old enough first, nor those that a gate prefers.

    Args:
        status: before the poll.
        spec: versions that it doesn't admit aren't remembered.
        seen: the registry's versions, in any order.
        now: the time of the poll.
        preferred: digests that stay.
    """
    kept = [one for one in _not_passed(status, spec) if admits(spec, one.version or "")]
    for candidate in seen:
        known = any(_candidate_of(one) == candidate for one in kept)
        if known or candidate.digest == status.deployed.digest:
            continue
        kept.append(
            CandidateStatus(
                version=candidate.version, digest=candidate.digest, first_seen=format_time(now)
            )
        )
        if len(kept) > MAX_CANDIDATES:
            others = [i for i, one in enumerate(kept[:-1]) if one.digest not in preferred]
            del kept[others[-1] if others else -2]
    return tuple(kept)


def _not_passed(status: BundleStatus, spec: BundleSpec) -> list[CandidateStatus]:
    """The candidates without what is deployed, and those that are lower or older than that."""
    tag = deployed_tag(status, spec.reference)
    kept: list[CandidateStatus] = []
    for one in status.part(AgeStatus).candidates:
        if tag is not None and is_below(one.version or "", tag):
            continue
        if one.digest == status.deployed.digest:
            kept = [other for other in kept if other.version != one.version]
            continue
        kept.append(one)
    return kept


def _candidate_of(record: CandidateStatus) -> Candidate:
    return Candidate(record.version or "", record.digest or "")
