"""Writes the lists of guarded Jobs, and removes each once no pod of its Job can write any more.

A list is a key of a ConfigMap in the namespace of the operator's pod (``listing.config_map``): a
ConfigMap has the lists of as many Jobs as fit, is made with the first and deleted with the last. A
list is written before its Job is created, and kept for ``GuardTiming.kept`` after the
Job has ended or is gone and each of its pods has ended or is gone: the token of a deleted pod works
for ten seconds, and without a list everything is allowed (docs/facts/guard.md). By the watches of
lists, Jobs and pods this needs no further request, and what a crash left is found after a restart.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from copyrator.api import names
from copyrator.api.keys import ObjectName
from copyrator.bundles.plans.guard.listing import (
    Guard,
    GuardedDeploy,
    GuardedUninstall,
    config_map,
    job_of,
    key_of,
    list_of,
)
from copyrator.kube.errors import AlreadyExists, ApiError, ConflictError, Invalid, NotFound
from copyrator.kube.resources import CONFIGMAPS
from copyrator.kube.watch.informers import InformerFactory, Registration
from copyrator.kube.watch.reflector import WatchSpec

if TYPE_CHECKING:
    from copyrator.bundles.plans.guard.ends import JobEnds
    from copyrator.kube.client.client import KubeClient

log = logging.getLogger(__name__)

PAGE_BYTES: Final = 1_048_576
"""Of all values of a ConfigMap, as the API server limits them."""

_NO_LIST: Final = "."
"""The key of a ConfigMap without lists, so that it is removed as a list is: of no Job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardTiming:
    """Seconds; only tests use others than the default."""

    kept: float = 30.0
    """After the end of a guarded Job and of its pods until its list is removed: longer than the
    token of a deleted pod works."""


@dataclass(frozen=True, slots=True)
class StoredLists:
    """What is kept of a ConfigMap with lists: it may have a megabyte."""

    uid: str
    resource_version: str
    keys: frozenset[str]
    """Of its lists."""
    size: int
    """Bytes of its values."""
    deleting: bool


def read_page(body: Mapping[str, Any]) -> StoredLists | None:
    """Decode a ConfigMap for the watch; None where it has no lists, so nothing else is removed."""
    metadata, data = body["metadata"], body.get("data") or {}
    if names.LABEL_GUARD not in (metadata.get("labels") or {}):
        return None
    return StoredLists(
        uid=str(metadata.get("uid", "")),
        resource_version=str(metadata.get("resourceVersion", "")),
        keys=frozenset(data) or frozenset((_NO_LIST,)),
        size=sum(len(str(value).encode()) for value in data.values()),
        deleting="deletionTimestamp" in metadata,
    )


