"""The gate of ``spec.promoteFrom``, with a fake clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import causes
from tests.builders.bundles import bundle
from tests.replacing import replace

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, Deployed, GateStatus
from copyrator.api.keys import BundleKey
from copyrator.api.schema import InvalidSpec
from copyrator.api.seen_time import ALL_SEEN, Gap, SeenTime
from copyrator.api.text import format_time
from copyrator.bundles.engine.deciding import DeployReason
from copyrator.bundles.engine.gate import (
    NOTHING_FOUND,
    PASSED,
    Candidate,
    Facts,
    Findings,
    Occasion,
    Refused,
    Verdict,
    Waiting,
)
from copyrator.bundles.features.promotion.feature import PromotionFeature
from copyrator.bundles.features.promotion.fields import (
    DEFAULT_SOAK,
    MAX_HOLD_TEXT,
    PromotionSpec,
    SoakStatus,
    allows_promotion,
    hold_text,
)
from copyrator.bundles.features.promotion.gates import GATE, GATES, PromotionSource, Sources
from copyrator.bundles.fields import BundleDefaults, parse_bundle

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
DIGEST = "sha256:" + "1" * 64
SHOWN = f"1.4.2 ({DIGEST[:19]})"
WANTED = Candidate("1.4.2", DIGEST)
OWN = "operator.werf.dev/"


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def parsed(promote_from: Any) -> BundleSpec | InvalidSpec:
    body = bundle(namespace="production", promoteFrom=promote_from)
    return parse_bundle(body, BundleDefaults())


def spec_of(soak: str = "1h") -> BundleSpec:
    found = parsed({"bundles": [{"namespace": "staging", "name": "shop"}], "soak": soak})
    assert isinstance(found, BundleSpec)
    return found


def test_a_source_is_in_the_same_namespace_unless_it_says_another() -> None:
    named = [{"name": "a"}, {"namespace": "staging", "name": "shop"}, {"name": "a"}]
    found = parsed({"bundles": named})
    assert isinstance(found, BundleSpec)
    keys = (BundleKey("production", "a"), BundleKey("staging", "shop"))
    assert found.part(PromotionSpec).bundles == keys
    assert found.part(PromotionSpec).soak == DEFAULT_SOAK
    assert GATE.concerns(found)
    none = parsed(None)
    assert isinstance(none, BundleSpec)
    assert not GATE.concerns(none)
    assert "'b*' is a pattern" in str(parsed({"bundles": [{"name": "a", "namespace": "b*"}]}))


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        (None, False),
        ("", False),
        ("production", True),
        ("dev, production ,x", True),
        ("prod*", True),
        ("*", True),
        ("Production", False),
        ("prod", False),
        ("x" * 1023, False),
        ("production," + "x" * 1013, False),
        ("production," + ",".join(f"{n}*" for n in range(64)), True),
        ("production," + ",".join(f"{n}*" for n in range(65)), False),
    ],
)
def test_another_namespace_needs_the_consent_of_the_source(text: str | None, allowed: bool) -> None:
    annotations = {} if text is None else {f"{OWN}promote-to": text}
    assert allows_promotion(annotations, "staging", "production") is allowed
    assert allows_promotion(annotations, "production", "production")


def test_the_text_of_a_hold_is_one_line_and_bounded() -> None:
    def shown(text: str) -> str | None:
        return hold_text({f"{OWN}hold": text})

    assert hold_text({}) is None
    assert shown("load\ttest\n\nfailed \x1b[0m\u202e") == "load test failed [0m"
    assert shown(" \n") == shown("") == "no reason is given"
    assert shown("x" * MAX_HOLD_TEXT) == "x" * MAX_HOLD_TEXT
    assert shown("x" + " " * (4 * MAX_HOLD_TEXT - 1) + "y") == "x"
    long = shown("x" * 1000)
    assert long is not None
    assert (len(long), long[-1]) == (MAX_HOLD_TEXT, "…")


def source(name: str = "staging/shop", **fields: Any) -> PromotionSource:
    return PromotionSource(name=name, is_allowed=True, **fields)


def soaked(**fields: Any) -> PromotionSource:
    record = {"version": "1.4.2", "digest": DIGEST, "since": format_time(NOON), **fields}
    return source(soak=(SoakStatus(**record),), running=DIGEST)


def judge(*sources: PromotionSource, now: datetime = NOON, seen: SeenTime = ALL_SEEN) -> Verdict:
    facts = Facts(BundleStatus(), Occasion.NEW_DIGEST, findings=Findings((Sources(sources, seen),)))
    return GATE.judge(spec_of(), WANTED, facts, now)


ASKED = "and spec.promoteFrom.soak requires 1h"


@pytest.mark.parametrize(
    ("found", "now", "verdict"),
    [
        (
            PromotionSource(name="staging/shop"),
            NOON,
            Refused(
                "PromotionNotAllowed",
                "Bundle staging/shop doesn't exist, or doesn't allow the namespace production by "
                "the annotation operator.werf.dev/promote-to",
                is_retried=True,
            ),
        ),
        (
            PromotionSource(name="production/x"),
            NOON,
            Waiting("NotPromoted", f"{SHOWN} waits, as Bundle production/x doesn't exist"),
        ),
        (
            source(),
            NOON,
            Waiting(
                "NotPromoted",
                f"{SHOWN} hasn't been deployed in Bundle staging/shop, where "
                "spec.promoteFrom.soak requires 1h",
            ),
        ),
        (
            soaked(),
            at(59),
            Waiting(
                "NotPromoted",
                f"{SHOWN} has been deployed in Bundle staging/shop since 2026-05-04T12:00:00Z, "
                f"{ASKED}",
                at(60),
            ),
        ),
        (soaked(), at(60) - timedelta(microseconds=1), at(60)),
        (soaked(), at(60), PASSED),
        (soaked(), at(-60), at(60)),
        (soaked(longest="59m59s"), at(1), at(60)),
        (soaked(longest="1h"), at(1), PASSED),
        (soaked(longest="1h", until=format_time(at(90))), at(91), PASSED),
        (
            soaked(longest="30m", until=format_time(at(30)), broken_by="a deploy of 1.5.0 began"),
            at(600),
            Waiting(
                "NotPromoted",
                f"{SHOWN} was deployed in Bundle staging/shop for 30m at most, until "
                f"2026-05-04T12:30:00Z (a deploy of 1.5.0 began), {ASKED}",
            ),
        ),
        (
            soaked(longest="30m", until=format_time(at(30))),
            at(600),
            Waiting(
                "NotPromoted",
                f"{SHOWN} was deployed in Bundle staging/shop for 30m at most, until "
                f"2026-05-04T12:30:00Z, {ASKED}",
            ),
        ),
        (
            soaked(until=format_time(at(90)), broken_by="it was held: no"),
            at(600),
            Waiting(
                "NotPromoted",
                f"{SHOWN} no longer counts in Bundle staging/shop since 2026-05-04T13:30:00Z "
                f"(it was held: no), {ASKED}",
            ),
        ),
        (
            replace(soaked(), hold="no"),
            at(600),
            Waiting("PromotionHeld", f"{SHOWN}: Bundle staging/shop is held: no"),
        ),
        (replace(soaked(longest="2h"), hold="no", running="sha256:other"), at(600), PASSED),
    ],
    ids=[
        "not allowed",
        "none of its own namespace",
        "not deployed there",
        "it stands",
        "a moment before",
        "to the second",
        "the clock was set back",
        "the longest stretch isn't enough, the open one will be",
        "the longest stretch was enough",
        "it has ended, and was enough",
        "it has ended too soon",
        "nobody knows why",
        "the evidence was withdrawn",
        "held",
        "held while another version runs",
    ],
)
def test_the_verdict_on_one_source(
    found: PromotionSource, now: datetime, verdict: Verdict | datetime
) -> None:
    got = judge(found, now=now)
    if isinstance(verdict, datetime):
        assert isinstance(got, Waiting)
        assert got.until == verdict
    else:
        assert got == verdict


def test_it_must_have_stood_in_all_of_them_and_the_last_end_counts() -> None:
    later = replace(soaked(since=format_time(at(10))), name="qa/shop")
    got = judge(soaked(), later, now=at(5))
    assert isinstance(got, Waiting)
    assert got.until == at(70)
    assert judge(soaked(), later, now=at(60)) == replace(
        got, message=got.message.partition("; ")[2]
    )
    assert judge(soaked(), later, now=at(70)) is PASSED
    never = judge(soaked(), source("qa/shop"), now=at(5))
    assert isinstance(never, Waiting)
    assert never.until is None
    assert never.message.startswith(f"{SHOWN} hasn't been deployed in Bundle qa/shop")
    refused = judge(soaked(), replace(soaked(), hold="x"), PromotionSource(name="qa/shop"))
    assert isinstance(refused, Refused)
    held = judge(source(), replace(soaked(), hold="x"))
    assert isinstance(held, Waiting)
    assert held.reason == "PromotionHeld"


@pytest.mark.parametrize(("count", "more"), [(3, ""), (4, "; and 1 more"), (5, "; and 2 more")])
def test_a_message_names_three(count: int, more: str) -> None:
    got = judge(*(source(f"staging/{n}") for n in range(count)))
    assert isinstance(got, Waiting)
    assert got.message.endswith(f"requires 1h{more}")
    assert got.message.count("Bundle") == 3


@pytest.mark.parametrize(
    ("count", "named"), [(1, "a/0"), (3, "a/0, a/1, a/2"), (5, "a/0, a/1, a/2 and 2 more")]
)
def test_what_ends_the_wait_names_three(count: int, named: str) -> None:
    found = parsed({"bundles": [{"namespace": "a", "name": f"{n}"} for n in range(count)]})
    assert isinstance(found, BundleSpec)
    assert GATE.ends is not None
    assert GATE.ends(found) == f"its soak of 24h in {named} ends"
    keys = {"cosign": {"keysFrom": {"kind": "Secret", "name": "k"}}}
    elsewhere = parsed({"attestations": [{"environment": "prod"} | keys]})
    assert isinstance(elsewhere, BundleSpec)
    assert GATE.ends(elsewhere) == "its withdrawal is too old to count"


def test_time_that_nobody_saw_does_not_count_and_is_said() -> None:
    seen = SeenTime(gaps=(Gap(at(10), at(25)),))
    got = judge(soaked(), now=at(60), seen=seen)
    assert isinstance(got, Waiting)
    assert got.until == at(75)
    assert "since 2026-05-04T12:00:00Z (15m without an operator don't count), and" in got.message
    # The end of a gap is rounded up to whole seconds, so it may be in the future.
    assert judge(soaked(), now=at(25) - timedelta(seconds=0.6), seen=seen) == got
    assert judge(soaked(), now=at(75), seen=seen) is PASSED
    before = judge(soaked(), now=at(60), seen=SeenTime(since=at(30)))
    assert isinstance(before, Waiting)
    assert before.until == at(90)


def test_what_runs_already_passes() -> None:
    status = BundleStatus(deployed=Deployed(version="1.4.2", digest=DIGEST))
    facts = Facts(status, Occasion.REQUEST, findings=Findings((Sources((source(),)),)))
    assert GATE.judge(spec_of(), WANTED, facts, NOON) is PASSED


def test_only_new_versions_and_requests_wait() -> None:
    assert GATE.occasions == {Occasion.NEW_DIGEST, Occasion.REQUEST}


def test_what_it_holds_back_is_remembered_and_what_has_soaked_stays_there() -> None:
    assert GATES.remember(spec_of())
    found = Findings((Sources((source(), soaked())),))
    assert GATES.preferred(spec_of(), found) == {DIGEST}
    assert GATES.preferred(spec_of(), NOTHING_FOUND) == frozenset()


def several(*since: float) -> PromotionSource:
    records = (
        SoakStatus(version=f"1.{n}.0", digest=f"sha256:{n}", since=format_time(at(minutes)))
        for n, minutes in enumerate(since)
    )
    return source(soak=tuple(records))


WAITS = BundleStatus(gates=(GateStatus(name="promotion", state="Waiting"),))


def changes(sources: Sources) -> set[datetime]:
    """Without the one by which each process judges what waits once."""
    long_ago, *others = GATE.changes(spec_of(), WAITS, Findings((sources,)))
    assert long_ago.year == 1
    return {other for other in others if other.year > 1}


def test_its_verdicts_change_when_the_soak_of_any_version_ends_in_all_of_them() -> None:
    assert changes(Sources((several(0, 10, 20), several(5, 5)))) == {at(65), at(70)}
    assert changes(Sources()) == set()
    held = replace(several(0, 10), hold="x", running="sha256:0")
    assert changes(Sources((held,))) == {at(70)}


RECORDS = st.builds(
    lambda since, until, longest: SoakStatus(
        version="1.4.2",
        digest=DIGEST,
        since=None if since is None else format_time(at(since)),
        until=None if until is None else format_time(at(until)),
        longest=longest,
    ),
    st.none() | st.integers(-100, 100),
    st.none() | st.integers(-100, 100),
    st.none() | st.sampled_from(["0s", "59m", "1h", "2h"]),
)
SOURCES = st.builds(
    lambda record, hold, allowed: PromotionSource(
        name="staging/shop", is_allowed=allowed, hold=hold, running=DIGEST, soak=(record,)
    ),
    RECORDS,
    st.none() | st.just("x"),
    st.booleans(),
)
GAPS = st.lists(st.tuples(st.integers(-90, 90), st.integers(1, 30)), max_size=4)


@given(st.lists(SOURCES, min_size=1, max_size=3), GAPS, st.integers(-100, 300))
def test_every_wait_ends_when_its_message_said_and_not_before(
    sources: list[PromotionSource], gaps: list[tuple[int, int]], minutes: int
) -> None:
    seen = SeenTime(since=at(-60))
    for start, length in sorted(gaps):
        seen = seen.renewed_at(at(start), at(start + length))
    now, seen = at(minutes), replace(seen, renewed=None)
    verdict = judge(*sources, now=now, seen=seen)
    if isinstance(verdict, Waiting) and verdict.until is not None:
        assert verdict.until > now
        assert judge(*sources, now=verdict.until, seen=seen) is PASSED
        just_before = verdict.until - timedelta(seconds=1)
        assert judge(*sources, now=just_before, seen=seen) is not PASSED
        assert changes(Sources(tuple(sources), seen)) == {verdict.until}
    elif not isinstance(verdict, Waiting):
        assert all(end <= now for end in changes(Sources(tuple(sources), seen)))
    else:
        assert judge(*sources, now=now + timedelta(days=9), seen=seen) is not PASSED


@pytest.mark.parametrize(
    ("need", "wanted", "cause"),
    [
        (DeployReason.VERSION, {"digest": causes.B}, "Promotion"),
        (DeployReason.REQUEST, {"digest": causes.B}, "Requested"),  # it may pass over the gate
        (DeployReason.VALUES, {"values_hash": "w"}, "ValuesChanged"),
    ],
)
def test_a_new_version_of_a_promoted_bundle_is_a_promotion(
    need: DeployReason, wanted: dict[str, Any], cause: str
) -> None:
    promoted = {"promoteFrom": {"bundles": [{"name": "staging"}]}}
    entry = causes.entry_of(causes.GOOD, **promoted)
    feature = PromotionFeature(cast("Any", None))
    status = causes.begun(entry, need, replace(causes.WANTED, **wanted), feature)
    assert causes.described(status) == cause
