"""Public keys: parsed from files, and used to verify a signature.

The algorithms are those of cosign with a key: ECDSA with SHA-256, RSA with PKCS #1 v1.5 and
SHA-256, Ed25519. For P-384 SHA-384 is accepted as well: ``cosign sign`` 2.6 and 3 use it with such
a key (``LoadDefaultSignerVerifier``), and ``cosign verify`` then needs
``--signature-digest-algorithm sha384``. With an Ed25519 key they make Ed25519ph signatures, which
neither ``cosign verify --key`` nor this module accepts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)

from copyrator.signatures.model import (
    SIGNATURE_KEY_BYTES,
    SIGNATURE_KEYS,
    CosignKeys,
    InvalidSignatureError,
    SignatureRequirement,
    TrustError,
)

PublicKey = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey

_RSA_BITS = range(2048, 8192 + 1)
_RSA_EXPONENT = 2**31 - 1
"""As in Go's crypto/rsa, which cosign uses; a verification's time grows with the exponent."""
_CURVES = (ec.SECP256R1, ec.SECP384R1)

_PRIVATE = re.compile(rb"PRIVATE\s+KEY", re.IGNORECASE)
_BLOCK = re.compile(rb"-----BEGIN (?P<label>[A-Z0-9 ]{1,64})-----\s[^-]*-----END (?P=label)-----")
_COMMENT = re.compile(rb"^[ \t]*#.*$", re.MULTILINE)


def read_keys(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Read public keys in PEM (``PUBLIC KEY``, a SubjectPublicKeyInfo) of files by their names.

    A file may have several keys, and lines that begin with ``#``. Return one PEM block each, by the
    file's name: ``cosign.pub``, further ones ``cosign.pub#2``.

    Raises:
        TrustError: there is no key, or something else; the message quotes nothing of a file.
    """
    for name in sorted(files):
        if _PRIVATE.search(files[name]):
            raise TrustError(
                f"{name} is a private key: store only the public key, and replace this key pair"
            )
    keys: dict[str, bytes] = {}
    for name in sorted(files):
        for number, block in enumerate(_blocks(name, files[name]), start=1):
            key = name if number == 1 else f"{name}#{number}"
            if len(keys) == SIGNATURE_KEYS:
                raise TrustError(f"there are more than {SIGNATURE_KEYS} keys: remove some")
            _load(key, block)
            keys[key] = block
    if not keys:
        raise TrustError("there is no public key: add a file such as cosign.pub")
    return keys


def identify(name: str, block: bytes) -> bytes:
    """The key in its one form (DER): equal for all spellings of one key.

    Raises:
        TrustError: it isn't a key.
    """
    return _load(name, block).public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def identify_all(requirements: Iterable[SignatureRequirement]) -> Iterator[tuple[bytes, str]]:
    """What ``identify`` returns of each key in requirements, and the requirement's name.

    Raises:
        TrustError: one isn't a key.
    """
    for requirement in requirements:
        for entry in requirement.entries:
            for file, key in entry.keys.items() if isinstance(entry, CosignKeys) else ():
                yield identify(file, key), requirement.name


def signer(keys: Mapping[str, bytes], signature: bytes, message: bytes) -> str:
    """The name of the key, of ``read_keys``, that made a signature: ASN.1 DER for ECDSA.

    Raises:
        Invalid: none of them made it.
    """
    for name, block in keys.items():
        try:
            if _verifies(_load(name, block), signature, message):
                return name
        except TrustError as error:
            raise InvalidSignatureError(str(error)) from None
    names = ", ".join(list(keys)[:3]) + (", …" if len(keys) > 3 else "")
    raise InvalidSignatureError(
        f"the signature is by none of the keys ({names}), or what it signs was altered"
    )


def _verifies(key: PublicKey, signature: bytes, message: bytes) -> bool:
    digests: list[hashes.HashAlgorithm] = [hashes.SHA256()]
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP384R1):
        digests.append(hashes.SHA384())
    for digest in digests:
        try:
            if isinstance(key, ed25519.Ed25519PublicKey):
                key.verify(signature, message)
            elif isinstance(key, rsa.RSAPublicKey):
                key.verify(signature, message, padding.PKCS1v15(), digest)
            else:
                key.verify(signature, message, ec.ECDSA(digest))
        except InvalidSignature:
            continue
        return True
    return False


def _blocks(name: str, content: bytes) -> list[bytes]:
    """Split a file into its PEM blocks; other text is refused, so that no key is missed."""
    if len(content) > SIGNATURE_KEY_BYTES:
        raise TrustError(f"{name} has more than {SIGNATURE_KEY_BYTES} bytes")
    plain = _COMMENT.sub(b"", content)
    if not plain.strip():
        raise TrustError(f"{name} is empty")
    blocks = list(_BLOCK.finditer(plain))
    if _BLOCK.sub(b"", plain).strip():
        raise TrustError(f"{name} has something else than public keys in PEM (BEGIN PUBLIC KEY)")
    for block in blocks:
        label = block["label"].decode("ascii")
        if label != "PUBLIC KEY":
            raise TrustError(f"{name} {_OTHER_LABELS.get(label, _OTHER_LABEL)}")
    return [block.group() + b"\n" for block in blocks]


_OTHER_LABEL = "has a PEM block that is not a public key (BEGIN PUBLIC KEY)"
_OTHER_LABELS = {
    "CERTIFICATE": "is a certificate, not a public key: take its key with "
    "`openssl x509 -pubkey -noout`",
    "RSA PUBLIC KEY": "is a key in PKCS #1: convert it with `openssl rsa -RSAPublicKey_in -pubout`",
}


def _load(name: str, block: bytes) -> PublicKey:
    try:
        key = load_pem_public_key(block)
    except (ValueError, UnsupportedAlgorithm):
        raise TrustError(f"{name} can't be read as a public key") from None
    if isinstance(key, ed25519.Ed25519PublicKey):
        return key
    if isinstance(key, ec.EllipticCurvePublicKey):
        if not isinstance(key.curve, _CURVES):
            raise TrustError(f"{name} is a key on the curve {key.curve.name}: use P-256 or P-384")
        return key
    if isinstance(key, rsa.RSAPublicKey):
        return _checked_rsa(name, key)
    raise TrustError(f"{name} is a key of another algorithm: use ECDSA, Ed25519 or RSA")


def _checked_rsa(name: str, key: rsa.RSAPublicKey) -> rsa.RSAPublicKey:
    if key.key_size not in _RSA_BITS:
        raise TrustError(f"{name} is an RSA key of {key.key_size} bits: use 2048 to 8192")
    if key.public_numbers().e > _RSA_EXPONENT:
        raise TrustError(f"{name} is an RSA key with too large an exponent: use 65537")
    return key
