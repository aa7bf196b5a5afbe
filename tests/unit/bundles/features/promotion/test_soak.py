"""How long versions have been deployed in a Bundle, by events with a fake clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conditions import conditions
from tests.replacing import replace
from tests.status_fields import changed

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import Attempted, BundleStatus, Deployed, Outcome
from copyrator.api.keys import BundleKey
from copyrator.api.seen_time import Gap, SeenTime
from copyrator.api.text import format_time
from copyrator.bundles.engine.gate import (
    Candidate,
    Facts,
    Findings,
    Occasion,
    Passed,
    Verdict,
    Waiting,
)
from copyrator.bundles.features.promotion.fields import (
    MAX_SOAKS,
    PromotionSpec,
    PromotionStatus,
    SoakStatus,
)
from copyrator.bundles.features.promotion.gates import GATE, PromotionSource, Sources
from copyrator.bundles.features.promotion.soak import (
    Surroundings,
    update_records,
    valid_records,
)
from copyrator.bundles.features.rollback.fields import PinStatus

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
REPO = "registry.example.com/shop"
ALL_BAD = [
    {"type": "Drifted", "status": "True"},
    {"type": "Healthy", "status": "False"},
    {"type": "AsApproved", "status": "False"},
]
NEEDS = {
    "Drifted": pytest.mark.needs("drift"),
    "Healthy": pytest.mark.needs("health"),
    "AsApproved": pytest.mark.needs("approval"),
}
"""The features that say which of their conditions withdraws evidence."""


def digest(version: str) -> str:
    return "sha256:" + version.encode().hex().ljust(64, "0")


@dataclass
class Bundle:
    """A source to which things happen, and whose status is written then."""

    now: datetime = NOON
    status: BundleStatus = field(default_factory=BundleStatus)
    around: Surroundings = field(default_factory=Surroundings)
    writes: int = 0

    def write(self, **changes: Any) -> Self:
        status = changed(self.status, **changes)
        soak = update_records(self.status.part(PromotionStatus).soak, status, self.around, self.now)
        self.writes += soak != self.status.part(PromotionStatus).soak
        self.status = status.with_part(PromotionStatus(soak=soak))
        return self

    def later(self, minutes: float) -> Self:
        self.now += timedelta(minutes=minutes)
        return self

    def begin(self, version: str, name: str = "", reference: str = REPO) -> Self:
        attempted = Attempted(
            version=version,
            digest=digest(name or version),
            reference=reference,
            outcome=Outcome.RUNNING,
        )
        return self.write(attempted=attempted)

    def end(self, outcome: Outcome = Outcome.SUCCEEDED) -> Self:
        attempted = replace(self.status.attempted, outcome=outcome)
        if outcome is not Outcome.SUCCEEDED:
            return self.write(attempted=attempted)
        deployed = Deployed(
            version=attempted.version,
            digest=attempted.digest,
            reference=attempted.reference,
            time=format_time(self.now),
        )
        return self.write(attempted=attempted, deployed=deployed)

    def deploy(self, version: str, name: str = "", reference: str = REPO) -> Self:
        return self.begin(version, name, reference).end()

    def hold(self, text: str | None) -> Self:
        self.around = replace(self.around, hold=text)
        return self.write()

    def pin(self, version: str, name: str = "") -> Self:
        return self.write(pin=PinStatus(version=version, digest=digest(name or version)))

    def condition(self, kind: str, status: str) -> Self:
        return self.write(conditions=conditions({"type": kind, "status": status}))

    def ready(self, reason: str) -> Self:
        return self.write(conditions=conditions({"type": "Ready", "reason": reason}))

    @property
    def soak(self) -> list[tuple[str, float | None, bool]]:
        """Each record: version, minutes of the longest stretch that ended, whether one goes on."""
        found = []
        for one in self.status.part(PromotionStatus).soak:
            longest = one.longest_period
            minutes = None if longest is None else longest.total_seconds() / 60
            found.append((one.version or "", minutes, one.until is None))
        return found


def running(minutes: float = 30) -> Bundle:
    """A Bundle that has run 1.1.0 for half an hour."""
    return Bundle().deploy("1.1.0").later(minutes)


def test_a_part_of_a_second_does_not_count() -> None:
    bundle = Bundle(now=NOON + timedelta(milliseconds=1)).deploy("1.1.0")
    assert bundle.status.part(PromotionStatus).soak[0].since == format_time(
        NOON + timedelta(seconds=1)
    )


def test_time_alone_writes_nothing() -> None:
    bundle = running()
    writes = bundle.writes
    assert bundle.later(9000).write().writes == writes


@pytest.mark.parametrize(
    ("happens", "soak", "by"),
    [
        (lambda b: b.begin("1.2.0"), [("1.1.0", 30, False)], "a deploy of 1.2.0 began"),
        (lambda b: b.begin("1.1.0"), [("1.1.0", 30, False)], "a deploy of 1.1.0 began"),
        (
            lambda b: b.begin("1.0.0"),
            [("1.1.0", None, False)],
            "a deploy of 1.0.0 began",
        ),
        (
            lambda b: b.begin("1.0.0", reference="elsewhere/shop"),
            [("1.1.0", 30, False)],
            "a deploy of 1.0.0 began",
        ),
        (
            lambda b: b.begin("1.2.0").end(Outcome.INTERRUPTED),
            [("1.1.0", 30, False)],
            "a deploy of 1.2.0 began",
        ),
        (
            lambda b: b.begin("1.2.0").end(Outcome.FAILED),
            [("1.1.0", None, False)],
            "a deploy of 1.2.0 failed",
        ),
        (
            lambda b: b.begin("1.1.0").end(Outcome.FAILED),
            [("1.1.0", None, False)],
            "a deploy of 1.1.0 failed",
        ),
        (lambda b: b.hold("tests"), [("1.1.0", None, False)], "it was held: tests"),
        (lambda b: b.pin("1.0.0"), [("1.1.0", None, False)], "it is rolled back to 1.0.0"),
        (
            lambda b: b.pin("1.1.0", "another digest"),
            [("1.1.0", None, False)],
            "it is rolled back to 1.1.0",
        ),
        pytest.param(
            lambda b: b.condition("Drifted", "True").pin("1.0.0"),
            [("1.1.0", None, False)],
            "objects of the release drifted",
            marks=NEEDS["Drifted"],
        ),
        pytest.param(
            lambda b: b.condition("Drifted", "True"),
            [("1.1.0", None, False)],
            "objects of the release drifted",
            marks=NEEDS["Drifted"],
        ),
        pytest.param(
            lambda b: b.condition("Healthy", "False"),
            [("1.1.0", None, False)],
            "the release wasn't healthy",
            marks=NEEDS["Healthy"],
        ),
        pytest.param(
            lambda b: b.condition("AsApproved", "False"),
            [("1.1.0", None, False)],
            "1.1.0 wasn't deployed as approved",
            marks=NEEDS["AsApproved"],
        ),
        pytest.param(
            lambda b: b.write(conditions=conditions(*ALL_BAD)),
            [("1.1.0", None, False)],
            "1.1.0 wasn't deployed as approved",
            marks=NEEDS.values(),
        ),
    ],
    ids=[
        "a newer version",
        "the same again: values",
        "a lower version",
        "another repository's tags don't compare",
        "interrupted",
        "failed",
        "failed itself",
        "held",
        "rolled back",
        "rolled back to another digest of the tag",
        "rolled back after it was broken",
        "drifted",
        "unhealthy",
        "not as approved",
        "all at once",
    ],
)
def test_what_ends_a_stretch_and_what_withdraws_the_evidence(happens, soak, by) -> None:
    bundle = happens(running())
    assert bundle.soak == soak
    assert bundle.status.part(PromotionStatus).soak[0].broken_by == by
    writes = bundle.writes
    assert bundle.later(60).write().writes == writes, "it is said once"


@pytest.mark.parametrize(
    "happens",
    [
        lambda b: b.condition("Drifted", "Unknown"),
        lambda b: b.condition("Drifted", "False"),
        lambda b: b.condition("Healthy", "Unknown"),
        lambda b: b.condition("Healthy", "True"),
        lambda b: b.write(
            conditions=conditions({"type": "Ready", "reason": "RegistryUnreachable"})
        ),
        lambda b: b.ready("ValuesMissing"),
        lambda b: b.ready("Suspended"),
        lambda b: b.ready("InvalidSpec"),
        lambda b: b.condition("AsApproved", "Unknown"),
        lambda b: b.condition("AsApproved", "True"),
        lambda b: b.condition("Synced", "False"),
        lambda b: b.pin("1.1.0"),
        lambda b: b.pin("1.2.0"),
        lambda b: b.write(pin=PinStatus(requested="none")),
    ],
)
def test_what_does_not_end_a_stretch(happens) -> None:
    assert happens(running()).soak == [("1.1.0", None, True)]


@pytest.mark.parametrize(
    ("happens", "by"),
    [
        (
            lambda b: b.write(
                conditions=conditions({"type": "Ready", "reason": "ReleaseConflict"})
            ),
            "the release is another Bundle's",
        ),
        (
            lambda b: setattr(b, "around", Surroundings(is_deleted=True)) or b.write(),
            "the Bundle is being deleted",
        ),
        (
            lambda b: b.write(
                attempted=replace(b.status.attempted, version="1.2.0", outcome=Outcome.INTERRUPTED)
            ),
            "a deploy of 1.2.0 was interrupted",
        ),
        (
            lambda b: b.write(
                attempted=replace(
                    b.status.attempted,
                    version="1.0.0",
                    digest=digest("1.0.0"),
                    outcome=Outcome.INTERRUPTED,
                )
            ),
            "a deploy of 1.0.0 was interrupted",
        ),
        (
            lambda b: b.write(
                deployed=replace(b.status.deployed, version="1.2.0", digest=digest("1.2.0"))
            ),
            "1.2.0 was deployed",
        ),
    ],
    ids=[
        "the release is another's",
        "deleted",
        "interrupted before it was seen",
        "a lower one interrupted",
        "deployed",
    ],
)
def test_what_ends_it_and_withdraws_nothing(happens, by) -> None:
    bundle = happens(running())
    assert bundle.soak[0] == ("1.1.0", 30, False)
    assert bundle.status.part(PromotionStatus).soak[0].broken_by == by


def test_a_bundle_without_a_deploy_keeps_its_records_as_they_are() -> None:
    known = running().status.part(PromotionStatus).soak
    assert update_records(known, BundleStatus(), Surroundings(), NOON + timedelta(hours=9)) == known


def test_what_no_clock_says_does_not_stand() -> None:
    moments = (None, "garbage", "9999-12-31T23:59:59Z")
    assert valid_records([SoakStatus(digest="x", since=since) for since in moments], None) == ()
    sound = SoakStatus(digest="x", since=format_time(NOON))
    assert valid_records([sound, replace(sound, digest=None)], NOON) == (sound,)


def test_of_one_tag_a_digest_that_stood_before_is_down() -> None:
    bundle = Bundle().deploy("latest", "a").later(5).deploy("latest", "b").later(5)
    assert bundle.soak == [("latest", 5, False), ("latest", None, True)]
    bundle.deploy("latest", "a")
    assert bundle.soak == [("latest", None, False), ("latest", 5, True)]
    assert bundle.deploy("latest", "c").soak[0] == ("latest", None, False)


def test_a_correction_that_is_broken_off_leaves_what_runs_as_it_was() -> None:
    bundle = running().begin("1.1.0")
    bundle.status = replace(
        bundle.status, attempted=replace(bundle.status.attempted, correction=True)
    )
    assert bundle.end(Outcome.INTERRUPTED).soak == [("1.1.0", 30, True)]


def test_a_deploy_that_another_version_of_the_operator_made_begins_anew() -> None:
    bundle = running()
    bundle.status = replace(
        bundle.status, deployed=replace(bundle.status.deployed, time=format_time(bundle.now))
    )
    assert bundle.write().soak == [("1.1.0", None, True)]
    assert bundle.status.part(PromotionStatus).soak[0].since == format_time(bundle.now)
    there = replace(bundle.status.deployed, version="1.0.0", digest=digest("1.0.0"))
    bundle.later(4).status = replace(bundle.status, deployed=there)
    assert bundle.write().soak == [("1.1.0", None, False), ("1.0.0", None, True)]


def test_a_gap_does_not_count() -> None:
    bundle = running()
    gap = Gap(NOON + timedelta(minutes=10), NOON + timedelta(minutes=25))
    bundle.around = replace(bundle.around, seen=SeenTime(gaps=(gap,)))
    assert bundle.begin("1.2.0").soak == [("1.1.0", 15, False)]


def test_what_is_older_than_the_bundle_is_anothers() -> None:
    bundle = running().deploy("1.2.0").later(1)
    created = NOON + timedelta(minutes=31)
    assert valid_records(bundle.status.part(PromotionStatus).soak, created) == ()
    bundle.around = Surroundings(created=created)
    assert bundle.write().soak == [("1.2.0", None, True)]
    assert bundle.status.part(PromotionStatus).soak[0].since == format_time(created)
    bundle.later(-30).deploy("1.2.0")
    assert bundle.status.part(PromotionStatus).soak[0].since == format_time(created), (
        "never before it existed"
    )


def test_ten_are_kept_those_without_evidence_go_first_and_then_the_oldest() -> None:
    bundle = Bundle()
    for number in range(MAX_SOAKS - 1):
        bundle.deploy(f"1.{number}.0").later(1)
    bundle.begin("1.90.0").end(Outcome.FAILED).deploy("1.91.0").later(1).deploy("1.92.0").later(1)
    versions = [version for version, *_ in bundle.soak]
    assert len(versions) == MAX_SOAKS
    assert "1.8.0" not in versions
    assert versions[0] == "1.0.0"
    assert next(version for version, *_ in bundle.deploy("1.93.0").soak) == "1.1.0"


def test_the_last_one_without_evidence_goes_before_the_oldest() -> None:
    bundle = Bundle()
    for number in range(MAX_SOAKS):
        bundle.deploy(f"1.{number}.0").later(1)
    bundle.begin("1.90.0").end(Outcome.FAILED).deploy("1.91.0")
    versions = [version for version, *_ in bundle.soak]
    assert versions == [*(f"1.{number}.0" for number in range(MAX_SOAKS - 1)), "1.91.0"]


def test_what_another_operator_deployed_may_be_down_as_well() -> None:
    bundle = Bundle().deploy("latest", "a").later(5).deploy("latest", "b").later(5)
    bundle.write(deployed=replace(bundle.status.deployed, digest=digest("a")))
    assert bundle.soak == [("latest", None, False), ("latest", 5, True)]


FORGED = st.builds(
    SoakStatus,
    version=st.none() | st.sampled_from(["1.1.0", "latest", "\x00", "x" * 300]),
    digest=st.none() | st.sampled_from([digest("1.1.0"), digest("1.0.0"), "", "x"]),
    since=st.none() | st.sampled_from(["", "garbage", "9999-12-31T23:59:59Z", format_time(NOON)]),
    until=st.none() | st.sampled_from(["", "garbage", format_time(NOON)]),
    longest=st.none() | st.sampled_from(["", "1h", "-1h", "x", "9" * 28 + "h", "999999999h"]),
)


@given(st.lists(FORGED, max_size=20))
def test_a_forged_status_raises_nothing(records: list[SoakStatus]) -> None:
    bundle = running()
    bundle.status = bundle.status.with_part(PromotionStatus(soak=tuple(records)))
    for happens in (
        bundle.write,
        lambda: bundle.begin("1.0.0"),
        bundle.end,
        lambda: bundle.hold("x"),
    ):
        happens()
        assert len(bundle.status.part(PromotionStatus).soak) <= max(MAX_SOAKS, len(records))


@dataclass
class Observer:
    """Counts by events what a Bundle's status has to say."""

    longest: dict[str, timedelta | None] = field(default_factory=dict)
    start: datetime | None = None

    def happens(self, before: Bundle, now: Bundle) -> None:
        was, there = before.status.deployed.version or "", now.status.deployed.version or ""
        outcome, before_now = now.status.attempted.outcome, now.now
        drifted = now.status.condition("Drifted").is_true
        bad = drifted or now.around.hold is not None or outcome == Outcome.FAILED
        if self.start is not None and (bad or outcome != Outcome.SUCCEEDED):
            soaked = max(before_now - self.start, timedelta())
            self.longest[was] = max(self.longest.get(was) or timedelta(), soaked)
            self.start = None
        down = outcome == Outcome.RUNNING and (now.status.attempted.version or "") < there
        if there in self.longest and (bad or down):
            self.longest[there] = None
        if there and self.start is None and not bad and outcome == Outcome.SUCCEEDED:
            self.start = max(now.now, datetime.fromisoformat(now.status.deployed.time or ""))
            self.longest.setdefault(there, None)


