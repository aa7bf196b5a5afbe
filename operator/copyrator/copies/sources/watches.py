"""The watches of a rule's sources, and the bindings that their events change.

A watch is a connection. For the first few names in a namespace the server filters by name, so that
no other object is sent; all other names of that namespace and kind share one watch of metadata
only, and each is read, whole, when it changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from copyrator.api.keys import ObjectName
from copyrator.api.rule_spec import Source
from copyrator.api.selectors import LabelSelector
from copyrator.api.text import count
from copyrator.copies.context import CopyContext
from copyrator.copies.rules.state import CompiledRule, RulePhase, RuleState
from copyrator.copies.rules.summarize import loop
from copyrator.copies.sources.bindings import SourceBinding, rule_context
from copyrator.copies.sources.records import SourceReader, SourceRecord, SourceShare, is_newer
from copyrator.copies.template.rendering import source_context
from copyrator.copies.template.scope import TemplateError
from copyrator.kube import errors
from copyrator.kube.errors import ApiError
from copyrator.kube.resources import SECRETS, Resource
from copyrator.kube.watch.informers import InformerFactory, Mirror, Registration, SharedInformer
from copyrator.kube.watch.reflector import OnChange, OnSynced, Seen, WatchSpec, seen
from copyrator.workqueue.fairness import working_for

ALONE: Final = 4
"""Names in one namespace, of one kind, that have a watch each."""
READS: Final = 8
"""Concurrent reads of one shared watch."""
FIRST_DELAY, LONGEST_DELAY = 0.2, 30.0
"""Seconds before a failed read is retried, doubling."""


class SourceWatches:
    """Opens the watches of rules' sources, and shares them."""

    def __init__(self, context: CopyContext) -> None:
        self._context = context
        self._shared: dict[WatchSpec, _SharedWatch] = {}

    def has_room(self, tenant: str | None, source: Source, resource: Resource) -> bool:
        """Whether there is room for the watches that a rule needs; existing ones are joined."""
        share = self._context.shares.of(tenant)
        if share.may_watch or source.kubeconfig is not None:
            return True
        specs = (
            source_watch(resource, share, namespace, source.name, source.selector)
            for namespace in source.namespaces
        )
        return all(
            spec in self._context.informers or (spec.name and _spec_of_all(spec) in self._shared)
            for spec in specs
        )

    def join(
        self,
        state: RuleState,
        resource: Resource,
        informers: InformerFactory,
        share: SourceShare,
    ) -> list[Registration]:
        """Join a watch for each namespace; known sources become bindings before this returns.

        The server filters: other objects cost nothing. In another cluster each named object has a
        watch of its own, which needs no right to more than that object.
        """
        source = state.compiled.spec.source if state.compiled else None
        assert source is not None

        def on_synced() -> None:
            self._context.queue.add(state.key)

        registrations = []
        for order, namespace in enumerate(source.namespaces):
            listener = partial(_source_changed, self._context, state, order)
            alone = source_watch(resource, share, namespace, source.name, source.selector)
            wide = _spec_of_all(alone)
            if (
                source.name is None
                or source.kubeconfig is not None
                or (
                    wide not in self._shared
                    and (alone in informers or self._count_named(wide) < ALONE)
                )
            ):
                place = informers.acquire(alone, listener, on_synced=on_synced)
            else:
                if wide not in self._shared:
                    end = partial(self._shared.pop, wide)
                    self._shared[wide] = _SharedWatch(self._context, wide, share, end)
                name = ObjectName(namespace, source.name)
                place = self._shared[wide].join(name, listener, on_synced)
            registrations.append(place)
        return registrations

    def _count_named(self, spec: WatchSpec) -> int:
        """How many objects in the place of a watch have a watch each."""
        place = spec.resource, spec.namespace, spec.share
        specs = self._context.informers.specs()
        return sum((s.resource, s.namespace, s.share) == place and bool(s.name) for s in specs)


def source_watch(
    resource: Resource,
    share: SourceShare,
    namespace: str,
    name: str | None,
    selector: LabelSelector | None = None,
) -> WatchSpec:
    """The watch of whole sources: of one, or of those that are selected."""
    return WatchSpec(
        resource=resource,
        namespace=namespace,
        name=name,
        label_selector=selector.to_string() if selector else None,
        decode=SourceReader(resource.api_version, resource.kind),
        share=share,
        reserved=share.tenant is not None,
    )


def _spec_of_all(alone: WatchSpec) -> WatchSpec:
    return replace(alone, name=None, metadata_only=True, decode=seen)


