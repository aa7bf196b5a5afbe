"""The verdict over requirements, entries and signatures."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from tests.unit.signatures.making import (
    ARTIFACT,
    NOW,
    OTHER,
    bundle,
    bundle_signature,
    entry,
    key,
    payload,
    payload_signature,
)

from copyrator.signatures import cosign_payload
from copyrator.signatures import judge as module
from copyrator.signatures.judge import BEYOND, SIGNATURE_CHECK, judge
from copyrator.signatures.model import (
    SIGNATURE_FAILURES,
    SIGNATURES,
    CosignIdentity,
    CosignKeys,
    Found,
    Holds,
    InvalidSignatureError,
    NotationTrust,
    NotYetValidError,
    Signature,
    SignatureFailure,
    SignatureFormat,
    SignatureRequirement,
)

MINE, YOURS = key("P-256"), key("P-256 second")
OLDER = replace(payload_signature(MINE), digest="sha256:older")
NEWER = replace(bundle_signature(bundle(MINE)), digest="sha256:newer")
FOREIGN = replace(payload_signature(YOURS), digest="sha256:foreign")
ENVELOPE = Signature(SignatureFormat.NOTATION, "sha256:envelope", b"{}")

KEYS = replace(entry(MINE), name="mine")
OTHER_KEYS = replace(entry(YOURS), name="yours")
IDENTITY = CosignIdentity("identity", "https://issuer.example", ".*", b"{}")
NOTATION = NotationTrust("notation", b"", ("*",))


def test_the_first_signature_that_an_entry_accepts_satisfies_a_requirement() -> None:
    found = Found(ARTIFACT, (FOREIGN, NEWER, OLDER), skipped=("one is too large",))
    verdict = judge(found, [SignatureRequirement("spec.verify", (NOTATION, KEYS))], NOW)
    assert verdict.is_trusted
    assert verdict.holds == (Holds("spec.verify", "mine", "sha256:newer"),)
    assert verdict.failures == ()
    assert verdict.signatures == 3
    assert verdict.skipped == ("one is too large",)


def test_every_requirement_has_to_hold() -> None:
    both = [
        SignatureRequirement("spec.verify", (KEYS,)),
        SignatureRequirement("policy", (OTHER_KEYS,)),
    ]
    assert judge(Found(ARTIFACT, (OLDER, FOREIGN)), both, NOW).is_trusted
    verdict = judge(Found(ARTIFACT, (OLDER,)), both, NOW)
    assert not verdict.is_trusted
    assert verdict.failed == ("policy",)
    assert [(each.entry, each.signature) for each in verdict.failures] == [
        ("yours", "sha256:older")
    ]
    assert "by none of the keys" in verdict.failures[0].reason


def test_nothing_holds_without_signatures_or_without_entries() -> None:
    assert judge(Found(ARTIFACT), [SignatureRequirement("r", (KEYS,))], NOW).failed == ("r",)
    assert judge(Found(ARTIFACT, (OLDER,)), [SignatureRequirement("r", ())], NOW).failed == ("r",)


def test_no_requirement_is_no_objection() -> None:
    assert judge(Found(ARTIFACT), [], NOW).is_trusted


def test_a_signature_of_another_artifact_never_counts() -> None:
    copied = (payload_signature(MINE, payload(OTHER)), bundle_signature(bundle(MINE)))
    assert not judge(
        Found(ARTIFACT, copied[:1]), [SignatureRequirement("r", (KEYS,))], NOW
    ).is_trusted
    assert not judge(Found(OTHER, copied[1:]), [SignatureRequirement("r", (KEYS,))], NOW).is_trusted


def test_an_entry_is_asked_for_its_formats_only_and_that_is_said_last() -> None:
    found = Found(ARTIFACT, (ENVELOPE, OLDER))
    verdict = judge(found, [SignatureRequirement("r", (IDENTITY, OTHER_KEYS))], NOW)
    assert [(each.entry, each.signature) for each in verdict.failures] == [
        ("yours", "sha256:older"),
        ("identity", "sha256:envelope"),
        ("yours", "sha256:envelope"),
        ("identity", "sha256:older"),
    ]
    assert verdict.failures[1].reason == (
        "a signature in the format notation is not for this entry"
    )
    assert "for keyless ones sign with cosign 3" in verdict.failures[3].reason


def test_reasons_are_limited_and_shared_between_requirements() -> None:
    found = Found(ARTIFACT, (FOREIGN,) * SIGNATURES)
    requirements = [
        SignatureRequirement("a", (replace(KEYS, name="a"),)),
        SignatureRequirement("b", (replace(KEYS, name="b"), replace(KEYS, name="b too"))),
    ]
    verdict = judge(found, requirements, NOW)
    assert verdict.failed == ("a", "b")
    assert len(verdict.failures) == SIGNATURE_FAILURES
    assert [each.entry for each in verdict.failures[:4]] == ["a", "b", "a", "b too"]


def test_the_verdict_ends_with_what_ends_first(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = {"a": NOW + timedelta(days=2), "b": NOW + timedelta(days=1), "c": None}
    monkeypatch.setattr(
        cosign_payload, "verify", lambda artifact, signature, entry, now: ends[entry.name]
    )
    requirements = [SignatureRequirement(name, (replace(KEYS, name=name),)) for name in ends]
    verdict = judge(Found(ARTIFACT, (OLDER,)), requirements, NOW)
    assert [each.until for each in verdict.holds] == list(ends.values())
    assert verdict.until == NOW + timedelta(days=1)


@pytest.mark.parametrize(
    ("days", "until"),
    [((2, 1), 1), ((1, 2), 1), ((3,), 3), ((-1,), None), ((0,), None), ((-1, 2), 2), ((), None)],
)
def test_a_refusal_ends_when_the_first_signature_becomes_valid(
    days: tuple[int, ...], until: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is to be valid since a time in the past speaks of the time that it claims."""

    def verify(artifact: object, signature: object, entry: CosignKeys, now: datetime) -> None:
        if entry.name == "valid":
            return
        if entry.name == "never":
            raise InvalidSignatureError("never")
        raise NotYetValidError("later", now + timedelta(days=int(entry.name)))

    monkeypatch.setattr(cosign_payload, "verify", verify)
    entries = [replace(KEYS, name=name) for name in ("never", *map(str, days))]
    later = SignatureRequirement("later", tuple(entries))
    valid = SignatureRequirement("valid", (*entries, replace(KEYS, name="valid")))

    expected = None if until is None else NOW + timedelta(days=until)
    refused = judge(Found(ARTIFACT, (OLDER,)), [later, valid], NOW)
    assert (refused.failed, refused.refused_until, refused.until) == (("later",), *[expected] * 2)
    trusted = judge(Found(ARTIFACT, (OLDER,)), [valid], NOW)
    assert (trusted.is_trusted, trusted.refused_until) == (True, None)


