"""A rule's status waits for its copies, but not for ever."""

from contextlib import ExitStack

import pytest

from copyrator.api.keys import RuleKey
from copyrator.copies.rules.state import RuleState

NOW, SETTLING = 100.0, 0.2


@pytest.mark.parametrize(
    ("queued", "wrote", "writing", "until"),
    [
        (False, None, False, 0.0),
        (False, NOW - 1.0, False, 0.0),
        (True, None, False, NOW + SETTLING),
        (False, NOW - 0.1, False, NOW + SETTLING),
        (False, None, True, NOW + SETTLING),
    ],
)
def test_it_is_delayed_while_copies_are_queued_or_written(
    queued: bool, wrote: float | None, writing: bool, until: float
) -> None:
    state = RuleState(RuleKey("home", "rule"))
    if wrote is not None:
        state.wrote(wrote)
    with ExitStack() as stack:
        if writing:
            stack.enter_context(state.lag.writing())
        state.await_copies(NOW, SETTLING, queued=queued)
    assert state.next_status == until


def test_it_isn_t_delayed_beyond_the_first_change_that_must_be_in_it() -> None:
    state = RuleState(RuleKey("home", "rule"))
    for by in (NOW + 5.0, NOW + 0.1, NOW + 9.0):
        state.note_change(by)
    state.await_copies(NOW, SETTLING, queued=True)
    assert state.next_status == NOW + 0.1
    state.await_copies(NOW + 3.0, SETTLING, queued=True)
    assert state.next_status == NOW + 0.1
    state.delay_status(NOW + 1.0)
    state.delay_status(NOW)
    assert state.next_status == NOW + 1.0
