"""What is remembered of versions that gates hold back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.replacing import replace

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import (
    MAX_CANDIDATES,
    AgeStatus,
    BundleStatus,
    CandidateStatus,
    Deployed,
)
from copyrator.api.text import format_time
from copyrator.bundles.engine.gate import Candidate, Gates
from copyrator.bundles.engine.remembered import (
    lower_tags,
    older_digests,
    record_candidates,
)

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DEPLOYED = Deployed(version="1.0.0", digest="sha256:there", reference="r/a")


def spec(**fields: Any) -> BundleSpec:
    named = {"namespace": "apps", "name": "shop", "registry": "r", "repo": "a"}
    given = {"project_namespace": "apps", "version": "1.*", **fields}
    return BundleSpec(**named, **given)


def one(version: str, digest: str, seen: datetime = NOW) -> CandidateStatus:
    return CandidateStatus(version=version, digest=f"sha256:{digest}", first_seen=format_time(seen))


def candidate(version: str, digest: str) -> Candidate:
    return Candidate(version, f"sha256:{digest}")


def test_what_is_seen_is_remembered_with_its_first_time() -> None:
    known = (one("1.1.0", "a", NOW - HOUR),)
    status = BundleStatus(deployed=DEPLOYED).with_part(AgeStatus(candidates=known))
    seen = [candidate("1.2.0", "b"), candidate("1.1.0", "a"), candidate("1.0.0", "there")]
    assert record_candidates(status, spec(), seen, NOW) == (*known, one("1.2.0", "b"))
    assert record_candidates(status, spec(), seen[::-1], NOW) == (*known, one("1.2.0", "b"))
    assert not Gates().remember(spec(parts=()))


def test_what_is_deployed_and_all_before_it_is_forgotten() -> None:
    known = (
        one("1.1.0", "a"),
        one("1.2.0", "old"),
        one("1.2.0", "there"),
        one("1.2.0", "newer"),
        one("1.3.0", "c"),
    )
    status = BundleStatus(deployed=replace(DEPLOYED, version="1.2.0")).with_part(
        AgeStatus(candidates=known)
    )
    assert record_candidates(status, spec(), (), NOW) == known[3:]


def test_what_the_spec_does_not_admit_any_more_is_forgotten() -> None:
    known = (one("1.1.0", "a"), one("2.0.0", "b"))
    status = BundleStatus(deployed=DEPLOYED).with_part(AgeStatus(candidates=known))
    assert record_candidates(status, spec(), (), NOW) == known[:1]
    assert record_candidates(status, spec(version="2.*"), (), NOW) == known[1:]


def test_remembered_tags_below_the_highest_are_known() -> None:
    known = (one("1.1.0", "a"), one("1.3.0", "c"), one("1.2.0", "b"), one("1.2.0", "b2"))
    status = BundleStatus(deployed=DEPLOYED).with_part(AgeStatus(candidates=known))
    assert lower_tags(status, spec(), ("1.4.0",)) == ("1.3.0", "1.2.0", "1.1.0")
    assert lower_tags(status, spec(), ("1.3.0",)) == ("1.2.0", "1.1.0")
    assert lower_tags(status, spec(version="1.2.*"), ()) == ("1.2.0",)
    there = replace(status, deployed=replace(DEPLOYED, version="1.2.0"))
    assert lower_tags(there, spec(), ()) == ("1.3.0", "1.2.0")
    assert lower_tags(BundleStatus(deployed=DEPLOYED), spec(), ()) == ()


def test_former_digests_of_a_tag_are_tried_the_newest_first() -> None:
    known = (one("latest", "a"), one("latest", "b"), one("1.0", "x"), one("latest", "c"))
    found = older_digests(
        BundleStatus().with_part(AgeStatus(candidates=known)), candidate("latest", "c")
    )
    assert found == (candidate("latest", "b"), candidate("latest", "a"))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60))
def test_a_stream_of_pushes_never_drives_out_the_oldest(pauses: list[int]) -> None:
    """One digest after the other under one tag: the first is there until it may be deployed."""
    status, now = BundleStatus(deployed=replace(DEPLOYED, version="latest")), NOW
    wanted = spec(version="latest")
    for number, pause in enumerate(pauses):
        now += timedelta(minutes=pause)
        seen = [candidate("latest", f"new{number}")]
        status = status.with_part(
            AgeStatus(candidates=record_candidates(status, wanted, seen, now))
        )
        assert len(status.part(AgeStatus).candidates) <= MAX_CANDIDATES
        assert status.part(AgeStatus).candidates[0].digest == "sha256:new0"
        assert status.part(AgeStatus).candidates[-1].digest == f"sha256:new{number}"
        times = [found.first_seen or "" for found in status.part(AgeStatus).candidates]
        assert times == sorted(times)


def test_what_stands_elsewhere_keeps_its_place_in_a_full_list() -> None:
    known = tuple(one(f"1.1.{number}", f"{number}") for number in range(MAX_CANDIDATES))
    status = BundleStatus(deployed=DEPLOYED).with_part(AgeStatus(candidates=known))
    seen, last = [candidate("1.2.0", "new")], (one("1.2.0", "new"),)

    def kept(*stood: int) -> tuple[CandidateStatus, ...]:
        wanted = [f"sha256:{number}" for number in stood]
        return record_candidates(status, spec(), seen, NOW, wanted)

    fewer = status.with_part(AgeStatus(candidates=known[1:]))
    assert record_candidates(fewer, spec(), seen, NOW) == known[1:] + last
    end = MAX_CANDIDATES - 1
    assert kept() == known[:-1] + last
    assert kept(end, end - 1) == known[: end - 2] + known[end - 1 :] + last
    assert kept(*range(MAX_CANDIDATES)) == known[:-1] + last
    assert record_candidates(status, spec(), (), NOW) == known
