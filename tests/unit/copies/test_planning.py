"""Which writes a reconciliation plans."""

import asyncio
import gc
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.long import LONG
from tests.replacing import replace

from copyrator.api import names
from copyrator.api.keys import CopyKey
from copyrator.api.rule_spec import ConflictPolicy, DeletionPolicy, Targets
from copyrator.api.selectors import Globs, LabelSelector
from copyrator.copies.targets.namespaces import Namespace, Namespaces
from copyrator.copies.targets.planning import (
    Action,
    Cause,
    CopyDecision,
    OwnerState,
    TargetState,
    Unconfirmed,
    Unmanaged,
    judge_edit,
    plan_copy,
)
from copyrator.copies.targets.records import Extras
from copyrator.workqueue.fairness import TimeSlice

# --- The one decision about a target: a table of cases, and properties over all of them -----------


MANY = 5 * settings.default.max_examples if LONG else 100


@dataclass(frozen=True)
class Copy:
    """What stands there, as far as the planner looks."""

    owner: str
    content: str = "right"
    deleting: bool = False
    marks: str = ""
    extras: Extras = field(default_factory=Extras)


@dataclass(frozen=True)
class Request:
    """A rule's request for a copy."""

    owner: str
    content: str | None = "right"
    paused: bool = False
    on_conflict: ConflictPolicy = ConflictPolicy.SKIP
    adopting: bool = False
    pending: bool = False
    waiting: bool = False

    @property
    def broken(self):
        return self.content is None

    @property
    def terms(self):
        return (self.content or "").encode(), self.on_conflict

    def is_right(self, record):
        return record.content == self.content

    def waits(self, record):
        return self.waiting and record.owner == self.owner

    def is_old(self, record):
        return record.content != "drifted"

    def adopts(self, unmanaged):
        return self.adopting and unmanaged in (UNMANAGED, GUARD_LIST)


A, B = Request("a"), Request("b")
PAUSED, BROKEN = Request("a", paused=True), Request("a", content=None)
OVERWRITING = Request("a", on_conflict=ConflictPolicy.OVERWRITE)
ADOPTING = Request("a", adopting=True)
OTHER = Request("a", content="new")
ADOPT = Request("a", on_conflict=ConflictPolicy.ADOPT)
"""Of the policy, but what stands there is no tool's copy."""
LATER = Request("a", pending=True)
"""Not rendered yet."""
TURN = Request("a", waiting=True)
"""Its rollout hasn't come to the target."""
PAUSED_TURN = Request("a", waiting=True, paused=True)
UNMANAGED = Unmanaged("uid", "1", {}, {}, {})
GUARD_LIST = Unmanaged("uid", "1", {names.LABEL_GUARD: "shop-deploy-0123456789"}, {}, {})


def plan(requests=(), existing=None, **more):
    return plan_copy(TargetState(requests=requests, existing=existing, **{"open": True, **more}))


NOTHING, CREATE, REPLACE = Action.NOTHING, Action.CREATE, Action.REPLACE
SATISFIED = {"satisfied": A.terms}
CONDEMNED = {"owner_state": OwnerState.CONDEMNED}
ORPHANED = {**CONDEMNED, "deletion": DeletionPolicy.ORPHAN}
GONE, RELEASED = {"owner_state": OwnerState.GONE}, {"owner_state": OwnerState.RELEASED}
KEEPS = {"owner_state": OwnerState.KEEPS}


def of(*requests, **more):
    """A situation with these requests; `marks` and `copy` say what stands there."""
    marks, copy = more.pop("marks", None), more.pop("copy", None)
    existing = Copy("", marks=marks) if marks else copy
    return {"requests": list(requests), "existing": existing, **more}


