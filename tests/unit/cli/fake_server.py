"""An API server as commands read it, without a connection."""

from __future__ import annotations

from typing import Any

from copyrator.kube import errors
from copyrator.kube.resources import Resource


class FakeServer:
    """Objects by plural and name, as ``secrets/creds``; an error in place of one is raised."""

    def __init__(self, objects: dict[str, Any] | None = None) -> None:
        self.objects = objects or {}

    async def get(self, resource: Resource, _namespace: str | None, name: str) -> Any:
        found = self.objects.get(f"{resource.plural}/{name}")
        if found is None:
            raise errors.NotFound("no")
        if isinstance(found, Exception):
            raise found
        return found
