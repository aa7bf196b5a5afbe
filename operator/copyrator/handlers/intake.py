"""What we have been told of one of our own resources, so that an event is delivered once, in order.

kopf brings events, but it doesn't say what vanished while its watch was down: it lists again and
knows no "gone". `listed` compares such a list with what was delivered, and `confirm` makes sure of
what it misses; `resync` does the same with a list of its own. The first one fills the registries
before any worker starts.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, Protocol

from copyrator.api.keys import ObjectName
from copyrator.kube.errors import Forbidden
from copyrator.kube.pages import Page
from copyrator.kube.resources import Resource

log = logging.getLogger(__name__)

Deliver = Callable[[Mapping[str, Any], bool], None]
"""Takes a body and whether the object is gone; cheap, never raises."""


PAGE: Final = 50
"""Objects of a list that are held at a time: a Bundle with all its history has 6 KB."""


class Reader(Protocol):
    """The part of KubeClient that a resync needs."""

    def list_pages(
        self,
        res: Resource,
        namespace: str | None = None,
        *,
        field_selector: str | None = None,
        limit: int,
    ) -> AsyncIterator[Page]:
        """All objects that match; complete when the iteration ends by itself."""
        ...


class Intake:
    """Delivers the events of one resource: each state once, never an older one after a newer."""

    def __init__(
        self,
        resource: Resource,
        deliver: Deliver,
        *,
        namespaces: tuple[str | None, ...] = (None,),
    ) -> None:
        self.resource = resource
        self._deliver = deliver
        self._namespaces = namespaces
        self._listed: set[str | None] = set()
        self._versions: dict[ObjectName, int] = {}
        self._missed: set[ObjectName] = set()

    def __len__(self) -> int:
        return len(self._versions)

    def names(self) -> list[ObjectName]:
        """The objects that exist, as far as we were told."""
        return list(self._versions)

    def knows(self, namespace: str) -> bool:
        """Whether all objects of a namespace were seen once, so that others don't exist."""
        return bool(self._listed & {None, namespace})

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
        """List everything that may be listed; deliver what is news and what is gone.

        Raises:
            ApiError: the list didn't come to its end. Then nothing is taken for gone.
        """
        for namespace in self._namespaces:
            known = {name for name in self._versions if namespace in (None, name.namespace)}
            try:
                found = await self._list(reader, namespace)
            except Forbidden as error:
                log.warning("%s: %s", self.resource.key, error.message)
                continue
            self._listed.add(namespace)
            self._missed |= known - found
            await self.confirm(reader)

    def listed(self, namespace: str | None, found: set[ObjectName]) -> bool:
        """Take the names that a complete list of kopf's showed; whether any is missed there."""
        known = {name for name in self._versions if namespace in (None, name.namespace)}
        self._missed |= known - found
        return bool(self._missed)

    async def confirm(self, reader: Reader) -> None:
        """Look for each object that a list missed, and deliver those that are gone.

        Raises:
            ApiError: it can't be told; it is asked again the next time.
        """
        for name in sorted(self._missed):
            if name in self._versions:
                await self._confirm_gone(reader, name)
            self._missed.discard(name)

    async def _confirm_gone(self, reader: Reader, name: ObjectName) -> None:
        """Look for the one object: it may have come back after the list was made."""
        if await self._list(reader, name.namespace, f"metadata.name={name.name}"):
            return
        if self._versions.pop(name, None) is not None:
            log.info("%s %s is gone; its deletion was not seen", self.resource.kind, name)
            gone = {"metadata": {"namespace": name.namespace, "name": name.name}}
            self._deliver(gone, True)

    async def _list(
        self, reader: Reader, namespace: str | None, field_selector: str | None = None
    ) -> set[ObjectName]:
        """Deliver what there is and is news; return the names of all there is."""
        found = set()
        pages = reader.list_pages(
            self.resource, namespace, field_selector=field_selector, limit=PAGE
        )
        async for page in pages:
            for body in page.items:
                # The API leaves these out of the items of a list.
                body.setdefault("apiVersion", self.resource.api_version)
                body.setdefault("kind", self.resource.kind)
                found.add(_identify(body)[0])
                self.event(None, body)
        return found


def _identify(body: Mapping[str, Any]) -> tuple[ObjectName, int]:
    """Name and version; since Kubernetes 1.35 the API promises that versions compare as integers.

    Source: KEP-5504, comparable resource versions; true of every API server on etcd before.
    """
    metadata = body["metadata"]
    name = ObjectName(metadata.get("namespace") or "", metadata["name"])
    version = str(metadata.get("resourceVersion", ""))
    return name, int(version) if version.isdecimal() else 0