@pytest.mark.parametrize(
    ("situation", "act", "why", "winner"),
    [
        # Nothing stands there.
        (of(), NOTHING, Cause.UNWANTED, None),
        (of(A), CREATE, Cause.MISSING, A),
        (of(A, B), CREATE, Cause.MISSING, A),
        (of(PAUSED), NOTHING, Cause.PAUSED, PAUSED),
        (of(PAUSED, B), CREATE, Cause.MISSING, B),
        (of(A, open=False), NOTHING, Cause.NAMESPACE_CLOSED, None),
        (of(BROKEN), NOTHING, Cause.BROKEN, BROKEN),
        (of(A, is_source=True), NOTHING, Cause.IS_SOURCE, None),
        # A rule that can't be rendered writes nothing, whosever the copy is.
        (of(BROKEN, copy=Copy("b"), **GONE), NOTHING, Cause.BROKEN, BROKEN),
        (of(BROKEN, marks="a"), NOTHING, Cause.BROKEN, BROKEN),
        # One that changes its copies in steps writes what doesn't exist, and waits with the rest.
        (of(TURN), CREATE, Cause.MISSING, TURN),
        (of(TURN, copy=Copy("a")), NOTHING, Cause.UP_TO_DATE, TURN),
        (of(TURN, copy=Copy("a", "old")), NOTHING, Cause.ROLLOUT, TURN),
        (of(TURN, copy=Copy("a", "drifted")), NOTHING, Cause.ROLLOUT, TURN),
        (of(PAUSED_TURN, copy=Copy("a", "old")), NOTHING, Cause.PAUSED, PAUSED_TURN),
        (of(TURN, copy=Copy("b"), **RELEASED), REPLACE, Cause.TAKEN_OVER, TURN),
        (of(TURN, marks="a"), Action.RESEAL, Cause.UNSEALED, TURN),
        # ... nor does one whose sources aren't read yet, and no other rule gets the target.
        (of(LATER, B), NOTHING, Cause.PENDING, LATER),
        (of(LATER, copy=Copy("a")), NOTHING, Cause.PENDING, LATER),
        (of(LATER, copy=Copy("b")), NOTHING, Cause.PENDING, LATER),
        (of(LATER, marks="a"), NOTHING, Cause.PENDING, LATER),
        (of(LATER, unmanaged=UNMANAGED), NOTHING, Cause.PENDING, LATER),
        # Something unmanaged does.
        (of(A, unmanaged=UNMANAGED), NOTHING, Cause.UNMANAGED, A),
        # ... that was found to hold what is wanted, by this look or an earlier one.
        (of(A, **SATISFIED), NOTHING, Cause.SATISFIED, A),
        (of(A, unmanaged=UNMANAGED, **SATISFIED), NOTHING, Cause.SATISFIED, A),
        # ... but something else is wanted now, or under another policy.
        (of(OTHER, **SATISFIED), CREATE, Cause.MISSING, OTHER),
        (of(ADOPT, **SATISFIED), CREATE, Cause.MISSING, ADOPT),
        # ... and a rule that takes over takes over what is as wanted, too.
        (of(ADOPTING, unmanaged=UNMANAGED, **SATISFIED), Action.ADOPT, Cause.UNMANAGED, ADOPTING),
        (of(A, is_source=True, **SATISFIED), NOTHING, Cause.IS_SOURCE, None),
        (of(PAUSED, **SATISFIED), NOTHING, Cause.PAUSED, PAUSED),
        (of(**SATISFIED), NOTHING, Cause.UNWANTED, None),
        (of(OVERWRITING, unmanaged=UNMANAGED), Action.ADOPT, Cause.UNMANAGED, OVERWRITING),
        (of(ADOPTING, unmanaged=UNMANAGED), Action.ADOPT, Cause.UNMANAGED, ADOPTING),
        (of(OVERWRITING, unmanaged=UNMANAGED, is_source=True), NOTHING, Cause.IS_SOURCE, None),
        # The list of a Job's operations isn't overwritten, whatever the rule says.
        (of(OVERWRITING, unmanaged=GUARD_LIST), NOTHING, Cause.UNMANAGED, OVERWRITING),
        (of(ADOPTING, unmanaged=GUARD_LIST), NOTHING, Cause.UNMANAGED, ADOPTING),
        # A copy of a claiming rule does.
        (of(A, copy=Copy("a")), NOTHING, Cause.UP_TO_DATE, A),
        (of(A, copy=Copy("a", "old")), REPLACE, Cause.CHANGED, A),
        (of(A, copy=Copy("a", "drifted")), REPLACE, Cause.DRIFTED, A),
        (of(A, B, copy=Copy("b")), NOTHING, Cause.UP_TO_DATE, B),
        (of(A, B, copy=Copy("b", "old")), REPLACE, Cause.CHANGED, B),
        (of(BROKEN, copy=Copy("a")), NOTHING, Cause.BROKEN, BROKEN),
        (of(PAUSED, copy=Copy("a", "old")), NOTHING, Cause.PAUSED, PAUSED),
        (of(A, copy=Copy("a", deleting=True)), NOTHING, Cause.BEING_DELETED, A),
        # Others change a copy back each time: it is written after a pause, and deleted at once.
        (of(A, copy=Copy("a", "drifted"), contested=True), NOTHING, Cause.CONTESTED, A),
        (of(A, copy=Copy("a", "old"), contested=True), NOTHING, Cause.CONTESTED, A),
        (of(A, contested=True), NOTHING, Cause.CONTESTED, A),
        (of(A, marks="a", contested=True), NOTHING, Cause.CONTESTED, A),
        (of(copy=Copy("x"), contested=True, **CONDEMNED), Action.DELETE, Cause.UNWANTED, None),
        (of(copy=Copy("x"), contested=True, **ORPHANED), Action.RELEASE, Cause.UNWANTED, None),
        (of(A, copy=Copy("a"), contested=True), NOTHING, Cause.UP_TO_DATE, A),
        # A copy does whose rule doesn't claim it.
        (of(A, copy=Copy("x"), **KEEPS), NOTHING, Cause.OWNED_BY_OTHER, None),
        (of(copy=Copy("x"), **KEEPS), NOTHING, Cause.OWNED_BY_OTHER, None),
        (of(A, copy=Copy("x"), **RELEASED), REPLACE, Cause.TAKEN_OVER, A),
        (of(A, copy=Copy("x")), REPLACE, Cause.TAKEN_OVER, A),
        (of(copy=Copy("x")), NOTHING, Cause.ABANDONED, None),
        (of(copy=Copy("x"), **RELEASED), Action.ASK_OWNER, Cause.UNWANTED, None),
        (of(copy=Copy("x"), **CONDEMNED), Action.DELETE, Cause.UNWANTED, None),
        (of(copy=Copy("x"), **ORPHANED), Action.RELEASE, Cause.UNWANTED, None),
        (of(copy=Copy("x"), open=False, **CONDEMNED), NOTHING, Cause.NAMESPACE_CLOSED, None),
        # An object that carries our label but isn't ours counts as unmanaged.
        (of(A, copy=Copy("")), CREATE, Cause.MISSING, A),
        (of(copy=Copy("")), NOTHING, Cause.UNWANTED, None),
        # One that carries a rule's marks without a seal is that rule's to read, and nobody else's.
        (of(A, B, marks="b"), Action.RESEAL, Cause.UNSEALED, B),
        (of(A, marks="b"), CREATE, Cause.MISSING, A),
        (of(marks="b"), NOTHING, Cause.UNWANTED, None),
        (of(A, copy=Copy("", marks="a", deleting=True)), NOTHING, Cause.BEING_DELETED, A),
        (of(PAUSED, marks="a"), NOTHING, Cause.PAUSED, PAUSED),
        (of(A, marks="a", is_source=True), NOTHING, Cause.IS_SOURCE, None),
        (of(marks="a", **CONDEMNED), NOTHING, Cause.UNWANTED, None),
    ],
)
def test_each_situation_has_one_answer(situation, act, why, winner):
    assert plan(**situation) == CopyDecision(act, why, winner)


