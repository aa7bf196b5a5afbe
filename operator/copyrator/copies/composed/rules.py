"""Rules with ``spec.sources``: their watches, and when their copies are rendered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from copyrator.api.keys import ObjectName
from copyrator.api.kubeconfig import KubeconfigRef
from copyrator.api.rule_spec import ComposedSource, RuleSpec
from copyrator.api.rule_status import RuleFacts
from copyrator.api.selectors import LabelSelector
from copyrator.copies.composed.composer import (
    BUSY_AGAIN,
    ComposedBinding,
    ComposeError,
    Composer,
    check,
)
from copyrator.copies.composed.composition import Composition, Part
from copyrator.copies.context import CopyContext
from copyrator.copies.remotes.clusters import BusyError, RemoteUse
from copyrator.copies.rules.state import RulePhase, RuleState, StoppedError
from copyrator.copies.sources.named import ALONE, source_watch
from copyrator.copies.sources.records import HeaderReader, SourceHeader
from copyrator.copies.sources.shares import SourceShare
from copyrator.kube.resources import SECRETS, Resource
from copyrator.kube.watch.informers import InformerFactory, Registration
from copyrator.kube.watch.reflector import WatchSpec
from copyrator.workqueue.fairness import TimeSlice

TOGETHER: Final = 0.1
"""Seconds after a change of a source before the copies are rendered: others may change with it."""
LONGEST_WAIT: Final = 86_400.0
"""Seconds after which a rule whose copies depend on the time is reconciled again at the latest."""


def binding_of(context: CopyContext, owner: str) -> ComposedBinding | None:
    """The binding of a rule with ``spec.sources``, or None."""
    for binding in context.index.of_rule(owner).values():
        return binding if isinstance(binding, ComposedBinding) else None
    return None


class ComposedRules:
    """All rules with ``spec.sources``."""

    def __init__(self, context: CopyContext) -> None:
        self._context = context
        self._composer = Composer(context)

    async def resolve(self, spec: RuleSpec) -> list[Resource]:
        """The kinds of the entries of ``spec.sources``.

        Raises:
            KindUnavailable, AmbiguousKind: the cluster doesn't serve one.
        """
        discovery = self._context.discovery
        return [await discovery.resolve(entry.kind, entry.api_version) for entry in spec.sources]

    def begin(
        self,
        state: RuleState,
        resources: Sequence[Resource],
        remotes: Mapping[KubeconfigRef, RemoteUse],
    ) -> list[Registration]:
        """Watch the metadata of a template's sources, and add its binding."""
        context, compiled = self._context, state.compiled
        assert compiled is not None
        pairs = zip(compiled.spec.sources, resources, strict=True)
        composition = Composition([self._part(remotes, *pair) for pair in pairs])
        context.index.add(ComposedBinding(compiled, composition, self._composer))
        share = context.shares.of(None)
        watches = []
        for part in composition.parts:
            informers = part.cluster.informers if part.cluster else context.informers
            watch = informers.acquire(
                _spec(informers, part, part.cluster.share if part.cluster else share),
                partial(_source_changed, context, state, part),
                on_synced=lambda: context.requeue_rule(state.key),
            )
            part.watch = watch
            part.changed()
            watches.append(watch)
            if (kubeconfig := part.entry.kubeconfig) is not None:
                remotes[kubeconfig].watches.append(watch)
        context.index.set_read(compiled.rule.owner, composition.sources())
        return watches

    def _part(
        self,
        remotes: Mapping[KubeconfigRef, RemoteUse],
        entry: ComposedSource,
        resource: Resource,
    ) -> Part:
        kubeconfig = entry.kubeconfig
        if kubeconfig is not None:
            return Part(entry, resource, cluster=remotes[kubeconfig].served)
        if resource != SECRETS:
            return Part(entry, resource)
        return Part(entry, resource, withheld=self._context.rules.is_kubeconfig)

    async def compose(self, state: RuleState) -> None:
        """Render the copies of all targets where a source, or the time, has changed.

        Raises:
            StoppedError: the sources can't be used (now); the copies stay as they are.
            ApiError: one can't be read.
        """
        compiled = state.compiled
        assert compiled is not None
        binding = binding_of(self._context, compiled.rule.owner)
        if binding is None:
            return
        composition = binding.composition
        try:
            check(composition)
            await self._render(binding)
        except BusyError:
            raise StoppedError(None, BUSY_AGAIN) from None
        except ComposeError as error:
            composition.fault = f"{error.condition.reason}: {error.condition.message}"
            state.pause()
            state.phase = RulePhase.FROZEN
            facts = RuleFacts(
                sources=composition.count(),
                composed_of=composition.to_string(),
                targets=len(compiled.targets),
                copies=compiled.rule.status.copies,
            )
            again = self._context.timing.room_again if error.waits else None
            raise StoppedError(error.condition, again, facts) from error
        composition.fault = None

    async def _render(self, binding: ComposedBinding) -> None:
        context, composition = self._context, binding.composition
        if composition.until is not None and composition.until <= context.clock():
            self._composer.drop(composition)
            composition.renewed(None)
        turn = TimeSlice()
        known = composition.is_covered_by(composition.rendered)
        if known and not await self._is_any_pending(binding, turn):
            return
        async with self._composer.held(binding):
            for name in list(binding.compiled.targets):
                namespace = context.namespaces.get(name)
                if namespace is not None:
                    binding.compose(namespace)
                await turn.pause()

    async def _is_any_pending(self, binding: ComposedBinding, turn: TimeSlice) -> bool:
        """Whether the copy of any target has to be rendered."""
        for name in list(binding.compiled.targets):
            namespace = self._context.namespaces.get(name)
            if namespace is not None and binding.at(namespace).pending:
                return True
            if namespace is not None and not binding.compiled.follows_namespaces:
                return False  # they are all the same
            await turn.pause()
        return False

    def seconds_until_change(self, owner: str) -> float | None:
        """When the copies have to be rendered again although no source changes."""
        binding = binding_of(self._context, owner)
        if binding is None or binding.composition.until is None:
            return None
        left = (binding.composition.until - self._context.clock()).total_seconds()
        return min(max(left, 0.0) + 1.0, LONGEST_WAIT)


