"""The gate of signatures: the verdict, its message, and the condition Verified."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, Deployed
from copyrator.api.verify import Verification
from copyrator.bundles.engine import gate as gates
from copyrator.bundles.engine.gate import (
    NOTHING_FOUND,
    Candidate,
    Facts,
    Findings,
    Occasion,
    Passed,
    Refused,
    Waiting,
)
from copyrator.bundles.evidence.signers import NOTHING_ASKED, Asked
from copyrator.bundles.features.signatures import gates as signature
from copyrator.bundles.features.signatures.feature import SignaturesFeature
from copyrator.bundles.features.signatures.verdicts import unavailable, verdict
from copyrator.signatures.model import Holds, Judgement, SignatureFailure, SignatureRequirement

NOW = datetime(2026, 11, 24, tzinfo=UTC)
SPEC = BundleSpec(namespace="a", name="b", registry="r", repo="x", project_namespace="a")
DIGEST = "sha256:" + "1" * 64
ASKED = Asked("key", (SignatureRequirement("spec.verify", ()),))
FAILED = ("spec.verify",)


def failure(number: int) -> SignatureFailure:
    return SignatureFailure(f"entry {number}", "sha256:s", "the signature isn't by one of its keys")


def test_what_is_trusted_passes_and_names_the_entry() -> None:
    judged = Judgement((Holds("spec.verify", "the cosign keys of Secret a/keys", "s"),))
    said = "spec.verify: signed by the cosign keys of Secret a/keys"
    assert verdict(ASKED, DIGEST, judged) == Passed(said)
    both = Judgement((*judged.holds, Holds("entry 1", "another", "s")))
    assert verdict(ASKED, DIGEST, both) == Passed(f"{said}; entry 1: signed by another")


def test_without_a_signature_it_is_unsigned_and_asked_again() -> None:
    judged = Judgement(failed=("spec.verify", "entry 1"), skipped=("a", "b", "c", "d"))
    found = verdict(ASKED, DIGEST, judged)
    assert found == Refused(
        "Unsigned",
        f"{DIGEST} has no signature, and spec.verify and entry 1 require one; sign this digest; "
        "not read: a; not read: b; not read: c",
        is_retried=True,
    )
    one = verdict(ASKED, DIGEST, Judgement(failed=FAILED))
    assert isinstance(one, Refused)
    assert one.message.endswith("and spec.verify requires one; sign this digest")


@pytest.mark.parametrize(
    ("numbers", "named"),
    [
        ((1,), (1,)),
        ((1, 1, 2, 3), (1, 2, 3)),
        ((1, 1, 2, 3, 4, 5), (1, 2, 3)),
    ],
)
def test_the_first_failures_are_named_each_once(
    numbers: tuple[int, ...], named: tuple[int, ...]
) -> None:
    judged = Judgement((), FAILED, tuple(map(failure, numbers)), 6, ("x is too large",))
    said = "; ".join(f"entry {number}: the signature isn't by one of its keys" for number in named)
    more = "; and 2 more" if max(numbers) == 5 else ""
    assert verdict(ASKED, DIGEST, judged) == Refused(
        "SignatureInvalid",
        f"no signature of {DIGEST} satisfies spec.verify: {said}{more}; not read: x is too large",
        is_retried=True,
    )


def test_an_entry_that_cannot_be_used_makes_a_refusal_uncertain() -> None:
    asked = Asked("key", ASKED.requirements, ("ConfigMap a/keys doesn't exist", "another"))
    for count in (0, 1):
        found = verdict(asked, DIGEST, Judgement(failed=FAILED, signatures=count))
        assert found == Waiting(
            "VerificationUnavailable",
            "spec.verify can't be judged: ConfigMap a/keys doesn't exist; another",
        )
    several = verdict(asked, DIGEST, Judgement(failed=("entry 1", "spec.verify")))
    assert isinstance(several, Waiting)
    assert several.message.startswith("not all of entry 1 and spec.verify can be judged: ")
    held = Judgement((Holds("spec.verify", "another entry", "s"),))
    assert isinstance(verdict(asked, DIGEST, held), Passed)


@pytest.mark.parametrize("occasion", Occasion)
def test_it_is_asked_on_every_occasion_and_waits_for_a_verdict(occasion: Occasion) -> None:
    gate = replace(signature.GATE, concerns=lambda _: True)

    def judged(*found: object) -> gates.Verdict:
        candidate = Candidate("1.0.0", DIGEST)
        facts = Facts(BundleStatus(), occasion, findings=Findings(found))
        (one,) = gates.judge([gate], SPEC, candidate, facts, NOW)
        assert one.gate == "signature"
        return one.verdict

    refused = Refused("Unsigned", "no", is_retried=True)
    assert judged(signature.Signed(refused)) is refused
    unread = f"the signatures of {DIGEST} haven't been read yet"
    assert judged() == Waiting("VerificationUnavailable", unread)


def test_what_cannot_be_read_now_waits() -> None:
    said = "the registry can't be reached; it is tried again"
    found = unavailable("the registry can't be reached")
    assert found == Waiting("VerificationUnavailable", said)


def test_a_refusal_that_polls_may_end_is_no_standstill() -> None:
    retried = gates.GateResult("signature", Refused("Unsigned", "no", is_retried=True))
    final = gates.GateResult("signature", Refused("NotInPolicy", "no"))
    candidate = Candidate("1.0.0", DIGEST)
    assert not gates.Held(candidate, (retried,)).is_final
    assert gates.Held(candidate, (retried,)).is_refused
    assert gates.Held(candidate, (retried, final)).is_final


@pytest.mark.parametrize(
    ("verdict", "standing", "status", "reason"),
    [
        (Passed("by ann"), "Trusted", "True", "Verified"),
        (Refused("SignatureInvalid", "no"), "NotTrusted", "False", "SignatureInvalid"),
        (Waiting("VerificationUnavailable", "no"), "Unknown", "Unknown", "VerificationUnavailable"),
    ],
)
def test_the_verdict_on_what_is_deployed_becomes_a_condition(
    verdict: gates.Verdict, standing: str, status: str, reason: str
) -> None:
    record = signature.verification(ASKED, DIGEST, verdict)
    assert record == Verification(
        digest=DIGEST, verdict=standing, reason=reason, message=verdict.message, policy="key"
    )
    there = Deployed(version="1.0.0", digest=DIGEST)
    found = signature.verified_condition(BundleStatus(deployed=there).with_part(record))
    assert found is not None
    assert (found.status, found.reason) == (status, reason)
    but = "1.0.0 stays deployed, but isn't trusted: " if standing == "NotTrusted" else ""
    assert found.message == but + verdict.message


@pytest.mark.parametrize("verdict", [None, "Forged"])
def test_without_a_verdict_there_is_no_condition(verdict: str | None) -> None:
    status = BundleStatus().with_part(Verification(verdict=verdict))
    assert signature.verified_condition(status) is None


def test_equal_trust_is_equal_whatever_its_objects() -> None:
    assert Asked("key") == ASKED
    assert ASKED
    assert not NOTHING_ASKED


@pytest.mark.parametrize(
    ("policy", "asked", "is_same"),
    [(None, None, True), ("p", None, False), (None, Asked("p"), False), ("p", Asked("p"), True)],
)
def test_after_a_restart_it_is_known_by_the_status_whether_keys_or_the_policy_were_changed(
    policy: str | None, asked: Asked | None, is_same: bool
) -> None:
    feature = SignaturesFeature(cast("Any", None))
    status = BundleStatus().with_part(Verification(policy=policy))
    assert feature.is_judged(status, NOTHING_FOUND.including((asked,))) is is_same