BEGINS = [lambda b, v=version: b.begin(v) for version in ("1.0.0", "1.1.0", "1.2.0")]
ENDS = [lambda b, o=outcome: b.end(o) for outcome in Outcome if outcome is not Outcome.RUNNING]
OTHERS = [
    lambda b: b.hold("x"),
    lambda b: b.hold(None),
    lambda b: b.condition("Drifted", "True"),
    lambda b: b.condition("Drifted", "False"),
    lambda b: b.later(3),
    lambda b: b.later(7),
    lambda b: b.later(-2),
]


@pytest.mark.needs("drift")
@given(st.lists(st.tuples(st.integers(0, 99), st.booleans()), max_size=60))
def test_the_evidence_and_the_verdicts_are_what_an_observer_of_all_events_counts(
    picks: list[Any],
) -> None:
    bundle, observer = Bundle(), Observer()
    for pick, attempts in picks:
        runs = bundle.status.attempted.outcome == Outcome.RUNNING
        choices = (ENDS if runs else BEGINS) if attempts else OTHERS
        before = replace(bundle)
        choices[pick % len(choices)](bundle)
        observer.happens(before, bundle)
        counted = {
            one.version or "": (one.longest_period, one.until is None)
            for one in bundle.status.part(PromotionStatus).soak
        }
        there = bundle.status.deployed.version
        assert counted == {
            version: (longest, version == there and observer.start is not None)
            for version, longest in observer.longest.items()
        }
        for version in ("1.0.0", "1.1.0", "1.2.0"):
            check_verdict(bundle, observer, version)


