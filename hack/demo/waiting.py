"""Wait for a real state with a deadline, so that a step that doesn't happen fails and says why."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PAUSE = 0.05
"""Seconds between the first looks: below what a reader notices."""
SECONDS = 60.0
"""Deadline of each step: far more than it takes, so that only what is broken fails."""
LONGEST = 0.25
"""Between later ones, which are a tenth of the time waited: not to load the machine."""


class NotYet(Exception):  # noqa: N818 - it is a state of affairs, not an error
    """What was looked for isn't there yet; the text says what stands there instead."""


class StepFailed(Exception):  # noqa: N818 - names the event that ends the demo
    """A step didn't happen within its deadline; the text is for the person at the screen."""


def until(look: Callable[[], T], *, what: str, seconds: float = SECONDS) -> T:
    """Call `look` until it returns instead of raising NotYet.

    Args:
        look: returns the state that was waited for, or raises NotYet.
        what: the awaited state, to be read after "waited for".
        seconds: the deadline, in seconds from now.

    Raises:
        StepFailed: the deadline passed; the text has the last NotYet's.
    """
    began = time.monotonic()
    while True:
        try:
            return look()
        except NotYet as seen:
            waited = time.monotonic() - began
            if waited >= seconds:
                msg = f"waited {seconds:.0f} s for {what}; last observed: {seen}"
                raise StepFailed(msg) from None
        time.sleep(min(max(PAUSE, waited / 10), LONGEST))


def stays(look: Callable[[], T], *, seconds: float) -> T:
    """Call `look` for `seconds` and return its last answer; whatever it raises ends the wait."""
    deadline = time.monotonic() + seconds
    while True:
        seen = look()
        if time.monotonic() >= deadline:
            return seen
        time.sleep(LONGEST)
