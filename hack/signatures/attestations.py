"""Attestations that a digest is deployed: the operator's own, cosign's, and what neither makes."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_network
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from copyrator.metrics import Metrics
from copyrator.oci import reference as oci
from copyrator.oci.client import RegistryClient
from copyrator.oci.statements import PrivateKeyFile, PushTarget, StatementPusher
from copyrator.signatures.attestation import SigningKey, encode_statement
from copyrator.signatures.model import DEPLOYED_PREDICATE, DeployedStatement
from localcluster.repository import Repository, Stored
from localcluster.signing import PREDICATE, envelop
from signatures import cosign
from signatures.cosign_by_hand import sign
from signatures.forged_cosign import PREDICATE_TYPE, SIGNED, attach, hexes, read_bundle
from signatures.material import AttestationPolicy, Workshop
from signatures.registries import WITH, WITHOUT
from signatures.tools import ToolFailedError

Json = dict[str, Any]
PREFIX = "attested"
"""Names of these cases begin with it, and those of their keys with ``staging-``."""
_OTHER_DIGEST = "0" * 64
_PROVENANCE = "https://slsa.dev/provenance/v1"
_ABOUT = SIGNED | {PREDICATE_TYPE: DEPLOYED_PREDICATE}
_WHEN = datetime(2026, 11, 24, 12, tzinfo=UTC)


def make(shop: Workshop) -> None:
    """All of them."""
    keys = _make_keys(shop)
    for kind in keys:
        if kind != "other":
            _ours(shop, kind, f"The operator attests with a key {kind}.", kind)
    key = keys["p256"]
    text = "The operator attests, in a registry without referrers."
    _ours(shop, "fallback-tag", text, "p256", registry=WITHOUT)
    _ours(shop, "withdrawn", "The operator withdraws.", "p256", withdrawn=True)
    text = "The operator replaces an older statement"
    _ours(shop, "replaced", f"{text}.", "p256", replaced=True)
    _ours(
        shop,
        "replaced-fallback-tag",
        f"{text}, in a registry without referrers.",
        "p256",
        registry=WITHOUT,
        replaced=True,
    )
    for kind in ("p256", "p384", "ed25519"):
        _cosigns(shop, kind)
    for name, (text, change) in _STATEMENTS.items():
        _by_hand(shop, name, text, key, change=change)
    for name, (text, wrapping) in _WRAPPINGS.items():
        _by_hand(shop, name, text, key, wrapping=wrapping)
    _by_hand(shop, "by-another-key", "another environment's key", keys["other"])
    _forged(shop, key)


def _make_keys(shop: Workshop) -> dict[str, SigningKey]:
    made: dict[str, SigningKey] = {
        "p256": ec.generate_private_key(ec.SECP256R1()),
        "p384": ec.generate_private_key(ec.SECP384R1()),
        "ed25519": ed25519.Ed25519PrivateKey.generate(),
        "other": ec.generate_private_key(ec.SECP256R1()),
    }
    for kind, key in made.items():
        cosign.write_key(shop, f"staging-{kind}", key)
        shop.policies[f"attested by {kind}"] = AttestationPolicy((f"staging-{kind}",))
    return made


def _deployed(artifact: Stored, *, withdrawn: bool = False) -> DeployedStatement:
    """What the operator says of an artifact."""
    return DeployedStatement(
        digest=artifact.digest,
        environment="staging",
        cluster="0b0ea68a-9a52-4a8f-8f2c-54d1a3b8e001",
        namespace="shop",
        release="shop",
        revision=7,
        seconds=86400,
        since=_WHEN.replace(day=22),
        until=_WHEN.replace(day=23),
        issued_at=_WHEN,
        withdrawn=withdrawn,
    )


def _statement(artifact: Stored) -> Json:
    made: Json = json.loads(encode_statement(_deployed(artifact)))
    return made


def _ours(
    shop: Workshop,
    name: str,
    text: str,
    kind: str,
    *,
    registry: str = WITH,
    withdrawn: bool = False,
    replaced: bool = False,
) -> None:
    """Attested and pushed by the operator's own code; ``replaced``: an older one before."""
    case = f"{PREFIX}-{name}"
    repository, artifact = shop.artifact(case, registry)
    said = [_deployed(artifact, withdrawn=withdrawn)]
    if replaced:
        said.insert(0, replace(said[0], issued_at=_WHEN - timedelta(days=1)))
    asyncio.run(_push(repository, (shop.directory / f"staging-{kind}.pem").read_bytes(), said))
    policies = [f"attested by {kind}", "attested by other"]
    shop.add(case, text, repository, artifact, policies)


