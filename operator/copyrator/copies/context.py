"""The state and the clients that the reconcilers of copies share, and what is planned from it.

A watch's listener must return at once, and the time that a change takes depends on the rules and
annotations that users write. So listeners only record it: by tenant, and the trusted rules apart.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from copyrator.api import names
from copyrator.api.keys import CopyKey, Key, RuleKey
from copyrator.api.reasons import AnyReason
from copyrator.api.rule_spec import DeletionPolicy
from copyrator.api.rule_status import NO_COPIES, CopyCounts, Failure
from copyrator.api.schema import InvalidSpec
from copyrator.copies.rules.rules import Rule, RuleCache
from copyrator.copies.rules.state import CompiledRule, RulePhase, RuleState
from copyrator.copies.rules.trace import Burst, list_names
from copyrator.copies.seal.sealing import Sealer
from copyrator.copies.sources.bindings import BindingIndex, CopyRequest, SourceBinding
from copyrator.copies.sources.records import SourceShares
from copyrator.copies.targets.fights import CopyDriftTracker, FightTracker
from copyrator.copies.targets.namespaces import Namespaces
from copyrator.copies.targets.planning import (
    CopyDecision,
    OwnerState,
    TargetState,
    Unmanaged,
    plan_copy,
)
from copyrator.copies.targets.records import Copies, CopyRecord, Name, RecordReader
from copyrator.copies.targets.unmanaged import UnmanagedObjects
from copyrator.copies.timing import DEFAULT_TIMING, CopyTiming
from copyrator.kube.events import EventRecorder, ObjectRef
from copyrator.kube.resources import Discovery, Resource
from copyrator.kube.watch.informers import InformerFactory, Registration
from copyrator.settings.config import Settings
from copyrator.workqueue.fairness import FairLimit
from copyrator.workqueue.isolated import Isolated
from copyrator.workqueue.queue import Priority, WorkQueue

if TYPE_CHECKING:
    from copyrator.kube.client.client import KubeClient
    from copyrator.metrics import Metrics

Tenant = str | None
"""The namespace of rules that aren't trusted; None for those that are."""


@dataclass(slots=True)
class NamespaceChange:
    """A namespace that is new, changed or deleted."""

    members: set[RuleKey]
    """The rules that had it as a target before."""
    more: bool
    """It is new, or changed in a field on which any rule may depend."""


@dataclass(slots=True)
class PendingChanges:
    """Changes that concern one tenant's rules, or the trusted ones."""

    tenant: Tenant
    namespaces: dict[str, NamespaceChange] = field(default_factory=dict)
    bindings: dict[tuple[str, str], SourceBinding] = field(default_factory=dict)
    """By rule and source."""
    work: Iterator[None] | None = None
    """Work in progress."""

    @property
    def are_done(self) -> bool:
        """Whether none is left."""
        return not (self.work or self.namespaces or self.bindings)


class Changes:
    """All changes that aren't processed yet. Tenants take turns; trusted rules have their own."""

    def __init__(self) -> None:
        self._pending: dict[Tenant, PendingChanges] = {}
        self._queues: dict[bool, WorkQueue[str]] = {True: WorkQueue(), False: WorkQueue()}
        """Of tenants with changes; by whether the rules are trusted, whose key is empty."""

    @property
    def are_of_several(self) -> bool:
        """Whether they concern several tenants, or tenants and the trusted rules."""
        return len(self._pending) > 1

    def add_binding(self, binding: SourceBinding) -> None:
        """A source is new or changed: all its targets are due."""
        pending = self._queue(binding.compiled.targets.tenant)
        pending.bindings[binding.compiled.rule.owner, binding.origin] = binding

    def add_namespace(
        self, name: str, members: set[RuleKey], tenants: Iterable[Tenant], *, more: bool
    ) -> None:
        """A namespace changed, which was a target of `members` before; for these tenants' rules."""
        for tenant in tenants:
            namespaces = self._queue(tenant).namespaces
            moved = namespaces.setdefault(name, NamespaceChange(members, more))
            moved.more |= more

    async def get(self, *, trusted: bool) -> PendingChanges:
        """Wait for the changes of the next tenant, or of the trusted rules; `done` must follow."""
        name = await self._queues[trusted].get()
        tenant = None if trusted else name
        return self._pending.setdefault(tenant, PendingChanges(tenant))

    def done(self, pending: PendingChanges) -> None:
        """What was got is processed, in part or whole; the rest comes after all others."""
        tenant = pending.tenant
        self._queues[tenant is None].done(tenant or "")
        if pending.are_done:
            self._pending.pop(tenant, None)
        else:
            self._queue(tenant)

    def _queue(self, tenant: Tenant) -> PendingChanges:
        self._queues[tenant is None].add(tenant or "")
        return self._pending.setdefault(tenant, PendingChanges(tenant))


