"""Envelopes of the Notary Project that aren't as its specification demands."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.signatures.notary import (
    ARTIFACT,
    AUTHENTIC_TIME,
    EXPIRY,
    NOW,
    SCHEME,
    SIGNING_TIME,
    as_signature,
    encode,
    make_chain,
    make_envelope,
    make_headers,
    make_payload,
    make_trust,
)

from copyrator.signatures.model import SIGNATURE_BYTES, InvalidSignatureError
from copyrator.signatures.notation import verify

PLUGIN = "io.cncf.notary.verificationPlugin"
AUTHORITY = "notary.x509.signingAuthority"
LATER = "2026-06-01T00:00:00Z"
SIGNED = "2026-02-28T12:00:00Z"


HEADER = "its protected header is not of the Notary Project"
CRIT = f"its header crit does not list exactly {SCHEME}"
NO_PLUGINS = "it requires a verification plugin of notation, which is not supported"
NO_TIME = "a time in its protected header is not of RFC 3339"


def refusal(envelope: Any) -> str:
    with pytest.raises(InvalidSignatureError) as raised:
        verify(ARTIFACT, as_signature(envelope), make_trust(), NOW)
    return str(raised.value)


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
    assert verify(ARTIFACT, as_signature(envelope), make_trust(), NOW) is not None


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
    assert verify(ARTIFACT, as_signature(blob), make_trust(), NOW) is not None
