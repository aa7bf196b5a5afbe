"""What the registry has about a fleet, held against all that its Bundles' statuses ever said.

`faults` tells all that isn't as it should be once everything has settled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

from tests.e2e.bundles.conftest import Team
from tests.e2e.bundles.features.attest.test_attest import private
from tests.e2e.faults.recorder import Recorder

from copyrator.api.text import format_time
from copyrator.metrics import Metrics
from copyrator.oci.client import RegistryClient
from copyrator.oci.exchange import Repository
from copyrator.oci.signatures import SignatureFinder
from copyrator.signatures.attestation import judge
from copyrator.signatures.model import CosignKeys, DeployedStatement
from localcluster.signing import new_key, public_key

ENVIRONMENT = "staging"
ATTEST: dict[str, Any] = {
    "environment": ENVIRONMENT,
    "keyFrom": {"secretName": "attest-key", "key": "key.pem"},
}


def make_key(team: Team) -> bytes:
    """Create the Secret of ATTEST; returns the public key."""
    key = new_key()
    team.create("secrets", ATTEST["keyFrom"]["secretName"], data=private(key))
    return public_key(key).encode()


def faults(team: Team, name: str, repo: str, public: bytes, bundles: Recorder) -> Iterator[str]:
    """What is wrong with the attestations of a Bundle that is deployed, as it should be."""
    body = team.get("bundles", name)
    assert body is not None
    status, uid = body.get("status", {}), body["metadata"]["uid"]
    records = {one["digest"]: one for one in status.get("attest", [])}
    there = records.get(status.get("deploy", {}).get("digest"), {})
    if there.get("state") != "Attested":
        yield f"what {name} runs isn't attested: {records}"
    said = {
        _as_recorded(one)
        for state in bundles.states
        if state["metadata"]["uid"] == uid
        for one in state.get("status", {}).get("attest", [])
    }
    for digest, record in records.items():
        found = asyncio.run(_statements(team.cluster.registry, repo, digest, public))
        dates = [one.issued_at for one in found]
        if len(set(dates)) < len(dates):
            yield f"{name}: two statements about {digest} have one date: {found}"
        if strange := [one for one in found if _as_said(one) not in said]:
            yield f"{name}: what was never recorded is in the registry: {strange}"
        newest = max(found, key=lambda one: one.issued_at, default=None)
        if newest is None or _as_said(newest) != _as_recorded(record):
            yield f"{name}: the registry has {newest}, and the status {record}"


def _as_recorded(record: dict[str, Any]) -> tuple[Any, ...]:
    dates = record["issuedAt"], record["since"], record["until"]
    is_withdrawn = record["state"].startswith("With")
    return record["digest"], *dates, record["seconds"], is_withdrawn, record.get("reason", "")


def _as_said(one: DeployedStatement) -> tuple[Any, ...]:
    dates = map(format_time, (one.issued_at, one.since, one.until))
    return one.digest, *dates, one.seconds, one.withdrawn, one.reason


async def _statements(
    registry: str, repo: str, digest: str, public: bytes
) -> tuple[DeployedStatement, ...]:
    client = RegistryClient(metrics=Metrics(), allowed=[ip_network("127.0.0.0/8")])
    try:
        repository = Repository(registry, repo, plain_http=True)
        found = await SignatureFinder(client).find_attestations(repository, digest, None)
    finally:
        await client.close()
    evidence = judge(digest, found, [CosignKeys(ENVIRONMENT, {"key.pub": public})])
    assert evidence.refused == ()
    return evidence.statements
