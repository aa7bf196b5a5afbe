"""Envelopes of notation by the right key, with claims and certificates that it doesn't make."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils
from cryptography.x509.oid import ExtendedKeyUsageOID

from localcluster.bundle import descriptor
from localcluster.signing import SigningKey
from signatures import notation
from signatures.chains import Holder, leaf
from signatures.forged_notation import attach, encode
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
from signatures.registries import WITH

THUMBPRINTS = "io.cncf.notary.x509chain.thumbprint#S256"
PAYLOAD_TYPE = "application/vnd.cncf.notary.payload.v1+json"
_HASHES = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}

Json = dict[str, Any]


def make(shop: Workshop, holders: Mapping[str, Holder]) -> None:
    """All of them."""
    _claims(shop, holders)
    _certificates(shop, holders)


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
    attach(repository, artifact, _envelope(claims, holder.key), {THUMBPRINTS: prints})
    shop.add(case, f"An envelope by hand: {text}.", repository, artifact, rows)


def _envelope(claims: Claims, key: SigningKey) -> Json:
    protected, payload = (
        encode(json.dumps(part).encode()) for part in (claims.protected, claims.payload)
    )
    signature = _sign(key, claims.algorithm, f"{protected}.{payload}".encode())
    return {
        "payload": payload,
        "protected": protected,
        "header": {"x5c": claims.chain, **claims.header},
        "signature": encode(signature),
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