def _spec(informers: InformerFactory, part: Part, share: SourceShare) -> WatchSpec:
    """Few names of a namespace have a watch each; more share one of all its metadata.

    In another cluster each has its own, which needs no right to more than that object.
    """
    entry, resource = part.entry, part.resource
    reader = HeaderReader(resource.kind)

    def spec(name: str | None, selector: LabelSelector | None = None) -> WatchSpec:
        whole = source_watch(resource, share, entry.namespace, name, selector)
        return replace(whole, metadata_only=True, decode=reader)

    if entry.name is None:
        return spec(None, entry.selector)
    alone, wide = spec(entry.name), spec(None)
    if part.cluster is not None:
        return alone
    if alone in informers or wide in informers:
        return alone if alone in informers else wide
    place = (resource, entry.namespace)
    known = sum(
        (other.resource, other.namespace) == place and bool(other.name)
        for other in informers.specs()
    )
    return alone if known < ALONE else wide


def _source_changed(
    context: CopyContext,
    state: RuleState,
    part: Part,
    name: ObjectName,
    _old: SourceHeader | None,
    _new: SourceHeader | None,
) -> None:
    if not part.concerns(name):
        return
    part.changed()
    if part.watch is None or state.compiled is None:  # it is being opened, or not served any more
        return
    owner = state.compiled.rule.owner
    binding = binding_of(context, owner)
    if binding is None or part not in binding.composition.parts:
        return
    composition = binding.composition
    context.index.set_read(owner, composition.sources())
    if composition.is_covered_by(composition.rendered) and state.phase is not RulePhase.FROZEN:
        return  # it was read already
    if state.phase is RulePhase.SERVING:
        state.trace.source_changed(str(name))
        state.lag.change(context.monotonic())
    context.queue.add_after(state.key, TOGETHER)
