"""What to do about one target object: one pure function, one named answer.

Its input is every request for the target, whoever owns the live object, and what is known of both;
its output is one decision. Because it decides for the target as a whole, two rules can't rewrite
each other's copies.

Also whether the deletions of an edited rule need a confirmation (``spec.maxDelete``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from copyrator.api import names
from copyrator.api.keys import CopyKey
from copyrator.api.rule_spec import ConflictPolicy, DeletionPolicy
from copyrator.copies.targets.records import NO_EXTRAS, CopyRecord, Extras


class Action(StrEnum):
    """The action on the target."""

    NOTHING = "Nothing"
    CREATE = "Create"
    REPLACE = "Replace"
    ADOPT = "Adopt"
    """Replace an object that isn't ours."""
    DELETE = "Delete"
    RELEASE = "Release"
    """Remove our marks and leave the object."""
    RESEAL = "Reseal"
    """Read an object that has the rule's marks and no valid seal; reseal it if it is as the rule
    wants it, or if the rule's author requested it.
    """
    ASK_OWNER = "AskOwner"
    """Its rule has to decide about its deletion, with all its copies in view."""


class Cause(StrEnum):
    """The reason of a decision."""

    UNWANTED = "Unwanted"
    UP_TO_DATE = "UpToDate"
    MISSING = "Missing"
    CHANGED = "Changed"
    """The wanted content changed."""
    DRIFTED = "Drifted"
    """Another client changed the copy."""
    TAKEN_OVER = "TakenOver"
    """Its former rule released it."""
    ABANDONED = "Abandoned"
    """Its rule doesn't exist any more and no rule requests it: not ours to delete."""
    OWNED_BY_OTHER = "OwnedByOther"
    UNMANAGED = "Unmanaged"
    SATISFIED = "Satisfied"
    """An object that isn't ours has the wanted content: it isn't changed, and counts as right."""
    UNSEALED = "Unsealed"
    """It has the rule's marks, but no valid seal: a lost key, or a forgery."""
    IS_SOURCE = "IsSource"
    """A rule copies this object: it is never overwritten."""
    NAMESPACE_CLOSED = "NamespaceClosed"
    """Terminating or deleted."""
    BEING_DELETED = "BeingDeleted"
    PAUSED = "Paused"
    BROKEN = "Broken"
    """The wanted content can't be rendered (template, transform)."""
    ROLLOUT = "Rollout"
    """Its rule changes copies in steps, and the step of this copy hasn't begun."""
    CONTESTED = "Contested"
    """Others change the copy back each time: it is written after a pause."""
    PENDING = "Pending"
    """The wanted content isn't known before the template's sources are read."""


class OwnerState(StrEnum):
    """What is known about the rule that owns a copy but doesn't request it (now)."""

    GONE = "Gone"
    """No such rule exists."""
    KEEPS = "Keeps"
    """It exists, and whether it wants the copy is unknown: leave the copy alone."""
    CONDEMNED = "Condemned"
    """It released the copy, and its reconcile decided this deletion on a complete view."""
    RELEASED = "Released"
    """It doesn't want the copy any more; its reconcile hasn't decided yet."""


Terms = tuple[bytes, ConflictPolicy]
"""The wanted digest and the conflict policy: what an unmanaged object was compared with."""


class Want(Protocol):
    """What the planner needs of a request for a copy."""

    @property
    def owner(self) -> str:
        """``namespace/name`` of the rule."""

    @property
    def paused(self) -> bool:
        """Whether nothing is written: suspended, in Plan mode, or not everything is known."""

    @property
    def broken(self) -> bool:
        """The wanted content can't be rendered (template, transform)."""

    @property
    def pending(self) -> bool:
        """The wanted content isn't known before the template's sources are read."""

    @property
    def on_conflict(self) -> ConflictPolicy:
        """What to do about an unmanaged object."""

    @property
    def terms(self) -> Terms:
        """The digest that an unmanaged object must have to count as ready; the conflict policy."""

    def is_right(self, record: CopyRecord) -> bool:
        """Whether a copy is as wanted."""

    def is_old(self, record: CopyRecord) -> bool:
        """Whether a copy has another digest than the wanted one; else, others changed it."""

    def waits(self, record: CopyRecord) -> bool:
        """Whether a copy that isn't right waits for a step of its rule's rollout."""

    def adopts(self, unmanaged: Unmanaged) -> bool:
        """Whether ``onConflict: Adopt``, or the old form, adopts this object."""


