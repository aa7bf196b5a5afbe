"""The ConfigMaps and Secrets that a pod refers to."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from .api import Api, ApiError


class Ref(NamedTuple):
    """A ConfigMap or Secret in the pod's namespace."""

    kind: Literal["ConfigMap", "Secret"]
    name: str


Data = Mapping[Ref, Mapping[str, bytes] | None]
"""Contents by reference; None says that the object doesn't exist."""


class MissingReference(Exception):  # noqa: N818 - a state that the pod waits in, not a fault
    """A ConfigMap, a Secret or a key that a pod can't do without isn't there (yet)."""


def content(data: Data, ref: Ref, *, optional: bool) -> Mapping[str, bytes]:
    """The content of an object; nothing when it is missing and optional.

    Raises:
        MissingReference: it is missing and not optional; the words are the kubelet's.
    """
    found = data.get(ref)
    if found is not None:
        return found
    if optional:
        return {}
    raise MissingReference(f'{ref.kind.lower()} "{ref.name}" not found')


async def fetch(api: Api, namespace: str, refs: Iterable[Ref]) -> Data:
    """Read objects, side by side.

    Raises:
        ApiError: an answer other than "not found".
    """
    wanted = sorted(set(refs))
    found = await asyncio.gather(*(_fetch(api, namespace, ref) for ref in wanted))
    return dict(zip(wanted, found, strict=True))


async def _fetch(api: Api, namespace: str, ref: Ref) -> Mapping[str, bytes] | None:
    plural = "configmaps" if ref.kind == "ConfigMap" else "secrets"
    try:
        body = await api.request("GET", f"/api/v1/namespaces/{namespace}/{plural}/{ref.name}")
    except ApiError as error:
        if error.status == 404:
            return None
        raise
    data = body.get("data") or {}
    if ref.kind == "Secret":
        return {key: base64.b64decode(value) for key, value in data.items()}
    plain = {key: value.encode() for key, value in data.items()}
    binary = body.get("binaryData") or {}
    return plain | {key: base64.b64decode(value) for key, value in binary.items()}
