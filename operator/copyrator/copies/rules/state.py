"""A rule while it is served: its spec, compiled once for a generation, and its state.

The transitions of the state are methods here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import InitVar, dataclass, field
from enum import Enum
from typing import Protocol

from copyrator.api.conditions import ReadyCondition
from copyrator.api.keys import CopyKey, RuleKey
from copyrator.api.rule_spec import Mode, RuleSpec
from copyrator.api.rule_status import RuleFacts
from copyrator.copies.rules.rules import Rule
from copyrator.copies.rules.trace import RuleTrace, Trigger
from copyrator.copies.seal.sealing import Sealer
from copyrator.copies.targets.namespaces import TargetSet
from copyrator.copies.targets.planning import Unconfirmed
from copyrator.copies.template.rendering import NO_TEXTS, Text, Tree
from copyrator.kube.watch.informers import Registration


class Barrier(Protocol):
    """Where the changed content of a rule's copies is written, if not everywhere at once."""

    def close(self) -> None:
        """Write no changed content until the rule's reconcile has decided where."""

    def holds(self, namespace: str, *, old: bool) -> bool:
        """Whether a copy there isn't written now: an `old` one, or one that was edited."""

    def cause(self) -> tuple[Trigger, tuple[str, ...]] | None:
        """The reason that a copy is changed now, with what it names; None: another one."""

    def blocked(self, copies: str) -> ReadyCondition | None:
        """Why nothing more is changed; `copies` is how many have the new content."""

    @property
    def progress(self) -> str:
        """How far the change is, for messages; empty where none is in progress."""

    def describe(self, facts: RuleFacts) -> RuleFacts:
        """What the status says of it."""


@dataclass(slots=True, eq=False)
class CompiledRule:
    """What a rule renders copies from: its spec, compiled once for a generation.

    Raises:
        TemplateError: a text that isn't among the ``texts`` isn't valid Jinja2.
    """

    rule: Rule
    spec: RuleSpec
    resource: str
    """The key of the copies' resource."""
    targets: TargetSet
    sealer: Sealer
    texts: InitVar[Mapping[str, Text]] = NO_TEXTS
    name: Text | None = field(init=False)
    template: Tree | None = field(init=False)
    active: bool = False
    """Everything that decides the precedence is known, and nothing forbids the rule to write."""
    barrier: Barrier | None = None
    """Where changed content may be written; None: everywhere."""
    _mark: bytes = field(default=b"", init=False, repr=False)

    def __post_init__(self, texts: Mapping[str, Text]) -> None:
        named, template = self.spec.transform.name, self.spec.template
        self.name = (texts.get(named) or Text(named)) if named else None
        self.template = Tree(template.body, texts) if template else None

    @property
    def paused(self) -> bool:
        """Whether nothing is written (now): suspended, in Plan mode, or not active yet."""
        return not self.active or self.spec.suspend or self.spec.mode is Mode.PLAN

    @property
    def template_mark(self) -> bytes:
        """A keyed hash of the template as it is written."""
        if not self._mark and self.spec.template is not None:
            self._mark = self.sealer.digest({"template": self.spec.template.body})
        return self._mark

    def close_barrier(self) -> None:
        """Write no changed content until the rule's reconcile has decided where."""
        if self.barrier is not None:
            self.barrier.close()

    @property
    def follows_namespaces(self) -> bool:
        """Whether the copies' names depend on the target namespace."""
        if self.spec.sources and self.template is not None:
            return "namespace" in self.template.names
        return self.template is not None or (
            self.name is not None and "namespace" in self.name.names
        )


class RulePhase(Enum):
    """What a rule may do."""

    INCOMPLETE = "incomplete"
    """Not everything is known (any more): nothing is deleted."""
    FROZEN = "frozen"
    """It isn't valid, not trusted, suspended …: its copies aren't changed."""
    SERVING = "serving"
    DELETING = "deleting"


