"""Attestations of deploys: what is signed is what is read, and nothing else is taken for one."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.signatures.attesting import (
    DEPLOYED,
    attested,
    by_hand,
    document,
    signing_key,
    trust,
)
from tests.unit.signatures.making import (
    ARTIFACT,
    OTHER,
    bundle,
    bundle_signature,
    entry,
    key,
    payload_signature,
    statement,
)

from copyrator.signatures.attestation import (
    encode_statement,
    judge,
    parse_statement,
    sign_statement,
)
from copyrator.signatures.judge import judge as judge_signatures
from copyrator.signatures.model import (
    ATTESTATION_BYTES,
    Artifact,
    DeployedEvidence,
    DeployedStatement,
    Found,
    FoundAttestations,
    InvalidSignatureError,
    Signature,
    SignatureRequirement,
)

TIMES = st.integers(1_600_000_000, 4_000_000_000).map(
    lambda seconds: datetime.fromtimestamp(seconds, UTC)
)
LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
STATEMENTS = st.builds(
    lambda since, seconds, **more: DeployedStatement(
        since=since, until=since + timedelta(seconds=seconds), seconds=seconds, **more
    ),
    since=TIMES,
    seconds=st.integers(0, 10**8),
    issued_at=TIMES,
    digest=st.binary(min_size=32, max_size=32).map(lambda raw: f"sha256:{raw.hex()}"),
    environment=LABELS,
    cluster=st.uuids().map(str),
    namespace=LABELS,
    release=LABELS,
    revision=st.integers(1, 10**6),
    withdrawn=st.booleans(),
    reason=st.text(max_size=200).filter(str.isprintable),
)


def judged(*found: Signature, digest: str = ARTIFACT.digest) -> DeployedEvidence:
    return judge(digest, FoundAttestations(found), [trust()])


def refusal(found: Signature) -> str:
    evidence = judged(found)
    assert evidence.statements == ()
    (why,) = evidence.refused
    return why.partition(": ")[2]


@given(STATEMENTS)
def test_what_is_written_is_what_is_read(made: DeployedStatement) -> None:
    assert parse_statement(encode_statement(made)) == made


@pytest.mark.parametrize("kind", ["P-256", "P-384", "ed25519"])
def test_what_is_signed_is_believed(kind: str) -> None:
    evidence = judge(
        ARTIFACT.digest, FoundAttestations((attested(kind),)), [trust("staging", kind)]
    )

    assert evidence == DeployedEvidence((DEPLOYED,))


@pytest.mark.parametrize("kind", ["P-256", "P-384", "ed25519"])
def test_a_statement_that_is_signed_again_gives_the_same_bytes(kind: str) -> None:
    assert sign_statement(signing_key(kind), DEPLOYED) == sign_statement(
        signing_key(kind), DEPLOYED
    )


def test_each_environment_has_its_own_keys() -> None:
    both = [trust("staging"), trust("canary", "P-256 second")]
    found = [attested(), attested("P-256 second", environment="canary"), attested("P-384")]

    evidence = judge(ARTIFACT.digest, FoundAttestations(tuple(found)), both)

    assert evidence.statements == (DEPLOYED, replace(DEPLOYED, environment="canary"))
    (why,) = evidence.refused
    assert why.startswith(f"{found[2].digest[:19]}: the signature is by no key of staging, canary")


def test_a_key_speaks_for_its_own_environment_only() -> None:
    assert refusal(attested(environment="production")) == (
        "it is by a key of the environment staging, and says production"
    )


def test_the_attestation_of_another_digest_does_not_count() -> None:
    assert refusal(attested(digest=OTHER.digest)) == (
        f"the attestation is of another digest: {OTHER.digest}"
    )


def test_dates_of_other_zones_are_the_same_moments() -> None:
    there = DEPLOYED.issued_at.astimezone(timezone(timedelta(hours=-5))).isoformat()

    (read,) = judged(by_hand(document(issuedAt=there))).statements

    assert read == DEPLOYED
    assert read.issued_at.tzinfo is UTC


def test_an_attestation_is_written_without_blanks_and_names_its_key() -> None:
    """Another form has another digest, so the same statement would be attested again."""
    assert encode_statement(DEPLOYED) == json.dumps(document(), separators=(",", ":")).encode()
    public = key("P-256").public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    hint = base64.b64encode(hashlib.sha256(public).digest()).decode()

    blob = attested().blob

    assert json.loads(blob)["verificationMaterial"] == {"publicKey": {"hint": hint}}
    assert b" " not in blob


def test_the_statement_of_cosign_attest_is_accepted() -> None:
    older = document() | {"_type": "https://in-toto.io/Statement/v0.1"}
    older["subject"][0]["name"] = "registry.example/app"

    assert judged(by_hand(older)).statements == (DEPLOYED,)


def test_attestations_of_other_types_are_passed_over_and_counted() -> None:
    provenance = document() | {"predicateType": "https://slsa.dev/provenance/v1"}
    provenance["predicate"] = {"ratio": 0.5}

    assert judged(by_hand(provenance), by_hand(provenance)) == DeployedEvidence(others=2)
    assert judged(by_hand(statement())) == DeployedEvidence(), "a signature"


def _predicate(**changed: Any) -> Callable[[], Signature]:
    return lambda: by_hand(document(**changed))


def _without(*names: str) -> Callable[[], Signature]:
    def make() -> Signature:
        body = document()
        for name in names:
            del body["predicate"][name]
        return by_hand(body)

    return make


def _statement(**changed: Any) -> Callable[[], Signature]:
    return lambda: by_hand(document() | changed)


def _text(old: str, new: str) -> Callable[[], Signature]:
    return lambda: by_hand(json.dumps(document()).replace(old, new, 1).encode())


def _bundle(**changed: Any) -> Callable[[], Signature]:
    return lambda: by_hand(document(), **changed)


SUBJECT = {"digest": {"sha256": ARTIFACT.digest.removeprefix("sha256:")}}

REFUSED: dict[str, tuple[Callable[[], Signature], str]] = {
    "a certificate": (
        _bundle(verificationMaterial={"certificate": {"rawBytes": "AAAA"}}),
        "it is signed with a certificate (keyless), not with a key",
    ),
    "not JSON": (lambda: bundle_signature(b"\xff"), "the bundle is not valid JSON"),
    "another statement type": (_statement(_type="https://example.com"), "the statement's type"),
    "no subject": (
        _statement(subject=[]),
        "the statement doesn't have exactly one subject",
    ),
    "two subjects": (_statement(subject=[SUBJECT, SUBJECT]), "exactly one subject"),
    "no sha256": (
        _statement(subject=[{"digest": {"sha512": "00"}}]),
        "the statement's subject doesn't have only a sha256 digest",
    ),
    "no environment": (_without("environment"), "missing required field `environment`"),
    "no predicate": (_statement(predicate=None), "the predicate has another shape"),
    "an unknown field": (_predicate(ticket="1"), "unknown field `ticket`"),
    "a field twice": (
        _text('"withdrawn": false', '"withdrawn": true, "withdrawn": false'),
        "has the member 'withdrawn' more than once",
    ),
    "a date without zone": (
        _predicate(issuedAt="2026-11-24T12:00:00"),
        "the predicate's issuedAt isn't a date with a time zone",
    ),
    "a date that is no date": (_predicate(since="2026-02-30T12:00:00Z"), "since isn't a date"),
    "a date of other digits": (_predicate(since="٢٠٢٦-11-24T12:00:00Z"), "since isn't a date"),
    "year 1999": (_predicate(issuedAt="1999-12-31T23:59:59Z"), "issuedAt isn't a date"),
    "year 9000": (_predicate(issuedAt="9000-01-01T00:00:00Z"), "issuedAt isn't a date"),
    "an end before its beginning": (
        _predicate(until="2026-11-20T00:00:00Z"),
        "the predicate's until is before its since",
    ),
    "too many seconds": (_predicate(seconds=10**9 + 1), "seconds isn't a number of seconds"),
    "a name that is none": (_predicate(environment="Staging"), "the predicate's environment"),
    "revision 0": (
        _predicate(release={"namespace": "a", "name": "b", "revision": 0}),
        "release.revision must be at least 1",
    ),
    "a cluster that is no uid": (_predicate(cluster="a b"), "the predicate's cluster isn't a uid"),
    "a reason of two lines": (_predicate(reason="a\nb"), "reason isn't a line of 200 characters"),
    "a number of a thousand digits": (
        _text('"seconds":', '"seconds": 1%s, "x":' % ("0" * 1000)),
        "the statement is not valid JSON",
    ),
    "nested too deeply": (
        lambda: by_hand(b'{"predicate":' + b"[" * 4000 + b"]" * 4000 + b"}"),
        "the statement",
    ),
}


WHOLE = {"a certificate", "no subject", "no sha256", "an end before its beginning"}
"""Those whose sentence stands there as a whole."""


@pytest.mark.parametrize("what", REFUSED)
def test_others_are_refused_by_name(what: str) -> None:
    make, why = REFUSED[what]
    told = refusal(make())
    assert told == why if what in WHOLE else why in told


@pytest.mark.parametrize(
    "said",
    [
        {"reason": "a" * 200},
        {"seconds": 0},
        {"seconds": 10**9},
        {"cluster": "a" * 64},
        {"issuedAt": "2000-01-01T00:00:00Z"},
        {"issuedAt": "8999-12-31T23:59:59.123456789Z"},
        {"since": "2026-01-01T00:00:00Z", "until": "2026-01-01T00:00:00Z"},
    ],
    ids=repr,
)
def test_what_is_just_within_the_limits_counts(said: dict[str, Any]) -> None:
    assert judged(by_hand(document(**said))).refused == ()


@pytest.mark.parametrize(("more", "refused"), [(0, False), (1, True)])
def test_the_largest_attestation_counts(more: int, refused: bool) -> None:
    found = attested()
    padding = b" " * (ATTESTATION_BYTES - len(found.blob) + more)

    assert bool(judged(replace(found, blob=found.blob + padding)).refused) is refused


def test_a_signature_is_no_attestation_and_an_attestation_is_no_signature() -> None:
    requirement = SignatureRequirement("spec.verify", (entry(key("P-256")),))
    found = Found(Artifact(ARTIFACT.digest, "", 0), (attested(),))

    judgement = judge_signatures(found, [requirement], DEPLOYED.issued_at)

    assert not judgement.is_trusted
    assert "it is an attestation" in judgement.failures[0].reason
    assert judged(bundle_signature(bundle(key("P-256")))) == DeployedEvidence()
    assert judged(payload_signature(key("P-256"))).statements == ()


def test_at_most_ten_refusals_are_named() -> None:
    found = [attested(environment=f"other-{i}") for i in range(12)]

    assert len(judged(*found).refused) == 10


def test_the_same_statement_twice_is_one() -> None:
    assert judged(attested(), attested()).statements == (DEPLOYED,)


def test_only_our_predicate_type_is_parsed() -> None:
    with pytest.raises(InvalidSignatureError, match="its predicate type is"):
        parse_statement(statement())
    long = json.dumps(document() | {"predicateType": "t" * 200}).encode()
    with pytest.raises(InvalidSignatureError, match=f"^its predicate type is '{'t' * 100}'$"):
        parse_statement(long)
