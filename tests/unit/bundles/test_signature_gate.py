"""The gate of signatures: the verdict, its message, and the condition Verified."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from copyrator.api.bundle_spec import BundleSpec
from copyrator.api.bundle_status import BundleStatus, Deployed, Verification
from copyrator.bundles.policy import gates, signature
from copyrator.bundles.policy.gates import Candidate, Facts, Occasion, Passed, Refused, Waiting
from copyrator.bundles.policy.signature import Asked
from copyrator.signatures.model import Failure, Holds, Judgement, Requirement

NOW = datetime(2026, 11, 24, tzinfo=UTC)
SPEC = BundleSpec(namespace="a", name="b", registry="r", repo="x", project_namespace="a")
DIGEST = "sha256:" + "1" * 64
ASKED = Asked("key", (Requirement("spec.verify", ()),))
FAILED = ("spec.verify",)


def failure(number: int) -> Failure:
    return Failure(f"entry {number}", "sha256:s", "the signature isn't by one of its keys")


def test_what_is_trusted_passes_and_names_the_entry() -> None:
    judged = Judgement((Holds("spec.verify", "the cosign keys of Secret a/keys", "s"),))
    said = "spec.verify: signed by the cosign keys of Secret a/keys"
    assert signature.verdict(ASKED, DIGEST, judged) == Passed(said)


def test_without_a_signature_it_is_unsigned_and_asked_again() -> None:
    found = signature.verdict(ASKED, DIGEST, Judgement(failed=FAILED, skipped=("x is too large",)))
    assert found == Refused(
        "Unsigned",
        f"{DIGEST} has no signature, and spec.verify requires one; sign this digest; "
        "not read: x is too large",
        is_retried=True,
    )


def test_the_first_failures_are_named_each_once() -> None:
    failures = tuple(map(failure, (1, 1, 2, 3, 4, 5)))
    found = signature.verdict(ASKED, DIGEST, Judgement((), FAILED, failures, 6))
    assert isinstance(found, Refused)
    assert (found.reason, found.is_retried) == ("SignatureInvalid", True)
    assert found.message.count("entry 1:") == 1
    assert "entry 3" in found.message
    assert "entry 4" not in found.message
    assert found.message.endswith("; and 2 more")


def test_an_entry_that_cannot_be_used_makes_a_refusal_uncertain() -> None:
    asked = Asked("key", ASKED.requirements, ("ConfigMap a/keys doesn't exist: create it",))
    for count in (0, 1):
        found = signature.verdict(asked, DIGEST, Judgement(failed=FAILED, signatures=count))
        assert isinstance(found, Waiting)
        assert found.reason == "VerificationUnavailable"
        assert "ConfigMap a/keys doesn't exist" in found.message
    held = Judgement((Holds("spec.verify", "another entry", "s"),))
    assert isinstance(signature.verdict(asked, DIGEST, held), Passed)


@pytest.mark.parametrize("occasion", Occasion)
def test_it_is_asked_on_every_occasion_and_waits_for_a_verdict(occasion: Occasion) -> None:
    gate = signature.gate(lambda _: True)

    def judged(**facts: Any) -> gates.Verdict:
        candidate = Candidate("1.0.0", DIGEST)
        (one,) = gates.judge([gate], SPEC, candidate, Facts(BundleStatus(), occasion, **facts), NOW)
        return one.verdict

    refused = Refused("Unsigned", "no", is_retried=True)
    assert judged(signature=refused) is refused
    waiting = judged()
    assert isinstance(waiting, Waiting)
    assert waiting.reason == "VerificationUnavailable"


def test_a_refusal_that_polls_may_end_is_no_standstill() -> None:
    retried = gates.Result("signature", Refused("Unsigned", "no", is_retried=True))
    final = gates.Result("signature", Refused("NotInPolicy", "no"))
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
    found = signature.verified_condition(BundleStatus(deployed=there, verification=record))
    assert found is not None
    assert (found.status, found.reason) == (status, reason)
    assert ("1.0.0 stays deployed" in found.message) is (standing == "NotTrusted")


@pytest.mark.parametrize("verdict", [None, "Forged"])
def test_without_a_verdict_there_is_no_condition(verdict: str | None) -> None:
    status = BundleStatus(verification=Verification(verdict=verdict))
    assert signature.verified_condition(status) is None


def test_equal_trust_is_equal_whatever_its_objects() -> None:
    assert Asked("key") == ASKED
    assert not signature.NOTHING_ASKED
