"""Rules with ``spec.sources``: their watches, and when their copies are rendered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from copyrator.api.keys import ObjectName
from copyrator.api.kubeconfig import KubeconfigRef
from copyrator.api.rule_spec import ComposedSource, RuleSpec
from copyrator.api.rule_status import RuleFacts
from copyrator.copies.context import CopyContext
from copyrator.copies.remotes.clusters import RemoteUse
from copyrator.copies.rules.state import CompiledRule, RulePhase, RuleState
from copyrator.copies.sources.named import ALONE
from copyrator.copies.sources.records import HeaderReader, SourceHeader
from copyrator.copies.sources.shares import SourceShare
from copyrator.copies.template.composer import ComposedBinding, ComposeError, check
from copyrator.copies.template.composition import Composition, Part
from copyrator.kube.resources import SECRETS, Resource
from copyrator.kube.watch.informers import InformerFactory, Registration, WatchSpec
from copyrator.kube.watch.reflector import OnChange
from copyrator.workqueue.fairness import TimeSlice

TOGETHER: Final = 0.1
"""Seconds after a change of a source before the copies are rendered: others may change with it."""
LONGEST_WAIT: Final = 86_400.0
"""Seconds after which a rule whose copies depend on the time is reconciled again at the latest."""


async def resolve_sources(context: CopyContext, spec: RuleSpec) -> list[Resource]:
    """The kinds of the entries of ``spec.sources``.

    Raises:
        KindUnavailable, AmbiguousKind: the cluster doesn't serve one.
    """
    discovery = context.discovery
    return [await discovery.resolve(entry.kind, entry.api_version) for entry in spec.sources]


def begin_composed(
    context: CopyContext,
    state: RuleState,
    compiled: CompiledRule,
    resources: Sequence[Resource],
    remotes: Mapping[KubeconfigRef, RemoteUse],
) -> list[Registration]:
    """Watch the metadata of a template's sources, and add its binding."""
    pairs = zip(compiled.spec.sources, resources, strict=True)
    composition = Composition(
        [_part(context, remotes, entry, resource) for entry, resource in pairs]
    )
    context.index.add(ComposedBinding(compiled, composition))
    share = context.shares.of(None)
    watches = []
    for part in composition.parts:
        informers = part.cluster.informers if part.cluster else context.informers
        watch = informers.acquire(
            _spec(informers, part, part.cluster.share if part.cluster else share),
            _listener(context, state, part),
            on_synced=lambda: context.requeue_rule(state.key),
        )
        part.watch = watch
        part.changed()
        watches.append(watch)
        if (kubeconfig := part.entry.kubeconfig) is not None:
            remotes[kubeconfig].watches.append(watch)
    context.index.set_composed(compiled.rule.owner, composition.sources())
    return watches


def _part(
    context: CopyContext,
    remotes: Mapping[KubeconfigRef, RemoteUse],
    entry: ComposedSource,
    resource: Resource,
) -> Part:
    kubeconfig = entry.kubeconfig
    if kubeconfig is not None:
        return Part(entry, resource, cluster=remotes[kubeconfig].served)
    if resource != SECRETS:
        return Part(entry, resource)
    return Part(entry, resource, withheld=context.rules.is_kubeconfig)


def binding_of(context: CopyContext, owner: str) -> ComposedBinding | None:
    """The binding of a rule with ``spec.sources``, or None."""
    for binding in context.index.of_rule(owner).values():
        return binding if isinstance(binding, ComposedBinding) else None
    return None


async def compose(context: CopyContext, state: RuleState) -> None:
    """Render the copies of all targets where a source, or the time, has changed.

    Raises:
        ComposeError: the sources can't be used.
        ApiError: one can't be read.
    """
    assert state.compiled is not None
    binding = binding_of(context, state.compiled.rule.owner)
    if binding is None:
        return
    composition = binding.composition
    try:
        check(composition)
        await _render(context, binding)
    except ComposeError as error:
        composition.fault = f"{error.condition.reason}: {error.condition.message}"
        raise
    composition.fault = None


async def _render(context: CopyContext, binding: ComposedBinding) -> None:
    composition = binding.composition
    if composition.until is not None and composition.until <= context.clock():
        context.composer.drop(composition)
        composition.renewed(None)
    turn = TimeSlice()
    known = composition.is_covered_by(composition.rendered)
    if known and not await _is_any_pending(context, binding, turn):
        return
    async with context.composer.held(binding):
        for name in list(binding.compiled.targets):
            namespace = context.namespaces.get(name)
            if namespace is not None:
                binding.compose(namespace)
            await turn.pause()


async def _is_any_pending(context: CopyContext, binding: ComposedBinding, turn: TimeSlice) -> bool:
    """Whether the copy of any target has to be rendered."""
    for name in list(binding.compiled.targets):
        namespace = context.namespaces.get(name)
        if namespace is not None and binding.at(namespace).pending:
            return True
        if namespace is not None and not binding.compiled.follows_namespaces:
            return False  # they are all the same
        await turn.pause()
    return False


def facts_before(context: CopyContext, state: RuleState) -> RuleFacts:
    """The counts of the last status, of a rule whose copies stay as they are."""
    compiled = state.compiled
    assert compiled is not None
    binding = binding_of(context, compiled.rule.owner)
    return RuleFacts(
        sources=binding.composition.count() if binding else 0,
        composed_of=binding.composition.to_string() if binding else "",
        targets=len(compiled.targets),
        copies=compiled.rule.status.copies,
    )


def seconds_until_change(context: CopyContext, state: RuleState) -> float | None:
    """When the copies have to be rendered again although no source changes."""
    assert state.compiled is not None
    binding = binding_of(context, state.compiled.rule.owner)
    if binding is None or binding.composition.until is None:
        return None
    left = (binding.composition.until - context.clock()).total_seconds()
    return min(max(left, 0.0) + 1.0, LONGEST_WAIT)


def _spec(informers: InformerFactory, part: Part, share: SourceShare) -> WatchSpec:
    """Few names of a namespace have a watch each; more share one of all its metadata.

    In another cluster each has its own, which needs no right to more than that object.
    """
    entry, resource = part.entry, part.resource
    reader = HeaderReader(resource.kind)

    def spec(name: str | None, selector: str | None = None) -> WatchSpec:
        return WatchSpec(
            resource=resource,
            namespace=entry.namespace,
            name=name,
            label_selector=selector,
            metadata_only=True,
            decode=reader,
            share=share,
        )

    if entry.name is None:
        return spec(None, entry.selector.to_string() if entry.selector else None)
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


def _listener(context: CopyContext, state: RuleState, part: Part) -> OnChange[SourceHeader]:
    def on_change(name: ObjectName, _old: SourceHeader | None, _new: SourceHeader | None) -> None:
        if part.concerns(name):
            part.changed()
            if part.watch is not None:  # not while it is opened
                _source_changed(context, state, part, name)

    return on_change


def _source_changed(context: CopyContext, state: RuleState, part: Part, name: ObjectName) -> None:
    if state.compiled is None:
        return
    owner = state.compiled.rule.owner
    binding = binding_of(context, owner)
    if binding is None or part not in binding.composition.parts:
        return
    composition = binding.composition
    context.index.set_composed(owner, composition.sources())
    if composition.is_covered_by(composition.rendered) and state.phase is not RulePhase.FROZEN:
        return  # it was read already
    if state.phase is RulePhase.SERVING:
        state.trace.source_changed(str(name))
        state.lag.change(context.monotonic())
    context.queue.add_after(state.key, TOGETHER)
