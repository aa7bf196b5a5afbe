"""An asynchronous client of OCI registries (docs/adr/0004: why our own).

Source: the OCI distribution specification 1.1. An exact tag takes one HEAD; a range takes the tag
list and one HEAD.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
from yarl import URL

from copyrator.api.json_text import read_json
from copyrator.oci.addresses import Network
from copyrator.oci.auth import Credential
from copyrator.oci.errors import AuthenticationFailed, InvalidResponse, NotFound
from copyrator.oci.exchange import Answer, Request, Sink, Trust
from copyrator.oci.reference import DIGEST, Repository
from copyrator.oci.tags import Take, read_tags
from copyrator.oci.tokens import Tokens
from copyrator.oci.transport import Transport
from copyrator.settings.limits import MANIFEST_BYTES, TAG_LISTS_AT_ONCE, TAG_PAGE_BYTES
from copyrator.workqueue.fairness import FairLimit

if TYPE_CHECKING:
    from copyrator.metrics import Metrics

MANIFEST_TYPES: Final = (
    "application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.v2+json, "
    "application/vnd.oci.image.index.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json"
)


class _Manifest(msgspec.Struct):
    """The fields of a manifest that are decoded: the rest, up to 4 MB, is skipped."""

    version: msgspec.Raw = msgspec.field(name="schemaVersion")
    config: msgspec.Raw = msgspec.Raw(b"null")


_MAX_CONFIG = 64 * 1024
_manifests = msgspec.json.Decoder(_Manifest)


class RegistryClient:
    """One pooled session for all registries, with tokens and per-host limits.

    Every method raises subclasses of RegistryError and nothing else. ``allowed``: networks to
    which requests may go although they are refused by default, such as loopback (addresses.py).
    """

    def __init__(
        self, *, metrics: Metrics, timeout: float = 30.0, allowed: Sequence[Network] = ()
    ) -> None:
        self._transport = Transport(metrics=metrics, timeout=timeout, allowed=allowed)
        self._decoding = FairLimit(each=TAG_LISTS_AT_ONCE, together=TAG_LISTS_AT_ONCE)
        self._tokens = Tokens(self._transport)

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    def keep_registries(self, registries: Iterable[tuple[str, bool]]) -> None:
        """Drop the metrics of all registries but these: ``host[:port]``, and whether plain HTTP."""
        origins = {Repository(name, "", plain_http=plain).origin for name, plain in registries}
        self._transport.keep_hosts({_authority(origin) for origin in origins})

    async def digest(self, repository: Repository, tag: str, credential: Credential | None) -> str:
        """Return the manifest digest that a tag (or a digest) resolves to, ``sha256:<64 hex>``.

        Raises:
            NotFound: no such tag, or no such repository.
        """
        url = repository.manifest_url(tag)
        answer = await self._ask("HEAD", url, repository, credential, accept=MANIFEST_TYPES)
        if answer.status == 200 and "Docker-Content-Digest" in answer.headers:
            return _digest(repository, tag, answer.headers["Docker-Content-Digest"])
        if answer.status not in (200, 405):
            raise _unexpected(answer, repository, _named(tag))
        digest, _ = await self.manifest(repository, tag, credential)
        return digest

    async def manifest(
        self, repository: Repository, reference: str, credential: Credential | None
    ) -> tuple[str, dict[str, Any]]:
        """Return the digest of a tag or digest, and its manifest's field ``config``, if it has one.

        Docker Hub counts this as a pull.

        Raises:
            NotFound: no such tag, or no such repository.
        """
        answer = await self._ask(
            "GET",
            repository.manifest_url(reference),
            repository,
            credential,
            accept=MANIFEST_TYPES,
            max_body=MANIFEST_BYTES,
        )
        if answer.status != 200:
            raise _unexpected(answer, repository, _named(reference))
        manifest = _manifest(answer, repository, reference)
        digest = "sha256:" + hashlib.sha256(answer.body).hexdigest()
        return _digest(repository, reference, digest), manifest

    async def tags(self, repository: Repository, credential: Credential | None, take: Take) -> None:
        """Pass all tags of the repository to ``take``, in parts, so that memory is bounded.

        A caller must not act on the tags before this has returned: a broken page raises, and an
        incomplete list is invalid.
        """

        async def page(url: str, sink: Sink) -> Answer:
            answer = await self._ask(
                "GET",
                url,
                repository,
                credential,
                accept="application/json",
                max_body=TAG_PAGE_BYTES,
                sink=sink,
            )
            if answer.status != 200:
                raise _unexpected(answer, repository, "the tag list")
            return answer

        await read_tags(page, repository, take, self._decoding)

    async def _ask(
        self,
        method: str,
        url: str,
        repository: Repository,
        credential: Credential | None,
        *,
        accept: str,
        max_body: int = 0,
        sink: Sink | None = None,
    ) -> Answer:
        """Send the request, and once more with a new token if the old one is refused."""
        trust = Trust(repository.verify, repository.ca)
        request = Request(method, url, trust, max_body=max_body, sink=sink, named=True)
        header = await self._tokens.header(repository, credential)
        answer = await self._transport.send(replace(request, headers=_headers(accept, header)))
        if answer.status == 401:
            header = await self._tokens.renew(repository, credential, answer, header)
            answer = await self._transport.send(replace(request, headers=_headers(accept, header)))
        if answer.status in (401, 403):
            raise AuthenticationFailed(
                f"{repository.host} refuses access to {repository.name} ({answer.status})"
                + (
                    "; check the Secret of spec.auth"
                    if credential
                    else "; spec.auth names no Secret"
                )
            )
        return answer


def _authority(origin: str) -> str:
    try:
        return URL(origin).authority
    except ValueError:
        return ""


def _headers(accept: str, authorization: str | None) -> dict[str, str]:
    headers = {"Accept": accept}
    if authorization:
        headers["Authorization"] = authorization
    return headers


def _digest(repository: Repository, reference: str, value: str) -> str:
    if not DIGEST.fullmatch(value):
        raise InvalidResponse(f"{repository.host} names a digest that isn't sha256")
    if DIGEST.fullmatch(reference) and value != reference:
        raise InvalidResponse(f"{repository.host} responds with {value} for {reference}")
    return value


def _manifest(answer: Answer, repository: Repository, reference: str) -> dict[str, Any]:
    """Decode a manifest; rejects a login page with status 200, which has no digest."""
    try:
        found = _manifests.decode(answer.body)
        short = len(found.config) <= _MAX_CONFIG
        return {"config": read_json(bytes(found.config)) if short else None}
    except (msgspec.MsgspecError, RecursionError, ValueError):
        raise InvalidResponse(
            f"{repository.host} responds with something that isn't a manifest for "
            f"{_named(reference)}"
        ) from None


def _named(reference: str) -> str:
    return f"the {'digest' if DIGEST.fullmatch(reference) else 'tag'} {reference}"


def _unexpected(answer: Answer, repository: Repository, what: str) -> Exception:
    if answer.status == 404:
        return NotFound(f"{repository} has no {what.removeprefix('the ')}")
    return InvalidResponse(f"{repository.host} responds with {answer.status} for {what}")