PERIOD: Final = 3600.0
"""Seconds in which one rule causes at most one Event for each namespace and reason."""
EACH: Final = 10
"""Events in one namespace in PERIOD, of all rules."""
TOGETHER: Final = 300
"""Events in all target namespaces in PERIOD."""

Notice = tuple[str, str, str]
"""Namespace, rule and reason."""


class NoticeLimits:
    """What was reported in the last PERIOD; each entry holds a slot for so long."""

    def __init__(self) -> None:
        self._told: OrderedDict[Notice, float] = OrderedDict()
        self._slots = FairLimit(each=EACH, together=TOGETHER)

    def take(self, notice: Notice, now: float) -> bool:
        """Whether an Event may be written now; it counts from then on."""
        self._forget(now)
        if notice in self._told or not self._slots.try_acquire(notice[0]):
            return False
        self._told[notice] = now
        return True

    def _forget(self, now: float) -> None:
        while self._told:
            notice, when = next(iter(self._told.items()))
            if now - when < PERIOD:
                return
            del self._told[notice]
            self._slots.release(notice[0])


REPORT_SECONDS: Final = 12.0
"""Seconds that Events about a namespace's rules wait while others of its rules are still writing:
no more often than the recorder accepts them (kube.events.REFILL_SECONDS)."""
RULES_LIMIT: Final = 8192
"""Characters of the annotation with the names of an Event's rules; the log names all of them."""


class RuleReports:
    """What Events say of rules that are well: one for all rules of a namespace with one reason.

    Args:
        recorder: records the Events.
        uid_of: returns the uid of a namespace.
        monotonic: the loop's time.
    """

    def __init__(
        self,
        recorder: EventRecorder,
        uid_of: Callable[[str], str],
        monotonic: Callable[[], float],
    ) -> None:
        self._recorder = recorder
        self._uid_of = uid_of
        self._monotonic = monotonic
        self._said: dict[str, dict[AnyReason, dict[ObjectRef, str | Burst]]] = {}
        """By namespace and reason."""
        self._since: dict[str, float] = {}
        """When the first of a namespace was kept."""

    def add(self, rule: ObjectRef, reason: AnyReason, said: str | Burst) -> None:
        """Keep a message, or the writes of a burst, for the next `flush`.

        A message says why the rule is Ready; it replaces what was kept with another reason.
        """
        if isinstance(said, str):
            self.forget_state(rule)
        self._since.setdefault(rule.namespace, self._monotonic())
        rules = self._said.setdefault(rule.namespace, {}).setdefault(reason, {})
        earlier = rules.get(rule)
        if isinstance(earlier, Burst) and isinstance(said, Burst):
            earlier.merge(said)
        else:
            rules[rule] = said

    def forget_state(self, rule: ObjectRef) -> None:
        """Drop a message that doesn't hold any more; the writes stay."""
        for rules in self._said.get(rule.namespace, {}).values():
            if isinstance(rules.get(rule), str):
                del rules[rule]

    def flush(self, writing: Container[str] = ()) -> None:
        """Record the Events, but for those of namespaces whose rules are `writing`."""
        now = self._monotonic()
        for namespace, since in list(self._since.items()):
            if namespace in writing and now - since < REPORT_SECONDS:
                continue
            del self._since[namespace]
            for reason, rules in self._said.pop(namespace).items():
                if len(rules) > 1:
                    self._record_shared(namespace, reason, rules)
                    continue
                for rule, said in rules.items():
                    self._recorder.record(rule, reason, _text(said))

    def _record_shared(
        self, namespace: str, reason: AnyReason, rules: Mapping[ObjectRef, str | Burst]
    ) -> None:
        names_ = sorted(rule.name for rule in rules)
        listed = ",".join(names_)
        if len(listed) > RULES_LIMIT:
            listed = listed[: listed.rindex(",", 0, RULES_LIMIT)]
        about = ObjectRef("v1", "Namespace", namespace, namespace, self._uid_of(namespace))
        text = f"rules {list_names(names_)}: {_common_text(list(rules.values()))}"
        self._recorder.record(about, reason, text, {names.ANN_RULES: listed})