requests = st.builds(
    Request,
    owner=st.sampled_from("abc"),
    content=st.sampled_from(["right", "other", None]),
    paused=st.booleans(),
    on_conflict=st.sampled_from(ConflictPolicy),
    adopting=st.booleans(),
    pending=st.booleans(),
)
situations = st.builds(
    TargetState,
    requests=st.lists(requests, max_size=4),
    existing=st.none()
    | st.builds(
        Copy,
        owner=st.sampled_from(["a", "b", "c", "gone", ""]),
        content=st.sampled_from(["right", "other", "old", "drifted"]),
        deleting=st.booleans(),
        marks=st.sampled_from(["a", "b", "gone", ""]),
    ),
    open=st.booleans(),
    owner_state=st.sampled_from(OwnerState),
    deletion=st.sampled_from(DeletionPolicy),
    unmanaged=st.none() | st.just(UNMANAGED),
    satisfied=st.none() | requests.map(lambda request: request.terms),
    is_source=st.booleans(),
)


def carried_out(now: TargetState, done: CopyDecision) -> TargetState:
    """The world after the write."""
    if done.act in (Action.CREATE, Action.REPLACE, Action.ADOPT, Action.RESEAL):
        assert done.winner is not None
        assert done.winner.content is not None
        made = Copy(done.winner.owner, done.winner.content)
        return replace(now, existing=made, unmanaged=None)
    if done.act is Action.DELETE:
        return replace(now, existing=None)
    if done.act is Action.RELEASE:
        return replace(now, existing=None, unmanaged=UNMANAGED)
    return now