async def _push(repository: Repository, key: bytes, said: Sequence[DeployedStatement]) -> None:
    """Sign statements and push them, each in place of the one before."""
    client = RegistryClient(metrics=Metrics(), allowed=[ip_network("127.0.0.0/8")])
    pusher = StatementPusher(client)
    target = PushTarget(oci.Repository(repository.registry, repository.repo, plain_http=True), None)
    file = PrivateKeyFile("the key", key, None)
    before: str | None = None
    try:
        for one in said:
            bundle = await pusher.sign(file, one, "staging")
            pushed = await pusher.push(target, one.digest, bundle, "staging", replaces=before)
            before = pushed.manifest
    finally:
        await pusher.close()
        await client.close()


def _cosigns(shop: Workshop, kind: str) -> None:
    """Attested by cosign, from a pipeline for example."""
    case = f"{PREFIX}-cosign3-{kind}"
    repository, artifact = shop.artifact(case, WITH)
    predicate = shop.directory / "deployed.json"
    predicate.write_text(json.dumps(_statement(artifact)["predicate"]), encoding="utf-8")
    options = ("--use-signing-config=false", "--tlog-upload=false", "--yes")
    key = ("--key", f"imported-staging-{kind}.key", "--type", DEPLOYED_PREDICATE)
    reference = repository.reference(artifact.digest)
    text = f"cosign3 attests with a key {kind}."
    try:
        shop.tools.run(
            "cosign3", "attest", *options, *key, "--predicate", predicate.name, reference
        )
    except ToolFailedError as error:
        text = f"cosign3 can't attest with a key {kind}: {str(error).splitlines()[-1][-120:]}"
    shop.add(case, text, repository, artifact, [f"attested by {kind}"])


def _say(**changed: Any) -> Callable[[Json], object]:
    """Other values in the predicate; None takes a field out."""

    def change(statement: Json) -> None:
        predicate = statement["predicate"] | changed
        statement["predicate"] = {name: one for name, one in predicate.items() if one is not None}

    return change


def _subjects(*hexes: str) -> Callable[[Json], object]:
    """The subjects of these digests; an empty one is the statement's own."""

    def change(statement: Json) -> None:
        (own,) = statement["subject"]
        statement["subject"] = [{"digest": {"sha256": one}} if one else own for one in hexes]

    return change


