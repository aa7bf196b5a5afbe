"""The state that the reconcilers of copies share, and the planner's input made from it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from copyrator.api.fields import InvalidSpec
from copyrator.api.keys import CopyKey, Key, RuleKey
from copyrator.api.rule_spec import DeletionPolicy
from copyrator.api.rule_status import Failure
from copyrator.copies.cache.compiled_rule import CompiledRule
from copyrator.copies.cache.copy_request import CopyRequest
from copyrator.copies.cache.index import BindingIndex
from copyrator.copies.cache.rules import Rule, RuleCache
from copyrator.copies.changes import Changes
from copyrator.copies.cluster_context import ClusterContext
from copyrator.copies.composer import Composer
from copyrator.copies.named_sources import NamedSources
from copyrator.copies.policy.notices import NoticeLimits
from copyrator.copies.policy.planning import (
    CopyDecision,
    OwnerState,
    TargetState,
    Unmanaged,
    plan_copy,
)
from copyrator.copies.rule_metrics import RuleMetrics
from copyrator.copies.rule_state import RulePhase, RuleState
from copyrator.copies.source_shares import SourceShares
from copyrator.copies.timing import DEFAULT_TIMING, CopyTiming
from copyrator.kube.events import EventRecorder
from copyrator.metrics import Metrics
from copyrator.settings.config import Settings
from copyrator.workqueue.isolated import Isolated
from copyrator.workqueue.outcome import Priority
from copyrator.workqueue.queue import WorkQueue

log = logging.getLogger(__name__)

Clock = Callable[[], datetime]
"""The wall clock, timezone-aware; for times in status and messages."""

SUMMARY_REST = 20.0
"""Pause between two summaries that only the status needs, in multiples of the last one's duration.

