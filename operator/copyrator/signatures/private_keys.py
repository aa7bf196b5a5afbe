"""Private keys that sign attestations: PKCS #8 in PEM, encrypted or not.

Deriving a key from a password takes as long as the file says: read files of others in a process
with a time limit.
"""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from copyrator.settings import limits
from copyrator.signatures.attestation import encode_bundle, encode_statement
from copyrator.signatures.model import DeployedStatement, TrustError
from copyrator.signatures.sigstore_bundle import SignedContent

SigningKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

_CURVES: Final = (ec.SECP256R1, ec.SECP384R1)
_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,64})-----")
_MAKE: Final = "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256"
_OTHER_LABELS: Final = {
    b"PUBLIC KEY": "is a public key: store the private key of this pair",
    b"CERTIFICATE": "is a certificate: store the private key",
    b"EC PRIVATE KEY": "isn't PKCS #8: convert it with `openssl pkcs8 -topk8`",
    b"RSA PRIVATE KEY": f"is an RSA key: use P-256, P-384 or Ed25519, made with `{_MAKE}`",
    b"OPENSSH PRIVATE KEY": "is a key of OpenSSH: convert it with `ssh-keygen -p -m PKCS8`",
}
_OF_COSIGN: Final = frozenset({b"ENCRYPTED COSIGN PRIVATE KEY", b"ENCRYPTED SIGSTORE PRIVATE KEY"})
_ENCRYPTED: Final = b"ENCRYPTED PRIVATE KEY"


def read_private_key(name: str, content: bytes, password: bytes | None = None) -> SigningKey:
    """Read the one key of a file.

    Args:
        name: the file's, for messages.
        content: PEM.
        password: of an encrypted key; None: there is none.

    Raises:
        TrustError: it can't be used; the message has the remedy, and nothing of the file.
    """
    if len(content) > limits.SIGNATURE_KEY_BYTES:
        raise TrustError(f"{name} has more than {limits.SIGNATURE_KEY_BYTES} bytes")
    labels = _BLOCK.findall(content)
    if len(labels) != 1:
        fault = "has several PEM blocks: leave" if labels else "isn't PEM: store"
        raise TrustError(f"{name} {fault} one private key (BEGIN PRIVATE KEY)")
    _check_label(name, labels[0], password)
    try:
        key = load_pem_private_key(content, password)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        if password is not None:
            raise TrustError(
                f"{name} can't be decrypted: its password is wrong, or it isn't a key"
            ) from None
        raise TrustError(f"{name} can't be read as a private key") from None
    if isinstance(key, rsa.RSAPrivateKey):
        raise TrustError(f"{name} {_OTHER_LABELS[b'RSA PRIVATE KEY']}")
    if isinstance(key, ec.EllipticCurvePrivateKey) and not isinstance(key.curve, _CURVES):
        raise TrustError(f"{name} is a key on the curve {key.curve.name}: use P-256 or P-384")
    if not isinstance(key, ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey):
        raise TrustError(f"{name} is a key of another algorithm: use P-256, P-384 or Ed25519")
    return key


def is_encrypted(content: bytes) -> bool:
    """Whether a file says that its one key needs a password."""
    return len(content) <= limits.SIGNATURE_KEY_BYTES and _BLOCK.findall(content) == [_ENCRYPTED]


def _check_label(name: str, label: bytes, password: bytes | None) -> None:
    if label in _OF_COSIGN:
        raise TrustError(
            f"{name} is in cosign's own format: make a key with `{_MAKE}`, store that file, and "
            "give it to cosign with `cosign import-key-pair`"
        )
    if label not in (b"PRIVATE KEY", _ENCRYPTED):
        fault = _OTHER_LABELS.get(label, "isn't a private key (BEGIN PRIVATE KEY)")
        raise TrustError(f"{name} {fault}")
    if label == _ENCRYPTED and not password:
        raise TrustError(f"{name} is encrypted, and there is no password for it: add it")
    if label != _ENCRYPTED and password is not None:
        raise TrustError(f"{name} isn't encrypted, and there is a password for it: remove that")


def sign_statement(key: SigningKey, statement: DeployedStatement) -> bytes:
    """The sigstore bundle of a statement; the same statement and key give the same bytes.

    With ECDSA it is SHA-256 on both curves, which cosign expects without further options.
    """
    payload = encode_statement(statement)
    unsigned = SignedContent(payload, b"", has_certificate=False)
    if isinstance(key, ed25519.Ed25519PrivateKey):
        signature = key.sign(unsigned.signed)
    else:
        algorithm = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)
        signature = key.sign(unsigned.signed, algorithm)
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    hint = base64.b64encode(hashlib.sha256(public).digest()).decode()
    return encode_bundle(SignedContent(payload, signature, has_certificate=False), hint)
