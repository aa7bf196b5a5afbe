"""Lists of referrers and manifests of signatures, of any content: typed errors, within bounds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from multidict import CIMultiDict
from tests.signature_layout import (
    BUNDLE_TYPE,
    CREATED,
    EMPTY_TYPE,
    IMAGE_TYPE,
    INDEX_TYPE,
    NOTATION_TYPE,
    PAYLOAD_TYPE,
    PREDICATE,
    bundle_of_chart,
    digest_of,
    encoded,
    fallback_tag,
    index,
    listed,
    notation,
    payloads,
    sigstore_bundle,
)
from tests.steps import STEP_SECONDS, assert_quick
from tests.unit.signatures.mutations import altered_bytes, altered_json

from copyrator.oci.client import RegistryClient
from copyrator.oci.errors import RegistryError, TagNotFound
from copyrator.oci.exchange import Repository, Response
from copyrator.oci.signature_manifest import (
    REFERRERS_BYTES,
    SENTENCES,
    Candidates,
    SkipReasons,
    UnusableError,
    read_index,
    read_payloads,
    read_stored,
)
from copyrator.oci.signatures import _AT_ONCE, SIGNATURE_MANIFEST_BYTES, SignatureFinder
from copyrator.signatures.model import SIGNATURES, Artifact, Found

REPOSITORY = Repository("registry.example", "team/app")
BUNDLE = bundle_of_chart("1.0.0")
DIGEST = digest_of(BUNDLE)
TAG = fallback_tag(DIGEST)
BLOB = b"a signature"

WORDS = [
    "schemaVersion", "mediaType", "manifests", "layers", "config", "subject", "digest", "size",
    "artifactType", "annotations", CREATED, PREDICATE, BUNDLE_TYPE, NOTATION_TYPE, PAYLOAD_TYPE,
    EMPTY_TYPE, IMAGE_TYPE, INDEX_TYPE, DIGEST, digest_of(BLOB), "", "\ud800", "\x00",
]  # fmt: skip
LEAVES = st.sampled_from([None, True, 0, -1, 2**63, 1e300, 0.5, *WORDS]) | st.text(max_size=3)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
    ),
    max_leaves=8,
)


def mutated(document: dict[str, Any]) -> st.SearchStrategy[bytes]:
    """A document, also with one of its values or some of its bytes altered."""
    raw = encoded(document)
    return st.just(raw) | altered_json(raw) | altered_bytes(raw)


class InMemory:
    """A registry with what a find asks for; everything else isn't there."""

    def __init__(self, contents: dict[str, bytes], referrers: bytes | None) -> None:
        self.contents = {digest_of(one): one for one in (BUNDLE, BLOB)} | contents
        self.asked = 0
        self._referrers = referrers

    async def artifact(self, _: Repository, digest: str, __: object) -> Artifact:
        return Artifact(digest, IMAGE_TYPE, len(BUNDLE))

    async def manifest_bytes(self, _: Repository, reference: str, *__: object) -> bytes:
        self.asked += 1
        try:
            return self.contents[reference]
        except KeyError:
            raise TagNotFound("none") from None

    blob = manifest_bytes

    async def referrers(self, _: Repository, url: str, __: object) -> Response | None:
        self.asked += 1
        if self._referrers is None:
            return None
        return Response(200, CIMultiDict[str](), (), self._referrers, url)


def find(registry: InMemory) -> Found | None:
    """What is found; None after a RegistryError. Anything else fails the test."""
    finder = SignatureFinder(cast("RegistryClient", registry))
    try:
        found = asyncio.run(finder.find(REPOSITORY, DIGEST, None))
    except RegistryError:
        return None
    assert len(found.signatures) <= SIGNATURES
    assert len(found.skipped) <= SENTENCES
    assert all(len(one) < 400 and one.isprintable() for one in found.skipped)
    assert registry.asked <= 3 + 2 * SIGNATURES
    for signature in found.signatures:
        assert signature.blob in registry.contents.values()
        json.dumps(dict(signature.annotations)).encode()
    return found


ATTACHED = [sigstore_bundle(BUNDLE, BLOB), notation(BUNDLE, BLOB)]
LIST = index(*(listed(encoded(one)) for one in ATTACHED))
STORED = {digest_of(encoded(one)): encoded(one) for one in ATTACHED}
PAYLOADS = payloads((BLOB, "by one"), (BLOB, "by two"))


def test_without_a_mutation_all_are_found() -> None:
    everything = STORED | {TAG: encoded(LIST), f"{TAG}.sig": encoded(PAYLOADS)}

    for referrers in (encoded(LIST), None):
        found = find(InMemory(everything, referrers))
        assert found is not None
        assert len(found.signatures) == 4
        assert found.skipped == ()


