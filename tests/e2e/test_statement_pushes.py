"""Statements are pushed to real registries: one with the list of referrers, and one without."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from copyrator.cli import cli
from copyrator.metrics import Metrics
from copyrator.oci.client import RegistryClient
from copyrator.oci.errors import RegistryError
from copyrator.oci.exchange import Repository
from copyrator.oci.signatures import SignatureFinder
from copyrator.oci.statements import PrivateKeyFile, PushTarget, StatementPusher
from copyrator.signatures.attestation import judge
from copyrator.signatures.model import CosignKeys, DeployedStatement
from localcluster.bundle import push

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


@pytest.fixture(params=["distribution", "go-containerregistry"])
def target(request: pytest.FixtureRequest) -> PushTarget:
    """A repository in each registry."""
    if request.param == "distribution":
        registry = request.getfixturevalue("cluster").registry
    else:
        registry = request.getfixturevalue("referrers_registry")
    name = f"attested-{secrets.token_hex(4)}"
    return PushTarget(Repository(registry, name, plain_http=True), None)


@pytest.fixture
def digest(target: PushTarget, tmp_path: Path) -> str:
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: app\nversion: 1.0.0\n")
    return push(tmp_path, target.repository.registry, target.repository.name, "1.0.0")


@pytest.fixture
async def client() -> AsyncIterator[RegistryClient]:
    client = RegistryClient(metrics=Metrics(), allowed=[ip_network("127.0.0.0/8")])
    yield client
    await client.close()


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


def shown(target: PushTarget, key: Path) -> list[tuple[str, str, str]]:
    """Release, state and key of each statement, as `attest show` prints them."""
    words = ["attest", "show", f"{target.repository}:1.0.0", "--insecure", "-o", "json"]
    result = CliRunner().invoke(cli, [*words, "--key", str(key)])
    assert result.exit_code == 0, result.output
    return [
        (one["release"]["name"], one["state"], Path(one["key"]).name)
        for one in json.loads(result.output)["items"]
    ]


async def test_statements_are_pushed_found_and_replaced(
    target: PushTarget, digest: str, client: RegistryClient, tmp_path: Path
) -> None:
    pusher = StatementPusher(client)
    key = PrivateKeyFile("key.pem", PRIVATE, b"pa55")

    async def attest(release: str, *, minutes: int = 0, replaces: str | None = None) -> str:
        said = statement(digest, release, minutes=minutes)
        bundle = await pusher.sign(key, said, "team")
        return (await pusher.push(target, digest, bundle, "team", replaces=replaces)).manifest

    async def found() -> list[tuple[str, datetime]]:
        attestations = await SignatureFinder(client).find_attestations(
            target.repository, digest, None
        )
        evidence = judge(digest, attestations, [CosignKeys("staging", {"key.pub": PUBLIC})])
        assert evidence.refused == ()
        return sorted((one.release, one.issued_at) for one in evidence.statements)

    try:
        first, _ = await asyncio.gather(attest("shop"), attest("till"))
        assert await attest("shop") == first
        assert await found() == [("shop", NOW), ("till", NOW)]

        await attest("shop", minutes=1, replaces=first)
        assert await found() == [("shop", NOW + timedelta(minutes=1)), ("till", NOW)]
        (tmp_path / "staging.pub").write_bytes(PUBLIC)
        assert await asyncio.to_thread(shown, target, tmp_path / "staging.pub") == [
            ("shop", "stands", "staging.pub"),
            ("till", "stands", "staging.pub"),
        ]
    finally:
        await pusher.close()


async def test_clusters_that_push_at_the_same_time_lose_nothing(
    target: PushTarget, digest: str, client: RegistryClient
) -> None:
    """Without a list of referrers they write the same index.

    On a file system distribution truncates a link before it writes it: who reads it then gets 400
    or 500. Such a push is tried again, as the operator does.
    """
    releases = ["one", "two", "three", "four"]

    async def attest(release: str) -> None:
        own = RegistryClient(metrics=Metrics(), allowed=[ip_network("127.0.0.0/8")])
        pusher = StatementPusher(own)
        try:
            bundle = await pusher.sign(
                PrivateKeyFile("key.pem", PRIVATE, b"pa55"), statement(digest, release), "team"
            )
            for tries_left in (3, 2, 1, 0):
                try:
                    await pusher.push(target, digest, bundle, "team", replaces=None)
                    return
                except RegistryError as error:
                    if error.status not in (400, 500) or not tries_left:
                        raise
        finally:
            await pusher.close()
            await own.close()

    await asyncio.gather(*map(attest, releases))

    attestations = await SignatureFinder(client).find_attestations(target.repository, digest, None)
    evidence = judge(digest, attestations, [CosignKeys("staging", {"key.pub": PUBLIC})])
    assert sorted(one.release for one in evidence.statements) == sorted(releases)