def _text(said: str | Burst) -> str:
    return said if isinstance(said, str) else said.to_string()


def _common_text(said: Sequence[str | Burst]) -> str:
    """The writes of all, or the message where all have the same one."""
    first, *others = said
    if isinstance(first, Burst):
        for other in others:
            if isinstance(other, Burst):
                first.merge(other)
    same = isinstance(first, Burst) or all(other == first for other in others)
    return _text(first) if same else "see the status of each"


@dataclass(slots=True, eq=False)
class KindView:
    """The copies of one kind that exist in the cluster."""

    resource: Resource
    reader: RecordReader
    copies: Copies
    registration: Registration
    writing: dict[Name, bool] = field(default_factory=dict)
    """Copies whose write isn't answered yet; whether the watch has delivered a version meanwhile,
    which is usually the one that is being written."""

    @property
    def synced(self) -> bool:
        """Whether the absence of a copy can be relied on."""
        return self.registration.synced

    def read(self, answer: Mapping[str, Any]) -> CopyRecord:
        """Read the answer to a write, unless the watch has delivered this version meanwhile."""
        metadata = answer["metadata"]
        name = metadata["namespace"], metadata["name"]
        known = self.copies.get(name) if self.writing.get(name) else None
        if known is not None and known.resource_version == metadata["resourceVersion"]:
            return known
        return self.reader(answer)


class RuleMetrics:
    """Each rule's last reason and counts, so that a change updates the sums by the difference."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._known: dict[RuleKey, tuple[str, CopyCounts]] = {}

    def note(self, key: RuleKey, reason: str, copies: CopyCounts = NO_COPIES) -> None:
        """A rule was reconciled: the reason of its Ready condition, and its copies."""
        before = self._known.get(key)
        if before == (reason, copies):
            return
        self.forget(key)
        self._known[key] = (reason, copies)
        self._move(reason, copies, 1)

    def forget(self, key: RuleKey) -> None:
        """A rule was deleted, or is not this operator's any more."""
        known = self._known.pop(key, None)
        if known is not None:
            self._move(*known, -1)

    def _move(self, reason: str, copies: CopyCounts, sign: int) -> None:
        self._metrics.rules.labels(reason).inc(sign)
        for state, count in copies.to_dict().items():
            self._metrics.copies.labels(state).inc(sign * count)


Clock = Callable[[], datetime]
"""The wall clock, timezone-aware; for times in status and messages."""


