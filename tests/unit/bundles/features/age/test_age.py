"""The gate of ``spec.minAge``: for how long a version waits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.replacing import replace

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import AgeStatus, BundleStatus, CandidateStatus, Deployed
from copyrator.api.text import format_time
from copyrator.bundles.engine.gate import (
    NOTHING_FOUND,
    PASSED,
    Candidate,
    Facts,
    Gates,
    Occasion,
    Waiting,
)
from copyrator.bundles.features.age import gates as age
from copyrator.bundles.features.age.fields import AgeSpec

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
    known = (one("1.1.0", "1" * 64, seen),) if seen else ()
    found = BundleStatus(**{"deployed": DEPLOYED, **status})
    facts = Facts(found.with_part(AgeStatus(candidates=known)), Occasion.NEW_DIGEST)
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


def test_a_digest_counts_from_when_it_was_seen_first() -> None:
    known = (one("1.1.0", "a", NOW - HOUR), one("1.1.0", "b"))
    status = BundleStatus(deployed=DEPLOYED).with_part(AgeStatus(candidates=known))
    assert age.first_seen(status, candidate("1.1.0", "a")) == NOW - HOUR
    assert age.first_seen(status, candidate("1.1.0", "other")) is None


def test_the_moments_at_which_recorded_versions_are_old_enough_are_known() -> None:
    known = (one("1.1.0", "a", NOW - HOUR), one("1.2.0", "b", NOW))
    status = BundleStatus(deployed=DEPLOYED).with_part(AgeStatus(candidates=known))
    changes = age.GATE.changes(spec(), status, NOTHING_FOUND)
    assert [*changes] == [NOW + HOUR, NOW + 2 * HOUR]
    assert not [*Gates(version=(age.GATE,)).of(spec(parts=()))]
