"""Errors of the stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class WerfError(Exception):
    """Ends a command: the message is printed as ``Error: <message>``, the exit code is `code`."""

    code = 1


class ChangesPlannedError(WerfError):
    """`bundle plan --exit-code` found changes: printed like an error, with a code of its own."""

    code = 2


class ReleasePlannedError(ChangesPlannedError):
    """Only the release has to be stored; werf 3 has a code for that."""

    code = 3


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Put before the message of an error what was being done, as werf does."""
    try:
        yield
    except WerfError as error:
        raise WerfError(f"{what}: {error}") from None
