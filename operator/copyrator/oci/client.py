"""The few questions that we ask of OCI registries, asynchronously (docs/adr/0004 says why own).

Source: the OCI distribution specification 1.1. An exact tag is one HEAD; a range is the tag list
and one HEAD.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from copyrator.api.json_text import read_json
from copyrator.oci.auth import Credential
from copyrator.oci.errors import AuthenticationFailed, InvalidResponse, NotFound
from copyrator.oci.reference import DIGEST, Repository
from copyrator.oci.tags import MAX_PAGE, tag_pages
from copyrator.oci.tokens import Tokens
from copyrator.oci.transport import Answer, Request, Transport, Trust

if TYPE_CHECKING:
    from copyrator.metrics import Metrics

MANIFEST_TYPES: Final = (
    "application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.v2+json, "
    "application/vnd.oci.image.index.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json"
)
MAX_MANIFEST: Final = 4 * 1024 * 1024
"""Bytes; the specification lets registries refuse more."""


class RegistryClient:
    """One pooled session for all registries; tokens and per-host limits live here.

    Every method raises RegistryError's subclasses and nothing else.
    """

    def __init__(self, *, metrics: Metrics, timeout: float = 30.0) -> None:
        self._transport = Transport(metrics=metrics, timeout=timeout)
        self._tokens = Tokens(self._transport)

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()

    async def digest(self, repository: Repository, tag: str, credential: Credential | None) -> str:
        """The manifest digest that a tag (or a digest) names now, ``sha256:<64 hex>``.

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
        """The digest and the manifest of a tag or digest. Docker Hub counts this as a pull.

        Raises:
            NotFound: no such tag, or no such repository.
        """
        answer = await self._ask(
            "GET",
            repository.manifest_url(reference),
            repository,
            credential,
            accept=MANIFEST_TYPES,
            max_body=MAX_MANIFEST,
        )
        if answer.status != 200:
            raise _unexpected(answer, repository, _named(reference))
        manifest = _manifest(answer, repository, reference)
        digest = "sha256:" + hashlib.sha256(answer.body).hexdigest()
        return _digest(repository, reference, digest), manifest

    async def tags(
        self, repository: Repository, credential: Credential | None
    ) -> AsyncGenerator[list[str], None]:
        """The repository's tags, page by page, so that nobody needs to hold them all.

        A caller acts on the tags only when the iteration has ended by itself: a broken page
        raises, and half a list isn't a list.
        """

        async def page(url: str) -> Answer:
            answer = await self._ask(
                "GET", url, repository, credential, accept="application/json", max_body=MAX_PAGE
            )
            if answer.status != 200:
                raise _unexpected(answer, repository, "the tag list")
            return answer

        async with aclosing(tag_pages(page, repository)) as pages:
            async for tags in pages:
                yield tags

    async def _ask(
        self,
        method: str,
        url: str,
        repository: Repository,
        credential: Credential | None,
        *,
        accept: str,
        max_body: int = 0,
    ) -> Answer:
        """Ask, and once more with a new token if the old one isn't good (any more)."""
        trust = Trust(repository.verify, repository.ca)
        header = await self._tokens.header(repository, credential)
        answer = await self._transport.send(
            Request(method, url, trust, _headers(accept, header), None, max_body)
        )
        if answer.status == 401:
            header = await self._tokens.renew(repository, credential, answer, header)
            answer = await self._transport.send(
                Request(method, url, trust, _headers(accept, header), None, max_body)
            )
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


def _headers(accept: str, authorization: str | None) -> dict[str, str]:
    headers = {"Accept": accept}
    if authorization:
        headers["Authorization"] = authorization
    return headers


def _digest(repository: Repository, reference: str, value: str) -> str:
    if not DIGEST.fullmatch(value):
        raise InvalidResponse(f"{repository.host} names a digest that isn't sha256")
    if DIGEST.fullmatch(reference) and value != reference:
        raise InvalidResponse(f"{repository.host} answers with {value} when asked for {reference}")
    return value


def _manifest(answer: Answer, repository: Repository, reference: str) -> dict[str, Any]:
    """What was read, if it is a manifest: a login page that says 200 is none, and has no digest."""
    try:
        decoded = read_json(answer.body)
    except ValueError:
        decoded = None
    if not isinstance(decoded, dict) or "schemaVersion" not in decoded:
        raise InvalidResponse(
            f"{repository.host} answers something that isn't a manifest for {_named(reference)}"
        )
    return decoded


def _named(reference: str) -> str:
    return f"the {'digest' if DIGEST.fullmatch(reference) else 'tag'} {reference}"


def _unexpected(answer: Answer, repository: Repository, what: str) -> Exception:
    if answer.status == 404:
        return NotFound(f"{repository} has no {what.removeprefix('the ')}")
    return InvalidResponse(f"{repository.host} answers {answer.status} for {what}")
