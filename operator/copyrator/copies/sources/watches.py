"""The watches of a rule's sources, and the bindings that their events change."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from copyrator.api.keys import ObjectName
from copyrator.api.rule_spec import Source
from copyrator.api.text import count
from copyrator.copies.context import CopyContext
from copyrator.copies.rules.state import CompiledRule, RulePhase, RuleState
from copyrator.copies.rules.summarize import loop
from copyrator.copies.sources.bindings import SourceBinding, rule_context
from copyrator.copies.sources.named import source_watch
from copyrator.copies.sources.records import SourceRecord
from copyrator.copies.sources.shares import SourceShare
from copyrator.copies.template.rendering import source_context
from copyrator.copies.template.scope import TemplateError
from copyrator.kube.resources import SECRETS, Resource
from copyrator.kube.watch.informers import InformerFactory, Registration


def has_watches(
    context: CopyContext, tenant: str | None, source: Source, resource: Resource
) -> bool:
    """Whether there is room for the watches that a rule needs; existing ones are joined."""
    share = context.shares.of(tenant)
    if share.may_watch or source.kubeconfig is not None:
        return True
    for namespace in source.namespaces:
        if source.name:
            name = ObjectName(namespace, source.name)
            is_there = context.named_sources.has_watch(resource, name, share)
        else:
            spec = source_watch(resource, share, namespace, None, source.selector)
            is_there = spec in context.informers
        if not is_there:
            return False
    return True


def watch_sources(
    context: CopyContext,
    state: RuleState,
    resource: Resource,
    informers: InformerFactory,
    share: SourceShare,
) -> list[Registration]:
    """Join a watch for each namespace; known sources become bindings before this returns.

    The server filters: other objects cost nothing. In another cluster each named object has a watch
    of its own, which needs no right to more than that object.
    """
    source = state.compiled.spec.source if state.compiled else None
    assert source is not None
    registrations = []
    for order, namespace in enumerate(source.namespaces):
        listener = partial(_source_changed, context, state, order)

        def on_synced() -> None:
            context.requeue_rule(state.key)

        if source.name and source.kubeconfig is None:
            name = ObjectName(namespace, source.name)
            place = context.named_sources.acquire(resource, name, share, listener, on_synced)
        else:
            spec = source_watch(resource, share, namespace, source.name, source.selector)
            place = informers.acquire(spec, listener, on_synced=on_synced)
        registrations.append(place)
    return registrations


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
    view = None if state.has_remotes else context.kinds.get(compiled.resource)
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
            context.requeue_rule(state.key)
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
        context.requeue_rule(state.key)  # copies of another name may be unwanted now
    else:
        context.touch(owner)
