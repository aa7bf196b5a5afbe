"""Reads answers about manifests and blobs: media type, digest, error."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from typing import Final

import msgspec

from copyrator.oci.errors import InvalidResponse, RegistryError, TagNotFound
from copyrator.oci.exchange import Response
from copyrator.oci.reference import DIGEST, Repository

INDEX_TYPE: Final = "application/vnd.oci.image.index.v1+json"
MANIFEST_TYPES: Final = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    INDEX_TYPE,
    "application/vnd.docker.distribution.manifest.list.v2+json",
)


class _Declared(msgspec.Struct, rename="camel"):
    media_type: str


_declared = msgspec.json.Decoder(_Declared)


def digest_of(content: bytes) -> str:
    """The digest of a manifest or blob."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def checked(repository: Repository, reference: str, value: str) -> str:
    """The digest ``value`` of what was requested by ``reference``, a tag or digest.

    Raises:
        InvalidResponse: it isn't sha256, or isn't the requested one.
    """
    if not DIGEST.fullmatch(value):
        raise InvalidResponse(f"{repository.host} names a digest that isn't sha256")
    if DIGEST.fullmatch(reference) and value != reference:
        raise InvalidResponse(f"{repository.host} responds with {value} for {reference}")
    return value


def media_type(answer: Response) -> str:
    """The media type of an answer, in lower case and without parameters."""
    return answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def manifest_type(answer: Response, repository: Repository, reference: str) -> str:
    """The media type of a manifest or index: its Content-Type, else its ``mediaType``.

    Raises:
        InvalidResponse: neither is that of a manifest or index.
    """
    found = media_type(answer)
    if found not in MANIFEST_TYPES:
        with suppress(msgspec.MsgspecError, RecursionError, ValueError):
            found = _declared.decode(answer.body).media_type
    if found not in MANIFEST_TYPES:
        raise InvalidResponse(
            f"{repository.host} responds with something that isn't a manifest for "
            f"{named(reference)}"
        )
    return found


def named(reference: str) -> str:
    """A reference as text for messages: ``the tag 1.0.0``, ``the digest sha256:…``."""
    return f"the {'digest' if DIGEST.fullmatch(reference) else 'tag'} {reference}"


def unexpected(answer: Response, repository: Repository, what: str) -> RegistryError:
    """The error of an answer whose status isn't the expected one; ``what``: ``the tag 1.0.0``."""
    status = answer.status
    if status == 404:
        return TagNotFound(f"{repository} has no {what.removeprefix('the ')}", status=status)
    return InvalidResponse(f"{repository.host} responds with {status} for {what}", status=status)
