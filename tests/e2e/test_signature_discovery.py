"""Signatures are found in real registries: one with the list of referrers, and one without."""

from __future__ import annotations

import json
import secrets
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from tests.signature_layout import (
    EMPTY,
    INDEX_TYPE,
    digest_of,
    encoded,
    fallback_tag,
    index,
    listed,
    notation,
    payloads,
    sigstore_bundle,
)

from copyrator.metrics import Metrics
from copyrator.oci.client import RegistryClient
from copyrator.oci.exchange import Repository
from copyrator.oci.signatures import SignatureFinder
from copyrator.signatures.model import Artifact, Found, SignatureFormat
from localcluster.bundle import MANIFEST_TYPE, Target, push

REGISTRIES = ("distribution", "go-containerregistry")
REFERRERS = "go-containerregistry"


class Signed:
    """A bundle in a registry, and those who sign it as the clients do there."""

    def __init__(self, registry: str, kind: str, chart: Path) -> None:
        self.kind = kind
        self.repository = Repository(registry, f"signed-{secrets.token_hex(4)}", plain_http=True)
        self.digest = push(chart, registry, self.repository.name, "1.0.0")
        self._target = Target(registry, self.repository.name, None, None)
        self.bundle = self._target.manifest("1.0.0")
        self._entries: list[dict[str, Any]] = []

    def store(self, blob: bytes) -> bytes:
        self._target.upload(blob)
        return blob

    def attach(self, manifest: dict[str, Any]) -> str:
        """Push a referrer; where there is no list of them, keep the fallback tag's index."""
        self.store(EMPTY)
        body = encoded(manifest)
        self._target.tag(body, digest_of(body))
        if self.kind != REFERRERS:
            self._entries.append(listed(body))
            self._put_index()
        return digest_of(body)

    def put_payloads(self, *signatures: tuple[bytes, str]) -> None:
        self.store(EMPTY)
        for payload, _ in signatures:
            self.store(payload)
        self._target.tag(encoded(payloads(*signatures)), fallback_tag(self.digest) + ".sig")

    def _put_index(self) -> None:
        body = encoded(index(*self._entries))
        self._target.tag(body, fallback_tag(self.digest), INDEX_TYPE)


@pytest.fixture(params=REGISTRIES)
def signed(request: pytest.FixtureRequest, tmp_path: Path) -> Signed:
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: app\nversion: 1.0.0\n")
    if request.param == REFERRERS:
        return Signed(request.getfixturevalue("referrers_registry"), REFERRERS, tmp_path)
    return Signed(request.getfixturevalue("cluster").registry, request.param, tmp_path)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


async def find(signed: Signed, metrics: Metrics) -> Found:
    client = RegistryClient(metrics=metrics, allowed=[ip_network("127.0.0.0/8")])
    try:
        return await SignatureFinder(client).find(signed.repository, signed.digest, None)
    finally:
        await client.close()


def requests(metrics: Metrics) -> dict[str, float]:
    """By method and status."""
    return {
        f"{sample.labels['method']} {sample.labels['code']}": sample.value
        for family in metrics.registry_requests.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
    }


async def test_a_bundle_without_signatures_takes_four_requests(
    signed: Signed, metrics: Metrics
) -> None:
    found = await find(signed, metrics)

    assert found == Found(Artifact(signed.digest, MANIFEST_TYPE, len(signed.bundle)))
    answered = {"GET 200": 1.0, "GET 404": 2.0} if signed.kind == REFERRERS else {"GET 404": 3.0}
    assert requests(metrics) == {"HEAD 200": 1.0, **answered}


async def test_signatures_of_all_formats_are_found(signed: Signed, metrics: Metrics) -> None:
    first = signed.attach(sigstore_bundle(signed.bundle, signed.store(b"a bundle")))
    second = signed.attach(notation(signed.bundle, signed.store(b"an envelope")))
    signed.put_payloads((b"payload", "by one"), (b"payload", "by two"))

    found = await find(signed, metrics)

    assert found.skipped == ()
    assert {(one.format, one.digest, one.blob) for one in found.signatures} == {
        (SignatureFormat.SIGSTORE_BUNDLE, first, b"a bundle"),
        (SignatureFormat.NOTATION, second, b"an envelope"),
        (SignatureFormat.COSIGN_PAYLOAD, digest_of(b"payload"), b"payload"),
    }
    assert [
        one.annotations["dev.cosignproject.cosign/signature"]
        for one in found.signatures
        if one.format is SignatureFormat.COSIGN_PAYLOAD
    ] == ["by one", "by two"]


async def test_an_attestation_and_a_signature_of_another_digest_are_not(
    signed: Signed, metrics: Metrics
) -> None:
    provenance = "https://slsa.dev/provenance/v1"
    attestation = signed.attach(
        sigstore_bundle(signed.bundle, signed.store(b"statement"), predicate=provenance)
    )
    other = json.dumps({"another": "manifest"}).encode()
    elsewhere = signed.attach(sigstore_bundle(other, signed.store(b"copied")))

    found = await find(signed, metrics)

    assert found.signatures == ()
    expected = {f"{attestation}: an attestation, not a signature"}
    if signed.kind != REFERRERS:
        expected.add(f"{elsewhere}: it is listed for this digest, but refers to another one")
    assert set(found.skipped) == expected
