"""The informers of an operator that serves some namespaces only: no request is cluster-wide.

A registration for all objects of a kind gets one watch for each namespace, merged into one. A
namespace that doesn't exist, or that we may not read, doesn't delay the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from copyrator.api.keys import ObjectName
from copyrator.kube.client.client import KubeClient
from copyrator.kube.errors import ApiError
from copyrator.kube.resources import NAMESPACES
from copyrator.kube.watch.faults import DEFAULT_TIMING, Timing
from copyrator.kube.watch.informers import (
    InformerFactory,
    Mirror,
    OnSynced,
    Registration,
    WatchSpec,
    WatchStatus,
)
from copyrator.kube.watch.namespace_polls import NamespacePolls, Presence, named
from copyrator.kube.watch.reflector import OnChange
from copyrator.metrics import Metrics


class ScopedInformerFactory(InformerFactory):
    """An InformerFactory that stays within its namespaces."""

    def __init__(
        self,
        client: KubeClient,
        namespaces: tuple[str, ...],
        *,
        metrics: Metrics | None = None,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        super().__init__(client, metrics=metrics, timing=timing)
        self.polls = NamespacePolls(client, namespaces, timing=timing)
        self._task: asyncio.Task[None] | None = None

    def acquire(
        self, spec: WatchSpec, listener: OnChange[Any], *, on_synced: OnSynced | None = None
    ) -> Registration:
        """Join the watch of one namespace, or the watches of all of ours."""
        if self._task is None:
            self._task = asyncio.create_task(self.polls.run(), name="poll of the namespaces")
        if spec.resource == NAMESPACES:
            return _Polled(self.polls, spec, listener, on_synced)
        if spec.namespace is None:
            return _Merged(self, spec, listener, on_synced)
        return super().acquire(spec, listener, on_synced=on_synced)

    def statuses(self) -> list[WatchStatus]:
        """The present state of every watch, and of the polls in place of the one of namespaces."""
        polls = WatchStatus(
            spec=WatchSpec(NAMESPACES),
            synced=self.polls.synced,
            objects=len(self.polls.names),
            failure=self.polls.failure,
            failing_for=self.polls.failing_for,
            silent_for=self.polls.silent_for,
        )
        return [*super().statuses(), polls]

    def dead(self) -> list[WatchSpec]:
        """Watches whose task has ended, and the polls of namespaces if theirs has."""
        ended = self._task is not None and self._task.done()
        return [*super().dead(), *([WatchSpec(NAMESPACES)] if ended else [])]

    async def close(self) -> None:
        """End all watches and wait for them."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await super().close()


class _ByNamespace(Registration):
    """Is notified of the namespaces that exist, after `_begin`."""

    def __init__(
        self, polls: NamespacePolls, listener: OnChange[Any], on_synced: OnSynced | None
    ) -> None:
        self.listener = listener
        self.on_synced = on_synced
        self.active = True
        self._polls = polls

    def _begin(self) -> None:
        self._polls.listen(self._on_namespace, self._announce)

    def release(self) -> None:
        """Unregister; idempotent."""
        if self.active:
            self.active = False
            self._polls.ignore(self._on_namespace, self._announce)

    def _on_namespace(self, namespace: str, body: dict[str, Any] | None, gone: bool) -> None:
        raise NotImplementedError

    def _announce(self) -> None:
        if self.on_synced is not None and self.seen:
            self.on_synced()


class _Polled(_ByNamespace):
    """The namespaces themselves."""

    def __init__(
        self,
        polls: NamespacePolls,
        spec: WatchSpec,
        listener: OnChange[Any],
        on_synced: OnSynced | None,
    ) -> None:
        super().__init__(polls, listener, on_synced)
        self._decode = spec.decode
        self._store: dict[ObjectName, Any] = {}
        self._begin()

    @property
    def reflector(self) -> Mirror:
        """In place of the watch: lists, failing_for, relist()."""
        return self._polls

    @property
    def store(self) -> Mapping[ObjectName, Any]:
        """The namespaces that exist."""
        return self._store

    def delivered(self, namespace: str) -> int:  # noqa: ARG002 - as it is inherited
        """Unknown: a poll shows no order."""
        return 0

    @property
    def synced(self) -> bool:
        """Whether a namespace that isn't cached is known not to exist."""
        return self._polls.synced

    @property
    def seen(self) -> bool:
        """Whether all were read once."""
        return self._polls.lists > 0

    @property
    def failure(self) -> ApiError | None:
        """The present fault."""
        return self._polls.failure

    def _on_namespace(self, namespace: str, body: dict[str, Any] | None, _gone: bool) -> None:
        key = named(namespace)
        old = self._store.pop(key, None)
        if body is not None:
            self._store[key] = self._decode(body)
        if old is not None or body is not None:
            self.listener(key, old, self._store.get(key))


