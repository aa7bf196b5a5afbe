"""The key of the content hashes: a Secret of the operator, made at its first start.

Without a key, a hash in an annotation would let anybody who may read metadata test guesses of a
Secret's content. If the Secret is lost, the next start makes a new one, and no copy's seal is valid
any more: each is read once, and resealed by one write if it is as its rule wants it.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from typing import TYPE_CHECKING, Any, Final

from copyrator.copies.seal.sealing import KEY_BYTES, Sealer
from copyrator.copies.sources.records import LABEL_HASH_KEY
from copyrator.kube.errors import AlreadyExists, ApiError, Forbidden, NotFound
from copyrator.kube.resources import SECRETS

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

SECRET_NAME: Final = "copyrator-hash-key"  # noqa: S105 - a name
_DATA_KEY: Final = "key"


async def load_sealer(client: KubeClient, namespace: str, *, make: bool) -> Sealer | None:
    """Read the key; where there is none, `make` it, or return None.

    Raises:
        ApiError: it can't be read or made; without it nothing may be written.
    """
    try:
        secret = await _get_or_make(client, namespace, make=make)
        return Sealer(_decode(secret)) if secret else None
    except Forbidden as error:
        raise Forbidden(
            f"the operator cannot read or create its Secret {namespace}/{SECRET_NAME}: "
            f"grant get and create on secrets there ({error.message})",
            status=error.status,
        ) from error


async def _get_or_make(client: KubeClient, namespace: str, *, make: bool) -> dict[str, Any] | None:
    try:
        return await client.get(SECRETS, namespace, SECRET_NAME)
    except NotFound:
        if not make:
            return None
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": SECRET_NAME,
            "namespace": namespace,
            "labels": {LABEL_HASH_KEY: "true"},
        },
        "type": "Opaque",
        "data": {_DATA_KEY: base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()},
    }
    try:
        return await client.create(SECRETS, namespace, body)
    except AlreadyExists:  # another replica was faster
        return await client.get(SECRETS, namespace, SECRET_NAME)


def _decode(secret: dict[str, Any]) -> bytes:
    encoded = (secret.get("data") or {}).get(_DATA_KEY, "")
    try:
        key = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        metadata = secret["metadata"]
        raise ApiError(
            f"the Secret {metadata['namespace']}/{metadata['name']} has no key of "
            f"{KEY_BYTES} bytes under {_DATA_KEY!r}; delete it to create a new one",
            reason="BrokenHashKey",
        )
    return key
