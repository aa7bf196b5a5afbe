"""Signatures are found where cosign and notation put them, with few requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from aiohttp import web
from tests.component.oci.fake_registry import FakeRegistry, answering
from tests.component.oci.signed_registry import SignedRegistry
from tests.long import LONG
from tests.recorded_signatures import Recording
from tests.signature_layout import (
    CREATED,
    EMPTY_TYPE,
    IMAGE_TYPE,
    INDEX_TYPE,
    NOTATION_TYPE,
    PREDICATE,
    SIGN,
    digest_of,
    encoded,
    fallback_tag,
    index,
    listed,
    notation,
    sigstore_bundle,
)

from copyrator.oci.auth import Credential
from copyrator.oci.errors import InvalidResponse
from copyrator.oci.signatures import SignatureFinder
from copyrator.signatures.model import Artifact, Found, SignatureFormat

ALICE = Credential("alice", "s3cret")
PROVENANCE = "https://slsa.dev/provenance/v1"


async def test_a_digest_without_signatures_takes_four_requests(either: SignedRegistry) -> None:
    found = await either.find()

    assert found == Found(Artifact(either.digest, IMAGE_TYPE, len(either.bundle)))
    assert [method for method, _ in either.asked] == ["HEAD", "GET", "GET", "GET"]
    tag = fallback_tag(either.digest)
    assert either.paths == [
        f"manifests/{either.digest}",
        f"referrers/{either.digest}",
        f"manifests/{tag}",
        f"manifests/{tag}.sig",
    ]


async def test_cosigns_bundle_is_found(either: SignedRegistry) -> None:
    digest = either.sign(b"a bundle", created="2026-02-03T04:05:06Z")

    (signature,) = (await either.find()).signatures

    assert (signature.format, signature.digest) == (SignatureFormat.SIGSTORE_BUNDLE, digest)
    assert signature.blob == b"a bundle"
    assert signature.annotations[PREDICATE] == SIGN
    assert signature.annotations[CREATED] == "2026-02-03T04:05:06Z"
    assert len(either.asked) == 6


async def test_notations_envelope_is_found(either: SignedRegistry) -> None:
    digest = either.sign_by_notation(b"an envelope")

    (signature,) = (await either.find()).signatures

    assert (signature.format, signature.digest) == (SignatureFormat.NOTATION, digest)
    assert signature.blob == b"an envelope"
    assert "io.cncf.notary.x509chain.thumbprint#S256" in signature.annotations


async def test_notations_older_layout_is_found(either: SignedRegistry) -> None:
    manifest = notation(either.bundle, either.store(b"an envelope"))
    del manifest["artifactType"]
    manifest["config"]["mediaType"] = NOTATION_TYPE
    either.attach(manifest)

    (signature,) = (await either.find()).signatures

    assert signature.format is SignatureFormat.NOTATION


async def test_payloads_of_the_sig_tag_are_found_and_read_once(either: SignedRegistry) -> None:
    either.sign_by_tag((b"payload", "by one"), (b"payload", "by two"), (b"other", "by three"))

    found = await either.find()

    assert [one.blob for one in found.signatures] == [b"payload", b"payload", b"other"]
    assert [one.digest for one in found.signatures] == [
        digest_of(one) for one in (b"payload", b"payload", b"other")
    ]
    assert {one.format for one in found.signatures} == {SignatureFormat.COSIGN_PAYLOAD}
    assert [one.annotations["dev.cosignproject.cosign/signature"] for one in found.signatures] == [
        "by one",
        "by two",
        "by three",
    ]
    assert either.count("GET", "/blobs/") == 2
    assert found.skipped == ()


async def test_all_places_are_looked_at(signed: SignedRegistry) -> None:
    signed.sign(b"listed")
    signed.sign_by_tag((b"payload", "by one"))
    old = notation(signed.bundle, signed.store(b"in the tag only"))
    signed.push(old)
    entries = [listed(encoded(old)), *signed.entries]
    signed.push(index(*entries), fallback_tag(signed.digest))

    found = await signed.find()

    assert [one.blob for one in found.signatures] == [b"listed", b"in the tag only", b"payload"]
    assert len(signed.asked) == 4 + 2 + 2 + 1


@pytest.mark.parametrize("kind", [EMPTY_TYPE, "", None])
async def test_a_list_that_does_not_say_what_an_entry_is(
    either: SignedRegistry, kind: str | None
) -> None:
    """As go-containerregistry's has the type of the config."""
    either.attach(sigstore_bundle(either.bundle, either.store(b"one")), artifactType=kind)
    sbom = notation(either.bundle, either.store(b"no signature"))
    sbom["artifactType"] = "application/spdx+json"
    either.attach(sbom, artifactType=kind, annotations=None)

    found = await either.find()

    assert [one.blob for one in found.signatures] == [b"one"]
    assert found.skipped == ()
    assert either.count("GET", "/blobs/") == 1