@dataclass(slots=True, eq=False)
class DeletionState:
    """Which of a rule's copies are deleted, and which deletions wait (deletions.py decides).

    Attributes:
        condemned: copies whose deletion was decided on a complete view; no others are deleted.
        confirmed: the last generation whose deletions are allowed; 0: none is known.
        unconfirmed: the last edit whose deletions wait for a confirmation.
        had: copies that the rule had before this generation wrote anything.
        recalled: whether the decisions of an earlier process were read from the status.
    """

    condemned: set[CopyKey] = field(default_factory=set)
    confirmed: int = 0
    unconfirmed: Unconfirmed | None = None
    had: int | None = None
    recalled: bool = False
    _lists_before: dict[Registration, int] | None = None
    """Watches that list again before a mass deletion, with their count of lists before that."""
    _edited: bool = False
    """The deletions of an edit have just been allowed."""

    def spare(self) -> None:
        """Decide that no copy is deleted."""
        self.condemned = set()
        self._lists_before = None

    def confirm(self, generation: int) -> None:
        """Allow the deletions of an edit."""
        self.confirmed, self.unconfirmed, self._edited = generation, None, True

    def recall(self, confirmed: int, unconfirmed: Unconfirmed | None) -> None:
        """Restore the decision of an earlier process; it doesn't count as a new edit."""
        self.confirmed, self.unconfirmed, self.recalled = confirmed, unconfirmed, True

    def count_before(self, had: int) -> int:
        """The copies before this generation wrote anything; `had` where none were counted yet."""
        if self.had is None:
            self.had = had
        return self.had

    def is_unconfirmed(self, generation: int) -> bool:
        """Whether the deletions of this generation wait for a confirmation."""
        return self.unconfirmed is not None and self.unconfirmed.generation == generation

    def take_edit(self) -> bool:
        """Whether the deletions of an edit were allowed since the last call."""
        edited, self._edited = self._edited, False
        return edited

    def listed_again(self, watches: Sequence[Registration]) -> bool:
        """Whether all watches have listed again since this was first called; that starts it."""
        if self._lists_before is None:
            self._lists_before = {watch: watch.reflector.lists for watch in watches}
            for watch in watches:
                watch.reflector.relist()
            return False
        return all(
            watch.synced and watch.reflector.lists > before
            for watch, before in self._lists_before.items()
        )


