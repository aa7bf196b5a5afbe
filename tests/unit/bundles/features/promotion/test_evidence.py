"""Which attestations of environments promote a digest, and what is said of the others."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.bundles import bundle

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, Deployed
from copyrator.api.object_refs import LocalObjectRef, ValuesKind
from copyrator.api.schema import InvalidSpec
from copyrator.bundles.engine.gate import (
    PASSED,
    Candidate,
    Facts,
    Findings,
    Occasion,
    Verdict,
    Waiting,
)
from copyrator.bundles.features.promotion.evidence import find_objections
from copyrator.bundles.features.promotion.fields import (
    AHEAD,
    DEFAULT_EVIDENCE_AGE,
    AttestationsFrom,
    EvidenceKeys,
    PromotionSpec,
)
from copyrator.bundles.features.promotion.gates import GATE, PromotionSource, Sources
from copyrator.bundles.fields import BundleDefaults, parse_bundle
from copyrator.signatures.model import DeployedEvidence, DeployedStatement

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
DIGEST = "sha256:" + "1" * 64
WANTED = Candidate("1.4.2", DIGEST)
WHAT = "1.4.2 (sha256:111111111111)"
KEYS = {"cosign": {"keysFrom": {"kind": "ConfigMap", "name": "staging-keys"}}}


def keys_of(name: str) -> dict[str, Any]:
    """KEYS; of further environments under another name, as each has keys of its own."""
    name = "staging-keys" if name == "0" else f"staging-keys-{name}"
    return {"cosign": {"keysFrom": {"kind": "ConfigMap", "name": name}}}


EU, US = "aaaa-eu", "bbbb-us"


def hours(count: float) -> datetime:
    return NOON + timedelta(hours=count)


def says(age: float = 1, cluster: str = EU, **more: Any) -> DeployedStatement:
    """A statement of that age in hours: a day in staging."""
    made = DeployedStatement(
        digest=DIGEST,
        environment="staging",
        cluster=cluster,
        namespace="shop",
        release="shop",
        revision=7,
        seconds=24 * 3600,
        since=hours(-48),
        until=hours(-24),
        issued_at=hours(-age),
    )
    return replace(made, **more)


def withdraws(age: float = 1, cluster: str = EU, **more: Any) -> DeployedStatement:
    return says(age, cluster, withdrawn=True, **({"reason": "it was held: no"} | more))


def parsed(promote_from: Any) -> BundleSpec | InvalidSpec:
    body = bundle(namespace="production", promoteFrom=promote_from)
    return parse_bundle(body, BundleDefaults())


def spec_of(*environments: dict[str, Any], **more: Any) -> BundleSpec:
    named = environments or ({},)
    usual = {"environment": "staging", "soak": "24h", "maxAge": "168h"}
    given = [usual | keys_of(str(number)) | one for number, one in enumerate(named)]
    found = parsed({"attestations": given} | more)
    assert isinstance(found, BundleSpec), found
    return found


def verdict(
    *statements: DeployedStatement,
    spec: BundleSpec | None = None,
    refused: tuple[str, ...] = (),
    fault: str = "",
) -> Verdict:
    evidence = DeployedEvidence(statements, refused, fault)
    facts = Facts(BundleStatus(), Occasion.NEW_DIGEST, findings=Findings((evidence,)))
    return GATE.judge(spec or spec_of(), WANTED, facts, NOON)


def reason(found: Verdict) -> str:
    return found.reason if isinstance(found, Waiting) else "Passed"


# --- the field ------------------------------------------------------------------------------------


def test_an_environment_has_its_keys_and_its_rules() -> None:
    named = {"cluster": EU, "release": "shop/shop", "maxAge": "2h"}
    (found,) = spec_of(named).part(PromotionSpec).attestations

    ref = LocalObjectRef("staging-keys", ValuesKind.CONFIG_MAP)
    assert found == AttestationsFrom("staging", EvidenceKeys(ref), 86400.0, 7200.0, EU, "shop/shop")
    least = parsed({"attestations": [{"environment": "staging"} | KEYS]})
    assert isinstance(least, BundleSpec)
    assert least.part(PromotionSpec).attestations == (
        AttestationsFrom("staging", EvidenceKeys(ref), 0.0, DEFAULT_EVIDENCE_AGE),
    )
    assert GATE.concerns(least)


# --- the verdict ----------------------------------------------------------------------------------


def test_a_day_in_staging_promotes() -> None:
    assert verdict(says()) == PASSED


def test_what_is_deployed_is_not_judged_again() -> None:
    facts = Facts(BundleStatus(deployed=Deployed(digest=DIGEST)), Occasion.REQUEST)

    assert GATE.judge(spec_of(), WANTED, facts, NOON) == PASSED


ROWS: dict[str, tuple[tuple[DeployedStatement, ...], str]] = {
    "nothing": ((), "NotPromoted"),
    "another environment": ((says(environment="canary"),), "NotPromoted"),
    "a second too little": ((says(seconds=24 * 3600 - 1),), "NotPromoted"),
    "as old as it may be": ((says(168),), "Passed"),
    "a second too old": ((says(168 + 1 / 3600),), "NotPromoted"),
    "dated ahead a little": ((says(-1 / 6),), "Passed"),
    "dated ahead too much": ((says(-1 / 6 - 1 / 3600),), "NotPromoted"),
    "withdrawn later": ((says(2), withdraws(1)), "PromotionWithdrawn"),
    "withdrawn before": ((withdraws(2), says(1)), "Passed"),
    "withdrawn at the same time": ((says(1), withdraws(1)), "PromotionWithdrawn"),
    "withdrawn in another cluster": ((says(1), withdraws(5, US)), "PromotionWithdrawn"),
    "withdrawn in another release": (
        (says(1), withdraws(5, release="other")),
        "PromotionWithdrawn",
    ),
    "withdrawn as long ago as it may be": ((says(1), withdraws(168, US)), "PromotionWithdrawn"),
    "withdrawn too long ago": ((says(1), withdraws(168.1, US)), "Passed"),
    "only withdrawn, long ago": ((withdraws(200),), "NotPromoted"),
    "withdrawn, dated ahead": ((says(1), withdraws(-1000)), "PromotionWithdrawn"),
    "a positive one too far ahead ends no withdrawal": (
        (withdraws(1), says(-1)),
        "PromotionWithdrawn",
    ),
    "renewed with less": ((says(2), says(1, seconds=60)), "NotPromoted"),
    "one of two clusters is enough": ((says(1, seconds=60), says(1, US)), "Passed"),
    "two statements of one date": ((says(1), says(1, seconds=60)), "NotPromoted"),
}


@pytest.mark.parametrize(("statements", "expected"), ROWS.values(), ids=ROWS.keys())
def test_statements_count_whatever_their_order(
    statements: tuple[DeployedStatement, ...], expected: str
) -> None:
    for order in itertools.permutations(statements):
        assert reason(verdict(*order)) == expected


def test_only_the_named_cluster_and_release_count() -> None:
    there, elsewhere = says(1), withdraws(1, US, release="other")

    assert reason(verdict(there, elsewhere)) == "PromotionWithdrawn"
    assert verdict(there, elsewhere, spec=spec_of({"cluster": EU})) == PASSED
    assert verdict(there, elsewhere, spec=spec_of({"release": "shop/shop"})) == PASSED
    assert reason(verdict(there, spec=spec_of({"cluster": US}))) == "NotPromoted"


def test_of_several_environments_each_has_to_have_evidence() -> None:
    both = spec_of({"environment": "staging-eu"}, {"environment": "staging-us"})
    eu, us = says(environment="staging-eu"), says(environment="staging-us")

    assert verdict(eu, us, spec=both) == PASSED
    waiting = verdict(eu, spec=both)
    assert isinstance(waiting, Waiting)
    text = "has no evidence from the environment staging-us that counts"
    assert waiting.message == f"{WHAT} {text}"
    assert reason(verdict(eu, us, withdraws(environment="staging-us"), spec=both)) == (
        "PromotionWithdrawn"
    )


def test_bundles_and_attestations_both_have_to_pass() -> None:
    spec = spec_of(bundles=[{"name": "staging"}])
    sources = Sources((PromotionSource(name="production/staging"),))
    facts = Facts(
        BundleStatus(),
        Occasion.NEW_DIGEST,
        findings=Findings((sources, DeployedEvidence((says(),)))),
    )

    found = GATE.judge(spec, WANTED, facts, NOON)

    assert isinstance(found, Waiting)
    assert found.message == f"{WHAT} waits, as Bundle production/staging doesn't exist"


MESSAGES: dict[str, tuple[tuple[DeployedStatement, ...], str]] = {
    "soak": (
        (says(seconds=5400),),
        (
            "no evidence from the environment staging that counts: it stood in release "
            "shop/shop of cluster aaaa-eu for 1h30m, and soak is 24h"
        ),
    ),
    "age": (
        (says(200),),
        (
            "the newest statement of release shop/shop of cluster aaaa-eu is of "
            "2026-04-26T04:00:00Z, which is more than maxAge (168h) ago"
        ),
    ),
    "ahead": (
        (says(-1),),
        (
            "release shop/shop of cluster aaaa-eu is dated ahead, 2026-05-04T13:00:00Z: correct "
            "the clock of that cluster"
        ),
    ),
    "withdrawn": (
        (withdraws(1),),
        (
            f"{WHAT}: in the environment staging release shop/shop of cluster aaaa-eu withdrew "
            "it at 2026-05-04T11:00:00Z (it was held: no)"
        ),
    ),
    "withdrawn long ago": ((withdraws(200),), "withdrew it at 2026-04-26T04:00:00Z"),
    "many": (
        tuple(withdraws(i, cluster=f"c{i}") for i in range(1, 6)),
        "cluster c3 withdrew it at 2026-05-04T09:00:00Z (it was held: no); and 2 more",
    ),
    "many, the newest first": (
        tuple(withdraws(i, cluster=f"c{i}", reason="") for i in (3, 1, 2)),
        (
            "staging release shop/shop of cluster c1 withdrew it at 2026-05-04T11:00:00Z; release "
            "shop/shop of cluster c2 withdrew it at 2026-05-04T10:00:00Z; release shop/shop of"
        ),
    ),
    "too little, and as old as it may be": (
        (says(168, seconds=60),),
        "it stood in release shop/shop of cluster aaaa-eu for 1m, and soak is 24h",
    ),
}


@pytest.mark.parametrize(("statements", "text"), MESSAGES.values(), ids=MESSAGES.keys())
def test_the_message_says_what_is_missing(
    statements: tuple[DeployedStatement, ...], text: str
) -> None:
    found = verdict(*statements)

    assert isinstance(found, Waiting)
    assert text in found.message


def test_refused_attestations_are_named_where_there_is_nothing_better() -> None:
    found = verdict(refused=("sha256:22: the attestation is of another digest",))
    better = verdict(says(200), refused=("sha256:22: it is of another digest",))

    assert isinstance(found, Waiting)
    assert found.message.endswith(
        "that counts: attestation sha256:22: the attestation is of another digest"
    )
    assert isinstance(better, Waiting)
    assert "sha256:22" not in better.message


def test_incomplete_evidence_proves_nothing() -> None:
    found = verdict(says(), fault="the registry answers 500")

    assert found == Waiting(
        "VerificationUnavailable",
        f"{WHAT} can't be promoted: the registry answers 500; it is tried again",
    )
    facts = Facts(BundleStatus(), Occasion.NEW_DIGEST)
    unread = GATE.judge(spec_of(), WANTED, facts, NOON)
    assert unread == Waiting(
        "VerificationUnavailable",
        f"{WHAT} can't be promoted: its attestations haven't been read yet; it is tried again",
    )


def test_the_end_of_a_withdrawal_is_known_where_another_cluster_is_positive() -> None:
    ends = hours(164) + timedelta(seconds=1)

    found = verdict(says(1), withdraws(4, US))

    assert isinstance(found, Waiting)
    assert found.until == ends
    statements = [says(1), withdraws(4, US)]
    facts = Facts(
        BundleStatus(),
        Occasion.NEW_DIGEST,
        findings=Findings((DeployedEvidence(tuple(statements)),)),
    )
    assert GATE.judge(spec_of(), WANTED, facts, ends) == PASSED
    as_long = verdict(says(4 - 1 / 3600), withdraws(4, US))
    assert isinstance(as_long, Waiting)
    assert as_long.until == ends
    alone = verdict(withdraws(4, US))
    older = verdict(says(5), withdraws(4, US))
    assert isinstance(alone, Waiting)
    assert isinstance(older, Waiting)
    assert alone.until is older.until is None


def test_a_withdrawal_is_graver_than_what_is_missing_elsewhere() -> None:
    both = spec_of({"environment": "a"}, {"environment": "b"})

    found = verdict(withdraws(environment="b"), spec=both)

    assert isinstance(found, Waiting)
    assert found.reason == "PromotionWithdrawn"
    assert found.environments == ("b", "a")


# --- any sequence of statements -------------------------------------------------------------------

STATEMENTS = st.builds(
    lambda age, cluster, withdrawn, seconds: says(
        age, cluster, withdrawn=withdrawn, seconds=seconds
    ),
    st.integers(-400, 400),
    st.sampled_from([EU, US]),
    st.booleans(),
    st.sampled_from([0, 24 * 3600 - 1, 24 * 3600, 10**6]),
)


def passes(statements: list[DeployedStatement], now: datetime = NOON) -> bool:
    wanted = spec_of().part(PromotionSpec).attestations
    return not find_objections(wanted, DeployedEvidence(tuple(statements)), WHAT, now)


@given(st.lists(STATEMENTS, max_size=8))
def test_nothing_passes_that_was_not_attested_lately_and_not_withdrawn_since(
    statements: list[DeployedStatement],
) -> None:
    """By the rule in words, without the code's grouping."""
    week = timedelta(hours=168)
    counted = [one for one in statements if one.withdrawn or one.issued_at <= NOON + AHEAD]
    newest = [
        one
        for one in counted
        if not any(
            other.cluster == one.cluster and other.issued_at > one.issued_at for other in counted
        )
    ]
    if passes(statements):
        assert any(
            not one.withdrawn and one.seconds >= 86400 and NOON - one.issued_at <= week
            for one in newest
        )
        assert not any(one.withdrawn and NOON - one.issued_at <= week for one in newest)


@given(st.lists(STATEMENTS, max_size=6), st.integers(-400, 400), st.integers(0, 400))
def test_who_hides_statements_promotes_only_what_was_attested_within_max_age(
    statements: list[DeployedStatement], at: int, kept: int
) -> None:
    """A registry shows any part of them, at any time."""
    shown = statements[: kept % (len(statements) + 1)]
    now = hours(at)

    if passes(shown, now):
        assert any(
            not one.withdrawn and one.seconds >= 86400 and now - one.issued_at <= timedelta(days=7)
            for one in statements
        )


@given(st.lists(STATEMENTS, max_size=6))
def test_what_is_said_to_pass_by_itself_does(statements: list[DeployedStatement]) -> None:
    found = verdict(*statements)

    # A statement that is dated ahead counts from then on, and may end a withdrawal sooner.
    ahead = [one for one in statements if not one.withdrawn and one.issued_at > NOON + AHEAD]
    if isinstance(found, Waiting) and found.until is not None and not ahead:
        assert not passes(statements, found.until - timedelta(seconds=1))
        assert passes(statements, found.until)