@pytest.mark.parametrize(("room", "judged"), [(0, 2), (-1, 1)])
def test_the_work_for_one_digest_is_limited_over_all_requirements(
    room: int, judged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = replace(entry(MINE, key("P-384")), name="mine")
    each = (SIGNATURE_CHECK + len(FOREIGN.blob)) * 2
    monkeypatch.setattr(module, "SIGNATURE_WORK", 2 * each + room)
    requirements = [SignatureRequirement("a", (two,)), SignatureRequirement("b", (two,))]

    verdict = judge(Found(ARTIFACT, (ENVELOPE, *[FOREIGN] * 3)), requirements, NOW)

    beyond = SignatureFailure("mine", "sha256:foreign", BEYOND)
    assert verdict.failed == ("a", "b")
    assert verdict.failures.count(beyond) == 2
    assert sum("by none of the keys" in one.reason for one in verdict.failures) == judged
    assert "sha256:envelope" in {one.signature for one in verdict.failures}


def test_a_reason_is_short_and_printable() -> None:
    assert str(InvalidSignatureError("a\n\x1b[31m\ud800é")) == "a??[31m?é"
    assert str(InvalidSignatureError("é" * 300)) == "é" * 300
    assert str(InvalidSignatureError("é" * 301)) == "é" * 297 + "..."