def _source_changed(
    context: CopyContext,
    state: RuleState,
    order: int,
    name: ObjectName,
    _old: SourceRecord | None,
    record: SourceRecord | None,
) -> None:
    compiled = state.compiled
    if compiled is None:
        return
    owner, origin = compiled.rule.owner, f"{name.namespace}/{name.name}"
    if record is None or _refusal(context, compiled, record):
        if context.index.remove(owner, origin):
            context.queue.add(state.key)
        return
    compiled.close_barrier()
    binding = SourceBinding(compiled, record, (order, name.name))
    earlier = context.index.add(binding)
    if state.phase is not RulePhase.SERVING:
        return  # the summary that follows covers it
    if not context.keeps_limit(state):
        return
    state.trace.source_changed(origin)
    state.lag.change(context.monotonic())
    context.changes.add_binding(binding)
    moved = earlier is None or earlier.static_name != binding.static_name
    if moved or compiled.barrier is not None:
        context.queue.add(state.key)  # copies of another name may be unwanted now
    else:
        context.touch(owner)


def no_room(sources: Sequence[Registration], share: SourceShare) -> str | None:
    """Why sources aren't all held, or None; those that have room by now are read again."""
    records = (record for watch in sources for record in watch.store.values())
    missing = [one for one in records if isinstance(one, SourceRecord) and not one.whole]
    if not missing:
        return None
    size = sum(record.size for record in missing)
    if share.has_room(size):
        for watch in sources:
            watch.reflector.relist()
    return share.no_room(len(missing), size)


def unused_sources(context: CopyContext, state: RuleState) -> str:
    """Why the objects that match aren't copied; empty where none matches."""
    compiled = state.compiled
    if compiled is None:
        return ""
    records = (record for watch in state.sources for record in watch.store.values())
    refused = (
        (one, _refusal(context, compiled, one)) for one in records if isinstance(one, SourceRecord)
    )
    found = [(one, why) for one, why in refused if why]
    if not found:
        return ""
    first, reason = min(found, key=lambda one: (one[0].namespace, one[0].name))
    place = f"{first.namespace}/{first.name}"
    more = f"{count(len(found), 'object matches', 'objects match')}, and none is ever copied: "
    start = "" if len(found) == 1 else more
    view = None if compiled.spec.kubeconfigs else context.kinds.get(compiled.resource)
    copy = view.copies.get((first.namespace, first.name)) if view else None
    maker = (copy.owner or copy.marks) if copy else ""
    if not maker:
        return f"{start}{place} is never copied: {reason}"
    bindings = [
        one for one in context.index.of_rule(maker).values() if one.static_name == first.name
    ]
    start += f"{place} is a copy of {maker}, and a copy is never a source; "
    if any(_is_target(compiled, one, first) for one in bindings):
        return start + loop(maker, compiled.rule.owner)
    origins = ", ".join(one.origin for one in bindings if one.origin)
    original = f"copy {origins} instead, or " if origins else ""
    return f"{start}{original}add these targets to {maker}"


def _refusal(context: CopyContext, compiled: CompiledRule, source: SourceRecord) -> str | None:
    """Why an object that the rule selects is never copied, or None."""
    local = compiled.spec.source is None or compiled.spec.source.kubeconfig is None
    name = ObjectName(source.namespace, source.name)
    if local and compiled.resource == SECRETS.key and context.rules.is_kubeconfig(name):
        return "it is the kubeconfig of a rule"
    return source.refused


def _is_target(compiled: CompiledRule, other: SourceBinding, source: SourceRecord) -> bool:
    """Whether a rule would copy its `source` onto that of another binding."""
    if other.source is None or other.source.namespace not in compiled.targets:
        return False
    name: str | None = source.name
    if compiled.name is not None:
        metadata, kind = source.body["metadata"], compiled.spec.kind
        variables = {
            "source": source_context(metadata, kind),
            "rule": rule_context(compiled.rule),
            "namespace": {"name": other.source.namespace},
        }
        try:
            name = compiled.name.render(variables)
        except TemplateError:
            name = None
    return name == other.source.name


