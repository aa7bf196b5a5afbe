"""Verdicts on signatures of the Notary Project: whose, over what, until when."""

from __future__ import annotations

import json
from collections.abc import Callable
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

from copyrator.signatures.model import (
    SIGNATURE_BYTES,
    Artifact,
    InvalidSignatureError,
    NotationTrust,
)
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


PLUGIN = "io.cncf.notary.verificationPlugin"
AUTHORITY = "notary.x509.signingAuthority"
LATER = "2026-06-01T00:00:00Z"
SIGNED = "2026-02-28T12:00:00Z"


HEADER = "its protected header is not of the Notary Project"
CRIT = f"its header crit does not list exactly {SCHEME}"
NO_PLUGINS = "it requires a verification plugin of notation, which is not supported"
NO_TIME = "a time in its protected header is not of RFC 3339"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"cty": "application/vnd.cncf.notary.payload.v2+json"},
            "its payload is not of the type application/vnd.cncf.notary.payload.v1+json",
        ),
        ({"crit": None}, HEADER),
        ({"crit": [SCHEME, "example.com/unknown"], "example.com/unknown": 1}, CRIT),
        ({"crit": [SCHEME, EXPIRY]}, CRIT),
        ({EXPIRY: LATER}, f"its header crit does not list exactly {EXPIRY}, {SCHEME}"),
        (
            {SCHEME: "notary.x509.other"},
            f"its signing scheme is neither notary.x509 nor {AUTHORITY}",
        ),
        ({SIGNING_TIME: None}, "it has no signing time of the scheme notary.x509"),
        ({AUTHENTIC_TIME: SIGNED}, "it has a signing time that is not of the scheme notary.x509"),
        ({SCHEME: AUTHORITY}, f"its header crit does not list exactly {AUTHENTIC_TIME}, {SCHEME}"),
        (
            {SCHEME: AUTHORITY, "crit": [SCHEME, AUTHENTIC_TIME]},
            f"it has a signing time that is not of the scheme {AUTHORITY}",
        ),
        (
            {SCHEME: AUTHORITY, "crit": [SCHEME, AUTHENTIC_TIME], SIGNING_TIME: None},
            f"it has no signing time of the scheme {AUTHORITY}",
        ),
        ({PLUGIN: "com.example"}, NO_PLUGINS),
        ({PLUGIN: "com.example", "crit": [SCHEME, PLUGIN]}, NO_PLUGINS),
        ({SIGNING_TIME: "yesterday"}, NO_TIME),
        ({SIGNING_TIME: "2026-02-28T12:00:00"}, NO_TIME),
        ({SIGNING_TIME: "0001-01-01T00:00:00+23:59"}, NO_TIME),
        ({SIGNING_TIME: 1772280000}, HEADER),
        ({EXPIRY: SIGNED, "crit": [SCHEME, EXPIRY]}, "its expiry is not after its signing time"),
    ],
)
def test_a_protected_header_that_isnt_as_specified_is_refused(
    changes: dict[str, Any], reason: str
) -> None:
    assert refusal(make_envelope(headers=make_headers(**changes))) == reason


@pytest.mark.parametrize("name", [AUTHENTIC_TIME, SIGNING_TIME, EXPIRY])
def test_a_header_in_another_case_is_refused(name: str) -> None:
    """Notation reads it as the header, other readers don't."""
    headers = make_headers(**{name: None, name.upper(): SIGNED})
    said = refusal(make_envelope(headers=headers))
    assert said == "its protected header has a name in other case than specified"


@pytest.mark.parametrize(
    "twice", ['{"alg":"none",', '{"ALG":"none",', '{"other":{"a":1,"a":1},', '{"\\u0063ty":"x",']
)
def test_a_member_twice_is_refused(twice: str) -> None:
    headers = (twice + json.dumps(make_headers())[1:]).encode()
    assert refusal(make_envelope(headers=headers)).startswith("its protected header is not")
    target = make_payload().replace(b'{"targetArtifact"', b'{"TARGETartifact":{},"targetArtifact"')
    assert refusal(make_envelope(payload=target)) == "its payload names no target"
    whole = json.dumps(make_envelope()).encode()
    assert refusal(whole.replace(b"{", b'{"payload":"",', 1)) == ENVELOPE


def test_other_protected_headers_that_arent_critical_are_the_signers() -> None:
    headers = make_headers(**{"example.com/build": {"id": 1}, SIGNING_TIME: SIGNED[:-1] + ".5Z"})
    envelope = make_envelope(headers=headers)
    assert judge(envelope) is not None


def without(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda envelope: envelope.pop(name)


def put(**changes: Any) -> Callable[[dict[str, Any]], object]:
    return lambda envelope: envelope.update(changes)


def put_header(**changes: Any) -> Callable[[dict[str, Any]], object]:
    return lambda envelope: envelope["header"].update(changes)


ALTERED = "its signature is not valid: it was altered, or made by another key"
ENVELOPE = "it is not a JWS envelope of the Notary Project"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (without("payload"), ENVELOPE),
        (put(signatures=[]), ENVELOPE),
        (put(payload=1), ENVELOPE),
        (put(protected=encode(b"[" * 100_000)), HEADER),
        (put(header=[]), ENVELOPE),
        (put_header(x5c=[1]), ENVELOPE),
        (put_header(x5c=[]), "it has no certificate"),
        (put_header(x5c=["AAAA"]), "a certificate of its chain can't be read"),
        (put_header(x5c=[make_chain()[0].pem.decode()]), "its x5c is not base64"),
        (put_header(x5c=["AAAA"] * 11), "it has a chain of 11 certificates, more than 10"),
        (
            put_header(**{"io.cncf.notary.timestampSignature": "?"}),
            "its timestampSignature is not base64",
        ),
        (put(signature="AAAA"), "its signature has 3 bytes, not 64"),
        (put(signature=encode(bytes(64))), ALTERED),
        (put(signature="a+b/"), "its signature is not base64"),
        (put(signature="AB"), "its signature is not base64"),
        (put(signature="\u00e9"), "its signature is not base64"),
    ],
)
def test_an_envelope_that_isnt_as_specified_is_refused(
    change: Callable[[dict[str, Any]], object], reason: str
) -> None:
    envelope = make_envelope()
    change(envelope)
    assert refusal(envelope) == reason


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"nonsense",
        b"\xff\xfe",
        b"[" * 200_000,
        b'{"payload":' * 20_000,
        b"eyJhbGciOiJub25lIn0.e30.",
        json.dumps({"payload": "", "signatures": [make_envelope()]}).encode(),
    ],
    ids=["empty", "text", "binary", "arrays", "objects", "compact", "general"],
)
def test_what_is_no_flattened_jws_is_refused(blob: bytes) -> None:
    assert refusal(blob) == ENVELOPE


def test_an_envelope_over_the_limit_isnt_parsed() -> None:
    blob = json.dumps(make_envelope()).encode()
    assert refusal(blob + b" " * (SIGNATURE_BYTES + 1 - len(blob))) == (
        f"it has {SIGNATURE_BYTES + 1} bytes, more than {SIGNATURE_BYTES}"
    )
    blob += b" " * (SIGNATURE_BYTES - len(blob))
    assert judge(blob) is not None
