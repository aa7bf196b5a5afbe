"""What we have been told of one of our own resources, so that an event is delivered once, in order.

kopf brings events, but it doesn't say what vanished while its watch was down: it lists again and
knows no "gone". `resync` compares a complete list with what was delivered and makes up for that;
the first one fills the registries before any worker starts.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Protocol

from copyrator.api.keys import ObjectName
from copyrator.kube.errors import NotFound
from copyrator.kube.pages import Page
from copyrator.kube.resources import Resource

log = logging.getLogger(__name__)

Deliver = Callable[[Mapping[str, Any], bool], None]
"""Takes a body and whether the object is gone; cheap, never raises."""


class Reader(Protocol):
    """The part of KubeClient that a resync needs."""

    def list_pages(self, res: Resource) -> AsyncIterator[Page]:
        """All objects; complete when the iteration ends by itself."""
        ...

    async def get(self, res: Resource, namespace: str | None, name: str) -> dict[str, Any]:
        """One object; raises NotFound."""
        ...


class Intake:
    """Delivers the events of one resource: each state once, never an older one after a newer."""

    def __init__(self, resource: Resource, deliver: Deliver) -> None:
        self.resource = resource
        self._deliver = deliver
        self._versions: dict[ObjectName, int] = {}

    def __len__(self) -> int:
        return len(self._versions)

    def names(self) -> list[ObjectName]:
        """The objects that exist, as far as we were told."""
        return list(self._versions)

    def event(self, kind: str | None, body: Mapping[str, Any]) -> None:
        """Take an event as kopf has it: kind is None for what a list showed."""
        name, version = _identify(body)
        known = self._versions.get(name)
        if kind == "DELETED":
            if known is None or version < known:
                return  # told before, or of a former object of this name
            del self._versions[name]
        elif known is not None and version <= known:
            return
        else:
            self._versions[name] = version
        self._deliver(body, kind == "DELETED")

    async def resync(self, reader: Reader) -> None:
        """List everything; deliver what is news and what is gone.

        Raises:
            ApiError: the list didn't come to its end. Then nothing is taken for gone.
        """
        known = set(self._versions)
        async for page in reader.list_pages(self.resource):
            for body in page.items:
                # The API leaves these out of the items of a list.
                body.setdefault("apiVersion", self.resource.api_version)
                body.setdefault("kind", self.resource.kind)
                known.discard(_identify(body)[0])
                self.event(None, body)
        for name in sorted(known):
            if name in self._versions:
                await self._confirm_gone(reader, name)

    async def _confirm_gone(self, reader: Reader, name: ObjectName) -> None:
        """Ask for the one object: it may have come back after the list was made."""
        try:
            body = await reader.get(self.resource, name.namespace, name.name)
        except NotFound as error:
            if error.kind_missing:
                raise  # the CRD is gone, which says nothing about the object
            if self._versions.pop(name, None) is not None:
                log.info("%s %s is gone; its deletion was not seen", self.resource.kind, name)
                gone = {"metadata": {"namespace": name.namespace, "name": name.name}}
                self._deliver(gone, True)
        else:
            self.event(None, body)


def _identify(body: Mapping[str, Any]) -> tuple[ObjectName, int]:
    """Name and version; since Kubernetes 1.35 the API promises that versions compare as integers.

    Source: KEP-5504, comparable resource versions; true of every API server on etcd before.
    """
    metadata = body["metadata"]
    name = ObjectName(metadata.get("namespace") or "", metadata["name"])
    version = str(metadata.get("resourceVersion", ""))
    return name, int(version) if version.isdecimal() else 0