A summary takes 5 us for a copy that is right; while some of 100,000 change all the time, it must
not take half of a core.
"""


@dataclass(slots=True, eq=False, kw_only=True)
class CopyContext:
    """Shared state and clients of the reconcilers."""

    home: ClusterContext
    """The cluster of the rules and their sources."""
    rules: RuleCache
    queue: WorkQueue[Key]
    recorder: EventRecorder
    settings: Settings
    metrics: Metrics
    clock: Clock
    monotonic: Callable[[], float]
    timing: CopyTiming = DEFAULT_TIMING
    clusters: dict[str, ClusterContext] = field(init=False)
    """All clusters that copies are in, by name."""
    index: BindingIndex = field(default_factory=BindingIndex)
    rule_states: dict[RuleKey, RuleState] = field(default_factory=dict)
    problems: dict[CopyKey, Failure] = field(default_factory=dict)
    """Copies whose write failed, with the reason."""
    rule_metrics: RuleMetrics = field(init=False)
    named_sources: NamedSources = field(init=False)
    composer: Composer = field(init=False)
    """Reads the sources of templates."""
    shares: SourceShares = field(init=False)
    changes: Changes = field(default_factory=Changes)
    """Changes of namespaces and sources that aren't processed yet."""
    notices: NoticeLimits = field(default_factory=NoticeLimits)
    """The Events in target namespaces."""
    isolated: Isolated = field(default_factory=Isolated)
    """Where long texts are compiled."""
    rollouts: bool = True
    """Whether rules write changed content in steps; a dry run shows all changes at once."""
    knows_rules: Callable[[str], bool] = lambda _namespace: True
    """Whether all rules of a namespace are known, so that one that isn't known doesn't exist."""

    def __post_init__(self) -> None:
        self.clusters = {self.home.name: self.home}
        self.shares = SourceShares(self.requeue_rule)
        self.named_sources = NamedSources(self.home.client, self.home.informers)
        self.composer = Composer(self.home.client, lambda: self.shares.of(None), self.clock)
        self.rule_metrics = RuleMetrics(self.metrics)

    # --- planning --------------------------------------------------------------------------------

    def plan(self, key: CopyKey, unmanaged: Unmanaged | None = None) -> CopyDecision[CopyRequest]:
        """Plan a target from the current state."""
        cluster = self.clusters[key.cluster]
        namespace = cluster.namespaces.get(key.namespace)
        record = cluster.record(key)
        requests = self.index.requests(key.kind, namespace, key.name) if namespace else []
        owner_state = OwnerState.GONE
        deletion = DeletionPolicy.DELETE
        if (
            record
            and record.owner
            and not any(request.owner == record.owner for request in requests)
        ):
            owner = self.rules.by_owner(record.owner)
            home = record.owner.partition("/")[0]
            owner_state = (
                self._owner_state(owner, key)
                if owner or self.knows_rules(home)
                else OwnerState.KEEPS
            )
            if owner is not None and owner.orphans:
                deletion = DeletionPolicy.ORPHAN
        return plan_copy(
            TargetState(
                requests=requests,
                existing=record,
                open=namespace is not None and not namespace.terminating,
                owner_state=owner_state,
                deletion=deletion,
                unmanaged=unmanaged,
                satisfied=cluster.unmanaged.satisfied(key),
                is_source=self.index.is_source(key.kind, key.namespace, key.name),
                contested=cluster.fights.wait(key) > 0,
            )
        )

    def awaited_source(self, key: CopyKey, unmanaged: Unmanaged) -> Rule | None:
        """The rule whose source has this key, where its watch hasn't delivered the object yet."""
        resource = self.clusters[key.cluster].kinds[key.kind].resource
        for state in self.rule_states.values():
            rule = self.rules.get(state.key)
            if rule is None or rule.deleting or isinstance(rule.spec, InvalidSpec):
                continue
            if state.phase is RulePhase.FROZEN:
                continue
            if state.sources and all(place.seen for place in state.sources):
                continue
            if any(
                source.kind == resource.kind
                and source.means(key.namespace, key.name, unmanaged.labels)
                for source in rule.spec.all_sources
            ):
                return rule
        return None

    def _owner_state(self, owner: Rule | None, key: CopyKey) -> OwnerState:
        if owner is None:
            return OwnerState.GONE
        state = self.rule_states.get(owner.key)
        if state is None or state.phase in (RulePhase.INCOMPLETE, RulePhase.FROZEN):
            return OwnerState.KEEPS
        if state.phase is RulePhase.DELETING or key in state.condemned:
            return OwnerState.CONDEMNED
        return OwnerState.RELEASED

    # --- limits ----------------------------------------------------------------------------------

    def copies_requested(self, compiled: CompiledRule) -> int:
        """An upper bound of a rule's copies; counts the source's own namespace, too."""
        return len(self.index.of_rule(compiled.rule.owner)) * len(compiled.targets)

    def keeps_limit(self, state: RuleState) -> bool:
        """Whether a rule keeps its limit of copies; if not, it stops before its next write."""
        compiled = state.compiled
        if compiled is None or self.copies_requested(compiled) <= compiled.spec.limit:
            return True
        state.pause()
        self.requeue_rule(state.key, Priority.URGENT)  # sets the status, and resumes when allowed
        return False

    # --- requeueing ------------------------------------------------------------------------------

    def touch(self, owner: str) -> None:
        """A rule's copies changed: its status may have to be written."""
        rule = self.rules.by_owner(owner)
        if rule is not None and (state := self.rule_states.get(rule.key)):
            wait = max(state.next_status, state.next_summary) - self.monotonic()
            self.queue.add_after(rule.key, max(wait, self.timing.settling / 2))

    def requeue_rule(self, key: RuleKey, priority: Priority = Priority.NORMAL) -> None:
        """Reconcile a rule again now."""
        self.queue.add(key, priority)

    def requeue_all_rules(self) -> None:
        """Reconcile every rule again now."""
        for rule in self.rules:
            self.queue.add(rule.key, Priority.RESYNC)

    def note_lost(self, owner: str, key: CopyKey) -> None:
        """Record that a rule's copy was deleted: the cause if it is created again."""
        rule = self.rules.by_owner(owner)
        if rule is not None and (state := self.rule_states.get(rule.key)):
            state.trace.copy_lost(key)

    def owned(self, owner: str) -> Iterator[tuple[ClusterContext, CopyKey]]:
        """All copies of a rule, of every kind and in every cluster."""
        for cluster in self.clusters.values():
            for view in cluster.kinds.values():
                for name in list(view.copies.owned_by(owner)):
                    yield cluster, cluster.key(view.resource.key, *name)

    def count_owned(self, owner: str) -> int:
        """How many copies a rule has, of every kind and in every cluster."""
        return sum(
            view.copies.count(owner)
            for cluster in self.clusters.values()
            for view in cluster.kinds.values()
        )
