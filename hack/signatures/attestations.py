"""Attestations that a digest is deployed: the operator's own, cosign's, and what neither makes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import ip_network
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from copyrator.metrics import Metrics
from copyrator.oci import exchange
from copyrator.oci.client import RegistryClient
from copyrator.oci.statements import PrivateKeyFile, PushTarget, StatementPusher
from copyrator.signatures.attestation import SigningKey, encode_statement
from copyrator.signatures.model import DEPLOYED_PREDICATE, DeployedStatement
from localcluster.repository import Repository, Stored
from localcluster.signing import PREDICATE, envelop
from signatures import cosign
from signatures.cosign_by_hand import STATEMENTS, WRAPPINGS, Bundles, Change, nothing, sign
from signatures.forged_cosign import PREDICATE_TYPE, SIGNED, attach, move
from signatures.material import AttestationPolicy, Workshop
from signatures.registries import WITH, WITHOUT
from signatures.tools import ToolFailedError

Json = dict[str, Any]
PREFIX = "attested"
"""Names of these cases begin with it, and those of their keys with ``staging-``."""
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
    by_hand, policy = Bundles(shop, PREFIX, "By hand", _statement, _ABOUT), "attested by p256"
    for name, (text, change) in _STATEMENTS.items():
        by_hand.add(name, text, key, policy, change=change)
    for name in (*_WRAPPINGS, "v0.2"):
        text, wrapping = WRAPPINGS[name]
        by_hand.add(name, text, key, policy, wrapping=wrapping)
    by_hand.add("by-another-key", "another environment's key", keys["other"], policy)
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
    target = PushTarget(
        exchange.Repository(repository.registry, repository.repo, plain_http=True), None
    )
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


def _say(**changed: Any) -> Change:
    """Other values in the predicate; None takes a field out."""

    def change(statement: Json) -> None:
        predicate = statement["predicate"] | changed
        statement["predicate"] = {name: one for name, one in predicate.items() if one is not None}

    return change


_SHARED = ("older-statement", "other-digest", "no-subject", "two-subjects", "second-subject")
_STATEMENTS: dict[str, tuple[str, Change]] = {
    "by-hand": ("nothing changed", nothing),
    "other-statement": STATEMENTS["no-statement"],
    "other-type": ("another predicate type", lambda it: it.update(predicateType=_PROVENANCE)),
    "sign-type": ("cosign's type of signatures", lambda it: it.update(predicateType=PREDICATE)),
    **{name: STATEMENTS[name] for name in (*_SHARED, "no-predicate", "more")},
    "more-said": ("an unknown field in the predicate", _say(ticket="17")),
    "no-zone": ("a date without a zone", _say(issuedAt="2026-11-24T12:00:00")),
    "no-environment": ("no environment", _say(environment=None)),
    "other-environment": ("another environment", _say(environment="production")),
}
_WRAPPINGS = ("no-signature", "same-signature-twice", "other-payload-type", "keyid", "no-hint")


def _forged(shop: Workshop, key: SigningKey) -> None:
    """What somebody without the key makes of an attestation; and a field twice, with it."""

    def attest(repository: Repository, artifact: Stored) -> None:
        bundle = envelop(json.dumps(_statement(artifact)).encode(), partial(sign, key))
        attach(repository, artifact, bundle, _ABOUT)

    move(shop, PREFIX + "-{}", "attestation", attest, policies=["attested by p256"])

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
