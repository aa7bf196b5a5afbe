"""Wait for a real state with a deadline, so that a step that doesn't happen fails and says why."""

import time
from collections.abc import Callable
from typing import TypeVar

from localcluster.waiting import eventually

T = TypeVar("T")

PAUSE = 0.1
"""Seconds between looks: below what a reader notices."""
SECONDS = 60.0
"""Deadline of each step: far more than it takes, so that only what is broken fails."""


class NotYet(AssertionError):  # noqa: N818 - it is a state of affairs, not an error
    """What was looked for isn't there yet; the text says what stands there instead."""


class StepFailed(Exception):  # noqa: N818 - names the event that ends the demo
    """A step didn't happen within its deadline; the text is for the person at the screen."""


def until(look: Callable[[], T], *, what: str, seconds: float = SECONDS) -> T:
    """Call `look` until it returns instead of raising NotYet.

    Args:
        look: returns the state that was waited for, or raises NotYet.
        what: the awaited state, for the message.
        seconds: the deadline, in seconds from now.

    Raises:
        StepFailed: the deadline passed; the text has the last NotYet's.
    """
    try:
        (seen,) = eventually(lambda: (look(),), what, seconds, PAUSE)
    except TimeoutError as error:
        raise StepFailed(str(error)) from None
    return seen


def stays(look: Callable[[], T], *, seconds: float) -> T:
    """Call `look` for `seconds` and return its last answer; whatever it raises ends the wait."""
    deadline = time.monotonic() + seconds
    while True:
        seen = look()
        if time.monotonic() >= deadline:
            return seen
        time.sleep(PAUSE)