@dataclass(frozen=True, slots=True)
class Unmanaged:
    """The metadata of an object that isn't ours, as last read."""

    uid: str
    resource_version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    metadata: Mapping[str, Any]
    extras: Extras = NO_EXTRAS
    """The metadata that it keeps when it is adopted."""


W = TypeVar("W", bound=Want)


class TargetState(msgspec.Struct, Generic[W], frozen=True):
    """The known state of one target."""

    requests: Sequence[W]
    """The requests for it: the older rule first; within a rule the source listed first."""
    existing: CopyRecord | None
    """Our copy there, or an object that has our marks and no valid seal."""
    open: bool
    """Its namespace exists and isn't Terminating."""
    owner_state: OwnerState = OwnerState.GONE
    """About ``existing``'s owner, where it has no request here."""
    deletion: DeletionPolicy = DeletionPolicy.DELETE
    """That owner's policy."""
    unmanaged: Unmanaged | None = None
    """The object that a read found instead of our copy."""
    satisfied: Terms | None = None
    """The terms that such an object was found to fulfil, by this read or an earlier one."""
    is_source: bool = False
    contested: bool = False
    """Others change the copy back each time, and the pause before the next write isn't over."""


class CopyDecision(msgspec.Struct, Generic[W], frozen=True):
    """The decision. ``winner`` is the request that gets the target, or would get it."""

    act: Action
    why: Cause
    winner: W | None = None


_AFTER_PAUSE: Final = (Action.CREATE, Action.REPLACE, Action.ADOPT, Action.RESEAL)
"""What a contested copy waits for; a deletion doesn't wait."""


def plan_copy(now: TargetState[W]) -> CopyDecision[W]:
    """Plan one target."""
    plan = _plan_now(now)
    if now.contested and plan.act in _AFTER_PAUSE:
        return CopyDecision(Action.NOTHING, Cause.CONTESTED, plan.winner)
    return plan


def _plan_now(now: TargetState[W]) -> CopyDecision[W]:
    """The plan without a pause."""
    if not now.open:
        return CopyDecision(Action.NOTHING, Cause.NAMESPACE_CLOSED)
    existing = now.existing
    if existing is None or not existing.owner:
        marks = existing.marks if existing else ""
        marked = _first(now.requests, lambda request: request.owner == marks)
        return _plan_free(now) if marked is None else _plan_unsealed(now, marked)
    keeper = _first(now.requests, lambda request: request.owner == existing.owner)
    if existing.deleting:
        return CopyDecision(Action.NOTHING, Cause.BEING_DELETED, keeper)
    if keeper is not None:
        return _plan_kept(keeper, existing)
    return _plan_release(now)


def _plan_free(now: TargetState[W]) -> CopyDecision[W]:
    """Nothing exists there that is proved to be ours."""
    winner = _first_active(now.requests)
    if winner is None:
        why = Cause.PAUSED if now.requests else Cause.UNWANTED
        return CopyDecision(Action.NOTHING, why, next(iter(now.requests), None))
    if now.is_source:
        return CopyDecision(Action.NOTHING, Cause.IS_SOURCE)
    if winner.broken or winner.pending:
        return _unknown(winner)
    return _plan_unowned(now, winner)


def _plan_unowned(now: TargetState[W], winner: W) -> CopyDecision[W]:
    """A request may have the target, unless an object that isn't ours is to stay there."""
    unmanaged = now.unmanaged
    if unmanaged and names.LABEL_GUARD in unmanaged.labels:  # of a Job; whoever edits it frees it
        return CopyDecision(Action.NOTHING, Cause.UNMANAGED, winner)
    if unmanaged and (winner.on_conflict is ConflictPolicy.OVERWRITE or winner.adopts(unmanaged)):
        return CopyDecision(Action.ADOPT, Cause.UNMANAGED, winner)
    if now.satisfied == winner.terms:
        return CopyDecision(Action.NOTHING, Cause.SATISFIED, winner)
    if unmanaged is None:
        return CopyDecision(Action.CREATE, Cause.MISSING, winner)
    return CopyDecision(Action.NOTHING, Cause.UNMANAGED, winner)