SOAK = timedelta(minutes=8)
SPEC = BundleSpec(
    namespace="production",
    name="shop",
    registry="r",
    repo="a",
    project_namespace="production",
    parts=(PromotionSpec((BundleKey("production", "staging"),), SOAK.total_seconds()),),
)


def check_verdict(bundle: Bundle, observer: Observer, version: str) -> None:
    """A version passes exactly when its soak has ended, and a wait ends as it says."""

    def judged(now: datetime) -> Verdict:
        source = PromotionSource(
            name="production/staging",
            is_allowed=True,
            hold=bundle.around.hold,
            running=bundle.status.deployed.digest,
            soak=bundle.status.part(PromotionStatus).soak,
        )
        facts = Facts(BundleStatus(), Occasion.NEW_DIGEST, findings=Findings((Sources((source,)),)))
        return GATE.judge(SPEC, Candidate(version, digest(version)), facts, now)

    goes_on = observer.start if version == bundle.status.deployed.version else None
    soaked = max(
        observer.longest.get(version) or timedelta(),
        timedelta() if goes_on is None else bundle.now - goes_on,
    )
    verdict = judged(bundle.now)
    assert isinstance(verdict, Passed) == (soaked >= SOAK)
    if isinstance(verdict, Waiting):
        assert verdict.until == (None if goes_on is None else goes_on + SOAK)
        if verdict.until is not None:
            assert isinstance(judged(verdict.until), Passed)
            assert isinstance(judged(verdict.until - timedelta(seconds=1)), Waiting)
