"""Keys of files, public and private: what is accepted, and what is refused and how it is said."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ed448, rsa, x25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_public_key,
)
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.signatures.attesting import signing_key
from tests.unit.signatures.making import key, private_pem, public_pem, sign

from copyrator.signatures.attestation import is_encrypted, read_private_key
from copyrator.signatures.keys import read_keys, signer
from copyrator.signatures.model import (
    SIGNATURE_KEY_BYTES,
    SIGNATURE_KEYS,
    InvalidSignatureError,
    TrustError,
)

KINDS = ["P-256", "P-384", "ed25519", "RSA-2048"]
PUB = public_pem(key("P-256"))


@pytest.mark.parametrize("kind", KINDS)
def test_keys_of_the_supported_algorithms_are_read(kind: str) -> None:
    pem = public_pem(key(kind))
    assert read_keys({"cosign.pub": pem}) == {"cosign.pub": pem}


def test_a_file_may_have_several_keys_and_comments() -> None:
    pems = [public_pem(key(kind)) for kind in KINDS]
    keys = read_keys(
        {
            "b.pub": b"# until May\n" + pems[0] + b"\n\n# from May on\r\n" + pems[1],
            "a.pub": pems[2].replace(b"\n", b"\r\n"),
        }
    )
    assert list(keys) == ["a.pub", "b.pub", "b.pub#2"]
    assert keys["b.pub#2"] == pems[1]
    assert load_pem_public_key(keys["a.pub"]) == key("ed25519").public_key()


def _pem(label: str, body: bytes = b"QUFBQUFBQUFBQUFB") -> bytes:
    return f"-----BEGIN {label}-----\n{body.decode()}\n-----END {label}-----\n".encode()


def _encrypted() -> bytes:
    return key("P-256").private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )


def _other_public(private) -> bytes:
    return private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _large_exponent() -> bytes:
    modulus = key("RSA-2048").public_key().public_numbers().n
    return (
        rsa.RSAPublicNumbers(2**31 + 1, modulus)
        .public_key()
        .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )


PRIVATE = "k is a private key: store only the public key, and replace this key pair"
REFUSED = {
    "nothing": (lambda: b"", "k is empty"),
    "blanks": (lambda: b" \n\t\r\n", "k is empty"),
    "comment only": (lambda: b"# a key will be here\n", "k is empty"),
    "garbage": (lambda: b"\x00\xff garbage", "k has something else than public keys"),
    "text around": (lambda: b"key: " + PUB, "k has something else than public keys"),
    "cut": (lambda: PUB[:-10], "k has something else than public keys"),
    "second cut": (lambda: PUB + PUB[:-10], "k has something else than public keys"),
    "not base64": (
        lambda: _pem("PUBLIC KEY", b"!! not base64 !!"),
        "k can't be read as a public key",
    ),
    "not DER": (lambda: _pem("PUBLIC KEY"), "k can't be read as a public key"),
    "certificate": (lambda: _pem("CERTIFICATE"), "k is a certificate, not a public key"),
    "PKCS #1": (lambda: _pem("RSA PUBLIC KEY"), r"k is a key in PKCS #1: convert it"),
    "other PEM": (lambda: _pem("PGP PUBLIC KEY BLOCK"), "k has a PEM block that is not"),
    "private": (lambda: private_pem(key("P-256")), PRIVATE),
    "private EC": (
        lambda: private_pem(key("P-256"), PrivateFormat.TraditionalOpenSSL),
        PRIVATE,
    ),
    "private beside public": (lambda: PUB + private_pem(key("P-256")), PRIVATE),
    "private encrypted": (_encrypted, PRIVATE),
    "cosign's private": (lambda: _pem("ENCRYPTED SIGSTORE PRIVATE KEY"), PRIVATE),
    "private cut": (lambda: private_pem(key("P-256"))[:-40], PRIVATE),
    "weak RSA": (lambda: public_pem(key("RSA-1024")), "k is an RSA key of 1024 bits"),
    "large exponent": (_large_exponent, "k is an RSA key with too large an exponent"),
    "P-521": (lambda: public_pem(key("P-521")), "k is a key on the curve secp521r1"),
    "secp256k1": (lambda: public_pem(key("K-256")), "k is a key on the curve secp256k1"),
    "DSA": (lambda: _other_public(dsa.generate_private_key(1024)), "of another algorithm"),
    "X25519": (
        lambda: _other_public(x25519.X25519PrivateKey.generate()),
        "of another algorithm",
    ),
    "large": (lambda: b"#" * (SIGNATURE_KEY_BYTES + 1), "k has more than 16384 bytes"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_other_contents_are_refused_and_nothing_of_them_is_quoted(what: str) -> None:
    make, said = REFUSED[what]
    content = make()
    with pytest.raises(TrustError, match=said) as caught:
        read_keys({"k": content})
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__
    lines = [line for line in content.splitlines() if len(line) > 8 and b"-----" not in line]
    assert [line for line in lines if line.decode("latin-1") in str(caught.value)] == []


def test_an_rsa_key_beyond_8192_bits_is_refused() -> None:
    modulus = (1 << 8200) + 1  # a verification's time is what counts, not that it has two factors
    pem = (
        rsa.RSAPublicNumbers(65537, modulus)
        .public_key()
        .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    with pytest.raises(TrustError, match="RSA key of 8201 bits"):
        read_keys({"k": pem})


def test_a_private_key_is_named_before_anything_else() -> None:
    with pytest.raises(TrustError, match="z is a private key"):
        read_keys({"a": b"garbage", "z": private_pem(key("P-256"))})


def test_no_file_is_no_key() -> None:
    with pytest.raises(
        TrustError, match=r"^there is no public key: add a file such as cosign\.pub$"
    ):
        read_keys({})


def test_the_number_of_keys_is_limited() -> None:
    assert len(read_keys({"k": PUB * SIGNATURE_KEYS})) == SIGNATURE_KEYS
    with pytest.raises(TrustError, match="more than 20 keys"):
        read_keys({"j": PUB, "k": PUB * SIGNATURE_KEYS})


@given(st.binary(max_size=300), st.integers(0, len(PUB)), st.integers(0, 20))
def test_any_bytes_give_keys_or_a_trust_error(noise: bytes, at: int, cut: int) -> None:
    try:
        keys = read_keys({"k": PUB[:at] + noise + PUB[at + cut :]})
    except TrustError:
        return
    assert keys
    for each in keys.values():
        load_pem_public_key(each)


@pytest.mark.parametrize("kind", KINDS)
def test_the_key_that_signed_is_found(kind: str) -> None:
    keys = {"other": public_pem(key("P-256 second")), "mine": public_pem(key(kind))}
    assert signer(keys, sign(key(kind), b"message"), b"message") == "mine"
    for signature, message in [
        (sign(key(kind), b"message"), b"massage"),
        (sign(key("P-256 third"), b"message"), b"message"),
        (b"", b"message"),
        (b"\x30\x00", b"message"),
    ]:
        with pytest.raises(InvalidSignatureError, match="by none of the keys"):
            signer(keys, signature, message)


def test_the_limits_of_a_key_file_and_of_an_exponent_are_included() -> None:
    full = PUB + b"#" * (SIGNATURE_KEY_BYTES - len(PUB))
    assert read_keys({"k": full}) == {"k": PUB}
    modulus = key("RSA-2048").public_key().public_numbers().n
    largest = rsa.RSAPublicNumbers(2**31 - 1, modulus).public_key()
    pem = largest.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    assert read_keys({"k": pem}) == {"k": pem}


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
UNUSABLE: dict[str, tuple[bytes, bytes | None, str]] = {
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


WHOLE_OF_PRIVATE = {"another algorithm", "another label", "two keys", "nothing"}
"""Those whose sentence stands there as a whole."""


@pytest.mark.parametrize("what", UNUSABLE)
def test_others_are_refused_with_the_remedy(what: str) -> None:
    content, password, why = UNUSABLE[what]
    with pytest.raises(TrustError) as caught:
        read_private_key("key.pem", content, password)

    text = str(caught.value)
    assert text == why if what in WHOLE_OF_PRIVATE else why in text
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    for line in [*content.decode(errors="replace").splitlines(), (password or b"").decode()]:
        assert len(line) < 4 or line.startswith("-----") or line not in text


def test_a_key_shows_nothing_of_itself() -> None:
    read = read_private_key("key.pem", private_pem(key("P-256")))

    assert str(read.private_numbers().private_value) not in repr(read)  # type: ignore[union-attr]


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
