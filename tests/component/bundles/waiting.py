"""Waiting for a condition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any


async def eventually(look: Callable[[], Any], what: str = "", seconds: float = 240.0) -> Any:
    """Look until the answer is true; a deadline tells a hang from a machine that is busy.

    Ever less often, at least each 40 ms: to wake up and look costs as much as many a test.
    """
    deadline = asyncio.get_running_loop().time() + seconds
    pause = 0.01
    while not (found := look()):
        assert asyncio.get_running_loop().time() < deadline, f"{what}; last seen: {found}"
        await asyncio.sleep(pause)
        pause = min(1.1 * pause, 0.04)
    return found


async def given_up(cluster: Any, operator: Any, name: str) -> str:
    """Why the operator has a Job ended, once it has."""

    def look() -> Any:
        operator.let_pass(timedelta(seconds=30))
        body = cluster.look("jobs", name) or {}
        return body["metadata"]["annotations"].get("operator.werf.dev/given-up")

    return str(await eventually(look))


async def polled(operator: Any, registry: Any, polls: int = 3) -> None:
    """Let time pass until a Bundle was polled: the first polls have been acted on.

    One takes two requests at most.
    """
    before = len(registry.asked)

    def look() -> bool:
        operator.let_pass(timedelta(seconds=1))
        return len(registry.asked) >= before + 2 * polls

    await eventually(look, "polls")


async def reconciled(operator: Any, times: int = 3) -> None:
    """Let time pass until so many further reconciles have begun: of a key in back-off, too."""
    before = len(operator.reconciled)

    def look() -> bool:
        operator.let_pass(timedelta(seconds=1))
        return len(operator.reconciled) > before + times

    await eventually(look, "it is reconciled")