def _plan_unsealed(now: TargetState[W], marked: W) -> CopyDecision[W]:
    """An object at the target of a rule has that rule's marks, and no valid seal."""
    assert now.existing is not None
    if now.existing.deleting:
        return CopyDecision(Action.NOTHING, Cause.BEING_DELETED, marked)
    if now.is_source:
        return CopyDecision(Action.NOTHING, Cause.IS_SOURCE)
    if marked.broken:
        return _unknown(marked)
    if marked.paused:
        return CopyDecision(Action.NOTHING, Cause.PAUSED, marked)
    if marked.pending:
        return _unknown(marked)
    return CopyDecision(Action.RESEAL, Cause.UNSEALED, marked)


def _plan_release(now: TargetState[W]) -> CopyDecision[W]:
    """A copy exists whose owner doesn't request it."""
    if now.owner_state is OwnerState.KEEPS:
        return CopyDecision(Action.NOTHING, Cause.OWNED_BY_OTHER)
    successor = _first_active(now.requests)
    if successor is not None and (successor.broken or successor.pending):
        return _unknown(successor)
    if successor is not None:
        return CopyDecision(Action.REPLACE, Cause.TAKEN_OVER, successor)
    if now.owner_state is OwnerState.GONE:
        return CopyDecision(Action.NOTHING, Cause.ABANDONED)
    if now.owner_state is OwnerState.RELEASED:
        return CopyDecision(Action.ASK_OWNER, Cause.UNWANTED)
    released = now.deletion is DeletionPolicy.ORPHAN
    return CopyDecision(Action.RELEASE if released else Action.DELETE, Cause.UNWANTED)


def _plan_kept(keeper: W, existing: CopyRecord) -> CopyDecision[W]:
    if keeper.broken or keeper.pending:
        return _unknown(keeper)
    if keeper.is_right(existing):
        return CopyDecision(Action.NOTHING, Cause.UP_TO_DATE, keeper)
    if keeper.paused:
        return CopyDecision(Action.NOTHING, Cause.PAUSED, keeper)
    if keeper.waits(existing):
        return CopyDecision(Action.NOTHING, Cause.ROLLOUT, keeper)
    why = Cause.CHANGED if keeper.is_old(existing) else Cause.DRIFTED
    return CopyDecision(Action.REPLACE, why, keeper)


def _unknown(request: W) -> CopyDecision[W]:
    """Nothing is done while the wanted content isn't known."""
    return CopyDecision(Action.NOTHING, Cause.BROKEN if request.broken else Cause.PENDING, request)


def _first_active(requests: Sequence[W]) -> W | None:
    return _first(requests, lambda request: not request.paused)


def _first(requests: Sequence[W], fits: Callable[[W], bool]) -> W | None:
    for request in requests:
        if fits(request):
            return request
    return None


FEW_DELETIONS: Final = 20
"""A deletion of no more copies than this is never a mass deletion."""


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """An edit whose deletions wait for a confirmation."""

    generation: int
    """Of the rule that was edited."""
    copies: frozenset[CopyKey] | None
    """The copies that it would delete; None: unknown, after a restart."""
    had: int
    """Copies that the rule had before, outside Terminating namespaces."""


def judge_edit(
    generation: int,
    deleted: AbstractSet[CopyKey],
    had: int,
    max_delete: int,
    earlier: Unconfirmed | None = None,
) -> Unconfirmed | None:
    """Whether an edit's deletions need a confirmation; None: they don't.

    Args:
        generation: of the edited rule.
        deleted: the copies that it would delete.
        had: the copies that the rule had before the edit, outside Terminating namespaces.
        max_delete: percentage that an edit may delete without a confirmation; 100 allows all.
        earlier: the unconfirmed edit before this one.
    """
    copies = frozenset(deleted)
    if _exceeds(len(copies), had, max_delete):
        return Unconfirmed(generation, copies, had)
    if earlier is not None:
        still = copies if earlier.copies is None else copies & earlier.copies
        if _exceeds(len(still), earlier.had, max_delete):
            return Unconfirmed(generation, copies, earlier.had)
    return None


def _exceeds(deleted: int, had: int, max_delete: int) -> bool:
    return max_delete < 100 and deleted > FEW_DELETIONS and 100 * deleted > max_delete * had
