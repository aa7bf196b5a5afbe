"""The sources of rules: which watches a rule needs, and what their news mean for its claims."""

from __future__ import annotations

from collections.abc import Sequence

from copyrator.api.keys import ObjectName
from copyrator.api.rule import Source
from copyrator.kube.reflector import OnChange
from copyrator.kube.resources import Resource
from copyrator.kube.watchpool import Subscription, WatchSpec
from copyrator.reconcile.source_shares import SourceShare
from copyrator.reconcile.world import Service, Standing, World
from copyrator.registry.claims import Claim
from copyrator.rules.sources import SourceReader, SourceRecord


def has_watches(world: World, tenant: str | None, source: Source, resource: Resource) -> bool:
    """Whether there is room for the watches that a rule needs; those that are there are joined."""
    share = world.shares.of(tenant)
    if share.may_watch:
        return True
    for namespace in source.namespaces:
        if source.name:
            name = ObjectName(namespace, source.name)
            is_there = world.named_sources.has_watch(resource, name, share)
        else:
            is_there = _spec(source, namespace, resource, share) in world.watch_pool
        if not is_there:
            return False
    return True


def watch_sources(
    world: World, service: Service, source: Source, resource: Resource, tenant: str | None
) -> list[Subscription]:
    """Join a watch for each namespace; what is known already becomes claims before this returns.

    The server filters: the rest of the cluster costs nothing.
    """
    share = world.shares.of(tenant)
    subscriptions = []
    for order, namespace in enumerate(source.namespaces):
        listener = _listener(world, service, order)

        def on_synced() -> None:
            world.look_at_rule(service.key)

        if source.name:
            name = ObjectName(namespace, source.name)
            place = world.named_sources.acquire(resource, name, share, listener, on_synced)
        else:
            spec = _spec(source, namespace, resource, share)
            place = world.watch_pool.acquire(spec, listener, on_synced=on_synced)
        subscriptions.append(place)
    return subscriptions


def _spec(source: Source, namespace: str, resource: Resource, share: SourceShare) -> WatchSpec:
    return WatchSpec(
        resource=resource,
        namespace=namespace,
        label_selector=source.selector.to_string() if source.selector else None,
        decode=SourceReader(resource.api_version, resource.kind),
        share=share,
        reserved=share.tenant is not None,
    )


def no_room(sources: Sequence[Subscription], share: SourceShare) -> str | None:
    """Why sources aren't all held, or None; what there is room for by now is read again."""
    missing = [record for watch in sources for record in watch.store.values() if not record.whole]
    if not missing:
        return None
    size = sum(record.size for record in missing)
    if share.has_room(size):
        for watch in sources:
            watch.reflector.relist()
    return share.no_room(len(missing), size)


def _listener(world: World, service: Service, order: int) -> OnChange[SourceRecord]:
    def on_change(name: ObjectName, _old: SourceRecord | None, new: SourceRecord | None) -> None:
        _source_changed(world, service, order, name, new)

    return on_change


def _source_changed(
    world: World, service: Service, order: int, name: ObjectName, record: SourceRecord | None
) -> None:
    maker = service.maker
    if maker is None:
        return
    owner, origin = maker.rule.owner, f"{name.namespace}/{name.name}"
    if record is None or record.refused:
        if world.index.remove(owner, origin):
            world.look_at_rule(service.key)
        return
    claim = Claim(maker, record, (order, name.name))
    earlier = world.index.add(claim)
    if service.standing is not Standing.SERVING:
        return  # the survey that follows sees it
    if not world.keeps_limit(service):
        return
    if service.source_changed is None:
        service.source_changed = world.monotonic()
    world.due.claim_changed(claim)
    if earlier is None or earlier.static_name != claim.static_name:
        world.look_at_rule(service.key)  # copies of another name may be unwanted now
    else:
        world.touch(owner)