@dataclass(slots=True, eq=False)
class SyncLag:
    """How long the copies took to follow their source, in loop time."""

    changed_at: float | None = None
    """The first change of a source that not all copies have yet."""
    wrote_at: float = -math.inf
    """The last write of a copy."""
    _open_writes: int = 0

    def change(self, now: float) -> None:
        """Record the first change of a source since all copies were right."""
        if self.changed_at is None:
            self.changed_at = now

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A copy is being written: its watch may deliver it before the response arrives."""
        self._open_writes += 1
        try:
            yield
        finally:
            self._open_writes -= 1

    def is_writing(self, now: float, settling: float) -> bool:
        """Whether a copy is being written, or was within the last `settling` seconds."""
        return self._open_writes > 0 or now - self.wrote_at < settling

    def take(self) -> float | None:
        """Seconds from a source's change to the last write; None without such a write.

        To be called when no copy is due.
        """
        changed = self.changed_at
        if changed is None or self._open_writes:
            return None
        self.changed_at = None
        return self.wrote_at - changed if self.wrote_at >= changed else None


@dataclass(slots=True, eq=False)
class RuleState:
    """One rule that is served. Watches and writes report changes here, too.

    Attributes:
        phase: what it may do now.
        compiled: what makes its copies; None while no version of its spec is served.
        generation: of the spec that `compiled` was made from.
        summarized: the last generation of which a summary completed while SERVING; 0: none.
        sources: the watches of its source, one for each namespace.
        has_remotes: whether other clusters were asked for, for some of these.
        barrier: that of `compiled`, or of the version before it.
        trace: what caused the latest writes, for the log and the Events.
        found: the last condition, as of a rule that isn't suspended.
        dropped: fields of copies that the API server has dropped; None: this version of the spec
            has written nothing yet.
        next_status: loop time before which no status is written.
        next_fault: loop time before which it isn't reported that watches fail.
        report_by: loop time after which the status isn't delayed any more; inf: it is up to date.
        next_summary: loop time before which changes of copies cause no summary.
        watch_health: whether each of its watches was complete when that was last looked at: when it
            was judged, or queued for a change of this.
    """

    key: RuleKey
    phase: RulePhase = RulePhase.INCOMPLETE
    compiled: CompiledRule | None = None
    generation: int = 0
    summarized: int = 0
    sources: list[Registration] = field(default_factory=list)
    has_remotes: bool = False
    deletions: DeletionState = field(default_factory=DeletionState)
    lag: SyncLag = field(default_factory=SyncLag)
    barrier: Barrier | None = None
    trace: RuleTrace = field(default_factory=RuleTrace)
    found: ReadyCondition | None = None
    dropped: set[str] | None = None
    next_status: float = 0.0
    next_fault: float = 0.0
    report_by: float = math.inf
    next_summary: float = 0.0
    watch_health: tuple[bool, ...] = ()
    _request: str | None = None
    """The last value of the requestedAt annotation that was handled."""
    _reseal: str | None = None
    """The last value of the resealAt annotation that was handled."""

    def begin(self, compiled: CompiledRule, generation: int) -> None:
        """Serve a new version of the spec. Nothing is deleted until a summary was complete."""
        self.phase = RulePhase.INCOMPLETE
        self.compiled = compiled
        self.generation = generation
        known = compiled.rule.status
        same = known.observed_generation == generation
        self.dropped = set(known.dropped_fields) if same else None
        self.deletions.had = None
        self.deletions.spare()

    def pause(self) -> None:
        """Write nothing more until `resume`, whatever the phase."""
        if self.compiled is not None:
            self.compiled.active = False

    def freeze(self) -> None:
        """Write nothing more; the next reconcile decides anew."""
        self.pause()
        self.phase = RulePhase.FROZEN

    def resume(self) -> None:
        """Write what the phase allows."""
        if self.compiled is not None:
            self.compiled.active = True

    def replaced(self) -> None:
        """Another rule has the name now: compile its spec, whatever its generation."""
        self.generation = 0
        decided = self.deletions
        decided.confirmed, decided.unconfirmed, decided.recalled = 0, None, False
        self.barrier = None

    def end(self) -> None:
        """Serve no version of the spec any more."""
        self.compiled = None
        self.generation = 0
        self.deletions.spare()
        self.release_sources()

    def release_sources(self) -> None:
        """End the watches of its sources."""
        released, self.sources = self.sources, []
        for registration in released:
            registration.release()

    def take_request(self, requested: str | None, handled: object) -> bool:
        """Whether a request is new; `handled` is the one that the status echoes."""
        if requested in (None, self._request, handled):
            return False
        self._request = requested
        return True

    def take_reseal(self, requested: str | None) -> bool:
        """Whether a reseal request is new."""
        if requested is None or requested == self._reseal:
            return False
        self._reseal = requested
        return True

    def delay_status(self, until: float) -> None:
        """Write no status before this loop time."""
        self.next_status = max(self.next_status, until)

    def await_copies(self, now: float, settling: float, *, queued: bool) -> None:
        """Delay the status while copies are queued or written: their result is the better one."""
        if queued or self.lag.is_writing(now, settling):
            self.delay_status(min(now + settling, self.report_by))

    def note_change(self, by: float) -> None:
        """Something changed that must be in the status at this loop time."""
        self.report_by = min(self.report_by, by)

    def wrote(self, now: float, dropped: set[str] | None = None) -> None:
        """A copy was written, or deleted; `dropped` is what the server has dropped of it."""
        self.lag.wrote_at = now
        if dropped is not None:
            self.dropped = (self.dropped or set()) | dropped


class StoppedError(Exception):
    """The rule can't be served (now); without a condition, its status isn't changed."""

    def __init__(
        self,
        condition: ReadyCondition | None,
        again: float | None = None,
        facts: RuleFacts | None = None,
        *,
        freezes: bool = False,
    ) -> None:
        super().__init__(condition and condition.message)
        self.condition = condition
        self.again = again
        self.facts = facts or RuleFacts()
        self.freezes = freezes
        """Whether its copies aren't changed until it can be served again."""
