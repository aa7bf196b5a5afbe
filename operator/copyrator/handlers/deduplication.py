"""De-duplicates the events of our own resources: each is delivered once, in order.

kopf lists again after a watch was down, but reports no deletions that it missed. `listed` compares
such a list with what was delivered, and `confirm` reads the objects that are missing from it;
`resync` does the same with a list of its own. The first resync fills the caches before any worker
starts. The periodic one reconciles every rule and Bundle; on a healthy cluster it changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from copyrator.api.keys import BundleKey, Key, ObjectName, RuleKey
from copyrator.handlers.kopf_guard import whole
from copyrator.kube.client.client import KubeClient
from copyrator.kube.errors import ApiError, Forbidden
from copyrator.kube.resources import Resource
from copyrator.workqueue.fairness import TimeSlice
from copyrator.workqueue.queue import Priority, WorkQueue

log = logging.getLogger(__name__)

Deliver = Callable[[Mapping[str, Any], bool], None]
"""Called with a body and whether the object is gone; must be cheap."""


PAGE: Final = 50
"""Objects per page of a list: a Bundle with its whole history has 6 KB."""


VERSION_DIGITS: Final = 32
"""Digits of a resourceVersion: a 64-bit number has at most 20."""


class EventDeduplicator:
    """Delivers the events of one resource: each state once, never an older one after a newer.

    An object that can't be delivered affects no other: it is logged once, and the next resync
    retries it.
    """

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
        self._faults: dict[ObjectName | None, str] = {}
        """Faults of the existing objects that couldn't be delivered, as logged."""

    def __len__(self) -> int:
        return len(self._versions)

    def names(self) -> list[ObjectName]:
        """The objects known to exist."""
        return list(self._versions)

    def knows(self, namespace: str) -> bool:
        """Whether a namespace was listed completely once, so that unknown objects don't exist."""
        return bool(self._listed & {None, namespace})

    def event(self, kind: str | None, body: Mapping[str, Any]) -> None:
        """Handle an event in kopf's form: kind is None for an object of a list. Never raises."""
        identified = _identify(body)
        if identified is None:
            self._note(None, "it has no name")
            return
        name, version = identified
        known = self._versions.get(name)
        if kind == "DELETED":
            if known is None or version < known:
                return  # a duplicate, or of a former object of this name
            del self._versions[name]
        elif known is not None and version <= known:
            return
        else:
            self._versions[name] = version
        self._deliver_one(name, body, gone=kind == "DELETED")

    def _deliver_one(self, name: ObjectName, body: Mapping[str, Any], *, gone: bool) -> None:
        """Deliver one object; an exception is logged as this object's fault."""
        try:
            # The API leaves the type out of the items of a list.
            named = {"apiVersion": self.resource.api_version, "kind": self.resource.kind}
            self._deliver(named | whole(body), gone)
        except Exception as error:
            # The message may quote the object: only the type is logged.
            self._note(name, f"parsing it fails with {type(error).__name__}")
            if gone:
                del self._faults[name]  # it is kept for existing objects only
            else:
                self._versions[name] = -1  # so that a resync retries it
        else:
            self._faults.pop(name, None)

    def _note(self, name: ObjectName | None, fault: str) -> None:
        """Log an object's fault once."""
        if self._faults.get(name) != fault:
            log.error(
                "%s %s can't be parsed: %s; other objects aren't affected",
                self.resource.kind,
                name or "without a name",
                fault,
            )
        self._faults[name] = fault

    async def resync(self, reader: KubeClient) -> None:
        """List every namespace that may be listed; deliver what has changed and what is gone.

        Raises:
            ApiError: a list is incomplete. Then nothing counts as deleted.
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
        """Compare the names in a complete list of kopf's; return whether a known one is missing."""
        known = {name for name in self._versions if namespace in (None, name.namespace)}
        self._missed |= known - found
        return bool(self._missed)

    async def confirm(self, reader: KubeClient) -> None:
        """Read each object that a list lacked, and deliver the deletion of those that are gone.

        Raises:
            ApiError: the read failed; the object is checked again the next time.
        """
        for name in sorted(self._missed):
            if name in self._versions:
                await self._confirm_gone(reader, name)
            self._missed.discard(name)

    async def _confirm_gone(self, reader: KubeClient, name: ObjectName) -> None:
        """Read one object: it may have been created again after the list was made."""
        if await self._list(reader, name.namespace, f"metadata.name={name.name}"):
            return
        if self._versions.pop(name, None) is not None:
            log.info("%s %s was deleted; its deletion event was missed", self.resource.kind, name)
            gone = {"metadata": {"namespace": name.namespace, "name": name.name}}
            self._deliver_one(name, gone, gone=True)

    async def _list(
        self, reader: KubeClient, namespace: str | None, field_selector: str | None = None
    ) -> set[ObjectName]:
        """Deliver the objects that have changed; return the names of all."""
        found = set()
        slice_ = TimeSlice()
        pages = reader.list_pages(
            self.resource, namespace, field_selector=field_selector, limit=PAGE
        )
        async for page in pages:
            for body in page.items:
                if (identified := _identify(body)) is not None:
                    found.add(identified[0])
                self.event(None, body)
                await slice_.pause()
        return found


