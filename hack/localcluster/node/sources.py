"""The ConfigMaps and Secrets that a pod refers to."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

from .api import Api, ApiError

Content = Mapping[str, bytes]


class MissingReference(Exception):  # noqa: N818 - a state that the pod waits in, not a fault
    """A ConfigMap, a Secret or a key that a pod can't do without isn't there (yet)."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Those of a namespace, each read once."""

    api: Api
    namespace: str
    _known: dict[tuple[str, str], Content | None] = field(default_factory=dict)

    async def content(self, kind: str, name: str, *, optional: bool) -> Content:
        """The content of a ConfigMap or Secret; nothing when it is missing and optional.

        Raises:
            MissingReference: it is missing and not optional; the words are the kubelet's.
            ApiError: an answer other than "not found".
        """
        if (kind, name) not in self._known:
            self._known[kind, name] = await self._read(kind, name)
        found = self._known[kind, name]
        if found is None and not optional:
            raise MissingReference(f'{kind.lower()} "{name}" not found')
        return found or {}

    async def _read(self, kind: str, name: str) -> Content | None:
        path = f"/api/v1/namespaces/{self.namespace}/{kind.lower()}s/{name}"
        try:
            body = await self.api.request("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        data, binary = body.get("data") or {}, body.get("binaryData") or {}
        if kind == "Secret":
            data, binary = {}, data
        plain = {key: value.encode() for key, value in data.items()}
        return plain | {key: base64.b64decode(value) for key, value in binary.items()}
