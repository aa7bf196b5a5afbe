"""Rules, Bundles and copies, kept up to date by watches, for commands that show them live.

A user may be allowed to see less than all: what may not be listed in all namespaces is watched in
the user's own namespace, and what may not be listed there either is named in `denied`. Of a copy
only its names are kept.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from copyrator.api import names
from copyrator.api.keys import ObjectName
from copyrator.api.text import first_of
from copyrator.cli.core.beside import NOTHING_BESIDE, FoundBeside, read_beside, values_of, wanted
from copyrator.cli.core.installation import Installation, find_installation
from copyrator.cli.core.objects import MANAGED, Body, copy_kinds, named_kinds
from copyrator.cli.view.operator import downtimes
from copyrator.cli.view.overview import SeenCopies, SeenNamespace, Snapshot
from copyrator.cli.view.rows import annotation
from copyrator.cli.view.rule import rule_kind
from copyrator.kube import errors
from copyrator.kube.resources import BUNDLES, NAMESPACES, RULES, Resource
from copyrator.kube.watch.informers import InformerFactory
from copyrator.kube.watch.reflector import DEFAULT_TIMING, Timing, WatchSpec

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient

FIRST_VIEW = 30.0
"""Seconds to wait for the first complete lists."""
SHOWN = 3
"""Kinds that a sentence about faults names."""
BESIDE = 5.0
"""Seconds between two reads of what features have in ConfigMaps."""
FAULTS = 1.0
"""Seconds between two checks for faults of watches."""


class _Marks(NamedTuple):
    """What is kept of a copy."""

    resource_version: str
    rule: str


def _marks(body: dict[str, Any]) -> _Marks:
    rule = annotation(body, names.ANN_RULE)
    return _Marks(body["metadata"]["resourceVersion"], sys.intern(rule))


def _place(body: dict[str, Any]) -> SeenNamespace:
    metadata = body["metadata"]
    labels = metadata.get("labels") or {}
    return SeenNamespace(
        metadata["resourceVersion"],
        values_of(body),
        {sys.intern(key): sys.intern(value) for key, value in labels.items()},
        str(metadata.get("creationTimestamp") or ""),
        "deletionTimestamp" not in metadata and labels.get(names.LABEL_IGNORE) != "true",
    )


@dataclass(slots=True)
class Live:
    """Watches what `client` may see, in one namespace or (None) in all; `home` is the user's own.

    Use it as an asynchronous context manager; it returns when the first lists are complete, or
    after FIRST_VIEW seconds. Unless it is `patient` it doesn't wait for those of copies.
    """

    client: KubeClient
    scope: str | None
    home: str
    patient: bool = True
    operator: str | None = None
    """The operator's namespace, where the user named it."""
    timing: Timing = DEFAULT_TIMING
    _informers: InformerFactory = field(init=False)
    _rules: dict[ObjectName, Body] = field(default_factory=dict)
    _bundles: dict[ObjectName, Body] = field(default_factory=dict)
    _places: dict[str, SeenNamespace] = field(default_factory=dict)
    _installation: Installation | None = None
    _down: list[str] = field(default_factory=list)
    _beside: FoundBeside = NOTHING_BESIDE
    """What is read for features, and not watched."""
    _copies: SeenCopies = field(default_factory=SeenCopies)
    _kinds: dict[str, Resource] = field(default_factory=dict)
    _named: frozenset[str] | None = None
    """The kinds that the rules named at the last discovery."""
    _denied: dict[str, str] = field(default_factory=dict)
    """What the user may not list, with the kind if only copies are looked for."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _finds_kinds: bool = True
    """Until the kinds of copies are known for the first time."""
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    version: int = 0
    """Grows with each change."""

    async def __aenter__(self) -> Self:
        self._informers = InformerFactory(self.client, timing=self.timing)
        await self._watch_kind(RULES, self._rules)
        await self._watch_kind(BUNDLES, self._bundles)
        await self._watch_namespaces()
        beside = asyncio.create_task(self._read_beside())
        await self._synced()
        await beside
        if self.patient:
            await self._watch_all_copies()
            await self._synced()
        else:
            self._start(self._watch_all_copies())
        self._start(self._look_for_faults())
        self._start(self._look_beside())
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._informers.close()

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def now(self) -> Snapshot:
        """What is known now."""
        places = sorted((name, one.beside) for name, one in self._places.items() if one.beside)
        return Snapshot(
            rules=self._rules,
            bundles=self._bundles,
            copies=self._copies,
            namespaces=self._namespaces,
            faults=list(self._faults()),
            down=self._down,
            denied=list(self._not_allowed()),
            beside=[*self._beside.values, *(value for _, found in places for value in found)],
            loading=list(self._loading()),
            places=self._places,
        )

    @property
    def _namespaces(self) -> list[str]:
        if self.scope is not None:
            return [self.scope]
        of_copies = (place for rule in self._copies.rules() for place in self._copies.of(rule))
        return sorted(self._places or set(of_copies))

    def _not_allowed(self) -> Iterator[str]:
        for what, kind in self._denied.items():
            if kind in ("", *(self._named or ())):
                yield what
        if self._bundles and self._beside.unread:
            what = ", ".join(one.what for one in wanted())
            yield f"{what} ({', '.join(self._beside.unread)})"

    def _loading(self) -> Iterator[str]:
        if self._finds_kinds:
            yield "copies"
        for status in self._informers.statuses():
            if not (status.synced or status.failure):
                yield status.spec.resource.kind

    async def wait(self, seen: int, seconds: float) -> int:
        """Return the version when it isn't the one that was seen, or after so many seconds."""
        if self.version == seen:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), seconds)
        return self.version

    def _faults(self) -> Iterator[str]:
        """A sentence for the faults of the watches; most have the same cause."""
        failing = {
            status.spec.resource.key: status.failure
            for status in self._informers.statuses()
            if status.failure is not None
        }
        if failing:
            first, *_ = kinds = sorted(failing)
            text = f"{first_of(kinds, SHOWN, ', ')}: {failing[first].message}"
            yield text + self._remedy(failing[first])

    def _remedy(self, failure: errors.ApiError) -> str:
        """The remedy for a fault; the credentials are loaded again while they are refused."""
        if not isinstance(failure, errors.Unauthorized):
            return ""
        return (
            "; your credentials have expired or were withdrawn: log in again, so that the "
            f"{self.client.connection.origin} has new ones; they are used within seconds"
        )

    def tell(self) -> None:
        """Wake all who wait: something has changed."""
        self.version += 1
        event, self._changed = self._changed, asyncio.Event()
        event.set()

    async def _look_for_faults(self) -> None:
        """Check for faults of watches periodically, because no event reports them."""
        before: list[str] = []
        while True:
            await asyncio.sleep(FAULTS)
            if (now := list(self._faults())) != before:
                before = now
                self.tell()

    async def _watch_kind(self, resource: Resource, found: dict[ObjectName, Body]) -> None:
        def changed(name: ObjectName, _old: object, new: Body | None) -> None:
            if new is None:
                found.pop(name, None)
            else:
                found[name] = {**new, "apiVersion": resource.api_version, "kind": resource.kind}
            self.tell()
            if resource == RULES and not self._finds_kinds:  # it may name another kind
                self._start(self._watch_copies())

        await self._watch(WatchSpec(resource), changed)

    async def _watch_namespaces(self) -> None:
        if self.scope is not None:
            return

        def changed(name: ObjectName, _old: object, new: SeenNamespace | None) -> None:
            if new is None:
                self._places.pop(name.name, None)
            else:
                self._places[name.name] = new
            self.tell()

        await self._watch(WatchSpec(NAMESPACES, metadata_only=True, decode=_place), changed)

    async def _look_beside(self) -> None:
        """Read the features' ConfigMaps again, which aren't watched: few may list ConfigMaps."""
        while True:
            await asyncio.sleep(BESIDE)
            before = self._beside, self._down
            await self._read_beside()
            if (self._beside, self._down) != before:
                self.tell()

    async def _read_beside(self) -> None:
        with suppress(errors.ApiError):
            if self._installation is None or self._down:
                self._installation = await find_installation(self.client, self.operator)
            places = () if self.scope is None else (self.scope,)
            self._beside = await read_beside(self.client, self._installation, places)
            self._down = await downtimes(self.client, self._installation, (self.scope,))

    async def _watch_all_copies(self) -> None:
        await self._watch_copies()
        self._finds_kinds = False
        self.tell()

    async def _watch_copies(self) -> None:
        kinds: list[Resource] = []
        bodies = [dict(body) for body in self._rules.values()]
        named = frozenset(map(rule_kind, bodies))
        if named == self._named:
            return
        copied = named_kinds(bodies)
        with suppress(errors.ApiError):  # discovery is repeated at the next change of a rule
            kinds = await copy_kinds(self.client, copied)
            self._named = named
        for resource in kinds:
            if resource.key not in self._kinds:
                self._kinds[resource.key] = resource
                await self._watch_copies_of(resource)

    async def _watch_copies_of(self, resource: Resource) -> None:
        kind = resource.kind

        def changed(name: ObjectName, old: _Marks | None, new: _Marks | None) -> None:
            before, now = (one.rule if one else "-" for one in (old, new))
            if before == now:
                return
            if before != "-":
                self._copies.remove(before, kind, name)
            if now != "-":
                self._copies.add(now, kind, name)
            self.tell()

        spec = WatchSpec(resource, label_selector=MANAGED, metadata_only=True, decode=_marks)
        await self._watch(spec, changed, kind)

    async def _watch(self, spec: WatchSpec, changed: Any, kind: str = "") -> None:
        """Watch in all namespaces where that is wanted and allowed, else in one.

        ``kind``: of copies; that they can't be listed only matters if a rule copies that kind.
        """
        scopes: list[str | None] = [self.scope] if self.scope is not None else [None, self.home]
        if not spec.resource.namespaced:
            scopes = [None]
        for scope in scopes:
            if not await self._may_list(spec, scope):
                continue
            if scope != self.scope and spec.resource.namespaced:
                self._denied[f"{spec.resource.key} outside the namespace {scope}"] = kind
            self._informers.acquire(replace(spec, namespace=scope), changed, on_synced=self.tell)
            return
        self._denied[spec.resource.key] = kind

    async def _may_list(self, spec: WatchSpec, scope: str | None) -> bool:
        pages = self.client.list_pages(
            spec.resource,
            scope,
            label_selector=spec.label_selector,
            metadata_only=True,
            limit=1,
        )
        try:
            await anext(pages)
        except (errors.Forbidden, errors.NotFound):
            return False
        except errors.ApiError:
            return True  # the watch tries again, and reports it
        finally:
            await pages.aclose()
        return True

    async def _synced(self) -> None:
        """Wait until each watch has listed once, or has failed."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + FIRST_VIEW
        while loop.time() < deadline:
            statuses = self._informers.statuses()
            if all(one.synced or one.failure is not None for one in statuses):
                return
            await asyncio.sleep(0.02)
