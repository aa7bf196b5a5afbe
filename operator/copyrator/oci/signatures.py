"""Finds the signatures of a digest in its repository, and apart from them its attestations.

They are in three places: in the list of referrers (OCI 1.1), in the index that clients keep under
the tag ``sha256-HEX`` where a registry has no such list, and in the manifest of the tag
``sha256-HEX.sig`` (cosign 2). The second one is also requested where the list exists, with
one more request: what was pushed or mirrored before the registry had the list may be only there.

A place that can't be read doesn't hide what is found in the others. Where nothing is found, it is
an error and not a missing signature. Of attestations it is always an error: what is hidden may be
the newest, a withdrawal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from enum import Enum, auto
from typing import Final

from copyrator.oci.auth import Credential
from copyrator.oci.client import RegistryClient, digest_of
from copyrator.oci.errors import (
    InvalidResponse,
    RegistryError,
    RegistryUnreachable,
    RepositoryNotFound,
    TagNotFound,
)
from copyrator.oci.exchange import DIGEST, Repository, next_page
from copyrator.oci.signature_manifest import (
    BEYOND,
    REFERRERS_BYTES,
    SIGNATURES_WANTED,
    Candidates,
    Layer,
    Listed,
    OthersError,
    ReferrerFilter,
    SkipReasons,
    UnusableError,
    read_index,
    read_payloads,
    read_stored,
    require_payload,
)
from copyrator.signatures.model import (
    ATTESTATION_BYTES,
    ATTESTATIONS,
    DEPLOYED_PREDICATE,
    SIGNATURES,
    Artifact,
    Found,
    FoundAttestations,
    Signature,
    SignatureFormat,
)
from copyrator.workqueue.fairness import TimeSlice

SIGNATURE_MANIFEST_BYTES: Final = 256 * 1024
"""Bytes of the manifest of a signature. That of the tag sha256-HEX.sig lists all its signatures,
with their certificates."""

SIGNATURES_BYTES: Final = 4 * 1024 * 1024
"""Bytes of all signatures of one digest, which are held until they are checked."""

SIGNATURES_SECONDS: Final = 60.0
"""Seconds for finding and reading the signatures of one digest."""

REFERRERS_PAGES: Final = 10
"""Pages of referrers of one digest."""

ATTESTATIONS_KEPT: Final = 500
"""Attestations of all digests that are kept, up to 16 KiB each, so that a poll reads new ones
only."""

ATTESTATIONS_WANTED: Final = ReferrerFilter(DEPLOYED_PREDICATE, ATTESTATIONS, ATTESTATION_BYTES)
_AT_ONCE: Final = 1000
"""Entries of a list of referrers between two pauses."""


class _Passed(Enum):
    """A referrer that was read and is none of our attestations."""

    NONE = auto()
    """No attestation."""
    OTHERS = auto()


class SignatureFinder:
    """Finds signatures and attestations through a client, within its limits."""

    def __init__(self, client: RegistryClient, *, seconds: float = SIGNATURES_SECONDS) -> None:
        self._client = client
        self._seconds = seconds
        self._read: dict[tuple[str, str], Signature | _Passed] = {}
        """Attestations by the digests of subject and manifest, which name their content for ever.
        The least recently used first."""

    async def find(
        self, repository: Repository, digest: str, credential: Credential | None
    ) -> Found:
        """The signatures of a manifest, one request after the other.

        It takes four requests without signatures, and one for each further page of referrers. Each
        signature takes two more (one of ``.sig`` takes one), and so does each referrer whose entry
        has no clear type.

        Raises:
            TagNotFound: the repository has no manifest with this digest.
            RegistryError: the manifest can't be read; or no signature is found, and a place can't
                be read or its list is invalid. A single signature that is unusable or missing is
                skipped instead.
        """
        search = _Search(self._client, repository, digest, credential)
        await self._run(search, search.run(), f"signatures of {digest}")
        return search.result()

    async def find_attestations(
        self, repository: Repository, digest: str, credential: Credential | None
    ) -> FoundAttestations:
        """All attestations of a manifest with our predicate type, or with none that is annotated.

        It takes two requests, one for each further page of referrers, and two for each attestation
        that wasn't read lately. One that is listed but isn't there (404) counts as not listed: a
        registry may list what was deleted, or what a mirror doesn't have yet.

        Raises:
            RegistryError: one of them can't be read, or there are more than ATTESTATIONS: a part of
                them may lack the newest.
        """
        search = _Search(
            self._client,
            repository,
            digest,
            credential,
            wanted=ATTESTATIONS_WANTED,
            read=self._read,
        )
        await self._run(search, search.run_attestations(), f"attestations of {digest}")
        while len(self._read) > ATTESTATIONS_KEPT:
            del self._read[next(iter(self._read))]
        return search.complete_result()

    async def _run(self, search: _Search, run: Awaitable[None], what: str) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                await run
        except TimeoutError:
            text = f"{search.host}: reading the {what} takes more than {self._seconds:.0f} s"
            search.fail(RegistryUnreachable(text))


class _Search:
    """The search for one digest's signatures."""

    def __init__(
        self,
        client: RegistryClient,
        repository: Repository,
        digest: str,
        credential: Credential | None,
        *,
        wanted: ReferrerFilter = SIGNATURES_WANTED,
        read: dict[tuple[str, str], Signature | _Passed] | None = None,
    ) -> None:
        self._client = client
        self._repository = repository
        self._digest = digest
        self._credential = credential
        self._wanted = wanted
        self._cache = {} if read is None else read
        self._skipped = SkipReasons()
        self._candidates = Candidates(self._skipped, wanted)
        self._artifact: Artifact | None = None
        self._found: list[Signature] = []
        self._others: set[str] = set()
        """Digests of attestations of another tool or predicate type."""
        self._bytes = 0
        self._fault: RegistryError | None = None
        """The first fault of a place that may have signatures."""

    async def run(self) -> None:
        artifact = await self._client.artifact(self._repository, self._digest, self._credential)
        self._artifact = artifact
        await self._read(self._list_referrers())
        await self._read(self._list_tag())
        for listed in self._candidates:
            await self._read(self._read_referrer(listed))
        await self._read(self._read_payloads())

    async def run_attestations(self) -> None:
        await self._read(self._list_referrers())
        await self._read(self._list_tag())
        self._others |= self._candidates.others
        for listed in self._candidates:
            if self._is_faulty:
                return
            key = self._digest, listed.digest
            known = self._cache.pop(key, None) or await self._read_attestation(listed)
            if known is None:
                continue
            self._cache[key] = known
            if isinstance(known, Signature):
                self._found.append(known)
            elif known is _Passed.OTHERS:
                self._others.add(listed.digest)

    @property
    def host(self) -> str:
        """The registry's, for messages."""
        return self._repository.host

    @property
    def _is_faulty(self) -> bool:
        return self._fault is not None or bool(self._skipped.sentences())

    def complete_result(self) -> FoundAttestations:
        """All that was found; raises the fault where something couldn't be read."""
        if self._fault is not None:
            raise self._fault
        if skipped := self._skipped.sentences():
            raise self._invalid(f"doesn't give all attestations of {self._digest}: {skipped[0]}")
        return FoundAttestations(tuple(self._found), len(self._others))

    def fail(self, error: RegistryError) -> None:
        """Note that a place can't be read."""
        self._fault = self._fault or error
        self._skipped.note(f"not all signatures can be read: {error.message}")

    def result(self) -> Found:
        """What was found; raises the fault where that is nothing."""
        if self._fault is not None and (self._artifact is None or not self._found):
            raise self._fault
        assert self._artifact is not None
        return Found(self._artifact, tuple(self._found), self._skipped.sentences())

    async def _read(self, place: Awaitable[None]) -> None:
        try:
            await place
        except RegistryError as error:
            self.fail(error)

    async def _list_referrers(self) -> None:
        url: str | None = self._repository.referrers_url(self._digest)
        asked: set[str] = set()
        while url is not None:
            if len(asked) == REFERRERS_PAGES:
                self._skipped.note(f"not more than {REFERRERS_PAGES} pages of referrers are read")
                return
            asked.add(url)
            answer = await self._client.referrers(self._repository, url, self._credential)
            if answer is None:
                if len(asked) > 1:
                    raise self._invalid("doesn't have the next page of referrers that it names")
                return
            try:
                await self._add(read_index(answer.body))
            except ValueError:
                raise self._invalid("responds with an invalid list of referrers") from None
            url = next_page(answer, self._repository, "referrers")
            if url in asked:
                raise self._invalid("returns an endless list of referrers")

    async def _list_tag(self) -> None:
        tag = self._digest.replace(":", "-")
        try:
            body = await self._manifest(tag, REFERRERS_BYTES)
            if digest_of(body) == self._digest:
                return  # GitLab's registry resolves the tag as the digest
            await self._add(read_index(body))
        except TagNotFound:
            return
        except InvalidResponse as error:
            self._skipped.note(f"the tag {tag} can't be used: {error.message}")
        except ValueError:
            self._skipped.note(f"the tag {tag} isn't an index of referrers")

    async def _add(self, entries: list[Listed]) -> None:
        time_slice = TimeSlice()
        for start in range(0, len(entries), _AT_ONCE):
            self._candidates.add(entries[start : start + _AT_ONCE])
            await time_slice.pause()

    async def _read_referrer(self, listed: Listed) -> None:
        try:
            found = await self._read_stored(listed)
        except (TagNotFound, InvalidResponse, UnusableError) as error:
            self._skipped.add(_reason(error), listed.digest)
        else:
            self._found += [] if found is None else [found]

    async def _read_attestation(self, listed: Listed) -> Signature | _Passed | None:
        """None: the registry lists it but doesn't have it now, or it can't be read: a fault."""
        try:
            return await self._read_stored(listed) or _Passed.NONE
        except OthersError:
            return _Passed.OTHERS
        except UnusableError as error:
            self._skipped.add(str(error), listed.digest)
        except RegistryError as error:
            is_gone = isinstance(error, TagNotFound) and not isinstance(error, RepositoryNotFound)
            if not is_gone:
                text = f"the attestation {listed.digest} can't be read: {error.message}"
                self.fail(type(error)(text, error.retry_after, status=error.status))
        return None

    async def _read_stored(self, listed: Listed) -> Signature | None:
        _check_size(listed.size, SIGNATURE_MANIFEST_BYTES, "manifest")
        body = await self._manifest(listed.digest, SIGNATURE_MANIFEST_BYTES)
        stored = read_stored(body, self._digest, self._wanted)
        if stored is None:
            return None
        blob = await self._blob(stored.layer)
        return Signature(stored.format, listed.digest, blob, stored.annotations)

    async def _read_payloads(self) -> None:
        tag = self._digest.replace(":", "-") + ".sig"
        try:
            layers = read_payloads(await self._manifest(tag, SIGNATURE_MANIFEST_BYTES))
        except TagNotFound:
            return
        except (InvalidResponse, UnusableError) as error:
            self._skipped.note(f"the tag {tag} can't be used: {error}")
            return
        beyond = max(len(layers) - (SIGNATURES - len(self._found)), 0)
        self._skipped.add(BEYOND, *(layer.digest for layer in layers[:beyond]))
        blobs: dict[str, bytes] = {}  # signatures by several keys have the same payload
        for layer in layers[beyond:]:  # cosign appends: these are the newest
            try:
                require_payload(layer)
                if layer.digest not in blobs:
                    blobs[layer.digest] = await self._blob(layer)
            except (TagNotFound, InvalidResponse, UnusableError) as error:
                self._skipped.add(_reason(error), layer.digest)
            else:
                blob, annotations = blobs[layer.digest], layer.annotations or {}
                self._found.append(
                    Signature(SignatureFormat.COSIGN_PAYLOAD, layer.digest, blob, annotations)
                )

    async def _manifest(self, reference: str, max_body: int) -> bytes:
        return await self._client.manifest_bytes(
            self._repository, reference, self._credential, max_body
        )

    async def _blob(self, layer: Layer) -> bytes:
        if not DIGEST.fullmatch(layer.digest):
            raise UnusableError("the digest of its layer isn't sha256")
        _check_size(layer.size, self._wanted.most_bytes, "layer")
        if self._bytes + layer.size > SIGNATURES_BYTES:
            raise UnusableError(
                f"not read, since all signatures of a digest may have {SIGNATURES_BYTES} bytes"
            )
        blob = await self._client.blob(
            self._repository, layer.digest, self._credential, self._wanted.most_bytes
        )
        self._bytes += len(blob)
        return blob

    def _invalid(self, what: str) -> InvalidResponse:
        return InvalidResponse(f"{self._repository.host} {what}")


def _check_size(size: int, most: int, what: str) -> None:
    if size > most:
        raise UnusableError(f"not read, since its {what} has more than {most} bytes")


def _reason(error: TagNotFound | InvalidResponse | UnusableError) -> str:
    if isinstance(error, TagNotFound):
        return "not read, since the registry lists it but doesn't have it"
    return str(error)
