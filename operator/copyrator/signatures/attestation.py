"""Attestations that a digest is deployed in an environment: in-toto statements of our predicate.

Written as an in-toto statement v1 in a DSSE envelope in a sigstore bundle v0.3, so that
``cosign verify-attestation --key K --type URI --insecure-ignore-tlog`` (3.1) accepts them. Read as
strictly as signatures are, and apart from them: neither is ever taken for the other. Those of
``cosign attest``, whose statements are v0.1, are accepted too.

They are signed by private keys in PKCS #8, encrypted or not. Deriving a key from a password takes
as long as the file says: read files of others in a process with a time limit.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)

from copyrator.api.text import check_namespace, check_object_name, format_time
from copyrator.signatures import keys
from copyrator.signatures.model import (
    ATTESTATION_BYTES,
    DEPLOYED_PREDICATE,
    SIGNATURE_KEY_BYTES,
    CosignKeys,
    DeployedEvidence,
    DeployedStatement,
    FoundAttestations,
    InvalidSignatureError,
    Signature,
    TrustError,
)
from copyrator.signatures.sigstore_bundle import (
    MEDIA_TYPE,
    PAYLOAD_TYPE,
    SIGNATURE_PREDICATE,
    STATEMENT_TYPE,
    SignedContent,
    read_envelope,
)
from copyrator.signatures.strict_json import decode

REASON_LENGTH: Final = 200
"""Characters of the reason of a withdrawal."""

_STATEMENT_TYPES: Final = (STATEMENT_TYPE, "https://in-toto.io/Statement/v0.1")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)
_CLUSTER: Final = re.compile(r"[A-Za-z0-9][-A-Za-z0-9]{0,63}", re.ASCII)
_YEARS: Final = range(2000, 9000)
_MOST_SECONDS: Final = 10**9
_REFUSALS: Final = 10


class _Claim(msgspec.Struct, rename="camel"):
    predicate_type: str = ""


class _InTotoSubject(msgspec.Struct, forbid_unknown_fields=True):
    digest: dict[str, str]
    name: str = ""


class _InTotoStatement(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    type: str = msgspec.field(name="_type")
    predicate_type: str
    subject: list[_InTotoSubject]
    predicate: Any = None


class _Release(msgspec.Struct, forbid_unknown_fields=True):
    namespace: str
    name: str
    revision: int


class _Predicate(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    environment: str
    cluster: str
    release: _Release
    seconds: int
    since: str
    until: str
    issued_at: str
    withdrawn: bool = False
    reason: str = ""


def judge(digest: str, found: FoundAttestations, trusted: Sequence[CosignKeys]) -> DeployedEvidence:
    """The statements about a digest that its attestations prove; others are counted.

    ``trusted`` are the keys of each environment, which is the entry's name; no key is in two of
    them.
    """
    statements: list[DeployedStatement] = []
    refused: dict[str, str] = {}
    others = found.others
    for one in found.signatures:
        try:
            statement = _verify(digest, one, trusted)
        except InvalidSignatureError as error:
            refused.setdefault(str(error), one.digest)
            continue
        if isinstance(statement, str):
            others += statement != SIGNATURE_PREDICATE
        elif statement not in statements:
            statements.append(statement)
    sentences = [f"{where[:19]}: {why}" for why, where in refused.items()]
    return DeployedEvidence(tuple(statements), tuple(sentences[:_REFUSALS]), others=others)


def _verify(
    digest: str, found: Signature, trusted: Sequence[CosignKeys]
) -> DeployedStatement | str:
    """The statement of an attestation; or its predicate type, which is another one.

    Raises:
        Invalid: it isn't by a key of the environment that it names, or not about this digest.
    """
    if len(found.blob) > ATTESTATION_BYTES:
        raise InvalidSignatureError(f"the bundle has more than {ATTESTATION_BYTES} bytes")
    envelope = read_envelope(found.blob)
    if (predicate := read_predicate_type(envelope.payload)) != DEPLOYED_PREDICATE:
        return predicate
    if envelope.has_certificate:
        raise InvalidSignatureError("it is signed with a certificate (keyless), not with a key")
    environment = _find_environment(envelope, trusted)
    read = parse_statement(envelope.payload)
    if read.digest != digest:
        raise InvalidSignatureError(f"the attestation is of another digest: {read.digest}")
    if read.environment != environment:
        raise InvalidSignatureError(
            f"it is by a key of the environment {environment}, and says {read.environment}"
        )
    return read


def _find_environment(envelope: SignedContent, trusted: Sequence[CosignKeys]) -> str:
    names: list[str] = []
    for entry in trusted:
        try:
            keys.signer(entry.keys, envelope.signature, envelope.signed)
        except InvalidSignatureError:
            names.append(entry.name)
            continue
        return entry.name
    raise InvalidSignatureError(
        f"the signature is by no key of {', '.join(names)}, or what it signs was altered"
    )


def read_predicate_type(payload: bytes) -> str:
    """A statement's predicate type; only where it is ours the rest has to be as ours.

    Raises:
        Invalid: it isn't JSON.
    """
    return decode("the statement", payload, _Claim).predicate_type


def parse_statement(payload: bytes) -> DeployedStatement:
    """Parse a statement of our predicate type; whoever signed it.

    Raises:
        Invalid: it isn't one.
    """
    statement = decode("the statement", payload, _InTotoStatement, integers=True)
    if statement.predicate_type != DEPLOYED_PREDICATE:
        raise InvalidSignatureError(f"its predicate type is {statement.predicate_type[:100]!r}")
    if statement.type not in _STATEMENT_TYPES:
        raise InvalidSignatureError(f"the statement's type is not {STATEMENT_TYPE}")
    if len(statement.subject) != 1:
        raise InvalidSignatureError("the statement doesn't have exactly one subject")
    digest = statement.subject[0].digest
    if list(digest) != ["sha256"]:
        raise InvalidSignatureError("the statement's subject doesn't have only a sha256 digest")
    try:
        said = msgspec.convert(statement.predicate, _Predicate)
    except msgspec.ValidationError as error:
        raise InvalidSignatureError(f"the predicate has another shape: {error}") from None
    _check(said)
    since, until = _time("since", said.since), _time("until", said.until)
    if until < since:
        raise InvalidSignatureError("the predicate's until is before its since")
    return DeployedStatement(
        digest=f"sha256:{digest['sha256']}",
        environment=said.environment,
        cluster=said.cluster,
        namespace=said.release.namespace,
        release=said.release.name,
        revision=said.release.revision,
        seconds=said.seconds,
        since=since,
        until=until,
        issued_at=_time("issuedAt", said.issued_at),
        withdrawn=said.withdrawn,
        reason=said.reason,
    )


def _check(said: _Predicate) -> None:
    release = said.release
    is_line = len(said.reason) <= REASON_LENGTH and said.reason.isprintable()
    faults = {
        "environment": check_namespace(said.environment),  # a DNS label too
        "cluster": None if _CLUSTER.fullmatch(said.cluster) else "isn't a uid",
        "release.namespace": check_namespace(release.namespace),
        "release.name": check_object_name(release.name),
        "release.revision": None if release.revision >= 1 else "must be at least 1",
        "seconds": None if 0 <= said.seconds <= _MOST_SECONDS else "isn't a number of seconds",
        "reason": None if is_line else f"isn't a line of {REASON_LENGTH} characters",
    }
    for name, fault in faults.items():
        if fault:
            raise InvalidSignatureError(f"the predicate's {name} {fault}")


def _time(name: str, text: str) -> datetime:
    with suppress(ValueError, OverflowError):
        if _TIME.fullmatch(text) and (moment := datetime.fromisoformat(text)).year in _YEARS:
            return moment.astimezone(UTC)
    raise InvalidSignatureError(
        f"the predicate's {name} isn't a date with a time zone, such as 2027-01-04T09:00:00Z"
    )


def encode_statement(statement: DeployedStatement) -> bytes:
    """The statement's JSON; equal statements give equal bytes, with times in whole seconds."""
    predicate = _Predicate(
        environment=statement.environment,
        cluster=statement.cluster,
        release=_Release(statement.namespace, statement.release, statement.revision),
        seconds=statement.seconds,
        since=format_time(statement.since),
        until=format_time(statement.until),
        issued_at=format_time(statement.issued_at),
        withdrawn=statement.withdrawn,
        reason=statement.reason,
    )
    algorithm, _, value = statement.digest.partition(":")
    return _json(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"digest": {algorithm: value}}],
            "predicateType": DEPLOYED_PREDICATE,
            "predicate": msgspec.to_builtins(predicate),
        }
    )


def encode_bundle(content: SignedContent, hint: str) -> bytes:
    """The sigstore bundle of a signed statement; ``hint`` names the public key."""
    return _json(
        {
            "mediaType": MEDIA_TYPE,
            "verificationMaterial": {"publicKey": {"hint": hint}},
            "dsseEnvelope": {
                "payload": base64.b64encode(content.payload).decode(),
                "payloadType": PAYLOAD_TYPE,
                "signatures": [{"sig": base64.b64encode(content.signature).decode()}],
            },
        }
    )


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


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
    """Read the one key of a file in PEM; the password is that of an encrypted key.

    Raises:
        TrustError: it can't be used; the message has the remedy, and nothing of the file.
    """
    if len(content) > SIGNATURE_KEY_BYTES:
        raise TrustError(f"{name} has more than {SIGNATURE_KEY_BYTES} bytes")
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
    return len(content) <= SIGNATURE_KEY_BYTES and _BLOCK.findall(content) == [_ENCRYPTED]


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
