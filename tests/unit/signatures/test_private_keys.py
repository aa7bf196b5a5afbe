"""Private keys that sign attestations: which are read, and what is said of the others."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from tests.unit.signatures.attesting import signing_key
from tests.unit.signatures.making import key, private_pem, public_pem

from copyrator.signatures.attestation import read_private_key
from copyrator.signatures.model import TrustError

PASSWORD = b"correct horse"


def encrypted(kind: str = "P-256") -> bytes:
    locked = BestAvailableEncryption(PASSWORD)
    return key(kind).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked)


@pytest.mark.parametrize("kind", ["P-256", "P-384", "ed25519"])
def test_plain_and_encrypted_keys_are_read(kind: str) -> None:
    for content, password in ((private_pem(key(kind)), None), (encrypted(kind), PASSWORD)):
        read = read_private_key("key.pem", content, password)

        assert read.public_key() == signing_key(kind).public_key()


COSIGN = (
    b"-----BEGIN ENCRYPTED %s PRIVATE KEY-----\neyJrZGYi\n-----END ENCRYPTED %s PRIVATE KEY-----\n"
)
REFUSED: dict[str, tuple[bytes, bytes | None, str]] = {
    "a wrong password": (encrypted(), b"S3cret-wrong", "its password is wrong"),
    "no password": (encrypted(), None, "key.pem is encrypted, and there is no password"),
    "an empty password": (encrypted(), b"", "key.pem is encrypted, and there is no password"),
    "a password too many": (private_pem(key("P-256")), PASSWORD, "isn't encrypted, and there is"),
    "cosign's own format": (
        COSIGN % (b"SIGSTORE", b"SIGSTORE"),
        PASSWORD,
        "-pkeyopt ec_paramgen_curve:P-256`, store that file, and give it to cosign with `cosign",
    ),
    "cosign's older format": (COSIGN % (b"COSIGN", b"COSIGN"), PASSWORD, "cosign's own format"),
    "a public key": (public_pem(key("P-256")), None, "is a public key: store the private key"),
    "RSA": (private_pem(key("RSA-1024")), None, "is an RSA key: use P-256, P-384 or Ed25519"),
    "RSA in PKCS #1": (
        private_pem(key("RSA-1024"), PrivateFormat.TraditionalOpenSSL),
        None,
        "is an RSA key",
    ),
    "SEC 1": (
        private_pem(key("P-256"), PrivateFormat.TraditionalOpenSSL),
        None,
        "isn't PKCS #8: convert it with `openssl pkcs8 -topk8`",
    ),
    "OpenSSH": (
        key("ed25519").private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()),
        None,
        "is a key of OpenSSH",
    ),
    "another curve": (private_pem(key("P-521")), None, "on the curve secp521r1: use P-256"),
    "two keys": (private_pem(key("P-256")) * 2, None, "has several PEM blocks"),
    "nothing": (b"", None, "isn't PEM"),
    "garbage": (b"\x00\xff", None, "isn't PEM"),
    "garbage in PEM": (
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        None,
        "can't be read as a private key",
    ),
    "a certificate": (
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        None,
        "is a certificate",
    ),
    "too long": (b"#" * 17_000 + private_pem(key("P-256")), None, "has more than 16384 bytes"),
}


@pytest.mark.parametrize(("content", "password", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_others_are_refused_with_the_remedy(
    content: bytes, password: bytes | None, why: str
) -> None:
    with pytest.raises(TrustError) as caught:
        read_private_key("key.pem", content, password)

    text = str(caught.value)
    assert why in text
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    for line in [*content.decode(errors="replace").splitlines(), (password or b"").decode()]:
        assert len(line) < 4 or line.startswith("-----") or line not in text


def test_a_key_shows_nothing_of_itself() -> None:
    read = read_private_key("key.pem", private_pem(key("P-256")))

    assert str(read.private_numbers().private_value) not in repr(read)  # type: ignore[union-attr]
