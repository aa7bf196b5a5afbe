"""No mutation of an envelope verifies, and nothing but Invalid is raised."""

from __future__ import annotations

import base64
import json
import warnings
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtensionOID
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.unit.signatures.notary import (
    ARTIFACT,
    DAY,
    EXPIRY,
    NOW,
    SCHEME,
    as_signature,
    make_ca,
    make_certificate,
    make_chain,
    make_envelope,
    make_headers,
    make_trust,
)
from tests.unit.signatures.time_stamps import make_time_stamp, make_tsa

from copyrator.signatures.model import InvalidSignatureError
from copyrator.signatures.notation import verify
from hostile.mangled import JSON


def make_plain() -> dict[str, Any]:
    """An envelope in which every byte counts: without a signing agent and a time stamp."""
    headers = make_headers(**{EXPIRY: "2026-03-05T00:00:00Z", "crit": [SCHEME, EXPIRY]})
    envelope = make_envelope(headers=headers)
    del envelope["header"]["io.cncf.notary.signingAgent"]
    return envelope


ENVELOPE = make_plain()
TEXT = json.dumps(ENVELOPE, separators=(",", ":")).encode()
STAMPED = make_envelope(stamp=partial(make_time_stamp, chain=make_tsa()))
ENTRY = make_trust(tsa=make_tsa()[-1].pem)


def is_refused(envelope: dict[str, Any] | bytes) -> bool:
    try:
        verify(ARTIFACT, as_signature(envelope), ENTRY, NOW)
        return False
    except InvalidSignatureError as fault:
        reason = str(fault)
    assert 0 < len(reason) <= 300
    assert reason.isprintable()
    return True


def test_the_envelope_itself_verifies() -> None:
    assert not is_refused(TEXT)
    assert not is_refused(STAMPED)


@given(st.integers(0, len(TEXT) - 1), st.integers(0, 255))
def test_no_other_byte_verifies(place: int, byte: int) -> None:
    assume(TEXT[place] != byte)
    assert is_refused(TEXT[:place] + bytes([byte]) + TEXT[place + 1 :])


HEADERS = [*make_headers(), EXPIRY, "io.cncf.notary.authenticSigningTime", "b64", "jku"]


@given(st.dictionaries(st.sampled_from(HEADERS), JSON, min_size=1, max_size=3))
def test_headers_of_any_kind_raise_nothing_else(changes: dict[str, Any]) -> None:
    """With a signature that is right: a hostile signer, not a hostile registry."""
    headers = json.dumps({**make_headers(), **changes}).encode()
    is_refused(make_envelope(headers=headers))


def change_der(der: bytes, places: list[tuple[int, int]]) -> bytes:
    """A certificate's text with other bytes."""
    text = bytearray(der)
    for place, byte in places:
        text[place % len(text)] = byte
    return bytes(text)


@given(
    st.integers(0, 2),
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 255)), min_size=1, max_size=3),
)
def test_no_other_certificate_verifies(which: int, places: list[tuple[int, int]]) -> None:
    chain = make_chain()
    der = change_der(chain[which].der, places)
    assume(der != chain[which].der)
    x5c = [base64.b64encode(holder.der).decode() for holder in chain]
    x5c[which] = base64.b64encode(der).decode()
    envelope = {**ENVELOPE, "header": {"x5c": x5c}}
    assert is_refused(envelope)
    with warnings.catch_warnings():  # as the operator runs
        warnings.simplefilter("ignore")
        assert is_refused(envelope)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 255)), min_size=1, max_size=4))
def test_certificates_with_the_right_signature_raise_nothing_else(
    places: list[tuple[int, int]],
) -> None:
    """A trusted root with odd content: what a tenant may name as its own CA."""
    signer = make_certificate("CN=odd,O=odd,ST=WA,C=US")
    der = change_der(signer.der, places)
    envelope = make_envelope([signer])
    envelope["header"]["x5c"] = [base64.b64encode(der).decode()]
    pem = (
        b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(der) + b"-----END CERTIFICATE-----\n"
    )
    for ignored in (True, False):
        with warnings.catch_warnings():
            if ignored:
                warnings.simplefilter("ignore")
            with suppress(InvalidSignatureError):
                entry = make_trust(ca=pem, subjects=("*",))
                verify(ARTIFACT, as_signature(envelope), entry, NOW)


KNOWN_EXTENSIONS = [
    ExtensionOID.BASIC_CONSTRAINTS,
    ExtensionOID.KEY_USAGE,
    ExtensionOID.EXTENDED_KEY_USAGE,
    ExtensionOID.SUBJECT_ALTERNATIVE_NAME,
    ExtensionOID.NAME_CONSTRAINTS,
    ExtensionOID.AUTHORITY_KEY_IDENTIFIER,
    ExtensionOID.CERTIFICATE_POLICIES,
    ExtensionOID.CRL_DISTRIBUTION_POINTS,
    ExtensionOID.AUTHORITY_INFORMATION_ACCESS,
]
EXTENSION_CONTENT = st.binary(max_size=12) | st.sampled_from(
    [b"\x30\x03\x01\x01\xff", b"\x30\x06\x01\x01\xff\x02\x01\xff", b"\x03\x02\x07\x80", b"\x30\x00"]
)


@given(
    st.sampled_from(KNOWN_EXTENSIONS),
    EXTENSION_CONTENT,
    st.booleans(),
    st.sampled_from(["signer", "CA", "own"]),
)
def test_certificates_with_any_extension_raise_nothing_else(
    oid: x509.ObjectIdentifier, content: bytes, critical: bool, where: str
) -> None:
    """Content that the CA has signed: of a tenant's CA, whose certificates may be as it likes."""
    extension = (x509.UnrecognizedExtension(oid, content), critical)
    bare: dict[str, Any] = {"ca": None, "usages": [], "purposes": []}
    odd: dict[str, Any] = {**bare, "extensions": [extension]}
    name = "CN=odd,O=odd,ST=WA,C=US"
    if where == "own":
        chain = [make_certificate(name, **odd)]
    elif where == "signer":
        chain = [make_certificate(name, make_ca(), **odd), make_ca()]
    else:
        middle = make_certificate("CN=middle", make_ca(), **odd)
        chain = [make_certificate(name, middle), middle, make_ca()]
    with suppress(InvalidSignatureError):
        entry = make_trust(chain[-1], subjects=("*",))
        verify(ARTIFACT, as_signature(make_envelope(chain)), entry, NOW)


@given(st.binary(max_size=300))
def test_any_time_stamp_is_read_or_ignored(token: bytes) -> None:
    text = base64.b64encode(token).decode()
    envelope = {
        **ENVELOPE,
        "header": {**ENVELOPE["header"], "io.cncf.notary.timestampSignature": text},
    }
    assert not is_refused(envelope)
    with pytest.raises(InvalidSignatureError):
        verify(ARTIFACT, as_signature(envelope), ENTRY, NOW + 50 * DAY)
