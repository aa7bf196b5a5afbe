"""Envelopes of notation that it doesn't make: by the right key, and forged without it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.x509.oid import ExtendedKeyUsageOID

from localcluster.bundle import descriptor
from localcluster.repository import Repository, Stored
from localcluster.signing import SigningKey
from signatures import notation
from signatures.chains import Holder, leaf
from signatures.material import Workshop
from signatures.notation_claims import (
    CHANGES,
    CLAIM,
    SCHEME,
    TIME,
    Change,
    Claims,
    authority,
    moment,
)
from signatures.registries import WITH, WITHOUT

THUMBPRINTS = "io.cncf.notary.x509chain.thumbprint#S256"
PAYLOAD_TYPE = "application/vnd.cncf.notary.payload.v1+json"
JOSE = "application/jose+json"
ARTIFACT_TYPE = "application/vnd.cncf.notary.signature"
_HASHES = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}

Json = dict[str, Any]


def make(shop: Workshop, holders: Mapping[str, Holder]) -> None:
    """All of them."""
    _forged(shop)
    _claims(shop, holders)
    _certificates(shop, holders)


def _forged(shop: Workshop) -> None:
    """What somebody who can push, but has no key, makes of another digest's signature."""
    texts = {
        "copied": "The envelope of another digest attached to this one.",
        "altered": "The payload of another digest's envelope altered to name this one.",
    }
    for registry in (WITH, WITHOUT):
        for name, text in texts.items():
            case = f"notation-{name}-{registry}"
            repository, signed = shop.artifact(case, registry)
            _, other = shop.artifact(case, registry, 1)
            notation.sign(shop, "es256", repository, signed)
            manifest, envelope = _read(repository, signed)
            if name == "altered":
                target = {"targetArtifact": descriptor(other.media_type, other.content)}
                envelope["payload"] = _encode(json.dumps(target).encode())
            _attach(repository, other, envelope, manifest["annotations"])
            shop.add(case, text, repository, other, notation.POLICIES)


def _encode(content: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _read(repository: Repository, artifact: Stored) -> tuple[Json, Json]:
    """The manifest of the first envelope of an artifact, and the envelope."""
    stored = repository.get(repository.referrers(artifact.digest)[0]["digest"])
    assert stored is not None
    return stored.body, json.loads(repository.blob(stored.body["layers"][0]["digest"]))


def _attach(
    repository: Repository, artifact: Stored, envelope: Json, annotations: Mapping[str, str]
) -> None:
    """Store an envelope as a referrer of an artifact."""
    layer = (JOSE, json.dumps(envelope).encode())
    # By the specification of notation: config.mediaType is the artifact's type there.
    repository.refer(artifact, layer, ARTIFACT_TYPE, annotations, ARTIFACT_TYPE)


def _claims(shop: Workshop, holders: Mapping[str, Holder]) -> None:
    for name, (text, change) in CHANGES.items():
        authorities = (notation.AUTHORITY,) if "authority" in name else ()
        rows = (notation.OWN, *authorities)
        _by_hand(shop, name, text, holders, "es256", change=change, rows=rows)
    text = "the scheme of a signing authority, its certificate expired since"
    rows = (notation.OWN, notation.AUTHORITY, notation.STAMPED)
    _by_hand(shop, "authority-expired", text, holders, "brief", change=authority(), rows=rows)


def _certificates(shop: Workshop, holders: Mapping[str, Holder]) -> None:
    """Envelopes under the right CA by certificates that aren't for this."""
    own = holders["own"]
    server, client = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
    code, anything = ExtendedKeyUsageOID.CODE_SIGNING, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE
    weak = rsa.generate_private_key(65537, 1024)  # noqa: S505 - to see it refused
    below = leaf("release", leaf("release", own))
    cases: Sequence[tuple[str, str, Holder]] = (
        ("no-purpose", "a certificate for any purpose", leaf("release", own, purposes=())),
        ("server", "a server's certificate", leaf("release", own, purposes=(server,))),
        ("client", "a client's certificate", leaf("release", own, purposes=(client,))),
        ("code-and-any", "any purpose, by name", leaf("release", own, purposes=(code, anything))),
        ("code-and-server", "two purposes", leaf("release", own, purposes=(code, server))),
        ("no-digital-signature", "no such usage", leaf("release", own, digital_signature=False)),
        ("leaf-is-ca", "a CA's certificate", leaf("release", own, is_ca=True)),
        ("weak", "RSA 1024", leaf("release", own, weak)),
        ("below-a-leaf", "a certificate that a signer issued", below),
        ("root-signs", "the root's own key", own),
    )
    rows = (notation.OWN, "own CA, any subject")
    for name, text, holder in cases:
        more = {**holders, name: holder}
        _by_hand(shop, name, text, more, name, change=lambda _: None, rows=rows)


def _by_hand(
    shop: Workshop,
    name: str,
    text: str,
    holders: Mapping[str, Holder],
    signer: str,
    *,
    change: Change,
    rows: Sequence[str],
) -> None:
    case = f"notation-by-hand-{name}"
    repository, artifact = shop.artifact(case, WITH)
    holder = holders[signer]
    claims = Claims(
        payload={"targetArtifact": descriptor(artifact.media_type, artifact.content)},
        protected={
            "alg": _algorithm(holder.key),
            "crit": [SCHEME],
            "cty": PAYLOAD_TYPE,
            SCHEME: "notary.x509",
            TIME: moment(),
        },
        header={f"{CLAIM}signingAgent": "by hand"},
        chain=_chain(holder),
        algorithm=_algorithm(holder.key),
        others={name: _chain(other) for name, other in holders.items()},
    )
    change(claims)
    prints = json.dumps([_thumbprint(one) for one in claims.chain])
    _attach(repository, artifact, _envelope(claims, holder.key), {THUMBPRINTS: prints})
    shop.add(case, f"An envelope by hand: {text}.", repository, artifact, rows)


def _envelope(claims: Claims, key: SigningKey) -> Json:
    protected, payload = (
        _encode(json.dumps(part).encode()) for part in (claims.protected, claims.payload)
    )
    signature = _sign(key, claims.algorithm, f"{protected}.{payload}".encode())
    return {
        "payload": payload,
        "protected": protected,
        "header": {"x5c": claims.chain, **claims.header},
        "signature": _encode(signature),
    }


def _algorithm(key: SigningKey) -> str:
    if isinstance(key, rsa.RSAPrivateKey):
        return "PS256"
    return "ES256"


def _sign(key: SigningKey, algorithm: str, message: bytes) -> bytes:
    if algorithm == "none":
        return b""
    algorithm_hash = _HASHES[algorithm[2:]]
    if isinstance(key, rsa.RSAPrivateKey):
        salted = padding.PSS(padding.MGF1(algorithm_hash), algorithm_hash.digest_size)
        return key.sign(message, salted, algorithm_hash)
    size = (key.curve.key_size + 7) // 8
    numbers = utils.decode_dss_signature(key.sign(message, ec.ECDSA(algorithm_hash)))
    return b"".join(number.to_bytes(size, "big") for number in numbers)


def _chain(holder: Holder) -> list[str]:
    der = serialization.Encoding.DER
    return [base64.b64encode(one.public_bytes(der)).decode() for one in holder.chain]


def _thumbprint(certificate: str) -> str:
    digest = hashes.Hash(hashes.SHA256())
    digest.update(base64.b64decode(certificate))
    return digest.finalize().hex()
