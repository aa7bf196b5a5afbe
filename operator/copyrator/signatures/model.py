"""The artifact, the signatures found in a registry, the trusted signers, and the verdict.

The content of attestations is here too, as comparing it needs no cryptography.

A ``Signature`` comes from a registry and is hostile. An ``Entry`` comes from the author of a Bundle
or from the operator's administrator.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeVar, cast

SIGNATURES: Final = 50
"""Signatures of one digest that are read, over all places and formats: each is one request or two,
and is checked against every entry."""

SIGNATURE_BYTES: Final = 256 * 1024
"""Bytes of one signature: a sigstore bundle or an envelope with its chain has some 10 KB."""

ATTESTATIONS: Final = 200
"""Attestations of one digest that are read, apart from its signatures. With more nothing is
promoted by them: a part of them may lack a withdrawal."""

ATTESTATION_BYTES: Final = 16 * 1024
"""Bytes of one attestation, a sigstore bundle; ours have 1.5 KB."""

SIGNATURE_KEYS: Final = 20
"""Public keys of all entries of one requirement: each signature is tried with each, for up to a
millisecond."""

SIGNATURE_KEY_BYTES: Final = 16 * 1024
"""Bytes of one file of public keys."""

SIGNATURE_ROOT_BYTES: Final = 256 * 1024
"""Bytes of certificates of one entry, or of its trusted root."""

SIGNATURE_FAILURES: Final = 20
"""Reasons that are kept for one digest."""

T = TypeVar("T")

DEPLOYED_PREDICATE = "https://copyrator.flant.com/attestation/deployed/v1"
"""The predicate type of a DeployedStatement."""


class SignatureFormat(StrEnum):
    """Formats of signatures."""

    COSIGN_PAYLOAD = "cosign payload"
    """A layer of the tag ``sha256-HEX.sig``: simple signing, the signature in an annotation."""
    SIGSTORE_BUNDLE = "sigstore bundle"
    """``application/vnd.dev.sigstore.bundle.v0.3+json``, a referrer of the artifact."""
    NOTATION = "notation"
    """A JWS envelope, ``application/jose+json``, a referrer of the artifact."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """The artifact that has to be signed: the descriptor of a bundle's manifest."""

    digest: str
    """``sha256:<64 hex>``."""
    media_type: str
    size: int
    """Bytes of the manifest."""


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature from the registry, within the limits; its content isn't verified yet."""

    format: SignatureFormat
    digest: str
    """The digest of its manifest, of COSIGN_PAYLOAD of its layer; used in messages."""
    blob: bytes = field(repr=False)
    """The payload, the bundle or the envelope. The finder has checked its digest."""
    annotations: Mapping[str, str] = field(default_factory=dict, repr=False)
    """COSIGN_PAYLOAD: the layer's. NOTATION: the manifest's. SIGSTORE_BUNDLE: the manifest's."""
    _read: dict[tuple[Any, ...], Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Results by function and arguments, or why there is none."""

    def once(self, read: Callable[..., T], *args: object) -> T:
        """A function's result for these arguments; it is called once, whatever entries ask.

        Raises:
            Invalid: as the function did.
        """
        key = (read, *args)
        if key not in self._read:
            try:
                self._read[key] = read(*args)
            except InvalidSignatureError as error:
                self._read[key] = _Refusal(str(error))
        if isinstance(found := self._read[key], _Refusal):
            raise InvalidSignatureError(found.reason)
        return cast("T", found)


@dataclass(frozen=True, slots=True)
class Found:
    """The signatures of one artifact."""

    artifact: Artifact
    signatures: tuple[Signature, ...] = ()
    """In the registry's order, at most ``SIGNATURES``."""
    skipped: tuple[str, ...] = ()
    """Why others weren't read, at most 10 sentences without a full stop: too large, not supported
    (COSE, an older bundle format), an attestation, beyond the limit.
    """


@dataclass(frozen=True, slots=True)
class FoundAttestations:
    """What may be attestations of ours of one digest: all that its registry has."""

    signatures: tuple[Signature, ...] = ()
    """In the registry's order, at most ``ATTESTATIONS``."""
    others: int = 0
    """Other attestations in the same format: of another tool, or annotated with another type."""


@dataclass(frozen=True, slots=True)
class CosignKeys:
    """Signatures by one of these public keys; no transparency log is used."""

    name: str
    """Names the entry in messages: ``cosign keys of Secret team/keys``."""
    keys: Mapping[str, bytes] = field(repr=False)
    """PEM public keys by their file names, checked by ``keys.read_keys``."""


@dataclass(frozen=True, slots=True)
class CosignIdentity:
    """Keyless signatures by a certificate of Fulcio; needs the extra ``keyless``."""

    name: str
    issuer: str
    """The OIDC issuer, compared as a whole."""
    subject_pattern: str
    """RE2; has to match the whole subject (e-mail or URI)."""
    trusted_root: bytes = field(repr=False)
    """``application/vnd.dev.sigstore.trustedroot+json;version=0.1``."""


@dataclass(frozen=True, slots=True)
class NotationTrust:
    """Notation signatures by a certificate of this CA with one of these subjects."""

    name: str
    ca: bytes = field(repr=False)
    """PEM certificates: the roots of signers' certificates; empty: none."""
    subjects: tuple[str, ...]
    """Distinguished names (RFC 4514 order as notation writes them: ``CN=…,O=…,ST=…,C=US``), each
    with at least C, ST and O, as notation's ``x509.subject``; a named attribute has to be equal,
    the subject may have others. ``("*",)``: any subject of this CA.
    """
    tsa: bytes = field(default=b"", repr=False)
    """PEM certificates: roots of time stamp authorities; empty: no time stamp is trusted."""
    signing_authorities: bytes = field(default=b"", repr=False)
    """PEM certificates: roots of signing authorities, whose signing time is accepted; empty: no
    signature of the scheme notary.x509.signingAuthority is trusted. The Notary Project keeps
    them apart from CAs: whoever has a certificate of a CA could backdate signatures.
    """


Entry = CosignKeys | CosignIdentity | NotationTrust


def canonical_entry(entry: Entry) -> list[Any]:
    """An entry for a hash, which differs where another verdict is possible."""
    match entry:
        case CosignKeys(name, keys):
            return [name, sorted([file, _hash(key)] for file, key in keys.items())]
        case CosignIdentity(name, issuer, pattern, root):
            return [name, issuer, pattern, _hash(root)]
        case NotationTrust(name, ca, subjects, tsa, authorities):
            return [name, _hash(ca), list(subjects), _hash(tsa), _hash(authorities)]


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, slots=True)
class SignatureRequirement:
    """Entries of which one has to accept a signature."""

    name: str
    """``spec.verify``, or ``entry 2 of the signature policy``."""
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class SignatureFailure:
    """Why an entry doesn't accept a signature."""

    entry: str
    """``Entry.name``."""
    signature: str
    """``Signature.digest``."""
    reason: str
    """A sentence without a full stop and without content of keys: at most 300 characters."""


