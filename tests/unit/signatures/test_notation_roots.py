"""Files of roots that an entry names."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.signatures.notary import (
    SUBJECT,
    Key,
    make_ca,
    make_certificate,
    make_chain,
    make_key,
)

from copyrator.signatures.model import SIGNATURE_ROOT_BYTES, TrustError
from copyrator.signatures.notation import load_roots


def refusal(pem: bytes) -> str:
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
    assert "ca.crt: certificate 2 is no CA" in refusal(root.pem + signer.pem)
    assert "ca.crt has no root" in refusal(middle.pem)


def test_weak_keys_and_hashes_are_refused() -> None:
    good = make_ca().pem
    for kind, reason in (
        ("RSA-1024", "certificate 2 has an RSA key of 1024 bits, not of 2048 to 8192"),
        ("P-224", "certificate 2 has a key that is neither RSA nor of P-256, P-384 or P-521"),
        ("Ed25519", "certificate 2 has a key that is neither RSA nor of P-256, P-384 or P-521"),
        ("K-256", "certificate 2 has a key that is neither RSA nor of P-256, P-384 or P-521"),
    ):
        assert (
            refusal(good + make_ca(f"CN={kind}", kind).pem) == f"ca.crt: {reason}; use another CA"
        )
    other = make_certificate("CN=sha3", ca=True, digest=hashes.SHA3_256())
    assert "not signed with SHA-256, SHA-384 or SHA-512" in refusal(other.pem)


def test_a_signature_of_an_unknown_kind_is_refused() -> None:
    ecdsa_with_sha256 = bytes.fromhex("2a8648ce3d040302")
    unknown = make_ca().der.replace(ecdsa_with_sha256, ecdsa_with_sha256[:-1] + b"\x7f")
    pem = x509.load_der_x509_certificate(unknown).public_bytes(Encoding.PEM)
    said = "ca.crt: certificate 1 has a key or a signature of an unsupported kind; use another CA"
    assert refusal(pem) == said


@pytest.mark.parametrize(
    "kind", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL], ids=["pkcs8", "ec"]
)
def test_a_private_key_is_refused_and_never_printed(kind: PrivateFormat) -> None:
    key = private_pem(make_key("P-256", "leaked"), kind)
    for pem in (key, make_ca().pem + key, key + make_ca().pem, key.replace(b"\n", b"\r\n")):
        reason = refusal(pem)
        assert reason == "ca.crt has a private key; put only certificates there, replace that key"


@pytest.mark.parametrize("pem", [b"", b"\n", b"nonsense", b"\xff" * 100, make_ca().der])
def test_a_file_without_a_certificate_is_refused(pem: bytes) -> None:
    assert refusal(pem).startswith("ca.crt has no certificate in PEM; ")


def test_garbage_in_a_file_is_refused() -> None:
    pem = make_ca().pem
    broken = refusal(pem.replace(b"MII", b"AAA", 1))
    assert broken == "ca.crt has a certificate that can't be read; put it there again"
    assert "can't be read" in refusal(pem + pem[: len(pem) // 2])
    public = make_key("P-256").public_key()
    text = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    assert "something other than certificates" in refusal(pem + text)


def test_a_file_over_the_limit_is_refused() -> None:
    pem = make_ca().pem
    load_roots("ca.crt", pem + b"\n" * (SIGNATURE_ROOT_BYTES - len(pem)))
    reason = refusal(pem + b"\n" * (SIGNATURE_ROOT_BYTES + 1 - len(pem)))
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
    assert "has no root" in refusal(renamed.pem)