@given(mutated(LIST))
def test_any_list_of_referrers_is_read_or_refused(body: bytes) -> None:
    find(InMemory(STORED, body))


@given(mutated(LIST))
def test_any_index_of_the_fallback_tag_is_read_or_skipped(body: bytes) -> None:
    assert find(InMemory(STORED | {TAG: body}, None)) is not None


@given(mutated(PAYLOADS))
def test_any_manifest_of_the_sig_tag_is_read_or_skipped(body: bytes) -> None:
    assert find(InMemory({f"{TAG}.sig": body}, None)) is not None


@given(st.sampled_from(ATTACHED).flatmap(mutated))
@example(encoded(ATTACHED[0]).replace(digest_of(BLOB).encode(), DIGEST.encode()))
def test_any_manifest_of_a_referrer_is_read_or_skipped(body: bytes) -> None:
    entry = {"digest": digest_of(body), "artifactType": EMPTY_TYPE}

    found = find(InMemory({digest_of(body): body}, encoded(index(entry))))

    assert found is not None
    for signature in found.signatures:
        read = json.loads(body.decode(errors="replace"))
        assert read["subject"]["digest"] == DIGEST
        (layer,) = read["layers"]
        assert layer["digest"] == digest_of(signature.blob)


READERS: dict[str, Callable[[bytes], object]] = {
    "index": read_index,
    "referrer": lambda body: read_stored(body, DIGEST),
    "payloads": read_payloads,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@given(body=st.binary(max_size=50) | ANYTHING.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_read_or_refused(read: Callable[[bytes], object], body: bytes) -> None:
    refusal: ValueError | None = None
    try:
        read(body)
    except ValueError as error:
        refusal = error

    assert refusal is None or isinstance(refusal, UnusableError) or read is read_index
    assert len(str(refusal)) < 200


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("body", [b'{"x":' + b"[" * 100_000, b"[" * 100_000, b"", b"\xff"])
def test_what_no_parser_reads_is_refused(read: Callable[[bytes], object], body: bytes) -> None:
    with pytest.raises(ValueError, match=r"^(not an image index|its manifest isn't a valid .*)$"):
        read(body)


ENTRY = f'{{"digest":"{DIGEST}"'
PIECES = [
    ENTRY + "}",
    ENTRY + ',"annotations":{}}',
    ENTRY + f',"annotations":{{"{CREATED}":"\\u0041"}}}}',
    ENTRY + f',"annotations":{{"{PREDICATE}":"a"}}}}',
    '{"digest":""}',
    ENTRY + "," + '"annotations":{},' * 99 + '"x":1}',
    "[",
    "{}",
]


def longest(piece: str, most: int, key: str) -> bytes:
    """A document of `most` bytes with a list of pieces; their digests differ."""
    count = (most - 20) // (len(piece) + 1)
    distinct = (piece.replace(DIGEST, f"sha256:{n:064x}") for n in range(count))
    return f'{{"{key}":[{",".join(distinct)}]}}'.encode()


@pytest.mark.measures
@pytest.mark.parametrize("piece", PIECES)
def test_the_longest_list_takes_no_long_step(piece: str) -> None:
    body = longest(piece, REFERRERS_BYTES, "manifests")
    assert 0.99 * REFERRERS_BYTES < len(body) <= REFERRERS_BYTES

    def read() -> object:
        try:
            return read_index(body)
        except ValueError:
            return None

    assert_quick(read, STEP_SECONDS)


@pytest.mark.measures
@pytest.mark.parametrize("piece", PIECES[:4])
def test_the_entries_between_two_pauses_take_no_long_step(piece: str) -> None:
    entries = read_index(longest(piece, REFERRERS_BYTES, "manifests"))
    candidates = Candidates(SkipReasons())
    parts = iter(range(0, len(entries), _AT_ONCE))

    def add() -> None:
        start = next(parts)
        candidates.add(entries[start : start + _AT_ONCE])

    assert_quick(add, STEP_SECONDS / 2)
    for _ in range(5):
        add()
    assert len(list(candidates)) <= SIGNATURES


@pytest.mark.measures
@pytest.mark.parametrize("piece", [*PIECES[:4], "{}", "[", f'{ENTRY},"annotations":{{"a":""}}}}'])
def test_the_longest_manifest_takes_no_long_step(piece: str) -> None:
    body = longest(piece, SIGNATURE_MANIFEST_BYTES, "layers")

    def read() -> None:
        for reader in (read_payloads, lambda body: read_stored(body, DIGEST)):
            try:
                reader(body)
            except UnusableError:
                continue

    assert_quick(read, STEP_SECONDS)
