"""A finding of `copyrator doctor`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from copyrator.kube import errors


@dataclass(frozen=True, slots=True)
class Check:
    """One finding; `good` is None where it couldn't be checked, or is only information."""

    what: str
    good: bool | None
    said: str


async def readable(what: str, checks: AsyncIterator[Check]) -> list[Check]:
    """The findings, up to the first request that the user has no permission for."""
    found: list[Check] = []
    try:
        async for check in checks:
            found.append(check)  # noqa: PERF401 - what came before an error counts
    except errors.Forbidden as error:
        found.append(Check(what, None, f"you have no permission to check it: {error.message}"))
    return found
