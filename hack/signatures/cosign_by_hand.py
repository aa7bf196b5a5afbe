"""Signatures in cosign's formats by the right key, with claims that the tool doesn't make."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

from localcluster.repository import Stored
from localcluster.signing import PREDICATE, add_payload, claims, envelop, statement
from signatures import cosign
from signatures.chains import Holder
from signatures.forged_cosign import ATTESTED, SIGNED, attach
from signatures.material import Workshop
from signatures.registries import WITH, WITHOUT

CERTIFICATE = "dev.sigstore.cosign/certificate"
_OTHER_DIGEST = "0" * 64

Json = dict[str, Any]
Change = Callable[[Json], object]


def make(
    shop: Workshop, keys: Mapping[str, cosign.PrivateKey], holders: Mapping[str, Holder]
) -> None:
    """All of them; `holders` have a certificate that is valid, and one that is soon expired."""
    for name in ("es256", "brief"):
        pem = holders[name].chain[0].public_bytes(serialization.Encoding.PEM).decode()
        case, text = f"payload-by-hand-certificate-{name}", f"the certificate {name} beside"
        more = {CERTIFICATE: pem}
        _payload(shop, case, text, "p256", keys["p256"], change=nothing, more=more)
    kinds = {
        cosign.WEAK: "RSA 1024, which cosign refuses to sign with",
        "ed25519": "Ed25519 as older cosign signed: the present one prehashes",
    }
    bundles = Bundles(shop, "bundle-by-hand", "A bundle by hand", lambda one: statement(one.digest))
    for kind, text in kinds.items():
        _payload(shop, f"payload-by-hand-{kind}", text, kind, keys[kind], change=nothing)
        bundles.add(kind, text, keys[kind], f"key {kind}")
    for name, (text, change) in _PAYLOADS.items():
        _payload(shop, f"payload-by-hand-{name}", text, "p256", keys["p256"], change=change)
    for name, (text, change) in STATEMENTS.items():
        bundles.add(name, text, keys["p256"], "key p256", change=change)
    for name, (text, wrapping) in WRAPPINGS.items():
        bundles.add(name, text, keys["p256"], "key p256", wrapping=wrapping)


def nothing(_: Json) -> None:
    """A change that is none."""


def _set(path: str, value: Any) -> Change:
    """Set the value at a path; None takes it out."""

    def change(body: Json) -> None:
        *places, last = path.split(".")
        for place in places:
            body = body[place]
        if value is None:
            del body[last]
        else:
            body[last] = value

    return change


_PAYLOADS: dict[str, tuple[str, Change]] = {
    "nothing-changed": ("nothing changed", nothing),
    "other-digest": (
        "the digest of another artifact",
        _set("critical.image.docker-manifest-digest", f"sha256:{_OTHER_DIGEST}"),
    ),
    "no-digest": ("no digest", _set("critical.image.docker-manifest-digest", None)),
    "no-image": ("no image", _set("critical.image", None)),
    "no-identity": ("no identity", _set("critical.identity", None)),
    "no-critical": ("nothing critical", _set("critical", None)),
    "other-type": ("another type", _set("critical.type", "atomic container signature")),
    "no-type": ("no type", _set("critical.type", None)),
    "sign-type": ("the type that cosign 3 writes", _set("critical.type", PREDICATE)),
    "more-critical": ("an unknown critical claim", _set("critical.more", "yes")),
    "optional": ("optional claims", _set("optional", {"build": "17"})),
    "list": ("optional claims that are a list", _set("optional", ["17"])),
}


def _subjects(*hexes: str) -> Change:
    """The subjects of these digests; an empty one is the statement's own."""

    def change(statement: Json) -> None:
        (own,) = statement["subject"]
        statement["subject"] = [{"digest": {"sha256": one}} if one else own for one in hexes]

    return change