def consistent(now: TargetState) -> bool:
    """An unmanaged object and our copy can't stand at one place; a look finds one of them."""
    existing = now.existing
    if existing is not None and existing.owner:
        return now.unmanaged is None and not existing.marks
    return True


@settings(max_examples=MANY)
@given(situations.filter(consistent))
def test_a_plan_that_is_carried_out_leaves_nothing_to_do(now):
    first = plan_copy(now)
    after = carried_out(now, first)
    second = plan_copy(after)
    assert second.act in (Action.NOTHING, Action.ASK_OWNER)
    if second.act is Action.ASK_OWNER:
        assert first.act is Action.ASK_OWNER
    if now.open and not now.is_source:
        assert_desired(now, after)  # to do nothing at all isn't enough


def holder(now: TargetState) -> Request | None:
    """The claim that the target goes to by docs/rules.md, written down without the planner."""
    existing = now.existing
    named = (existing.owner or existing.marks) if existing else ""
    keeper = next((request for request in now.requests if request.owner == named), None)
    if keeper is not None:
        return None if existing.deleting else keeper
    if existing and existing.owner and (existing.deleting or now.owner_state is OwnerState.KEEPS):
        return None
    heir = next((request for request in now.requests if not request.paused), None)
    if heir is None or (existing and existing.owner):
        return heir
    if now.unmanaged is not None:
        return heir if heir.on_conflict is ConflictPolicy.OVERWRITE or heir.adopting else None
    return heir if now.satisfied != heir.terms else None


def assert_desired(now: TargetState, after: TargetState) -> None:
    winner = holder(now)
    if winner is None or winner.paused or winner.broken or winner.pending:
        assert after == now or now.owner_state is OwnerState.CONDEMNED
    else:
        assert (after.existing.owner, after.existing.content) == (winner.owner, winner.content)


@given(
    existing=st.builds(Copy, owner=st.just("gone"), content=st.sampled_from(["right", "drifted"])),
    requests=st.lists(st.builds(replace, requests, paused=st.just(True)), max_size=3),
    deletion=st.sampled_from(DeletionPolicy),
)
def test_a_copy_that_nobody_wants_and_its_rule_condemned_is_gone_or_nobodys(
    existing, requests, deletion
):
    now = TargetState(
        requests, existing, open=True, owner_state=OwnerState.CONDEMNED, deletion=deletion
    )
    after = carried_out(now, plan_copy(now))
    assert after.existing is None
    assert (after.unmanaged is None) == (deletion is DeletionPolicy.DELETE)


@settings(max_examples=MANY)
@given(situations.filter(consistent))
def test_nobody_elses_object_and_nothing_that_is_held_or_wanted_is_touched(now):
    done = plan_copy(now)
    owner = now.existing.owner if now.existing else ""
    is_wanted = any(request.owner == owner for request in now.requests)
    if not now.open:
        assert done.act is Action.NOTHING
    if done.act in (Action.CREATE, Action.REPLACE, Action.ADOPT, Action.RESEAL):
        assert not done.winner.paused
    # An object that isn't ours is touched only when the rule says so.
    if done.act is Action.ADOPT:
        assert now.unmanaged is not None
        assert done.winner.on_conflict is ConflictPolicy.OVERWRITE or done.winner.adopting
    if done.act in (Action.DELETE, Action.RELEASE, Action.REPLACE):
        assert owner
    if done.act is Action.RESEAL:
        assert now.existing.marks == done.winner.owner
    # What a rule holds no other rule takes.
    if owner and is_wanted and done.winner:
        assert done.winner.owner == owner
    if owner and now.owner_state is OwnerState.KEEPS and not is_wanted:
        assert done.act is Action.NOTHING
    # Nothing is deleted that is wanted or that its rule didn't condemn.
    if done.act in (Action.DELETE, Action.RELEASE):
        assert now.owner_state is OwnerState.CONDEMNED
        assert not is_wanted


# --- spec.maxDelete: which deletions of an edited rule need a confirmation ------------------------


def keys(count: int, name: str = "app") -> frozenset[CopyKey]:
    return frozenset(CopyKey("secrets", f"team-{number}", name) for number in range(count))


@pytest.mark.parametrize(
    ("deleted", "had", "max_delete", "needs"),
    [
        (20, 20, 50, False),
        (21, 21, 50, True),
        (21, 42, 50, False),
        (21, 41, 50, True),
        (50, 100, 50, False),
        (51, 100, 50, True),
        (100, 100, 99, True),
        (100, 100, 100, False),
        (101, 100, 100, False),
        (21, 10_000, 0, True),
        (20, 10_000, 0, False),
        (0, 0, 0, False),
    ],
)
def test_more_than_the_share_and_more_than_20(deleted, had, max_delete, needs) -> None:
    found = judge_edit(4, keys(deleted), had, max_delete)
    assert found == (Unconfirmed(4, keys(deleted), had) if needs else None)


