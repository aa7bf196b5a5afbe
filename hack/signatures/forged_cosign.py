"""What somebody who can push, but has no key, makes of cosign's signatures."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from localcluster.bundle import descriptor
from localcluster.repository import Repository, Stored, fallback_tag
from localcluster.signing import BUNDLE_TYPE, PREDICATE
from signatures import cosign
from signatures.material import Workshop
from signatures.registries import WITH, WITHOUT

PREDICATE_TYPE = "dev.sigstore.bundle.predicateType"
ATTESTED = "https://example.com/tests/v1"
SIGNED = {"dev.sigstore.bundle.content": "dsse-envelope", PREDICATE_TYPE: PREDICATE}
"""Annotations of the manifest of a signature's bundle."""

Json = dict[str, Any]
_POLICIES = ["key p256", "key other"]


def make(shop: Workshop) -> None:
    """All of them."""
    _payloads(shop)
    _bundles(shop)
    _attestations(shop)


def _payloads(shop: Workshop) -> None:
    texts = {
        "copied": "The signature of another digest under this one's tag.",
        "altered": "The payload of another digest's signature altered to name this one.",
    }
    for name, text in texts.items():
        case = f"payload-{name}"
        repository, signed = shop.artifact(case, WITHOUT)
        _, other = shop.artifact(case, WITHOUT, 1)
        cosign.sign(shop, "cosign2", "p256", repository, signed)
        found = repository.get(f"{fallback_tag(signed.digest)}.sig")
        assert found is not None
        body = found.body
        if name == "altered":
            (layer,) = body["layers"]
            payload = repository.blob(layer["digest"])
            payload = payload.replace(signed.digest.encode(), other.digest.encode())
            repository.upload(payload)
            layer |= descriptor(layer["mediaType"], payload)
        repository.put(body, f"{fallback_tag(other.digest)}.sig")
        shop.add(case, text, repository, other, _POLICIES)
    _resigned(shop)


def _resigned(shop: Workshop) -> None:
    """The payload is this digest's, its signature that of another payload."""
    case = "payload-swapped"
    repository, signed = shop.artifact(case, WITHOUT)
    _, other = shop.artifact(case, WITHOUT, 1)
    cosign.sign(shop, "cosign2", "p256", repository, signed)
    cosign.sign(shop, "cosign2", cosign.OTHER, repository, other)
    own, foreign = (repository.get(f"{fallback_tag(one.digest)}.sig") for one in (other, signed))
    assert own is not None
    assert foreign is not None
    body = own.body
    body["layers"][0]["annotations"] = foreign.body["layers"][0]["annotations"]
    repository.put(body, f"{fallback_tag(other.digest)}.sig")
    text = "This digest's payload with the signature value of another digest's payload."
    shop.add(case, text, repository, other, _POLICIES)


def _bundles(shop: Workshop) -> None:
    for registry in (WITH, WITHOUT):
        sign = partial(cosign.sign, shop, "cosign3", "p256")
        move(shop, "bundle-{}-" + registry, "bundle", sign, policies=_POLICIES, registry=registry)


def move(
    shop: Workshop,
    case: str,
    noun: str,
    sign: Callable[[Repository, Stored], None],
    *,
    policies: Sequence[str],
    registry: str = WITH,
) -> None:
    """Attach what is signed of one digest to another, as it is and altered to name that."""
    for how, text in (
        ("copied", f"The {noun} of another digest attached to this one."),
        ("altered", f"The statement of another digest's {noun} altered to name this one."),
    ):
        repository, signed = shop.artifact(case.format(how), registry)
        _, other = shop.artifact(case.format(how), registry, 1)
        sign(repository, signed)
        annotations, bundle = read_bundle(repository, signed)
        if how == "altered":
            _replace(bundle, (hexes(signed), hexes(other)))
        attach(repository, other, bundle, annotations)
        shop.add(case.format(how), text, repository, other, policies)


def _replace(bundle: Json, *changes: tuple[bytes, bytes]) -> None:
    """Alter a bundle's payload."""
    payload = base64.b64decode(bundle["dsseEnvelope"]["payload"])
    for before, after in changes:
        payload = payload.replace(before, after)
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()


def _attestations(shop: Workshop) -> None:
    case = "attestation-bundle"
    repository, artifact = shop.artifact(case, WITH)
    cosign.attest(shop, "cosign3", "p256", repository, artifact, kind=ATTESTED)
    shop.add(case, "cosign3 attested it; nobody signed it.", repository, artifact, _POLICIES)

    case = "attestation-of-the-type"
    repository, artifact = shop.artifact(case, WITH)
    cosign.attest(shop, "cosign3", "p256", repository, artifact, kind=PREDICATE)
    text = "cosign3 attested it with the predicate type of signatures."
    shop.add(case, text, repository, artifact, _POLICIES)

    case = "attestation-annotated-as-signature"
    repository, artifact = shop.artifact(case, WITH)
    cosign.attest(shop, "cosign3", "p256", repository, artifact, kind=ATTESTED)
    annotations, bundle = read_bundle(repository, artifact)
    attach(repository, artifact, bundle, annotations | {PREDICATE_TYPE: PREDICATE})
    text = "An attestation whose manifest's annotation says that it is a signature."
    shop.add(case, text, repository, artifact, _POLICIES)

    case = "attestation-retyped"
    repository, artifact = shop.artifact(case, WITH, 1)
    _, source = shop.artifact(case, WITH)
    cosign.attest(shop, "cosign3", "p256", repository, source, kind=ATTESTED)
    annotations, bundle = read_bundle(repository, source)
    typed = (ATTESTED.encode(), PREDICATE.encode())
    _replace(bundle, typed, (hexes(source), hexes(artifact)))
    attach(repository, artifact, bundle, annotations | {PREDICATE_TYPE: PREDICATE})
    text = "An attestation whose statement was altered to be a signature."
    shop.add(case, text, repository, artifact, _POLICIES)

    case = "attestation-as-payload"
    repository, artifact = shop.artifact(case, WITHOUT)
    cosign.attest(shop, "cosign2", "p256", repository, artifact, kind=ATTESTED)
    tag = fallback_tag(artifact.digest)
    found = repository.get(f"{tag}.att")
    assert found is not None
    repository.put(found.body, f"{tag}.sig")
    text = "The manifest of cosign2's attestation under the tag of signatures."
    shop.add(case, text, repository, artifact, _POLICIES)


def hexes(stored: Stored) -> bytes:
    """The hexadecimal digits of a digest, as statements have them."""
    return stored.digest.removeprefix("sha256:").encode()


def read_bundle(repository: Repository, artifact: Stored) -> tuple[dict[str, str], Json]:
    """The annotations of the first sigstore bundle of an artifact, and the bundle."""
    for entry in repository.referrers(artifact.digest):
        stored = repository.get(entry["digest"])
        assert stored is not None
        if stored.body.get("artifactType") == BUNDLE_TYPE:
            blob = repository.blob(stored.body["layers"][0]["digest"])
            return stored.body["annotations"], json.loads(blob)
    raise LookupError(f"{repository.reference(artifact.digest)} has no bundle")


def attach(
    repository: Repository,
    artifact: Stored,
    bundle: Json,
    annotations: Mapping[str, str] = MappingProxyType(SIGNED),
) -> None:
    """Store a bundle as a referrer of an artifact."""
    layer = (BUNDLE_TYPE, json.dumps(bundle).encode())
    repository.refer(artifact, layer, BUNDLE_TYPE, annotations)