@dataclass(frozen=True, slots=True)
class Holds:
    """A signature satisfies an entry."""

    requirement: str
    entry: str
    signature: str
    until: datetime | None = None
    """The end of the verdict: the earliest of a certificate's end and an expiry; None: no end."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one artifact: trusted where every requirement holds."""

    holds: tuple[Holds, ...] = ()
    failed: tuple[str, ...] = ()
    """Names of the requirements that nothing satisfies."""
    failures: tuple[SignatureFailure, ...] = ()
    """Of the failed requirements; at most ``SIGNATURE_FAILURES``."""
    signatures: int = 0
    """The number of signatures that were judged."""
    skipped: tuple[str, ...] = ()
    """As in Found."""
    refused_until: datetime | None = None
    """When a refusal may end with the same signatures, as something is valid only then."""

    @property
    def is_trusted(self) -> bool:
        """Whether every requirement holds."""
        return not self.failed

    @property
    def until(self) -> datetime | None:
        """When another verdict on the same signatures is possible; None: never."""
        ends = (self.refused_until, *(one.until for one in self.holds))
        return min((one for one in ends if one is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedStatement:
    """That a digest is deployed in an environment and stands there, or no longer does."""

    digest: str
    environment: str
    """A DNS label."""
    cluster: str
    """The uid of its namespace kube-system."""
    namespace: str
    """Of the release."""
    release: str
    revision: int
    seconds: int
    """How long it stood there, as far as an operator saw it: the longest stretch."""
    since: datetime
    until: datetime
    issued_at: datetime
    withdrawn: bool = False
    reason: str = ""
    """Why it is withdrawn."""

    @property
    def source(self) -> tuple[str, str]:
        """Where it stands: the cluster, and ``namespace/release``."""
        return self.cluster, f"{self.namespace}/{self.release}"


@dataclass(frozen=True, slots=True)
class DeployedEvidence:
    """All statements about one digest, each by a key that is trusted for its environment."""

    statements: tuple[DeployedStatement, ...] = ()
    refused: tuple[str, ...] = ()
    """Why other attestations don't count, at most 10 sentences without a full stop."""
    fault: str = ""
    """Why it isn't complete, so that nothing may be concluded from it; empty: it is."""
    others: int = 0
    """Attestations of another tool or predicate type, which were passed over."""


class TrustError(ValueError):
    """Keys, certificates or a trusted root that can't be used.

    The message names the file and the fault, never its content.
    """


class InvalidSignatureError(ValueError):
    """A signature that an entry doesn't accept.

    The message is a sentence without a full stop, at most 300 characters, without key material. It
    may quote a signature: what can't be printed, or encoded as UTF-8, is replaced by ``?``.
    """

    def __init__(self, reason: str) -> None:
        """Shorten the reason, and replace unprintable characters, as Failure.reason requires."""
        shown = "".join(each if each.isprintable() else "?" for each in reason[:301])
        super().__init__(shown if len(shown) <= 300 else shown[:297] + "...")


class NotYetValidError(InvalidSignatureError):
    """A refusal that may end as time passes: something is valid only from ``since``."""

    def __init__(self, reason: str, since: datetime) -> None:
        super().__init__(reason)
        self.since = since


@dataclass(frozen=True, slots=True)
class _Refusal:
    reason: str
