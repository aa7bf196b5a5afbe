"""One side of `choices-kopf`: passes the keys of Bundles on, by writing them into a file.

Usage: ``python -m bench.choices.kopf_child SIDE KUBECONFIG FILE``. A line of the file is the
object's namespace/name, its resourceVersion and what the handler was told.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

import kopf

from copyrator.api.keys import ObjectName
from copyrator.handlers import lifecycle, registration
from copyrator.handlers.deduplication import EventDeduplicator
from copyrator.handlers.kopf_guard import KopfGuard
from copyrator.handlers.resync import confirm_missed
from copyrator.kube.auth import load_connection
from copyrator.kube.client.client import KubeClient
from copyrator.kube.client.connection import Connection
from copyrator.kube.resources import BUNDLES
from copyrator.kube.watch.informers import WatchSpec

TODAY = "event handlers"
OWN = "kopf's own way"
NO_TIMER = "without timer"
GUARDED = "without timer, guarded"
SIDES = (TODAY, OWN, NO_TIMER, GUARDED)

TIMER_SECONDS = 600.0


class Keys:
    """Where a handler's key goes."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def add(self, metadata: Mapping[str, Any], what: str) -> None:
        """Pass a key on."""
        version = metadata.get("resourceVersion", 0)
        self._file.write(f"{metadata.get('namespace')}/{metadata['name']} {version} {what}\n")


class MemoryProgress(kopf.ProgressStorage):
    """Progress of handlers, in memory. A handler that only passes a key on is done at once."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, str], Any] = {}

    def fetch(self, *, key: Any, body: kopf.Body) -> Any:
        """What was stored."""
        return self._records.get((body.metadata.uid or "", key))

    def store(self, *, key: Any, record: Any, body: kopf.Body, patch: kopf.Patch) -> None:  # noqa: ARG002
        """Keep it."""
        self._records[body.metadata.uid or "", key] = record

    def purge(self, *, key: Any, body: kopf.Body, patch: kopf.Patch) -> None:  # noqa: ARG002
        """Drop it."""
        self._records.pop((body.metadata.uid or "", key), None)

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: str | None) -> None:
        """Write nothing: it serves to be woken by one's own write."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """Nothing of it is in the object."""
        return essence


class MemoryDiffBase(kopf.DiffBaseStorage):
    """The last handled states, in memory."""

    def __init__(self) -> None:
        super().__init__()
        self._essences: dict[str, kopf.BodyEssence] = {}

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        """What was handled last."""
        return self._essences.get(body.metadata.uid or "")

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:  # noqa: ARG002
        """Keep it."""
        self._essences[body.metadata.uid or ""] = essence


class VersionOnly(MemoryDiffBase):
    """The last handled resourceVersions: behind the guard an object is a text to kopf."""

    def build(
        self,
        *,
        body: kopf.Body,
        extra_fields: Iterable[Any] | None = None,  # noqa: ARG002
    ) -> kopf.BodyEssence:
        """Every change is one."""
        return kopf.BodyEssence(spec={"version": body.metadata["resourceVersion"]})


class Today:
    """The parts of runtime.app that bring events."""

    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._keys = keys
        self._guard = KopfGuard(connection, BUNDLES)
        self._guard.on_listed = self._listed
        self._bundles = EventDeduplicator(BUNDLES, self._deliver)
        self._missed = asyncio.Event()
        self._client = KubeClient(connection)
        self._tasks: list[asyncio.Task[None]] = []

    def register(self, registry: kopf.OperatorRegistry) -> None:
        """Register the handlers with kopf."""
        registration.register(registry, self, self._guard, self._bundles)

    async def start(self) -> None:
        """List all, as before the workers start."""
        await self._bundles.resync(self._client)
        missed = confirm_missed(self._client, (self._bundles,), self._missed)
        self._tasks.append(asyncio.create_task(missed))

    async def stop(self) -> None:
        """End."""
        for task in self._tasks:
            task.cancel()
        await self._client.close()

    def _deliver(self, body: Mapping[str, Any], gone: bool) -> None:
        self._keys.add(body["metadata"], "gone" if gone else "there")

    def _listed(self, spec: WatchSpec, names: set[ObjectName]) -> None:
        if self._bundles.listed(spec.namespace, names):
            self._missed.set()


def own_way(side: str, connection: Connection, keys: Keys) -> kopf.OperatorRegistry:
    """Kopf's change handlers, each of which only passes a key on."""
    registry = kopf.OperatorRegistry()
    where: dict[str, Any] = {"registry": registry, "id": "key"}
    kind = (BUNDLES.group, BUNDLES.version, BUNDLES.plural)

    def passed_on(what: str) -> Any:
        async def handler(meta: kopf.Meta, **_: Any) -> None:
            keys.add(meta, what)

        return handler

    kopf.on.create(*kind, **where)(passed_on("there"))
    kopf.on.resume(*kind, **where)(passed_on("there"))
    kopf.on.update(*kind, **where)(passed_on("there"))
    kopf.on.update(*kind, field="status.forceUpdate", registry=registry, id="force")(
        passed_on("there")
    ) if side != GUARDED else None
    kopf.on.delete(*kind, optional=True, **where)(passed_on("gone"))
    if side == OWN:
        kopf.timer(*kind, interval=TIMER_SECONDS, registry=registry, id="timer")(passed_on("timer"))
    if side == GUARDED:
        registration.register_login(registry, KopfGuard(connection, BUNDLES))
    else:
        kopf.on.login(registry=registry)(kopf.login_with_kubeconfig)
    return registry


async def run(side: str, kubeconfig: str, keys: Keys) -> None:
    """Run until SIGTERM, or until kopf ends."""
    connection = await load_connection(kubeconfig)
    if side == TODAY:
        stop = asyncio.Event()
        await lifecycle.run_kopf(Today(connection, keys), asyncio.Event(), stop)
        return
    settings = kopf.OperatorSettings()
    lifecycle.configure(settings)
    settings.persistence.progress_storage = MemoryProgress()
    settings.persistence.diffbase_storage = VersionOnly() if side == GUARDED else MemoryDiffBase()
    await kopf.operator(
        registry=own_way(side, connection, keys),
        settings=settings,
        clusterwide=True,
        identity="choices",  # type: ignore[arg-type]
    )


if __name__ == "__main__":
    _, chosen, config, file = sys.argv
    os.environ["KUBECONFIG"] = config
    with Path(file).open("a", buffering=1) as lines:
        asyncio.run(run(chosen, config, Keys(lines)))
