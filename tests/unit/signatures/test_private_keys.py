"""Private keys that sign attestations: which are read, and what is said of the others."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ed448
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from tests.unit.signatures.attesting import signing_key
from tests.unit.signatures.making import key, private_pem, public_pem

from copyrator.signatures.attestation import is_encrypted, read_private_key
from copyrator.signatures.model import SIGNATURE_KEY_BYTES, TrustError

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
    "another algorithm": (
        private_pem(ed448.Ed448PrivateKey.generate()),
        None,
        "key.pem is a key of another algorithm: use P-256, P-384 or Ed25519",
    ),
    "another label": (
        b"-----BEGIN DSA PRIVATE KEY-----\nAAAA\n-----END DSA PRIVATE KEY-----\n",
        None,
        "key.pem isn't a private key (BEGIN PRIVATE KEY)",
    ),
    "two keys": (
        private_pem(key("P-256")) * 2,
        None,
        "key.pem has several PEM blocks: leave one private key (BEGIN PRIVATE KEY)",
    ),
    "nothing": (
        b"",
        None,
        "key.pem isn't PEM: store one private key (BEGIN PRIVATE KEY)",
    ),
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


WHOLE = {"another algorithm", "another label", "two keys", "nothing"}
"""Those whose sentence stands there as a whole."""


@pytest.mark.parametrize("what", REFUSED)
def test_others_are_refused_with_the_remedy(what: str) -> None:
    content, password, why = REFUSED[what]
    with pytest.raises(TrustError) as caught:
        read_private_key("key.pem", content, password)

    text = str(caught.value)
    assert text == why if what in WHOLE else why in text
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    for line in [*content.decode(errors="replace").splitlines(), (password or b"").decode()]:
        assert len(line) < 4 or line.startswith("-----") or line not in text


def test_a_key_shows_nothing_of_itself() -> None:
    read = read_private_key("key.pem", private_pem(key("P-256")))

    assert str(read.private_numbers().private_value) not in repr(read)  # type: ignore[union-attr]


def test_the_largest_file_is_read() -> None:
    content = private_pem(key("P-256"))
    assert read_private_key("key.pem", content.ljust(SIGNATURE_KEY_BYTES, b"\n"))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (private_pem(key("P-256")), False),
        (encrypted(), True),
        (encrypted() * 2, False),
        (encrypted().ljust(SIGNATURE_KEY_BYTES, b"\n"), True),
        (encrypted().ljust(SIGNATURE_KEY_BYTES + 1, b"\n"), False),
        (b"", False),
    ],
)
def test_a_file_of_one_encrypted_key_says_so(content: bytes, expected: bool) -> None:
    assert is_encrypted(content) is expected
