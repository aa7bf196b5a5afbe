"""Writes the lists of guarded Jobs, and removes each once no pod of its Job can write any more.

A list is a ConfigMap in the namespace of the operator's pod (``listing.config_map``). It is written
before its Job is created, and kept for ``BundleTiming.guard_list_kept`` after the Job has ended or
is gone and each of its pods has ended or is gone: the token of a deleted pod works for ten seconds,
and without a list everything is allowed (docs/facts/guard.md). By the watches of lists, Jobs and
pods this needs no further request, and what a crash left is found after a restart.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from copyrator.api import names
from copyrator.api.keys import ObjectName
from copyrator.bundles.bundle import BundleEntry
from copyrator.bundles.guard.listing import GuardedDeploy, GuardedUninstall, config_map
from copyrator.kube.errors import AlreadyExists, ApiError, ConflictError, NotFound
from copyrator.kube.resources import CONFIGMAPS
from copyrator.kube.watch.informers import InformerFactory, Registration, WatchSpec
from copyrator.settings.config import Settings

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

log = logging.getLogger(__name__)

_USER: Final = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class StoredList:
    """What is kept of a list: it may have a megabyte."""

    uid: str
    job: ObjectName
    """Its Job's; of what the operator didn't write, one that can't exist."""
    content: str
    """A hash of its labels and data."""
    deleting: bool
    resource_version: str = ""


def read_list(body: Mapping[str, Any]) -> StoredList | None:
    """Decode a list for the watch; None where it isn't one, so that nothing else is removed."""
    labels = body["metadata"].get("labels") or {}
    return _decode(body) if names.LABEL_GUARD in labels else None


def _decode(body: Mapping[str, Any]) -> StoredList:
    metadata, data = body["metadata"], body.get("data") or {}
    account = str(data.get("account") or "")
    namespace = account.removeprefix(_USER).partition(":")[0] if account.startswith(_USER) else ""
    return StoredList(
        uid=str(metadata.get("uid", "")),
        job=ObjectName(namespace, str(metadata.get("name", ""))),
        content=_hash_content(body),
        deleting="deletionTimestamp" in metadata,
        resource_version=str(metadata.get("resourceVersion", "")),
    )


def _hash_content(body: Mapping[str, Any]) -> str:
    content = body["metadata"].get("labels"), body.get("data"), body.get("binaryData")
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


class GuardedJobs(Protocol):
    """What is asked of Jobs and their pods."""

    job_changed: Callable[[ObjectName | None], None]
    """Called with a Job that changed, or one of its pods; None: all were listed."""

    @property
    def synced(self) -> bool:
        """Whether all Jobs are known."""
        ...

    @property
    def pods_seen(self) -> bool:
        """Whether their pods are watched."""
        ...

    def is_over(self, job: ObjectName) -> bool:
        """Whether a Job has ended or is gone, with each of its pods that is watched."""
        ...


