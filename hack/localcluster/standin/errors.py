"""Errors of the stand-in."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

PACE = "COPYRATOR_WERF_PACE"
"""The variable that says how long the waits between tries are, against the real one's; 0.1."""


class WerfError(Exception):
    """Ends a command: the message is printed as ``Error: <message>``, the exit code is `code`.

    Nearly every function of the stand-in may raise it: a docstring names it only where there is
    more to know.
    """

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


def failure(of: str, causes: Sequence[str]) -> WerfError:
    """An error with one or more causes, in the layout of nelm's MultiError."""
    if len(causes) == 1:
        return WerfError(f"{of}: {causes[0]}")
    listed = "".join(f"\n  * {cause}" for cause in causes)
    return WerfError(f"{of}: {len(causes)} errors occurred:{listed}")


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Put before the message of an error what was being done, as werf does."""
    try:
        yield
    except WerfError as error:
        raise WerfError(f"{what}: {error}") from None


def pause(seconds: float) -> None:
    """Wait between tries of what failed; so long the real one waits."""
    time.sleep(seconds * float(os.environ.get(PACE) or 0.1))