def _identify(body: Any) -> tuple[ObjectName, int] | None:
    """Return name and version, or None for an object without a name.

    Since Kubernetes 1.35 the API promises that versions compare as integers.
    Source: KEP-5504, comparable resource versions; true of every API server on etcd before.
    """
    metadata = body.get("metadata") if isinstance(body, Mapping) else None
    if not isinstance(metadata, Mapping):
        return None
    namespace, name = metadata.get("namespace") or "", metadata.get("name")
    if not isinstance(namespace, str) or not isinstance(name, str) or not name:
        return None
    version = str(metadata.get("resourceVersion", ""))
    number = int(version) if version.isdecimal() and len(version) <= VERSION_DIGITS else 0
    return ObjectName(namespace, name), number


RESYNC_SECONDS = 600.0
"""Seconds between two resyncs, plus or minus a tenth."""

CONFIRM_AGAIN = 5.0
"""Seconds until the API server is queried again about objects that a list lacked."""


async def resync_for_ever(
    reader: KubeClient,
    rules: EventDeduplicator,
    bundles: EventDeduplicator,
    queue: WorkQueue[Key],
    seconds: float = RESYNC_SECONDS,
) -> None:
    """List both kinds every so many seconds and queue all objects; a fault skips one resync."""
    while True:
        await asyncio.sleep(seconds * random.uniform(0.9, 1.1))  # noqa: S311 - no secret
        try:
            await rules.resync(reader)
            await bundles.resync(reader)
        except ApiError as error:
            log.warning("The resync is skipped: %s", error)
            continue
        enqueue_all(rules, bundles, queue, respect_backoff=True)


async def confirm_missed(
    reader: KubeClient, deduplicators: tuple[EventDeduplicator, ...], missed: asyncio.Event
) -> None:
    """Whenever `missed` is set, check whether the objects that kopf's lists lacked are gone."""
    while True:
        await missed.wait()
        missed.clear()
        try:
            for deduplicator in deduplicators:
                await deduplicator.confirm(reader)
        except ApiError as error:
            log.warning("Can't check now whether objects were deleted: %s", error)
            await asyncio.sleep(CONFIRM_AGAIN)
            missed.set()


def enqueue_all(
    rules: EventDeduplicator,
    bundles: EventDeduplicator,
    queue: WorkQueue[Key],
    *,
    respect_backoff: bool = False,
) -> None:
    """Queue every rule and Bundle, with or without those in back-off."""
    keys: list[Key] = [RuleKey(*name) for name in rules.names()]
    keys += [BundleKey(*name) for name in bundles.names()]
    for key in keys:
        queue.add(key, Priority.RESYNC, respect_backoff=respect_backoff)