class _Merged(_ByNamespace):
    """A kind in all our namespaces, by a watch in each that exists."""

    def __init__(
        self,
        factory: ScopedInformerFactory,
        spec: WatchSpec,
        listener: OnChange[Any],
        on_synced: OnSynced | None,
    ) -> None:
        super().__init__(factory.polls, listener, on_synced)
        self._factory = factory
        self._spec = spec
        self._parts: dict[str, Registration] = {}
        self._head_start: dict[str, int] = {}
        """Lists that the others had completed when a namespace joined: the count must not drop."""
        self._store = _Union(self._parts)
        self._mirror = _MergedMirror(self)
        self._begin()

    @property
    def reflector(self) -> Mirror:
        """All watches as one."""
        return self._mirror

    @property
    def store(self) -> Mapping[ObjectName, Any]:
        """The objects of all namespaces."""
        return self._store

    @property
    def what(self) -> str:
        """The kind, human-readable."""
        return self._spec.resource.key

    @property
    def parts(self) -> list[Registration]:
        """The watches of the namespaces that exist."""
        return [part for name, part in self._parts.items() if self._counts(name)]

    @property
    def seen(self) -> bool:
        """Whether everything that we may read was listed once."""
        return self._polls.lists > 0 and all(part.seen for part in self.parts)

    def delivered(self, namespace: str) -> int:
        """The resourceVersion up to which the store shows a namespace's changes; 0: unknown."""
        part = self._parts.get(namespace)
        return part.delivered(namespace) if part else 0

    @property
    def synced(self) -> bool:
        """Whether an object that isn't cached is known not to exist."""
        return self._polls.synced and all(part.synced for part in self.parts)

    @property
    def failure(self) -> ApiError | None:
        """The present fault of one of them."""
        faults = (part.failure for part in self.parts if not part.synced)
        return next((fault for fault in faults if fault), self._polls.failure)

    @property
    def lists(self) -> int:
        """Complete lists of everything."""
        if not self.seen:
            return 0
        counts = (
            self._head_start[name] + part.reflector.lists
            for name, part in self._parts.items()
            if self._counts(name)
        )
        return min(counts, default=1)

    def release(self) -> None:
        """Unregister; idempotent."""
        super().release()
        for part in self._parts.values():
            part.release()

    def _counts(self, namespace: str) -> bool:
        return self._polls.presence(namespace) is Presence.PRESENT

    def _on_namespace(self, namespace: str, body: dict[str, Any] | None, gone: bool) -> None:
        if body is not None and namespace not in self._parts:
            self._head_start[namespace] = self.lists
            spec = replace(self._spec, namespace=namespace)
            # Listeners read the changed object from the store, so the part has to exist first.
            self._parts[namespace] = part = self._factory.acquire(spec, _ignore)
            part.listener, part.on_synced = self.listener, self._announce
            for name, record in list(part.store.items()):
                self.listener(name, None, record)
            if part.seen:
                self._announce()
        elif gone and (part_gone := self._parts.get(namespace)):
            records = dict(part_gone.store)
            del self._parts[namespace]
            part_gone.release()
            for name, record in records.items():
                self.listener(name, record, None)


class _MergedMirror:
    """The interface of a watch, answered for all of them together."""

    def __init__(self, merged: _Merged) -> None:
        self._merged = merged

    def __str__(self) -> str:
        failing = (str(part.reflector) for part in self._merged.parts if part.failure)
        return next(failing, self._merged.what)

    @property
    def lists(self) -> int:
        """Complete lists of everything."""
        return self._merged.lists

    @property
    def failing_for(self) -> float:
        """Duration of the longest fault in seconds."""
        return max((part.reflector.failing_for for part in self._merged.parts), default=0.0)

    def relist(self) -> None:
        """List everything again."""
        for part in self._merged.parts:
            part.reflector.relist()


class _Union(Mapping[ObjectName, Any]):
    """The stores of all namespaces as one."""

    def __init__(self, parts: Mapping[str, Registration]) -> None:
        self._parts = parts

    def __getitem__(self, name: ObjectName) -> Any:
        return self._parts[name[0]].store[name]

    def __iter__(self) -> Iterator[ObjectName]:
        for part in self._parts.values():
            yield from part.store

    def __len__(self) -> int:
        return sum(len(part.store) for part in self._parts.values())


def _ignore(_name: ObjectName, _old: Any, _new: Any) -> None:
    """No-op listener while a watch is joined."""