class GuardLists:
    """The lists of all guarded Jobs; without a policy there are none.

    Args:
        client: writes and removes them.
        guard: names the policy and their namespace.
        informers: watch them.
        jobs: tell when a Job has ended.
        kept: seconds that a list outlives its Job's pods.
    """

    def __init__(
        self,
        client: KubeClient,
        guard: Guard,
        informers: InformerFactory,
        jobs: JobEnds,
        *,
        kept: float,
    ) -> None:
        self._client = client
        self._policy, self._namespace = guard
        self._informers = informers
        self._jobs = jobs
        self._kept = kept
        self._watch: Registration | None = None
        self._writing = asyncio.Lock()
        """Held while a list is written or removed, so that neither undoes the other."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        """By the lists' keys: each is removed when its timer ends."""
        self._due: set[str] = set()
        """Of the lists whose timers have ended, and that aren't removed yet."""
        self._removals: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Open the watch."""
        if self._policy is None:
            return
        spec = WatchSpec(
            resource=CONFIGMAPS,
            namespace=self._namespace,
            label_selector=names.LABEL_GUARD,
            decode=read_page,
            reserved=True,
        )
        self._jobs.start(self._job_changed)
        self._watch = self._informers.acquire(spec, self._changed)

    async def close(self) -> None:
        """End the watches, and what is about to be removed: the next operator removes it."""
        self._jobs.stop()
        if self._watch is not None:
            self._watch.release()
            self._watch = None
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for task in self._removals:
            task.cancel()
        await asyncio.gather(*self._removals, return_exceptions=True)

    async def write(self, job: str, guarded: GuardedDeploy | GuardedUninstall) -> None:
        """Write the list of a Job that isn't created yet, over one that a crash left.

        Raises:
            ApiError: it can't be written.
            ListTooLargeError: it doesn't fit into a ConfigMap.
        """
        key, text = key_of(ObjectName(guarded.account.namespace, job)), list_of(guarded)
        self._cancel(key)
        self._due.discard(key)
        async with self._writing:
            try:
                await self._put(key, text)
            finally:
                self._judge(key)

    async def _put(self, key: str, text: str) -> None:
        pages, size = await self._known(), len(text.encode())
        for name in [name for name, page in pages.items() if key in page.keys]:
            if not pages[name].deleting and await self._add(name, key, text):
                return
            await self._take_out(name, key)
        for name, page in pages.items():
            fits = not page.deleting and page.size + size <= PAGE_BYTES
            if fits and await self._add(name, key, text):
                return
        for number in count(1):
            name = f"{self._policy}.{number}"
            if name not in pages and await self._create(name, key, text):
                return

    async def _known(self) -> dict[str, StoredLists]:
        """The ConfigMaps with lists, by name; asked for where they aren't seen."""
        if self._watch is not None and self._watch.synced:
            return self._pages
        pages = self._client.list_pages(
            CONFIGMAPS, self._namespace, label_selector=names.LABEL_GUARD
        )
        bodies = [body async for page in pages for body in page.items]
        return {body["metadata"]["name"]: page for body in bodies if (page := read_page(body))}

    async def _create(self, name: str, key: str, text: str) -> bool:
        """Make a ConfigMap with a list, or add it to the one that is there."""
        body = config_map(name, {key: text})
        body["metadata"]["namespace"] = self._namespace
        try:
            await self._client.create(CONFIGMAPS, self._namespace, body)
        except AlreadyExists:
            return await self._add(name, key, text)
        return True

    async def _add(self, name: str, key: str, text: str) -> bool:
        """Add a list to a ConfigMap; False where it is gone, or full."""
        body = config_map(name, {key: text})
        change = {"metadata": {"labels": body["metadata"]["labels"]}, "data": body["data"]}
        try:
            await self._client.patch(CONFIGMAPS, self._namespace, name, change)
        except (NotFound, Invalid):
            return False
        return True

    async def _take_out(self, name: str, key: str) -> None:
        with suppress(NotFound):
            await self._client.patch(CONFIGMAPS, self._namespace, name, {"data": {key: None}})

    # --- removal ---------------------------------------------------------------------------------

    def _changed(self, _name: ObjectName, old: StoredLists | None, new: StoredLists | None) -> None:
        for key in (old.keys if old else frozenset()) | (new.keys if new else frozenset()):
            self._judge(key)

    def _job_changed(self, job: ObjectName | None) -> None:
        """A Job or one of its pods has changed; None: a watch of them has listed everything."""
        keys = {key for page in self._pages.values() for key in page.keys}
        for key in keys if job is None else keys & {key_of(job)}:
            self._judge(key)

    def _judge(self, key: str) -> None:
        """Have a list removed later if its Job has ended; where that changes, begin anew."""
        if not self._has(key) or not self._jobs.is_over(job_of(key)):
            self._cancel(key)
        elif key not in self._timers and key not in self._due:
            loop = asyncio.get_running_loop()
            self._timers[key] = loop.call_later(self._kept, self._expire, key)

    @property
    def _pages(self) -> dict[str, StoredLists]:
        """The ConfigMaps with lists that are known, by name."""
        store = {} if self._watch is None else self._watch.store
        return {name.name: page for name, page in store.items() if page is not None}

    def _has(self, key: str) -> bool:
        return any(key in page.keys and not page.deleting for page in self._pages.values())

    def _cancel(self, key: str) -> None:
        if (timer := self._timers.pop(key, None)) is not None:
            timer.cancel()

    def _expire(self, key: str) -> None:
        del self._timers[key]
        self._due.add(key)
        task = asyncio.create_task(self._remove(key), name=f"removal of the list {key}")
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)

    async def _remove(self, key: str) -> None:
        """Remove a list; what fails, or isn't known, is tried again after the same time."""
        job = job_of(key)
        async with self._writing:
            if key not in self._due:
                return  # it was written anew
            try:
                if self._jobs.is_over(job) and await self._jobs.has_ended(job):
                    for name, page in self._pages.items():
                        if key in page.keys:
                            await self._remove_from(name, page, key)
                    return
            except ApiError as error:
                log.warning("the list of the Job %s can't be removed yet: %s", job, error)
            finally:
                self._due.discard(key)
            self._judge(key)

    async def _remove_from(self, name: str, page: StoredLists, key: str) -> None:
        """Delete a ConfigMap with its last list, unless another one was added meanwhile."""
        if page.keys == {key}:
            state = {"uid": page.uid, "resource_version": page.resource_version}
            try:
                await self._client.delete(CONFIGMAPS, self._namespace, name, **state)
            except NotFound:
                return
            except ConflictError:
                log.debug("%s has another list by now", name)
            else:
                return
        await self._take_out(name, key)
