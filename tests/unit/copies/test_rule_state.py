"""The transitions of what is known of a rule while it is served."""

from types import SimpleNamespace
from typing import Any

import pytest

from copyrator.api.keys import CopyKey, RuleKey
from copyrator.api.rule_status import read_rule_status
from copyrator.copies.rules.state import RulePhase, RuleState
from copyrator.copies.rules.summarize import RuleSummary
from copyrator.copies.targets.planning import Unconfirmed

A, B = CopyKey("secrets", "a", "x"), CopyKey("secrets", "b", "x")


@pytest.fixture
def state() -> RuleState:
    return RuleState(RuleKey("ops", "rule"))


def watch() -> Any:
    """A registration whose reflector lists when it is told."""
    reflector = SimpleNamespace(lists=3, asked=0)
    reflector.relist = lambda: setattr(reflector, "asked", reflector.asked + 1)
    return Watch(reflector)


def compiled(*, active: bool = True, **status: Any) -> Any:
    """A rule's version, with the status that the rule has when it is served."""
    rule = SimpleNamespace(status=read_rule_status({"status": status}))
    return SimpleNamespace(active=active, rule=rule)


class Watch:
    def __init__(self, reflector: Any) -> None:
        self.reflector = reflector
        self.synced = True
        self.released = 0

    def release(self) -> None:
        self.released += 1


def test_a_new_version_deletes_nothing_that_was_decided_for_the_old_one(state: RuleState) -> None:
    state.phase = RulePhase.SERVING
    state.deletions.condemned = {A, B}
    assert state.phase is RulePhase.SERVING
    state.begin(compiled(), 2)
    assert (state.phase, state.generation, state.deletions.condemned) == (
        RulePhase.INCOMPLETE,
        2,
        set(),
    )


def test_the_end_gives_the_watches_back_once(state: RuleState) -> None:
    one = watch()
    state.begin(compiled(), 2)
    state.sources = [one]
    state.deletions.condemned = {A}
    state.end()
    assert one.released == 1
    assert (state.compiled, state.generation, state.deletions.condemned) == (None, 0, set())
    state.end()
    assert one.released == 1


def test_a_second_list_confirms_only_when_every_watch_has_made_it(state: RuleState) -> None:
    one, two = watch(), watch()
    assert not state.deletions.listed_again([one, two])
    assert not state.deletions.listed_again([one, two])
    assert (one.reflector.asked, two.reflector.asked) == (1, 1)
    one.reflector.lists = 4
    assert not state.deletions.listed_again([one, two])
    two.reflector.lists, two.synced = 4, False
    assert not state.deletions.listed_again([one, two])
    two.synced = True
    assert state.deletions.listed_again([one, two])


def test_what_is_spared_has_to_be_listed_twice_again(state: RuleState) -> None:
    one = watch()
    state.deletions.listed_again([one])
    one.reflector.lists = 4
    state.deletions.spare()
    assert not state.deletions.listed_again([one])


def test_a_request_is_taken_once(state: RuleState) -> None:
    assert not state.take_request(None, None)
    assert not state.take_request("1", "1")
    assert state.take_request("2", "1")
    assert not state.take_request("2", "1")
    assert state.take_request("3", "1")


def test_a_request_to_seal_anew_is_taken_once(state: RuleState) -> None:
    assert not state.take_reseal(None)
    assert state.take_reseal("1")
    assert not state.take_reseal("1")


def test_the_lag_is_from_the_first_change_to_the_last_write(state: RuleState) -> None:
    assert state.lag.take() is None
    state.lag.change(10.0)
    state.lag.change(12.0)
    with state.lag.writing():
        state.wrote(15.0)
        assert state.lag.take() is None, "a write is under way"
    assert state.lag.take() == 5.0
    assert state.lag.take() is None
    state.lag.change(20.0)
    assert state.lag.take() is None, "nothing had to be written"
    assert state.lag.changed_at is None


def test_what_an_earlier_process_decided_is_no_edit(state: RuleState) -> None:
    edit = Unconfirmed(3, None, 9)
    state.deletions.recall(2, edit)
    assert (state.deletions.confirmed, state.deletions.unconfirmed, state.deletions.recalled) == (
        2,
        edit,
        True,
    )
    assert state.deletions.is_unconfirmed(3)
    assert not state.deletions.take_edit()
    state.deletions.confirm(3)
    assert (state.deletions.confirmed, state.deletions.unconfirmed) == (3, None)
    assert (state.deletions.take_edit(), state.deletions.take_edit()) == (True, False)


def test_the_copies_before_a_generation_are_counted_once(state: RuleState) -> None:
    assert (state.deletions.count_before(7), state.deletions.count_before(3)) == (7, 7)
    state.begin(compiled(), 2)
    assert state.deletions.count_before(3) == 3


def test_a_status_is_never_due_earlier(state: RuleState) -> None:
    state.delay_status(5.0)
    state.delay_status(4.0)
    assert state.next_status == 5.0


def test_a_paused_rule_keeps_its_phase(state: RuleState) -> None:
    paused = compiled(active=False)
    state.resume()  # nothing is served yet
    state.begin(paused, 2)
    state.phase = RulePhase.SERVING
    state.resume()
    assert paused.active
    state.pause()
    assert (paused.active, state.phase) == (False, RulePhase.SERVING)


def test_dropped_fields_are_those_of_the_versions_own_writes(state: RuleState) -> None:
    state.begin(compiled(), 2)
    assert state.dropped is None
    state.wrote(1.0)  # a deletion
    assert state.dropped is None
    state.wrote(2.0, set())
    assert state.dropped == set()
    state.wrote(3.0, {"spec.a"})
    state.wrote(4.0, {"spec.b"})
    state.wrote(5.0, set())
    assert state.dropped == {"spec.a", "spec.b"}
    state.begin(compiled(observedGeneration=2, droppedFields=["spec.a", "spec.b"]), 3)
    assert state.dropped is None


def test_dropped_fields_of_an_earlier_process_stay_until_an_edit(state: RuleState) -> None:
    state.begin(compiled(observedGeneration=2, droppedFields=["spec.a", 5]), 2)
    assert state.dropped == {"spec.a"}
    state.wrote(1.0, set())
    assert state.dropped == {"spec.a"}


@pytest.mark.parametrize(
    ("unwanted", "kept", "mass"), [(20, 0, False), (21, 20, True), (21, 21, False), (21, 30, False)]
)
def test_a_mass_deletion_is_more_than_20_and_more_than_half(
    unwanted: int, kept: int, mass: bool
) -> None:
    keys = [CopyKey("secrets", f"team-{number}", "x") for number in range(unwanted)]
    assert RuleSummary(kept=kept, unwanted=keys).is_mass_deletion is mass
