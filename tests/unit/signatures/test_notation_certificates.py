"""Chains of the Notary Project's certificates, files of roots, subjects that an entry trusts."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID as Purposes
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.signatures.notary import (
    ARTIFACT,
    DAY,
    NOW,
    SUBJECT,
    Holder,
    Key,
    as_signature,
    make_ca,
    make_certificate,
    make_chain,
    make_envelope,
    make_headers,
    make_key,
    make_trust,
    resign,
)

from copyrator.signatures.certificates import describe
from copyrator.signatures.model import SIGNATURE_ROOT_BYTES, InvalidSignatureError, TrustError
from copyrator.signatures.notation import check_subject, load_roots, read_subjects, verify

MIDDLE = "CN=issuing,O=example.com,ST=WA,C=US"
UNKNOWN = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.99999.7"), b"\x05\x00")


def chain_refusal(
    chain: Sequence[Holder], root: Holder | None = None, algorithm: str = "ES256"
) -> str:
    envelope = make_envelope(chain, headers=make_headers(algorithm))
    with pytest.raises(InvalidSignatureError) as raised:
        verify(ARTIFACT, as_signature(envelope), make_trust(root or make_ca()), NOW)
    return str(raised.value)


def accepts(chain: Sequence[Holder], root: Holder | None = None) -> bool:
    envelope = as_signature(make_envelope(chain))
    return verify(ARTIFACT, envelope, make_trust(root or make_ca()), NOW) is not None


def with_signer(**changes: Any) -> tuple[Holder, ...]:
    return make_certificate(SUBJECT, make_ca(), **changes), make_ca()


def with_middle(**changes: Any) -> tuple[Holder, ...]:
    middle = make_certificate(MIDDLE, make_ca(), **{"ca": True, **changes})
    return make_certificate(SUBJECT, middle), middle, make_ca()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ca": True, "usages": ["digital_signature"]}, "of the signer is a CA"),
        ({"usages": []}, "of the signer has no keyUsage"),
        ({"usage_critical": False}, "has a keyUsage that isn't critical"),
        ({"usages": ["digital_signature", "key_encipherment"]}, "other keyUsage"),
        ({"usages": ["digital_signature", "key_agreement", "encipher_only"]}, "other keyUsage"),
        ({"usages": ["digital_signature", "key_cert_sign"]}, "other keyUsage"),
        ({"purposes": [Purposes.CODE_SIGNING, Purposes.CLIENT_AUTH]}, "other than code signing"),
        ({"purposes": [Purposes.ANY_EXTENDED_KEY_USAGE]}, "other than code signing"),
        ({"extensions": [(UNKNOWN, True)]}, "unaccounted-for critical extensions"),
        ({"end": NOW - DAY}, "expired at 2026-02-28"),
        ({"start": NOW + DAY}, "is valid only from 2026-03-02"),
    ],
)
def test_a_signers_certificate_is_for_signing_code(changes: dict[str, Any], reason: str) -> None:
    assert reason in chain_refusal(with_signer(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"ca": None},
        {"constraints_critical": False},
        {"purposes": ()},
        {"usages": ["digital_signature", "content_commitment"]},
        {"start": NOW},
        {"end": NOW},
        {"extensions": [(UNKNOWN, False)]},
        {"extensions": [(x509.SubjectAlternativeName([x509.RFC822Name("a@b.example")]), False)]},
    ],
)
def test_a_signers_certificate_may_be_so(changes: dict[str, Any]) -> None:
    assert accepts(with_signer(**changes))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ca": False}, "no keyUsage keyCertSign"),
        ({"ca": False, "usages": ["key_cert_sign"]}, "basicConstraints.cA must be asserted"),
        ({"ca": None, "usages": ["key_cert_sign"]}, "missing required extension"),
        ({"constraints_critical": False}, "incorrect criticality"),
        ({"usages": []}, "of a CA has no keyUsage"),
        ({"usages": ["digital_signature"]}, "no keyUsage keyCertSign"),
        ({"usage_critical": False}, "has a keyUsage that isn't critical"),
        ({"end": NOW - DAY}, "expired at 2026-02-28"),
    ],
)
def test_a_ca_of_the_chain_is_one(changes: dict[str, Any], reason: str) -> None:
    assert accepts(with_middle())
    assert reason in chain_refusal(with_middle(**changes))


def test_the_path_length_of_a_ca_is_obeyed() -> None:
    root = make_ca()
    first = make_certificate("CN=first,C=US", root, ca=True, path_length=0)
    second = make_certificate("CN=second,C=US", first, ca=True)
    signer = make_certificate(SUBJECT, second)
    said = chain_refusal([signer, second, first, root])
    assert "path length constraint violated" in said
    assert "encountered" not in said
    first = make_certificate("CN=first,C=US", root, ca=True, path_length=1)
    second = make_certificate("CN=second,C=US", first, ca=True)
    assert accepts([make_certificate(SUBJECT, second), second, first, root])


def test_a_certificate_with_an_extension_twice_is_refused() -> None:
    """The library finds it when extensions are read, with an exception of its own."""
    two = [x509.UnrecognizedExtension(x509.ObjectIdentifier(f"1.2.3.{n}"), b"") for n in (4, 5)]
    signer = make_certificate(SUBJECT, extensions=[(one, False) for one in two])
    assert accepts([signer], signer)
    twice = resign(signer, b"\x06\x03\x2a\x03\x05", b"\x06\x03\x2a\x03\x04")
    assert chain_refusal([twice], twice) == "an extension of a certificate can't be read"
    no_version = signer.der.replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x05", 1)
    envelope = make_envelope([signer])
    envelope["header"]["x5c"] = [base64.b64encode(no_version).decode()]
    with pytest.raises(InvalidSignatureError, match=r"^a certificate of its chain can't be read$"):
        verify(ARTIFACT, as_signature(envelope), make_trust(signer), NOW)


def test_an_expired_root_is_refused() -> None:
    root = make_certificate("CN=old,C=US", ca=True, end=NOW - DAY)
    chain = [make_certificate(SUBJECT, root), root]
    assert 'certificate "CN=old,C=US" expired' in chain_refusal(chain, root)


def test_the_chain_is_whole_in_order_and_without_others() -> None:
    signer, middle, root = make_chain()
    other = make_certificate("CN=unrelated,C=US", root, ca=True)
    ends = f"its chain ends at {describe(middle.certificate)}, which is none of the trusted roots"
    assert chain_refusal([signer, middle]) == ends
    said = chain_refusal([signer, root])
    assert said.startswith(f"the chain of {describe(signer.certificate)} is not valid: ")
    assert "encountered" not in said
    disordered = chain_refusal([signer, middle, other, root])
    assert disordered == "its chain is not in order, from the signer's certificate to the root"
    assert "none of the trusted roots" in chain_refusal([signer, root, middle])
    assert (
        chain_refusal([signer, middle, root, root])
        == "its chain has two certificates of the same name"
    )
    first = make_certificate("CN=first,C=US", root, ca=True)
    second = make_certificate("CN=second,C=US", first, ca=True)
    assert "not in order" in chain_refusal([make_certificate(SUBJECT, second), first, second, root])


def test_an_intermediate_ca_isnt_trusted_as_a_root() -> None:
    signer, middle, root = make_chain()
    envelope = as_signature(make_envelope([signer, middle]))
    with pytest.raises(InvalidSignatureError, match="none of the trusted roots"):
        verify(ARTIFACT, envelope, make_trust(middle, root), NOW)


UNSUPPORTED = "its signer has a key that is not of RSA 2048, 3072, 4096, P-256, P-384, P-521"


@pytest.mark.parametrize(
    ("kind", "algorithm", "reason"),
    [
        ("RSA-1024", "PS256", UNSUPPORTED),
        ("K-256", "ES256", UNSUPPORTED),
        (
            "Ed25519",
            "ES256",
            "its signer has a key that is neither RSA nor elliptic curve",
        ),
    ],
)
def test_a_signer_with_a_weak_key_is_refused(kind: str, algorithm: str, reason: str) -> None:
    chain = with_signer(key=make_key(kind))
    assert chain_refusal(chain, algorithm=algorithm) == reason


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (make_key("RSA-1024"), f'certificate "{MIDDLE}" has an RSA key of 1024 bits'),
        (make_key("P-224"), "neither RSA nor of P-256"),
        (make_key("Ed25519"), "is not signed with SHA-256"),
    ],
)
def test_a_ca_with_a_weak_key_is_refused(key: Any, reason: str) -> None:
    chain = with_middle(key=key)
    assert reason in chain_refusal(chain)


def file_refusal(pem: bytes) -> str:
    with pytest.raises(TrustError) as raised:
        load_roots("ca.crt", pem)
    return str(raised.value)


def private_pem(key: Key, kind: PrivateFormat = PrivateFormat.PKCS8) -> bytes:
    return key.private_bytes(Encoding.PEM, kind, NoEncryption())


def test_roots_and_cas_below_them_are_read() -> None:
    signer, middle, root = make_chain()
    own = make_certificate(SUBJECT)
    load_roots("ca.crt", b"# our CAs\n" + root.pem + middle.pem.replace(b"\n", b"\r\n") + own.pem)
    found = load_roots("ca.crt", root.pem + middle.pem + own.pem)
    assert found == (root.certificate, own.certificate)
    assert "ca.crt: certificate 2 is no CA" in file_refusal(root.pem + signer.pem)
    assert "ca.crt has no root" in file_refusal(middle.pem)


def test_weak_keys_and_hashes_are_refused() -> None:
    good = make_ca().pem
    for kind, reason in (
        ("RSA-1024", "certificate 2 has an RSA key of 1024 bits, not of 2048 to 8192"),
        ("P-224", "certificate 2 has a key that is neither RSA nor of P-256, P-384 or P-521"),
        ("Ed25519", "certificate 2 has a key that is neither RSA nor of P-256, P-384 or P-521"),
        ("K-256", "certificate 2 has a key that is neither RSA nor of P-256, P-384 or P-521"),
    ):
        assert (
            file_refusal(good + make_ca(f"CN={kind}", kind).pem)
            == f"ca.crt: {reason}; use another CA"
        )
    other = make_certificate("CN=sha3", ca=True, digest=hashes.SHA3_256())
    assert "not signed with SHA-256, SHA-384 or SHA-512" in file_refusal(other.pem)


def test_a_signature_of_an_unknown_kind_is_refused() -> None:
    ecdsa_with_sha256 = bytes.fromhex("2a8648ce3d040302")
    unknown = make_ca().der.replace(ecdsa_with_sha256, ecdsa_with_sha256[:-1] + b"\x7f")
    pem = x509.load_der_x509_certificate(unknown).public_bytes(Encoding.PEM)
    said = "ca.crt: certificate 1 has a key or a signature of an unsupported kind; use another CA"
    assert file_refusal(pem) == said


@pytest.mark.parametrize(
    "kind", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL], ids=["pkcs8", "ec"]
)
def test_a_private_key_is_refused_and_never_printed(kind: PrivateFormat) -> None:
    key = private_pem(make_key("P-256", "leaked"), kind)
    for pem in (key, make_ca().pem + key, key + make_ca().pem, key.replace(b"\n", b"\r\n")):
        reason = file_refusal(pem)
        assert reason == "ca.crt has a private key; put only certificates there, replace that key"


@pytest.mark.parametrize("pem", [b"", b"\n", b"nonsense", b"\xff" * 100, make_ca().der])
def test_a_file_without_a_certificate_is_refused(pem: bytes) -> None:
    assert file_refusal(pem).startswith("ca.crt has no certificate in PEM; ")


def test_garbage_in_a_file_is_refused() -> None:
    pem = make_ca().pem
    broken = file_refusal(pem.replace(b"MII", b"AAA", 1))
    assert broken == "ca.crt has a certificate that can't be read; put it there again"
    assert "can't be read" in file_refusal(pem + pem[: len(pem) // 2])
    public = make_key("P-256").public_key()
    text = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    assert "something other than certificates" in file_refusal(pem + text)


def test_a_file_over_the_limit_is_refused() -> None:
    pem = make_ca().pem
    load_roots("ca.crt", pem + b"\n" * (SIGNATURE_ROOT_BYTES - len(pem)))
    reason = file_refusal(pem + b"\n" * (SIGNATURE_ROOT_BYTES + 1 - len(pem)))
    assert f"more than {SIGNATURE_ROOT_BYTES}" in reason


@given(st.data())
def test_a_mutated_file_is_read_or_refused(data: st.DataObject) -> None:
    pem = bytearray(make_ca().pem)
    for _ in range(data.draw(st.integers(1, 3))):
        pem[data.draw(st.integers(0, len(pem) - 1))] = data.draw(st.integers(0, 255))
    try:
        load_roots("ca.crt", bytes(pem))
    except TrustError as fault:
        reason = str(fault)
    else:
        return
    assert reason.startswith("ca.crt")


def test_the_same_key_under_another_name_is_no_root() -> None:
    root = make_ca()
    renamed = make_certificate("CN=cross", root, key=root.key, ca=True)
    assert "has no root" in file_refusal(renamed.pem)


LEAF = "CN=releases,OU=build,O=Example\\, Inc.,L=Seattle,ST=WA,C=US"


def matches(subject: str, wanted: str) -> bool:
    certificate = make_certificate(subject, make_ca()).certificate
    try:
        check_subject(certificate, read_subjects([wanted]))
    except InvalidSignatureError:
        return False
    return True


@pytest.mark.parametrize(
    "wanted",
    [
        LEAF,
        "C=US,ST=WA,O=Example\\, Inc.",
        "C=US, ST=WA, O=Example\\, Inc., CN=releases",
        "x509.subject: C=US, ST=WA, O=Example\\, Inc.",
        "x509.subject:C=US,S=WA,O=Example\\2C Inc.",
        " C = US , ST = WA , O = Example\\, Inc. ",
        "OU=build,C=US,2.5.4.8=WA,O=Example\\, Inc.",
    ],
)
def test_a_subject_with_the_named_attributes_is_accepted(wanted: str) -> None:
    assert matches(LEAF, wanted)


@pytest.mark.parametrize(
    "wanted",
    [
        "C=US,ST=WA,O=Example\\, Inc",
        "C=US,ST=WA,O=Example\\, Inc.\\ ",
        "C=US,ST=WA,O=Example\\,  Inc.",
        "C=US,ST=WA,O=example\\, inc.",
        "C=US,ST=WA,O=Example\\, Inc.,CN=\u0280eleases",
        "C=US,ST=WA,O=Example\\, Inc.,STREET=1",
        "C=US,ST=WA,O=Example\\, Inc.,OU=releases",
    ],
)
def test_a_subject_that_differs_is_refused(wanted: str) -> None:
    assert not matches(LEAF, wanted)


@given(data=st.data())
def test_a_subject_that_differs_by_one_character_is_refused(data: st.DataObject) -> None:
    text = st.text(st.characters(min_codepoint=33, max_codepoint=0x17F), min_size=1, max_size=12)
    value = data.draw(text)
    other = list(value)
    place = data.draw(st.integers(0, len(other) - 1))
    other[place] = data.draw(st.characters(min_codepoint=33, max_codepoint=0x17F))
    escaped = [
        "".join(f"\\{byte:02x}" for byte in name.encode()) for name in (value, "".join(other))
    ]
    leaf, wanted = (f"CN={name},O=x,ST=y,C=US" for name in escaped)
    assert matches(leaf, leaf)
    assert matches(leaf, wanted) == (value == "".join(other))


def test_an_attribute_twice_in_the_certificate_is_refused() -> None:
    twice = "OU=build,OU=other,O=x,ST=WA,C=US"
    assert not matches(twice, "C=US,ST=WA,O=x")
    assert not matches("OU=build+OU=other,O=x,ST=WA,C=US", "C=US,ST=WA,O=x")
    assert matches("CN=a+OU=other,O=x,ST=WA,C=US", "C=US,ST=WA,O=x,CN=a")


@pytest.mark.parametrize(
    ("subjects", "reason"),
    [
        ([], "subjects is empty"),
        (["*", LEAF], '"*" beside names'),
        ([""], "is not a distinguished name"),
        (["x509.subject:"], "is not a distinguished name"),
        (["releases"], "which is not one attribute with a text"),
        (["C=US,ST=WA"], "has no O"),
        (["c=US,st=WA,o=x"], "'c=US', which is not one attribute"),
        (["C=US,ST=WA,O="], "'O=', which is not"),
        (["C=US,,ST=WA,O=x"], "is not a distinguished name"),
        (["C=US,ST=WA,O=x\\"], "is not a distinguished name"),
        (["C=US,ST=WA,O=#0401"], "'O=#0401', which is not"),
        (["C=US,ST=WA,O=x+CN=y"], "which is not one attribute"),
        (["C=US,ST=WA,S=WA,O=x"], "has an attribute twice"),
        ([LEAF, "O=x"], "subject 'O=x' has no C, ST"),
        (["x" * 5000], "..."),
    ],
)
def test_names_that_are_no_subject_are_refused(subjects: list[str], reason: str) -> None:
    with pytest.raises(TrustError) as raised:
        read_subjects(subjects)
    assert reason in str(raised.value)
    assert len(str(raised.value)) < 500


@given(st.text(max_size=60) | st.text(alphabet="CSTO=,\\+# *x", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(TrustError):
        assert all(len(wanted) >= 3 for wanted in read_subjects([text]))


def test_any_subject_is_accepted_where_the_entry_says_so() -> None:
    assert read_subjects(["*"]) == ()
    signer = make_certificate("CN=anybody", make_ca())
    envelope = as_signature(make_envelope([signer, make_ca()]))
    assert verify(ARTIFACT, envelope, make_trust(subjects=("*",)), NOW) is not None


def with_name(*attributes: tuple[Any, str]) -> Holder:
    """A certificate whose name the library wouldn't make: too long, with control characters."""
    name = x509.Name([x509.NameAttribute(*one, _validate=False) for one in attributes])
    builder = (
        x509.CertificateBuilder().subject_name(name).issuer_name(make_ca().certificate.subject)
    )
    signer = make_ca().key
    certificate = (
        builder.public_key(signer.public_key())
        .serial_number(1)
        .not_valid_before(NOW)
        .not_valid_after(NOW)
        .sign(signer, make_ca().certificate.signature_hash_algorithm)  # type: ignore[arg-type]
    )
    return Holder(certificate, signer)


