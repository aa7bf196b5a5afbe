"""Waiting on a condition with a deadline, for tests and for the demo: never a bare sleep."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(
    look: Callable[[], T], what: str, within_seconds: float = 120.0, every_seconds: float = 0.05
) -> T:
    """Look again and again until there is something true to see; what was seen.

    Args:
        look: the look; an AssertionError in it counts as "not yet" and is shown at the end.
        what: what is waited for, for the message.
        within_seconds: how long it may take.
        every_seconds: the pause between looks.

    Raises:
        TimeoutError: it didn't happen in time; says what was seen last.
    """
    deadline = time.monotonic() + within_seconds
    while True:
        failure: AssertionError | None = None
        seen: T | None = None
        try:
            seen = look()
        except AssertionError as error:
            failure = error
        if failure is None and seen:
            return seen
        if time.monotonic() > deadline:
            last = failure if failure is not None else repr(seen)
            raise TimeoutError(f"{what}: not within {within_seconds:.0f} s; last seen: {last}")
        time.sleep(every_seconds)
