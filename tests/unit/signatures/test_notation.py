"""Verdicts on signatures of the Notary Project: whose they are, over what, and until when."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import padding
from tests.unit.signatures.notary import (
    ARTIFACT,
    AUTHENTIC_TIME,
    DAY,
    EXPIRY,
    NOW,
    SCHEME,
    SIGNING_TIME,
    SUBJECT,
    Holder,
    as_signature,
    encode,
    make_ca,
    make_certificate,
    make_chain,
    make_envelope,
    make_headers,
    make_key,
    make_payload,
    make_trust,
    sign,
)

from copyrator.signatures.model import Artifact, InvalidSignatureError, NotationTrust
from copyrator.signatures.notation import verify

ALGORITHMS = {
    "RSA-2048": "PS256",
    "RSA-3072": "PS384",
    "RSA-4096": "PS512",
    "P-256": "ES256",
    "P-384": "ES384",
    "P-521": "ES512",
}
BY_AUTHORITY: dict[str, Any] = {
    SCHEME: "notary.x509.signingAuthority",
    SIGNING_TIME: None,
    AUTHENTIC_TIME: "2026-02-28T12:00:00Z",
    "crit": [SCHEME, AUTHENTIC_TIME],
}
EXPIRING = {EXPIRY: "2026-03-05T00:00:00+02:00", "crit": [EXPIRY, SCHEME]}


def judge(
    envelope: dict[str, Any] | bytes,
    entry: NotationTrust | None = None,
    now: datetime = NOW,
    artifact: Artifact = ARTIFACT,
) -> datetime | None:
    return verify(artifact, as_signature(envelope), entry or make_trust(), now)


def refusal(
    envelope: dict[str, Any] | bytes,
    entry: NotationTrust | None = None,
    now: datetime = NOW,
    artifact: Artifact = ARTIFACT,
) -> str:
    with pytest.raises(InvalidSignatureError) as raised:
        judge(envelope, entry, now, artifact)
    return str(raised.value)


@pytest.mark.parametrize(("kind", "algorithm"), ALGORITHMS.items())
def test_each_algorithm_verifies_until_the_first_certificate_of_the_chain_ends(
    kind: str, algorithm: str
) -> None:
    assert judge(make_envelope(make_chain(kind), headers=make_headers(algorithm))) == NOW + 10 * DAY


@pytest.mark.parametrize("length", [0, 20, padding.PSS.MAX_LENGTH])
def test_any_length_of_the_salt_verifies(length: Any) -> None:
    chain = make_chain("RSA-2048")
    envelope = make_envelope(chain, headers=make_headers("PS256"))
    text = f"{envelope['protected']}.{envelope['payload']}".encode()
    envelope["signature"] = encode(sign(chain[0].key, "PS256", text, length))
    assert judge(envelope) is not None


@pytest.mark.parametrize("kind", ALGORITHMS)
def test_the_key_decides_the_algorithm(kind: str) -> None:
    right = ALGORITHMS[kind]
    family = [one for one in ALGORITHMS.values() if one[0] == right[0] and one != right]
    for other in family:
        envelope = make_envelope(make_chain(kind), headers=make_headers(other))
        assert f"another algorithm than {right}" in refusal(envelope)


@pytest.mark.parametrize("algorithm", ["none", "HS256", "RS256", "ES256K", "", "es256", "EdDSA"])
def test_other_algorithms_are_refused(algorithm: str) -> None:
    envelope = make_envelope(headers=json.dumps(make_headers(algorithm)).encode())
    assert "another algorithm than ES256" in refusal(envelope)


def test_the_expiry_ends_the_verdict_and_the_signature() -> None:
    envelope = make_envelope(headers=make_headers(**EXPIRING))
    end = datetime.fromisoformat("2026-03-04T22:00:00Z")
    assert judge(envelope) == end
    assert judge(envelope, now=end - timedelta(seconds=1)) == end
    assert refusal(envelope, now=end) == "it expired at 2026-03-04T22:00:00Z"


def test_the_expiry_beyond_the_certificates_doesnt_prolong_them() -> None:
    headers = make_headers(**{EXPIRY: "2027-01-01T00:00:00Z", "crit": [SCHEME, EXPIRY]})
    assert judge(make_envelope(headers=headers)) == NOW + 10 * DAY


def test_an_expired_certificate_is_refused_and_one_of_the_future() -> None:
    last = NOW + 10 * DAY
    assert judge(make_envelope(), now=last) == last
    late = refusal(make_envelope(), now=last + timedelta(seconds=1))
    assert late == f'certificate "{SUBJECT}" expired at 2026-03-11T12:00:00Z'
    early = refusal(make_envelope(), now=NOW - 11 * DAY)
    assert early == f'certificate "{SUBJECT}" is valid only from 2026-02-19T12:00:00Z'


def test_a_signing_authority_needs_a_chain_valid_at_its_signing_time() -> None:
    envelope = make_envelope(headers=make_headers(**BY_AUTHORITY))
    entry = make_trust(ca=b"", signing_authorities=make_ca().pem)
    assert judge(envelope, entry) is None
    assert judge(envelope, entry, now=NOW + 500 * DAY) is None
    headers = make_headers(**{**BY_AUTHORITY, AUTHENTIC_TIME: "2026-03-12T00:00:00Z"})
    assert "expired at 2026-03-11" in refusal(make_envelope(headers=headers), entry)
    headers = make_headers(**{**BY_AUTHORITY, AUTHENTIC_TIME: "2026-02-01T00:00:00Z"})
    assert "valid only from" in refusal(make_envelope(headers=headers), entry)


def test_a_signing_authority_ends_with_its_expiry() -> None:
    headers = make_headers(**{**BY_AUTHORITY, **EXPIRING})
    headers["crit"] = [SCHEME, AUTHENTIC_TIME, EXPIRY]
    entry = make_trust(signing_authorities=make_ca().pem)
    assert judge(make_envelope(headers=headers), entry) == datetime.fromisoformat(
        "2026-03-04T22:00:00Z"
    )


def test_a_ca_is_no_signing_authority_and_the_other_way_round() -> None:
    envelope = make_envelope(headers=make_headers(**BY_AUTHORITY))
    assert refusal(envelope) == "it is by a signing authority, and the entry trusts none"
    other = make_ca("CN=other,O=example.com,ST=WA,C=US")
    entry = make_trust(signing_authorities=other.pem)
    assert "none of the trusted roots" in refusal(envelope, entry)
    entry = make_trust(other, signing_authorities=make_ca().pem)
    assert "none of the trusted roots" in refusal(make_envelope(), entry)


OTHER_DIGEST = "it is for another artifact: its payload has another digest"


@pytest.mark.parametrize(
    ("artifact", "reason"),
    [
        (replace(ARTIFACT, digest="sha256:" + "b" * 64), OTHER_DIGEST),
        (replace(ARTIFACT, digest="sha256:" + "A" * 64), OTHER_DIGEST),
        (
            replace(ARTIFACT, media_type="application/vnd.oci.image.index.v1+json"),
            "its payload has another media type than the artifact",
        ),
        (replace(ARTIFACT, size=1235), "its payload has another size than the artifact"),
    ],
)
def test_a_signature_of_another_artifact_is_refused(artifact: Artifact, reason: str) -> None:
    assert judge(make_envelope()) is not None
    assert refusal(make_envelope(), artifact=artifact) == reason


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b'{"targetArtifact": "sha256:aa"}',
        b'{"TargetArtifact": {"mediaType": "a", "digest": "b", "size": 1}}',
        make_payload(size="1234"),
        b'{"targetArtifact":' * 5000,
        b"\xff" + make_payload(),
    ],
)
def test_a_payload_that_names_no_target_is_refused(payload: bytes) -> None:
    assert refusal(make_envelope(payload=payload)) == "its payload names no target"


def test_another_key_than_the_certificates_is_refused() -> None:
    chain = make_chain()
    thief = Holder(chain[0].certificate, make_key("P-256", "thief"))
    assert "made by another key" in refusal(make_envelope([thief, *chain[1:]]))


def test_a_chain_to_another_ca_of_the_same_name_is_refused() -> None:
    name = "CN=root,O=example.com,ST=WA,C=US"
    other = make_certificate(name, key=make_key("P-256", "other"), ca=True)
    signer = make_certificate(SUBJECT, other)
    assert "which is none of the trusted roots" in refusal(make_envelope([signer, other]))
    # the trusted root in its place: it hasn't issued the certificate
    assert "is not valid" in refusal(make_envelope([signer, make_ca()]))


def test_one_trusted_root_of_several_is_enough() -> None:
    other = make_ca("CN=other,O=example.com,ST=WA,C=US")
    assert judge(make_envelope(), make_trust(other, make_ca())) is not None


def test_a_self_signed_certificate_that_is_itself_trusted_verifies() -> None:
    signer = make_certificate(SUBJECT)
    assert judge(make_envelope([signer]), make_trust(signer)) == NOW + 10 * DAY
    assert "none of the trusted roots" in refusal(make_envelope([signer]))


def test_only_the_trusted_subjects_are_accepted() -> None:
    assert judge(make_envelope(), make_trust(subjects=("*",))) is not None
    near = SUBJECT.replace("releases", "release")
    assert judge(make_envelope(), make_trust(subjects=(near, SUBJECT))) is not None
    reason = f'its signer "{SUBJECT}" is none of the trusted subjects'
    assert refusal(make_envelope(), make_trust(subjects=(near,))) == reason


def test_an_entry_that_cant_be_used_is_a_refusal() -> None:
    for broken in ({"ca": b"nonsense"}, {"subjects": ()}, {"subjects": ("O=x",)}):
        reason = refusal(make_envelope(), make_trust(**broken))
        assert reason.startswith("the trust of this entry can't be used: ")


def test_the_file_at_fault_is_named() -> None:
    by_authority = make_envelope(headers=make_headers(**BY_AUTHORITY))
    for envelope, broken, file in (
        (make_envelope(), {"ca": b"text"}, "the CA's file"),
        (by_authority, {"signing_authorities": b"text"}, "the signing authorities' file"),
    ):
        assert refusal(envelope, make_trust(**broken)) == (
            f"the trust of this entry can't be used: {file} has no certificate in PEM; put the "
            "CA's root certificate there"
        )


def test_what_a_signing_authority_signs_has_to_be_by_a_certificate_for_code() -> None:
    leaf = make_certificate(SUBJECT, make_ca(), usage_critical=False)
    envelope = make_envelope([leaf, make_ca()], headers=make_headers(**BY_AUTHORITY))
    trust = make_trust(signing_authorities=make_ca().pem)
    assert refusal(envelope, trust).endswith("has a keyUsage that isn't critical")
