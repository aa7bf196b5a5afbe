"""Makes attestations of deploys: ours, and by hand what ours never say."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.unit.signatures.making import (
    ARTIFACT,
    NOW,
    SIGNATURE_DIGEST,
    bundle,
    bundle_signature,
    key,
    public_pem,
)

from copyrator.signatures.attestation import SigningKey, encode_statement, sign_statement
from copyrator.signatures.model import (
    CosignKeys,
    DeployedStatement,
    Signature,
    SignatureFormat,
)

DEPLOYED = DeployedStatement(
    digest=ARTIFACT.digest,
    environment="staging",
    cluster="0b0ea68a-9a52-4a8f-8f2c-54d1a3b8e001",
    namespace="shop",
    release="shop",
    revision=7,
    seconds=86400,
    since=NOW - timedelta(hours=25),
    until=NOW - timedelta(hours=1),
    issued_at=NOW,
)
"""That ARTIFACT stands in staging."""


def signing_key(kind: str = "P-256") -> SigningKey:
    found = key(kind)
    assert isinstance(found, SigningKey)
    return found


def trust(environment: str = "staging", *kinds: str) -> CosignKeys:
    """An environment whose keys are these; P-256 without any."""
    names = kinds or ("P-256",)
    return CosignKeys(environment, {f"{kind}.pub": public_pem(key(kind)) for kind in names})


def attested(kind: str = "P-256", **changed: Any) -> Signature:
    """An attestation as the operator makes it, found in a registry."""
    blob = sign_statement(signing_key(kind), replace(DEPLOYED, **changed))
    return Signature(SignatureFormat.SIGSTORE_BUNDLE, SIGNATURE_DIGEST, blob)


def document(**changed: Any) -> dict[str, Any]:
    """The statement as JSON; ``changed`` replaces fields of the predicate."""
    found: dict[str, Any] = json.loads(encode_statement(DEPLOYED))
    found["predicate"] |= changed
    return found


def by_hand(statement: Any, kind: str = "P-256", **wrapping: Any) -> Signature:
    """Any statement, signed with a key; ``wrapping`` replaces fields of the bundle."""
    body = statement if isinstance(statement, bytes) else json.dumps(statement).encode()
    return bundle_signature(bundle(key(kind), body, **wrapping))
