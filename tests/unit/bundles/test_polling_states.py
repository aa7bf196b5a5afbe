"""Each transition of a Bundle's polls from each state, and what is known beside the state."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.replacing import replace

from copyrator.bundles.engine.poll import (
    Answered,
    Asked,
    DesiredVersion,
    Failures,
    Idle,
    Poll,
    Polling,
    Settled,
)
from copyrator.oci.errors import RegistryUnreachable

THEN, NOW = (datetime(2026, 1, 1, hour, tzinfo=UTC) for hour in (11, 12))
KNOWN, OTHER = ("5", "1.0.0"), ("6", "1.0.1")
POLL = Poll(100.0, THEN, request="a", confirmed=110.0)
UNCONFIRMED = replace(POLL, confirmed=None)
WANTED = DesiredVersion(1, "spec", None, "a", "")

State = Idle | Asked | Answered | Settled
Event = Callable[[Polling], object]

IDLE, SETTLED = Idle(), Settled(KNOWN)
ASKED, ANSWERED = Asked(POLL, KNOWN), Answered(POLL, KNOWN)
NEW = Poll(200.0, NOW)

EVENTS: dict[str, Event] = {
    "begin": lambda one: one.begin(200.0, NOW, "b"),
    "push": lambda one: one.push(200.0, 202.0, NOW),
    "decide_again": lambda one: one.decide_again(200.0, NOW),
    "answer": lambda one: one.answer(),
    "confirm": lambda one: one.confirm(300.0),
    "settle": lambda one: one.settle(OTHER),
    "unsettle": lambda one: one.unsettle(),
    "handle": lambda one: one.handle(WANTED, 300.0),
    "forget": lambda one: one.forget(),
}
AFTER: dict[str, tuple[State, State, State, State]] = {
    # from Idle, Settled, Asked, Answered
    "begin": (
        Asked(replace(NEW, request="b")),
        Asked(replace(NEW, request="b"), KNOWN),
        Asked(replace(NEW, request="b", confirmed=110.0), KNOWN),
        Asked(replace(NEW, request="b", confirmed=110.0), KNOWN),
    ),
    "push": (
        Asked(NEW),
        Asked(NEW, KNOWN),
        Asked(replace(NEW, request="a", confirmed=110.0), KNOWN),
        Asked(replace(NEW, request="a", confirmed=110.0), KNOWN),
    ),
    "decide_again": (Asked(NEW), Asked(NEW), Asked(POLL), Asked(POLL)),
    "answer": (IDLE, SETTLED, ANSWERED, ANSWERED),
    "confirm": (
        IDLE,
        SETTLED,
        Asked(replace(POLL, confirmed=300.0), KNOWN),
        Asked(replace(POLL, confirmed=300.0), KNOWN),
    ),
    "settle": (IDLE, SETTLED, ASKED, Answered(POLL, OTHER)),
    "unsettle": (IDLE, IDLE, Asked(POLL), Answered(POLL)),
    "handle": (IDLE, SETTLED, Asked(UNCONFIRMED, KNOWN), SETTLED),
    "forget": (IDLE, IDLE, IDLE, IDLE),
}


@pytest.mark.parametrize("column", range(4), ids=["Idle", "Settled", "Asked", "Answered"])
@pytest.mark.parametrize("name", EVENTS)
def test_each_event_leads_from_each_state_to_one(name: str, column: int) -> None:
    polling = Polling((IDLE, SETTLED, ASKED, ANSWERED)[column])
    EVENTS[name](polling)
    assert polling.state == AFTER[name][column]


def test_an_answer_for_which_there_is_something_to_do_settles_nothing() -> None:
    polling = Polling(Answered(POLL))
    polling.handle(WANTED, 300.0)
    assert polling.state == IDLE


@pytest.mark.parametrize(
    ("state", "poll", "known"),
    [
        (IDLE, None, None),
        (SETTLED, None, KNOWN),
        (ASKED, POLL, KNOWN),
        (ANSWERED, POLL, KNOWN),
        (Answered(POLL), POLL, None),
    ],
)
def test_a_state_tells_its_poll_and_what_needs_no_decision(
    state: State, poll: Poll | None, known: tuple[object, ...] | None
) -> None:
    polling = Polling(state)
    assert polling.poll == poll
    assert polling.is_settled(KNOWN) == (known == KNOWN)
    assert not polling.is_settled(OTHER)


@pytest.mark.parametrize(
    ("state", "handled", "token", "is_for"),
    [
        (IDLE, None, "", False),
        (SETTLED, WANTED, "a", False),
        (ASKED, None, "", True),
        (ANSWERED, None, "", True),
        (ASKED, None, "a", True),
        (ASKED, None, "b", False),
        (ASKED, WANTED, "", True),
        (ASKED, WANTED, "b", False),
        (Asked(NEW), None, "a", False),
        (Asked(NEW), WANTED, "a", True),
        (Asked(NEW), replace(WANTED, request=""), "a", False),
    ],
)
def test_a_request_waits_for_no_poll_but_that_which_began_before_it(
    state: State, handled: DesiredVersion | None, token: str, *, is_for: bool
) -> None:
    assert Polling(state, handled).is_for(token) == is_for


def test_a_push_is_polled_for_twice_unless_a_later_poll_accepts_no_older_answer() -> None:
    polling = Polling()
    polling.push(200.0, 202.0, NOW)
    assert polling.again == 202.0
    polling.begin(201.9, NOW)
    assert polling.poll == Poll(201.9, NOW)
    assert polling.again == 202.0
    polling.begin(202.0, NOW)
    assert polling.again is None
    polling.push(300.0, 302.0, NOW)
    polling.forget()
    assert polling.again == 302.0
    polling.push(303.0, 305.0, NOW)
    assert polling.again == 305.0


@pytest.mark.parametrize("state", [IDLE, SETTLED, ASKED, ANSWERED])
def test_what_was_handled_is_known_in_each_state_until_it_is_forgotten(state: State) -> None:
    polling = Polling(state)
    polling.handle(WANTED, 300.0)
    assert polling.handled == WANTED
    polling.begin(400.0, NOW)
    polling.answer()
    assert polling.handled == WANTED
    polling.forget()
    assert polling.handled is None


def test_only_a_poll_that_did_not_fail_counts_as_the_last_one() -> None:
    polling = Polling(ANSWERED, failures=Failures(since=100.0))
    polling.failures = polling.failures.including(RegistryUnreachable("gone"))
    polling.handle(WANTED, 300.0)
    assert polling.failures.since == 100.0
    polling.failures = Failures(unsigned=2, since=100.0)
    polling.handle(WANTED, 400.0)
    assert polling.failures == Failures(unsigned=2, since=400.0)


def test_an_error_is_counted_once_however_often_it_is_decided_on() -> None:
    first, second = RegistryUnreachable("gone"), RegistryUnreachable("gone")
    failures = Failures(unsigned=3, since=100.0).including(first)
    assert failures == Failures(1, first, unsigned=3, since=100.0)
    assert failures.including(first) is failures
    assert failures.including(second) == Failures(2, second, unsigned=3, since=100.0)


class Polls(RuleBasedStateMachine):
    """One Bundle: whatever happens while an answer is decided on isn't lost."""

    def __init__(self) -> None:
        super().__init__()
        self.polling = Polling()
        self.now = 0.0
        self.news: float | None = None
        """When something happened that no decision was begun after; None: nothing."""
        self.pushed: float | None = None
        """The last push that no decision was begun after."""
        self.deciding = False

    @rule(seconds=st.sampled_from([0.0, 0.5, 60.0]))
    def let_pass(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def push(self) -> None:
        self.polling.push(self.now, self.now + 2.0, NOW)
        self.news = self.pushed = self.now

    @rule()
    def change_a_gate(self) -> None:
        self.polling.decide_again(self.now - 600.0, NOW)
        self.news = self.now

    @precondition(lambda self: not self.deciding)
    @rule(older=st.sampled_from([0.0, 1.0, 300.0]))
    def reconcile(self, older: float) -> None:
        if self.polling.poll is None:
            self.polling.begin(self.now - older, NOW)

    @precondition(lambda self: self.polling.poll is not None and not self.deciding)
    @rule()
    def answer(self) -> None:
        self.polling.answer()
        self.deciding, self.news, self.pushed = True, None, None

    @precondition(lambda self: self.deciding)
    @rule(settles=st.booleans(), fails=st.booleans())
    def end_the_decision(self, *, settles: bool, fails: bool) -> None:
        if settles:
            self.polling.settle(KNOWN)
        if not fails:
            self.polling.handle(WANTED, self.now)
            assert (self.polling.poll is None) == (self.news is None)
            assert not settles or self.polling.state == SETTLED or self.news is not None
        self.deciding = False

    @invariant()
    def what_happened_is_decided_on(self) -> None:
        if self.news is not None:
            assert isinstance(self.polling.state, Asked)

    @invariant()
    def no_answer_from_before_a_push_is_accepted(self) -> None:
        if self.pushed is not None:
            assert self.polling.poll is not None
            assert self.polling.poll.since >= self.pushed

    @invariant()
    def what_is_asked_after_a_change_is_decided_on_though_it_is_the_same(self) -> None:
        if self.news is not None and self.pushed is None:
            assert not self.polling.is_settled(KNOWN)


TestPolls = Polls.TestCase
