"""Whatever is done to a signature, it is accepted for the signed bytes only, or is Invalid."""

from __future__ import annotations

import base64
import json
from typing import Any

from hypothesis import assume, example, given
from hypothesis import strategies as st
from tests.unit.signatures.making import (
    ARTIFACT,
    NOW,
    bundle,
    bundle_signature,
    entry,
    key,
    payload,
    payload_signature,
    statement,
)
from tests.unit.signatures.mutations import altered_bytes, altered_json

from copyrator.signatures import cosign_payload, sigstore_bundle
from copyrator.signatures.model import InvalidSignatureError, Signature, SignatureFormat

MINE = key("P-256")
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


@given(st.binary(max_size=2000), st.sampled_from([cosign_payload, sigstore_bundle]))
def test_noise_is_invalid(noise: bytes, module: Any) -> None:
    signature = Signature(SignatureFormat.COSIGN_PAYLOAD, "", noise, PAYLOAD.annotations)
    assert not _accepts(module, signature)
