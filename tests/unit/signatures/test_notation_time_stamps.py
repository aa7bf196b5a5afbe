"""RFC 3161 time stamps over signatures of the Notary Project, and mutations of envelopes."""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID as Purposes
from cryptography.x509.oid import ExtensionOID
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.unit.signatures.notary import (
    ARTIFACT,
    DAY,
    EXPIRY,
    NOW,
    SCHEME,
    SUBJECT,
    TIME_STAMP,
    Holder,
    as_signature,
    make_ca,
    make_certificate,
    make_chain,
    make_envelope,
    make_headers,
    make_trust,
)
from tests.unit.signatures.time_stamps import make_time_stamp, make_tsa

from copyrator.signatures.judge import judge as judge_all
from copyrator.signatures.model import Found, InvalidSignatureError, SignatureRequirement
from copyrator.signatures.notation import TimeInterval, load_roots, read_time_stamp, verify
from hostile.mangled import JSON

LATER = NOW + 60 * DAY
"""The signer's certificate has expired, its root hasn't."""

ROOT = make_tsa()[-1]


def judge(
    now: datetime = LATER,
    root: Holder | None = ROOT,
    headers: dict[str, Any] | None = None,
    **changes: Any,
) -> datetime | None:
    stamp = partial(make_time_stamp, **{"chain": make_tsa(), **changes})
    entry = make_trust(tsa=root.pem if root else b"")
    return verify(ARTIFACT, as_signature(make_envelope(headers=headers, stamp=stamp)), entry, now)


def refusal(now: datetime = LATER, root: Holder | None = ROOT, **changes: Any) -> str:
    with pytest.raises(InvalidSignatureError) as raised:
        judge(now, root, **changes)
    return str(raised.value)


@pytest.mark.parametrize("kind", ["RSA-2048", "P-256", "P-384"])
def test_a_time_stamp_proves_that_the_chain_was_valid_when_it_signed(kind: str) -> None:
    assert judge(chain=make_tsa(kind=kind)) is None
    assert judge(now=NOW, chain=make_tsa(kind=kind)) is None


def test_only_the_expiry_ends_what_is_stamped() -> None:
    headers = make_headers(**{EXPIRY: "2026-12-01T00:00:00Z", "crit": [SCHEME, EXPIRY]})
    assert judge(headers=headers) == datetime.fromisoformat("2026-12-01T00:00:00Z")
    with pytest.raises(InvalidSignatureError, match="it expired at 2026-12-01"):
        judge(headers=headers, now=datetime.fromisoformat("2026-12-01T00:00:00Z"))


def test_without_a_trusted_authority_only_now_counts() -> None:
    assert judge(now=NOW, root=None) == NOW + 10 * DAY
    assert refusal(root=None).endswith("; the entry trusts no time stamp authority")
    other = make_ca("CN=other TSA,C=US")
    assert judge(now=NOW, root=other) == NOW + 10 * DAY
    assert "which is none of the trusted roots" in refusal(root=other)
    with pytest.raises(InvalidSignatureError, match=r"expired at 2026-03-11T12:00:00Z$"):
        verify(ARTIFACT, as_signature(make_envelope()), make_trust(tsa=ROOT.pem), LATER)


def test_an_authority_for_time_stamps_is_none_for_signers() -> None:
    assert "none of the trusted roots" in refusal(root=make_ca())


EXPIRED = f'certificate "{SUBJECT}" expired at 2026-03-11T12:00:00Z'
NOT_YET = f'certificate "{SUBJECT}" is valid only from 2026-02-19T12:00:00Z'
WITHOUT_SIGNER = "its time stamp comes without the certificate of its signer"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"moment": NOW + 11 * DAY}, EXPIRED),
        ({"moment": NOW - 11 * DAY}, NOT_YET),
        ({"moment": LATER + DAY}, "its time stamp is in the future"),
        ({"moment": NOW + 10 * DAY}, EXPIRED),  # at the end, give or take 1 s
        ({"moment": NOW - 10 * DAY}, NOT_YET),
        (
            {"digest": "sha1"},
            "its time stamp has a hash other than SHA-256, SHA-384 and SHA-512",
        ),
        ({"altered": True}, "the signature of its time stamp is not valid"),
        ({"certificates": []}, WITHOUT_SIGNER),
        ({"certificates": [make_ca()]}, WITHOUT_SIGNER),
        (
            {"certificates": [make_tsa()[0] for _ in range(11)]},
            "its time stamp has not one signer and up to 10 certificates",
        ),
        ({"accuracy": 10**11}, "its time stamp can't be read"),
    ],
)
def test_a_time_stamp_that_proves_nothing_is_refused(changes: dict[str, Any], reason: str) -> None:
    assert refusal(**changes) == f"{EXPIRED}; {reason}"