@dataclass(slots=True, eq=False, kw_only=True)
class CopyContext:
    """Shared state and clients of the reconcilers."""

    client: KubeClient
    informers: InformerFactory
    discovery: Discovery
    namespaces: Namespaces
    rules: RuleCache
    queue: WorkQueue[Key]
    recorder: EventRecorder
    settings: Settings
    metrics: Metrics
    clock: Clock
    monotonic: Callable[[], float] = time.monotonic
    timing: CopyTiming = DEFAULT_TIMING
    namespace_watch: Registration | None = None
    sealer: Sealer | None = None
    kinds: dict[str, KindView] = field(default_factory=dict)
    """The views of copies by their resource's key."""
    index: BindingIndex = field(default_factory=BindingIndex)
    rule_states: dict[RuleKey, RuleState] = field(default_factory=dict)
    problems: dict[CopyKey, Failure] = field(default_factory=dict)
    """Copies whose write failed, with the reason."""
    rule_metrics: RuleMetrics = field(init=False)
    reports: RuleReports = field(init=False)
    """What the next Events say of rules."""
    shares: SourceShares = field(init=False)
    changes: Changes = field(default_factory=Changes)
    """Changes of namespaces and sources that aren't processed yet."""
    notices: NoticeLimits = field(default_factory=NoticeLimits)
    """The Events in target namespaces."""
    isolated: Isolated = field(default_factory=Isolated)
    """Where long texts are compiled."""
    drift: CopyDriftTracker = field(init=False)
    """Copies that have to be read whole."""
    fights: FightTracker = field(init=False)
    """Copies that others change back each time."""
    unmanaged: UnmanagedObjects = field(init=False)
    """Objects that aren't ours at the targets of copies."""
    watches_unmanaged: bool = True
    """Whether unmanaged objects are watched; a dry run reads each once."""
    knows_rules: Callable[[str], bool] = lambda _namespace: True
    """Whether all rules of a namespace are known, so that one that isn't known doesn't exist."""

    def __post_init__(self) -> None:
        self.shares = SourceShares(self.queue.add)
        self.drift = CopyDriftTracker(self.monotonic, self.timing)
        self.fights = FightTracker(self.monotonic, self.timing)
        informers = self.informers if self.watches_unmanaged else None
        self.unmanaged = UnmanagedObjects(
            informers, self.queue.add_after, self.monotonic, self.timing
        )
        self.rule_metrics = RuleMetrics(self.metrics)

        def uid_of(namespace: str) -> str:
            known = self.namespaces.get(namespace)
            return known.uid if known else ""

        self.reports = RuleReports(self.recorder, uid_of, self.monotonic)

    @property
    def namespaces_synced(self) -> bool:
        """Whether the absence of a namespace can be relied on."""
        return self.namespace_watch is not None and self.namespace_watch.synced

    def record(self, key: CopyKey) -> CopyRecord | None:
        """The copy that exists at a key, if its kind is watched."""
        view = self.kinds.get(key.kind)
        return view.copies.get((key.namespace, key.name)) if view else None

    def has_copy(self, owner: str, key: CopyKey) -> bool:
        """Whether a rule has a copy there that isn't being deleted, alone or with its namespace."""
        namespace, record = self.namespaces.get(key.namespace), self.record(key)
        if record is None or record.deleting or record.owner != owner:
            return False
        return namespace is not None and not namespace.terminating

    # --- planning --------------------------------------------------------------------------------

    def plan(self, key: CopyKey, unmanaged: Unmanaged | None = None) -> CopyDecision[CopyRequest]:
        """Plan a target from the current state."""
        namespace = self.namespaces.get(key.namespace)
        record = self.record(key)
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
                satisfied=self.unmanaged.satisfied(key),
                is_source=self.index.is_source(key.kind, key.namespace, key.name),
                contested=self.fights.wait(key) > 0,
            )
        )

    def awaited_source(self, key: CopyKey, unmanaged: Unmanaged) -> Rule | None:
        """The rule whose source has this key, where its watch hasn't delivered the object yet."""
        resource = self.kinds[key.kind].resource
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
        if state.phase is RulePhase.DELETING or key in state.deletions.condemned:
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
        self.queue.add(state.key, Priority.URGENT)  # sets the status, and resumes when allowed
        return False

    def state_of(self, owner: str) -> RuleState | None:
        """The state of the rule that a copy's annotation names, if it is served."""
        rule = self.rules.by_owner(owner)
        return self.rule_states.get(rule.key) if rule else None

    # --- requeueing ------------------------------------------------------------------------------

    def touch(self, owner: str, *, failed: bool = False) -> None:
        """A rule's copies changed: its status may have to be written, soon where one failed."""
        if state := self.state_of(owner):
            now, settling = self.monotonic(), self.timing.settling
            state.note_change(now + (settling if failed else self.timing.unreported))
            due = max(state.next_status, state.next_summary, now + settling / 2)
            priority = Priority.STATUS if state.report_by > due + settling else Priority.NORMAL
            self.queue.add_after(state.key, due - now, priority)

    def requeue_all_rules(self) -> None:
        """Reconcile every rule again now."""
        for rule in self.rules:
            self.queue.add(rule.key, Priority.RESYNC)

    def owned(self, owner: str) -> Iterator[CopyKey]:
        """All copies of a rule, of every kind."""
        for view in self.kinds.values():
            for name in list(view.copies.owned_by(owner)):
                yield CopyKey(view.resource.key, *name)

    def count_owned(self, owner: str) -> int:
        """How many copies a rule has, of every kind."""
        return sum(len(view.copies.owned_by(owner)) for view in self.kinds.values())