async def test_other_referrers_are_not_asked_for(either: SignedRegistry) -> None:
    sbom = notation(either.bundle, either.store(b"no signature"))
    sbom["artifactType"] = "application/spdx+json"
    either.attach(sbom)

    assert (await either.find()).signatures == ()
    assert len(either.asked) == 4


async def test_pages_are_followed(signed: SignedRegistry) -> None:
    signed.referrers_page = 2
    for number in range(5):
        signed.sign(f"{number}".encode())

    found = await signed.find()

    assert [one.blob for one in found.signatures] == [b"0", b"1", b"2", b"3", b"4"]
    assert signed.count("GET", "/referrers/") == 3


async def test_an_attestation_is_not_read(either: SignedRegistry) -> None:
    first = either.sign(b"provenance", predicate=PROVENANCE)
    either.sign(b"more", predicate=PROVENANCE)

    found = await either.find()

    assert found.signatures == ()
    assert found.skipped == (f"{first} and others: an attestation, not a signature",)
    assert len(either.asked) == 4


async def test_what_is_not_supported_is_named(either: SignedRegistry) -> None:
    cose = either.sign_by_notation(b"cose", "application/cose")
    old = "application/vnd.dev.sigstore.bundle+json;version=0.2"
    older = notation(either.bundle, either.store(b"old"), old) | {"artifactType": old}
    unclear = either.attach(older, artifactType="")
    named = either.attach(older | {"annotations": {}})
    experimental = "application/vnd.dev.cosign.artifact.sig.v1+json"
    other = either.attach(older | {"artifactType": experimental})

    found = await either.find()

    assert found.signatures == ()
    assert set(found.skipped) == {
        f"{cose}: application/cose isn't supported, only JWS envelopes",
        f"{named} and others: {old} isn't supported, only version 0.3 of bundles",
        f"{other}: cosign's experimental format for referrers isn't supported",
    }
    assert unclear != named
    assert either.count("GET", "/blobs/") == 0


async def test_layers_of_the_sig_tag_of_another_type_are_no_signatures(
    signed: SignedRegistry,
) -> None:
    manifest = notation(signed.bundle, signed.store(b"an envelope"))
    signed.push(manifest, fallback_tag(signed.digest) + ".sig")

    found = await signed.find()

    assert found.signatures == ()
    (sentence,) = found.skipped
    assert sentence.startswith(f"{digest_of(b'an envelope')}: application/jose+json isn't")
    assert signed.count("GET", "/blobs/") == 0


async def test_the_artifact_is_read_where_head_does_not_describe_it(signed: SignedRegistry) -> None:
    async def terse(request: web.Request) -> web.StreamResponse:
        if request.method == "HEAD":
            return web.Response(status=200)
        return await signed.respond(request)

    signed.fault, signed.fault_at = terse, f"/manifests/{signed.digest}"

    found = await signed.find()

    assert found.artifact == Artifact(signed.digest, IMAGE_TYPE, len(signed.bundle))
    assert len(signed.asked) == 5


async def test_an_artifact_without_content_type_has_the_type_it_names(
    signed: SignedRegistry,
) -> None:
    signed.fault = answering(200, signed.bundle.decode(), Content_Type="text/plain")
    signed.fault_at = f"/manifests/{signed.digest}"

    assert (await signed.find()).artifact.media_type == IMAGE_TYPE


async def test_an_artifact_that_is_no_manifest_is_refused(signed: SignedRegistry) -> None:
    signed.untagged["team/app", digest_of(b"{}")] = b"{}"

    with pytest.raises(InvalidResponse, match="isn't a manifest"):
        await signed.finder.find(signed.app, digest_of(b"{}"), None)


async def test_the_credential_is_used_and_does_not_go_to_another_host(
    either: SignedRegistry, registry: FakeRegistry
) -> None:
    either.auth, either.users = "bearer", {"alice": "s3cret"}
    either.sign(b"elsewhere")
    registry.fault = answering(200, "elsewhere")
    either.fault = answering(307, Location=f"http://{registry.host}/storage")
    either.fault_at = "/blobs/"

    (signature,) = (await either.find(ALICE)).signatures

    assert signature.blob == b"elsewhere"
    assert registry.seen_authorization == [None]
    assert either.count("GET", "/token") == 1


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
