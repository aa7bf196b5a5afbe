"""cosign's signatures with keys, in both formats: what is accepted, and why the rest isn't."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import assume, example, given
from hypothesis import strategies as st
from tests.unit.signatures.making import (
    ARTIFACT,
    NOW,
    OTHER,
    bundle,
    bundle_signature,
    entry,
    envelope,
    key,
    payload,
    payload_signature,
    sign,
    statement,
    text,
)
from tests.unit.signatures.mutations import altered_bytes, altered_json

from copyrator.signatures import cosign_payload, sigstore_bundle
from copyrator.signatures.model import (
    InvalidSignatureError,
    NotYetValidError,
    Signature,
    SignatureFormat,
)

KINDS = ["P-256", "P-384", "ed25519", "RSA-2048"]
MINE = key("P-256")
DIGEST = ARTIFACT.digest.removeprefix("sha256:")


@pytest.mark.parametrize("kind", KINDS)
def test_a_payload_by_one_of_the_keys_is_accepted(kind: str) -> None:
    trusted = entry(key("P-256 second"), key(kind))
    assert cosign_payload.verify(ARTIFACT, payload_signature(key(kind)), trusted, NOW) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_bundle_by_one_of_the_keys_is_accepted(kind: str) -> None:
    signature = bundle_signature(bundle(key(kind)))
    trusted = entry(key("P-256 second"), key(kind))
    assert sigstore_bundle.verify(ARTIFACT, signature, trusted, NOW) is None


def test_cosign_signs_with_sha384_where_the_key_is_p384_only() -> None:
    for kind, accepted in [("P-384", True), ("P-256", False), ("RSA-2048", False)]:
        made = envelope(key(kind), statement(), hashes.SHA384())
        signature = bundle_signature(bundle(key(kind), dsseEnvelope=made))
        if accepted:
            assert sigstore_bundle.verify(ARTIFACT, signature, entry(key(kind)), NOW) is None
        else:
            with pytest.raises(InvalidSignatureError, match="by none of the keys"):
                sigstore_bundle.verify(ARTIFACT, signature, entry(key(kind)), NOW)


def test_a_statement_may_have_several_subjects_and_no_predicate() -> None:
    subjects = [{"digest": {"sha512": "00"}}, {"name": "app", "digest": {"sha256": DIGEST}}]
    document = json.loads(statement(subject=subjects))
    del document["predicate"]
    signature = bundle_signature(bundle(MINE, json.dumps(document).encode()))
    assert sigstore_bundle.verify(ARTIFACT, signature, entry(MINE), NOW) is None


def _twice(raw: bytes, name: str, first: str) -> bytes:
    """The member twice, where readers disagree which counts."""
    return raw.replace(f'"{name}":'.encode(), f'"{name}": {json.dumps(first)}, "{name}":'.encode())


def _payload(blob: bytes, **annotations: str) -> Signature:
    return payload_signature(MINE, blob, **annotations)


PAYLOADS: dict[str, tuple[Any, str]] = {
    "another digest": (_payload(payload(OTHER)), "is for another digest: sha256:"),
    "another key": (payload_signature(key("P-256 second")), r"by none of the keys \(0.pub\)"),
    "altered": (_payload(payload(), signature=text(sign(MINE, payload() + b" "))), "by none"),
    "empty annotation": (_payload(payload(), signature=""), "signature is empty"),
    "not base64": (_payload(payload(), signature="é!"), "is not base64"),
    "base64 with a line end": (
        _payload(payload(), signature=text(sign(MINE, payload())) + "\n"),
        "is not base64",
    ),
    "other type": (_payload(payload(type="atomic container signature")), "critical.type is not"),
    "digest is no string": (_payload(payload(image={"docker-manifest-digest": 5})), "shape"),
    "upper case": (
        _payload(payload(image={"docker-manifest-digest": ARTIFACT.digest.upper()})),
        "is for another digest",
    ),
    "digest twice": (
        _payload(_twice(payload(), "docker-manifest-digest", OTHER.digest)),
        "has the member 'docker-manifest-digest' more than once",
    ),
    "critical in two cases": (
        _payload(payload().replace(b'"optional": null', b'"Critical": {}')),
        "has the member 'Critical' more than once",
    ),
    "not JSON": (_payload(b"{"), "the payload is not valid JSON"),
}


@pytest.mark.parametrize("what", PAYLOADS)
def test_other_payloads_are_refused(what: str) -> None:
    signature, said = PAYLOADS[what]
    with pytest.raises(InvalidSignatureError, match=said) as caught:
        cosign_payload.verify(ARTIFACT, signature, entry(MINE), NOW)
    assert len(str(caught.value)) <= 300


def test_a_layer_without_the_annotation_is_refused() -> None:
    signature = payload_signature(MINE)
    bare = Signature(signature.format, signature.digest, signature.blob)
    with pytest.raises(InvalidSignatureError, match="the layer has no annotation"):
        cosign_payload.verify(ARTIFACT, bare, entry(MINE), NOW)


def _certificate(start: int, end: int) -> str:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "builder")])
    certificate = (
        x509.CertificateBuilder(name, name, MINE.public_key(), x509.random_serial_number())
        .not_valid_before(NOW + timedelta(hours=start))
        .not_valid_after(NOW + timedelta(hours=end))
        .sign(MINE, hashes.SHA256())
    )
    return certificate.public_bytes(Encoding.PEM).decode()


def test_a_certificate_beside_a_key_ends_the_verdict_as_with_cosign() -> None:
    for start, end in [(-1, 5), (0, 5), (-1, 0)]:  # both ends are included
        signature = payload_signature(MINE, certificate=_certificate(start, end))
        until = cosign_payload.verify(ARTIFACT, signature, entry(MINE), NOW)
        assert until == NOW + timedelta(hours=end)
    for certificate, said in [
        (_certificate(-5, -1), "the certificate beside the signature is valid from"),
        (_certificate(1, 5), "the certificate beside the signature is valid from"),
        ("garbage", "is not a certificate"),
        ("\ud800", "is not a certificate"),
    ]:
        signature = payload_signature(MINE, certificate=certificate)
        with pytest.raises(InvalidSignatureError, match=said):
            cosign_payload.verify(ARTIFACT, signature, entry(MINE), NOW)


def test_only_a_certificate_that_begins_later_may_end_the_refusal() -> None:
    later = payload_signature(MINE, certificate=_certificate(1, 5))
    with pytest.raises(NotYetValidError) as refused:
        cosign_payload.verify(ARTIFACT, later, entry(MINE), NOW)
    assert refused.value.since == NOW + timedelta(hours=1)
    ended = payload_signature(MINE, certificate=_certificate(-5, -1))
    with pytest.raises(InvalidSignatureError) as over:
        cosign_payload.verify(ARTIFACT, ended, entry(MINE), NOW)
    assert not isinstance(over.value, NotYetValidError)


def _material(**kinds: Any) -> dict[str, Any]:
    return {"verificationMaterial": kinds}


def _envelope(body: bytes | None = None, **changed: Any) -> dict[str, Any]:
    return {"dsseEnvelope": envelope(MINE, body or statement()) | changed}


_CERTIFICATE = {"rawBytes": "AAAA"}
(_SIGNATURE,) = envelope(MINE, statement())["signatures"]
_LONG = "https://slsa.dev/" + "p" * 100
_NOT_ONE = "the envelope doesn't have exactly one signature"
_NEITHER = "the bundle must have either a public key's hint or a certificate"
_OF_A_BLOB = (
    "the bundle has a message signature, as `cosign sign-blob` makes it, which is not supported: "
    "sign with `cosign sign`"
)
BUNDLES: dict[str, tuple[Any, str]] = {
    "another digest": (bundle(MINE, statement(OTHER)), "is for another digest: sha256:"),
    "another key": (bundle(key("P-256 second")), "by none of the keys (0.pub)"),
    "altered": (
        bundle(MINE, **_envelope(payload=text(statement(OTHER)))),
        "what it signs was altered",
    ),
    "signed without PAE": (
        bundle(MINE, **_envelope(signatures=[{"sig": text(sign(MINE, statement()))}])),
        "by none of the keys",
    ),
    "attestation": (
        bundle(MINE, statement(predicateType=_LONG)),
        f"it is an attestation ({_LONG[:100]}), which is not a signature: sign with `cosign sign`",
    ),
    "statement v0.1": (
        bundle(MINE, statement(_type="https://in-toto.io/Statement/v0.1")),
        "the statement's type is not",
    ),
    "no subject": (bundle(MINE, statement(subject=[])), "another digest: no subject"),
    "too many subjects": (
        bundle(MINE, statement(subject=[{"digest": {"sha256": DIGEST}}] * 1025)),
        "more than 1024 subjects",
    ),
    "digest with its algorithm": (
        bundle(MINE, statement(subject=[{"digest": {"sha256": ARTIFACT.digest}}])),
        "is for another digest",
    ),
    "payload of simple signing": (bundle(MINE, payload()), "the statement has another shape"),
    "other payload type": (
        bundle(MINE, **_envelope(payloadType="application/json")),
        "the envelope's payload type is not application/vnd.in-toto",
    ),
    "two signatures": (bundle(MINE, **_envelope(signatures=[_SIGNATURE, _SIGNATURE])), _NOT_ONE),
    "key id": (
        bundle(MINE, **_envelope(signatures=[_SIGNATURE | {"keyid": "key"}])),
        "the envelope's signature has a key id, which cosign doesn't write",
    ),
    "signature empty": (
        bundle(MINE, **_envelope(signatures=[{"sig": ""}])),
        "the envelope's signature is empty",
    ),
    "payload not canonical": (
        bundle(MINE, **_envelope(payload="AB==")),
        "the envelope's payload is not base64 in its canonical form",
    ),
    "keyless": (
        bundle(MINE, **_material(certificate=_CERTIFICATE)),
        "it is signed with a certificate (keyless), not with a key",
    ),
    "neither": (bundle(MINE, **_material()), _NEITHER),
    "chain": (
        bundle(MINE, **_material(x509CertificateChain={"certificates": [_CERTIFICATE]})),
        "the bundle has a chain of certificates, which v0.3 doesn't allow",
    ),
    "message signature": (
        bundle(MINE, dsseEnvelope=None, messageSignature={"signature": "AAAA"}),
        _OF_A_BLOB,
    ),
    "no content": (bundle(MINE, dsseEnvelope=None), "the bundle has no DSSE envelope"),
    "another media type": (
        bundle(MINE, mediaType="m" * 120),
        (
            f"the bundle's media type {'m' * 100!r} is not supported: sign with cosign 3, or 2.6 "
            "and --new-bundle-format (v0.3)"
        ),
    ),
    "unprintable": (bundle(MINE, mediaType="\x1b[31m\ud800\n"), "31m\\ud800"),
    "envelope twice": (
        _twice(json.dumps(bundle(MINE)).encode(), "payload", text(statement(OTHER))),
        "the bundle has the member 'payload' more than once",
    ),
}


WHOLE = {
    "attestation", "two signatures", "key id", "signature empty", "payload not canonical",
    "keyless", "neither", "chain", "message signature", "another media type",
}  # fmt: skip
"""Those whose sentence stands there as a whole."""


@pytest.mark.parametrize("what", BUNDLES)
def test_other_bundles_are_refused(what: str) -> None:
    document, said = BUNDLES[what]
    with pytest.raises(InvalidSignatureError) as caught:
        sigstore_bundle.verify(ARTIFACT, bundle_signature(document), entry(MINE), NOW)
    assert str(caught.value) == said if what in WHOLE else said in str(caught.value)
    assert len(str(caught.value)) <= 300
    assert str(caught.value).isprintable()


def test_a_key_that_cannot_be_read_accepts_nothing() -> None:
    trusted = entry(MINE)
    broken = type(trusted)(trusted.name, {"k": b"garbage"})
    with pytest.raises(InvalidSignatureError, match="k can't be read as a public key"):
        sigstore_bundle.verify(ARTIFACT, bundle_signature(bundle(MINE)), broken, NOW)


def test_a_statement_may_have_1024_subjects() -> None:
    subjects = [{"digest": {"sha256": DIGEST}}] * sigstore_bundle.SUBJECTS
    signature = bundle_signature(bundle(MINE, statement(subject=subjects)))
    assert sigstore_bundle.verify(ARTIFACT, signature, entry(MINE), NOW) is None


TRUSTED = entry(key("ed25519"), MINE, key("RSA-2048"))
PAYLOAD = payload_signature(MINE)
NAME = "dev.cosignproject.cosign/signature"
BUNDLE = json.dumps(bundle(MINE)).encode()


def _accepts(module: Any, signature: Signature) -> bool:
    try:
        module.verify(ARTIFACT, signature, TRUSTED, NOW)
    except InvalidSignatureError as error:
        said = str(error)
    else:
        return True
    assert len(said) <= 300
    assert said.isprintable()
    return False


@given(altered_bytes(PAYLOAD.blob) | altered_json(PAYLOAD.blob))
def test_no_altered_payload_is_accepted(blob: bytes) -> None:
    assume(blob != PAYLOAD.blob)
    signature = Signature(SignatureFormat.COSIGN_PAYLOAD, "", blob, PAYLOAD.annotations)
    assert not _accepts(cosign_payload, signature)


@given(altered_bytes(PAYLOAD.annotations[NAME].encode()))
def test_no_altered_signature_of_a_payload_is_accepted(altered: bytes) -> None:
    text = altered.decode("utf-8", "surrogateescape")
    assume(text != PAYLOAD.annotations[NAME])
    signature = Signature(SignatureFormat.COSIGN_PAYLOAD, "", PAYLOAD.blob, {NAME: text})
    assert not _accepts(cosign_payload, signature)


@given(st.binary(max_size=500) | altered_json(payload()))
def test_any_signed_payload_is_judged(blob: bytes) -> None:
    """Also its author may be hostile, or another tool: claims are read without a fault."""
    accepted = _accepts(cosign_payload, payload_signature(MINE, blob))
    if accepted:
        critical = json.loads(blob)["critical"]
        assert critical["image"]["docker-manifest-digest"] == ARTIFACT.digest
        assert critical["type"] == "cosign container image signature"


@given(altered_bytes(BUNDLE) | altered_json(BUNDLE))
@example(BUNDLE)
def test_an_altered_bundle_is_accepted_for_the_signed_bytes_only(blob: bytes) -> None:
    """Outside of these, a key's hint say, nothing is signed: altering it changes no verdict."""
    if _accepts(sigstore_bundle, bundle_signature(blob)):
        document = json.loads(blob)
        signed = document["dsseEnvelope"]
        original = json.loads(BUNDLE)
        assert base64.b64decode(signed["payload"]) == statement()
        assert signed["payloadType"] == original["dsseEnvelope"]["payloadType"]
        sigs = [each["sig"] for each in signed["signatures"]]
        assert sigs == [original["dsseEnvelope"]["signatures"][0]["sig"]]
        assert document["mediaType"] == original["mediaType"]


@given(st.binary(max_size=500) | altered_bytes(statement()) | altered_json(statement()))
def test_any_signed_statement_is_judged(body: bytes) -> None:
    if _accepts(sigstore_bundle, bundle_signature(bundle(MINE, body))):
        document = json.loads(body)
        assert document["predicateType"] == sigstore_bundle.SIGNATURE_PREDICATE
        assert document["_type"] == sigstore_bundle.STATEMENT_TYPE
        digests = [each.get("digest", {}).get("sha256") for each in document["subject"]]
        assert ARTIFACT.digest.removeprefix("sha256:") in digests