_STATEMENTS: dict[str, tuple[str, Callable[[Json], object]]] = {
    "by-hand": ("nothing changed", lambda _: None),
    "older-statement": (
        "a v0.1 statement",
        lambda it: it.update(_type="https://in-toto.io/Statement/v0.1"),
    ),
    "other-statement": ("another statement", lambda it: it.update(_type="https://example.com")),
    "other-type": ("another predicate type", lambda it: it.update(predicateType=_PROVENANCE)),
    "sign-type": ("cosign's type of signatures", lambda it: it.update(predicateType=PREDICATE)),
    "other-digest": ("another digest", _subjects(_OTHER_DIGEST)),
    "no-subject": ("no subject", _subjects()),
    "two-subjects": ("another digest beside", _subjects("", _OTHER_DIGEST)),
    "second-subject": ("another digest before", _subjects(_OTHER_DIGEST, "")),
    "no-predicate": ("no predicate", lambda it: it.update(predicate=None)),
    "more": ("an unknown field in the statement", lambda it: it.update(more="yes")),
    "more-said": ("an unknown field in the predicate", _say(ticket="17")),
    "no-zone": ("a date without a zone", _say(issuedAt="2026-11-24T12:00:00")),
    "no-environment": ("no environment", _say(environment=None)),
    "other-environment": ("another environment", _say(environment="production")),
}
_WRAPPINGS: dict[str, tuple[str, Callable[[Json], object]]] = {
    "other-payload-type": (
        "a payload type changed after signing",
        lambda it: it["dsseEnvelope"].update(payloadType="application/json"),
    ),
    "no-signature": ("no signature", lambda it: it["dsseEnvelope"].update(signatures=[])),
    "same-signature-twice": (
        "the signature twice",
        lambda it: it["dsseEnvelope"].update(signatures=it["dsseEnvelope"]["signatures"] * 2),
    ),
    "keyid": (
        "a key id",
        lambda it: it["dsseEnvelope"]["signatures"][0].update(keyid="key"),
    ),
    "no-hint": (
        "a public key without a hint",
        lambda it: it.update(verificationMaterial={"publicKey": {}}),
    ),
    "v0.2": (
        "a bundle that says v0.2",
        lambda it: it.update(mediaType="application/vnd.dev.sigstore.bundle+json;version=0.2"),
    ),
}


def _by_hand(
    shop: Workshop,
    name: str,
    text: str,
    key: SigningKey,
    *,
    change: Callable[[Json], object] = lambda _: None,
    wrapping: Callable[[Json], object] = lambda _: None,
) -> None:
    case = f"{PREFIX}-{name}"
    repository, artifact = shop.artifact(case, WITH)
    statement = _statement(artifact)
    change(statement)
    bundle = envelop(json.dumps(statement).encode(), partial(sign, key))
    wrapping(bundle)
    attach(repository, artifact, bundle, _ABOUT)
    shop.add(case, f"By hand: {text}.", repository, artifact, ["attested by p256"])


def _forged(shop: Workshop, key: SigningKey) -> None:
    """What somebody without the key makes of an attestation; and a field twice, with it."""

    def copied(statement: bytes, _: Stored, __: Stored) -> bytes:
        return statement

    def altered(statement: bytes, signed: Stored, other: Stored) -> bytes:
        return statement.replace(hexes(signed), hexes(other))

    texts = {
        "copied": "The attestation of another digest attached to this one.",
        "altered": "The statement about another digest altered to name this one.",
    }
    for name, change in {"copied": copied, "altered": altered}.items():
        case = f"{PREFIX}-{name}"
        repository, signed = shop.artifact(case, WITH)
        _, other = shop.artifact(case, WITH, 1)
        bundle = envelop(json.dumps(_statement(signed)).encode(), partial(sign, key))
        attach(repository, signed, bundle, _ABOUT)
        _, found = read_bundle(repository, signed)
        envelope = found["dsseEnvelope"]
        payload = change(base64.b64decode(envelope["payload"]), signed, other)
        envelope["payload"] = base64.b64encode(payload).decode()
        attach(repository, other, found, _ABOUT)
        shop.add(case, texts[name], repository, other, ["attested by p256"])

    case = f"{PREFIX}-twice"
    repository, artifact = shop.artifact(case, WITH)
    text = json.dumps(_statement(artifact))
    text = text.replace('"withdrawn": false', '"withdrawn": true, "withdrawn": false')
    attach(repository, artifact, envelop(text.encode(), partial(sign, key)), _ABOUT)
    shop.add(case, "By hand: a field twice.", repository, artifact, ["attested by p256"])

    case = f"{PREFIX}-only-signed"
    repository, artifact = shop.artifact(case, WITH)
    cosign.sign(shop, "cosign3", "staging-p256", repository, artifact)
    text = "cosign3 signs it; nobody attests it."
    shop.add(case, text, repository, artifact, ["attested by p256"])
