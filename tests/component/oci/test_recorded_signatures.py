"""Signatures of the real cosign and notation are found as they lie in real registries."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from aiohttp import web
from tests.component.oci.fake_registry import FakeRegistry
from tests.long import LONG
from tests.recorded_signatures import Recording
from tests.signature_layout import INDEX_TYPE, encoded, index

from copyrator.oci.signatures import SignatureFinder

RECORDING = Recording.load()
CASES = [
    case
    for case in RECORDING.index["cases"]
    if not any(map(RECORDING.is_attestation, case["rows"]))
]
ATTESTED = [case for case in RECORDING.index["cases"] if case not in CASES]
SOME = CASES if LONG else CASES[::3]


class RecordedRegistry(FakeRegistry):
    """Serves the repository of one case."""

    case: Mapping[str, Any]

    async def respond(self, request: web.Request) -> web.StreamResponse:
        kind, name = request.path.split("/")[-2:]
        digest = self.case["tags"].get(name, name)
        if kind == "referrers" and self.case["referrers"] is not None:
            entries = self.case["referrers"] if name == self.case["digest"] else []
            return web.Response(body=encoded(index(*entries)), content_type=INDEX_TYPE)
        if kind == "manifests" and digest in self.case["manifests"]:
            return web.Response(
                body=RECORDING.blob(digest), content_type=self.case["manifests"][digest]
            )
        if kind == "blobs" and digest in self.case["blobs"]:
            return web.Response(body=RECORDING.blob(digest))
        return web.Response(status=404)


@pytest.fixture
async def recorded() -> AsyncIterator[RecordedRegistry]:
    async with RecordedRegistry() as registry:
        yield registry


@pytest.mark.parametrize("case", SOME, ids=[case["name"] for case in SOME])
async def test_recorded_signatures_are_found(
    recorded: RecordedRegistry, case: Mapping[str, Any]
) -> None:
    recorded.case = case
    expected = RECORDING.found(case)
    repository = recorded.repo(case["repository"])

    found = await SignatureFinder(recorded.client).find(repository, case["digest"], None)

    assert found.artifact == expected.artifact
    assert [one for one in expected.signatures if one in found.signatures] == sorted(
        found.signatures, key=expected.signatures.index
    )
    for one in expected.signatures:
        assert one in found.signatures or any(one.digest in text for text in found.skipped)


@pytest.mark.parametrize("case", ATTESTED, ids=[case["name"] for case in ATTESTED])
async def test_recorded_attestations_are_found(
    recorded: RecordedRegistry, case: Mapping[str, Any]
) -> None:
    """By their annotation; cosign's signature beside them isn't one."""
    recorded.case = case
    expected = RECORDING.found(case).signatures
    repository = recorded.repo(case["repository"])

    found = await SignatureFinder(recorded.client).find_attestations(
        repository, case["digest"], None
    )

    assert found.signatures == (() if case["name"] == "attested-only-signed" else expected)