@pytest.mark.filterwarnings("ignore:Attribute's length")
def test_a_hostile_name_is_one_short_line_in_messages() -> None:
    odd = with_name((NameOID.ORGANIZATION_NAME, "a\nb\x1b[31m\u202e" + "c" * 50)).certificate
    assert str(InvalidSignatureError(describe(odd))) == '"O=a?b?[31m?' + "c" * 50 + '"'
    long = with_name(*[(NameOID.ORGANIZATION_NAME, "c" * 60)] * 9).certificate
    assert len(describe(long)) == 122
    wrong = with_name((NameOID.COUNTRY_NAME, "USA")).certificate
    assert describe(wrong) == '"C=USA"'
    with pytest.raises(InvalidSignatureError, match="none of the trusted subjects"):
        check_subject(wrong, read_subjects([LEAF]))


@pytest.mark.filterwarnings("error:Attribute's length")
def test_a_name_that_cant_be_read_is_refused() -> None:
    with pytest.warns(UserWarning, match="Attribute's length"):
        wrong = with_name((NameOID.COUNTRY_NAME, "USA")).certificate
    assert describe(wrong) == "with an unreadable name"
    with pytest.raises(
        InvalidSignatureError, match=r"^the subject of its certificate can't be read$"
    ):
        check_subject(wrong, read_subjects([LEAF]))