RENAMED = Unconfirmed(4, keys(30), 30)
OF_BEFORE = Unconfirmed(4, None, 30)
"""As it is known after a restart."""


@pytest.mark.parametrize(
    ("deleted", "had", "max_delete", "earlier", "told"),
    [
        # Copies made meanwhile don't make the deletion smaller; the next edit changes other things.
        (keys(30), 60, 50, None, None),
        (keys(30), 60, 50, RENAMED, 30),
        # An edit that is taken back deletes what it made.
        (keys(30, "new"), 60, 50, RENAMED, None),
        # One that deletes fewer is judged by those.
        (keys(20), 40, 50, Unconfirmed(4, keys(30), 40), None),
        (keys(21), 60, 50, Unconfirmed(4, keys(30), 40), 40),
        # After a restart the same copies are assumed.
        (keys(30, "new"), 60, 50, OF_BEFORE, 30),
        (keys(15), 60, 50, OF_BEFORE, None),
        # A raised share lets it through.
        (keys(30), 30, 100, RENAMED, None),
    ],
)
def test_an_edit_after_one_that_is_unconfirmed(deleted, had, max_delete, earlier, told) -> None:
    expected = None if told is None else Unconfirmed(5, deleted, told)
    assert judge_edit(5, deleted, had, max_delete, earlier) == expected


# --- Which namespaces are a rule's targets --------------------------------------------------------


def body(name, **metadata):
    return {"metadata": {"name": name, "uid": "u", "resourceVersion": "1", **metadata}}


def known(*found):
    namespaces = Namespaces()
    for namespace in found:
        namespaces.put(Namespace.from_metadata(namespace))
    return namespaces


@pytest.mark.parametrize(
    ("metadata", "is_target"),
    [
        ({}, True),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, False),
        ({"labels": {"copyrator.flant.com/ignore": "true"}}, False),
        ({"labels": {"copyrator.flant.com/ignore": "false"}}, True),
    ],
)
def test_terminating_and_opted_out_namespaces_are_no_targets(metadata, is_target):
    assert Namespace.from_metadata(body("x", **metadata)).is_target is is_target


def test_kubectls_annotations_are_not_held():
    namespace = Namespace.from_metadata(
        body("x", annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b"})
    )
    assert namespace.annotations == {"a": "b"}


def settled(targets):
    asyncio.run(targets.settle(TimeSlice()))
    return targets


TARGETS = Targets(
    namespaces=Globs(("team-*",)),
    exclude=Globs(("team-x",)),
    selector=LabelSelector.from_labels({"tier": "front"}),
)


def test_a_target_set_follows_the_namespaces():
    namespaces = known(body("team-a", labels={"tier": "front"}), body("team-b"), body("other"))
    targets = settled(namespaces.targets(TARGETS))
    assert list(targets) == ["team-a"]
    namespaces.put(Namespace.from_metadata(body("team-b", labels={"tier": "front"})))
    settled(targets)
    assert set(targets) == {"team-a", "team-b"}
    namespaces.put(Namespace.from_metadata(body("team-x", labels={"tier": "front"})))
    assert "team-x" not in targets
    namespaces.put(
        Namespace.from_metadata(body("team-a", labels={"tier": "front"}, deletionTimestamp="x"))
    )
    assert set(settled(targets)) == {"team-b"}
    namespaces.drop("team-b")
    assert len(targets) == 0


def test_a_namespace_is_judged_when_it_is_asked_about_and_counted_when_all_are():
    namespaces = known(body("team-a", labels={"tier": "front"}), body("team-b"))
    targets = namespaces.targets(TARGETS)
    assert not targets.settled
    assert len(targets) == 0
    assert "team-a" in targets
    assert "team-b" not in targets
    assert "nowhere" not in targets
    assert targets.settled
    namespaces.put(Namespace.from_metadata(body("team-a")))
    assert targets.had("team-a")
    assert "team-a" not in targets
    assert not targets.had("team-a")


def test_rules_that_say_the_same_share_a_set_as_long_as_anybody_holds_it():
    namespaces = known(body("a"))
    first = namespaces.targets(Targets())
    assert namespaces.targets(Targets()) is first
    del first
    gc.collect()
    assert len(namespaces._sets) == 0