@pytest.mark.parametrize("margin", [timedelta(seconds=1), timedelta(0)])
def test_the_accuracy_is_counted(margin: timedelta) -> None:
    accuracy = None if not margin else margin.seconds
    assert judge(moment=NOW + 10 * DAY - margin, accuracy=accuracy) is None
    assert judge(moment=NOW - 10 * DAY + margin, accuracy=accuracy) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"purposes": [Purposes.CODE_SIGNING]}, "extendedKeyUsage timeStamping"),
        ({"purposes": [Purposes.TIME_STAMPING, Purposes.CODE_SIGNING]}, "extendedKeyUsage"),
        ({"purposes_critical": False}, "extendedKeyUsage timeStamping"),
        ({"usages": ["content_commitment"]}, "other keyUsage than digitalSignature"),
        ({"ca": True, "usages": ["digital_signature"]}, "is a CA"),
        ({"end": NOW - 2 * DAY}, "expired at 2026-02-27"),
        ({"kind": "RSA-1024"}, "has an RSA key of 1024 bits"),
    ],
)
def test_an_authoritys_certificate_is_for_time_stamps(changes: dict[str, Any], reason: str) -> None:
    assert reason in refusal(chain=make_tsa(**changes))


def test_an_authoritys_key_usage_neednt_be_critical() -> None:
    assert judge(chain=make_tsa(usage_critical=False)) is None


def test_an_authority_may_be_expired_now() -> None:
    assert judge(chain=make_tsa(end=NOW + DAY)) is None


def test_an_authority_below_another_ca_verifies_with_certificates_in_any_order() -> None:
    middle = make_certificate("CN=TSA CA,C=US", ROOT, ca=True, start=NOW - 20 * DAY)
    tsa, _ = make_tsa(middle)
    for certificates in ([tsa, middle], [middle, tsa, ROOT], [tsa, middle, make_ca()]):
        for is_sorted in (True, False):
            chain = [tsa, middle, ROOT]
            assert judge(chain=chain, certificates=certificates, is_sorted=is_sorted) is None
    assert "none of the trusted roots" in refusal(chain=[tsa, middle, ROOT], certificates=[tsa])


def test_an_authoritys_certificate_by_another_key_is_refused() -> None:
    tsa, root = make_tsa()
    twin = make_certificate("CN=twin,C=US", key=tsa.key)
    assert "not valid" in refusal(chain=[Holder(tsa.certificate, make_ca().key), root])
    assert "without the certificate" in refusal(chain=[tsa, root], certificates=[twin])


def test_a_time_stamp_over_another_signature_is_refused() -> None:
    token = make_time_stamp(b"another signature", make_tsa())
    envelope = make_envelope(unprotected={TIME_STAMP: base64.b64encode(token).decode()})
    with pytest.raises(InvalidSignatureError, match=r"; its time stamp is for another signature$"):
        verify(ARTIFACT, as_signature(envelope), make_trust(tsa=ROOT.pem), LATER)


def test_garbage_for_a_time_stamp_is_refused() -> None:
    token = make_time_stamp(b"", make_tsa())
    for garbage in (b"x", token[:-1], token + b"\0", b"\x30\x80", b"\x30\x84\xff\xff\xff\xff"):
        text = base64.b64encode(garbage).decode()
        envelope = as_signature(make_envelope(unprotected={TIME_STAMP: text}))
        with pytest.raises(InvalidSignatureError, match="its time stamp can't be read"):
            verify(ARTIFACT, envelope, make_trust(tsa=ROOT.pem), LATER)
        assert verify(ARTIFACT, envelope, make_trust(tsa=ROOT.pem), NOW) == NOW + 10 * DAY


def test_a_knot_of_cas_isnt_searched_in_all_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    knot = [make_certificate("CN=knot,C=US", key=make_ca().key, ca=True) for _ in range(9)]
    tsa, _ = make_tsa(knot[0])
    assert "of the trusted roots" in refusal(chain=[tsa], certificates=[tsa, *knot])


TOKEN = make_time_stamp(b"message", make_tsa())
ROOTS = load_roots("tsa.crt", ROOT.pem)
STAMPED = TimeInterval(NOW - DAY - timedelta(seconds=1), NOW - DAY + timedelta(seconds=1))

Mutation = Callable[[bytearray, int, int], None]


def replace_byte(text: bytearray, place: int, byte: int) -> None:
    text[place] = byte


def insert_byte(text: bytearray, place: int, byte: int) -> None:
    text.insert(place, byte)


