"""The gate of ``spec.minAge``: when a version was seen first, and what is remembered of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.replacing import replace

from copyrator.api.age import MAX_CANDIDATES, AgeSpec, AgeStatus, CandidateStatus
from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, Deployed
from copyrator.api.keys import BundleKey
from copyrator.api.promotion import PromotionSpec
from copyrator.api.times import format_time
from copyrator.bundles.gates import age
from copyrator.bundles.gates.gate import (
    NO_SOURCES,
    PASSED,
    Candidate,
    Facts,
    Gates,
    Occasion,
    Waiting,
)

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DEPLOYED = Deployed(version="1.0.0", digest="sha256:there", reference="r/a")


def spec(**fields: Any) -> BundleSpec:
    named = {"namespace": "apps", "name": "shop", "registry": "r", "repo": "a"}
    given = {"project_namespace": "apps", "version": "1.*", "parts": (AgeSpec(7200.0),), **fields}
    return BundleSpec(**named, **given)


def one(version: str, digest: str, seen: datetime = NOW) -> CandidateStatus:
    return CandidateStatus(version=version, digest=f"sha256:{digest}", first_seen=format_time(seen))


def candidate(version: str, digest: str) -> Candidate:
    return Candidate(version, f"sha256:{digest}")


def judge(seen: datetime | None, now: datetime = NOW, **status: Any) -> object:
    facts = Facts(
        BundleStatus(**{"deployed": DEPLOYED, **status}), Occasion.NEW_DIGEST, first_seen=seen
    )
    return age.GATE.judge(spec(), candidate("1.1.0", "1" * 64), facts, now)


def test_a_version_waits_until_it_is_old_enough() -> None:
    assert judge(NOW) == Waiting(
        "TooYoung",
        "1.1.0 (sha256:111111111111) was seen first at 2026-05-04T12:00:00Z, and spec.minAge "
        "requires 2h",
        NOW + 2 * HOUR,
    )
    assert judge(NOW - 2 * HOUR) is PASSED
    assert isinstance(judge(NOW - 2 * HOUR + timedelta(seconds=1)), Waiting)


def test_a_version_that_was_seen_just_now_waits_as_the_status_will_say() -> None:
    late = NOW + timedelta(milliseconds=900)
    assert judge(None, late) == judge(NOW, late)


def test_a_clock_that_was_set_back_lets_nothing_pass_early() -> None:
    assert judge(NOW + HOUR) == judge(NOW + HOUR, NOW + HOUR)


def test_a_first_install_an_edit_and_a_force_do_not_wait() -> None:
    assert judge(None, deployed=Deployed()) is PASSED
    assert judge(None, deployed=replace(DEPLOYED, digest="sha256:" + "1" * 64)) is PASSED
    assert age.GATE.occasions == {Occasion.NEW_DIGEST, Occasion.REQUEST}
    assert age.GATE.concerns(spec())
    assert not age.GATE.concerns(spec(parts=()))


def test_what_is_seen_is_remembered_with_its_first_time() -> None:
    known = (one("1.1.0", "a", NOW - HOUR),)
    status = BundleStatus(deployed=DEPLOYED).with_part(AgeStatus(candidates=known))
    seen = [candidate("1.2.0", "b"), candidate("1.1.0", "a"), candidate("1.0.0", "there")]
    assert age.record_candidates(status, spec(), seen, NOW) == (*known, one("1.2.0", "b"))
    assert age.record_candidates(status, spec(), seen[::-1], NOW) == (*known, one("1.2.0", "b"))
    assert age.first_seen(status, candidate("1.1.0", "a")) == NOW - HOUR
    assert age.first_seen(status, candidate("1.1.0", "other")) is None
    assert age.record_candidates(status, spec(parts=()), seen, NOW) == ()


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
    assert age.record_candidates(status, spec(), (), NOW) == known[3:]


def test_what_the_spec_does_not_admit_any_more_is_forgotten() -> None:
    known = (one("1.1.0", "a"), one("2.0.0", "b"))
    status = BundleStatus(deployed=DEPLOYED).with_part(AgeStatus(candidates=known))
    assert age.record_candidates(status, spec(), (), NOW) == known[:1]
    assert age.record_candidates(status, spec(version="2.*"), (), NOW) == known[1:]


def test_remembered_tags_below_the_highest_are_known() -> None:
    known = (one("1.1.0", "a"), one("1.3.0", "c"), one("1.2.0", "b"), one("1.2.0", "b2"))
    status = BundleStatus(deployed=DEPLOYED).with_part(AgeStatus(candidates=known))
    assert age.lower_tags(status, spec(), ("1.4.0",)) == ("1.3.0", "1.2.0", "1.1.0")
    assert age.lower_tags(status, spec(), ("1.3.0",)) == ("1.2.0", "1.1.0")
    assert age.lower_tags(status, spec(version="1.2.*"), ()) == ("1.2.0",)
    there = replace(status, deployed=replace(DEPLOYED, version="1.2.0"))
    assert age.lower_tags(there, spec(), ()) == ("1.3.0", "1.2.0")
    assert age.lower_tags(BundleStatus(deployed=DEPLOYED), spec(), ()) == ()


def test_former_digests_of_a_tag_are_tried_the_newest_first() -> None:
    known = (one("latest", "a"), one("latest", "b"), one("1.0", "x"), one("latest", "c"))
    found = age.older_digests(
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
            AgeStatus(candidates=age.record_candidates(status, wanted, seen, now))
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
        return age.record_candidates(status, spec(), seen, NOW, wanted)

    fewer = status.with_part(AgeStatus(candidates=known[1:]))
    assert age.record_candidates(fewer, spec(), seen, NOW) == known[1:] + last
    end = MAX_CANDIDATES - 1
    assert kept() == known[:-1] + last
    assert kept(end, end - 1) == known[: end - 2] + known[end - 1 :] + last
    assert kept(*range(MAX_CANDIDATES)) == known[:-1] + last
    promoted = spec(parts=(PromotionSpec((BundleKey("qa", "shop"),)),))
    assert age.record_candidates(status, promoted, (), NOW) == known


def test_the_moments_at_which_recorded_versions_are_old_enough_are_known() -> None:
    known = (one("1.1.0", "a", NOW - HOUR), one("1.2.0", "b", NOW))
    status = BundleStatus(deployed=DEPLOYED).with_part(AgeStatus(candidates=known))
    gates = Gates(version=(age.GATE,))
    assert gates.changes(spec(), status, NO_SOURCES) == (NOW + HOUR, NOW + 2 * HOUR)
    assert gates.changes(spec(parts=()), status, NO_SOURCES) == ()