STATEMENTS: dict[str, tuple[str, Change]] = {
    "nothing-changed": ("nothing changed", nothing),
    "other-digest": ("another digest", _subjects(_OTHER_DIGEST)),
    "no-subject": ("no subject", _subjects()),
    "no-sha256": ("a subject without SHA-256", _set("subject", [{"digest": {"sha512": "00"}}])),
    "two-subjects": ("another digest beside", _subjects("", _OTHER_DIGEST)),
    "second-subject": ("another digest before", _subjects(_OTHER_DIGEST, "")),
    "attestation": ("another predicate type", _set("predicateType", ATTESTED)),
    "older-statement": ("a v0.1 statement", _set("_type", "https://in-toto.io/Statement/v0.1")),
    "no-statement": ("another type than a statement", _set("_type", "https://example.com/")),
    "predicate": ("a predicate", _set("predicate", {"build": "17"})),
    "no-predicate": ("a null predicate", lambda it: it.update(predicate=None)),
    "more": ("an unknown field in the statement", _set("more", "yes")),
}
"""Changes of a statement before it is signed."""
WRAPPINGS: dict[str, tuple[str, Change]] = {
    "v0.2": (
        "a bundle that says v0.2",
        _set("mediaType", "application/vnd.dev.sigstore.bundle+json;version=0.2"),
    ),
    "v0.9": (
        "a bundle of a version to come",
        _set("mediaType", "application/vnd.dev.sigstore.bundle.v0.9+json"),
    ),
    "no-hint": ("a public key without a hint", _set("verificationMaterial.publicKey", {})),
    "other-hint": (
        "another key's hint",
        _set("verificationMaterial.publicKey", {"hint": "AAAA"}),
    ),
    "no-material": ("no verification material", _set("verificationMaterial", None)),
    "no-key": ("no key in the material", _set("verificationMaterial", {})),
    "unknown": ("an unknown field in the bundle", _set("more", "yes")),
    "other-payload-type": (
        "a payload type changed after signing",
        _set("dsseEnvelope.payloadType", "application/json"),
    ),
    "no-signature": ("no signature", _set("dsseEnvelope.signatures", [])),
    "two-signatures": (
        "another signature before",
        lambda bundle: bundle["dsseEnvelope"]["signatures"].insert(0, {"sig": "AAAA"}),
    ),
    "same-signature-twice": (
        "the signature twice",
        lambda bundle: bundle["dsseEnvelope"]["signatures"].append(
            bundle["dsseEnvelope"]["signatures"][0]
        ),
    ),
    "keyid": (
        "a key id",
        lambda bundle: bundle["dsseEnvelope"]["signatures"][0].update(keyid="key"),
    ),
}
"""Changes of the bundle around a signed statement."""


def _payload(
    shop: Workshop,
    case: str,
    text: str,
    kind: str,
    key: cosign.PrivateKey,
    *,
    change: Change,
    more: Mapping[str, str] = MappingProxyType({}),
) -> None:
    repository, artifact = shop.artifact(case, WITHOUT)
    body = claims("example.com/app", artifact.digest)
    change(body)
    payload = json.dumps(body).encode()
    add_payload(repository, artifact.digest, payload, sign(key, payload), more)
    shop.add(case, f"A payload by hand: {text}.", repository, artifact, [f"key {kind}"])


@dataclass(frozen=True, slots=True)
class Bundles:
    """Makes bundles by hand, each with one change.

    Attributes:
        shop: where.
        case: how the cases' names begin.
        text: how their texts do.
        say: the statement of an artifact.
        about: annotations of the bundle's manifest.
    """

    shop: Workshop
    case: str
    text: str
    say: Callable[[Stored], Json]
    about: Mapping[str, str] = field(default_factory=lambda: SIGNED)

    def add(
        self,
        name: str,
        text: str,
        key: cosign.PrivateKey,
        policy: str,
        *,
        change: Change = nothing,
        wrapping: Change = nothing,
    ) -> None:
        """Make one, of which the policy says who may have signed it."""
        case = f"{self.case}-{name}"
        repository, artifact = self.shop.artifact(case, WITH)
        said = self.say(artifact)
        change(said)
        bundle = envelop(json.dumps(said).encode(), partial(sign, key))
        wrapping(bundle)
        attach(repository, artifact, bundle, self.about)
        self.shop.add(case, f"{self.text}: {text}.", repository, artifact, [policy])


def sign(key: cosign.PrivateKey, message: bytes) -> bytes:
    """A signature with SHA-256 or, by Ed25519, of the message itself."""
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(message, padding.PKCS1v15(), hashes.SHA256())
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(message)
    return key.sign(message, ec.ECDSA(hashes.SHA256()))
