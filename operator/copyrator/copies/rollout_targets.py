"""A rule's targets, compared in memory with what it wants: no copy is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from copyrator.api.rollout import Rollout
from copyrator.copies.cache.compiled_rule import CompiledRule
from copyrator.copies.cache.copy_request import CopyRequest
from copyrator.copies.context import CopyContext
from copyrator.copies.policy.rollout import TargetNamespace, in_order
from copyrator.workqueue.fairness import TimeSlice


@dataclass(frozen=True, slots=True)
class RolloutTargets:
    """The namespaces that get copies of a rule."""

    ordered: Sequence[str]
    """In the order in which the steps cover them."""
    old: frozenset[str]
    """Those with a copy of other content."""
    unwritten: frozenset[str]
    """Of these, those whose write hasn't failed."""


def content_of(context: CopyContext, compiled: CompiledRule) -> str:
    """A keyed hash of what a rule's copies are to have, whatever their namespaces."""
    owner = compiled.rule.owner
    marks = {origin: binding.mark.hex() for origin, binding in context.index.of_rule(owner).items()}
    return compiled.sealer.digest({"rule": owner, "content": marks}).hex()


async def compare(
    context: CopyContext, compiled: CompiledRule, rollout: Rollout, began: datetime
) -> RolloutTargets:
    """Compare all targets; `began`: when the rollout of the present content did, or would."""
    targets: dict[str, TargetNamespace] = {}
    old: set[str] = set()
    unwritten: set[str] = set()
    turn = TimeSlice()
    for binding in list(context.index.of_rule(compiled.rule.owner).values()):
        for name in list(compiled.targets):
            await turn.pause()
            namespace = context.home.namespaces.get(name)
            if namespace is None or namespace.terminating or not binding.covers(namespace):
                continue
            targets[name] = TargetNamespace(name, namespace.labels, namespace.created)
            request = CopyRequest.of(binding, namespace)
            if _is_old(context, compiled, request):
                old.add(name)
                if not _has_failed(context, compiled, request):
                    unwritten.add(name)
    ordered = in_order(rollout, targets.values(), began)
    return RolloutTargets(ordered, frozenset(old), frozenset(unwritten))


def _is_old(context: CopyContext, compiled: CompiledRule, request: CopyRequest) -> bool:
    """Whether a copy of the rule has other content; not one that can't be written at all."""
    view = context.home.kinds.get(compiled.resource)
    if view is None or request.broken or request.pending:
        return False
    record = view.copies.get((request.namespace.name, request.desired.name))
    if record is None or record.owner != compiled.rule.owner or record.deleting:
        return False
    return request.is_old(record)


def _has_failed(context: CopyContext, compiled: CompiledRule, request: CopyRequest) -> bool:
    key = context.home.key(compiled.resource, request.namespace.name, request.desired.name)
    return key in context.problems