class _SharedWatch:
    """One watch of a namespace's metadata, shared by listeners to single objects of it."""

    def __init__(
        self,
        context: CopyContext,
        spec: WatchSpec,
        share: SourceShare,
        on_end: Callable[[], object],
    ) -> None:
        self.share = share
        self._client = context.client
        self._resource = spec.resource
        self._reader = SourceReader(spec.resource.api_version, spec.resource.kind)
        self._reads = asyncio.Semaphore(READS)
        self._on_end = on_end
        self._sources: dict[ObjectName, SharedInformer[_NamedSource]] = {}
        self._registration = context.informers.acquire(spec, self._changed, on_synced=self._synced)

    @property
    def mirror(self) -> Mirror:
        """The metadata of all objects."""
        return self._registration.reflector

    async def read(self, name: ObjectName) -> SourceRecord:
        """Read an object, whole."""
        with working_for(self.share.tenant):
            async with self._reads:
                return self._reader(await self._client.get(self._resource, *name))

    def join(
        self, name: ObjectName, listener: OnChange[SourceRecord], on_synced: OnSynced
    ) -> Registration:
        """Add a listener to one object."""
        source = self._sources.get(name)
        if source is None:
            source = SharedInformer(partial(_NamedSource, self, name), partial(self._leave, name))
            self._sources[name] = source
        registration = Registration(source, listener, on_synced)
        source.join(registration)
        source.mirror.refresh()
        return registration

    def _leave(self, name: ObjectName) -> None:
        self._sources.pop(name).mirror.close()
        if not self._sources:
            self._on_end()
            self._registration.release()

    def _changed(self, name: ObjectName, _old: Seen | None, new: Seen | None) -> None:
        source = self._sources.get(name)
        if source is not None:
            if new is None:
                source.mirror.take(None)
            source.mirror.refresh()

    def _synced(self) -> None:
        for source in list(self._sources.values()):
            source.mirror.refresh()
            source.mirror.announce()


class _NamedSource:
    """One named object of a shared watch; a mirror of it alone."""

    def __init__(
        self,
        shared: _SharedWatch,
        name: ObjectName,
        on_change: OnChange[SourceRecord],
        on_synced: OnSynced,
    ) -> None:
        self.store: dict[ObjectName, SourceRecord] = {}
        self._shared = shared
        self._name = name
        self._on_change = on_change
        self._on_synced = on_synced
        self._read_failure: ApiError | None = None
        self._task: asyncio.Task[None] | None = None

    def __str__(self) -> str:
        return str(self._shared.mirror)

    @property
    def lists(self) -> int:
        """Complete lists of the watch; 0 while the object exists and wasn't read."""
        return self._shared.mirror.lists if self.store or not self._is_stale else 0

    @property
    def synced(self) -> bool:
        """Whether the absence of the object can be taken for its deletion."""
        return self._shared.mirror.synced and not self._is_stale

    @property
    def failure(self) -> ApiError | None:
        """The present fault of the watch, or of reading the object."""
        return self._shared.mirror.failure or self._read_failure

    @property
    def failing_for(self) -> float:
        """Duration of the watch's present fault in seconds; 0 without one."""
        return self._shared.mirror.failing_for

    @property
    def _is_stale(self) -> bool:
        """Whether the watch has another version than the one that was read.

        Also where there was no room for its content, and there is now.
        """
        told: Seen | None = self._shared.mirror.store.get(self._name)
        if told is None:
            return False
        record = self.store.get(self._name)
        if record is None or is_newer(told.resource_version, record.resource_version):
            return True
        return not record.whole and self._shared.share.has_room(record.size)

    def delivered(self, namespace: str) -> int:
        """The resourceVersion up to which the watch shows a namespace's changes."""
        return self._shared.mirror.delivered(namespace)

    def relist(self) -> None:
        """List all objects of the watch again."""
        self._shared.mirror.relist()

    def close(self) -> None:
        """Nobody listens any more."""
        if self._task is not None:
            self._task.cancel()
        if (record := self.store.get(self._name)) is not None:
            self._shared.share.dropped(record)

    def refresh(self) -> None:
        """Read the object if the watch has another version."""
        if self._is_stale and self._task is None:
            self._task = asyncio.create_task(self._read(), name=f"read source {self._name}")

    def take(self, record: SourceRecord | None) -> None:
        """Deliver the object's new state."""
        before = self.store.pop(self._name, None)
        if record is not None:
            record = self.store[self._name] = self._shared.share.held(before, record)
        elif before is not None:
            self._shared.share.dropped(before)
        else:
            return
        self._on_change(self._name, before, record)

    def announce(self) -> None:
        """Tell the listeners that all is known, if it is."""
        if self.synced:
            self._on_synced()

    async def _read(self) -> None:
        delay = FIRST_DELAY
        try:
            while self._is_stale:
                try:
                    record = await self._shared.read(self._name)
                except ApiError as error:
                    # The watch delivers deletions.
                    self._read_failure = None if isinstance(error, errors.NotFound) else error
                    await asyncio.sleep(delay)
                    delay = min(delay * 2, LONGEST_DELAY)
                else:
                    self._read_failure = None
                    if self._name in self._shared.mirror.store:
                        self.take(record)
        finally:
            self._task = None
        self.announce()