def delete_bytes(text: bytearray, place: int, byte: int) -> None:
    del text[place : place + 1 + byte % 4]


def test_the_time_of_a_token_is_read() -> None:
    assert read_time_stamp(TOKEN, b"message", ROOTS) == STAMPED


@given(
    st.lists(
        st.tuples(
            st.sampled_from([replace_byte, insert_byte, delete_bytes]),
            st.integers(0, len(TOKEN) - 20),
            st.integers(0, 255),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_no_mutation_of_a_token_gives_another_time(
    mutations: list[tuple[Mutation, int, int]],
) -> None:
    """Parts of a token aren't signed (as the version of its container): its time is."""
    token = bytearray(TOKEN)
    for mutate, place, byte in mutations:
        mutate(token, place, byte)
    with suppress(InvalidSignatureError):
        assert read_time_stamp(bytes(token), b"message", ROOTS) == STAMPED


def test_a_time_stamp_of_now_isnt_of_the_future() -> None:
    """It was made while the certificates were valid, so nothing ends the verdict."""
    second = timedelta(seconds=1)
    assert judge(now=NOW, moment=NOW - second, accuracy=1) is None
    assert judge(now=NOW, moment=NOW, accuracy=1) == NOW + 10 * DAY


def test_a_time_stamp_makes_no_certificate_one_for_code_signing() -> None:
    leaf = make_certificate("CN=server,O=example.com,ST=WA,C=US", make_ca(), usage_critical=False)
    stamp = partial(make_time_stamp, chain=make_tsa())
    envelope = as_signature(make_envelope([leaf, make_ca()], stamp=stamp))
    with pytest.raises(InvalidSignatureError) as caught:
        verify(ARTIFACT, envelope, make_trust(tsa=ROOT.pem, subjects=("*",)), LATER)
    assert str(caught.value).split("; ", 1)[1].endswith("has a keyUsage that isn't critical")


@pytest.mark.parametrize(
    ("accuracy", "margin"),
    [
        (b"\x80\x02\x01\xf4", timedelta(milliseconds=500)),
        (b"\x81\x01\x64", timedelta(microseconds=100)),
        (b"\x02\x01\x02\x80\x01\x05\x81\x01\x07", timedelta(0, 2, 7, 5)),
    ],
)
def test_parts_of_a_second_of_the_accuracy_are_counted(accuracy: bytes, margin: timedelta) -> None:
    token = make_time_stamp(b"message", make_tsa(), accuracy=accuracy)
    moment = NOW - DAY
    assert read_time_stamp(token, b"message", ROOTS) == TimeInterval(
        moment - margin, moment + margin
    )


@pytest.mark.parametrize(
    ("moment", "until"),
    [
        (LATER + DAY, LATER + DAY + timedelta(seconds=1)),  # give or take 1 s
        (NOW - 11 * DAY, None),  # before the certificate, whatever time it is
        (NOW + 11 * DAY, None),
    ],
)
def test_only_a_refusal_that_time_can_end_has_an_end(
    moment: datetime, until: datetime | None
) -> None:
    stamp = partial(make_time_stamp, chain=make_tsa(), moment=moment)
    found = Found(ARTIFACT, (as_signature(make_envelope(stamp=stamp)),))
    judged = judge_all(found, [SignatureRequirement("r", (make_trust(tsa=ROOT.pem),))], LATER)
    assert not judged.is_trusted
    assert judged.until == until


def test_a_signer_whose_certificate_begins_later_is_refused_until_then() -> None:
    found = Found(ARTIFACT, (as_signature(make_envelope()),))
    judged = judge_all(found, [SignatureRequirement("r", (make_trust(),))], NOW - 30 * DAY)
    assert (judged.is_trusted, judged.until) == (False, NOW - 10 * DAY)
    assert judge_all(found, [SignatureRequirement("r", (make_trust(),))], NOW - 10 * DAY).is_trusted


def make_plain() -> dict[str, Any]:
    """An envelope in which every byte counts: without a signing agent and a time stamp."""
    headers = make_headers(**{EXPIRY: "2026-03-05T00:00:00Z", "crit": [SCHEME, EXPIRY]})
    envelope = make_envelope(headers=headers)
    del envelope["header"]["io.cncf.notary.signingAgent"]
    return envelope


ENVELOPE = make_plain()
TEXT = json.dumps(ENVELOPE, separators=(",", ":")).encode()
STAMPED_ENVELOPE = make_envelope(stamp=partial(make_time_stamp, chain=make_tsa()))
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
    assert not is_refused(STAMPED_ENVELOPE)


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