class GuardLists:
    """The lists of all guarded Jobs; without ``Settings.guard_policy`` there are none.

    Args:
        client: writes and removes them.
        settings: name the policy and the operator's namespace.
        informers: watch them.
        jobs: tell when a Job has ended.
        has_open_pods: asks whether a pod of a Job runs, or will run, where pods can't be watched.
        kept: seconds that a list outlives its Job's pods.
    """

    def __init__(
        self,
        client: KubeClient,
        settings: Settings,
        informers: InformerFactory,
        jobs: GuardedJobs,
        has_open_pods: Callable[[ObjectName], Awaitable[bool]],
        *,
        kept: float,
    ) -> None:
        self._client = client
        self._settings = settings
        self._informers = informers
        self._jobs = jobs
        self._has_open_pods = has_open_pods
        self._kept = kept
        self._watch: Registration | None = None
        self._names: dict[ObjectName, ObjectName] = {}
        """Of the lists, by their Jobs."""
        self._timers: dict[ObjectName, asyncio.TimerHandle] = {}
        """By the lists' names: each is removed when its timer ends."""
        self._removals: set[asyncio.Task[None]] = set()

    @property
    def _namespace(self) -> str:
        settings = self._settings
        return settings.lease_namespace or settings.namespace

    def start(self) -> None:
        """Open the watch."""
        if self._settings.guard_policy is None:
            return
        spec = WatchSpec(
            resource=CONFIGMAPS,
            namespace=self._namespace,
            label_selector=names.LABEL_GUARD,
            decode=read_list,
            reserved=True,
        )
        self._jobs.job_changed = self._job_changed
        self._watch = self._informers.acquire(spec, self._changed)

    async def close(self) -> None:
        """End the watch, and what is about to be removed: the next operator removes it."""
        if self._watch is not None:
            self._watch.release()
            self._watch = None
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for task in self._removals:
            task.cancel()
        await asyncio.gather(*self._removals, return_exceptions=True)

    async def write(
        self, entry: BundleEntry, job: str, guarded: GuardedDeploy | GuardedUninstall
    ) -> None:
        """Write the list of a Job that isn't created yet; the same may be there after a crash.

        Raises:
            ApiError: it can't be written.
            ListTooLargeError: it doesn't fit into a ConfigMap.
        """
        client, namespace = self._client, self._namespace
        body = config_map(job, entry.uid, guarded)
        body["metadata"]["namespace"] = namespace
        self._cancel(ObjectName(namespace, job))
        try:
            await client.create(CONFIGMAPS, namespace, body)
        except AlreadyExists:
            there = await self._read(job)
            if there is None or there.content != _hash_content(body) or there.deleting:
                if there is not None:  # what was approved, or the form of lists, has changed since
                    await self._delete(job, there.uid)
                await client.create(CONFIGMAPS, namespace, body)
        finally:
            self._judge(ObjectName(namespace, job))

    async def _read(self, job: str) -> StoredList | None:
        """The list as it is now; a ConfigMap without its label too."""
        pages = self._client.list_pages(
            CONFIGMAPS, self._namespace, field_selector=f"metadata.name={job}"
        )
        found = [one async for page in pages for one in page.items]
        return _decode(found[0]) if found else None

    async def _delete(self, job: str, uid: str) -> None:
        with suppress(NotFound):
            await self._client.delete(CONFIGMAPS, self._namespace, job, uid=uid)

    # --- removal ---------------------------------------------------------------------------------

    def _changed(self, name: ObjectName, old: StoredList | None, new: StoredList | None) -> None:
        if old is not None:
            self._names.pop(old.job, None)
        if new is None:
            self._cancel(name)
        else:
            self._names[new.job] = name
            self._judge(name)

    def _job_changed(self, job: ObjectName | None) -> None:
        """A Job or one of its pods has changed; None: a watch of them has listed everything."""
        found = self._names.values() if job is None else (self._names.get(job),)
        for name in [one for one in found if one is not None]:
            self._judge(name)

    def _judge(self, name: ObjectName) -> None:
        """Have a list removed later if its Job has ended; where that changes, begin anew."""
        there = None if self._watch is None else self._watch.store.get(name)
        if there is None or there.deleting or not self._jobs.is_over(there.job):
            self._cancel(name)
        elif name not in self._timers:
            self._start_timer(name)

    def _start_timer(self, name: ObjectName) -> None:
        loop = asyncio.get_running_loop()
        self._timers[name] = loop.call_later(self._kept, self._expire, name)

    def _cancel(self, name: ObjectName) -> None:
        if (timer := self._timers.pop(name, None)) is not None:
            timer.cancel()

    def _expire(self, name: ObjectName) -> None:
        del self._timers[name]
        task = asyncio.create_task(self._remove(name), name=f"removal of the list {name.name}")
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)

    async def _remove(self, name: ObjectName) -> None:
        """Remove a list; what fails, or isn't known, is tried again after the same time."""
        there = None if self._watch is None else self._watch.store.get(name)
        if there is None or (self._jobs.synced and not self._jobs.is_over(there.job)):
            return
        try:
            if self._jobs.synced and await self._have_pods_ended(there.job):
                await self._delete(name.name, there.uid)
                return
        except ConflictError:
            return  # it was made anew, which the watch tells
        except ApiError as error:
            log.warning("the list %s can't be removed yet: %s", name.name, error)
        if name not in self._timers:
            self._start_timer(name)

    async def _have_pods_ended(self, job: ObjectName) -> bool:
        """Whether each pod of a Job has; asked where pods can't be watched."""
        return self._jobs.pods_seen or not await self._has_open_pods(job)
