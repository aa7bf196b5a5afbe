"""Signatures and statements in real registries: one with the list of referrers, one without."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
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

from copyrator.cli import cli
from copyrator.metrics import Metrics
from copyrator.oci.client import RegistryClient
from copyrator.oci.exchange import Repository
from copyrator.oci.signatures import SignatureFinder
from copyrator.oci.statements import PrivateKeyFile, PushTarget, StatementPusher
from copyrator.signatures.attestation import judge
from copyrator.signatures.model import Artifact, CosignKeys, DeployedStatement, SignatureFormat
from localcluster.bundle import MANIFEST_TYPE, Target, push

REFERRERS = "go-containerregistry"
PROVENANCE = "https://slsa.dev/provenance/v1"
NOW = datetime.now(UTC).replace(microsecond=0)
KEY = ed25519.Ed25519PrivateKey.generate()
PRIVATE = KEY.private_bytes(
    serialization.Encoding.PEM,
    serialization.PrivateFormat.PKCS8,
    serialization.BestAvailableEncryption(b"pa55"),
)
PUBLIC = KEY.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)


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
            tag = fallback_tag(self.digest)
            self._target.tag(encoded(index(*self._entries)), tag, INDEX_TYPE)
        return digest_of(body)

    def put_payloads(self, *signatures: tuple[bytes, str]) -> None:
        for payload, _ in signatures:
            self.store(payload)
        self._target.tag(encoded(payloads(*signatures)), fallback_tag(self.digest) + ".sig")


@pytest.fixture(params=["distribution", REFERRERS])
def signed(request: pytest.FixtureRequest, tmp_path: Path) -> Signed:
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: app\nversion: 1.0.0\n")
    if request.param == REFERRERS:
        return Signed(request.getfixturevalue("referrers_registry"), REFERRERS, tmp_path)
    return Signed(request.getfixturevalue("cluster").registry, request.param, tmp_path)


@pytest.fixture
async def client() -> AsyncIterator[RegistryClient]:
    client = RegistryClient(metrics=Metrics(), allowed=[ip_network("127.0.0.0/8")])
    yield client
    await client.close()


async def test_signatures_of_all_formats_are_found_and_nothing_else(
    signed: Signed, client: RegistryClient
) -> None:
    first = signed.attach(sigstore_bundle(signed.bundle, signed.store(b"a bundle")))
    second = signed.attach(notation(signed.bundle, signed.store(b"an envelope")))
    signed.put_payloads((b"payload", "by one"), (b"payload", "by two"))
    blob = signed.store(b"statement")
    attestation = signed.attach(sigstore_bundle(signed.bundle, blob, predicate=PROVENANCE))
    elsewhere = signed.attach(sigstore_bundle(b'{"another": "one"}', signed.store(b"copied")))

    found = await SignatureFinder(client).find(signed.repository, signed.digest, None)

    assert found.artifact == Artifact(signed.digest, MANIFEST_TYPE, len(signed.bundle))
    assert {(one.format, one.digest, one.blob) for one in found.signatures} == {
        (SignatureFormat.SIGSTORE_BUNDLE, first, b"a bundle"),
        (SignatureFormat.NOTATION, second, b"an envelope"),
        (SignatureFormat.COSIGN_PAYLOAD, digest_of(b"payload"), b"payload"),
    }
    by = [one.annotations.get("dev.cosignproject.cosign/signature") for one in found.signatures]
    assert list(filter(None, by)) == ["by one", "by two"]
    expected = {f"{attestation}: an attestation, not a signature"}
    if signed.kind != REFERRERS:
        expected.add(f"{elsewhere}: it is listed for this digest, but refers to another one")
    assert set(found.skipped) == expected


def statement(digest: str, release: str, *, minutes: int = 0) -> DeployedStatement:
    return DeployedStatement(
        digest=digest,
        environment="staging",
        cluster="0b0ea68a-9a52-4a8f-8f2c-54d1a3b8e001",
        namespace="shop",
        release=release,
        revision=7,
        seconds=86400,
        since=NOW - timedelta(days=2),
        until=NOW,
        issued_at=NOW + timedelta(minutes=minutes),
    )


def shown(repository: Repository, key: Path) -> list[tuple[str, str, str]]:
    """Release, state and key of each statement, as `attest show` prints them."""
    words = ["attest", "show", f"{repository}:1.0.0", "--insecure", "-o", "json"]
    result = CliRunner().invoke(cli, [*words, "--key", str(key)])
    assert result.exit_code == 0, result.output
    return [
        (one["release"]["name"], one["state"], Path(one["key"]).name)
        for one in json.loads(result.output)["items"]
    ]


async def test_statements_are_pushed_found_and_replaced(
    signed: Signed, client: RegistryClient, tmp_path: Path
) -> None:
    """Without a list of referrers both are in one index."""
    pusher = StatementPusher(client)
    key = PrivateKeyFile("key.pem", PRIVATE, b"pa55")
    where = PushTarget(signed.repository, None)

    async def attest(release: str, *, minutes: int = 0, replaces: str | None = None) -> str:
        said = statement(signed.digest, release, minutes=minutes)
        bundle = await pusher.sign(key, said, "team")
        pushed = await pusher.push(where, signed.digest, bundle, "team", replaces=replaces)
        return pushed.manifest

    async def found() -> list[tuple[str, datetime]]:
        attestations = await SignatureFinder(client).find_attestations(
            signed.repository, signed.digest, None
        )
        evidence = judge(signed.digest, attestations, [CosignKeys("staging", {"k.pub": PUBLIC})])
        assert evidence.refused == ()
        return sorted((one.release, one.issued_at) for one in evidence.statements)

    try:
        first, _ = await asyncio.gather(attest("shop"), attest("till"))
        assert await attest("shop") == first
        assert await found() == [("shop", NOW), ("till", NOW)]
        await attest("shop", minutes=1, replaces=first)
        assert await found() == [("shop", NOW + timedelta(minutes=1)), ("till", NOW)]
    finally:
        await pusher.close()
    (tmp_path / "staging.pub").write_bytes(PUBLIC)
    assert await asyncio.to_thread(shown, signed.repository, tmp_path / "staging.pub") == [
        ("shop", "stands", "staging.pub"),
        ("till", "stands", "staging.pub"),
    ]
